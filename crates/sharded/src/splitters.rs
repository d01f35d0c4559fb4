//! Borders between shards.

use crate::group::check_devices;
use crate::route::Route;
use lanetree_frame::room::collected;
use lanetree_frame::{AnyKey, Device, KeyWord, Result};

/// Sampled keys per shard: enough for sizes within a few hundredths of the mean.
const SAMPLE: usize = 1 << 12;

/// Chooses the borders of one shard per device for a build, and partitions its keys.
///
/// # Errors
/// [`Error::OptionValue`](lanetree_frame::Error::OptionValue) for no devices, or too many; as [`choose`].
pub(crate) fn partition<K: AnyKey>(devices: &[Device], keys: &[K]) -> Result<(Vec<K>, Route)> {
    check_devices(devices)?;
    let splitters = choose(keys, devices.len())?;
    let route = Route::new(&splitters, keys.len(), |at| keys[at])?;
    Ok((splitters, route))
}

/// The smallest keys of all shards but the first, ascending, from a sample of the build's keys, which may be in any order. A sample
/// with few distinct keys gives equal splitters, and empty shards between them. Without keys, the shards share the key space evenly.
///
/// # Errors
/// [`Error::Runtime`](lanetree_frame::Error::Runtime) if main memory has no room for the sample.
pub(crate) fn choose<K: AnyKey>(keys: &[K], shards: usize) -> Result<Vec<K>> {
    let count = keys.len().min(shards * SAMPLE);
    if count == 0 {
        return collected((1..shards).map(|shard| at(shard, shards)));
    }
    let start = |i: usize| (i as u128 * keys.len() as u128 / count as u128) as usize;
    // One key of each part, at a position unrelated to any period of the keys.
    let scattered = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) as usize;
    let drawn = |i: usize| keys[start(i) + scattered(i) % (start(i + 1) - start(i))];
    let mut sample = collected((0..count).map(drawn))?;
    sample.sort_unstable();
    collected((1..shards).map(|shard| sample[shard * count / shards]))
}

/// The key at a fraction of the key space.
fn at<K: AnyKey>(part: usize, parts: usize) -> K {
    let fraction = ((part as u128) << 64) / parts as u128;
    let word = match K::Bits::BITS {
        128 => fraction << 64,
        bits => fraction >> (64 - bits),
    };
    K::decode(K::Bits::from_parts([word as u64, (word >> 64) as u64]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::shard_of;

    #[test]
    fn shards_are_about_as_large_as_each_other_whatever_the_order() {
        let ascending: Vec<u64> = (0..100_003).map(|i| i * i).collect();
        let descending: Vec<u64> = ascending.iter().rev().copied().collect();
        let scattered: Vec<u64> = (0..100_003_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for keys in [ascending, descending, scattered] {
            for shards in [1, 2, 3, 7, 64] {
                let splitters = choose(&keys, shards).unwrap();
                let mut sizes = vec![0; shards];
                keys.iter().for_each(|key| sizes[shard_of(&splitters, key)] += 1);
                let mean = keys.len() / shards;
                assert!(sizes.iter().all(|&size| size > mean / 2 && size < mean * 3 / 2), "{sizes:?}");
            }
        }
    }

    #[test]
    fn few_keys_or_none_have_splitters_too() {
        assert_eq!(choose::<u32>(&[], 4).unwrap(), [1 << 30, 2 << 30, 3 << 30]);
        assert_eq!(choose::<i64>(&[], 2).unwrap(), [0]);
        assert_eq!(choose::<u128>(&[], 2).unwrap(), [1 << 127]);
        assert_eq!(choose(&[9_u64], 3).unwrap(), [9, 9]);
        assert_eq!(choose(&[7_u64; 1000], 3).unwrap(), [7, 7]);
        let splitters = choose(&[5_u64, 1], 4).unwrap();
        assert!(splitters.is_sorted() && splitters.iter().all(|key| [1, 5].contains(key)), "{splitters:?}");
    }
}
