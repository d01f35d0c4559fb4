//! Completes a sort that used only the upper bits.

use super::check;
use core::ops::Range;
use lanetree_base::{AnyKey, Buffer, DeviceKind, Error, KeyWord, Result, Stream, Word};
use lanetree_kernels_primitives::calls;
use lanetree_kernels_primitives::local_sort::{LOCAL_SORT_THREADS, LOCAL_SORT_TILE, LocalSortArgs, differing_bits};
use lanetree_runtime::Launch;
use lanetree_simt::{GlobalMut, LaunchShape};

/// Words that [`local_sort_pairs`] writes: the bits in which keys differ, and whether the pairs are not sorted.
pub const LOCAL_SORT_FINDINGS: usize = 2;

/// Sorts the first `len` pairs, stably and in place, after a sort by the keys' bits from `from` on (bits of
/// [`AnyKey::encode`], up to the highest, or the highest in which keys differ). In the stream's order; may return before
/// it is done. Allocates only on the host.
///
/// First sort by about as many bits as it takes to number the keys; together with this call that takes at most half the
/// time of a sort by all bits, provided that the keys are random in these bits. Then few keys agree in them, and runs
/// of up to 32 such keys are sorted here.
///
/// The outcome is added to `found`, which has at least 2 elements. In the first element the bits in which any two keys
/// differ are set; with keys of 128 bits, each of its bits is set for two of theirs. The second becomes 1 if the pairs are not sorted, because more than 32 keys agreed or keys differ in
/// higher bits. The pairs are then permuted, with equal keys in their original order; a sort by the bits from the
/// lowest to the highest one set corrects this.
///
/// # Errors
/// [`Error::BitRange`]; [`Error::OutputLength`] for a buffer that is too small; [`Error::Runtime`] for a
/// buffer of another device than the stream's, and from the launch; [`Error::TooManyElements`].
pub fn local_sort_pairs<K: AnyKey, V: Word>(
    stream: &Stream,
    keys: &mut Buffer<K>,
    values: &mut Buffer<V>,
    len: usize,
    from: u32,
    found: &mut Buffer<u64>,
) -> Result<()> {
    let width = K::Bits::BITS;
    if from > width {
        return Err(Error::BitRange { start: from, end: width, width });
    }
    check::buffer(stream, "the keys' buffer", len, keys)?;
    check::buffer(stream, "the values' buffer", len, values)?;
    check::buffer(stream, "the buffer of the local sort's findings", LOCAL_SORT_FINDINGS, found)?;
    if stream.device().kind() == DeviceKind::Host {
        let keys = &mut keys.as_mut_slice().unwrap_or(&mut [])[..len];
        let values = &mut values.as_mut_slice().unwrap_or(&mut [])[..len];
        let differing = keys.windows(2).map(|pair| pair[0].encode().xor(pair[1].encode()));
        let differing = differing_bits(differing.fold(K::Bits::MIN, K::Bits::or));
        let upper = |key: &K| if from < width { key.encode().shr(from) } else { K::Bits::MIN };
        let is_sorted = keys.is_sorted_by_key(upper);
        if is_sorted {
            super::radix_sort::sort_on_host(keys, values, 0..width)?;
        }
        let found = found.as_mut_slice().unwrap_or(&mut []);
        (found[0], found[1]) = (found[0] | differing, found[1].max(u64::from(!is_sorted)));
        return Ok(());
    }
    let found = found.write_on(stream)?;
    // SAFETY: the buffers were checked above, and the last one's pointer is for this stream.
    unsafe { local_sort(stream, keys, values, len, from, found) }
}

/// [`local_sort_pairs`], on a device that runs kernels.
///
/// # Safety
/// Keys and values have at least `len` elements; `found` is the address of [`LOCAL_SORT_FINDINGS`] words that this
/// stream may write.
pub unsafe fn local_sort<K: AnyKey, V: Word>(
    stream: &Stream,
    keys: &mut Buffer<K>,
    values: &mut Buffer<V>,
    len: usize,
    from: u32,
    found: GlobalMut<u64>,
) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    let mask = match K::Bits::BITS - from {
        0 => K::Bits::MIN,
        upper if from > 0 => K::Bits::MAX.xor(K::Bits::MAX.shr(upper)),
        _ => K::Bits::MAX,
    };
    let (keys, values) = (keys.write_on(stream)?.cast::<K::Bits>(), values.write_on(stream)?);
    let args = LocalSortArgs { keys, values, len: len as u64, found, mask, flip: K::FLIP };
    let blocks = u32::try_from((len as u64).div_ceil(u64::from(LOCAL_SORT_TILE)));
    let blocks = blocks.ok().filter(|&blocks| blocks < 1 << 31);
    let blocks = blocks.ok_or(Error::TooManyElements { elements: len })?;
    let shape = LaunchShape { blocks, threads: LOCAL_SORT_THREADS, dynamic_shared: 0 };
    let launch = Launch::new(stream, shape);
    // SAFETY: the caller's contract; keys and values are borrowed mutably, and their pointers are for this stream.
    Ok(unsafe { launch.run(calls::local_sort(&args)) }?)
}

/// The bits by which to sort a number of keys first, so that few of them agree: bits below `top`, in which the keys are
/// assumed to be random.
///
/// Whole passes of 8 bits. With four times as many keys as values of these bits, the runs are a few keys long; another
/// pass would cost more than sorting them. See `docs/lab/07-device-inserts.md`.
pub fn telling_bits(count: usize, top: u32) -> Range<u32> {
    let number = usize::BITS - count.saturating_sub(1).leading_zeros();
    let bits = number.saturating_sub(2).next_multiple_of(8).max(8);
    top.saturating_sub(bits)..top
}

#[cfg(test)]
mod tests;
