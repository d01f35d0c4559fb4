//! Arrow's C device interface, on the host and the emulator.

use arrow_array::ffi::from_ffi;
use arrow_array::*;
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::DataType;
use arrow_schema::ffi::FFI_ArrowSchema;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use lanetree::{Buffer, Device, F32, F64, LaneTree, mask_hits};
use lanetree_arrow::device::{CPU, CUDA};
use lanetree_arrow::{ArrowDeviceArray, DeviceColumn, Error};
use std::sync::Arc;

fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated()]
}

/// A producer that counts releases.
struct Counted {
    made: FFI_ArrowArray,
    releases: Arc<AtomicUsize>,
}

unsafe extern "C" fn count(array: *mut FFI_ArrowArray) {
    // SAFETY: an array of `counted`, released once.
    let counted = unsafe {
        (*array).release = None;
        Box::from_raw((*array).private_data.cast::<Counted>())
    };
    assert!(!counted.made.is_released());
    counted.releases.fetch_add(1, Ordering::Relaxed);
}

/// An array in main memory, and how often it has been released.
fn counted(array: &dyn Array) -> (ArrowDeviceArray, Arc<AtomicUsize>) {
    let made = FFI_ArrowArray::new(&array.to_data());
    let releases = Arc::new(AtomicUsize::new(0));
    let fields = (made.length, made.null_count, made.offset, made.n_buffers, made.n_children);
    let (buffers, children, dictionary) = (made.buffers, made.children, made.dictionary);
    let counted = Box::into_raw(Box::new(Counted { made, releases: releases.clone() }));
    let (length, null_count, offset, n_buffers, n_children) = fields;
    let array = FFI_ArrowArray {
        length,
        null_count,
        offset,
        n_buffers,
        n_children,
        buffers,
        children,
        dictionary,
        release: Some(count),
        private_data: counted.cast(),
    };
    (ArrowDeviceArray { array, ..ArrowDeviceArray::empty() }, releases)
}

/// As another library's.
fn of(array: &dyn Array) -> ArrowDeviceArray {
    counted(array).0
}

/// What a consumer in main memory sees.
fn received(exported: ArrowDeviceArray, data_type: &DataType) -> ArrayRef {
    assert_eq!((exported.device_type, exported.device_id), (CPU, -1));
    assert!(exported.sync_event.is_null());
    let schema = FFI_ArrowSchema::try_from(data_type).unwrap();
    // SAFETY: an array of this type, in main memory.
    let data = unsafe { from_ffi(exported.array, &schema) }.unwrap();
    data.validate_full().unwrap();
    make_array(data)
}

#[test]
fn columns_are_keys_values_and_queries_of_an_index_where_they_are() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let keys = TimestampSecondArray::from(vec![99, 10, 20, 30, 40]).slice(1, 4);
        let values = UInt64Array::from(vec![1, 2, 3, 4]);
        let queries = TimestampSecondArray::from(vec![Some(20), Some(25), None, Some(40)]);
        let data_type = keys.data_type().clone();
        // SAFETY: live arrays of these types.
        let (keys_on, values_on, queries_on) = unsafe {
            (
                DeviceColumn::<i64>::import(&stream, of(&keys), &data_type).unwrap(),
                DeviceColumn::<u64>::import(&stream, of(&values), &DataType::UInt64).unwrap(),
                DeviceColumn::<i64>::import(&stream, of(&queries), &data_type).unwrap(),
            )
        };
        assert!(!keys_on.is_copied(), "in place");
        assert_eq!(keys_on.elements().addresses().start, keys.values().as_ptr().addr());
        let mut scratch = lanetree::lane_tree::BuildScratch::for_sorted(&device).unwrap();
        let keys_of = keys_on.without_nulls().unwrap();
        let index = LaneTree::<i64, u64>::builder()
            .build_sorted_on(&stream, keys_of, values_on.without_nulls().unwrap(), 4, &mut scratch)
            .unwrap();

        let error = queries_on.without_nulls().unwrap_err();
        assert!(matches!(error, Error::DeviceNulls { nulls: Some(1) }), "{error}");
        let (valid, offset) = queries_on.validity().unwrap();
        let (mut found, mut hits) = (device.alloc(4).unwrap(), device.alloc(1).unwrap());
        index.on(&stream).hits(&mut hits).get(queries_on.elements(), &mut found).unwrap();
        mask_hits(&stream, valid, offset, 4, &mut hits).unwrap();
        let exported = ArrowDeviceArray::export(&stream, &DataType::UInt64, found, 4, Some(hits)).unwrap();
        let answer = received(exported, &DataType::UInt64);
        assert_eq!(answer.as_ref(), &UInt64Array::from(vec![Some(2), None, None, Some(4)]) as &dyn Array);
    }
}

#[test]
fn exported_arrays_are_the_buffers_own_memory_and_free_them_once() {
    for device in devices() {
        let pool = lanetree::Pool::new(&device);
        let device = pool.device();
        let stream = device.stream().unwrap();
        let elements = device.upload(&[-3_i32, 0, 5]).unwrap();
        let address = elements.addresses().start;
        let exported = ArrowDeviceArray::export(&stream, &DataType::Date32, elements, 2, None).unwrap();
        assert!(pool.bytes_in_use() > 0);
        let array = received(exported, &DataType::Date32);
        assert_eq!(array.to_data().buffers()[0].as_ptr().addr(), address);
        assert_eq!(array.as_ref(), &Date32Array::from(vec![-3, 0]) as &dyn Array);
        drop(array);
        assert_eq!(pool.bytes_in_use(), 0);
    }
}

#[test]
fn what_a_stream_still_writes_is_in_the_exported_array() {
    for seed in 0..20 {
        let device = Device::emulated_with_seed(seed);
        let (writing, exporting) = (device.stream().unwrap(), device.stream().unwrap());
        let from = device.upload(&[7_u32; 64]).unwrap();
        let mut elements = device.alloc_zeroed::<u32>(64).unwrap();
        elements.copy_from_buffer(&writing, 0, &from, 0..64).unwrap();
        let exported = ArrowDeviceArray::export(&exporting, &DataType::UInt32, elements, 64, None).unwrap();
        let array = received(exported, &DataType::UInt32);
        assert_eq!(array.as_ref(), &UInt32Array::from(vec![7; 64]) as &dyn Array, "seed {seed}");
    }
}

#[test]
fn floats_become_ordered_words_and_floats_again() {
    fn there_and_back<T: lanetree_arrow::device::Element + PartialEq + core::fmt::Debug>(
        array: &dyn Array,
        keys: &[T],
    ) {
        for device in devices() {
            let stream = device.stream().unwrap();
            // SAFETY: a live array of this type.
            let column = unsafe { DeviceColumn::<T>::import(&stream, of(array), array.data_type()) }.unwrap();
            assert!(column.is_copied());
            stream.synchronize().unwrap();
            assert_eq!(column.elements().to_vec().unwrap(), keys);
            let words = device.upload(keys).unwrap();
            let len = keys.len();
            let exported = ArrowDeviceArray::export(&stream, array.data_type(), words, len, None).unwrap();
            assert_eq!(received(exported, array.data_type()).as_ref(), array);
        }
    }
    let numbers = [-0.0, 1.5, f32::NEG_INFINITY, f32::MAX];
    there_and_back(&Float32Array::from(numbers.to_vec()), &numbers.map(F32::new));
    let numbers = numbers.map(f64::from);
    there_and_back(
        &Float64Array::from(numbers.to_vec()).slice(1, 3),
        &numbers[1..].iter().map(|x| F64::new(*x)).collect::<Vec<_>>(),
    );
}

#[test]
fn bitmaps_begin_at_any_element() {
    let array: UInt32Array = (0..100).map(|i| (i % 3 != 0).then_some(i)).collect();
    for device in devices() {
        let stream = device.stream().unwrap();
        for (start, len) in [(0, 100), (1, 99), (7, 9), (31, 33), (64, 36), (99, 1), (98, 1), (50, 0)] {
            let part = array.slice(start, len);
            // SAFETY: a live array of this type.
            let column = unsafe { DeviceColumn::<u32>::import(&stream, of(&part), &DataType::UInt32) }.unwrap();
            assert_eq!(column.elements().len(), len);
            let Some((words, offset)) = column.validity() else {
                assert_eq!(part.null_count(), 0);
                continue;
            };
            let words = words.to_vec().unwrap();
            for i in 0..len {
                let bit = words[(offset + i) / 32] >> ((offset + i) % 32) & 1 != 0;
                assert_eq!(bit, part.is_valid(i), "element {i} from {start} on");
            }
        }
    }
}

#[test]
fn elements_that_are_not_aligned_are_copied_in_main_memory() {
    let words: Vec<u64> = (0..9).collect();
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    for device in devices() {
        let stream = device.stream().unwrap();
        let (mut array, releases) = counted(&UInt64Array::from(vec![0; 8]));
        let mut buffers = [core::ptr::null::<c_void>(), bytes[3..].as_ptr().cast()];
        array.array.buffers = buffers.as_mut_ptr();
        // SAFETY: the elements outlive the column.
        let column = unsafe { DeviceColumn::<u64>::import(&stream, array, &DataType::UInt64) }.unwrap();
        assert!(column.is_copied());
        let expected: Vec<u64> =
            bytes[3..67].chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(column.elements().to_vec().unwrap(), expected);
        drop(column);
        assert_eq!(releases.load(Ordering::Relaxed), 1);
    }
}

/// Changes an array, tries to take it as `T`s of a type, and says why not.
fn refused<T: lanetree_arrow::device::Element>(
    device: &Device,
    array: &dyn Array,
    change: impl FnOnce(&mut ArrowDeviceArray),
) -> String {
    let stream = device.stream().unwrap();
    let (mut array_on, releases) = counted(array);
    change(&mut array_on);
    // SAFETY: a live array of this type; what was changed is seen before any memory is used.
    let error = unsafe { DeviceColumn::<T>::import(&stream, array_on, array.data_type()) }.unwrap_err();
    assert_eq!(releases.load(Ordering::Relaxed), 1, "released once, by the error: {error}");
    error.to_string()
}

#[test]
fn what_is_no_column_of_the_device_is_an_error_and_is_released_once() {
    let numbers = Int64Array::from(vec![1, 2, 3]);
    for device in devices() {
        let on_gpu = |array: &mut ArrowDeviceArray| (array.device_type, array.device_id) = (CUDA, 3);
        let error = refused::<i64>(&device, &numbers, on_gpu);
        assert!(error.contains("on cuda:3") && error.contains(&device.to_string()), "{error}");
        let error = refused::<i64>(&device, &numbers, |array| array.device_type = 8);
        assert!(error.contains("Arrow's type 8"), "{error}");
        let error = refused::<u64>(&device, &numbers, |_| {});
        assert!(error.contains("Int64") && error.contains("`u64`"), "{error}");
        assert!(refused::<i32>(&device, &Int8Array::from(vec![1]), |_| {}).contains("Int8"));
        let strings = StringArray::from(vec!["a"]);
        assert!(refused::<i32>(&device, &strings, |_| {}).contains("3 buffers"));
        assert!(refused::<i64>(&device, &numbers, |array| array.array.length = -1).contains("length is -1"));
        assert!(refused::<i64>(&device, &numbers, |array| array.array.offset = i64::MAX).contains("offset"));
        assert!(refused::<i64>(&device, &numbers, |array| array.array.null_count = 4).contains("4 nulls"));
        let mut event = 0_usize;
        let with_event = |array: &mut ArrowDeviceArray| array.sync_event = (&raw mut event).cast();
        assert!(refused::<i64>(&device, &numbers, with_event).contains("event"));
        let mut none = [core::ptr::null::<c_void>(); 2];
        let error = refused::<i64>(&device, &numbers, |array| array.array.buffers = none.as_mut_ptr());
        assert!(error.contains("address 0"), "{error}");
        assert!(refused::<i64>(&device, &numbers, |array| array.array.buffers = null_mut()).contains("buffers"));

        let stream = device.stream().unwrap();
        // SAFETY: released, as is seen.
        let error = unsafe { DeviceColumn::<i64>::import(&stream, ArrowDeviceArray::empty(), &DataType::Int64) };
        assert!(error.unwrap_err().to_string().contains("released"));
    }
}

#[test]
fn a_column_is_released_once_after_its_use_and_moving_it_out_releases_nothing() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (mut produced, releases) = counted(&Int64Array::from(vec![1, 2, 3]));
        // SAFETY: a valid array, which nobody else uses.
        let taken = unsafe { ArrowDeviceArray::from_raw(&raw mut produced) };
        assert!(produced.array.is_released());
        drop(produced);
        assert_eq!(releases.load(Ordering::Relaxed), 0);
        // SAFETY: a live array of this type.
        let column = unsafe { DeviceColumn::<i64>::import(&stream, taken, &DataType::Int64) }.unwrap();
        assert_eq!(format!("{column:?}"), format!("DeviceColumn<Int64>[3 on {device}]"));
        assert_eq!(releases.load(Ordering::Relaxed), 0);
        drop(column);
        assert_eq!(releases.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn what_can_not_be_exported_is_an_error_and_is_freed() {
    for device in devices() {
        let pool = lanetree::Pool::new(&device);
        let device = pool.device();
        let (stream, other) = (device.stream().unwrap(), Device::emulated().stream().unwrap());
        let made = || device.upload(&[1_u64, 2]).unwrap();
        let valid = |len| Some(device.upload(&vec![u32::MAX; len]).unwrap());
        let export = |stream, data_type, len, valid: Option<Buffer<u32>>| {
            let error = ArrowDeviceArray::export(stream, &data_type, made(), len, valid).unwrap_err().to_string();
            assert_eq!(pool.bytes_in_use(), 0, "{error}");
            error
        };
        assert!(export(&stream, DataType::UInt32, 2, None).contains("UInt32"));
        assert!(export(&stream, DataType::Utf8, 2, None).contains("Utf8"));
        assert!(export(&stream, DataType::UInt64, 3, None).contains("a buffer that has 2"));
        assert!(export(&stream, DataType::UInt64, 2, valid(0)).contains("0 bits"));
        assert!(export(&other, DataType::UInt64, 2, None).contains("emulated"));
        let words = device.upload(&[F64::new(1.0)]).unwrap();
        let error = ArrowDeviceArray::export(&stream, &DataType::Int64, words, 1, None).unwrap_err();
        assert!(matches!(error, Error::Elements { .. }), "{error}");
    }
}
