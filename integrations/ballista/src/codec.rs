use crate::lookup::ShardedLookupExec;
use crate::message::{
    Filter, IndexedColumn, Kind, Lookup, MAGIC, Match, Node, OfColumn, Range, Scan, ShardScan, ShardedLookup,
    all_narrow, end_from, end_to, missing, narrow, wide,
};
use crate::scan::{ShardScanExec, ShardedTable, provider};
use crate::tables::{Table, Tables};
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{JoinSide, JoinType, TableReference, internal_datafusion_err, plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use lanetree_datafusion::{
    ColumnFilter, IndexLookupExec, IndexedScanExec, IndexedTable, LookupParts, On, ScanFilter, ScanParts, ValueRange,
};
use prost::Message;
use std::sync::Arc;

/// Sends tables of logical plans by their names, and all else as Ballista does.
#[derive(Debug)]
pub struct TableCodec {
    tables: Arc<Tables>,
    others: BallistaLogicalExtensionCodec,
}

impl TableCodec {
    /// Finds tables in a folder.
    pub fn new(tables: &Arc<Tables>) -> Arc<Self> {
        Arc::new(Self { tables: tables.clone(), others: BallistaLogicalExtensionCodec::default() })
    }
}

impl LogicalExtensionCodec for TableCodec {
    fn try_decode(&self, buf: &[u8], inputs: &[LogicalPlan], ctx: &TaskContext) -> Result<Extension> {
        self.others.try_decode(buf, inputs, ctx)
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        self.others.try_encode(node, buf)
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table_ref: &TableReference,
        schema: SchemaRef,
        ctx: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match buf.strip_prefix(MAGIC) {
            Some(name) => {
                let name = core::str::from_utf8(name).map_err(|_| missing("a table's name"))?;
                Ok(provider(&self.tables, self.tables.replica(name)?))
            }
            None => self.others.try_decode_table_provider(buf, table_ref, schema, ctx),
        }
    }

    fn try_encode_table_provider(
        &self,
        table_ref: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        let name = if let Some(table) = node.downcast_ref::<IndexedTable>() {
            table.name().ok_or_else(|| unnamed(&table_ref.to_string()))?
        } else if let Some(table) = node.downcast_ref::<ShardedTable>() {
            table.identity().into()
        } else {
            return self.others.try_encode_table_provider(table_ref, node, buf);
        };
        buf.extend_from_slice(MAGIC);
        buf.extend_from_slice(name.as_bytes());
        Ok(())
    }

    fn try_decode_file_format(&self, buf: &[u8], ctx: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.others.try_decode_file_format(buf, ctx)
    }

    fn try_encode_file_format(&self, buf: &mut Vec<u8>, node: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.others.try_encode_file_format(buf, node)
    }
}

fn unnamed(table: &str) -> DataFusionError {
    plan_datafusion_err!(
        "{table} is in this process alone, or was changed since it was opened: write it to the folder of tables"
    )
}

/// Sends scans and look-ups by the names of their tables, and all else as Ballista does.
#[derive(Debug)]
pub struct PlanCodec {
    tables: Arc<Tables>,
    others: BallistaPhysicalExtensionCodec,
}

impl PlanCodec {
    /// Finds tables in a folder.
    pub fn new(tables: &Arc<Tables>) -> Arc<Self> {
        Arc::new(Self { tables: tables.clone(), others: BallistaPhysicalExtensionCodec::default() })
    }

    fn parts(
        &self,
        message: &Lookup,
        (input, table): (&Schema, &Schema),
        (ctx, converter): (&TaskContext, &dyn PhysicalProtoConverterExtension),
    ) -> Result<LookupParts> {
        let schema = message.schema.as_ref().ok_or_else(|| missing("a join's schema"))?;
        let schema: Schema = schema.try_into().map_err(|error| internal_datafusion_err!("a join's schema: {error}"))?;
        let decoding = PhysicalPlanDecodeContext::new(ctx, self);
        let keys = message.keys.iter().map(|key| converter.proto_to_physical_expr(key, input, &decoding));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let indexed: Vec<_> =
            message.indexed.iter().map(|column| Column::new(&column.name, narrow(column.at))).collect();
        let condition = match (message.condition(), &keys[..]) {
            (Match::Equal, [key]) if let ([_], [indexed]) = (&message.index[..], &indexed[..]) => {
                On::Equal { key: key.clone(), indexed: indexed.clone() }
            }
            (Match::Equal, [_, ..]) if indexed.len() == keys.len() => On::AllEqual { keys, indexed },
            (Match::LastUpTo, [key]) => On::AsOf { key: key.clone(), forward: false },
            (Match::FirstFrom, [key]) => On::AsOf { key: key.clone(), forward: true },
            (Match::Between, [low, high]) => On::Between { low: low.clone(), high: high.clone() },
            _ => return Err(missing("a condition, or its keys")),
        };
        let pairs = Schema::new(input.fields().iter().chain(table.fields()).cloned().collect::<Vec<_>>());
        let filters = message.filters.iter().map(|filter| converter.proto_to_physical_expr(filter, &pairs, &decoding));
        Ok(LookupParts {
            index: all_narrow(&message.index),
            join_type: message.join_type.parse::<JoinType>()?,
            probe_side: if message.probes_are_left { JoinSide::Left } else { JoinSide::Right },
            schema: Arc::new(schema),
            condition,
            columns: all_narrow(&message.columns),
            output: all_narrow(&message.output),
            filters: filters.collect::<Result<_>>()?,
        })
    }

    fn lookup_message(&self, parts: &LookupParts, converter: &dyn PhysicalProtoConverterExtension) -> Result<Lookup> {
        let (condition, keys, indexed) = match &parts.condition {
            On::Equal { key, indexed } => (Match::Equal, vec![key], vec![indexed]),
            On::AllEqual { keys, indexed } => (Match::Equal, keys.iter().collect(), indexed.iter().collect()),
            On::AsOf { key, forward: false } => (Match::LastUpTo, vec![key], Vec::new()),
            On::AsOf { key, forward: true } => (Match::FirstFrom, vec![key], Vec::new()),
            On::Between { low, high } => (Match::Between, vec![low, high], Vec::new()),
        };
        let schema = (&*parts.schema).try_into();
        let sent = |expr| converter.physical_expr_to_proto(expr, self);
        Ok(Lookup {
            index: wide(&parts.index),
            join_type: parts.join_type.to_string(),
            probes_are_left: parts.probe_side == JoinSide::Left,
            schema: Some(schema.map_err(|error| internal_datafusion_err!("a schema that cannot be sent: {error}"))?),
            condition: condition as i32,
            keys: keys.into_iter().map(sent).collect::<Result<_>>()?,
            indexed: indexed
                .into_iter()
                .map(|column| IndexedColumn { name: column.name().to_owned(), at: column.index() as u64 })
                .collect(),
            columns: wide(&parts.columns),
            output: wide(&parts.output),
            filters: parts.filters.iter().map(sent).collect::<Result<_>>()?,
        })
    }
}

fn scan_message(parts: &ScanParts) -> Result<Scan> {
    let filter = parts.filter.as_ref().map(|filter| {
        let of_column = |filter: &ColumnFilter| {
            let range = |(low, high): &ValueRange| Ok(Range { low: end_to(low)?, high: end_to(high)? });
            let ranges = filter.ranges().iter().map(range).collect::<Result<_>>()?;
            Ok(OfColumn { ranges, nulls: filter.nulls() })
        };
        let columns = filter.columns.iter().map(of_column).collect::<Result<_>>()?;
        let (index, texts) = (wide(&filter.index), filter.texts.clone());
        let SortOptions { descending, nulls_first } = filter.order;
        let is_distinct = filter.is_distinct;
        Ok::<_, DataFusionError>(Filter { index, columns, texts, descending, nulls_first, is_distinct })
    });
    Ok(Scan {
        columns: wide(&parts.columns),
        filter: filter.transpose()?,
        limit: parts.limit.map(|limit| limit as u64),
        partitions: parts.partitions as u64,
    })
}

fn scan(table: &IndexedTable, message: &Scan) -> Result<IndexedScanExec> {
    let filter = message.filter.as_ref().map(|filter| {
        let of_column = |filter: &OfColumn| {
            let range = |range: &Range| Ok((end_from(range.low.as_ref())?, end_from(range.high.as_ref())?));
            let ranges = filter.ranges.iter().map(range).collect::<Result<Vec<_>>>()?;
            Ok(ColumnFilter::new(ranges, filter.nulls))
        };
        let columns = filter.columns.iter().map(of_column).collect::<Result<_>>()?;
        let (index, texts) = (all_narrow(&filter.index), filter.texts.clone());
        let order = SortOptions { descending: filter.descending, nulls_first: filter.nulls_first };
        let is_distinct = filter.is_distinct;
        Ok::<_, DataFusionError>(ScanFilter { index, columns, texts, is_distinct, order })
    });
    let parts = ScanParts {
        columns: all_narrow(&message.columns),
        filter: filter.transpose()?,
        limit: message.limit.map(narrow),
        partitions: narrow(message.partitions),
    };
    IndexedScanExec::of_parts(table, parts)
}

impl PhysicalExtensionCodec for PlanCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(message) = buf.strip_prefix(MAGIC) else {
            return self.others.try_decode(buf, inputs, ctx, converter);
        };
        let Node { table, kind } = Node::decode(message)
            .map_err(|error| internal_datafusion_err!("a node that was not sent whole: {error}"))?;
        let table = self.tables.replica(&table)?;
        let probes = || match inputs {
            [probes] => Ok(probes.clone()),
            _ => plan_err!("a look-up has one input, not {}", inputs.len()),
        };
        Ok(match (&kind, &table) {
            (Some(Kind::Scan(message)), Table::Whole(table)) => Arc::new(scan(table, message)?),
            (Some(Kind::Lookup(message)), Table::Whole(table)) => {
                let (input, own) = (probes()?.schema(), table.schema());
                let parts = self.parts(message, (&input, &own), (ctx, converter))?;
                Arc::new(IndexLookupExec::of_parts(table, probes()?, parts)?)
            }
            (Some(Kind::ShardScan(ShardScan { columns, only })), Table::Sharded(shards)) => {
                Arc::new(ShardScanExec::new(&self.tables, shards, only.map(narrow), all_narrow(columns))?)
            }
            (Some(Kind::ShardedLookup(message)), Table::Sharded(shards)) => {
                let lookup = message.lookup.as_ref().ok_or_else(|| missing("a look-up"))?;
                let parts = self.parts(lookup, (&*probes()?.schema(), &Schema::empty()), (ctx, converter))?;
                Arc::new(ShardedLookupExec::new(&self.tables, shards, probes()?, parts, narrow(message.partitions))?)
            }
            (Some(_), _) => return Err(missing("a node for such a table")),
            (None, _) => return Err(missing("a node")),
        })
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let (table, kind) = if let Some(scan) = node.downcast_ref::<IndexedScanExec>() {
            (scan.table_name().map(str::to_owned), Kind::Scan(Box::new(scan_message(&scan.parts())?)))
        } else if let Some(lookup) = node.downcast_ref::<IndexLookupExec>() {
            let message = self.lookup_message(&lookup.parts(), converter)?;
            (lookup.table_name().map(str::to_owned), Kind::Lookup(Box::new(message)))
        } else if let Some(scan) = node.downcast_ref::<ShardScanExec>() {
            let message = ShardScan { columns: wide(scan.columns()), only: scan.only().map(|only| only as u64) };
            (Some(scan.shards().identity.to_string()), Kind::ShardScan(message))
        } else if let Some(lookup) = node.downcast_ref::<ShardedLookupExec>() {
            let message = ShardedLookup {
                lookup: Some(Box::new(self.lookup_message(lookup.parts(), converter)?)),
                partitions: lookup.partitions() as u64,
            };
            (Some(lookup.shards().identity.to_string()), Kind::ShardedLookup(Box::new(message)))
        } else {
            return self.others.try_encode(node, buf, converter);
        };
        let table = table.ok_or_else(|| unnamed("a table"))?;
        buf.extend_from_slice(MAGIC);
        Node { table, kind: Some(kind) }
            .encode(buf)
            .map_err(|error| internal_datafusion_err!("a node that cannot be sent: {error}"))
    }
}
