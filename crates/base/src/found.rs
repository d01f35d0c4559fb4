//! Joins whose probes have one match at most, from what each probe found.

use crate::parallel::*;
use crate::room::with_room;
use crate::uninit::{Uninit, Written, append};
use crate::{Join, JoinKind, JoinRows, Matches, Result, Validity, no_row};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};
use lanetree_layout::Value;

/// Probes of a task of the CPU's: enough to outweigh its dispatch, and whole words of a mask.
const TASK: usize = 1 << 15;

/// Probes that are answered at a time.
const BLOCK: usize = 1 << 12;

/// What each probe of a join found. New memory takes longer than all else, so rows stay where they were found if each probe has one.
pub struct Found<R> {
    rows: Vec<R>,
    hits: Hits,
}

/// Which probes have a match: a mask, into which several threads write at once.
pub struct Hits {
    words: Vec<AtomicU32>,
    probes: usize,
}

impl Hits {
    fn new(probes: usize) -> Result<Self> {
        let mut words = with_room(probes.div_ceil(32))?;
        words.resize_with(probes.div_ceil(32), AtomicU32::default);
        Ok(Self { words, probes })
    }

    /// Adds those of some probes, `first` being the first of them. Bits past the last one are not looked at. Each probe is written
    /// once.
    pub fn put(&self, first: usize, probes: usize, mask: &[u32]) {
        let or = |word: usize, bits: u32| {
            if bits != 0 {
                self.words[word].fetch_or(bits, Ordering::Relaxed);
            }
        };
        for (at, &bits) in (0..probes).step_by(32).zip(mask) {
            let bits = bits & low_bits(probes - at);
            let (word, shift) = ((first + at) / 32, (first + at) % 32);
            or(word, bits << shift);
            or(word + 1, if shift > 0 { bits >> (32 - shift) } else { 0 });
        }
    }
}

/// As many of the lowest bits of a word, if it has so many.
fn low_bits(count: usize) -> u32 {
    if count < 32 { (1 << count) - 1 } else { u32::MAX }
}

impl<R: Value> Found<R> {
    /// What `find` finds: it writes the row of each probe, [`no_row`] if there is none, and which have one. `old` is memory for the rows.
    ///
    /// # Errors
    /// Of `find`; [`Error::Runtime`](crate::Error::Runtime) if main memory has no room.
    pub fn new(
        probes: usize,
        old: Vec<R>,
        find: impl for<'a> FnOnce(Uninit<'a, R>, &Hits) -> Result<Written<'a>>,
    ) -> Result<Self> {
        // One more, since offsets may take their place.
        let (mut rows, hits) = (emptied(old, probes + 1)?, Hits::new(probes)?);
        append(&mut rows, probes, |out| find(out, &hits))?;
        Ok(Self { rows, hits })
    }

    /// The same where no rows are wanted.
    ///
    /// # Errors
    /// As [`Found::new`].
    pub fn without_rows(probes: usize, find: impl FnOnce(&Hits) -> Result<()>) -> Result<Self> {
        let hits = Hits::new(probes)?;
        find(&hits)?;
        Ok(Self { rows: Vec::new(), hits })
    }

    /// What threads find that have some probes each: `find` gets their numbers, and calls its second argument with the place
    /// among them and the row of each one that has a match.
    ///
    /// # Errors
    /// As [`Found::new`].
    pub fn in_tasks(
        probes: usize,
        old: Vec<R>,
        find: impl Fn(Range<usize>, &mut dyn FnMut(usize, R)) + Sync,
    ) -> Result<Self> {
        let (mut rows, hits) = (emptied(old, probes + 1)?, Hits::new(probes)?);
        in_tasks(&mut rows, &lengths(probes), |task, mut out| {
            let (mut first, mut written) = (task * TASK, Written::default());
            while !out.is_empty() {
                let own = out.take_first(out.len().min(BLOCK));
                let (count, mut rows, mut mask) = (own.len(), [no_row(); BLOCK], [0_u32; BLOCK / 32]);
                find(first..first + count, &mut |i, row| {
                    rows[i] = row;
                    mask[i / 32] |= 1 << (i % 32);
                });
                hits.put(first, count, &mask);
                written = written.and(own.copy(&rows[..count]));
                first += count;
            }
            written
        })?;
        Ok(Self { rows, hits })
    }

    /// The probes that a join keeps, and the row of each probe, if it has rows.
    fn kept(mut self, join: &Join<'_>) -> Result<(Kept, Vec<R>)> {
        if let Some(validity) = join.validity() {
            self.drop_nulls(validity)?;
        }
        let rows = if join.kind().has_rows() { self.rows } else { Vec::new() };
        Ok((Kept::new(self.hits, join.kind()), rows))
    }

    /// Leaves probes that are null without a match.
    fn drop_nulls(&mut self, validity: Validity<'_>) -> Result<()> {
        validity.check(self.hits.probes)?;
        for (word, first) in self.hits.words.iter_mut().zip((0..).step_by(32)) {
            let nulls = !validity.word(first) & low_bits(self.hits.probes - first);
            *word.get_mut() &= !nulls;
            if !self.rows.is_empty() {
                numbers_of(&[nulls], first).for_each(|null| self.rows[null] = no_row());
            }
        }
        Ok(())
    }
}

/// The probes that a join keeps, which have a row each.
struct Kept {
    probes: usize,
    /// A bit for each probe.
    words: Vec<u32>,
    /// Of the probes of each task, and of all tasks before it.
    counts: Vec<usize>,
    before: Vec<u64>,
}

impl Kept {
    fn new(hits: Hits, kind: JoinKind) -> Self {
        let Hits { words, probes } = hits;
        let of_word = |(hits, first): (AtomicU32, usize)| {
            let kept = match kind {
                JoinKind::Inner | JoinKind::Semi => hits.into_inner(),
                JoinKind::Left => u32::MAX,
                JoinKind::Anti => !hits.into_inner(),
            };
            kept & low_bits(probes - first)
        };
        let words: Vec<u32> = words.into_iter().zip((0..).step_by(32)).map(of_word).collect();
        let ones = |words: &[u32]| words.iter().map(|word| word.count_ones() as usize).sum();
        let counts: Vec<usize> = words.chunks(TASK / 32).map(ones).collect();
        let before = counts.iter().scan(0, |end, &count| Some(core::mem::replace(end, *end + count as u64)));
        Self { probes, before: before.collect(), words, counts }
    }

    fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// The bits of a task's probes.
    fn of_task(&self, task: usize) -> &[u32] {
        &self.words[task * (TASK / 32)..self.words.len().min((task + 1) * (TASK / 32))]
    }

    /// Where the rows of each probe begin, and where the last one's end, in old memory.
    fn offsets(&self, old: Vec<u64>) -> Result<Vec<u64>> {
        let mut offsets = emptied(old, self.probes + 1)?;
        offsets.push(0);
        in_tasks(&mut offsets, &lengths(self.probes), |task, out| {
            let mut end = self.before[task];
            if self.counts[task] == out.len() {
                return out.fill(|i| end + i as u64 + 1);
            }
            out.fill_bits(self.of_task(task), |is_kept| {
                end += u64::from(is_kept);
                end
            })
        })?;
        Ok(offsets)
    }

    /// What a function makes of the number of each probe that is kept, in old memory.
    fn each<T: Send>(&self, old: Vec<T>, make: impl Fn(usize) -> T + Sync) -> Result<Vec<T>> {
        let mut all = emptied(old, self.total())?;
        in_tasks(&mut all, &self.counts, |task, out| {
            if self.counts[task] == TASK {
                return out.fill(|i| make(task * TASK + i));
            }
            let mut kept = numbers_of(self.of_task(task), task * TASK);
            out.fill(|_| make(kept.next().expect("as many as were counted")))
        })?;
        Ok(all)
    }
}

impl<R: Value> JoinRows<R> {
    /// The rows of a join of any kind whose probes have one match at most.
    ///
    /// # Errors
    /// [`Error::OutputLength`](crate::Error::OutputLength) unless the validity has one bit per probe;
    /// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for them.
    #[doc(hidden)]
    pub fn of_found(found: Found<R>, join: &Join<'_>) -> Result<Self> {
        let (kept, mut rows) = found.kept(join)?;
        if rows.len() > kept.total() {
            rows = kept.each(Vec::new(), |i| rows[i])?;
        }
        Ok(Self { offsets: kept.offsets(Vec::new())?, rows })
    }
}

impl Matches {
    /// The matches of a join of any kind, in the memory of others but for their rows, which is that of the rows that were found.
    ///
    /// # Errors
    /// As [`JoinRows::of_found`].
    #[doc(hidden)]
    pub fn of_found(found: Found<u64>, join: &Join<'_>, old: Self) -> Result<Self> {
        let (kept, rows) = found.kept(join)?;
        let probes = kept.each(old.probes, |i| i as u64)?;
        if rows.len() > kept.total() {
            // Two arrays change places, so that there are no more than the results have.
            let moved = kept.each(old.offsets, |i| rows[i])?;
            return Ok(Self { offsets: kept.offsets(rows)?, probes, rows: moved });
        }
        Ok(Self { offsets: kept.offsets(old.offsets)?, probes, rows })
    }
}

/// An empty vector with room, in the memory of an old one if that has it.
fn emptied<T>(mut old: Vec<T>, len: usize) -> Result<Vec<T>> {
    if old.capacity() < len {
        // First, since both may be large.
        drop(core::mem::take(&mut old));
        return with_room(len);
    }
    old.clear();
    Ok(old)
}

/// How many probes each task has.
fn lengths(probes: usize) -> Vec<usize> {
    (0..probes).step_by(TASK).map(|first| TASK.min(probes - first)).collect()
}

/// Appends what each task writes, of which there are so many elements.
fn in_tasks<T: Send>(
    to: &mut Vec<T>,
    lengths: &[usize],
    write: impl for<'a> Fn(usize, Uninit<'a, T>) -> Written<'a> + Sync,
) -> Result<()> {
    append(to, lengths.iter().sum(), |mut out| {
        let parts: Vec<_> = lengths.iter().map(|&length| out.take_first(length)).collect();
        let written = parts.into_par_iter().enumerate().map(|(task, out)| write(task, out));
        Ok(written.reduce(Written::default, Written::and))
    })
}

/// The numbers of the bits that are set, the first bit's being `first`.
fn numbers_of(words: &[u32], first: usize) -> impl Iterator<Item = usize> {
    words.iter().zip((first..).step_by(32)).flat_map(|(&word, first)| {
        let mut left = word;
        core::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (bit < 32).then_some(first + bit as usize)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::out_of_memory;

    /// The row of a probe of the tests, if it has one.
    fn row(probe: usize, each: usize) -> Option<u64> {
        (each > 0 && probe % each != 1).then_some((probe * 7 % 1000) as u64)
    }

    fn found(probes: usize, each: usize, old: Vec<u64>) -> Found<u64> {
        let found = Found::in_tasks(probes, old, |task, found| {
            task.enumerate().for_each(|(i, probe)| row(probe, each).into_iter().for_each(|row| found(i, row)));
        });
        found.unwrap()
    }

    /// Rows of a join, from its definition.
    fn expected(probes: usize, each: usize, join: &Join<'_>) -> Vec<(u64, Option<u64>)> {
        let rows = (0..probes).map(|probe| {
            let is_valid = join.validity().is_none_or(|validity| validity.is_valid(probe));
            (probe as u64, row(probe, each).filter(|_| is_valid))
        });
        rows.filter(|(_, row)| join.kind().rows(u64::from(row.is_some())) > 0).collect()
    }

    #[test]
    fn rows_of_joins_of_all_kinds() {
        let bytes: Vec<u8> = (0..TASK / 2).map(|i| (i * 37 / 4) as u8 | 1).collect();
        for probes in [0, 1, 5, 32, 33, TASK, TASK + 1, 3 * TASK + 17] {
            for (each, kind) in [0, 1, 2, 3, 1 << 20].into_iter().flat_map(|each| {
                [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti].map(|kind| (each, kind))
            }) {
                for validity in [None, Some(Validity::new(&bytes, 13, probes).unwrap())] {
                    let join = Join::new(kind).valid(validity);
                    let expected = expected(probes, each, &join);
                    let rows = || expected.iter().map(|row| row.1.unwrap_or(Matches::NO_ROW));
                    let what = format!("{probes} probes, one of {each} misses, {join:?}");
                    let one = Matches::of_found(found(probes, each, Vec::new()), &join, Matches::default()).unwrap();
                    assert!(one.probes.iter().copied().eq(expected.iter().map(|row| row.0)), "{what}");
                    assert!(!kind.has_rows() || one.rows.iter().copied().eq(rows()), "{what}");
                    assert_eq!(
                        (one.len(), one.rows.len()),
                        (expected.len(), if kind.has_rows() { one.len() } else { 0 })
                    );
                    let other = JoinRows::of_found(found(probes, each, vec![5; 7]), &join).unwrap();
                    assert_eq!((&other.offsets, &other.rows), (&one.offsets, &one.rows), "{what}");
                    assert_eq!(other.probes().unwrap(), one.probes, "{what}");
                }
            }
        }
        let join = Join::inner().valid(Validity::new(&bytes, 0, 6).unwrap());
        assert!(JoinRows::of_found(found(5, 2, Vec::new()), &join).is_err(), "a validity of other probes");
    }

    #[test]
    fn pieces_of_a_mask_begin_anywhere() {
        let mask = [0xFFFF_FFFF, 0x8000_0001, 0xFFFF_FFFF];
        for (first, probes) in [(0, 96), (1, 70), (31, 64), (33, 63), (5, 1)] {
            let hits = Hits::new(first + probes + 1).unwrap();
            hits.put(first, probes, &mask);
            let own = numbers_of(&mask, first).take_while(|&number| number < first + probes);
            assert!(numbers_of(&Kept::new(hits, JoinKind::Inner).words, 0).eq(own), "{probes} from {first}");
        }
    }

    #[test]
    fn memory_is_used_again_whatever_is_in_it() {
        let mut matches = Matches::of_rows(&[5; 100]).unwrap();
        matches.rows = vec![1; 101];
        let addresses = |matches: &Matches| {
            let mut all = [&matches.offsets, &matches.probes, &matches.rows].map(|vector| vector.as_ptr());
            all.sort();
            all
        };
        let before = addresses(&matches);
        for (probes, each) in [(3, 2), (0, 0), (40, 0), (99, 2), (99, 1 << 20), (99, 3)] {
            let old_rows = core::mem::take(&mut matches.rows);
            matches = Matches::of_found(found(probes, each, old_rows), &Join::inner(), matches).unwrap();
            assert!(
                matches.iter().eq(expected(probes, each, &Join::inner()).iter().map(|row| (row.0, row.1.unwrap())))
            );
            assert_eq!(addresses(&matches), before, "no new memory for {probes} probes");
        }
        assert!(Found::<u64>::new(9, Vec::new(), |_, _| Err(out_of_memory(8))).is_err());
    }
}
