//! The join with two indexes.

use crate::check;
use lanetree::lane_tree::shape_for_rows;
use lanetree::{Buffer, Key, LaneTree, Result, Stream, Word};
use lanetree_kernels_joins::{MOST_THREADS, StarJoinArgs, calls};

/// Finds the rows whose keys are in both indexes: bit `i % 32` of `hits[i / 32]` says whether row `i`, with the key
/// `keys[0][i]` for the first index and `keys[1][i]` for the second, is one. Allocates nothing, waits for nothing, and may
/// return before it is done.
///
/// A block has both indexes' tables in its shared memory. A table takes at most half of what the device allows for a block
/// (`table_nodes` of the builder), so any two indexes can be joined. More than two would need smaller tables.
///
/// # Errors
/// As [`semi_join`](crate::semi_join()).
pub fn star_join<K: Key, V: Word>(
    stream: &Stream,
    indexes: [&LaneTree<K, V>; 2],
    keys: [&Buffer<K>; 2],
    hits: &mut Buffer<u32>,
) -> Result<()> {
    let count = keys[0].len();
    check("the buffer of the second index's keys", count, keys[1])?;
    check("the hit mask's buffer", count.div_ceil(32), hits)?;
    let args = StarJoinArgs {
        indexes: [indexes[0].handle_on(stream)?, indexes[1].handle_on(stream)?],
        keys: [keys[0].read_on(stream)?.cast::<K::Bits>(), keys[1].read_on(stream)?.cast()],
        count: count as u64,
        hits: hits.write_on(stream)?,
    };
    let shared = |threads| args.indexes.iter().map(|index| index.shared_bytes(threads)).sum();
    let shape = shape_for_rows(stream, args.count, MOST_THREADS, shared)?;
    // SAFETY: as in `semi_join`; the second handle's shared memory comes after the first's.
    Ok(unsafe { stream.call(shape, calls::star_join(&args)) }?)
}
