//! Nodes of the lowest level over pairs in main memory: where buckets begin, and how the node knows.

use lanetree_kernels_lane_tree::MOST_REACH;
use lanetree_kernels_lane_tree::layout::{
    BITMAP_CHILDREN, FIRST_CHILD, Format, HALVES_CHILDREN, LINE_WORDS, MOST_CHUNK_SLOTS, MOST_PLANES, NODE_WORDS,
    QUANTISER, Quantiser, Record, SEPARATORS, SHIFTS, UNUSED_HALF, chunk_at, chunk_of, chunk_slots, exact_children,
    has_values_beside, line_slots, value_at,
};
use lanetree_layout::{KeyWord, Value};

/// How many pairs buckets and nodes are to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    /// Pairs of a bucket, in units of 1/256.
    pub(crate) line: u32,
    /// Pairs of a node.
    pub(crate) node: usize,
    /// Slots of a bucket.
    slots: usize,
}

impl Filling {
    /// That of a tree whose buckets are to be filled to a part of their slots.
    pub(crate) fn new<K: KeyWord, V: Value>(fill: f64) -> Self {
        let slots = line_slots::<K, V>();
        let line = ((f64::from(slots) * fill * 256.0) as u32).max(256);
        // In a bitmap of 448 cells, 208 keys need few enough buckets that are not full: 94 % of the slots are used.
        let full = if slots == 4 { 208 } else { 400 };
        let node = (full * line / (slots * 256)) as usize;
        Self { line, node, slots: slots as usize }
    }

    /// Whether buckets are to be filled whole.
    pub(crate) fn is_full(self) -> bool {
        self.line as usize == self.slots * 256
    }

    /// The number of parts of `len` pairs, each of which is made into nodes by itself, nearly always into one.
    pub(crate) fn parts(self, len: usize) -> usize {
        (len / self.node).max(1)
    }

    /// How far a part's boundary may be from where it would be if all were equal.
    pub(crate) fn reach(self) -> usize {
        (self.node / 4).min(MOST_REACH as usize)
    }

    /// Where a bucket that begins with a pair is to end: full, or at the next of equal distances.
    fn end_of_line(self, start: usize) -> usize {
        let (line, slots) = (self.line as usize, self.slots);
        if self.is_full() {
            return start + slots;
        }
        (((start * 256 + 255) / line + 1) * line) >> 8
    }
}

/// A plan of a node: what it quantises keys with, and where its buckets begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) quantiser: Quantiser,
    /// The first pair of each bucket, counted from the node's.
    pub(crate) starts: Vec<usize>,
}

impl Plan {
    /// A plan for one node with all the keys; `None` if they need more.
    pub(crate) fn of<K: KeyWord>(keys: &[K], filling: Filling) -> Option<Self> {
        let (&first, &last) = (keys.first()?, keys.last()?);
        let bitmap = Quantiser::bitmap(first, last, 0);
        // If keys of which one more than a bucket has slots are too close for all bitmaps, one is enough to fail.
        let may_part = keys.windows(filling.slots + 1).all(|keys| bitmap.may_part(keys[0], keys[filling.slots]));
        let ways = if may_part { SHIFTS } else { 1 };
        let bitmaps = (0..ways).map(|shift| Quantiser::bitmap(first, last, shift));
        bitmaps.chain([Quantiser::halves(first, last), Quantiser::EXACT]).find_map(|quantiser| {
            let most = match quantiser.format() {
                Format::Bitmap => BITMAP_CHILDREN,
                Format::Halves => HALVES_CHILDREN,
                Format::Exact => exact_children::<K>(),
            } as usize;
            if keys.len() > most * filling.slots {
                return None;
            }
            let begins =
                |at: usize| quantiser == Quantiser::EXACT || quantiser.place(keys[at]) != quantiser.place(keys[at - 1]);
            let starts = cut(keys.len(), filling, most, begins)?;
            Some(Self { quantiser, starts })
        })
    }

    /// The node, whose first bucket has this number.
    pub(crate) fn node<K: KeyWord>(&self, keys: &[K], first_line: u32) -> [u32; NODE_WORDS as usize] {
        let firsts = self.starts[1..].iter().map(|&start| keys[start]);
        node(self.quantiser, first_line, firsts)
    }

    /// The node's record.
    pub(crate) fn record<K: KeyWord>(&self, keys: &[K], rank: u64) -> Record<K> {
        let mut planes = [0; MOST_PLANES];
        for line in 0..self.starts.len() {
            let beyond = self.end(line, keys.len()) - self.starts[line] - 1;
            for (bit, plane) in planes.iter_mut().enumerate() {
                *plane |= (beyond as u64 >> bit & 1) << line;
            }
        }
        Record { first: keys[0], rank, planes }
    }

    /// Writes the node's buckets, from this one on, and some that are free.
    pub(crate) fn lines<K: KeyWord, V: Value>(
        &self,
        keys: &[K],
        values: &[V],
        first_line: u32,
        spare: usize,
        lines: &mut [u64],
    ) {
        let slots = chunk_slots::<K, V>() as usize;
        for line in 0..self.starts.len() + spare {
            // A free bucket repeats the last pair.
            let start = self.starts.get(line).copied().unwrap_or(keys.len());
            let last = self.end(line, keys.len()) - 1;
            let number = first_line + line as u32;
            for chunk in 0..LINE_WORDS / 2 {
                let pairs: [_; MOST_CHUNK_SLOTS] = core::array::from_fn(|i| {
                    // A free slot repeats the pair before it.
                    let at = (start + chunk as usize * slots + i.min(slots - 1)).min(last);
                    (keys[at], values[at])
                });
                let to = chunk_at::<K, V>(u64::from(number) * u64::from(LINE_WORDS / 2) + u64::from(chunk)) as usize;
                lines[to..to + 2].copy_from_slice(&chunk_of(pairs));
                if has_values_beside::<K, V>() {
                    let all: &mut [V] = bytemuck::cast_slice_mut(lines);
                    all[value_at::<K, V>(number, chunk) as usize] = pairs[0].1;
                }
            }
        }
    }

    fn end(&self, line: usize, len: usize) -> usize {
        self.starts.get(line + 1).copied().unwrap_or(len)
    }
}

/// A node whose children after the first begin with these keys.
pub(crate) fn node<K: KeyWord>(
    quantiser: Quantiser,
    first_child: u32,
    firsts: impl Iterator<Item = K>,
) -> [u32; NODE_WORDS as usize] {
    let mut words = [0; NODE_WORDS as usize];
    (words[FIRST_CHILD as usize], words[QUANTISER as usize]) = (first_child, quantiser.0);
    let separators = &mut words[..SEPARATORS as usize];
    match quantiser.format() {
        Format::Bitmap => {
            for first in firsts {
                let cell = quantiser.place(first);
                separators[cell as usize / 32] |= 1 << (cell % 32);
            }
        }
        Format::Halves => {
            separators.fill(UNUSED_HALF | UNUSED_HALF << 16);
            for (i, first) in firsts.enumerate() {
                let (word, shift) = (&mut separators[i / 2], i % 2 * 16);
                *word = *word & !(0xffff << shift) | quantiser.place(first) << shift;
            }
        }
        Format::Exact => {
            // A query passes only what is below it, so the largest key separates nothing.
            separators.fill(u32::MAX);
            for (i, first) in firsts.enumerate() {
                let separator = first.wrapping_add(K::MAX);
                let words = K::BYTES / 4;
                for (part, word) in separators[words * i..words * (i + 1)].iter_mut().enumerate() {
                    *word = separator.shr(part as u32 * 32).low();
                }
            }
        }
    }
    words
}

/// Cuts `len` pairs into at most `most` buckets, each as long as it is to be or, if it may not end there, as near as can be.
fn cut(len: usize, filling: Filling, most: usize, begins: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
    let mut starts = vec![0];
    loop {
        let start = *starts.last().expect("one at least");
        let wanted = filling.end_of_line(start).min(len);
        let longest = (start + filling.slots).min(len);
        let may_end = |end: &usize| *end == len || begins(*end);
        let down = (start + 1..=wanted).rev().find(may_end);
        let end = down.or_else(|| (wanted + 1..=longest).find(may_end))?;
        if end == len {
            return Some(starts);
        }
        starts.push(end);
        if starts.len() > most {
            return None;
        }
    }
}

/// Splits keys into as few nodes as go: calls `each` with the first key's position and a plan of each.
pub(crate) fn divide<K: KeyWord>(keys: &[K], filling: Filling, mut each: impl FnMut(usize, usize, Plan)) {
    let mut start = 0;
    while start < keys.len() {
        let mut end = keys.len();
        loop {
            if let Some(plan) = Plan::of(&keys[start..end], filling) {
                each(start, end, plan);
                break;
            }
            // At the largest gap of the middle half.
            let quarter = (end - start) / 4;
            let middle = start + quarter..=end - quarter - 1;
            end = middle.max_by_key(|&at| (gap(keys, at), core::cmp::Reverse(at))).expect("more than one key");
        }
        start = end;
    }
}

/// The distance of a key from the one before.
fn gap<K: KeyWord>(keys: &[K], at: usize) -> K {
    keys[at].wrapping_sub(keys[at - 1])
}

/// Where a part of all keys begins that is to begin at `wanted`: where the gap is large, but not far off. Nodes above can
/// tell keys apart only if they are not too close.
pub(crate) fn boundary<K: KeyWord>(keys: &[K], wanted: usize, reach: usize) -> usize {
    let candidates = wanted - reach..=(wanted + reach).min(keys.len() - 1);
    let merit = |at: usize| 4 * i64::from(gap(keys, at).significant_bits() - 1) - wanted.abs_diff(at) as i64;
    candidates.max_by_key(|&at| (merit(at), core::cmp::Reverse(at))).unwrap_or(wanted)
}
