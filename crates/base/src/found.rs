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

/// What each probe of a join found. New memory takes longer than all else, so rows stay where they were found if each probe is one.
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

    /// The probes that a join of this kind keeps.
    fn kept(self, kind: JoinKind) -> Vec<u32> {
        let of_word = |(hits, first): (AtomicU32, usize)| {
            let kept = match kind {
                JoinKind::Inner | JoinKind::Semi => hits.into_inner(),
                JoinKind::Left => u32::MAX,
                JoinKind::Anti => !hits.into_inner(),
            };
            kept & low_bits(self.probes - first)
        };
        self.words.into_iter().zip((0..).step_by(32)).map(of_word).collect()
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
        let (mut rows, hits) = (emptied(old, probes)?, Hits::new(probes)?);
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
        let (mut rows, hits) = (emptied(old, probes)?, Hits::new(probes)?);
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

    /// The offsets, the probes' numbers and the rows of a join. Numbers are made where there is memory of earlier ones.
    fn settled(
        mut self,
        join: &Join<'_>,
        old: Vec<u64>,
        numbers: Option<Vec<u64>>,
    ) -> Result<(Vec<u64>, Vec<u64>, Vec<R>)> {
        let (kind, probes) = (join.kind(), self.hits.probes);
        if let Some(validity) = join.validity() {
            self.drop_nulls(validity)?;
        }
        let kept = self.hits.kept(kind);
        let words: Vec<&[u32]> = kept.chunks(TASK / 32).collect();
        let counts: Vec<usize> = words.iter().map(|words| ones(words)).collect();
        let total: usize = counts.iter().sum();
        let before: Vec<u64> =
            counts.iter().scan(0, |end, &count| Some(core::mem::replace(end, *end + count as u64))).collect();
        let mut offsets = emptied(old, probes + 1)?;
        offsets.push(0);
        in_tasks(&mut offsets, &lengths(probes), |task, out| {
            let (mut end, none) = (before[task], vec![(); out.len()]);
            if counts[task] == out.len() {
                return out.fill(|i| end + i as u64 + 1);
            }
            out.fill_masked(words[task], (&none, &none), |is_kept, (), ()| {
                end += u64::from(is_kept);
                end
            })
        })?;
        let numbers = match numbers {
            Some(old) => {
                let mut numbers = emptied(old, total)?;
                in_tasks(&mut numbers, &counts, |task, out| {
                    let mut kept = numbers_of(words[task], task * TASK);
                    if counts[task] == TASK {
                        return out.fill(|i| (task * TASK + i) as u64);
                    }
                    out.fill(|_| kept.next().expect("as many as were counted") as u64)
                })?;
                numbers
            }
            None => Vec::new(),
        };
        if !kind.has_rows() {
            return Ok((offsets, numbers, Vec::new()));
        }
        if total == probes {
            return Ok((offsets, numbers, self.rows));
        }
        let mut rows = with_room(total)?;
        in_tasks(&mut rows, &counts, |task, out| {
            let mut kept = numbers_of(words[task], task * TASK);
            out.fill(|_| self.rows[kept.next().expect("as many as were counted")])
        })?;
        Ok((offsets, numbers, rows))
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

impl<R: Value> JoinRows<R> {
    /// The rows of a join of any kind whose probes have one match at most.
    ///
    /// # Errors
    /// [`Error::OutputLength`](crate::Error::OutputLength) unless the validity has one bit per probe;
    /// [`Error::Runtime`](crate::Error::Runtime) if main memory has no room for them.
    pub fn of_found(found: Found<R>, join: &Join<'_>) -> Result<Self> {
        let (offsets, _, rows) = found.settled(join, Vec::new(), None)?;
        Ok(Self { offsets, rows })
    }
}

impl Matches {
    /// The matches of a join of any kind, in the memory of others but for their rows.
    ///
    /// # Errors
    /// As [`JoinRows::of_found`].
    pub fn of_found(found: Found<u64>, join: &Join<'_>, old: Self) -> Result<Self> {
        let (offsets, probes, rows) = found.settled(join, old.offsets, Some(old.probes))?;
        Ok(Self { offsets, probes, rows })
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

fn ones(words: &[u32]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
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
            assert!(numbers_of(&hits.kept(JoinKind::Inner), 0).eq(own), "{probes} from {first}");
        }
    }

    #[test]
    fn memory_is_used_again_whatever_is_in_it() {
        let mut matches = Matches::of_rows(&[5; 100]).unwrap();
        matches.rows = vec![1; 3];
        let at = matches.offsets.as_ptr();
        for (probes, each) in [(3, 2), (0, 0), (40, 0), (99, 2)] {
            let old_rows = core::mem::take(&mut matches.rows);
            matches = Matches::of_found(found(probes, each, old_rows), &Join::inner(), matches).unwrap();
            assert!(
                matches.iter().eq(expected(probes, each, &Join::inner()).iter().map(|row| (row.0, row.1.unwrap())))
            );
            assert_eq!(matches.offsets.as_ptr(), at, "no new memory");
        }
        assert!(Found::<u64>::new(9, Vec::new(), |_, _| Err(out_of_memory(8))).is_err());
    }
}
