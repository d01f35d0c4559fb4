use crate::error::{Error, Result, room};
use crate::keys::{Keys, Kind, Source};
use crate::typed::{Join, NO_ROW, Typed};
use arrow_array::{Array, ArrayRef, BooleanArray, LargeListArray, UInt64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use core::fmt;
use core::ops::Bound;
use lanetree::{Bytes16, Device, F32, F64};
use std::sync::Arc;

/// What a build does with nulls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nulls {
    /// Leaves their rows out.
    #[default]
    Skip,
    /// Refuses the column: [`Error::Null`].
    Refuse,
}

/// An index over a column: from values to the numbers of their rows, which count from 0.
///
/// The tree is on its device. Where a value has several rows, all row numbers are in main memory too
/// ([`ArrowIndex::host_bytes`]): answers are wanted there.
pub struct ArrowIndex {
    data_type: DataType,
    rows: usize,
    tree: Tree,
}

enum Tree {
    U32(Typed<u32>),
    U64(Typed<u64>),
    I32(Typed<i32>),
    I64(Typed<i64>),
    I128(Typed<i128>),
    F32(Typed<F32>),
    F64(Typed<F64>),
    Bytes16(Typed<Bytes16>),
}

/// The same for a tree of any keys.
macro_rules! each {
    ($tree:expr, $typed:ident => $body:expr) => {
        match $tree {
            Tree::U32($typed) => $body,
            Tree::U64($typed) => $body,
            Tree::I32($typed) => $body,
            Tree::I64($typed) => $body,
            Tree::I128($typed) => $body,
            Tree::F32($typed) => $body,
            Tree::F64($typed) => $body,
            Tree::Bytes16($typed) => $body,
        }
    };
}

fn build<K: Source>(device: &Device, column: &dyn Array) -> Result<Typed<K>> {
    let keys = K::keys(&column.to_data())?;
    let mut rows = room(column.len() - column.null_count())?;
    let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else {
        rows.extend(0..keys.len() as u64);
        return Typed::build(device, &keys, &rows);
    };
    let mut present = room(rows.capacity())?;
    for row in nulls.valid_indices() {
        rows.push(row as u64);
        present.push(keys[row]);
    }
    Typed::build(device, &present, &rows)
}

impl ArrowIndex {
    /// Whether columns of this type can be indexed.
    pub fn supports(data_type: &DataType) -> bool {
        Kind::of(data_type).is_some()
    }

    /// Builds an index over a column, in any order. Returns when it is complete.
    ///
    /// # Errors
    /// [`Error::Type`]; [`Error::Null`] with [`Nulls::Refuse`]; [`Error::NoRoom`]; [`Error::Index`] if the device has no room.
    pub fn build(device: &Device, column: &dyn Array, nulls: Nulls) -> Result<Self> {
        let data_type = column.data_type().clone();
        let Some(kind) = Kind::of(&data_type) else { return Err(Error::Type(data_type)) };
        if let (Nulls::Refuse, Some(nulls)) = (nulls, column.nulls())
            && let Some(row) = nulls.iter().position(|is_valid| !is_valid)
        {
            return Err(Error::Null { row, nulls: nulls.null_count() });
        }
        let tree = match kind {
            Kind::U32 => Tree::U32(build(device, column)?),
            Kind::U64 => Tree::U64(build(device, column)?),
            Kind::I32 => Tree::I32(build(device, column)?),
            Kind::I64 => Tree::I64(build(device, column)?),
            Kind::I128 => Tree::I128(build(device, column)?),
            Kind::F32 => Tree::F32(build(device, column)?),
            Kind::F64 => Tree::F64(build(device, column)?),
            Kind::Bytes16 => Tree::Bytes16(build(device, column)?),
        };
        Ok(Self { data_type, rows: column.len(), tree })
    }

    /// The type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The device that holds the tree.
    pub fn device(&self) -> &Device {
        each!(&self.tree, tree => tree.device())
    }

    /// How many rows are in the index: those of the column that are not null.
    pub fn len(&self) -> u64 {
        each!(&self.tree, tree => tree.len())
    }

    /// Whether no row is in the index.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many distinct values they have.
    pub fn keys_len(&self) -> u64 {
        each!(&self.tree, tree => tree.keys_len())
    }

    /// Whether each value has one row.
    pub fn is_unique(&self) -> bool {
        self.len() == self.keys_len()
    }

    /// How many rows the column has, nulls included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the device's memory that the index takes.
    pub fn bytes(&self) -> u64 {
        each!(&self.tree, tree => tree.bytes())
    }

    /// Bytes of main memory that it takes beside those: 0 if each value has one row.
    pub fn host_bytes(&self) -> u64 {
        each!(&self.tree, tree => tree.host_bytes())
    }

    /// The row of each probe, the first one if there are several; null where there is none. The array's validity is the hit
    /// mask. Returns when the results are complete.
    ///
    /// # Errors
    /// [`Error::ProbeType`]; [`Error::NoRoom`]; [`Error::Index`] from the device.
    pub fn get(&self, probes: &dyn Array) -> Result<UInt64Array> {
        self.check(probes)?;
        let rows = each!(&self.tree, tree => tree.get(&keys(probes)?)?);
        Ok(nullable(rows, probes.nulls()))
    }

    /// Whether each probe has a row; null for a null.
    ///
    /// # Errors
    /// As [`ArrowIndex::get`].
    pub fn contains(&self, probes: &dyn Array) -> Result<BooleanArray> {
        self.check(probes)?;
        let rows = each!(&self.tree, tree => tree.get(&keys(probes)?)?);
        Ok(BooleanArray::new(hits(&rows), probes.nulls().cloned()))
    }

    /// Joins probes with the column: pairs of the number of a probe in its array and the number of a row, in the order of
    /// the probes; the rows of one probe ascend. A null matches nothing. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`ArrowIndex::get`].
    pub fn join(&self, probes: &dyn Array, join: Join) -> Result<(UInt64Array, UInt64Array)> {
        self.check(probes)?;
        let is_null = |probe| probes.is_null(probe);
        let (probes, rows) = each!(&self.tree, tree => tree.join(&keys(probes)?, is_null, join)?);
        let rows = if join == Join::Left { nullable(rows, None) } else { UInt64Array::new(rows.into(), None) };
        Ok((UInt64Array::new(probes.into(), None), rows))
    }

    /// The row of the largest value that is not above each probe; the last one if there are several. Null where there is none.
    ///
    /// # Errors
    /// As [`ArrowIndex::get`].
    pub fn predecessor(&self, probes: &dyn Array) -> Result<UInt64Array> {
        self.neighbor(probes, true)
    }

    /// The row of the smallest value that is not below each probe; the first one if there are several. Null where there is none.
    ///
    /// # Errors
    /// As [`ArrowIndex::get`].
    pub fn successor(&self, probes: &dyn Array) -> Result<UInt64Array> {
        self.neighbor(probes, false)
    }

    fn neighbor(&self, probes: &dyn Array, predecessor: bool) -> Result<UInt64Array> {
        self.check(probes)?;
        let rows = each!(&self.tree, tree => tree.neighbor(&keys(probes)?, predecessor)?);
        Ok(nullable(rows, probes.nulls()))
    }

    /// The rows of each range of values, in the order of their values; those of one value ascend. Range `i` is from `starts[i]`
    /// to `ends[i]`; without bounds on both sides, there is one range. A range that ends before it starts is empty, as in SQL. A
    /// null bound makes a null list. Returns when the results are complete.
    ///
    /// ```
    /// use arrow_array::{Array, Int64Array, UInt64Array, cast::AsArray};
    /// use core::ops::Bound::{Excluded, Included, Unbounded};
    /// use lanetree_arrow::{ArrowIndex, Nulls};
    ///
    /// # fn main() -> lanetree_arrow::Result<()> {
    /// let column = Int64Array::from(vec![30, 10, 20, 10]);
    /// let index = ArrowIndex::build(&lanetree::Device::host(), &column, Nulls::Refuse)?;
    /// let (starts, ends) = (Int64Array::from(vec![10, 11]), Int64Array::from(vec![20, 40]));
    /// let rows = index.range(Included(&starts), Excluded(&ends))?;
    /// assert_eq!(rows.value(0).as_primitive(), &UInt64Array::from(vec![1, 3]));
    /// assert_eq!(rows.value(1).as_primitive(), &UInt64Array::from(vec![2, 0]));
    /// assert_eq!(index.range(Unbounded, Included(&ends))?.value(0).len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ArrowIndex::get`]; [`Error::BoundLengths`].
    pub fn range(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<LargeListArray> {
        let (count, nulls) = self.check_bounds(starts, ends)?;
        let is_null = |range| nulls.as_ref().is_some_and(|nulls| nulls.is_null(range));
        let (offsets, rows) = each!(&self.tree, tree => {
            let (starts, ends) = (bound(starts)?, bound(ends)?);
            tree.range(count, slice(&starts), slice(&ends), is_null)?
        });
        let offsets = ScalarBuffer::from(offsets).into_inner();
        // Both are words of 64 bits, and no vector has 2^63 elements.
        let offsets = OffsetBuffer::new(ScalarBuffer::new(offsets, 0, count + 1));
        let rows: ArrayRef = Arc::new(UInt64Array::new(rows.into(), None));
        Ok(LargeListArray::new(Arc::new(Field::new_list_field(DataType::UInt64, false)), offsets, rows, nulls))
    }

    /// How many rows each range of values has; null for a null bound. Otherwise like [`ArrowIndex::range`].
    ///
    /// # Errors
    /// As [`ArrowIndex::range`].
    pub fn count_range(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<UInt64Array> {
        let (count, nulls) = self.check_bounds(starts, ends)?;
        let counts = each!(&self.tree, tree => {
            let (starts, ends) = (bound(starts)?, bound(ends)?);
            tree.count_range(count, slice(&starts), slice(&ends))?
        });
        Ok(UInt64Array::new(counts.into(), nulls))
    }

    fn check(&self, probes: &dyn Array) -> Result<()> {
        if *probes.data_type() == self.data_type {
            return Ok(());
        }
        Err(Error::ProbeType { index: self.data_type.clone(), probes: probes.data_type().clone() })
    }

    /// How many ranges there are, and which of them are null.
    fn check_bounds(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<(usize, Option<NullBuffer>)> {
        let (starts, ends) = (given(starts), given(ends));
        starts.into_iter().chain(ends).try_for_each(|keys| self.check(keys))?;
        let count = match (starts.map(Array::len), ends.map(Array::len)) {
            (None, None) => 1,
            (Some(count), None) | (None, Some(count)) => count,
            (Some(starts), Some(ends)) if starts == ends => starts,
            (Some(starts), Some(ends)) => return Err(Error::BoundLengths { starts, ends }),
        };
        let nulls = |keys: Option<&dyn Array>| keys.and_then(|keys| keys.nulls().cloned());
        Ok((count, NullBuffer::union(nulls(starts).as_ref(), nulls(ends).as_ref())))
    }
}

impl fmt::Debug for ArrowIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, keys) = (self.len(), self.keys_len());
        write!(f, "ArrowIndex<{}>[{rows} rows of {keys} values, on {}]", self.data_type, self.device())
    }
}

fn keys<K: Source>(probes: &dyn Array) -> Result<Keys<K>> {
    K::keys(&probes.to_data())
}

fn given(bound: Bound<&dyn Array>) -> Option<&dyn Array> {
    match bound {
        Bound::Included(keys) | Bound::Excluded(keys) => Some(keys),
        Bound::Unbounded => None,
    }
}

fn bound<K: Source>(bound: Bound<&dyn Array>) -> Result<Bound<Keys<K>>> {
    Ok(match bound {
        Bound::Included(array) => Bound::Included(keys(array)?),
        Bound::Excluded(array) => Bound::Excluded(keys(array)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

fn slice<K: Source>(bound: &Bound<Keys<K>>) -> Bound<&[K]> {
    bound.as_ref().map(|keys| &**keys)
}

/// Which rows are there.
fn hits(rows: &[u64]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(rows.len(), |i| rows[i] != NO_ROW)
}

/// Row numbers as an array: null where there is none, and where the probe is null.
fn nullable(rows: Vec<u64>, probes: Option<&NullBuffer>) -> UInt64Array {
    let hits = NullBuffer::new(hits(&rows));
    let nulls = NullBuffer::union(Some(&hits), probes).filter(|nulls| nulls.null_count() > 0);
    UInt64Array::new(rows.into(), nulls)
}
