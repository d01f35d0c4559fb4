//! Which keys of a batch are not in a tree, and what leaves they need.

use super::change_scratch::Inserting;
use super::over;
use crate::parts::Parts;
use crate::{Builder, LongKeys};
use lanetree_frame::byte_keys::DeviceKeys;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::layout::{LinkType, MAX_FIXED};
use lanetree_kernels_cuart::update::{CountLeavesArgs, LocateArgs};
use lanetree_layout::Word;
use lanetree_primitives::{Keys, KeysMut, partition};
use lanetree_runtime::Stream;
use lanetree_simt::{Global, GlobalMut};

/// The index, among the leaf types of fixed size, of the leaves for keys of a width of at most 32.
fn leaf_number(width: usize) -> usize {
    LinkType::of_key(width).map_or(3, |kind| kind as usize - LinkType::Leaf8 as usize)
}

/// Keys of a batch that are not in the tree.
pub(super) struct Missing {
    /// The index of the first of them among the scratch memory's picks.
    first: usize,
    pub(super) count: usize,
    /// The most leaves of each size that they need, and units of dynamically sized leaves.
    pub(super) leaves: [u64; 4],
}

impl Missing {
    /// Which keys of the batch they are, for kernels launched next on the stream.
    pub(super) fn picks(&self, stream: &Stream, scratch: &Inserting) -> Result<Global<u32>> {
        Ok(scratch.partitioned.read_on(stream)?.byte_add(4 * self.first as u64))
    }
}

/// Finds the keys of a batch that are not in the tree; waits for the stream.
///
/// # Errors
/// [`Error::KeyTooLong`] for one that the tree may not hold.
pub(super) fn find_missing<V: Word>(
    tree: &Parts,
    options: &Builder<V>,
    stream: &Stream,
    keys: &DeviceKeys,
    scratch: &mut Inserting,
) -> Result<Missing> {
    let count = keys.len();
    let args = LocateArgs {
        tree: tree.tree_ref(stream)?,
        queries: keys.keys_ref(stream)?,
        picks: Global::null(),
        count: count as u64,
        links: GlobalMut::null(),
        hits: scratch.hits.write_on(stream)?,
    };
    // SAFETY: the tree is valid and without leaves in main memory; there are that many queries, and a hit mask for
    // them.
    unsafe { over(stream, count)?.run(calls::locate(tree.query_words(), &args))? };
    let input = Keys { keys: &scratch.positions, count: count.into() };
    let output = KeysMut { keys: &mut scratch.partitioned, count: &mut scratch.counts };
    // Those that were found come first.
    partition(stream, input, &scratch.hits, output, &mut scratch.select)?;
    let mut found = [0];
    stream.synchronize()?;
    scratch.counts.copy_range_to(0, &mut found)?;
    let first = found[0] as usize;
    let mut missing = Missing { first, count: count - first, leaves: [0; 4] };
    match keys.width() {
        _ if missing.count == 0 => {}
        Some(width) if width <= MAX_FIXED => missing.leaves[leaf_number(width)] = missing.count as u64,
        _ => {
            scratch.counts.fill_zero(stream)?;
            let picks = missing.picks(stream, scratch)?;
            let (queries, counts) = (keys.keys_ref(stream)?, scratch.counts.write_on(stream)?);
            let args = CountLeavesArgs { queries, picks, count: missing.count as u64, counts };
            // SAFETY: that many picks of the batch's queries, and a counter for each kind of leaves.
            unsafe { over(stream, missing.count)?.run(calls::count_leaves(&args))? };
            stream.synchronize()?;
            scratch.counts.copy_to(&mut missing.leaves)?;
        }
    }
    if missing.leaves[3] > 0 && options.long() == LongKeys::Refuse {
        let (index, len) = keys.first_longer(MAX_FIXED)?.unwrap_or_default();
        return Err(Error::KeyTooLong { index, len, max: MAX_FIXED });
    }
    Ok(missing)
}
