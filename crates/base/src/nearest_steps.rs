//! Steps of finding the pairs nearest to each query, in device form. All run in the stream's order, may return before they are done,
//! and allocate nothing.

use crate::Result;
use crate::error::check_buffer;
use crate::launch::{THREADS, over};
use crate::pointers::{optional, optional_mut};
use lanetree_kernels_base::calls;
use lanetree_kernels_base::nearest::{
    AddCountsArgs, KeepLastArgs, ReverseRowsArgs, TakeNearestArgs, beyond, takes_below,
};
use lanetree_kernels_base::rows::OUTPUTS;
use lanetree_layout::{AnyKey, KeyWord, Value};
use lanetree_runtime::{Buffer, DeviceKind, Stream};
use lanetree_simt::{Global, GlobalMut, WARP};

/// One side of the queries: an element per query in each buffer.
#[derive(Debug)]
pub struct NearestSide<'a, K, V> {
    /// In and out: what the next search for a candidate looks for.
    pub sought: &'a mut Buffer<K>,
    /// In and out: the pairs of the side that are left.
    pub left: &'a mut Buffer<u64>,
    /// The keys of the candidates. A query without a pair left has none.
    pub keys: &'a Buffer<K>,
    /// Their values.
    pub values: &'a Buffer<V>,
}

/// Where the pairs of all rounds go.
#[derive(Debug)]
pub struct NearestRows<'a, K, V> {
    /// Where each query's pairs begin.
    pub offsets: &'a Buffer<u64>,
    /// Pairs for which there is room: those past it are not written.
    pub capacity: usize,
    /// Out: the keys, unless they are not wanted.
    pub keys: Option<&'a mut Buffer<K>>,
    /// Out: the values.
    pub values: &'a mut Buffer<V>,
}

/// Takes the nearer candidate of each of the first `count` queries as its pair `round`, and makes the next search of that side look
/// beyond it. The sides are that below the queries and that above them; their distances are compared if there are both.
///
/// # Errors
/// [`Error::OutputLength`](crate::Error::OutputLength) for buffers of fewer queries;
/// [`Error::BatchTooLarge`](crate::Error::BatchTooLarge); [`Error::Runtime`](crate::Error::Runtime) for buffers of another device
/// than the stream's.
pub fn take_nearest<K: AnyKey, V: Value>(
    stream: &Stream,
    count: usize,
    round: u64,
    queries: &Buffer<K>,
    sides: [Option<NearestSide<'_, K, V>>; 2],
    ties_above: bool,
    out: NearestRows<'_, K, V>,
) -> Result<()> {
    let device = stream.device();
    for side in sides.iter().flatten() {
        check_buffer(device, "the scratch memory", count, side.sought)?;
        check_buffer(device, "the scratch memory", count, side.left)?;
        check_buffer(device, "the scratch memory", count, side.keys)?;
        check_buffer(device, "the scratch memory", count, side.values)?;
    }
    check_buffer(device, "the queries' buffer", count, queries)?;
    check_buffer(device, "the offsets' buffer", count, out.offsets)?;
    if let Some(keys) = &out.keys {
        check_buffer(device, "the keys' buffer", out.capacity, keys)?;
    }
    check_buffer(device, "the values' buffer", out.capacity, out.values)?;
    if count == 0 {
        return Ok(());
    }
    if device.kind() == DeviceKind::Host {
        take_on_host(count, round, queries, sides, ties_above, out);
        return Ok(());
    }
    let pointers = |side: Option<NearestSide<'_, K, V>>| -> Result<Pointers<K::Bits, V::Word>> {
        let Some(side) = side else { return Ok(Pointers::default()) };
        Ok(Pointers {
            sought: side.sought.write_on(stream)?.cast(),
            left: side.left.write_on(stream)?,
            keys: side.keys.read_on(stream)?.cast(),
            values: optional(V::IS_SOME.then_some(side.values), stream)?.cast(),
        })
    };
    let [below, above] = sides;
    let (below, above) = (pointers(below)?, pointers(above)?);
    let args = TakeNearestArgs::<K::Bits, V::Word> {
        queries: queries.read_on(stream)?.cast(),
        count: count as u64,
        below: below.sought,
        left_below: below.left,
        keys_below: below.keys,
        values_below: below.values,
        above: above.sought,
        left_above: above.left,
        keys_above: above.keys,
        values_above: above.values,
        offsets: out.offsets.read_on(stream)?,
        capacity: out.capacity as u64,
        keys: optional_mut(out.keys, stream)?.cast(),
        values: if V::IS_SOME { out.values.write_on(stream)?.cast() } else { GlobalMut::null() },
        round,
        ties_above: ties_above.into(),
        flip: K::FLIP,
    };
    // SAFETY: the buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, count as u64, 1, THREADS)?.run(calls::take_nearest(&args))? };
    Ok(())
}

/// A side as the kernel sees it; null without it.
struct Pointers<K, V> {
    sought: GlobalMut<K>,
    left: GlobalMut<u64>,
    keys: Global<K>,
    values: Global<V>,
}

impl<K, V> Default for Pointers<K, V> {
    fn default() -> Self {
        Self { sought: GlobalMut::null(), left: GlobalMut::null(), keys: Global::null(), values: Global::null() }
    }
}

fn take_on_host<K: AnyKey, V: Value>(
    count: usize,
    round: u64,
    queries: &Buffer<K>,
    mut sides: [Option<NearestSide<'_, K, V>>; 2],
    ties_above: bool,
    out: NearestRows<'_, K, V>,
) {
    const HOST: &str = "a buffer of the host";
    let (queries, offsets) = (queries.as_slice().expect(HOST), out.offsets.as_slice().expect(HOST));
    let (mut keys, values) =
        (out.keys.map(|keys| keys.as_mut_slice().expect(HOST)), out.values.as_mut_slice().expect(HOST));
    for query in 0..count {
        let candidate = |side: &Option<NearestSide<'_, K, V>>| {
            let side = side.as_ref().filter(|side| side.left.as_slice().expect(HOST)[query] > 0)?;
            Some((side.keys.as_slice().expect(HOST)[query], side.values.as_slice().expect(HOST)[query]))
        };
        let is_below = match (candidate(&sides[0]), candidate(&sides[1])) {
            (None, None) => continue,
            (Some((below, _)), Some((above, _))) => {
                takes_below(queries[query].encode(), below.encode(), above.encode(), ties_above)
            }
            (below, _) => below.is_some(),
        };
        let from = usize::from(!is_below);
        let Some((key, value)) = candidate(&sides[from]) else { continue };
        let at = usize::try_from(offsets[query].saturating_add(round)).unwrap_or(usize::MAX);
        if at < out.capacity {
            values[at] = value;
            if let Some(keys) = &mut keys {
                keys[at] = key;
            }
        }
        if let Some(side) = &mut sides[from] {
            side.sought.as_mut_slice().expect(HOST)[query] = K::decode(beyond(key.encode(), is_below));
            side.left.as_mut_slice().expect(HOST)[query] -= 1;
        }
    }
}

/// Adds the first `count` elements of two buffers, or takes those of one, up to a largest sum.
///
/// # Errors
/// As [`take_nearest`].
pub fn add_counts(
    stream: &Stream,
    count: usize,
    first: &Buffer<u64>,
    second: Option<&Buffer<u64>>,
    most: u64,
    sums: &mut Buffer<u64>,
) -> Result<()> {
    check_buffer(stream.device(), "the counts' buffer", count, first)?;
    if let Some(second) = second {
        check_buffer(stream.device(), "the counts' buffer", count, second)?;
    }
    check_buffer(stream.device(), "the counts' buffer", count, sums)?;
    if count == 0 {
        return Ok(());
    }
    if stream.device().kind() == DeviceKind::Host {
        if let (Some(first), Some(sums)) = (first.as_slice(), sums.as_mut_slice()) {
            let second = second.and_then(Buffer::as_slice);
            for (i, (sum, first)) in sums.iter_mut().zip(first).take(count).enumerate() {
                *sum = first.saturating_add(second.map_or(0, |second| second[i])).min(most);
            }
        }
        return Ok(());
    }
    let args = AddCountsArgs {
        first: first.read_on(stream)?,
        second: optional(second, stream)?,
        count: count as u64,
        most,
        sums: sums.write_on(stream)?,
    };
    // SAFETY: the buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, count as u64, 1, THREADS)?.run(calls::add_counts(&args))? };
    Ok(())
}

/// Finds how many pairs of each of the first `count` ranges are before its last ones: `skips[i]` is the number of its pairs, and
/// the last ones go from `offsets[i]` to `offsets[i + 1]`, as far as there is room for `capacity` pairs in all. Where offsets
/// descend there are none.
///
/// # Errors
/// As [`take_nearest`].
pub fn keep_last(
    stream: &Stream,
    count: usize,
    skips: &mut Buffer<u64>,
    offsets: &Buffer<u64>,
    capacity: usize,
) -> Result<()> {
    check_buffer(stream.device(), "the scratch memory", count, skips)?;
    check_buffer(stream.device(), "the offsets' buffer", count.saturating_add(1), offsets)?;
    if count == 0 {
        return Ok(());
    }
    if stream.device().kind() == DeviceKind::Host {
        if let (Some(skips), Some(offsets)) = (skips.as_mut_slice(), offsets.as_slice()) {
            for (skip, offsets) in skips.iter_mut().zip(offsets[..=count].windows(2)) {
                let [from, end] = [offsets[0], offsets[1]].map(|offset| offset.min(capacity as u64));
                *skip = skip.saturating_sub(end.saturating_sub(from));
            }
        }
        return Ok(());
    }
    let args = KeepLastArgs {
        skips: skips.write_on(stream)?,
        offsets: offsets.read_on(stream)?,
        count: count as u64,
        capacity: capacity as u64,
    };
    // SAFETY: the buffers were found to be long enough; the pointers are for this stream.
    unsafe { over(stream, count as u64, 1, THREADS)?.run(calls::keep_last(&args))? };
    Ok(())
}

/// Reverses the order of the elements of each of the first `count` rows, which are from `offsets[i]` to `offsets[i + 1]`. There are
/// `capacity` elements, and the last row that has any ends with them. `W` is a word of their size.
///
/// # Errors
/// As [`take_nearest`].
///
/// # Safety
/// In the stream's order the offsets ascend from 0.
pub unsafe fn reverse_rows<W: KeyWord, T: bytemuck::Pod>(
    stream: &Stream,
    count: usize,
    offsets: &Buffer<u64>,
    capacity: usize,
    column: &mut Buffer<T>,
) -> Result<()> {
    assert!(size_of::<T>() == size_of::<W>() && align_of::<T>() == align_of::<W>(), "a word of another size");
    check_buffer(stream.device(), "the offsets' buffer", count.saturating_add(1), offsets)?;
    check_buffer(stream.device(), "the buffer of the rows", capacity, column)?;
    if count == 0 || capacity == 0 {
        return Ok(());
    }
    if stream.device().kind() == DeviceKind::Host {
        if let (Some(offsets), Some(column)) = (offsets.as_slice(), column.as_mut_slice()) {
            for offsets in offsets[..=count].windows(2) {
                let [from, end] = [offsets[0], offsets[1]].map(|offset| offset.min(capacity as u64) as usize);
                column[from..end].reverse();
            }
        }
        return Ok(());
    }
    let args = ReverseRowsArgs::<W> {
        offsets: offsets.read_on(stream)?,
        count: count as u64,
        capacity: capacity as u64,
        column: column.write_on(stream)?.cast(),
    };
    let warps = (capacity as u64).div_ceil(OUTPUTS);
    // SAFETY: the buffers were found to be long enough, and the offsets ascend by the caller's contract; the pointers are for this
    // stream.
    unsafe { over(stream, warps, WARP, THREADS)?.run(calls::reverse_rows(&args))? };
    Ok(())
}
