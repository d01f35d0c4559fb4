//! Which ranges of a column's values the shards of a table have.

use datafusion::arrow::array::{AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::{ScalarValue, exec_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Column, Literal};
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use std::sync::Arc;

/// An entry of a schema's metadata with the column by whose values a table is in shards.
pub(crate) const SHARDED: &str = "lanetree.sharded";
/// Entries of a schema's metadata with the number of rows and the checksum of each shard.
pub(crate) const SHARD: &str = "lanetree.shard.";

/// The name of a shard's file.
pub(crate) fn shard_file(table: &str, number: usize, checksum: u32) -> String {
    format!("{table}.{number:04}.{checksum:08x}.shard")
}

/// What is known of a table in shards without opening one: its file has the ranges, and the checksums of the shards.
#[derive(Debug)]
pub struct Shards {
    pub(crate) identity: Arc<str>,
    pub(crate) schema: SchemaRef,
    /// The number of the indexed column, by whose values rows are in one shard or another.
    pub(crate) key: usize,
    /// The smallest value of each shard but the first.
    splits: Vec<ScalarValue>,
    pub(crate) rows_of: Vec<usize>,
    pub(crate) checksums: Vec<u32>,
}

impl Shards {
    /// Of a table's file, if it is that of a table in shards.
    pub(crate) fn of(identity: &str, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Option<Self>> {
        let Some(column) = schema.metadata().get(SHARDED) else { return Ok(None) };
        let wrong = |what: &str| exec_datafusion_err!("table {identity}: {what}");
        let key = schema.index_of(column)?;
        let (mut rows, mut checksums) = (Vec::new(), Vec::new());
        while let Some(entry) = schema.metadata().get(&format!("{SHARD}{}", rows.len())) {
            let parts = entry
                .split_once(' ')
                .and_then(|(rows, checksum)| Some((rows.parse().ok()?, u32::from_str_radix(checksum, 16).ok()?)));
            let (own, checksum) = parts.ok_or_else(|| wrong(&format!("shard {} is {entry:?}", rows.len())))?;
            rows.push(own);
            checksums.push(checksum);
        }
        let mut splits = Vec::new();
        for batch in batches {
            for row in 0..batch.num_rows() {
                splits.push(ScalarValue::try_from_array(batch.column(key), row)?);
            }
        }
        // The first shard begins with all values.
        splits.drain(..splits.len().min(1));
        if rows.is_empty() || splits.len() + 1 != rows.len() || splits.iter().any(ScalarValue::is_null) {
            return Err(wrong(&format!("{} shards and {} ranges", rows.len(), splits.len() + 1)));
        }
        if splits.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(wrong("the ranges are not in ascending order"));
        }
        // Those of the rows, which the table's own file has in its metadata.
        let mut metadata = schema.metadata().clone();
        metadata.retain(|entry, _| !entry.starts_with(SHARDED) && !entry.starts_with(SHARD));
        let schema = Arc::new(Schema::clone(schema).with_metadata(metadata));
        Ok(Some(Self { identity: identity.into(), schema, key, splits, rows_of: rows, checksums }))
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.rows_of.len()
    }

    /// How many rows all have.
    pub fn rows(&self) -> usize {
        self.rows_of.iter().sum()
    }

    pub(crate) fn key_name(&self) -> &str {
        self.schema.field(self.key).name()
    }

    pub(crate) fn key_type(&self) -> &DataType {
        self.schema.field(self.key).data_type()
    }

    /// The name of a shard's file.
    pub(crate) fn file(&self, number: usize) -> String {
        shard_file(self.identity.split('@').next().unwrap_or_default(), number, self.checksums[number])
    }

    /// An expression with a number for each key: the one that `numbers` has for its shard. It is made of what every DataFusion has.
    pub(crate) fn number_of(&self, key: &PhysicalExprRef, numbers: &dyn Fn(usize) -> u64) -> Result<PhysicalExprRef> {
        self.number_in(key, numbers, 0, self.count())
    }

    fn number_in(
        &self,
        key: &PhysicalExprRef,
        numbers: &dyn Fn(usize) -> u64,
        first: usize,
        end: usize,
    ) -> Result<PhysicalExprRef> {
        let literal = |value| -> PhysicalExprRef { Arc::new(Literal::new(value)) };
        if end - first == 1 {
            return Ok(literal(ScalarValue::UInt64(Some(numbers(first)))));
        }
        let middle = usize::midpoint(first, end);
        let split = literal(self.splits[middle - 1].clone());
        let is_below = Arc::new(BinaryExpr::new(key.clone(), Operator::Lt, split));
        let [below, above] = [(first, middle), (middle, end)].map(|(a, b)| self.number_in(key, numbers, a, b));
        Ok(Arc::new(CaseExpr::try_new(None, vec![(is_below, below?)], Some(above?))?))
    }
}

/// For each of so many partitions, a number that is put there when rows are partitioned by its hash.
pub(crate) fn numbers_of_partitions(partitions: usize) -> Result<Vec<u64>> {
    let mut numbers = vec![None; partitions];
    let column: PhysicalExprRef = Arc::new(Column::new("number", 0));
    let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::UInt64, false)]));
    let mut next = 0;
    while numbers.iter().any(Option::is_none) {
        let candidates = UInt64Array::from_iter_values(next..next + 16 * partitions as u64);
        next += candidates.len() as u64;
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(candidates)])?;
        let mut partitioner = BatchPartitioner::new_hash_partitioner(vec![column.clone()], partitions, Time::new())?;
        partitioner.partition(batch, |partition, rows| {
            if let [first, ..] = &rows.column(0).as_primitive::<UInt64Type>().values()[..] {
                numbers[partition].get_or_insert(*first);
            }
            Ok(())
        })?;
    }
    Ok(numbers.into_iter().flatten().collect())
}
