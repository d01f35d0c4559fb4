//! Keys of arrays: where the layout is the same, the array's own memory.

use crate::error::{Result, room};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use bytemuck::Pod;
use core::ops::Deref;
use lanetree::{AnyKey, ByteKeys, ByteKeysBuf, Bytes16, F32, F64, Offsets};

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
    Strings,
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
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Self::Strings,
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

/// A key type of a fixed size that arrays have.
pub(crate) trait Source: AnyKey {
    /// The keys of an array of a type of this [`Kind`]; of its nulls, any keys.
    fn keys(data: &ArrayData) -> Result<Keys<Self>>;

    /// The type of arrays whose elements are these keys, without a conversion.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    const TYPE: DataType;

    /// The memory of an array of some type of this [`Kind`], given its keys.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    fn elements(data_type: &DataType, keys: impl Iterator<Item = Self>) -> Buffer;
}

/// The memory of an array's elements, which are of `width` bytes.
pub(crate) fn elements(data: &ArrayData, width: usize) -> Buffer {
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

    #[cfg(any(feature = "ipc", feature = "parquet"))]
    const TYPE: DataType = DataType::UInt32;

    #[cfg(any(feature = "ipc", feature = "parquet"))]
    fn elements(data_type: &DataType, keys: impl Iterator<Item = Self>) -> Buffer {
        match data_type {
            DataType::UInt8 => keys.map(|key| key as u8).collect(),
            DataType::UInt16 => keys.map(|key| key as u16).collect(),
            _ => keys.collect(),
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

    #[cfg(any(feature = "ipc", feature = "parquet"))]
    const TYPE: DataType = DataType::Int32;

    #[cfg(any(feature = "ipc", feature = "parquet"))]
    fn elements(data_type: &DataType, keys: impl Iterator<Item = Self>) -> Buffer {
        match data_type {
            DataType::Int8 => keys.map(|key| key as i8).collect(),
            DataType::Int16 => keys.map(|key| key as i16).collect(),
            _ => keys.collect(),
        }
    }
}

macro_rules! source {
    ($($key:ty: $keys:expr, $type:expr, $element:expr;)*) => {$(
        impl Source for $key {
            fn keys(data: &ArrayData) -> Result<Keys<Self>> {
                $keys(data)
            }

            #[cfg(any(feature = "ipc", feature = "parquet"))]
    const TYPE: DataType = $type;

            #[cfg(any(feature = "ipc", feature = "parquet"))]
            fn elements(_: &DataType, keys: impl Iterator<Item = Self>) -> Buffer {
                let mut bytes = Vec::new();
                keys.for_each(|key| bytes.extend_from_slice(bytemuck::bytes_of(&$element(key))));
                bytes.into()
            }
        }
    )*};
}
source!(
    u64: shared, DataType::UInt64, |key| key;
    i64: shared, DataType::Int64, |key| key;
    i128: shared, DataType::Decimal128(38, 0), |key| key;
    F32: |data| made(data, F32::new), DataType::Float32, F32::get;
    F64: |data| made(data, F64::new), DataType::Float64, F64::get;
    Bytes16: |data| made(data, Bytes16::new), DataType::FixedSizeBinary(16), Bytes16::get;
);

/// The strings of an array.
pub(crate) enum Strings {
    /// The array's offsets, of 32 or of 64 bits, and bytes.
    Narrow(Buffer, Buffer),
    Wide(Buffer, Buffer),
    /// So many strings of one width.
    Fixed(usize, usize, Buffer),
    Own(ByteKeysBuf),
}

impl Strings {
    /// The strings of an array of this [`Kind`]; of its nulls, any strings.
    pub(crate) fn new(array: &dyn Array) -> Result<Self> {
        use DataType::*;
        let data_type = array.data_type();
        match data_type {
            Utf8View => {
                let views = array.as_string_view();
                return Ok(Self::Own(ByteKeysBuf::gather(views.len(), |at| views.value(at).as_bytes())?));
            }
            BinaryView => {
                let views = array.as_binary_view();
                return Ok(Self::Own(ByteKeysBuf::gather(views.len(), |at| views.value(at))?));
            }
            _ => {}
        }
        let data = array.to_data();
        if data.is_empty() {
            // It may have no offsets.
            return Ok(Self::Own(ByteKeysBuf::new()));
        }
        let offsets = |width: usize| {
            let offsets = data.buffers()[0].slice_with_length(data.offset() * width, (data.len() + 1) * width);
            (offsets, data.buffers()[1].clone())
        };
        Ok(match data_type {
            FixedSizeBinary(width) => {
                let width = *width as usize;
                Self::Fixed(width, data.len(), elements(&data, width))
            }
            LargeUtf8 | LargeBinary => {
                let (offsets, bytes) = offsets(size_of::<i64>());
                Self::Wide(offsets, bytes)
            }
            _ => {
                let (offsets, bytes) = offsets(size_of::<i32>());
                Self::Narrow(offsets, bytes)
            }
        })
    }

    /// The strings as an index takes them. Arrow's offsets are signed and not negative.
    pub(crate) fn batch(&self) -> Result<ByteKeys<'_>> {
        Ok(match self {
            Self::Narrow(offsets, bytes) => ByteKeys::new(bytemuck::cast_slice::<u8, u32>(offsets), bytes)?,
            Self::Wide(offsets, bytes) => ByteKeys::new(bytemuck::cast_slice::<u8, u64>(offsets), bytes)?,
            Self::Fixed(width, len, bytes) => ByteKeys::new(Offsets::Fixed { width: *width, len: *len }, bytes)?,
            Self::Own(strings) => strings.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, Int32Array, Int64Array, StringArray};

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
        let array = StringArray::from(vec!["no", "one", "two"]).slice(1, 2);
        let strings = Strings::new(&array).unwrap();
        let keys = strings.batch().unwrap();
        assert_eq!(keys.iter().collect::<Vec<_>>(), [b"one", b"two"]);
        assert_eq!(keys.at(0).as_ptr(), array.value(0).as_ptr());
    }
}
