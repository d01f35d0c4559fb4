//! The plan of a batch: what it does to the leaves, and how many nodes each layer takes (the paper's CountAddNodeNum). The
//! tree is only read.

use super::scratch::{MANY, SMALL, SORT, TALLY, UpdateScratch};
use crate::mapping::Mapping;
use crate::storage::Storage;
use crate::tree::Tree;
use lanetree_frame::launch::{self, THREADS};
use lanetree_frame::pointers::optional;
use lanetree_frame::{Batch, Result, Stream};
use lanetree_kernels_cubpt::{ExpandArgs, SearchArgs, TouchArgs, TouchedNodes, calls};
use lanetree_layout::Key;
use lanetree_primitives::{Pairs, PairsMut, RunScratch, ScanScratch, exclusive_scan, last_by_key};
use lanetree_runtime::Buffer;
use lanetree_simt::{Global, GlobalMut};

/// Nodes of a layer with changes, and what becomes of them.
pub(super) struct Touched {
    pub(super) numbers: Buffer<u32>,
    lasts: Buffer<u32>,
    /// How many there are.
    found: Buffer<u64>,
    lens: Buffer<u32>,
    after: Buffer<u32>,
    taken: Buffer<u64>,
}

/// What becomes of a layer.
pub(super) struct LayerPlan {
    pub(super) changes: Buffer<u32>,
    /// In the leaves' layer: the pairs that come and go before each change.
    pub(super) sums: Option<Buffer<u64>>,
    pub(super) touched: Touched,
    pub(super) touched_count: u64,
    /// The numbers of new nodes.
    pub(super) new: Buffer<u32>,
    /// New nodes.
    pub(super) taken: u64,
    /// Whether nodes have many changes.
    pub(super) has_many: bool,
}

/// Changes of a node that are put in their places together with what it has: more would keep its lanes too long.
pub(super) fn few(storage: &Storage) -> u64 {
    match storage.mapping() {
        Mapping::PerNode => 2 * u64::from(storage.node().order),
        // All have threads of their own.
        Mapping::PerKey => 0,
    }
}

/// What a batch does.
pub(super) struct Found {
    pub(super) inserted: u64,
    pub(super) replaced: u64,
    pub(super) removed: u64,
    pub(super) unmatched: u64,
    pub(super) leaves: LayerPlan,
    /// A bit for each touched leaf that becomes too small, and how many there are.
    pub(super) small: Buffer<u32>,
    pub(super) small_count: u64,
}

/// New nodes, as changes of the layer above.
struct Expanded {
    parents: Buffer<u32>,
    changes: Buffer<u32>,
    leads: Buffer<u32>,
    indexes: Buffer<u32>,
}

impl Touched {
    /// The nodes of changes, and what becomes of them. In the stream's order.
    fn new<K: Key>(
        stream: &Stream,
        scratch: &mut UpdateScratch<K>,
        tree: &Tree,
        (nodes, indexes): (&Buffer<u32>, &Buffer<u32>),
        sums: Option<&Buffer<u64>>,
        full: u64,
    ) -> Result<(Self, Option<Buffer<u32>>)> {
        let (device, count) = (scratch.device(), nodes.len());
        let words = || device.alloc::<u32>(count);
        let [mut numbers, mut lasts, mut taken] = [words()?, words()?, words()?];
        let [mut lens, mut after] = [words()?, words()?];
        let (mut found, mut before) = (device.alloc(1)?, device.alloc(count + 1)?);
        last_by_key(
            stream,
            Pairs { keys: nodes, values: indexes, count: count.into() },
            PairsMut { keys: &mut numbers, values: &mut lasts, count: &mut found },
            &mut RunScratch::new(&device, count)?,
        )?;
        let mut small = match sums {
            Some(_) => Some(device.alloc(count.div_ceil(32))?),
            None => None,
        };
        let (mut unsorted, mut small_count) = (Global::null(), GlobalMut::null());
        let findings = scratch.findings.write_on(stream)?;
        if sums.is_some() {
            (unsorted, small_count) =
                (findings.as_const().byte_add((SORT as u64 + 1) * 8), findings.byte_add(SMALL as u64 * 8));
        }
        let args = TouchArgs {
            nodes: tree.storage.nodes(stream)?,
            numbers: numbers.read_on(stream)?,
            lasts: lasts.read_on(stream)?,
            touched: found.read_on(stream)?,
            count: count as u64,
            few: few(&tree.storage),
            many: findings.byte_add(MANY as u64 * 8),
            unsorted,
            sums: optional(sums, stream)?,
            full,
            lens: lens.write_on(stream)?,
            after: after.write_on(stream)?,
            taken: taken.write_on(stream)?,
            small: lanetree_frame::pointers::optional_mut(small.as_mut(), stream)?,
            small_count,
        };
        // SAFETY: nodes of the tree and their changes; a place for as many as there may be.
        unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::touch(&args)) }?;
        exclusive_scan(stream, &taken, count, &mut before, &mut ScanScratch::new(&device, count)?)?;
        Ok((Self { numbers, lasts, found, lens, after, taken: before }, small))
    }
}

impl LayerPlan {
    /// The touched nodes for a kernel.
    pub(super) fn nodes(&self, stream: &Stream) -> Result<TouchedNodes> {
        let Touched { numbers, lasts, lens, after, taken, .. } = &self.touched;
        Ok(TouchedNodes {
            numbers: numbers.read_on(stream)?,
            lasts: lasts.read_on(stream)?,
            lens: lens.read_on(stream)?,
            after: after.read_on(stream)?,
            taken: taken.read_on(stream)?,
            new: self.new.read_on(stream)?,
            count: self.touched_count,
        })
    }
}

impl Found {
    /// Sorts and searches a batch of at least one operation: the paper's first stage. Waits for what it does.
    ///
    /// # Errors
    /// [`UnknownKinds`](lanetree_frame::Error::UnknownKinds); [`Runtime`](lanetree_frame::Error::Runtime).
    pub(super) fn search<K: Key, V: Copy>(
        stream: &Stream,
        scratch: &mut UpdateScratch<K>,
        tree: &Tree,
        batch: Batch<'_, K, V>,
        full: u64,
    ) -> Result<Self> {
        let (device, count) = (scratch.device(), batch.count);
        loop {
            scratch.findings.fill_zero(stream)?;
            scratch.sort.sort(stream, batch, &mut scratch.findings, SORT)?;
            let words = || device.alloc::<u32>(count);
            let [mut leaves, mut changes, mut indexes] = [words()?, words()?, words()?];
            let (mut nets, mut sums) = (device.alloc(count)?, device.alloc(count + 1)?);
            let findings = scratch.findings.write_on(stream)?;
            let args = SearchArgs {
                tree: tree.tree_ref(stream, K::FLIP)?,
                keys: lanetree_frame::fixed::bits(stream, scratch.sort.sorted())?,
                kinds: optional(scratch.sort.folded(), stream)?,
                count: count as u64,
                unsorted: findings.as_const().byte_add((SORT as u64 + 1) * 8),
                leaves: leaves.write_on(stream)?,
                changes: changes.write_on(stream)?,
                nets: nets.write_on(stream)?,
                indexes: indexes.write_on(stream)?,
                tally: findings.byte_add(TALLY as u64 * 8),
            };
            // SAFETY: the tree is valid, and there is a place for each operation; the findings have their words.
            unsafe { launch::over(stream, count as u64, 1, THREADS)?.run(calls::search(&args)) }?;
            exclusive_scan(stream, &nets, count, &mut sums, &mut ScanScratch::new(&device, count)?)?;
            let (touched, small) = Touched::new(stream, scratch, tree, (&leaves, &indexes), Some(&sums), full)?;
            let (found, touched_count, taken) = scratch.wait(stream, &touched.found, &touched.taken)?;
            if !scratch.sort.check(&found[SORT..])? {
                continue;
            }
            let [inserted, replaced, removed, unmatched] = core::array::from_fn(|i| found[TALLY + i]);
            let new = device.alloc(0)?;
            let has_many = found[MANY] > 0;
            let leaves = LayerPlan { changes, sums: Some(sums), touched, touched_count, new, taken, has_many };
            let small = small.expect("removals make leaves small");
            return Ok(Self { inserted, replaced, removed, unmatched, leaves, small, small_count: found[SMALL] });
        }
    }
}

/// Numbers the new nodes of the leaves' layer, and plans the layers above as long as they take nodes. The number of nodes that
/// all take, without those above the root, and the layers from the leaves upwards.
///
/// # Errors
/// [`Runtime`](lanetree_frame::Error::Runtime).
pub(super) fn plan<K: Key>(
    stream: &Stream,
    scratch: &mut UpdateScratch<K>,
    tree: &Tree,
    leaves: LayerPlan,
    full: u64,
) -> Result<(Vec<LayerPlan>, u64)> {
    let (mut layers, mut leads, mut base) = (vec![leaves], None, 0);
    loop {
        let level = layers.len() - 1;
        let layer = &mut layers[level];
        if layer.taken == 0 {
            return Ok((layers, base));
        }
        let is_root = level as u32 == tree.height;
        let expanded = expand(stream, scratch, tree, layer, (leads.as_ref(), base), is_root)?;
        base += layer.taken;
        let Some(Expanded { parents, changes, leads: new_leads, indexes }) = expanded else {
            return Ok((layers, base));
        };
        scratch.findings.fill_zero(stream)?;
        let (touched, _) = Touched::new(stream, scratch, tree, (&parents, &indexes), None, full)?;
        let (found, touched_count, taken) = scratch.wait(stream, &touched.found, &touched.taken)?;
        let new = scratch.device().alloc(0)?;
        let has_many = found[MANY] > 0;
        layers.push(LayerPlan { changes, sums: None, touched, touched_count, new, taken, has_many });
        leads = Some(new_leads);
    }
}

/// Numbers a layer's new nodes, and makes changes of the layer above of them, if there is one.
fn expand<K: Key>(
    stream: &Stream,
    scratch: &UpdateScratch<K>,
    tree: &Tree,
    layer: &mut LayerPlan,
    (leads, base): (Option<&Buffer<u32>>, u64),
    is_root: bool,
) -> Result<Option<Expanded>> {
    let (device, count) = (scratch.device(), layer.taken as usize);
    let words = || device.alloc::<u32>(if is_root { 0 } else { count });
    let [mut parents, mut changes, mut new_leads, mut indexes] = [words()?, words()?, words()?, words()?];
    let mut numbers = device.alloc(count)?;
    let args = ExpandArgs::<K::Bits> {
        nodes: tree.storage.nodes(stream)?,
        touched: layer.nodes(stream)?,
        leads: optional(leads, stream)?,
        keys: if is_root { Global::null() } else { lanetree_frame::fixed::bits(stream, scratch.sort.sorted())? },
        flip: K::FLIP,
        count: layer.taken,
        base,
        free: tree.free.read_on(stream)?,
        free_count: tree.free_count,
        end: tree.end,
        numbers: numbers.write_on(stream)?,
        parents: parents.write_on(stream)?,
        changes: changes.write_on(stream)?,
        new_leads: new_leads.write_on(stream)?,
        indexes: indexes.write_on(stream)?,
    };
    // SAFETY: new nodes of the plan, whose operations lead to their parents; a place for each.
    unsafe { launch::over(stream, layer.taken, 1, THREADS)?.run(calls::expand(&args)) }?;
    layer.new = numbers;
    Ok((!is_root).then_some(Expanded { parents, changes, leads: new_leads, indexes }))
}
