//! How fast the CPU's pipelines and the device alone are: what a batch is shared by.

use crate::tuning::Tuning;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Of what would end together with the rest of a batch, the part that the device takes at a time. The sooner it comes
/// again, the better it knows how fast both are by then.
const PART: f64 = 0.5;

/// Batches after which a device that was too slow for any bucket is tried again.
const PATIENCE: u32 = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    /// Queries per second of the pipelines together, and of the device alone; 0: not known.
    pipelines: f64,
    device: f64,
    /// Batches in a row in which the device has had nothing.
    idle: u32,
}

/// What is known from earlier buckets.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Rates>);

impl Pace {
    fn rates(&self) -> std::sync::MutexGuard<'_, Rates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of the queries that are left the device should take next; 0: none, since it would be last.
    pub(super) fn next(&self, left: usize, most: usize, tuning: &Tuning) -> usize {
        let rates = *self.rates();
        if rates.device == 0.0 || rates.pipelines == 0.0 {
            // A trial, of a batch that is long enough.
            let trial = tuning.trial.min(most);
            return if left >= 8 * trial { trial } else { 0 };
        }
        let even = left as f64 * rates.device / (rates.device + rates.pipelines);
        match (even * PART) as usize {
            few if few < tuning.least.min(most) => 0,
            many => many.min(most),
        }
    }

    /// Notes what the device has done so far in a batch.
    pub(super) fn device(&self, queries: usize, time: Duration) {
        self.rates().device = queries as f64 / time.as_secs_f64().max(1e-9);
    }

    /// Notes what the pipelines have done in a batch, if it was timed, and whether the device has had a part.
    pub(super) fn batch(&self, of_pipelines: usize, time: Duration, with_device: bool) {
        let mut rates = self.rates();
        rates.pipelines = smoothed(rates.pipelines, of_pipelines, time);
        rates.idle = if with_device { 0 } else { rates.idle + 1 };
        if rates.idle > PATIENCE {
            // It may be faster by now.
            (rates.device, rates.idle) = (0.0, 0);
        }
    }
}

/// A rate, half of which is the last one measured.
fn smoothed(rate: f64, queries: usize, time: Duration) -> f64 {
    if queries == 0 || time.is_zero() {
        return rate;
    }
    let now = queries as f64 / time.as_secs_f64();
    if rate == 0.0 { now } else { (rate + now) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::TUNING;

    /// Plays batches at two speeds, in queries per second, and gives the time of the last one over the best possible.
    fn loss(batches: usize, queries: usize, pipelines: f64, device: f64) -> f64 {
        let pace = Pace::default();
        let mut last = 0.0;
        for _ in 0..batches {
            // When each is free again.
            let (mut left, mut own, mut pipelines_at, mut device_at) = (queries, 0, 0.0, 0.0);
            let mut with_device = true;
            while left > 0 {
                let next =
                    if with_device && device_at <= pipelines_at { pace.next(left, 1 << 21, &TUNING.0[0].1) } else { 0 };
                with_device &= device_at > pipelines_at || next > 0;
                if next > 0 {
                    left -= next;
                    device_at += next as f64 / device;
                    pace.device(queries - left - own, Duration::from_secs_f64(device_at));
                } else {
                    let step = left.min(1 << 10);
                    (left, own) = (left - step, own + step);
                    pipelines_at += step as f64 / pipelines;
                }
            }
            pace.batch(own, Duration::from_secs_f64(pipelines_at), own < queries);
            last = f64::max(pipelines_at, device_at);
        }
        last / (queries as f64 / (pipelines + device))
    }

    #[test]
    fn both_end_together_at_any_speeds() {
        for speeds in [(1e9, 5e8), (1e9, 1e9), (2.5e8, 1e9), (1e9, 1.25e8), (1e7, 1e9)] {
            let loss = loss(4, 1 << 25, speeds.0, speeds.1);
            // What is too little for the device is the pipelines', however slow they are.
            assert!(loss < 1.1, "{speeds:?}: {loss}");
        }
    }

    #[test]
    fn a_slow_device_is_left_alone() {
        // The pipelines alone would take 1.01 of the best.
        assert!(loss(4, 1 << 25, 1e9, 1e7) < 1.05);
    }
}
