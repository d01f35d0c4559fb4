//! Where the results of a batch of ranges go.

use lanetree_base::ranges::Ranges;
use lanetree_base::room::{FEW, free_bytes, out_of_memory};
use lanetree_base::{Error, Result};
use lanetree_runtime::prefer_huge_pages;

/// Makes room for `needed` pairs in all, or for as many as are expected; for values alone if keys are not wanted. The system grants
/// more memory than it has, and kills processes that use it all. So this first asks how much is free.
pub(super) fn reserve_pairs<K, V>(out: &mut Ranges<K, V>, needed: u64, expected: u64, wants_keys: bool) -> Result<()> {
    let key_bytes = if wants_keys { size_of::<K>() } else { 0 };
    let no_room = || out_of_memory(u128::from(needed) * (key_bytes + size_of::<V>()) as u128);
    let rows = needed;
    let needed = usize::try_from(needed).map_err(|_| no_room())?;
    let of_keys = if wants_keys { out.keys.capacity() } else { usize::MAX };
    let capacity = of_keys.min(out.values.capacity());
    if needed <= capacity {
        return Ok(());
    }
    // Neither vector need be as long as the other: the caller may have left anything in them.
    let (keys, values) = (out.keys.len(), out.values.len());
    let more = |pairs: usize| {
        let more_keys = pairs.saturating_sub(keys).saturating_mul(key_bytes);
        more_keys.saturating_add(pairs.saturating_sub(values).saturating_mul(size_of::<V>()))
    };
    let generous = needed.max(expected as usize).max(capacity.saturating_mul(2));
    let free = if more(generous) < FEW { usize::MAX } else { free_bytes()? };
    if more(needed) > free {
        return Err(Error::TooManyRows { rows, bytes: more(needed) as u128, free: free as u64 });
    }
    let mut try_reserve = |pairs: usize| {
        (!wants_keys || out.keys.try_reserve_exact(pairs.saturating_sub(keys)).is_ok())
            && out.values.try_reserve_exact(pairs.saturating_sub(values)).is_ok()
    };
    let is_granted = more(generous) <= free / 2 && try_reserve(generous) || try_reserve(needed);
    if !is_granted {
        return Err(no_room());
    }
    prefer_huge_pages(out.keys.spare_capacity_mut());
    prefer_huge_pages(out.values.spare_capacity_mut());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_beyond_memory_are_refused_before_they_are_gathered() {
        let mut out = Ranges::<u64, u64> { offsets: vec![0, 1], keys: vec![7], values: vec![8] };
        for pairs in [1 << 44, 1 << 60, u64::MAX] {
            let error = reserve_pairs(&mut out, pairs, pairs, true).unwrap_err().to_string();
            assert!(error.starts_with(&format!("main memory has no room for {pairs} rows")), "{error}");
        }
        assert_eq!((&out.keys[..], &out.values[..]), (&[7][..], &[8][..]));
        reserve_pairs(&mut out, 1000, u64::MAX, true).unwrap();
        assert!(out.keys.capacity() >= 1000 && out.values.capacity() >= 1000);
        reserve_pairs(&mut out, 5000, 5000, false).unwrap();
        assert!(out.keys.capacity() < 5000 && out.values.capacity() >= 5000);
    }
}
