//! Arrow's C device interface: columns whose buffers are on a device.

use crate::error::{Error, Result};
use crate::keys::Kind;
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::DataType;
use bytemuck::Pod;
use core::ffi::c_void;
use core::fmt;
use core::ptr::{null, null_mut};
use lanetree::{Buffer, Device, DeviceKind, Event, F32, F64, FloatOrder, Stream, order_floats, restore_floats};

/// `ARROW_DEVICE_CPU`: main memory.
pub const CPU: i32 = 1;
/// `ARROW_DEVICE_CUDA`: memory of an NVIDIA GPU.
pub const CUDA: i32 = 2;
/// `ARROW_DEVICE_CUDA_MANAGED`: memory of an NVIDIA GPU that the driver moves.
pub const CUDA_MANAGED: i32 = 13;

/// `ArrowDeviceArray` of [Arrow's C device interface](https://arrow.apache.org/docs/format/CDeviceDataInterface.html): an array whose
/// buffers are on a device. Dropping it releases the array, once.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowDeviceArray {
    /// The array.
    pub array: FFI_ArrowArray,
    /// Which device of its type; -1 for main memory.
    pub device_id: i64,
    /// [`CPU`], [`CUDA`], [`CUDA_MANAGED`], or another of Arrow's numbers.
    pub device_type: i32,
    /// Null if the buffers are ready. Otherwise, of CUDA, where the handle of an event is after which they are. It belongs to the array.
    pub sync_event: *mut c_void,
    /// Zeros.
    pub reserved: [i64; 3],
}

// SAFETY: Arrow demands that an array can be read and released by any thread, and its event is the array's.
unsafe impl Send for ArrowDeviceArray {}

impl ArrowDeviceArray {
    /// One that has been released: room for a producer to write to.
    pub fn empty() -> Self {
        Self {
            array: FFI_ArrowArray::empty(),
            device_id: -1,
            device_type: CPU,
            sync_event: null_mut(),
            reserved: [0; 3],
        }
    }

    /// Moves an array of a producer's out of its memory, and marks it as released there.
    ///
    /// # Safety
    /// A valid `ArrowDeviceArray` is at the address, and nobody else uses it meanwhile.
    pub unsafe fn from_raw(at: *mut Self) -> Self {
        // SAFETY: the caller's.
        unsafe { at.replace(Self::empty()) }
    }

    /// An array of elements on a device, without a copy: the first `len` of `elements`, of which those are valid whose bit is set in
    /// `valid`: bit `i % 32` of `valid[i / 32]`, as in the hit mask of a query. Without it all are. The array owns the buffers.
    ///
    /// It holds what has been put into `stream` so far, and what other streams of Lanetree's have been given over the buffers. On a
    /// GPU this returns at once, and the array has an event. On the host and the emulator it waits, and the array is one in main
    /// memory. Floats are restored from their ordered words in the buffer.
    ///
    /// # Errors
    /// [`Error::Elements`] for a type that has other elements; [`Error::DeviceArray`] for fewer elements or bits than `len`;
    /// [`Error::Index`] from the device, among others for buffers of another one. The buffers are freed then.
    pub fn export<T: Element>(
        stream: &Stream,
        data_type: &DataType,
        mut elements: Buffer<T>,
        len: usize,
        valid: Option<Buffer<u32>>,
    ) -> Result<Self> {
        if width_of(data_type) != Some(size_of::<T>()) || T::IS_WORD_OF_FLOAT && !T::is_key_of(data_type) {
            return Err(Error::Elements { data_type: data_type.clone(), element: T::NAME });
        }
        let words = valid.as_ref().map_or(usize::MAX, Buffer::len);
        if len > elements.len() || len.div_ceil(32) > words {
            let bits = valid.as_ref().map_or(String::new(), |valid| format!(" and {} bits", 32 * valid.len() as u128));
            let reason = format!("{len} elements of a buffer that has {}{bits}", elements.len());
            return Err(Error::DeviceArray { reason });
        }
        T::restore(stream, &mut elements)?;
        // The stream waits for others that write them.
        elements.read_on(stream).map_err(index)?;
        let start = core::ptr::with_exposed_provenance::<c_void>(elements.addresses().start);
        let bits = match &valid {
            None => null(),
            Some(valid) => {
                valid.read_on(stream).map_err(index)?;
                core::ptr::with_exposed_provenance(valid.addresses().start)
            }
        };
        let device = stream.device();
        let event = match device.kind() {
            DeviceKind::Cuda => {
                let event = device.event().map_err(index)?;
                event.record(stream).map_err(index)?;
                Some(event)
            }
            _ => {
                stream.synchronize().map_err(index)?;
                None
            }
        };
        let (device_type, device_id) = device.ordinal().map_or((CPU, -1), |ordinal| (CUDA, ordinal.into()));
        // -1: nobody has counted them.
        let null_count = if valid.is_some() { -1 } else { 0 };
        let handle = event.as_ref().map_or(null_mut(), Event::as_raw);
        let has_event = event.is_some();
        let owned: Box<dyn Send> = Box::new((elements, valid, event));
        let held = Box::into_raw(Box::new(Exported { buffers: [bits, start], handle, _owned: owned }));
        // SAFETY: leaked above, and not freed before the release.
        let (buffers, handle) = unsafe { (&raw mut (*held).buffers, &raw mut (*held).handle) };
        let array = FFI_ArrowArray {
            length: len as i64,
            null_count,
            n_buffers: 2,
            buffers: buffers.cast(),
            release: Some(release),
            private_data: held.cast(),
            ..FFI_ArrowArray::empty()
        };
        let sync_event = if has_event { handle.cast() } else { null_mut() };
        Ok(Self { array, device_id, device_type, sync_event, reserved: [0; 3] })
    }

    /// What is wrong with an array, if anything is, as a column of a fixed size.
    fn flaw(&self) -> Option<String> {
        let FFI_ArrowArray { length, null_count, offset, n_buffers, n_children, buffers, dictionary, release, .. } =
            &self.array;
        let shape = (*n_buffers, *n_children, dictionary.is_null(), buffers.is_null());
        Some(match shape {
            _ if release.is_none() => "it has been released, or taken".to_owned(),
            _ if *length < 0 || *offset < 0 || length.checked_add(*offset).is_none() => {
                format!("its length is {length}, its offset {offset}")
            }
            _ if *null_count < -1 || *null_count > *length => format!("it has {null_count} nulls"),
            (2, 0, true, false) => return None,
            _ => format!(
                "it has {n_buffers} buffers, {n_children} children and {} dictionary, but a column of a fixed size has 2, 0 and none",
                if dictionary.is_null() { "no" } else { "a" }
            ),
        })
    }

    /// Where it is, for messages.
    fn place(&self) -> String {
        match self.device_type {
            CPU => "in main memory".to_owned(),
            CUDA | CUDA_MANAGED => format!("on cuda:{}", self.device_id),
            other => format!("on device {} of Arrow's type {other}", self.device_id),
        }
    }

    fn check_is_of(&self, device: &Device) -> Result<()> {
        let is_here = match device.ordinal() {
            Some(ordinal) => matches!(self.device_type, CUDA | CUDA_MANAGED) && self.device_id == i64::from(ordinal),
            None => self.device_type == CPU,
        };
        if is_here { Ok(()) } else { Err(Error::Place { place: self.place(), device: device.to_string() }) }
    }
}

/// What an exported array owns.
struct Exported {
    buffers: [*const c_void; 2],
    /// The event's handle: arrays have its address.
    handle: *mut c_void,
    _owned: Box<dyn Send>,
}

/// # Safety
/// An array of [`ArrowDeviceArray::export`], not released.
unsafe extern "C" fn release(array: *mut FFI_ArrowArray) {
    // SAFETY: the caller's; the box was leaked there, and an array is released once.
    unsafe {
        (*array).release = None;
        drop(Box::from_raw((*array).private_data.cast::<Exported>()));
    }
}

/// A type of elements that columns on a device have: `u32`, `u64`, `i32`, `i64`, `i128`, [`F32`] and [`F64`].
pub trait Element: Pod + Send + sealed::Sealed {
    #[doc(hidden)]
    const NAME: &'static str;
    #[doc(hidden)]
    const IS_WORD_OF_FLOAT: bool = false;
    /// Whether elements of this type are keys of a column.
    #[doc(hidden)]
    fn is_key_of(data_type: &DataType) -> bool;
    /// Keys of a column's elements, unless they are the same.
    #[doc(hidden)]
    fn order(_: &Stream, _: &Buffer<Self>) -> Result<Option<Buffer<Self>>> {
        Ok(None)
    }
    /// Elements of a column from keys, in place.
    #[doc(hidden)]
    fn restore(_: &Stream, _: &mut Buffer<Self>) -> Result<()> {
        Ok(())
    }
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($element:ident: $kind:ident $(as $word:ident)?;)*) => {$(
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const NAME: &'static str = stringify!($element);

            fn is_key_of(data_type: &DataType) -> bool {
                Kind::of(data_type) == Some(Kind::$kind) && width_of(data_type) == Some(size_of::<Self>())
            }

            $(
                const IS_WORD_OF_FLOAT: bool = true;

                fn order(stream: &Stream, numbers: &Buffer<Self>) -> Result<Option<Buffer<Self>>> {
                    let mut words = stream.device().alloc::<Self>(numbers.len()).map_err(index)?;
                    if let (Some(numbers), Some(words)) = (numbers.cast_ref::<$word>(), words.cast_mut::<$word>()) {
                        order_floats(stream, FloatOrder::Total, numbers, words)?;
                    }
                    Ok(Some(words))
                }

                fn restore(stream: &Stream, words: &mut Buffer<Self>) -> Result<()> {
                    Ok(words.cast_mut::<$word>().map_or(Ok(()), |words| restore_floats(stream, words))?)
                }
            )?
        }
    )*};
}
elements!(
    u32: U32;
    u64: U64;
    i32: I32;
    i64: I64;
    i128: I128;
    F32: F32 as u32;
    F64: F64 as u64;
);

/// Bytes of an element of a type whose arrays have two buffers, validity and elements.
fn width_of(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    }
}

fn index(error: lanetree::runtime::Error) -> Error {
    Error::Index(error.into())
}

/// A column on a device: an array of Arrow's as a [`Buffer`], for the builds, queries and values of indexes on this device.
///
/// ```
/// use arrow_array::{Array, Int64Array};
/// use arrow_data::ffi::FFI_ArrowArray;
/// use arrow_schema::DataType;
/// use lanetree::{Device, LaneTree};
/// use lanetree_arrow::{ArrowDeviceArray, DeviceColumn};
///
/// # fn main() -> lanetree_arrow::Result<()> {
/// let device = Device::host();
/// let index = LaneTree::build(&device, &[10_i64, 20, 30], &[1_u64, 2, 3])?;
///
/// // An array of another library's; here in main memory, where the index is.
/// let array = FFI_ArrowArray::new(&Int64Array::from(vec![20, 25]).to_data());
/// let array = ArrowDeviceArray { array, ..ArrowDeviceArray::empty() };
///
/// let stream = device.stream().map_err(lanetree::Error::from)?;
/// // SAFETY: a live array of this type.
/// let queries = unsafe { DeviceColumn::<i64>::import(&stream, array, &DataType::Int64)? };
/// let mut values = device.alloc(2).map_err(lanetree::Error::from)?;
/// let mut hits = device.alloc(1).map_err(lanetree::Error::from)?;
/// index.on(&stream).hits(&mut hits).miss(0).get(queries.elements(), &mut values)?;
///
/// // The answer, for any library.
/// let answer = ArrowDeviceArray::export(&stream, &DataType::UInt64, values, 2, Some(hits))?;
/// assert_eq!(answer.array.length, 2);
/// # Ok(())
/// # }
/// ```
pub struct DeviceColumn<T> {
    data_type: DataType,
    /// Goes first: dropping it waits for the streams that use it.
    elements: Buffer<T>,
    /// What floats' words were made from.
    _numbers: Option<Buffer<T>>,
    validity: Option<(Buffer<u32>, usize)>,
    null_count: Option<usize>,
    is_copied: bool,
    _array: ArrowDeviceArray,
}

// SAFETY: through a shared reference only the buffers are read.
unsafe impl<T: Sync> Sync for DeviceColumn<T> {}

impl<T: Element> DeviceColumn<T> {
    /// Takes an array on the stream's device, of a type whose keys are `T`s (the table of the [crate](crate#types)):
    ///
    /// | elements | of columns |
    /// |---|---|
    /// | `i32`, `i64` | `Int32`, `Date32`, `Time32`, `Decimal32`; `Int64`, `Date64`, `Time64`, `Timestamp`, `Duration`, `Decimal64` |
    /// | `u32`, `u64`, `i128` | `UInt32`, `UInt64`, `Decimal128` |
    /// | [`F32`], [`F64`] | `Float32`, `Float64`: copied on the device, to their ordered words |
    ///
    /// Elements are used where they are, slices too. Those in main memory that are not aligned to an element (of `i128`, some
    /// producers' are not) are copied. Returns at once: all work of Lanetree's over the buffers comes after the array's event. Dropping
    /// the column waits for that work and releases the array; an error releases it at once.
    ///
    /// Other columns (strings, [`Bytes16`](lanetree::Bytes16), dictionaries, booleans, integers of 8 and 16 bits) go through main memory.
    ///
    /// # Errors
    /// [`Error::DeviceArray`] for an array that is none of a fixed size; [`Error::Place`] for one that is elsewhere;
    /// [`Error::Elements`] for a type whose keys are not `T`s; [`Error::Index`] from the device, among others for memory of a GPU that is
    /// not aligned.
    ///
    /// # Safety
    /// The array is a valid one of this type, whose memory nobody writes before it is released. On a GPU its validity bitmap, if it
    /// has nulls, can be read in whole aligned words of 4 bytes.
    pub unsafe fn import(stream: &Stream, array: ArrowDeviceArray, data_type: &DataType) -> Result<Self> {
        if let Some(reason) = array.flaw() {
            return Err(Error::DeviceArray { reason });
        }
        let device = stream.device();
        array.check_is_of(device)?;
        if !T::is_key_of(data_type) {
            return Err(Error::Elements { data_type: data_type.clone(), element: T::NAME });
        }
        if device.kind() != DeviceKind::Cuda && !array.sync_event.is_null() {
            return Err(Error::DeviceArray { reason: "it is in main memory, but has an event".to_owned() });
        }
        let (len, offset) = (array.array.length as usize, array.array.offset as usize);
        // SAFETY: two buffers, as was checked.
        let [bits, start] = unsafe { array.array.buffers.cast::<[*const c_void; 2]>().read() };
        if start.is_null() && len > 0 {
            return Err(Error::DeviceArray { reason: format!("it has {len} elements at address 0") });
        }
        let start = start.cast_mut().cast::<T>().wrapping_add(offset);
        let is_copied = len > 0 && !start.is_aligned() && device.kind() != DeviceKind::Cuda;
        let mut elements = if is_copied {
            // SAFETY: that many elements in main memory, which are ready, since there is no event.
            let bytes = unsafe { core::slice::from_raw_parts(start.cast::<u8>(), len * size_of::<T>()) };
            let copy: Vec<T> = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
            device.upload(&copy)
        } else {
            // SAFETY: the caller vouches for the elements until the array is released, which the column holds. Nobody writes them.
            unsafe { device.buffer_from_raw(start, len) }
        }
        .map_err(index)?;
        let null_count = usize::try_from(array.array.null_count).ok();
        let mut validity = match bits.is_null() || null_count == Some(0) || len == 0 {
            true => None,
            // SAFETY: the caller vouches for the bitmap, as for the elements.
            false => Some(unsafe { bitmap(device, bits.cast(), offset, len)? }),
        };
        // As a kernel that writes them would be remembered: other streams come after this one.
        elements.write_on(stream).map_err(index)?;
        if let Some((words, _)) = &mut validity {
            words.write_on(stream).map_err(index)?;
        }
        if !array.sync_event.is_null() {
            // SAFETY: an event of CUDA's is given by its address.
            unsafe { stream.wait_raw(array.sync_event.cast::<*mut c_void>().read()) }.map_err(index)?;
        }
        let (elements, numbers) = match T::order(stream, &elements)? {
            Some(words) => (words, Some(elements)),
            None => (elements, None),
        };
        Ok(Self {
            data_type: data_type.clone(),
            is_copied: is_copied || numbers.is_some(),
            elements,
            _numbers: numbers,
            null_count: if validity.is_none() { Some(0) } else { null_count },
            validity,
            _array: array,
        })
    }

    /// The type of the array.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The elements; of nulls, any. Values of an index are `u32` or `u64`: [`Buffer::cast_ref`] makes them of other types of this size.
    pub fn elements(&self) -> &Buffer<T> {
        &self.elements
    }

    /// The elements, if none is null.
    ///
    /// # Errors
    /// [`Error::DeviceNulls`] if some are, or may be: nobody has counted them.
    pub fn without_nulls(&self) -> Result<&Buffer<T>> {
        match self.null_count {
            Some(0) => Ok(&self.elements),
            nulls => Err(Error::DeviceNulls { nulls }),
        }
    }

    /// Which elements are there: bit `i % 32` of word `i / 32` is that of element `i - offset`; with the offset. `None` if all are.
    /// Joins in device form take it as it is, and [`mask_hits`](lanetree::mask_hits) takes nulls' answers out of a hit mask.
    pub fn validity(&self) -> Option<(&Buffer<u32>, usize)> {
        self.validity.as_ref().map(|(words, offset)| (words, *offset))
    }

    /// How many nulls there are; `None` if nobody has counted them.
    pub fn null_count(&self) -> Option<usize> {
        self.null_count
    }

    /// Whether the elements are a copy.
    pub fn is_copied(&self) -> bool {
        self.is_copied
    }
}

/// A bitmap in words, and where in them it begins.
///
/// # Safety
/// So many bits, from an offset on, are at an address of the device; on a GPU in whole aligned words.
unsafe fn bitmap(device: &Device, bits: *const u8, offset: usize, len: usize) -> Result<(Buffer<u32>, usize)> {
    let (start, offset) = (bits.wrapping_add(offset / 8), offset % 8);
    let bytes = (offset + len).div_ceil(8);
    if device.kind() == DeviceKind::Cuda {
        let skipped = start.addr() % 4;
        let words = (skipped + bytes).div_ceil(4);
        let start = start.wrapping_sub(skipped).cast_mut().cast();
        // SAFETY: the caller's; nobody writes them.
        let words = unsafe { device.buffer_from_raw(start, words) }.map_err(index)?;
        return Ok((words, offset + 8 * skipped));
    }
    // SAFETY: the caller's. A copy: a last word may be of fewer bytes.
    let bytes = unsafe { core::slice::from_raw_parts(start, bytes) };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let words: Vec<u32> = bytes.chunks(4).map(word).collect();
    Ok((device.upload(&words).map_err(index)?, offset))
}

impl<T: Pod> fmt::Debug for DeviceColumn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceColumn<{}>[{} on {}]", self.data_type, self.elements.len(), self.elements.device())
    }
}
