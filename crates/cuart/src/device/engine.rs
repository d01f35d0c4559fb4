//! How the last of several updates of a key is found.

mod memory;

pub(super) use memory::Memory;
use memory::Ordering;

use super::batch::UpdateBatch;
use super::over;
use super::sequence::{has_sequence, next_sequence, write_latest};
use crate::parts::Parts;
use crate::update_state::Stamps;
use lanetree_frame::{Error, Result};
use lanetree_kernels_cuart::calls;
use lanetree_kernels_cuart::update::{
    ClaimArgs, ConquerArgs, ConquerOrRemoveArgs, LocateArgs, OverwriteArgs, RemoveArgs, StampArgs, WriteStampedArgs,
};
use lanetree_layout::Word;
use lanetree_primitives::{Pairs, PairsMut, last_by_key, radix_argsort};
use lanetree_runtime::{Buffer, Launch, Stream};
use lanetree_simt::{Global, GlobalMut};

/// How a batch of updates finds out which operation is the last one of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum UpdateEngine {
    /// The fastest one for the tree: [`UpdateEngine::Sequence`] if possible, otherwise [`UpdateEngine::Stamps`]. Large
    /// batches of keys of one length are first sorted by their first bytes.
    #[default]
    Auto,
    /// The paper's (section 3.4): an atomic hash table of leaves that keeps the highest index of each, then a second
    /// stage in which the operations with these indexes write. In pieces of 2^19 operations, so that the table, twice
    /// as large, stays in the cache and is never full. 16 MiB. [`ChangeScratch::one_table`](crate::ChangeScratch::one_table)
    /// has the paper's one table instead.
    HashTable,
    /// The number of the last operation of each leaf, by an atomic maximum, in an array of 8 bytes per leaf next to the
    /// tree; then the same second stage. 8 bytes per operation.
    Stamps,
    /// One stage, for 32-bit values: the leaf has room for the operation's number above the value, so an atomic maximum
    /// of both together keeps the last operation's value. Takes no memory. Not for trees with keys of more than 32
    /// bytes.
    Sequence,
    /// Operations are sorted stably by the leaves that they find, and the last one of each leaf writes. 32 bytes for
    /// each operation.
    Sort,
}

/// By how many bits large batches are ordered: three passes of a sort.
const ORDER_BITS: u32 = 24;

/// A batch of updates that has not written to the tree yet: how it is going to write.
#[derive(Clone, Copy)]
pub(super) enum Begun {
    /// The first piece has claimed its leaves.
    HashTable,
    /// The last operations of each leaf are known.
    Sort,
    /// Leaves have the stamps of their last operations, of which this is the first.
    Stamps(u64),
    /// Operations have numbers from this one on.
    Sequence(u32),
}

/// Allocates what the updates of a tree will need, so that [`begin`] needs no more memory.
pub(super) fn reserve<V: Word>(tree: &mut Parts, memory: &Memory, with_long_keys: bool) -> Result<()> {
    match memory.engine {
        UpdateEngine::Auto if has_sequence::<V>(tree) && !with_long_keys => Ok(()),
        UpdateEngine::Auto | UpdateEngine::Stamps => reserve_stamps(tree),
        _ => Ok(()),
    }
}

/// Does everything before values are written: if it fails, the tree is unchanged.
pub(super) fn begin<V: Word>(
    tree: &mut Parts,
    stream: &Stream,
    batch: &mut UpdateBatch<'_, V>,
    memory: &mut Memory,
) -> Result<Begun> {
    let by_sequence = match memory.engine {
        UpdateEngine::HashTable => {
            claim(tree, stream, batch, 0, memory)?;
            return Ok(Begun::HashTable);
        }
        UpdateEngine::Sort => {
            find_last(tree, stream, batch, memory)?;
            return Ok(Begun::Sort);
        }
        UpdateEngine::Stamps => false,
        UpdateEngine::Sequence => true,
        UpdateEngine::Auto => {
            batch.picks = order(tree, stream, batch, memory)?;
            has_sequence::<V>(tree)
        }
    };
    if by_sequence {
        return Ok(Begun::Sequence(next_sequence(tree, stream, batch.count)?));
    }
    Ok(Begun::Stamps(stamp(tree, stream, batch, memory)?))
}

/// Writes the values.
pub(super) fn finish<V: Word>(
    tree: &mut Parts,
    stream: &Stream,
    batch: &UpdateBatch<'_, V>,
    begun: Begun,
    memory: &mut Memory,
) -> Result<()> {
    match begun {
        Begun::HashTable => {
            for first in (0..batch.count).step_by(memory.piece()) {
                if first > 0 {
                    claim(tree, stream, batch, first, memory)?;
                }
                conquer(tree, stream, batch, first, memory)?;
            }
            Ok(())
        }
        Begun::Sort => overwrite(tree, stream, batch, memory),
        Begun::Stamps(first) => write_stamped(tree, stream, batch, first, memory),
        Begun::Sequence(first) => write_latest(tree, stream, batch, first),
    }
}

/// Sorts a large batch by the first bytes that distinguish keys, if all keys have one length; null otherwise.
fn order<V: Word>(
    tree: &Parts,
    stream: &Stream,
    batch: &UpdateBatch<'_, V>,
    memory: &mut Memory,
) -> Result<Global<u32>> {
    let Some(ordering) = memory.ordering.as_mut().filter(|_| batch.count >= memory.ordered_from) else {
        return Ok(Global::null());
    };
    // The hit mask would have to be set bit by bit.
    if batch.keys.width().is_none_or(|width| width < 4) || !batch.hits.is_null() {
        return Ok(Global::null());
    }
    let skip = if tree.root.kind().is_node() { tree.root.span().min(8) } else { 0 };
    batch.keys.heads(stream, skip, &mut ordering.heads)?;
    let Ordering { heads, sorted, picks, sort, .. } = ordering;
    radix_argsort(stream, heads, batch.count, 32 - ORDER_BITS..32, sorted, picks, sort)?;
    Ok(ordering.picks.read_on(stream)?)
}

/// Enters the piece that begins with an operation into the hash table.
fn claim<V: Word>(
    tree: &mut Parts,
    stream: &Stream,
    batch: &UpdateBatch<'_, V>,
    first: usize,
    memory: &mut Memory,
) -> Result<()> {
    let count = memory.piece().min(batch.count - first);
    // For a short batch, only the slots that it needs.
    let places = memory.places(count);
    memory.owners.fill_zero_range(stream, 0..places)?;
    memory.highest.fill_zero_range(stream, 0..places)?;
    let args = ClaimArgs {
        tree: tree.tree_mut(stream)?,
        queries: batch.queries,
        first: first as u64,
        count: count as u64,
        owners: memory.owners.write_on(stream)?,
        highest: memory.highest.write_on(stream)?,
        mask: places as u32 - 1,
        padding: 0,
        slots: memory.slots.write_on(stream)?,
        hits: batch.hits,
    };
    // SAFETY: the tree is valid and without leaves in main memory; there are that many queries from the first on, a
    // place in `slots` for each of them, a hit mask for the batch, and at least as many places, all free, in the table.
    Ok(unsafe { over(stream, count)?.run(calls::claim(tree.query_words(), &args)) }?)
}

/// The last operations of a piece write their values.
fn conquer<V: Word>(
    tree: &mut Parts,
    stream: &Stream,
    batch: &UpdateBatch<'_, V>,
    first: usize,
    memory: &mut Memory,
) -> Result<()> {
    let count = memory.piece().min(batch.count - first);
    let args = ConquerArgs {
        tree: tree.tree_mut(stream)?,
        values: batch.values.byte_add((first * V::BYTES) as u64),
        count: count as u64,
        owners: memory.owners.read_on(stream)?,
        highest: memory.highest.read_on(stream)?,
        slots: memory.slots.read_on(stream)?,
        keys: GlobalMut::null(),
    };
    // SAFETY: the piece has claimed its leaves before in the stream, and there is a value for each of its operations.
    Ok(unsafe { over(stream, count)?.run(calls::conquer(&args)) }?)
}

/// Whether a batch of that many operations is one piece of the engine with a hash table, which removals need: a later
/// piece would not find what an earlier one has removed.
pub(super) fn check_removals(memory: &Memory, count: usize) -> Result<()> {
    let reason = match memory.engine {
        UpdateEngine::HashTable if memory.piece() >= count => return Ok(()),
        UpdateEngine::HashTable => "removals need the batch in one piece; see ChangeScratch::one_table",
        _ => "removals among updates need UpdateEngine::HashTable",
    };
    let engine = match memory.engine {
        UpdateEngine::Auto => "Auto",
        UpdateEngine::HashTable => "HashTable",
        UpdateEngine::Stamps => "Stamps",
        UpdateEngine::Sequence => "Sequence",
        UpdateEngine::Sort => "Sort",
    };
    Err(Error::UpdateEngine { engine, reason })
}

/// The last operations of a batch that was begun write their values, or remove their keys if these are `nil`.
pub(super) fn conquer_or_remove<V: Word>(
    stream: &Stream,
    batch: &UpdateBatch<'_, V>,
    nil: V,
    memory: &Memory,
    (launch, remove): (Launch<'_>, &RemoveArgs),
) -> lanetree_runtime::Result<()> {
    let conquer = ConquerArgs {
        tree: remove.tree,
        values: batch.values,
        count: batch.count as u64,
        owners: memory.owners.read_on(stream)?,
        highest: memory.highest.read_on(stream)?,
        slots: memory.slots.read_on(stream)?,
        keys: GlobalMut::null(),
    };
    let args = ConquerOrRemoveArgs { conquer, remove: *remove, nil };
    // SAFETY: the whole batch has claimed its leaves before in the stream, and there is a value for each of its
    // operations; removals as planned for that many keys.
    unsafe { launch.run(calls::conquer_or_remove(&args)) }
}

fn locating<V: Word>(
    tree: &Parts,
    stream: &Stream,
    batch: &UpdateBatch<'_, V>,
    links: &mut Buffer<u64>,
) -> Result<LocateArgs> {
    Ok(LocateArgs {
        tree: tree.tree_ref(stream)?,
        queries: batch.queries,
        picks: batch.picks,
        count: batch.count as u64,
        links: links.write_on(stream)?,
        hits: batch.hits,
    })
}

/// Makes room for a stamp of each leaf.
fn reserve_stamps(tree: &mut Parts) -> Result<()> {
    let leaves = &tree.leaves;
    let regions = [leaves.leaf8.buffer.len(), leaves.leaf16.buffer.len(), leaves.leaf32.buffer.len()];
    let firsts = [regions[0], regions[0] + regions[1], regions[0] + regions[1] + regions[2]].map(|first| first as u64);
    let len = firsts[2] as usize + leaves.long.units.len();
    if !tree.updates.stamps.as_ref().is_some_and(|stamps| stamps.firsts == firsts && stamps.buffer.len() == len) {
        tree.updates.stamps = Some(Stamps { buffer: tree.device.alloc_zeroed(len)?, firsts, next: 1 });
    }
    Ok(())
}

/// Gives each leaf the stamp of its last operation, and returns the first operation's stamp.
fn stamp<V: Word>(tree: &mut Parts, stream: &Stream, batch: &UpdateBatch<'_, V>, memory: &mut Memory) -> Result<u64> {
    reserve_stamps(tree)?;
    let locate = locating(tree, stream, batch, &mut memory.links)?;
    let words = tree.query_words();
    let stamps = tree.updates.stamps.as_mut().expect("they were made");
    let first_stamp = stamps.next;
    stamps.next += batch.count as u64;
    let args = StampArgs { locate, stamps: stamps.buffer.write_on(stream)?, firsts: stamps.firsts, first_stamp };
    // SAFETY: the tree is valid and without leaves in main memory; there are that many queries, a link for each, a hit
    // mask for them, and a stamp for each leaf, none of which is above the batch's stamps.
    unsafe { over(stream, batch.count)?.run(calls::stamp(words, &args))? };
    Ok(first_stamp)
}

fn write_stamped<V: Word>(
    tree: &mut Parts,
    stream: &Stream,
    batch: &UpdateBatch<'_, V>,
    first_stamp: u64,
    memory: &Memory,
) -> Result<()> {
    let tree_mut = tree.tree_mut(stream)?;
    let stamps = tree.updates.stamps.as_ref().expect("operations have their stamps");
    let args = WriteStampedArgs {
        tree: tree_mut,
        values: batch.values,
        picks: batch.picks,
        links: memory.links.read_on(stream)?,
        count: batch.count as u64,
        stamps: stamps.buffer.read_on(stream)?,
        firsts: stamps.firsts,
        first_stamp,
    };
    // SAFETY: links and stamps were written before in the stream, for this tree and batch; there is a value for each
    // operation.
    Ok(unsafe { over(stream, batch.count)?.run(calls::write_stamped(&args)) }?)
}

/// Finds the leaves of a batch, and the last operation on each.
fn find_last<V: Word>(tree: &Parts, stream: &Stream, batch: &UpdateBatch<'_, V>, memory: &mut Memory) -> Result<()> {
    let args = locating(tree, stream, batch, &mut memory.links)?;
    // SAFETY: the tree is valid and without leaves in main memory; there are that many queries, a link for each, and a
    // hit mask for them.
    unsafe { over(stream, batch.count)?.run(calls::locate(tree.query_words(), &args))? };
    let sorting = memory.sorting.as_mut().expect("an engine that sorts");
    let (links, operations) = (&mut sorting.links, &mut sorting.operations);
    radix_argsort(stream, &memory.links, batch.count, 0..64, links, operations, &mut sorting.sort)?;
    let pairs = Pairs { keys: &sorting.links, values: &sorting.operations, count: batch.count.into() };
    let last =
        PairsMut { keys: &mut sorting.last_links, values: &mut sorting.last_operations, count: &mut sorting.count };
    last_by_key(stream, pairs, last, &mut sorting.runs)
}

fn overwrite<V: Word>(tree: &mut Parts, stream: &Stream, batch: &UpdateBatch<'_, V>, memory: &Memory) -> Result<()> {
    let sorting = memory.sorting.as_ref().expect("an engine that sorts");
    let args = OverwriteArgs {
        tree: tree.tree_mut(stream)?,
        links: sorting.last_links.read_on(stream)?,
        operations: sorting.last_operations.read_on(stream)?,
        values: batch.values,
        count: sorting.count.read_on(stream)?,
    };
    // SAFETY: each leaf's link is there once, with an operation of the batch, which has a value; there are no more of them
    // than operations.
    Ok(unsafe { over(stream, batch.count)?.run(calls::overwrite(&args)) }?)
}
