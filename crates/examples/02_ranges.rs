//! Range queries: bounds of any kind, limits, counts, results in compressed sparse row form.
//!
//! `cargo run --release -p lanetree-examples --example 02_ranges`

use lanetree::{Device, KeyRange, LaneTree};
use std::ops::Bound;

fn main() -> lanetree::Result<()> {
    // Temperatures of a year in hundredths of a degree, at most one of each, and the day they were met.
    let mut readings: Vec<(i32, u32)> = Vec::new();
    for day in 0..365_u32 {
        let season = (f64::from(day) / 365.0 * std::f64::consts::TAU).cos() * -1500.0;
        readings.push((season as i32 + 900 + (day as i32 * 7919) % 400, day));
    }
    let (temperatures, days): (Vec<i32>, Vec<u32>) = readings.into_iter().unzip();
    let index = LaneTree::build(&Device::best(), &temperatures, &days)?;

    // Each query its own bounds and its own limit; one call for all of them.
    let batch = [
        KeyRange::from(..0),
        KeyRange::from(0..=500),
        KeyRange::new((Bound::Excluded(500), Bound::Unbounded)).limit(5),
    ];
    let hits = index.range_many(batch)?;
    for (name, (temperatures, days)) in ["frost", "0 to 5 degrees", "above 5, the coldest five"].iter().zip(hits.iter())
    {
        println!("{name}: {} readings, {:?} on days {:?}", days.len(), temperatures.first(), days.first());
    }

    // The same results flat: row i is offsets[i]..offsets[i + 1].
    assert_eq!(hits.offsets.len(), batch.len() + 1);
    assert_eq!(hits.get(2).0.len(), 5);

    // Counts alone copy no pairs.
    assert_eq!(index.count_range_many([..0, ..1])?[0], hits.get(0).0.len() as u64);

    // And everything, in order.
    let mut ascending = true;
    let mut last = i32::MIN;
    for pair in &index {
        let (temperature, _) = pair?;
        ascending &= last < temperature || last == i32::MIN;
        last = temperature;
    }
    assert!(ascending);
    Ok(())
}
