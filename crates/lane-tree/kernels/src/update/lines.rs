//! Changes of single lines.

use super::{Changes, Effect};
use crate::layout::{LINE_WORDS, RECORD_WORDS, chunk_of, chunk_slots, line_slots, pairs_of};
use crate::search::TreeRef;
use core::marker::PhantomData;
use lanetree_simt::{FULL_MASK, Global, GlobalMut, Hint, Kernel, Order, Scope, Simt, Word, kernel_args, unroll};

kernel_args! {
    /// Arguments of [`PlanLines`] and [`WriteLines`].
    pub struct LineChangesArgs<K, V> {
        /// The tree.
        pub tree: TreeRef<K>,
        /// The batch.
        pub changes: Changes<K, V>,
        /// Not 0 if the keys are not sorted after all: then nothing is done.
        pub unsorted: Global<u64>,
        /// A bit for each node of the lowest level: whether it is to be laid out anew. [`PlanLines`] sets them.
        pub marks: GlobalMut<u32>,
        /// In and out, of [`PlanLines`]: how many lines have no room; added to the former value. At least the number of marked nodes.
        pub without_room: GlobalMut<u64>,
        /// Out, of [`WriteLines`]: the tree's records.
        pub records: GlobalMut<u64>,
        /// Out, of [`WriteLines`]: its lines.
        pub lines: GlobalMut<u64>,
    }
}

/// Most operations of a line that is changed alone: one thread does all of them.
const MOST: u32 = 32;

/// What the operations of one line do.
struct Group {
    /// The first one, and the one after the last.
    from: u64,
    to: u64,
    node: u32,
    /// The line's number in the node.
    line: u32,
    /// Its pairs, before and after, wrapping.
    len: u32,
    new_len: u32,
    /// Whether it has the node's last pairs.
    is_last: bool,
    /// Whether there is any effect.
    is_changed: bool,
    /// Whether look-ups come to it for all keys that are inserted, and there are not too many operations.
    is_simple: bool,
}

impl<K: Word, V: Word> Changes<K, V> {
    /// Per thread. The operations of a line, if the one at `at` is their first.
    #[inline(always)]
    fn group<S: Simt>(&self, simt: S, at: u64) -> Option<Group> {
        if at >= self.count {
            return None;
        }
        // SAFETY: operations.
        unsafe {
            let (node, place) = (self.node(simt, at), self.place(simt, at));
            let line = place.line();
            let is_own = |at: u64| self.node(simt, at) == node && self.place(simt, at).line() == line;
            if at > 0 && is_own(at - 1) {
                return None;
            }
            let len = place.len();
            let mut group = Group {
                from: at,
                to: at,
                node,
                line,
                len,
                new_len: len,
                is_last: place.is_last(),
                is_changed: false,
                is_simple: true,
            };
            let mut left = MOST;
            while group.to < self.count && is_own(group.to) {
                let place = self.place(simt, group.to);
                match place.effect() {
                    Effect::Insert => {
                        group.new_len += 1;
                        group.is_simple &= place.is_reached();
                    }
                    Effect::Remove => group.new_len = group.new_len.wrapping_sub(1),
                    Effect::None | Effect::Replace => {}
                }
                group.is_changed |= place.effect() != Effect::None;
                group.to += 1;
                left -= 1;
                if left == 0 {
                    group.is_simple = false;
                    break;
                }
            }
            Some(group)
        }
    }
}

/// Marks the nodes of lines that have no room: a thread per operation.
#[derive(Debug)]
pub struct PlanLines<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for PlanLines<K, V> {
    type Args = LineChangesArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        // SAFETY: a bit for each node.
        unsafe {
            let mut is_marked = false;
            if simt.load(args.unsorted, 0, Hint::ReadOnly) == 0
                && let Some(group) = args.changes.group(simt, simt.global_index())
            {
                let has_room = 1 <= group.new_len && group.new_len <= line_slots::<K, V>();
                is_marked = !has_room || !group.is_simple;
                if is_marked {
                    let bit = 1 << (group.node % 32);
                    simt.atomic_or(args.marks, u64::from(group.node / 32), bit, Order::Relaxed, Scope::Device);
                }
            }
            let marked = simt.opaque(simt.ballot(FULL_MASK, is_marked)).count_ones();
            if simt.lane() == 0 && marked > 0 {
                simt.atomic_add(args.without_room, 0, u64::from(marked), Order::Relaxed, Scope::Device);
            }
        }
    }
}

/// Per thread. Whether a node is to be laid out anew.
///
/// # Safety
/// There is such a node.
#[inline(always)]
pub(super) unsafe fn is_marked<S: Simt>(simt: S, marks: Global<u32>, node: u32) -> bool {
    // SAFETY: the caller's.
    unsafe { simt.load(marks, u64::from(node / 32), Hint::ReadOnly) >> (node % 32) & 1 != 0 }
}

/// Most slots of a line.
const SLOTS: usize = 8;

/// A line's pairs, in a thread's registers.
struct Line<K, V> {
    keys: [K; SLOTS],
    values: [V; SLOTS],
    len: u32,
}

impl<K: Word, V: Word> Line<K, V> {
    /// Slots that it has.
    const OWN: usize = line_slots::<K, V>() as usize;

    /// The pairs that are below a key.
    #[inline(always)]
    fn below(&self, key: K) -> u32 {
        let mut below = 0;
        unroll!(SLOTS, slot => {
            below += u32::from(slot < Self::OWN && (slot as u32) < self.len && self.keys[slot] < key);
        });
        below
    }

    /// Puts a pair in its place; there is room.
    #[inline(always)]
    fn insert(&mut self, key: K, value: V) {
        let at = self.below(key);
        unroll!(SLOTS, back => {
            let slot = SLOTS - 1 - back;
            if slot < Self::OWN {
                if slot as u32 == at {
                    (self.keys[slot], self.values[slot]) = (key, value);
                } else if slot as u32 > at && slot > 0 {
                    (self.keys[slot], self.values[slot]) = (self.keys[slot.saturating_sub(1)], self.values[slot.saturating_sub(1)]);
                }
            }
        });
        self.len += 1;
    }

    /// Takes out a pair, which is there.
    #[inline(always)]
    fn remove(&mut self, key: K) {
        let at = self.below(key);
        unroll!(SLOTS, slot => {
            if slot as u32 >= at && slot + 1 < Self::OWN {
                (self.keys[slot], self.values[slot]) = (self.keys[(slot + 1) % SLOTS], self.values[(slot + 1) % SLOTS]);
            }
        });
        self.len -= 1;
    }

    /// Gives a pair, which is there, another value.
    #[inline(always)]
    fn replace(&mut self, key: K, value: V) {
        unroll!(SLOTS, slot => {
            if slot < Self::OWN && self.keys[slot] == key {
                self.values[slot] = value;
            }
        });
    }
}

/// Changes the lines of nodes that are not marked, and notes how many pairs they have: launched as [`PlanLines`].
#[derive(Debug)]
pub struct WriteLines<K, V>(PhantomData<(K, V)>);

impl<K: Word, V: Word> Kernel for WriteLines<K, V> {
    type Args = LineChangesArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let (changes, flip) = (&args.changes, args.tree.flip);
        let Some(group) = changes.group(simt, simt.global_index()) else { return };
        // SAFETY: a line of the tree, which only this thread changes; operations.
        unsafe {
            if !group.is_changed || is_marked(simt, args.marks.as_const(), group.node) {
                return;
            }
            let first_line = args.tree.first_line(simt, group.node);
            let number = first_line + group.line;
            let at = u64::from(number) * u64::from(LINE_WORDS);
            let slots = chunk_slots::<K, V>() as usize;
            let mut line = Line { keys: [K::MIN; SLOTS], values: [V::MIN; SLOTS], len: group.len };
            unroll!((LINE_WORDS / 2) as usize, chunk => {
                let words = simt.load_vector(args.lines.as_const(), at + 2 * chunk as u64, Hint::Default);
                let pairs = pairs_of::<K, V>(words);
                unroll!(2, i => {
                    if i < slots {
                        (line.keys[chunk * slots + i], line.values[chunk * slots + i]) = pairs[i];
                    }
                });
            });
            // First what makes room.
            let mut own = group.from;
            while own < group.to {
                match changes.place(simt, own).effect() {
                    Effect::Replace => line.replace(changes.key(simt, own, flip), changes.value(simt, own)),
                    Effect::Remove => line.remove(changes.key(simt, own, flip)),
                    Effect::None | Effect::Insert => {}
                }
                own += 1;
            }
            own = group.from;
            while own < group.to {
                if changes.place(simt, own).effect() == Effect::Insert {
                    line.insert(changes.key(simt, own, flip), changes.value(simt, own));
                }
                own += 1;
            }
            // Free slots repeat the last pair.
            unroll!(SLOTS, slot => {
                if slot > 0 && slot < Line::<K, V>::OWN && slot as u32 >= line.len {
                    (line.keys[slot], line.values[slot]) = (line.keys[slot.saturating_sub(1)], line.values[slot.saturating_sub(1)]);
                }
            });
            unroll!((LINE_WORDS / 2) as usize, chunk => {
                let pair = |slot: usize| (line.keys[slot], line.values[slot]);
                let second = chunk * slots + slots - 1;
                let words = chunk_of([pair(chunk * slots), pair(second)]);
                simt.store_vector(args.lines, at + 2 * chunk as u64, words, Hint::Default);
            });
            if group.is_last {
                // So do lines that are free.
                let end = first_line + args.tree.lines_of(simt, group.node).1;
                let last = (line.keys[Line::<K, V>::OWN - 1], line.values[Line::<K, V>::OWN - 1]);
                let mut chunk = u64::from(number + 1) * u64::from(LINE_WORDS);
                while chunk < u64::from(end) * u64::from(LINE_WORDS) {
                    simt.store_vector(args.lines, chunk, chunk_of([last; 2]), Hint::Default);
                    chunk += 2;
                }
            }
            // Every line has bits of its own, so that sums change only these.
            let planes = if K::BITS == 64 { 2 } else { 3 };
            let record = u64::from(group.node) * u64::from(RECORD_WORDS) + u64::from(RECORD_WORDS - planes);
            let changed = (group.len - 1) ^ (line.len - 1);
            unroll!(3, plane => {
                if (plane as u32) < planes && changed >> plane & 1 != 0 {
                    let bit = 1_u64 << group.line;
                    let change = if (line.len - 1) >> plane & 1 != 0 { bit } else { bit.wrapping_neg() };
                    simt.atomic_add(args.records, record + plane as u64, change, Order::Relaxed, Scope::Device);
                }
            });
        }
    }
}
