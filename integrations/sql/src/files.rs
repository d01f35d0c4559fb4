//! Files as tables.

use crate::progress::Line;
use datafusion::common::plan_datafusion_err;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{CsvReadOptions, SessionContext};
use lanetree_datafusion::file_url;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Registers `[NAME=]FILE` as a table. A Parquet file is read into memory; a CSV file by each query.
pub(crate) async fn register(context: &SessionContext, argument: &str, line: Line) -> Result<()> {
    // A name has no slash, but a path may have an equals sign.
    let named = argument.split_once('=').filter(|(name, _)| !name.contains('/'));
    let path = named.map_or(argument, |(_, path)| path);
    let stem = Path::new(path).file_stem().and_then(|stem| stem.to_str());
    let name = named.map(|(name, _)| name).or(stem).unwrap_or_default();
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    // The engine takes a file that is not there for one without rows.
    let file = File::open(path).map_err(|error| plan_datafusion_err!("{path}: {error}"))?;
    // As it is written, whatever its letters are.
    let table = || datafusion::common::TableReference::bare(name);
    let csv = CsvReadOptions::new();
    match ending {
        "csv" => context.register_csv(table(), file_url(path)?, csv).await,
        "tsv" => context.register_csv(table(), file_url(path)?, csv.delimiter(b'\t').file_extension(".tsv")).await,
        "parquet" => {
            let rows = read_parquet(file, name, line);
            let rows = rows.map_err(|error| error.context(format!("reading {path}")))?;
            context.register_table(table(), Arc::new(rows)).map(drop)
        }
        _ => Err(plan_datafusion_err!("{path} has no known ending: .csv, .tsv or .parquet")),
    }
}

fn read_parquet(file: File, name: &str, mut line: Line) -> Result<MemTable> {
    let external = |error| DataFusionError::External(Box::new(error));
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(external)?;
    let (schema, what) = (reader.schema().clone(), format!("of {name} read"));
    let total = usize::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
    let (mut batches, mut done) = (Vec::new(), 0);
    for batch in reader.build().map_err(external)? {
        let batch = batch?;
        done += batch.num_rows();
        batches.push(batch);
        line.draw(&what, Some((done, total)));
    }
    MemTable::try_new(schema, vec![batches])
}
