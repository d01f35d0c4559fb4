//! Batches that rebuild the tree, in one pass over its pairs.

use super::{Batch, UpdateScratch};
use crate::build::build;
use crate::bulk::{NOTHING_SPLIT, Planned, UpperScratch, bucket_count, make_upper, room};
use crate::node::Filling;
use crate::options::Options;
use crate::parts::{Parts, Shape};
use crate::tuning::TUNING;
use crate::update::split::{Relocated, relocate};
use crate::{LaneTree, ahead};
use lanetree_frame::fixed::SortedPairs;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Buffer, Result, Stream};
use lanetree_kernels_lane_tree::layout::{BITMAP_CHILDREN, spare_buckets};
use lanetree_kernels_lane_tree::{
    AssignOthersArgs, BUCKET_BITS, NodesArgs, OtherParts, REBUILD_WARPS, REBUILT_WORDS, RebuildArgs, SizeOthersArgs,
    StartsArgs, TARGET_WORDS, TreeRef, calls, rebuild_pairs,
};
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::{DevicePairs, ScanScratch, exclusive_scan};
use lanetree_simt::{Global, GlobalMut, WARP};

/// The parts into which all pairs are cut.
#[derive(Clone, Copy)]
struct Cut {
    filling: Filling,
    /// Pairs.
    len: usize,
    parts: usize,
    /// Parts of a block.
    own: usize,
}

impl Cut {
    /// That of `len` pairs, at least one, for a tree that is filled so; a block brings at most `most` pairs together, of nodes of which
    /// there were so many.
    fn new(filling: Filling, len: usize, most: usize, nodes: usize) -> Self {
        let parts = filling.parts(len);
        let part = len.div_ceil(parts);
        let warps = REBUILD_WARPS as usize;
        // So few that, in the mean, every warp has no more than one of the old nodes: these lie across the first and the last boundary.
        let wanted = ((warps - 1) * (len / nodes) / part).clamp(warps / 2, warps);
        let own = wanted.min((most - 2 * filling.reach() - 2) / part).max(1);
        Self { filling, len, parts, own }
    }

    /// Buckets that there is to be room for, so that there nearly always is: a quarter more than if all were as full as they are to
    /// be, and those that are reserved.
    fn buckets(self) -> u64 {
        let (even, is_full) =
            ((self.len.div_ceil(self.parts) * 256).div_ceil(self.filling.bucket as usize), self.filling.is_full());
        let most = (even + even / 4 + 1).min(BITMAP_CHILDREN as usize) as u32;
        let buckets = self.parts as u64 * u64::from(most + spare_buckets(is_full, most));
        let buckets = u32::try_from(buckets).unwrap_or(u32::MAX);
        u64::from(buckets.saturating_add(self.filling.reserved(buckets)))
    }
}

/// Memory that a rebuild takes, before it is known what it needs.
#[derive(Clone, Copy)]
struct Room {
    buckets: u64,
    /// Pairs of parts that are put aside.
    pairs: u64,
}

/// What came of a rebuild.
enum Rebuilt<K> {
    Into(Box<Parts<K>>),
    /// It needs so much.
    Needs(Room),
}

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// Rebuilds the tree with a batch, from the `len` pairs that there are then. After an error the tree is what it was.
    pub(super) fn rebuild(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        len: u64,
        scratch: &mut UpdateScratch<K>,
        ready: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        if len == 0 {
            let built = build::<K, V>(&self.device, &SortedPairs::default(), self.options)?;
            ready()?;
            self.parts.replace(built);
            return Ok(());
        }
        ahead::load(&self.device, ahead::of_rebuilds::<K, V>);
        let old = self.parts.get()?.shape;
        let options = self.rebuilt_options(old.len);
        let filling = Filling::new::<K::Bits, V>(options.fill);
        let most = rebuild_pairs::<K::Bits, V>() as usize;
        let cut = Cut::new(filling, len as usize, most, old.leaf_nodes.max(1) as usize);
        let mut room = Room { buckets: cut.buckets(), pairs: TUNING.on(stream.device())?.most_aside(len) };
        let built = loop {
            match self.rebuilt(stream, batch, options, cut, room, scratch)? {
                Rebuilt::Into(built) => break *built,
                // Counted, so once more is enough for either.
                Rebuilt::Needs(more) => room = more,
            }
        };
        ready()?;
        self.parts.replace(built);
        Ok(())
    }

    /// The tree after a batch, or what memory it takes. Waits for the stream.
    fn rebuilt(
        &self,
        stream: &Stream,
        batch: Batch<'_, K, &Buffer<V>>,
        options: Options,
        cut: Cut,
        has: Room,
        scratch: &UpdateScratch<K>,
    ) -> Result<Rebuilt<K::Bits>> {
        // From the tree's device, which may be a pool's, as opposed to the stream's.
        let device = &self.device;
        let Cut { filling, len, parts, own } = cut;
        let tree = self.tree_ref(stream)?;
        let changes = Self::changes(stream, batch, scratch)?;
        let nodes = tree.leaf_nodes.max(1) as usize;
        let (mut starts, mut operations) = (device.alloc::<u64>(nodes + 1)?, device.alloc::<u64>(nodes + 1)?);
        let args =
            StartsArgs { tree, changes, starts: starts.write_on(stream)?, operations: operations.write_on(stream)? };
        // SAFETY: an element for each node, and one more.
        unsafe { launch::over(stream, nodes as u64 + 1, 1, THREADS)?.run(calls::starts(&args))? };

        bucket_count(has.buckets, len as u64)?;
        let of_parts = options.on::<K::Bits>(device, len as u64, parts)?;
        let mut upper = UpperScratch::new(device, parts, of_parts)?;
        let mut built = room::<_, V>(device, of_parts, parts, has.buckets as usize)?;
        let mut counts = device.alloc_zeroed::<u64>(REBUILT_WORDS as usize)?;
        let mut sizes = device.alloc::<u64>(parts)?;
        // Of parts that are put aside: their pairs, cuts, numbers, and ranks.
        let pairs = has.pairs as usize;
        let (mut keys, mut values) = (device.alloc::<K>(pairs)?, device.alloc::<V>(pairs)?);
        let mut cuts = device.alloc::<u64>(parts + 1)?;
        cuts.fill_zero_range(stream, 0..1)?;
        let (mut others, mut list) = (device.alloc::<u32>(parts)?, device.alloc::<u32>(parts)?);
        let mut ranks = device.alloc::<u64>(parts)?;
        let blocks = parts.div_ceil(own) as u64;
        let mut spans = device.alloc::<u64>(4 * blocks as usize)?;
        let args = RebuildArgs {
            tree,
            changes,
            starts: starts.read_on(stream)?,
            operations: operations.read_on(stream)?,
            spans: spans.write_on(stream)?,
            len: len as u64,
            part: (len / parts) as u64,
            longer: (len % parts) as u64,
            own_parts: own as u32,
            reach: filling.reach() as u32,
            out: NodesArgs {
                keys: Global::null(),
                values: Global::null(),
                cuts: Global::null(),
                parts: parts as u64,
                split: NOTHING_SPLIT,
                filling: filling.bucket,
                reserved: 0,
                plans: GlobalMut::null(),
                counts: GlobalMut::null(),
                found: GlobalMut::null(),
                others: list.write_on(stream)?,
                before: Global::null(),
                targets: Global::null(),
                nodes: built.nodes.write_on(stream)?,
                records: built.records.write_on(stream)?,
                ends: built.ends.write_on(stream)?,
                buckets: built.buckets.write_on(stream)?,
                firsts: upper.firsts.write_on(stream)?,
                lasts: upper.lasts.write_on(stream)?,
                formats: upper.formats.write_on(stream)?,
                flip: K::FLIP,
            },
            counts: counts.write_on(stream)?,
            most_buckets: has.buckets,
            others: OtherParts {
                keys: keys.write_on(stream)?.cast::<K::Bits>(),
                values: values.write_on(stream)?,
                most_pairs: has.pairs,
                cuts: cuts.write_on(stream)?,
                parts: others.write_on(stream)?,
                ranks: ranks.write_on(stream)?,
            },
            sizes: sizes.write_on(stream)?,
        };
        let warps = blocks * u64::from(REBUILD_WARPS);
        // SAFETY: all nodes, parts and blocks have elements, and buckets and pairs the room that is said.
        unsafe {
            launch::over(stream, blocks, 1, THREADS)?.run(calls::spans(&args))?;
            launch::over(stream, warps, WARP, REBUILD_WARPS * WARP)?.run(calls::rebuild(&args))?;
        }
        let mut found = [0; REBUILT_WORDS as usize];
        counts.copy_range_to(0, &mut found)?;
        let [buckets, aside] = found;
        let (count, pairs) = ((aside >> BUCKET_BITS) as usize, aside & ((1 << BUCKET_BITS) - 1));
        if buckets > has.buckets || pairs > has.pairs {
            return Ok(Rebuilt::Needs(Room { buckets: buckets.max(has.buckets), pairs: pairs.max(has.pairs) }));
        }
        if count == 0 {
            built.shape =
                Shape { len: len as u64, buckets: buckets as u32, leaf_nodes: parts as u32, ..Shape::default() };
            make_upper(stream, of_parts, &mut built, &mut upper)?;
            return Ok(Rebuilt::Into(Box::new(built)));
        }

        let pairs = DevicePairs { keys: &keys, values: &values, len: pairs as usize };
        let mut planned = Planned::of_others(stream, device, pairs, filling, (count, cuts, list))?;
        let (nodes, other_buckets) = planned.total()?.expect("the number of parts alone is found");
        let all_buckets = buckets + other_buckets;
        if all_buckets > has.buckets {
            return Ok(Rebuilt::Needs(Room { buckets: all_buckets, ..has }));
        }
        let args = SizeOthersArgs {
            counts: planned.counts().read_on(stream)?,
            parts: others.read_on(stream)?,
            count: count as u64,
            sizes: sizes.write_on(stream)?,
        };
        // SAFETY: the numbers of parts.
        unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::size_others(&args))? };
        let mut before = device.alloc::<u64>(parts + 1)?;
        exclusive_scan(stream, &sizes, parts, &mut before, &mut ScanScratch::new(device, parts)?)?;
        let mut moves = device.alloc::<u32>(parts)?;
        let mut targets = device.alloc::<u64>(count * TARGET_WORDS as usize)?;
        let args = AssignOthersArgs {
            sizes: sizes.read_on(stream)?,
            before: before.read_on(stream)?,
            parts: parts as u64,
            others: others.read_on(stream)?,
            ranks: ranks.read_on(stream)?,
            count: count as u64,
            first_bucket: buckets,
            moves: moves.write_on(stream)?,
            targets: targets.write_on(stream)?,
        };
        // SAFETY: an element for each part, and those of the others.
        unsafe { launch::over(stream, parts as u64, 1, THREADS)?.run(calls::assign_others(&args))? };

        let leaf_nodes = parts - count + nodes;
        let options = options.on::<K::Bits>(device, len as u64, leaf_nodes)?;
        let mut moved = room::<_, V>(device, options, leaf_nodes, 0)?;
        moved.shape =
            Shape { len: len as u64, buckets: all_buckets as u32, leaf_nodes: leaf_nodes as u32, ..Shape::default() };
        core::mem::swap(&mut moved.buckets, &mut built.buckets);
        let mut of_moved = UpperScratch::new(device, leaf_nodes, options)?;
        core::mem::swap(&mut of_moved.formats, &mut upper.formats);
        let from = TreeRef {
            nodes: built.nodes.read_on(stream)?,
            records: built.records.read_on(stream)?,
            ends: built.ends.read_on(stream)?,
            leaf_nodes: parts as u32,
            ..tree
        };
        let to = Relocated { options, built: &mut moved, upper: &mut of_moved };
        // SAFETY: every node has a position, and every other part a target.
        unsafe { relocate(stream, from, &moves, Some((&mut planned, &targets)), to)? };
        Ok(Rebuilt::Into(Box::new(moved)))
    }
}
