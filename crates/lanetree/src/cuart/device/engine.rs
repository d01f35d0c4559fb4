//! How the last of several updates of a key is found.

use super::over;
use super::sequence::{has_sequence, sequence};
use crate::byte_keys::DeviceKeys;
use crate::cuart::Cuart;
use crate::primitives::{Pairs, PairsMut, RadixSortScratch, RunScratch, last_by_key, radix_argsort};
use crate::{Error, Result};
use lanetree_kernels_cuart::update::{
    ClaimArgs, ConquerArgs, LocateArgs, OverwriteArgs, StampArgs, TreeMut, WriteStampedArgs,
};
use lanetree_launch::cuart::update as launch;
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, Stream};
use lanetree_simt::{Global, GlobalMut};

/// How a batch of updates finds out which operation is the last one of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpdateEngine {
    /// The fastest one for the tree: [`UpdateEngine::Sequence`] where that is possible, otherwise
    /// [`UpdateEngine::Stamps`]; large batches of keys of one length in the order of their first bytes.
    #[default]
    Auto,
    /// The paper's (section 3.4): an atomic hash table of leaves that keeps the highest index of each, then a second
    /// stage in which the operations with these indexes write. In pieces of 2^19 operations, so that the table,
    /// twice as large, stays in the cache and is never full: the paper's drop at large batches, of one table of
    /// 2^20 places, does not happen. 16 MiB.
    HashTable,
    /// The highest operation of each leaf in an array beside the tree, 8 bytes for each leaf, by an atomic maximum;
    /// then the same second stage. 8 bytes for each operation.
    Stamps,
    /// One stage, for values of 32 bits: above them, the leaf has room for the operation's number, and an atomic
    /// maximum of both together is the last operation's value. No memory. Not for trees with keys of more than
    /// 32 bytes.
    Sequence,
    /// Operations are sorted by the leaves that they find, stably, and the last of each writes. 32 bytes for each
    /// operation.
    Sort,
}

/// Operations of a piece with [`UpdateEngine::HashTable`].
const PIECE: usize = 1 << 19;

/// Operations from which on those on keys of one length are worked off in the order of their first bytes. Measured
/// on an H200, n = 26 Mi: from 2^23 on what it saves is more than the sort takes.
const ORDERED: usize = 1 << 23;

/// By how many bits they are ordered: three passes of a sort.
const ORDER_BITS: u32 = 24;

/// Scratch memory of an engine.
#[derive(Debug)]
pub(super) struct Memory {
    engine: UpdateEngine,
    owners: Buffer<u64>,
    highest: Buffer<u32>,
    slots: Buffer<u32>,
    links: Buffer<u64>,
    sorting: Option<Sorting>,
    ordering: Option<Ordering>,
    /// [`ORDERED`], but in tests.
    ordered_from: usize,
}

#[derive(Debug)]
struct Sorting {
    links: Buffer<u64>,
    operations: Buffer<u32>,
    last_links: Buffer<u64>,
    last_operations: Buffer<u32>,
    count: Buffer<u64>,
    sort: RadixSortScratch<u64, u32>,
    runs: RunScratch,
}

#[derive(Debug)]
struct Ordering {
    heads: Buffer<u32>,
    sorted: Buffer<u32>,
    picks: Buffer<u32>,
    sort: RadixSortScratch<u32, u32>,
}

impl Ordering {
    fn new(device: &Device, operations: usize) -> Result<Self> {
        Ok(Self {
            heads: device.alloc(operations)?,
            sorted: device.alloc(operations)?,
            picks: device.alloc(operations)?,
            sort: RadixSortScratch::for_pairs(device, operations)?,
        })
    }
}

impl Memory {
    pub(super) fn new(device: &Device, operations: usize, engine: UpdateEngine) -> Result<Self> {
        let of = |engines: &[UpdateEngine], len: usize| if engines.contains(&engine) { len } else { 0 };
        let piece = operations.min(PIECE).next_power_of_two();
        let places = of(&[UpdateEngine::HashTable], 2 * piece);
        let with_links = [UpdateEngine::Auto, UpdateEngine::Stamps, UpdateEngine::Sort];
        let sorting = (engine == UpdateEngine::Sort).then(|| -> Result<_> {
            Ok(Sorting {
                links: device.alloc(operations)?,
                operations: device.alloc(operations)?,
                last_links: device.alloc(operations)?,
                last_operations: device.alloc(operations)?,
                count: device.alloc(1)?,
                sort: RadixSortScratch::for_pairs(device, operations)?,
                runs: RunScratch::new(device, operations)?,
            })
        });
        let ordered = engine == UpdateEngine::Auto && operations >= ORDERED;
        Ok(Self {
            engine,
            owners: device.alloc(places)?,
            highest: device.alloc(places)?,
            slots: device.alloc(places / 2)?,
            links: device.alloc(of(&with_links, operations))?,
            sorting: sorting.transpose()?,
            ordering: if ordered { Some(Ordering::new(device, operations)?) } else { None },
            ordered_from: ORDERED,
        })
    }

    /// Orders batches of so many operations, up to `operations`, and larger ones.
    pub(super) fn order_from(&mut self, operations: usize, from: usize) -> Result<()> {
        self.ordered_from = from;
        if self.engine == UpdateEngine::Auto && operations >= from && self.ordering.is_none() {
            self.ordering = Some(Ordering::new(self.device(), operations)?);
        }
        Ok(())
    }

    pub(super) fn device(&self) -> &Device {
        self.owners.device()
    }

    pub(super) fn bytes(&self) -> usize {
        let sorting = self.sorting.as_ref().map_or(0, |it| {
            let pairs = it.links.bytes() + it.operations.bytes() + it.last_links.bytes() + it.last_operations.bytes();
            pairs + it.count.bytes() + it.sort.bytes() + it.runs.bytes()
        });
        let ordering = self
            .ordering
            .as_ref()
            .map_or(0, |it| it.heads.bytes() + it.sorted.bytes() + it.picks.bytes() + it.sort.bytes());
        let own = self.owners.bytes() + self.highest.bytes() + self.slots.bytes() + self.links.bytes();
        own + sorting + ordering
    }

    /// Checks that the engine is one for the tree, also when it has keys of more than 32 bytes beside its own.
    pub(super) fn check<V: Word>(&self, tree: &Cuart<V>, with_long_keys: bool) -> Result<()> {
        if self.engine == UpdateEngine::Sequence && (with_long_keys || !has_sequence(tree)) {
            return Err(Error::UpdateEngine {
                engine: "Sequence",
                reason: if V::BITS == 32 { "the tree has keys of more than 32 bytes" } else { "values have 64 bits" },
            });
        }
        Ok(())
    }
}

/// What a tree remembers of its updates.
#[derive(Debug, Default)]
pub(in crate::cuart) struct DeviceState {
    /// The number of the last operation with [`UpdateEngine::Sequence`].
    pub(super) sequence: u32,
    stamps: Option<Stamps>,
    /// Why the tree is lost.
    pub(super) lost: Option<String>,
}

impl DeviceState {
    /// That of a copy of the tree: its leaves have the same numbers above their values.
    pub(super) fn of_copy(&self) -> Self {
        Self { sequence: self.sequence, stamps: None, lost: self.lost.clone() }
    }
}

#[derive(Debug)]
struct Stamps {
    buffer: Buffer<u64>,
    /// Where those of each kind of leaves begin, from leaves of 16 on.
    firsts: [u64; 3],
    /// The stamp of the next operation.
    next: u64,
}

/// Updates values of keys that are there. Adds to `distinct`, unless null, how many different ones: with
/// [`UpdateEngine::HashTable`] alone.
pub(super) fn update<V: Word>(
    tree: &mut Cuart<V>,
    stream: &Stream,
    keys: &DeviceKeys,
    values: &Buffer<V>,
    found: GlobalMut<u32>,
    memory: &mut Memory,
    distinct: GlobalMut<u64>,
) -> Result<()> {
    let batch = Batch { keys, values: values.global(), found, picks: Global::null(), count: keys.len() };
    match memory.engine {
        UpdateEngine::HashTable => hash_table(tree, stream, &batch, memory, distinct),
        UpdateEngine::Sort => sort(tree, stream, &batch, memory),
        UpdateEngine::Stamps => stamps(tree, stream, &batch, memory),
        UpdateEngine::Sequence => sequence(tree, stream, &batch),
        UpdateEngine::Auto => {
            let picks = order(tree, stream, &batch, memory)?;
            let batch = Batch { picks, ..batch };
            if has_sequence(tree) { sequence(tree, stream, &batch) } else { stamps(tree, stream, &batch, memory) }
        }
    }
}

/// A batch of updates.
pub(super) struct Batch<'a, V> {
    pub(super) keys: &'a DeviceKeys,
    pub(super) values: Global<V>,
    /// Found bits, or null.
    pub(super) found: GlobalMut<u32>,
    /// In which order it is worked off; null for its own.
    pub(super) picks: Global<u32>,
    pub(super) count: usize,
}

/// Sorts a large batch by the first bytes that tell keys apart, where they are of one length: null otherwise.
fn order<V: Word>(tree: &Cuart<V>, stream: &Stream, batch: &Batch<'_, V>, memory: &mut Memory) -> Result<Global<u32>> {
    let Some(ordering) = memory.ordering.as_mut().filter(|_| batch.count >= memory.ordered_from) else {
        return Ok(Global::null());
    };
    // Found bits would have to be set one by one.
    if batch.keys.width().is_none_or(|width| width < 4) || !batch.found.is_null() {
        return Ok(Global::null());
    }
    let skip = if tree.root.kind().is_node() { tree.root.span().min(8) } else { 0 };
    batch.keys.heads(stream, skip, &mut ordering.heads)?;
    let sorted = (&mut ordering.sorted, &mut ordering.picks);
    radix_argsort(stream, &ordering.heads, batch.count, 32 - ORDER_BITS..32, sorted, &mut ordering.sort)?;
    Ok(ordering.picks.global())
}

fn hash_table<V: Word>(
    tree: &Cuart<V>,
    stream: &Stream,
    batch: &Batch<'_, V>,
    memory: &mut Memory,
    distinct: GlobalMut<u64>,
) -> Result<()> {
    let (words, queries) = (tree.query_words(), batch.keys.keys_ref());
    let tree = TreeMut::new(tree.tree_ref());
    let piece = memory.slots.len().min(PIECE);
    for first in (0..batch.count).step_by(piece) {
        let count = piece.min(batch.count - first);
        // Of a short batch, as many places as it needs.
        let places = 2 * count.next_power_of_two();
        memory.owners.fill_zero_range(stream, 0..places)?;
        memory.highest.fill_zero_range(stream, 0..places)?;
        let claim = ClaimArgs {
            tree,
            queries,
            first: first as u64,
            count: count as u64,
            owners: memory.owners.global_mut(),
            highest: memory.highest.global_mut(),
            mask: places as u32 - 1,
            padding: 0,
            slots: memory.slots.global_mut(),
            found: batch.found,
        };
        launch::claim(words, &claim, over(stream, count)?)?;
        let conquer = ConquerArgs {
            tree,
            values: batch.values.byte_add((first * V::BYTES) as u64),
            count: count as u64,
            owners: memory.owners.global(),
            highest: memory.highest.global(),
            slots: memory.slots.global(),
            keys: distinct,
        };
        launch::conquer(&conquer, over(stream, count)?)?;
    }
    Ok(())
}

fn locating<V: Word>(tree: &Cuart<V>, batch: &Batch<'_, V>, memory: &mut Memory) -> LocateArgs {
    LocateArgs {
        tree: tree.tree_ref(),
        queries: batch.keys.keys_ref(),
        picks: batch.picks,
        count: batch.count as u64,
        links: memory.links.global_mut(),
        found: batch.found,
    }
}

/// Makes what the updates of a tree after inserts will need, so that they need no more memory.
pub(super) fn prepare<V: Word>(tree: &mut Cuart<V>, memory: &Memory, with_long_keys: bool) -> Result<()> {
    match memory.engine {
        UpdateEngine::Auto if has_sequence(tree) && !with_long_keys => Ok(()),
        UpdateEngine::Auto | UpdateEngine::Stamps => reserve_stamps(tree),
        _ => Ok(()),
    }
}

/// Makes room for a stamp of each leaf.
fn reserve_stamps<V: Word>(tree: &mut Cuart<V>) -> Result<()> {
    let leaves = &tree.leaves;
    let regions = [leaves.leaf8.buffer.len(), leaves.leaf16.buffer.len(), leaves.leaf32.buffer.len()];
    let firsts = [regions[0], regions[0] + regions[1], regions[0] + regions[1] + regions[2]].map(|first| first as u64);
    let len = firsts[2] as usize + leaves.device.buffer.len();
    if !tree.state.stamps.as_ref().is_some_and(|stamps| stamps.firsts == firsts && stamps.buffer.len() == len) {
        tree.state.stamps = Some(Stamps { buffer: tree.device.alloc_zeroed(len)?, firsts, next: 1 });
    }
    Ok(())
}

fn stamps<V: Word>(tree: &mut Cuart<V>, stream: &Stream, batch: &Batch<'_, V>, memory: &mut Memory) -> Result<()> {
    reserve_stamps(tree)?;
    let stamps = tree.state.stamps.as_mut().expect("they were made");
    let firsts = stamps.firsts;
    let first_stamp = stamps.next;
    stamps.next += batch.count as u64;
    let stamps_mut = stamps.buffer.global_mut();
    let locate = locating(tree, batch, memory);
    let count = over(stream, batch.count)?;
    let args = StampArgs { locate, stamps: stamps_mut, firsts, first_stamp };
    launch::stamp(tree.query_words(), &args, count)?;
    let args = WriteStampedArgs {
        tree: TreeMut::new(tree.tree_ref()),
        values: batch.values,
        picks: batch.picks,
        links: memory.links.global(),
        count: batch.count as u64,
        stamps: stamps_mut.as_const(),
        firsts,
        first_stamp,
    };
    Ok(launch::write_stamped(&args, count)?)
}

fn sort<V: Word>(tree: &Cuart<V>, stream: &Stream, batch: &Batch<'_, V>, memory: &mut Memory) -> Result<()> {
    let args = locating(tree, batch, memory);
    launch::locate(tree.query_words(), &args, over(stream, batch.count)?)?;
    let sorting = memory.sorting.as_mut().expect("an engine that sorts");
    let links = (&mut sorting.links, &mut sorting.operations);
    radix_argsort(stream, &memory.links, batch.count, 0..64, links, &mut sorting.sort)?;
    let pairs = Pairs { keys: &sorting.links, values: &sorting.operations, count: batch.count.into() };
    let last =
        PairsMut { keys: &mut sorting.last_links, values: &mut sorting.last_operations, count: &mut sorting.count };
    last_by_key(stream, pairs, last, &mut sorting.runs)?;
    let args = OverwriteArgs {
        tree: TreeMut::new(tree.tree_ref()),
        links: sorting.last_links.global(),
        operations: sorting.last_operations.global(),
        values: batch.values,
        count: sorting.count.global(),
    };
    Ok(launch::overwrite(&args, over(stream, batch.count)?)?)
}
