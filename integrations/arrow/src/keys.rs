//! Keys of arrays: where the layout is the same, the array's own memory.

use crate::error::{Result, room};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use bytemuck::Pod;
use core::ops::Deref;
use lanetree::{AnyKey, Bytes16, F32, F64};

/// What a type's keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    U32,
    U64,
    I32,
    I64,
    I128,
    F32,
    F64,
    Bytes16,
}

impl Kind {
    /// `None` for a type that has no keys.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        use DataType::*;
        Some(match data_type {
            UInt8 | UInt16 | UInt32 => Self::U32,
            UInt64 => Self::U64,
            Int8 | Int16 | Int32 | Date32 | Time32(_) | Decimal32(..) => Self::I32,
            Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => Self::I64,
            Decimal128(..) => Self::I128,
            Float32 => Self::F32,
            Float64 => Self::F64,
            FixedSizeBinary(16) => Self::Bytes16,
            _ => return None,
        })
    }
}

/// The keys of an array.
pub(crate) enum Keys<K> {
    /// The array's memory, from its first element to its last: it is aligned to keys, and a number of them.
    Shared(Buffer),
    Own(Vec<K>),
}

impl<K: Pod> Deref for Keys<K> {
    type Target = [K];

    fn deref(&self) -> &[K] {
        match self {
            Self::Shared(buffer) => bytemuck::cast_slice(buffer),
            Self::Own(keys) => keys,
        }
    }
}

/// A key type that arrays have.
pub(crate) trait Source: AnyKey {
    /// The keys of an array of a type of this [`Kind`]; of its nulls, any keys.
    fn keys(data: &ArrayData) -> Result<Keys<Self>>;
}

/// The memory of an array's elements, which are of `width` bytes.
fn elements(data: &ArrayData, width: usize) -> Buffer {
    data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width)
}

fn shared<K: Pod>(data: &ArrayData) -> Result<Keys<K>> {
    let buffer = elements(data, size_of::<K>());
    // Arrow's own arrays are aligned; `dyn Array` does not say so.
    if bytemuck::try_cast_slice::<u8, K>(&buffer).is_ok() { Ok(Keys::Shared(buffer)) } else { made(data, |key| key) }
}

/// A key from each element.
fn made<N: Pod, K>(data: &ArrayData, make: impl Fn(N) -> K) -> Result<Keys<K>> {
    let mut keys = room(data.len())?;
    let buffer = elements(data, size_of::<N>());
    keys.extend(buffer.chunks_exact(size_of::<N>()).map(|bytes| make(bytemuck::pod_read_unaligned(bytes))));
    Ok(Keys::Own(keys))
}

impl Source for u32 {
    fn keys(data: &ArrayData) -> Result<Keys<Self>> {
        match data.data_type() {
            DataType::UInt8 => made(data, |number: u8| number.into()),
            DataType::UInt16 => made(data, |number: u16| number.into()),
            _ => shared(data),
        }
    }
}

impl Source for i32 {
    fn keys(data: &ArrayData) -> Result<Keys<Self>> {
        match data.data_type() {
            DataType::Int8 => made(data, |number: i8| number.into()),
            DataType::Int16 => made(data, |number: i16| number.into()),
            _ => shared(data),
        }
    }
}

macro_rules! source {
    ($($key:ty: $keys:expr,)*) => {$(
        impl Source for $key {
            fn keys(data: &ArrayData) -> Result<Keys<Self>> {
                $keys(data)
            }
        }
    )*};
}
source!(
    u64: shared,
    i64: shared,
    i128: shared,
    F32: |data| made(data, F32::new),
    F64: |data| made(data, F64::new),
    Bytes16: |data| made(data, Bytes16::new),
);

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Array, Decimal128Array, Int32Array, Int64Array};

    fn is_own_memory<K: Source>(array: &dyn Array, width: usize) -> bool {
        let data = array.to_data();
        let elements = data.buffers()[0].as_ptr().wrapping_add(data.offset() * width);
        let keys = K::keys(&data).unwrap();
        assert_eq!(keys.len(), array.len());
        keys.as_ptr().cast() == elements
    }

    #[test]
    fn keys_of_the_same_layout_are_the_arrays_own_memory() {
        assert!(is_own_memory::<i32>(&Int32Array::from(vec![1, 2, 3]).slice(1, 2), 4));
        assert!(is_own_memory::<i64>(&Int64Array::from(vec![1, 2, 3]), 8));
        assert!(is_own_memory::<i128>(&Decimal128Array::from(vec![1, 2, 3]).slice(2, 1), 16));
    }
}
