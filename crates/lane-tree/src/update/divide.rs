//! Batches that divide nodes: their pairs go the way of a build, and the other nodes move aside.

use super::scratch::{APPENDED, DIVIDED, STUCK, TOTAL, WITHOUT_LINES};
use super::{Batch, UpdateScratch};
use crate::LaneTree;
use crate::bulk::{NOTHING_DIVIDED, Outputs, Planned, UpperScratch, line_count, make_upper, room};
use crate::parts::{Parts, Shape};
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::{Buffer, Result, Stream};
use lanetree_kernels_lane_tree::layout::{line_slots, lines_in_words};
use lanetree_kernels_lane_tree::{
    BLOCK_NODES, DIVIDED_WORDS, DivideArgs, Divided, Draws, EndsArgs, FitsArgs, ListDividedArgs, PlacePartsArgs,
    RUN_WARPS, RanksArgs, RelocateArgs, RunsArgs, Spread, TARGET_WORDS, Windows, calls,
};
use lanetree_layout::{AnyKey, Value};
use lanetree_primitives::exclusive_scan;
use lanetree_simt::{GlobalMut, WARP};

/// Where more than one in so many nodes would be drawn in, lines move instead. By the rates that are known: to build a node takes
/// about three times as long as to move its lines (experiment 24 of `docs/performance.md`).
const MOST_DRAWN: u64 = 4;

/// The nodes that are divided.
struct List {
    words: Buffer<u64>,
    count: usize,
    /// Their pairs, after the batch.
    pairs: usize,
    parts: usize,
    /// Their lines.
    lines: u64,
}

impl List {
    fn divided(&self, stream: &Stream) -> Result<Divided> {
        if self.count == 0 {
            return Ok(NOTHING_DIVIDED);
        }
        Ok(Divided { words: self.words.read_on(stream)?, count: self.count as u64 })
    }
}

/// Lines that are allocated beyond those of a tree whose lines move: keys that are appended later take them.
fn lines_to_append(lines: u32) -> u32 {
    (lines / 16).min(u32::MAX - lines)
}

/// Lines that are added where they move, everywhere the same part of what is there: so that there is a fifth more than pairs would
/// fill, and later batches find room near by.
fn lines_to_spread<K: AnyKey, V: Value>(lines: u64, pairs: u64) -> u64 {
    let enough = (pairs * 6).div_ceil(u64::from(line_slots::<K::Bits, V>()) * 5);
    enough.saturating_sub(lines)
}

impl<K: AnyKey, V: Value> LaneTree<K, V> {
    /// Lines that there is room for after those of the tree.
    fn spare_lines(&self) -> Result<u32> {
        let parts = self.parts.get()?;
        Ok(lines_in_words::<K::Bits, V>(parts.lines.len() as u64) as u32 - parts.shape.lines)
    }

    /// Decides which nodes are divided, and how many these are. `found` is how many must be. Waits for the stream.
    fn plan_runs(
        &self,
        stream: &Stream,
        batch: Batch<'_, K, V>,
        found: u64,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<u64> {
        let leaf_nodes = u64::from(self.parts.get()?.shape.leaf_nodes);
        let most_drawn = leaf_nodes / MOST_DRAWN;
        scratch.runs.reserve(&self.device, leaf_nodes as usize)?;
        scratch.runs.windows.fill_zero(stream)?;
        let windows = Self::windows(stream, leaf_nodes, scratch)?;
        let findings = scratch.findings.write_on(stream)?;
        let mut args = RunsArgs {
            tree: self.tree_ref(stream)?,
            changes: Self::changes(stream, batch, scratch)?,
            found: scratch.found.read_on(stream)?,
            divided: scratch.runs.divided.write_on(stream)?,
            pairs: scratch.runs.pairs.write_on(stream)?,
            parts: scratch.runs.parts.write_on(stream)?,
            part: self.divided_filling().node as u32,
            spare_lines: self.spare_lines()?,
            draws: Draws::FromBlocks as u32,
            most_nodes: most_drawn as u32,
            windows,
            divided_count: findings.byte_add(DIVIDED as u64 * 8),
            stuck_count: findings.byte_add(STUCK as u64 * 8),
        };
        let launch = |args: &RunsArgs<K::Bits, V>| -> Result<()> {
            let blocks = leaf_nodes.div_ceil(u64::from(BLOCK_NODES));
            // SAFETY: a bit and two words for each node.
            unsafe { launch::over(stream, blocks, WARP, RUN_WARPS * WARP)?.run(calls::plan_runs(args))? };
            Ok(())
        };
        launch(&args)?;
        args.draws = Draws::Windows as u32;
        launch(&args)?;
        let planned = scratch.findings.to_vec()?;
        let drawn = planned[DIVIDED] - found;
        if planned[STUCK] == 0 && drawn <= most_drawn {
            return Ok(planned[DIVIDED]);
        }
        // Lines will move.
        args.draws = Draws::Nothing as u32;
        launch(&args)?;
        scratch.runs.windows.fill_zero(stream)?;
        Ok(found)
    }

    /// The windows that are chosen.
    fn windows(stream: &Stream, leaf_nodes: u64, scratch: &mut UpdateScratch<K>) -> Result<Windows> {
        let levels = Windows::levels_of(leaf_nodes as u32).into();
        Ok(Windows { bits: scratch.runs.windows.write_on(stream)?, levels })
    }

    /// Lists the nodes that are divided. `found` is how many must be. Waits for the stream.
    fn list_divided(
        &self,
        stream: &Stream,
        batch: Batch<'_, K, V>,
        found: u64,
        scratch: &mut UpdateScratch<K>,
    ) -> Result<List> {
        if found == 0 {
            return Ok(List { words: self.device.alloc(0)?, count: 0, pairs: 0, parts: 0, lines: 0 });
        }
        let count = self.plan_runs(stream, batch, found, scratch)? as usize;
        let nodes = self.parts.get()?.shape.leaf_nodes as usize;
        let windows = Self::windows(stream, nodes as u64, scratch)?;
        let runs = &mut scratch.runs;
        exclusive_scan(stream, &runs.pairs, nodes, &mut runs.pairs_before, &mut runs.scan)?;
        exclusive_scan(stream, &runs.parts, nodes, &mut runs.parts_before, &mut runs.scan)?;
        let mut words = self.device.alloc((count + 1) * DIVIDED_WORDS as usize)?;
        let args = ListDividedArgs {
            divided: runs.divided.read_on(stream)?,
            windows,
            pairs_before: runs.pairs_before.read_on(stream)?,
            parts_before: runs.parts_before.read_on(stream)?,
            leaf_nodes: nodes as u64,
            nodes: scratch.nodes.read_on(stream)?,
            count: batch.0.len() as u64,
            marks: scratch.marks.write_on(stream)?,
            words: words.write_on(stream)?,
        };
        // SAFETY: the nodes of the tree, of which so many are divided.
        unsafe { launch::over(stream, nodes as u64 + 1, 1, THREADS)?.run(calls::list_divided(&args))? };
        // Those of the end are of all.
        let mut all = [0; DIVIDED_WORDS as usize];
        words.copy_range_to(count * all.len(), &mut all)?;
        let [pairs, parts, lines] = Divided::sums(all);
        Ok(List { words, count, pairs: pairs as usize, parts: parts as usize, lines })
    }

    /// Divides nodes, and changes the others that the batch touches. `growth` is by how many pairs the tree grows, wrapping; `listed` how
    /// many nodes are to be laid out anew, and `found` how many of these must be divided.
    pub(super) fn divide(
        &mut self,
        stream: &Stream,
        batch: Batch<'_, K, V>,
        growth: u64,
        (listed, found): (u64, u64),
        scratch: &mut UpdateScratch<K>,
    ) -> Result<()> {
        let (device, options, old) = (self.device.clone(), self.options, self.parts.get()?.shape);
        let len = old.len.wrapping_add(growth);
        let list = self.list_divided(stream, batch, found, scratch)?;
        let divided = list.divided(stream)?;
        let changes = Self::changes(stream, batch, scratch)?;
        // Their pairs, in order.
        let (mut keys, mut values) = (device.alloc::<K>(list.pairs)?, device.alloc::<V>(list.pairs)?);
        let mut planned = None;
        if list.count > 0 && list.pairs > 0 {
            let args = DivideArgs {
                tree: self.tree_ref(stream)?,
                changes,
                divided,
                keys: keys.write_on(stream)?.cast::<K::Bits>(),
                values: values.write_on(stream)?,
            };
            // SAFETY: there is room for their pairs.
            unsafe {
                launch::over(stream, list.count as u64, WARP, THREADS)?.run(calls::move_pairs(&args))?;
                launch::over(stream, batch.0.len() as u64, 1, THREADS)?.run(calls::move_inserts(&args))?;
            }
            let (pairs, filling) = ((&keys, &values, list.pairs), self.divided_filling());
            let made = Planned::new(stream, &device, pairs, filling, (divided, list.parts))?;
            let findings = scratch.findings.write_on(stream)?;
            let args = FitsArgs {
                divided,
                before: made.before().read_on(stream)?,
                leaf_nodes: u64::from(old.leaf_nodes),
                spare_lines: u64::from(self.spare_lines()?),
                without_lines: findings.byte_add(WITHOUT_LINES as u64 * 8),
                total: findings.byte_add(TOTAL as u64 * 8),
                appended: findings.byte_add(APPENDED as u64 * 8),
            };
            // SAFETY: the nodes and their parts.
            unsafe { launch::over(stream, list.count as u64, 1, THREADS)?.run(calls::fits(&args))? };
            planned = Some(made);
        }
        // Nodes and lines that the divided nodes become.
        let fitted = scratch.findings.to_vec()?;
        let (nodes, lines) = planned.as_mut().map_or((0, 0), |planned| planned.set_total(fitted[TOTAL]));
        // Where all pairs of divided nodes are removed, nobody would fill their lines.
        let lines_move = list.count > 0 && (planned.is_none() || fitted[WITHOUT_LINES] > 0);
        let leaf_nodes = old.leaf_nodes as usize - list.count + nodes;
        let mut spread = Spread { more: 0, lines: 1 };
        let lines = match lines_move {
            true => {
                let lines = u64::from(old.lines) - list.lines + lines;
                spread = Spread { more: lines_to_spread::<K, V>(lines, len), lines };
                spread.to(lines)
            }
            false => u64::from(old.lines) + fitted[APPENDED],
        };
        let lines = line_count(lines, len)?;
        let new_lines = if lines_move { lines as usize + lines_to_append(lines) as usize } else { 0 };
        let options = options.on::<K::Bits>(&device, (len, leaf_nodes))?;
        let mut built = room::<_, V>(&device, options, leaf_nodes, new_lines)?;
        built.shape = Shape { len, lines, leaf_nodes: leaf_nodes as u32, formats: old.formats, ..Shape::default() };
        let mut upper = UpperScratch::new(&device, leaf_nodes, options)?;
        let mut targets = device.alloc::<u64>(list.parts * TARGET_WORDS as usize)?;
        let mut moves = device.alloc::<u32>(2 * old.leaf_nodes as usize)?;
        // Nothing comes before the first part, if there is one or not.
        let nothing = device.alloc_zeroed::<u64>(1)?;
        let before = planned.as_ref().map_or(&nothing, Planned::before).read_on(stream)?;
        if let Some(planned) = &planned {
            let args = PlacePartsArgs {
                tree: self.tree_ref(stream)?,
                changes,
                divided,
                before,
                cuts: planned.cuts().read_on(stream)?,
                parts: list.parts as u64,
                lines_move: u64::from(lines_move),
                spread,
                targets: targets.write_on(stream)?,
            };
            // SAFETY: the nodes and their parts.
            unsafe { launch::over(stream, list.parts as u64, 1, THREADS)?.run(calls::place_parts(&args))? };
        }
        let tree = self.tree_ref(stream)?;
        let mut line_changes = self.changes_of_lines(stream, batch, scratch)?;
        let mut node_changes = self.changes_of_nodes(stream, batch, scratch)?;
        if list.count > 0 {
            node_changes.divided = scratch.runs.divided.write_on(stream)?;
        }
        node_changes.formats = upper.formats.write_on(stream)?;
        self.parts.change(|parts| {
            let (nodes, records, lines) =
                (parts.nodes.write_on(stream)?, parts.records.write_on(stream)?, parts.lines.write_on(stream)?);
            (line_changes.nodes, line_changes.records, line_changes.lines) = (nodes, records, lines);
            (node_changes.nodes, node_changes.records, node_changes.lines) = (nodes, records, lines);
            let ranks = RanksArgs {
                changes,
                divided,
                before,
                leaf_nodes: old.leaf_nodes,
                lines_move: u32::from(lines_move),
                records,
                nodes: nodes.as_const(),
                moves: moves.write_on(stream)?,
            };
            let new_lines = if lines_move { built.lines.write_on(stream)? } else { GlobalMut::null() };
            let relocate = RelocateArgs {
                tree,
                moves: moves.read_on(stream)?,
                nodes: built.nodes.write_on(stream)?,
                records: built.records.write_on(stream)?,
                lines: new_lines,
                spread,
            };
            let over_nodes = |nodes: u32, threads: u32| launch::over(stream, u64::from(nodes), threads, THREADS);
            // SAFETY: what is not divided has room where it is, and all nodes have it where they are to be.
            unsafe {
                Self::launch_changes(stream, &line_changes, (&node_changes, listed))?;
                over_nodes(old.leaf_nodes, 1)?.run(calls::ranks(&ranks))?;
                over_nodes(old.leaf_nodes, RelocateArgs::<K::Bits>::THREADS)?
                    .run(calls::relocate::<_, V>(&relocate))?;
            }
            if !lines_move {
                core::mem::swap(&mut built.lines, &mut parts.lines);
            }
            if let Some(planned) = &mut planned {
                let Parts { nodes, records, lines, .. } = &mut built;
                let outputs = Outputs { nodes, records, lines, upper: &mut upper };
                // SAFETY: as above.
                unsafe { planned.write(stream, Some(&targets), outputs)? };
            }
            let args = EndsArgs {
                nodes: built.nodes.read_on(stream)?,
                lines: built.lines.read_on(stream)?,
                leaf_nodes: built.shape.leaf_nodes,
                line_count: built.shape.lines,
                firsts: upper.firsts.write_on(stream)?,
                lasts: upper.lasts.write_on(stream)?,
            };
            // SAFETY: all nodes are written.
            unsafe { over_nodes(built.shape.leaf_nodes, 1)?.run(calls::ends::<_, V>(&args))? };
            make_upper(stream, options, &mut built, &mut upper)?;
            *parts = built;
            Ok(())
        })
    }
}
