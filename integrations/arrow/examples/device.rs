//! A column of another library's as queries, and the answers as a column for it; without a copy on the same device.

use arrow_array::{Array, Int64Array};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::DataType;
use lanetree::{Device, LaneTree};
use lanetree_arrow::{ArrowDeviceArray, DeviceColumn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::host();
    let index = LaneTree::build(&device, &[10_i64, 20, 30], &[1_u64, 2, 3])?;

    // What a producer hands over: the array and its type. On a GPU the array has an event, which work here waits for.
    let array = FFI_ArrowArray::new(&Int64Array::from(vec![20, 25, 30]).to_data());
    let array = ArrowDeviceArray { array, ..ArrowDeviceArray::empty() };

    let stream = device.stream()?;
    // SAFETY: a live array of this type, which nobody writes.
    let queries = unsafe { DeviceColumn::<i64>::import(&stream, array, &DataType::Int64)? };
    let count = queries.elements().len();
    let (mut values, mut hits) = (device.alloc(count)?, device.alloc(count.div_ceil(32))?);
    index.on(&stream).hits(&mut hits).get(queries.without_nulls()?, &mut values)?;
    println!("{queries:?}, copied: {}", queries.is_copied());

    let answers = ArrowDeviceArray::export(&stream, &DataType::UInt64, values, count, Some(hits))?;
    println!("{} answers on a device of type {}, for any consumer", answers.array.length, answers.device_type);
    Ok(())
}
