//! Nodes of the lowest level over pairs in main memory: where buckets begin, and how the node knows.

use core::marker::PhantomData;
use core::ops::Range;
use lanetree_kernels_lane_tree::MOST_REACH;
use lanetree_kernels_lane_tree::layout::{
    BITMAP_CHILDREN, BUCKET_WORDS, FIRST_CHILD, Format, HALVES_CHILDREN, MOST_PLANES, MOST_SLOTS, NODE_WORDS, OfChunk,
    QUANTISER, Quantiser, Record, SEPARATORS, SHIFTS, UNUSED_HALF, bucket_at, bucket_slots, chunk_at, chunk_of,
    chunk_slots, exact_children, has_values_beside, pairs_of, planes, spare_buckets, value_at, words_of_buckets,
};
use lanetree_layout::{KeyWord, Value};
use lanetree_runtime::prefetch;

/// How many pairs buckets and nodes are to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    /// Pairs of a bucket, in units of 1/256.
    pub(crate) bucket: u32,
    /// Pairs of a node.
    pub(crate) node: usize,
    /// Slots of a bucket.
    slots: usize,
}

impl Filling {
    /// That of a tree whose buckets are to be filled to a part of their slots.
    pub(crate) fn new<K: KeyWord, V: Value>(fill: f64) -> Self {
        let slots = bucket_slots::<K, V>();
        let bucket = ((f64::from(slots) * fill * 256.0) as u32).max(256);
        // In a bitmap of 448 cells, 208 keys need few enough buckets that are not full: 94 % of the slots are used.
        let full = if slots == 4 { 208 } else { 400 };
        let node = (full * bucket / (slots * 256)) as usize;
        Self { bucket, node, slots: slots as usize }
    }

    /// The same with other buckets: pairs of one, in units of 1/256.
    pub(crate) fn with_bucket(self, bucket: u32) -> Self {
        Self { bucket: bucket.clamp(256, self.slots as u32 * 256), ..self }
    }

    /// Buckets to reserve after so many, for nodes that need others: a tree that is not full has one in 16.
    pub(crate) fn reserved(self, buckets: u32) -> u32 {
        if self.is_full() { 0 } else { buckets / 16 }
    }

    /// Whether buckets are to be filled whole.
    pub(crate) fn is_full(self) -> bool {
        self.bucket as usize == self.slots * 256
    }

    /// The number of parts of `len` pairs, each of which is made into nodes by itself, nearly always into one.
    pub(crate) fn parts(self, len: usize) -> usize {
        (len / self.node).max(1)
    }

    /// How far a part's boundary may be from where it would be if all were equal.
    pub(crate) fn reach(self) -> usize {
        (self.node / 4).min(MOST_REACH as usize)
    }

    /// Where a bucket that begins with a pair is to end: full, or at the next of equal distances, but for one that is not half a
    /// bucket away. So a bucket that had to end early makes the next one longer, not shorter.
    fn end_of_bucket(self, start: usize) -> usize {
        let (bucket, slots) = (self.bucket as usize, self.slots);
        if self.is_full() {
            return start + slots;
        }
        let distances = (start * 256 + 255) / bucket + 1;
        let next = (distances * bucket) >> 8;
        let end = if next - start <= bucket >> 9 { ((distances + 1) * bucket) >> 8 } else { next };
        end.min(start + slots)
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
    /// A plan for one node of at most `most` buckets with all the keys; `None` if they need more. Its buckets are filled by the
    /// first filling that takes no more of them.
    pub(crate) fn of<K: KeyWord>(keys: &[K], fillings: &[Filling], most: usize) -> Option<Self> {
        let (&first, &last) = (keys.first()?, keys.last()?);
        let (slots, is_full) = (fillings[0].slots, fillings.last()?.is_full());
        let plan = |quantiser: Quantiser| {
            let children = match quantiser.format() {
                Format::Bitmap => BITMAP_CHILDREN,
                Format::Halves => HALVES_CHILDREN,
                Format::Exact => exact_children::<K>(),
            } as usize;
            let most = most.min(children);
            let begins = |at: usize| {
                quantiser == Quantiser::EXACT || quantiser.quantise(keys[at]) != quantiser.quantise(keys[at - 1])
            };
            let mut cuts = fillings.iter().map(|&filling| match keys.len() > most * slots {
                true => Cut::TooMany,
                false => cut(keys.len(), filling, most, begins),
            });
            cuts.find(|cut| !matches!(cut, Cut::TooMany)).map_or(Err(Cut::TooMany), |cut| match cut {
                Cut::Into(starts) => Ok(Self { quantiser, starts }),
                failed => Err(failed),
            })
        };
        let (mut shift, mut ways) = (0, 1);
        while shift < ways {
            let bitmap = Quantiser::bitmap(first, last, shift);
            match plan(bitmap) {
                Ok(plan) => return Some(plan),
                // Cells that lie elsewhere would take as many.
                Err(Cut::TooMany) if is_full => break,
                // If keys of which one more than a bucket has slots are too close for all bitmaps, one is enough to fail.
                Err(_) if shift == 0 => {
                    let mut near = keys.windows(slots + 1);
                    ways = if near.all(|keys| bitmap.may_part(keys[0], keys[slots])) { SHIFTS } else { 1 };
                }
                Err(_) => {}
            }
            shift += 1;
        }
        [Quantiser::halves(first, last), Quantiser::EXACT].into_iter().find_map(|quantiser| plan(quantiser).ok())
    }

    /// The node's buckets, with those that a build gives it beyond them.
    pub(crate) fn buckets_with_spare(&self, filling: Filling) -> u32 {
        let buckets = self.starts.len() as u32;
        buckets + spare_buckets(filling.is_full(), buckets)
    }

    /// Writes the node, whose first pair has this rank, and its buckets, of which the last ones may be free. Returns its record.
    ///
    /// # Safety
    /// Nobody else accesses these buckets meanwhile.
    pub(crate) unsafe fn write<K: KeyWord, V: Value>(
        &self,
        keys: &[K],
        values: &[V],
        rank: u64,
        own: Range<u32>,
        to: &mut [u32],
        buckets: &Buckets<'_>,
    ) -> Record<K> {
        let firsts = self.starts[1..].iter().map(|&start| keys[start]);
        to.copy_from_slice(&node(self.quantiser, own.start, firsts));
        let mut record = Record { first: keys[0], rank, planes: [0; MOST_PLANES] };
        let first = own.start;
        // SAFETY: the caller's.
        unsafe {
            buckets.write_all(keys, values, &self.starts, own, |number, len| {
                put_len::<K, V>(&mut record, (number - first) as usize, len);
            });
        }
        record
    }
}

/// Notes in a node's record that a bucket has so many pairs.
pub(crate) fn put_len<K: KeyWord, V: Value>(record: &mut Record<K>, bucket: usize, len: usize) {
    for (bit, plane) in record.planes.iter_mut().enumerate().take(planes::<K, V>() as usize) {
        *plane = *plane & !(1 << bucket) | ((len as u64 - 1) >> bit & 1) << bucket;
    }
}

/// The pairs in the slots of a bucket, of which a word, and a value that is beside keys, are where these functions say.
pub(crate) fn slots_of<K: KeyWord, V: Value>(
    number: u32,
    word: impl Fn(usize) -> u64,
    beside: impl Fn(usize) -> V,
) -> ([K; MOST_SLOTS], [V; MOST_SLOTS]) {
    let (mut keys, mut values) = ([K::MIN; MOST_SLOTS], [V::default(); MOST_SLOTS]);
    let slots = chunk_slots::<K, V>() as usize;
    for slot in 0..bucket_slots::<K, V>() as usize {
        let at = bucket_at::<K, V>(number) as usize + slot / slots * 2;
        (keys[slot], values[slot]) = pairs_of([word(at), word(at + 1)])[slot % slots];
        if has_values_beside::<K, V>() {
            values[slot] = beside(value_at::<K, V>(number, slot as u32) as usize);
        }
    }
    (keys, values)
}

/// The buckets of a tree in main memory, each for one thread at a time.
pub(crate) struct Buckets<'a> {
    words: *mut u64,
    len: usize,
    borrow: PhantomData<&'a mut [u64]>,
}

// SAFETY: the words are borrowed mutably, and only the thread that has a bucket accesses it.
unsafe impl Sync for Buckets<'_> {}

impl<'a> Buckets<'a> {
    pub(crate) fn new(words: &'a mut [u64]) -> Self {
        Self { words: words.as_mut_ptr(), len: words.len(), borrow: PhantomData }
    }

    /// Has a bucket fetched.
    pub(crate) fn prefetch<K: KeyWord, V: Value>(&self, number: u32) {
        prefetch(self.words.wrapping_add(bucket_at::<K, V>(number) as usize).cast_const().cast());
    }

    /// The pairs in a bucket's slots.
    ///
    /// # Safety
    /// Nobody else writes the bucket meanwhile.
    pub(crate) unsafe fn read<K: KeyWord, V: Value>(&self, number: u32) -> ([K; MOST_SLOTS], [V; MOST_SLOTS]) {
        assert!(words_of_buckets::<K, V>(u64::from(number) + 1) <= self.len as u64, "bucket {number}");
        // SAFETY: of the bucket, which is within the words, as are its values; words are aligned for values.
        unsafe { slots_of(number, |at| self.words.add(at).read(), |at| self.words.cast::<V>().add(at).read()) }
    }

    /// Writes buckets with these pairs, at least one, of which each bucket has those from its start on; calls `noted` with the number and
    /// the length of each. There may be more buckets than starts: a free bucket repeats the last pair.
    ///
    /// # Safety
    /// Nobody else accesses the buckets meanwhile.
    pub(crate) unsafe fn write_all<K: KeyWord, V: Value>(
        &self,
        keys: &[K],
        values: &[V],
        starts: &[usize],
        numbers: Range<u32>,
        mut noted: impl FnMut(u32, usize),
    ) {
        for (bucket, number) in numbers.enumerate() {
            let end = starts.get(bucket + 1).copied().unwrap_or(keys.len());
            let pairs = starts.get(bucket).copied().unwrap_or(keys.len() - 1)..end;
            if bucket < starts.len() {
                noted(number, pairs.len());
            }
            // SAFETY: the caller's.
            unsafe { self.write(number, &keys[pairs.clone()], &values[pairs]) };
        }
    }

    /// Writes a bucket with these pairs, at least one. A free slot repeats the pair before it.
    ///
    /// # Safety
    /// Nobody else accesses the bucket meanwhile.
    pub(crate) unsafe fn write<K: KeyWord, V: Value>(&self, number: u32, keys: &[K], values: &[V]) {
        assert!(words_of_buckets::<K, V>(u64::from(number) + 1) <= self.len as u64, "bucket {number}");
        let (slots, last) = (chunk_slots::<K, V>(), keys.len() - 1);
        for chunk in 0..BUCKET_WORDS / 2 {
            let pairs: OfChunk<_> = core::array::from_fn(|i| {
                let at = ((chunk * slots) as usize + i.min(slots as usize - 1)).min(last);
                (keys[at], values[at])
            });
            let to = chunk_at::<K, V>(u64::from(number) * u64::from(BUCKET_WORDS / 2) + u64::from(chunk)) as usize;
            // SAFETY: of the bucket, which is within the words, as are its values; words are aligned for values.
            unsafe {
                self.words.add(to).cast::<[u64; 2]>().write(chunk_of(pairs));
                if has_values_beside::<K, V>() {
                    self.words.cast::<V>().add(value_at::<K, V>(number, chunk) as usize).write(pairs[0].1);
                }
            }
        }
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
                let cell = quantiser.quantise(first);
                separators[cell as usize / 32] |= 1 << (cell % 32);
            }
        }
        Format::Halves => {
            separators.fill(UNUSED_HALF | UNUSED_HALF << 16);
            for (i, first) in firsts.enumerate() {
                let (word, shift) = (&mut separators[i / 2], i % 2 * 16);
                *word = *word & !(0xffff << shift) | quantiser.quantise(first) << shift;
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

/// Has children of a bitmap, none of which is the first, begin in these cells: as many, or fewer if they are the last ones.
pub(crate) fn put_cells(node: &mut [u32], children: Range<usize>, cells: impl Iterator<Item = u32>) {
    let mut child = 1;
    for word in &mut node[..SEPARATORS as usize] {
        let mut bits = *word;
        while bits != 0 {
            let last = bits & bits.wrapping_neg();
            if children.contains(&child) {
                *word ^= last;
            }
            bits ^= last;
            child += 1;
        }
    }
    cells.for_each(|cell| node[cell as usize / 32] |= 1 << (cell % 32));
}

/// What comes of cutting pairs into buckets.
enum Cut {
    /// The first pair of each.
    Into(Vec<usize>),
    /// More than there may be.
    TooMany,
    /// Pairs, one more than a bucket has slots, between which none may begin.
    Crowded,
}

/// Cuts `len` pairs into at most `most` buckets, each as long as it is to be or, if it may not end there, as near as can be.
fn cut(len: usize, filling: Filling, most: usize, begins: impl Fn(usize) -> bool) -> Cut {
    let mut starts = Vec::with_capacity(most);
    let mut start = 0;
    while starts.len() < most {
        starts.push(start);
        let wanted = filling.end_of_bucket(start).min(len);
        let longest = (start + filling.slots).min(len);
        let may_end = |end: &usize| *end == len || begins(*end);
        let down = (start + 1..=wanted).rev().find(may_end);
        match down.or_else(|| (wanted + 1..=longest).find(may_end)) {
            Some(end) if end == len => return Cut::Into(starts),
            Some(end) => start = end,
            None => return Cut::Crowded,
        }
    }
    Cut::TooMany
}

/// Splits keys into as few nodes as go: calls `each` with the first key's position and a plan of each.
pub(crate) fn split<K: KeyWord>(keys: &[K], filling: Filling, mut each: impl FnMut(usize, usize, Plan)) {
    let mut start = 0;
    while start < keys.len() {
        let mut end = keys.len();
        loop {
            if let Some(plan) = Plan::of(&keys[start..end], &[filling], BITMAP_CHILDREN as usize) {
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
