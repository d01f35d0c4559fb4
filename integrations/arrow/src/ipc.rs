//! Whole indexes as Arrow IPC files.

use crate::arrays::file_error;
use crate::error::Result;
use crate::exchange::{Exchange, PAIRS, Sums, no_panic};
use crate::index::Nulls;
use arrow_ipc::reader::{FileReader, read_footer_length};
use arrow_ipc::writer::FileWriter;
use arrow_schema::ArrowError;
use lanetree::Device;
use std::io::{Read, Seek, SeekFrom, Write};

/// Writes an index as an Arrow IPC file (Feather, version 2), some pairs at a time. The footer's metadata `lanetree.pairs` has
/// their number and checksums.
///
/// ```
/// use lanetree::{Device, LaneTree};
/// use lanetree_arrow::{Nulls, read_ipc, write_ipc};
/// use std::io::Cursor;
///
/// # fn main() -> lanetree_arrow::Result<()> {
/// let tree = LaneTree::<i64, u32>::build(&Device::host(), &[30, 10, 20], &[3, 1, 2])?;
/// let mut file = Vec::new();
/// write_ipc(&tree, &mut file)?;
/// let read: LaneTree<i64, u32> = read_ipc(&Device::host(), Cursor::new(file), Nulls::Refuse)?;
/// assert_eq!(read.pairs()?, [(10, 1), (20, 2), (30, 3)]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File); [`Error::Index`](crate::Error::Index) from the index. What was written until then is no
/// file that can be read.
pub fn write_ipc<I: Exchange>(index: &I, out: impl Write) -> Result<()> {
    let error = file_error::<ArrowError>("written");
    let mut writer = FileWriter::try_new(out, &index.schema()).map_err(&error)?;
    let mut sums = Sums::default();
    index.each_batch(&mut |batch| {
        sums.add(batch)?;
        writer.write(batch).map_err(&error)
    })?;
    writer.write_metadata(PAIRS, sums.to_string());
    writer.finish().map_err(error)
}

/// Builds an index on a device from an Arrow IPC file, which any program may have written: [`Exchange::of_batches`]. If it has the
/// metadata of [`write_ipc`], the pairs are those that were written.
///
/// # Errors
/// [`Error::File`](crate::Error::File) and [`Error::Pairs`](crate::Error::Pairs) for a damaged file; the errors of
/// [`Exchange::of_batches`].
pub fn read_ipc<I: Exchange>(device: &Device, mut file: impl Read + Seek, nulls: Nulls) -> Result<I> {
    let error = file_error::<ArrowError>("read");
    let (schema, batches) = no_panic(|| {
        check_blocks(&mut file).map_err(&error)?;
        let reader = FileReader::try_new(&mut file, None).map_err(&error)?;
        let (schema, written) = (reader.schema(), reader.custom_metadata().get(PAIRS).cloned());
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(&error)?;
        let mut sums = Sums::default();
        batches.iter().try_for_each(|batch| sums.add(batch))?;
        sums.check(written.as_deref())?;
        Ok((schema, batches))
    })?;
    I::of_batches(device, &schema, &batches, nulls)
}

/// The reader takes lengths of the footer at their word, and allocates: so they are checked before.
fn check_blocks(file: &mut (impl Read + Seek)) -> Result<(), ArrowError> {
    let damaged = |what: &str| ArrowError::IpcError(format!("{what}: the file is damaged, or no Arrow IPC file"));
    let len = file.seek(SeekFrom::End(0))?;
    let mut end = [0; 10];
    if len < end.len() as u64 {
        return Err(damaged(&format!("it has {len} bytes")));
    }
    file.seek(SeekFrom::End(-10))?;
    file.read_exact(&mut end)?;
    let footer_len = read_footer_length(end)? as u64;
    let Some(footer_at) = (len - 10).checked_sub(footer_len) else {
        return Err(damaged(&format!("the footer has {footer_len} bytes, but the file {len}")));
    };
    let mut footer = vec![0; footer_len as usize];
    file.seek(SeekFrom::Start(footer_at))?;
    file.read_exact(&mut footer)?;
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|error| damaged(&format!("the footer: {error}")))?;
    if footer.schema().is_none() {
        return Err(damaged("the footer has no schema"));
    }
    let blocks = footer.recordBatches().into_iter().flatten().chain(footer.dictionaries().into_iter().flatten());
    for (number, block) in blocks.enumerate() {
        let parts = [block.offset(), block.metaDataLength().into(), block.bodyLength()];
        let end = parts.iter().try_fold(0, |sum: u64, part| sum.checked_add(u64::try_from(*part).ok()?));
        if end.is_none_or(|end| end > footer_at) {
            return Err(damaged(&format!("batch {number} is not within the file")));
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(())
}
