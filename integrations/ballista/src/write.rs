use crate::shards::{SHARD, SHARDED, shard_file};
use crate::tables::{INDEX, SUFFIX};
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::compute::{SortOptions, concat_batches, sort_to_indices, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::ipc::writer::FileWriter;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Writes a table into a local folder, as `NAME.arrow`, in place of one that is there: its rows in Arrow's IPC format, and in the
/// schema's metadata which columns are to be indexed. The file is written under another name, synced and renamed, so after a crash
/// there is the old one or the new one.
///
/// # Errors
/// A plan error if there is no such column, or none; an Arrow error for batches of other schemas; the system's.
pub fn write_table(
    folder: impl AsRef<Path>,
    name: &str,
    schema: &Schema,
    batches: &[RecordBatch],
    indexes: &[&str],
) -> Result<()> {
    if indexes.is_empty() {
        return plan_err!("a table in a file needs an index: name one of its columns");
    }
    let mut metadata = HashMap::new();
    for (number, column) in indexes.iter().enumerate() {
        schema.field_with_name(column)?;
        metadata.insert(format!("{INDEX}{number}"), (*column).to_owned());
    }
    let bytes = bytes_of(schema, batches, metadata)?;
    put(folder.as_ref(), &format!("{name}{SUFFIX}"), &bytes)
}

/// Writes a table into a local folder in up to so many shards, each with the rows of a range of a column's values, which will be
/// indexed. They have about as many rows each; equal values, and nulls, are in one. `NAME.arrow` has the ranges and the names of the
/// shards' files, and replaces one that is there when all of these are written. Shards of the table that was there stay, for
/// processes that have it open.
///
/// # Errors
/// A plan error for no shards, if there is no such column, and for one of floats or dictionaries; an Arrow error for batches of other
/// schemas; the system's.
pub fn write_sharded(
    folder: impl AsRef<Path>,
    name: &str,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    column: &str,
    shards: usize,
) -> Result<()> {
    let at = schema.index_of(column)?;
    let data_type = schema.field(at).data_type();
    if data_type.is_floating() || matches!(data_type, DataType::Dictionary(..)) {
        return plan_err!("no shards by ranges of {column}, which is {data_type}");
    }
    if shards == 0 {
        return plan_err!("a table has one shard at least");
    }
    let rows = concat_batches(schema, batches)?;
    let order = SortOptions { descending: false, nulls_first: true };
    let rows = take_record_batch(&rows, &sort_to_indices(rows.column(at), Some(order), None)?)?;
    let mut bounds = vec![0];
    for shard in 1..shards {
        let from = (rows.num_rows() as u128 * shard as u128 / shards as u128) as usize;
        let bound = first_of_its_value(rows.column(at), from)?;
        if bound < rows.num_rows() && bound > bounds[bounds.len() - 1] {
            bounds.push(bound);
        }
    }
    let ends = bounds[1..].iter().copied().chain([rows.num_rows()]);
    let mut metadata = HashMap::from([(SHARDED.to_owned(), column.to_owned())]);
    let mut firsts = Vec::new();
    for (number, (start, end)) in bounds.iter().copied().zip(ends).enumerate() {
        let own = rows.slice(start, end - start);
        let bytes = bytes_of(schema, &[own], HashMap::new())?;
        let checksum = crc32c::crc32c(&bytes);
        put(folder.as_ref(), &shard_file(name, number, checksum), &bytes)?;
        metadata.insert(format!("{SHARD}{number}"), format!("{} {checksum:08x}", end - start));
        firsts.push(rows.slice(start, usize::from(start < end)));
    }
    let bytes = bytes_of(schema, &[concat_batches(schema, &firsts)?], metadata)?;
    put(folder.as_ref(), &format!("{name}{SUFFIX}"), &bytes)
}

/// The first row from one on whose value the row before it has not.
fn first_of_its_value(values: &dyn Array, from: usize) -> Result<usize> {
    let mut at = from;
    while at > 0 && at < values.len() {
        if ScalarValue::try_from_array(values, at)? != ScalarValue::try_from_array(values, at - 1)? {
            break;
        }
        at += 1;
    }
    Ok(at)
}

fn bytes_of(schema: &Schema, batches: &[RecordBatch], metadata: HashMap<String, String>) -> Result<Vec<u8>> {
    let mut all = schema.metadata().clone();
    all.extend(metadata);
    let schema = Arc::new(schema.clone().with_metadata(all));
    let mut writer = FileWriter::try_new(Vec::new(), &schema)?;
    for batch in batches {
        writer.write(&batch.clone().with_schema(schema.clone())?)?;
    }
    writer.finish()?;
    Ok(writer.into_inner()?)
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let (path, temporary) = (folder.join(name), folder.join(format!("{name}.tmp")));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all()?;
    Ok(())
}
