//! The launch, as a safe function: it checks what the kernel takes for granted.

use crate::kernel::{MOST_THREADS, SumByGroup, SumByGroupArgs};
use lanetree::kernel::{Call, Entry, Key, Word, entry_by_words, shape_for_rows};
use lanetree::{Buffer, Error, LaneTree, Result, Stream};

/// Rows on the device, one per key.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, K> {
    /// The key of each row.
    pub keys: &'a Buffer<K>,
    /// The amount of each, at least as many.
    pub amounts: &'a Buffer<u64>,
}

/// Adds each row's amount to the sum of the group that `groups` has for its key, wrapping: `sums[group]`. Rows whose key is not in the
/// index, or whose group has no sum, are left out. Allocates nothing, waits for nothing, and may return before it is done.
///
/// # Errors
/// [`OutputLength`](Error::OutputLength) if there are fewer amounts than keys; [`Lost`](Error::Lost); [`Runtime`](Error::Runtime) for a
/// buffer of another device than the stream's, from the launch, and on the host, which runs no kernels.
pub fn sum_by_group<K: Key>(
    stream: &Stream,
    groups: &LaneTree<K, u32>,
    rows: Rows<'_, K>,
    sums: &mut Buffer<u64>,
) -> Result<()> {
    let (expected, actual) = (rows.keys.len(), rows.amounts.len());
    if actual < expected {
        return Err(Error::OutputLength { what: "the amounts' buffer", expected, actual });
    }
    let args = SumByGroupArgs {
        groups: groups.handle_on(stream)?,
        keys: rows.keys.read_on(stream)?.cast::<K::Bits>(),
        amounts: rows.amounts.read_on(stream)?,
        count: expected as u64,
        group_count: sums.len() as u64,
        sums: sums.write_on(stream)?,
    };
    let shape = shape_for_rows(stream, args.count, MOST_THREADS, |threads| args.groups.shared_bytes(threads))?;
    // SAFETY: blocks of whole warps, of so many threads at most, with shared memory for the handle. There are `count` keys and amounts;
    // handle and pointers are for this stream, and index and buffers have been borrowed since.
    Ok(unsafe { stream.call(shape, call(&args)) }?)
}

/// The instance for the words of the keys.
fn call<K: Word>(args: &SumByGroupArgs<K>) -> Call<'_> {
    const fn entry<K: Word>() -> &'static Entry {
        entry_by_words!(K => SumByGroup<K>)
    }
    Call::new(const { entry::<K>() }, args)
}
