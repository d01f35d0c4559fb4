//! Orders and the price that was valid at the time of each: `cargo run -p lanetree-arrow --example prices`.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Float64Array, TimestampSecondArray};
use core::ops::Bound::{Excluded, Included};
use lanetree::Device;
use lanetree_arrow::{ArrowIndex, Nulls};

fn main() -> lanetree_arrow::Result<()> {
    let noon = 1_764_072_000;
    let times = TimestampSecondArray::from(vec![Some(noon), Some(noon + 60), None, Some(noon + 180)]);
    let prices = Float64Array::from(vec![10.0, 10.5, 99.0, 11.0]);
    let index = ArrowIndex::build(&Device::best(), &times, Nulls::Skip)?;
    println!("{index:?}");

    let orders = TimestampSecondArray::from(vec![Some(noon + 90), Some(noon + 180), Some(noon - 1), None]);
    let rows = index.predecessor(&orders)?;
    for (order, row) in rows.iter().enumerate() {
        match row {
            Some(row) => println!("order {order}: price {} of row {row}", prices.value(row as usize)),
            None => println!("order {order}: no price"),
        }
    }

    let (from, to) = (TimestampSecondArray::from(vec![noon]), TimestampSecondArray::from(vec![noon + 180]));
    let range = index.range(Included(&from), Excluded(&to))?.value(0);
    println!("rows of the first three minutes: {:?}", range.as_primitive::<UInt64Type>().values().to_vec());
    Ok(())
}
