//! Inserts in place: the runs of values that a batch changes grow or move, and the tree of keys is told last. So as long as the
//! tree has not changed, nothing is read that was written.

use crate::contents::{Counted, offsets_of, read};
use crate::gather::over_outputs;
use crate::places::each;
use crate::{MOST_PAIRS, MultiMap};
use lanetree_frame::{Batch, Buffer, Result, Stream};
use lanetree_kernels_multimap::layout::{self, COUNT_BITS};
use lanetree_kernels_multimap::{CopyRunsArgs, PlaceRunsArgs, PlanRunsArgs, calls};
use lanetree_lane_tree::UpdateScratch;
use lanetree_layout::{AnyKey, Word};

/// What becomes of the runs of a batch's keys: for each the positions that it takes at a new place and the values that it takes
/// there, both 0 for a run that stays; and the first key that would have too many values.
struct Plan {
    needed: Buffer<u64>,
    moved: Buffer<u64>,
    too_many: Buffer<u64>,
}

impl<K: AnyKey, V: Word> MultiMap<K, V> {
    /// Inserts the `inserted` sorted values of a batch's distinct keys in place; false if there is no room.
    ///
    /// # Errors
    /// As [`MultiMap::insert_many`]; [`Error::Lost`](lanetree_frame::Error::Lost) if the device failed while the tree was written.
    pub(crate) fn insert_in_place(
        &mut self,
        stream: &Stream,
        batch: &Counted<K>,
        (values, inserted): (&Buffer<V>, u64),
    ) -> Result<bool> {
        let (device, rows, contents) = (stream.device(), batch.len, &mut self.contents);
        if contents.values.len() as u64 == contents.used {
            return Ok(false);
        }
        let mut keys = device.alloc(rows)?;
        keys.copy_from_buffer(stream, 0, &batch.keys, 0..rows)?;
        let mut old = device.alloc(rows)?;
        contents.keys.on(stream).miss(0).get(&keys, &mut old)?;
        let plan = plan_runs(stream, (&old, &batch.counts, rows), contents.dense, self.options.most)?;
        let added = offsets_of(stream, &batch.counts, rows)?;
        let offsets = offsets_of(stream, &plan.needed, rows)?;
        let moved = offsets_of(stream, &plan.moved, rows)?;
        let too_many = read(&plan.too_many, 0)? as usize;
        if too_many < rows {
            let values = layout::count(read(&old, too_many)?) + read(&batch.counts, too_many)?;
            return Err(batch.too_many(too_many, values, self.options.most)?);
        }
        let used = contents.used + read(&offsets, rows)?;
        if used > (contents.values.len() as u64).min(MOST_PAIRS) {
            return Ok(false);
        }
        let (places, ends) = place_runs(stream, (&old, &batch.counts, rows), &offsets, contents.used)?;
        let total = read(&moved, rows)?;
        let of_moved = Runs { begins: (&old, COUNT_BITS), offsets: &moved, to: (&places, COUNT_BITS), rows, total };
        copy_runs(stream, None, of_moved, (&mut contents.values, contents.used))?;
        let of_batch = Runs { begins: (&added, 0), offsets: &added, to: (&ends, 0), rows, total: inserted };
        copy_runs(stream, Some(values), of_batch, (&mut contents.values, contents.used))?;

        let mut scratch = UpdateScratch::new(device, rows)?;
        contents.keys.apply_on(stream, Batch::inserts(&keys, &places), &mut scratch)?;
        contents.used = used;
        contents.len += inserted;
        Ok(true)
    }
}

/// Finds out which runs have room.
fn plan_runs(
    stream: &Stream,
    (places, added, count): (&Buffer<u64>, &Buffer<u64>, usize),
    dense: u64,
    most: u64,
) -> Result<Plan> {
    assert!(places.len() >= count && added.len() >= count);
    let device = stream.device();
    let (needed, moved) = (device.alloc(count)?, device.alloc(count)?);
    let mut plan = Plan { needed, moved, too_many: device.upload(&[u64::MAX])? };
    let args = PlanRunsArgs {
        places: places.read_on(stream)?,
        added: added.read_on(stream)?,
        count: count as u64,
        dense,
        most,
        needed: plan.needed.write_on(stream)?,
        moved: plan.moved.write_on(stream)?,
        too_many: plan.too_many.write_on(stream)?,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    unsafe { each(stream, count)?.run(calls::plan_runs(&args)) }?;
    Ok(plan)
}

/// The places of runs with a batch's values, and where these go. Runs that move get positions from `used` on.
fn place_runs(
    stream: &Stream,
    (places, added, count): (&Buffer<u64>, &Buffer<u64>, usize),
    offsets: &Buffer<u64>,
    used: u64,
) -> Result<(Buffer<u64>, Buffer<u64>)> {
    assert!(places.len() >= count && added.len() >= count && offsets.len() > count);
    let (mut new, mut ends) = (stream.device().alloc(count)?, stream.device().alloc(count)?);
    let args = PlaceRunsArgs {
        places: places.read_on(stream)?,
        added: added.read_on(stream)?,
        count: count as u64,
        offsets: offsets.read_on(stream)?,
        used,
        new_places: new.write_on(stream)?,
        ends: ends.write_on(stream)?,
    };
    // SAFETY: the lengths were checked; the pointers are for this stream.
    unsafe { each(stream, count)?.run(calls::place_runs(&args)) }?;
    Ok((new, ends))
}

/// Rows of values: where they begin and where they go, each with the bits below the position; their offsets, and their total.
#[derive(Clone, Copy)]
struct Runs<'a> {
    begins: (&'a Buffer<u64>, u32),
    offsets: &'a Buffer<u64>,
    to: (&'a Buffer<u64>, u32),
    rows: usize,
    total: u64,
}

/// Copies rows into a map's values: from `values`, or, without them, from the map's own values below `used` to places
/// past it.
fn copy_runs<V: Word>(
    stream: &Stream,
    values: Option<&Buffer<V>>,
    runs: Runs<'_>,
    (out, used): (&mut Buffer<V>, u64),
) -> Result<()> {
    let Runs { begins, offsets, to, rows, total } = runs;
    assert!(begins.0.len() >= rows && offsets.len() > rows && to.0.len() >= rows);
    if total == 0 {
        return Ok(());
    }
    let (out_len, out) = (out.len() as u64, out.write_on(stream)?);
    let (from, values_len) = match values {
        Some(values) => (values.read_on(stream)?, values.len() as u64),
        None => (out.as_const(), used),
    };
    let args = CopyRunsArgs {
        values: from,
        values_len,
        begins: begins.0.read_on(stream)?,
        offsets: offsets.read_on(stream)?,
        rows: rows as u64,
        to: to.0.read_on(stream)?,
        total,
        out,
        out_len,
        shift: begins.1,
        to_shift: to.1,
    };
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    // SAFETY: the lengths were checked. Runs have positions of their own, and those that move go past all that are read. The
    // pointers are for this stream.
    Ok(unsafe { over_outputs(stream, total)?.run(calls::copy_runs(&args)) }?)
}

#[cfg(test)]
mod tests {
    use lanetree_kernels_multimap::layout::room;

    #[test]
    fn all_numbers_of_values_that_a_run_has_room_for_have_that_room() {
        assert_eq!([1, 2, 3, 7, 8, 9, 15, 16, 17, 100].map(room), [2, 2, 4, 8, 8, 10, 16, 16, 20, 112]);
        let large = (1..30).flat_map(|bit| [-1, 0, 1].map(|by| (1_u64 << bit).wrapping_add_signed(by)));
        for values in (1..5000).chain(large) {
            let most = room(values);
            assert!((values..=values + values / 4 + 1).contains(&most), "{values}: {most}");
            assert!(most - values > 1000 || (values..=most).all(|values| room(values) == most), "{values}: {most}");
            assert_eq!(room(most), most);
        }
    }
}
