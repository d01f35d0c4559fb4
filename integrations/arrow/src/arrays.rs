//! Arrays of an index's keys, for files.

use crate::error::{Error, Result};
use crate::keys::Source;
use arrow_array::*;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use core::ops::Bound;
use lanetree::{ByteKeys, ByteRange, Cuart, Device, DeviceKind, Word};
use std::sync::Arc;

/// Strings of a batch with offsets of 32 bits.
const STRINGS_AT_ONCE: usize = 1 << 14;

/// The error of a crate that reads or writes.
pub(crate) fn file_error<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    action: &'static str,
) -> impl Fn(E) -> Error {
    move |source| Error::File { action, source: source.into() }
}

/// An array of a type, given its keys.
pub(crate) fn array_of_keys<K: Source>(
    data_type: &DataType,
    len: usize,
    keys: impl Iterator<Item = K>,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone()).len(len).add_buffer(K::elements(data_type, keys));
    // Buffers of bytes need not be aligned to elements.
    Ok(make_array(data.align_buffers(true).build().map_err(file_error::<ArrowError>("written"))?))
}

/// An array of a type, given its strings.
pub(crate) fn array_of_strings<'k>(data_type: &DataType, strings: impl Iterator<Item = &'k [u8]>) -> Result<ArrayRef> {
    // Columns of text are the only ones that such an index is built over.
    let text = |string: &'k [u8]| core::str::from_utf8(string).map_err(file_error("written"));
    fn all<'k, A: FromIterator<Option<&'k str>> + Array + 'static>(
        text: impl Iterator<Item = Result<&'k str>>,
    ) -> Result<ArrayRef> {
        Ok(Arc::new(text.map(|text| text.map(Some)).collect::<Result<A>>()?))
    }
    Ok(match data_type {
        DataType::Utf8 => all::<StringArray>(strings.map(text))?,
        DataType::LargeUtf8 => all::<LargeStringArray>(strings.map(text))?,
        DataType::Utf8View => all::<StringViewArray>(strings.map(text))?,
        DataType::Binary => Arc::new(BinaryArray::from_iter_values(strings)),
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter_values(strings)),
        DataType::FixedSizeBinary(width) => {
            let mut bytes = Vec::new();
            let len = strings.map(|string| bytes.extend_from_slice(string)).count();
            let array = FixedSizeBinaryArray::try_new_with_len(*width, bytes.into(), None, len);
            Arc::new(array.map_err(file_error::<ArrowError>("written"))?)
        }
        _ => Arc::new(LargeBinaryArray::from_iter_values(strings)),
    })
}

/// Calls a function with all strings of a tree and their values, a window at a time.
pub(crate) fn each_window_of_strings<V: Word>(
    tree: &Cuart<V>,
    mut f: impl FnMut(ByteKeys<'_>, &[V]) -> Result<()>,
) -> Result<()> {
    let on_host;
    // A device gathers from its own leaves, by their ranks; the host follows links to all leaves.
    let has_all = tree.device().kind() == DeviceKind::Host || tree.is_compact() && tree.stats().host_leaves == 0;
    let tree = match has_all {
        true => tree,
        false => {
            on_host = tree.to_device(&Device::host())?;
            &on_host
        }
    };
    let mut last: Option<Vec<u8>> = None;
    loop {
        let start = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = ByteRange::new(start, Bound::Unbounded).limit(STRINGS_AT_ONCE as u64);
        let window = tree.range_many([range])?;
        let (keys, values) = window.get(0);
        if keys.is_empty() {
            return Ok(());
        }
        f(keys, values)?;
        last = Some(keys.at(keys.len() - 1).to_vec());
    }
}
