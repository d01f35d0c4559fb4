//! Whole indexes as Parquet files.

use crate::arrays::file_error;
use crate::error::Result;
use crate::exchange::{Exchange, PAIRS, Sums, no_panic};
use crate::index::Nulls;
use crate::typed::BATCH;
use arrow_schema::ArrowError;
use lanetree::Device;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::reader::ChunkReader;
use std::io::Write;

/// Writes an index as a Parquet file, some pairs at a time, not compressed. The file's metadata `lanetree.pairs` has their number
/// and checksums.
///
/// # Errors
/// [`Error::File`](crate::Error::File); [`Error::Index`](crate::Error::Index) from the index. What was written until then is no
/// file that can be read.
pub fn write_parquet<I: Exchange>(index: &I, out: impl Write + Send) -> Result<()> {
    let error = file_error::<ParquetError>("written");
    let mut writer = ArrowWriter::try_new(out, index.schema(), None).map_err(&error)?;
    let mut sums = Sums::default();
    index.each_batch(&mut |batch| {
        sums.add(batch)?;
        writer.write(batch).map_err(&error)
    })?;
    writer.append_key_value_metadata(KeyValue::new(PAIRS.to_owned(), sums.to_string()));
    writer.close().map(drop).map_err(error)
}

/// Builds an index on a device from a Parquet file (a [`File`](std::fs::File), or its bytes), which any program may have written:
/// [`Exchange::of_batches`]. If it has the metadata of [`write_parquet`], the pairs are those that were written. Compressed
/// files need the features of the crate `parquet` for that.
///
/// # Errors
/// [`Error::File`](crate::Error::File) and [`Error::Pairs`](crate::Error::Pairs) for a damaged file; the errors of
/// [`Exchange::of_batches`].
pub fn read_parquet<I: Exchange>(device: &Device, file: impl ChunkReader + 'static, nulls: Nulls) -> Result<I> {
    let error = file_error::<ParquetError>("read");
    let (schema, batches) = no_panic(|| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(&error)?;
        let metadata = builder.metadata().file_metadata().key_value_metadata();
        let written = metadata.into_iter().flatten().find(|pair| pair.key == PAIRS).and_then(|pair| pair.value.clone());
        let schema = builder.schema().clone();
        let reader = builder.with_batch_size(BATCH).build().map_err(&error)?;
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(file_error::<ArrowError>("read"))?;
        let mut sums = Sums::default();
        batches.iter().try_for_each(|batch| sums.add(batch))?;
        sums.check(written.as_deref())?;
        Ok((schema, batches))
    })?;
    I::of_batches(device, &schema, &batches, nulls)
}
