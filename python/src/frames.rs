//! Joins of two tables that are asked once, without an index: both are read in order, and what is kept is a row per group.
//!
//! Rows are told by number. What the columns are, which rows have no key, and what becomes of the rows, the front end knows.

use crate::errors::{raise, value_error};
use crate::host::numpy;
use crate::input::Input;
use crate::types::{check_len, gather, zeroed};
use bytemuck::Pod;
use core::ops::Range;
use lanetree::bindings::TASK;
use lanetree::bindings::parallel::*;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::borrow::Cow;

/// The place of no row.
const NONE: u32 = u32::MAX;
/// Rows for which a slice of their own is worth it.
const SLICE: usize = 1 << 15;
/// Slices for each thread, so that those that end first have something to take over.
const SLICES: usize = 4;

/// What an as-of join is ordered by: times as integers, or numbers.
trait Time: Pod + PartialOrd + Send + Sync {
    /// How far two are apart.
    type Distance: Copy + PartialOrd + Send + Sync + for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>;

    /// A word in the same order, in which the two zeros are one.
    fn word(self) -> u64;
    /// How far one is above another that is not above it.
    fn above(self, lower: Self) -> Self::Distance;
}

macro_rules! time {
    ($($type:ty: $distance:ty, $it:ident, $lower:ident => $word:expr, $above:expr;)*) => {$(
        impl Time for $type {
            type Distance = $distance;

            fn word(self) -> u64 {
                let $it = self;
                $word
            }
            fn above(self, $lower: Self) -> $distance {
                let $it = self;
                $above
            }
        }
    )*};
}
time! {
    i64: u64, it, lower => it.cast_unsigned() ^ 1 << 63, it.wrapping_sub(lower).cast_unsigned();
    u64: u64, it, lower => it, it - lower;
    f32: f32, it, lower => f64::from(it).word(), it - lower;
    f64: f64, it, lower => match (it + 0.0).to_bits() {
        bits if bits >> 63 == 1 => !bits,
        bits => bits | 1 << 63,
    }, it - lower;
}

/// A table in ascending order of time.
struct Side<'a, T: Clone> {
    times: Cow<'a, [T]>,
    /// The group of each row; nothing if all are in one.
    groups: Cow<'a, [u32]>,
    /// The number of each row in the table as it was given, unless it was in order.
    rows: Option<Vec<u32>>,
}

impl<'a, T: Time> Side<'a, T> {
    fn new(groups: &'a [u32], times: &'a [T]) -> PyResult<Self> {
        if is_sorted(times) {
            return Ok(Self { times: times.into(), groups: groups.into(), rows: None });
        }
        let mut pairs = gather(times.len(), times.iter().map(|time| time.word()).zip(0_u32..))?;
        sort_by_first(&mut pairs).map_err(raise)?;
        Ok(Self {
            times: taken(times, &pairs)?.into(),
            groups: if groups.is_empty() { groups.into() } else { taken(groups, &pairs)?.into() },
            rows: Some(gather(pairs.len(), pairs.iter().map(|pair| pair.1))?),
        })
    }

    fn len(&self) -> usize {
        self.times.len()
    }

    fn group(&self, at: usize) -> usize {
        self.groups.get(at).map_or(0, |&group| group as usize)
    }

    /// The number of the row at a place, in the table as it was given.
    fn row(&self, at: usize) -> usize {
        self.rows.as_ref().map_or(at, |rows| rows[at] as usize)
    }
}

/// Whether elements ascend. Within a task all are compared, which the compiler does several at a time.
fn is_sorted<T: Time>(times: &[T]) -> bool {
    (0..times.len().div_ceil(TASK)).into_par_iter().all(|task| {
        let part = &times[task * TASK..times.len().min((task + 1) * TASK + 1)];
        part.iter().zip(&part[1..]).fold(true, |ascends, (a, b)| ascends & (a <= b))
    })
}

/// Elements in the order of sorted pairs.
fn taken<T: Pod + Send + Sync>(elements: &[T], pairs: &[(u64, u32)]) -> PyResult<Vec<T>> {
    let mut made = zeroed(pairs.len())?;
    made.par_iter_mut().zip(pairs).with_min_len(TASK).for_each(|(to, pair)| *to = elements[pair.1 as usize]);
    Ok(made)
}

/// Two tables, walked in ascending order of time, or in descending order if what is looked for is later.
///
/// `STRICT`: equal times do not match.
struct Walk<'a, T: Time, const FORWARD: bool, const STRICT: bool> {
    left: &'a Side<'a, T>,
    right: &'a Side<'a, T>,
    groups: usize,
}

/// A part of the walk: steps through the left side, where what they find goes, and steps through the right side.
struct Slice<'f> {
    left: Range<usize>,
    found: &'f mut [u32],
    right: Range<usize>,
}

/// What a slice knows when it has ended: the last right row of each group, and the steps whose group had none before them.
struct Walked {
    last: Vec<u32>,
    open: Vec<usize>,
}

impl<'a, T: Time, const FORWARD: bool, const STRICT: bool> Walk<'a, T, FORWARD, STRICT> {
    fn new((left, right): (&'a Side<'a, T>, &'a Side<'a, T>), groups: usize) -> Self {
        Self { left, right, groups }
    }

    /// The place of a step through a side.
    fn place(&self, len: usize, step: usize) -> usize {
        if FORWARD { len - 1 - step } else { step }
    }

    fn time(&self, side: &Side<'_, T>, step: usize) -> T {
        side.times[self.place(side.len(), step)]
    }

    /// Whether a row of the right side may be what a row of the left one looks for.
    fn is_before(&self, right: T, left: T) -> bool {
        match (FORWARD, STRICT) {
            (false, false) => right <= left,
            (false, true) => right < left,
            (true, false) => right >= left,
            (true, true) => right > left,
        }
    }

    /// For each step through the left side, the place of what it finds on the right side.
    fn run(&self) -> PyResult<Vec<u32>> {
        let mut found = zeroed::<u32>(self.left.len())?;
        // Each slice has a table of all groups, and groups that a slice begins with cost it a look-up.
        let rows = self.left.len() + self.right.len();
        let count = match rows / (SLICE + 8 * self.groups) {
            0 | 1 => 1,
            most => most.min(SLICES * threads()),
        };
        let (mut slices, mut start, mut rest) = (gather(0, [].into_iter())?, (0, 0), &mut *found);
        for end in (1..=count).map(|cut| self.cut(cut, count)) {
            let (own, others) = rest.split_at_mut(end.0 - start.0);
            slices.push(Slice { left: start.0..end.0, found: own, right: start.1..end.1 });
            (start, rest) = (end, others);
        }
        let walked = slices.into_par_iter().map(|slice| self.slice(slice)).collect();
        let mut last = vec![NONE; self.groups];
        for walked in walked {
            let walked = walked?;
            for step in walked.open {
                found[step] = last[self.left.group(self.place(self.left.len(), step))];
            }
            last.iter_mut().zip(walked.last).filter(|(_, new)| *new != NONE).for_each(|(last, new)| *last = new);
        }
        Ok(found)
    }

    /// Where a slice ends on both sides. The larger side is cut evenly.
    fn cut(&self, cut: usize, count: usize) -> (usize, usize) {
        let (left, right) = (self.left.len(), self.right.len());
        if cut == count {
            (left, right)
        } else if left >= right {
            let step = left / count * cut;
            let time = self.time(self.left, step);
            (step, partition_point(right, |step| self.is_before(self.time(self.right, step), time)))
        } else {
            let step = right / count * cut;
            let time = self.time(self.right, step);
            (partition_point(left, |step| !self.is_before(time, self.time(self.left, step))), step)
        }
    }

    /// Walks a slice. Of times in random order which side has the next step is random, too: nothing branches on that.
    fn slice(&self, Slice { left, found, right }: Slice<'_>) -> PyResult<Walked> {
        let mut last = zeroed::<u32>(self.groups)?;
        last.fill(NONE);
        let (start, mut step, mut next) = (left.start, left.start, right.start);
        let (left_len, right_len) = (self.left.len(), self.right.len());
        while step < left.end && next < right.end {
            let (place, other) = (self.place(left_len, step), self.place(right_len, next));
            let is_right = self.is_before(self.right.times[other], self.left.times[place]);
            let groups = [self.left.group(place), self.right.group(other)];
            let last = &mut last[groups[usize::from(is_right)]];
            // What a step through the right side writes here, the next step through the left side overwrites.
            found[step - start] = *last;
            *last = if is_right { other as u32 } else { *last };
            step += usize::from(!is_right);
            next += usize::from(is_right);
        }
        for step in step..left.end {
            found[step - start] = last[self.left.group(self.place(left_len, step))];
        }
        for next in next..right.end {
            let place = self.place(right_len, next);
            last[self.right.group(place)] = place as u32;
        }
        let nones = found.iter().enumerate().filter(|(_, found)| **found == NONE);
        Ok(Walked { last, open: nones.map(|(at, _)| start + at).collect() })
    }
}

/// The first number below `len` for which a condition is false, which is true for all before it and for none after it.
fn partition_point(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Groups and times of a table; no groups if all rows are in one.
type Table = (Option<Input>, Input);

/// The row of the right table that each row of the left one finds, and -1 where it finds none.
///
/// `key` is the type of times: "i64", "u64", "f32" or "f64", none of which is a NaN. Groups are uint32, below `groups`. `direction` is
/// "backward", "forward" or "nearest", with pandas' rules for rows of equal time.
#[pyfunction]
#[pyo3(signature = (key, left, right, groups, direction, is_strict, tolerance))]
#[expect(clippy::too_many_arguments, reason = "called by the front end alone")]
pub(crate) fn asof_rows(
    py: Python<'_>,
    key: &str,
    left: Table,
    right: Table,
    groups: usize,
    direction: &str,
    is_strict: bool,
    tolerance: Option<Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let how = (direction, is_strict, tolerance);
    let rows = match key {
        "i64" => asof_of::<i64>(py, &left, &right, groups, how),
        "u64" => asof_of::<u64>(py, &left, &right, groups, how),
        "f32" => asof_of::<f32>(py, &left, &right, groups, how),
        "f64" => asof_of::<f64>(py, &left, &right, groups, how),
        _ => Err(PyTypeError::new_err(format!("no as-of join by {key}"))),
    };
    Ok(numpy(py, rows?))
}

fn asof_of<T: Time>(
    py: Python<'_>,
    left: &Table,
    right: &Table,
    groups: usize,
    (direction, is_strict, tolerance): (&str, bool, Option<Bound<'_, PyAny>>),
) -> PyResult<Vec<i64>> {
    let tolerance = tolerance.map(|tolerance| tolerance.extract::<T::Distance>()).transpose()?;
    let (left, right) = (read::<T>(left)?, read::<T>(right)?);
    py.detach(|| {
        for (codes, times) in [left, right] {
            check_table(codes, times.len(), groups)?;
        }
        let (of_left, of_right) = (|| Side::new(left.0, left.1), || Side::new(right.0, right.1));
        // To wake a thread for one of two small tables takes longer than to read both.
        let is_small = left.1.len() + right.1.len() <= TASK;
        let (left, right) = if is_small { (of_left(), of_right()) } else { join(of_left, of_right) };
        let (left, right) = (left?, right?);
        let sides = (&left, &right);
        let walk = |is_forward| match (is_forward, is_strict) {
            (false, false) => Walk::<T, false, false>::new(sides, groups).run(),
            (false, true) => Walk::<T, false, true>::new(sides, groups).run(),
            (true, false) => Walk::<T, true, false>::new(sides, groups).run(),
            (true, true) => Walk::<T, true, true>::new(sides, groups).run(),
        };
        let backward = (direction != "forward").then(|| walk(false)).transpose()?;
        let forward = (direction != "backward").then(|| walk(true)).transpose()?;
        let count = left.len();
        let row = |place: u32| if place == NONE { -1 } else { right.row(place as usize) as i64 };
        let near = |at: usize| {
            let time = left.times[at];
            let of = |found: &Option<Vec<u32>>, step: usize| {
                let place = found.as_ref().map_or(NONE, |found| found[step]);
                let there = right.times.get(place as usize)?;
                let distance = if *there <= time { time.above(*there) } else { there.above(time) };
                // Not "at most": the distance of infinities is a NaN, which pandas takes.
                (!tolerance.is_some_and(|most| distance > most)).then_some((place, distance))
            };
            match (of(&backward, at), of(&forward, count - 1 - at)) {
                (Some(back), Some(ahead)) => Some(if back.1 <= ahead.1 { back.0 } else { ahead.0 }),
                (back, ahead) => back.or(ahead).map(|near| near.0),
            }
            .map_or(-1, row)
        };
        let mut made = zeroed::<i64>(count)?;
        match (&backward, &forward) {
            // Nothing is measured.
            (Some(found), None) if tolerance.is_none() => {
                made.par_iter_mut().zip(found).with_min_len(TASK).for_each(|(made, &place)| *made = row(place));
            }
            _ => made.par_iter_mut().enumerate().with_min_len(TASK).for_each(|(at, made)| *made = near(at)),
        }
        let Some(rows) = &left.rows else { return Ok(made) };
        let mut given = zeroed(count)?;
        rows.iter().zip(made).for_each(|(&row, found)| given[row as usize] = found);
        Ok(given)
    })
}

fn read<T: Pod>((groups, times): &Table) -> PyResult<(&[u32], &[T])> {
    let groups = groups.as_ref().map_or(Ok(&[][..]), |groups| groups.get().host())?;
    Ok((groups, times.get().host()?))
}

/// An error unless a table has fewer rows than places are told by, and a group for each, unless there are none.
fn check_table(codes: &[u32], rows: usize, groups: usize) -> PyResult<()> {
    if rows >= NONE as usize {
        return Err(value_error(format!("a table of {rows} rows: joins take fewer than {NONE}")));
    }
    if codes.is_empty() {
        return if groups == 1 || rows == 0 { Ok(()) } else { Err(value_error("no groups")) };
    }
    check_len(rows, codes.len())?;
    match codes.par_chunks(TASK).map(|codes| codes.iter().copied().max()).max().flatten() {
        Some(most) if most as usize >= groups => {
            Err(value_error(format!("the group {most}, where there are {groups}")))
        }
        _ => Ok(()),
    }
}

/// The rows of a join by equal codes: numbers of rows of the left table, in order, and of each the rows of the right table with the
/// same code, in order. With `keeps_left`, a left row without any is there once, with -1.
#[pyfunction]
#[pyo3(signature = (left, right, codes, keeps_left))]
pub(crate) fn equal_rows(
    py: Python<'_>,
    left: Input,
    right: Input,
    codes: usize,
    keeps_left: bool,
) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
    let (left, right) = (left.get().host::<u32>()?, right.get().host::<u32>()?);
    let (left, right) = py.detach(|| {
        check_table(left, left.len(), codes)?;
        check_table(right, right.len(), codes)?;
        // The right rows by code: those of code `i` are `starts[i]..starts[i + 1]`.
        let mut starts = zeroed::<u32>(codes + 1)?;
        right.iter().for_each(|&code| starts[code as usize + 1] += 1);
        (0..codes).for_each(|code| starts[code + 1] += starts[code]);
        let (mut next, mut rows) = (gather(codes, starts.iter().copied())?, zeroed::<u32>(right.len())?);
        for (row, &code) in (0_u32..).zip(right) {
            rows[next[code as usize] as usize] = row;
            next[code as usize] += 1;
        }
        let of = |code: u32| &rows[starts[code as usize] as usize..starts[code as usize + 1] as usize];
        let room = |code: u32| of(code).len().max(usize::from(keeps_left));
        let counts = left.par_chunks(SLICE).map(|codes| codes.iter().map(|&code| room(code)).sum::<usize>()).collect();
        let total = counts.iter().sum();
        let (mut lefts, mut rights) = (zeroed::<i64>(total)?, zeroed::<i64>(total)?);
        let (mut tasks, mut rest) = (gather(0, [].into_iter())?, (&mut *lefts, &mut *rights));
        for (number, (codes, count)) in left.chunks(SLICE).zip(counts).enumerate() {
            let (own, others) = (rest.0.split_at_mut(count), rest.1.split_at_mut(count));
            tasks.push((number * SLICE, codes, own.0, others.0));
            rest = (own.1, others.1);
        }
        tasks.into_par_iter().for_each(|(first, codes, lefts, rights)| {
            let mut to = lefts.iter_mut().zip(rights);
            for (row, &code) in (first as i64..).zip(codes) {
                let found = of(code);
                for right in
                    found.iter().map(|&row| i64::from(row)).chain((found.is_empty() && keeps_left).then_some(-1))
                {
                    if let Some(to) = to.next() {
                        (*to.0, *to.1) = (row, right);
                    }
                }
            }
        });
        Ok::<_, PyErr>((lefts, rights))
    })?;
    Ok((numpy(py, left), numpy(py, right)))
}
