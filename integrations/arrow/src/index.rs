use crate::error::{Error, Result};
use crate::keys::Kind;
use crate::trees::NO_ROW;
use crate::typed::{Bounds, Join, Typed};
use crate::values::{Values, value_type};
use arrow_array::{Array, ArrayRef, BooleanArray, LargeListArray, LargeListViewArray, UInt64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use core::fmt;
use core::ops::Bound;
use lanetree::{Bytes16, Cuart, Device, F32, F64, LaneTree};
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
/// The tree is on its device. Row numbers in the order of their values are in main memory too ([`ArrowIndex::host_bytes`]):
/// ranges are wanted there.
pub struct ArrowIndex {
    data_type: DataType,
    rows: usize,
    tree: Tree,
}

enum Tree {
    U32(Typed<LaneTree<u32, u64>>),
    U64(Typed<LaneTree<u64, u64>>),
    I32(Typed<LaneTree<i32, u64>>),
    I64(Typed<LaneTree<i64, u64>>),
    I128(Typed<LaneTree<i128, u64>>),
    F32(Typed<LaneTree<F32, u64>>),
    F64(Typed<LaneTree<F64, u64>>),
    Bytes16(Typed<LaneTree<Bytes16, u64>>),
    Strings(Box<Typed<Cuart<u64>>>),
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
            Tree::Strings($typed) => $body,
        }
    };
}

/// The tree for keys of a kind, as an expression makes each.
macro_rules! tree_of {
    ($kind:expr, $typed:expr) => {
        match $kind {
            Kind::U32 => Tree::U32($typed),
            Kind::U64 => Tree::U64($typed),
            Kind::I32 => Tree::I32($typed),
            Kind::I64 => Tree::I64($typed),
            Kind::I128 => Tree::I128($typed),
            Kind::F32 => Tree::F32($typed),
            Kind::F64 => Tree::F64($typed),
            Kind::Bytes16 => Tree::Bytes16($typed),
            Kind::Strings => Tree::Strings(Box::new($typed)),
        }
    };
}

impl ArrowIndex {
    /// Whether columns of this type can be indexed.
    pub fn supports(data_type: &DataType) -> bool {
        Kind::of(value_type(data_type)).is_some()
    }

    /// Builds an index over a column, in any order. Returns when it is complete.
    ///
    /// # Errors
    /// [`Error::Type`]; [`Error::Null`] with [`Nulls::Refuse`]; [`Error::NoRoom`]; [`Error::Index`] if the device has no room.
    pub fn build(device: &Device, column: &dyn Array, nulls: Nulls) -> Result<Self> {
        let values = Values::of(column)?;
        let column = values.array();
        let data_type = column.data_type().clone();
        let Some(kind) = Kind::of(&data_type) else { return Err(Error::Type(data_type)) };
        if let (Nulls::Refuse, Some(nulls)) = (nulls, column.nulls())
            && let Some(row) = nulls.iter().position(|is_valid| !is_valid)
        {
            return Err(Error::Null { row, nulls: nulls.null_count() });
        }
        let tree = tree_of!(kind, Typed::build(device, column)?);
        Ok(Self { data_type, rows: column.len(), tree })
    }

    /// Builds an index over a column whose rows, less those that are null, are known in the order of their values, the rows of one value
    /// ascending: as the values of [`range_views`](Self::range_views) have them. Takes one pass over the column instead of a sort, and
    /// verifies all: `None` unless this is the order of this column. Returns when it is complete.
    ///
    /// ```
    /// use arrow_array::{Int64Array, UInt64Array};
    /// use lanetree_arrow::ArrowIndex;
    ///
    /// # fn main() -> lanetree_arrow::Result<()> {
    /// let (device, column) = (lanetree::Device::host(), Int64Array::from(vec![30, 10, 20, 10]));
    /// let index = ArrowIndex::build_ordered(&device, &column, &UInt64Array::from(vec![1, 3, 2, 0]))?;
    /// assert_eq!(index.unwrap().get(&column)?, UInt64Array::from(vec![0, 1, 2, 1]));
    /// assert!(ArrowIndex::build_ordered(&device, &column, &UInt64Array::from(vec![1, 3, 0, 2]))?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ArrowIndex::build`] with [`Nulls::Skip`].
    pub fn build_ordered(device: &Device, column: &dyn Array, rows: &UInt64Array) -> Result<Option<Self>> {
        let values = Values::of(column)?;
        let column = values.array();
        let data_type = column.data_type().clone();
        let Some(kind) = Kind::of(&data_type) else { return Err(Error::Type(data_type)) };
        let rows_in_order = rows.values();
        let tree = tree_of!(
            kind,
            match Typed::build_ordered(device, column, rows_in_order.clone())? {
                Some(typed) => typed,
                None => return Ok(None),
            }
        );
        Ok(Some(Self { data_type, rows: column.len(), tree }))
    }

    /// The type of the column's values: for a dictionary, the type of the dictionary's values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The device that holds the tree.
    pub fn device(&self) -> &Device {
        each!(&self.tree, tree => tree.device())
    }

    /// The number of rows in the index: of the column's rows that are not null.
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

    /// Bytes of main memory that it takes, in addition to [`bytes`](Self::bytes): 8 for each row, and 8 for each value
    /// if one has several rows.
    pub fn host_bytes(&self) -> u64 {
        each!(&self.tree, tree => tree.host_bytes())
    }

    /// The row of each probe, the first one if there are several; null where there is none. The array's validity is the hit
    /// mask. Returns when the results are complete.
    ///
    /// # Errors
    /// [`Error::ProbeType`]; [`Error::NoRoom`]; [`Error::Index`] from the device.
    pub fn get(&self, probes: &dyn Array) -> Result<UInt64Array> {
        let values = Values::of(probes)?;
        let probes = values.array();
        self.check(probes)?;
        let rows = each!(&self.tree, tree => tree.get(probes)?);
        Ok(nullable(rows, probes.nulls()))
    }

    /// Whether each probe's value has a row in the index, in the order of the probes; null for a null probe.
    ///
    /// # Errors
    /// As [`ArrowIndex::get`].
    pub fn contains(&self, probes: &dyn Array) -> Result<BooleanArray> {
        let values = Values::of(probes)?;
        let probes = values.array();
        self.check(probes)?;
        let rows = each!(&self.tree, tree => tree.get(probes)?);
        Ok(BooleanArray::new(hits(&rows), probes.nulls().cloned()))
    }

    /// Joins probes with the column: pairs of the number of a probe in its array and the number of a row, in the order of
    /// the probes; the rows of one probe ascend. A null matches nothing. Returns when the results are complete.
    ///
    /// # Errors
    /// As [`ArrowIndex::get`].
    pub fn join(&self, probes: &dyn Array, join: Join) -> Result<(UInt64Array, UInt64Array)> {
        let values = Values::of(probes)?;
        let probes = values.array();
        self.check(probes)?;
        let (probes, rows) = each!(&self.tree, tree => tree.join(probes, join)?);
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
        let values = Values::of(probes)?;
        let probes = values.array();
        self.check(probes)?;
        let rows = each!(&self.tree, tree => tree.neighbor(probes, predecessor)?);
        Ok(nullable(rows, probes.nulls()))
    }

    /// The rows of each range of values, in the order of their values; the row numbers of one value ascend. Range `i`
    /// is from `starts[i]` to `ends[i]`; without bounds on both sides, there is one range. A range that ends before it
    /// starts is empty, as in SQL. A null bound makes a null list. A single range is a part of the index's own memory,
    /// not copied. Returns when the results are complete.
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
        let (starts, ends) = (Values::of_bound(starts)?, Values::of_bound(ends)?);
        let (bounds, nulls) = self.bounds(starts.as_ref().map(Values::array), ends.as_ref().map(Values::array))?;
        let is_null = |range| nulls.as_ref().is_some_and(|nulls| nulls.is_null(range));
        let (offsets, rows) = each!(&self.tree, tree => tree.range(&bounds, is_null)?);
        let offsets = ScalarBuffer::from(offsets).into_inner();
        // Both are words of 64 bits, and no vector has 2^63 elements.
        let offsets = OffsetBuffer::new(ScalarBuffer::new(offsets, 0, bounds.count + 1));
        let rows: ArrayRef = Arc::new(UInt64Array::new(rows, None));
        Ok(LargeListArray::new(Arc::new(Field::new_list_field(DataType::UInt64, false)), offsets, rows, nulls))
    }

    /// The rows of each range of values, as [`ArrowIndex::range`] has them, in the index's own memory: none are copied. Each list has 16
    /// bytes, however many rows it has. A null list has no rows.
    ///
    /// # Errors
    /// As [`ArrowIndex::range`].
    pub fn range_views(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<LargeListViewArray> {
        let (starts, ends) = (Values::of_bound(starts)?, Values::of_bound(ends)?);
        let (bounds, nulls) = self.bounds(starts.as_ref().map(Values::array), ends.as_ref().map(Values::array))?;
        let (offsets, mut sizes) = each!(&self.tree, tree => tree.range_views(&bounds)?);
        if let Some(nulls) = &nulls {
            sizes.iter_mut().zip(nulls).filter(|(_, is_valid)| !is_valid).for_each(|(size, _)| *size = 0);
        }
        Ok(self.views(offsets, sizes, nulls))
    }

    /// The rows of each value that is within a range, a list for each value, in the order of the ranges and of the values in each: in the
    /// index's own memory, as with [`ArrowIndex::range_views`]. A range with a null bound has no values.
    ///
    /// ```
    /// use arrow_array::{Array, Int64Array, UInt64Array, cast::AsArray};
    /// use core::ops::Bound::{Included, Unbounded};
    /// use lanetree_arrow::{ArrowIndex, Nulls};
    ///
    /// # fn main() -> lanetree_arrow::Result<()> {
    /// let column = Int64Array::from(vec![30, 10, 20, 10]);
    /// let index = ArrowIndex::build(&lanetree::Device::host(), &column, Nulls::Refuse)?;
    /// let ends = Int64Array::from(vec![20]);
    /// let values = index.key_views(Unbounded, Included(&ends))?;
    /// assert_eq!(values.len(), 2);
    /// assert_eq!(values.value(0).as_primitive(), &UInt64Array::from(vec![1, 3]));
    /// assert_eq!(index.count_keys(Unbounded, Included(&ends))?.value(0), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ArrowIndex::range`].
    pub fn key_views(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<LargeListViewArray> {
        let (starts, ends) = (Values::of_bound(starts)?, Values::of_bound(ends)?);
        let (bounds, nulls) = self.bounds(starts.as_ref().map(Values::array), ends.as_ref().map(Values::array))?;
        let is_null = |range| nulls.as_ref().is_some_and(|nulls| nulls.is_null(range));
        let (offsets, sizes) = each!(&self.tree, tree => tree.key_views(&bounds, is_null)?);
        Ok(self.views(offsets, sizes, None))
    }

    /// Lists of rows in the index's own memory.
    fn views(&self, offsets: Vec<u64>, sizes: Vec<u64>, nulls: Option<NullBuffer>) -> LargeListViewArray {
        let rows: ArrayRef = Arc::new(UInt64Array::new(each!(&self.tree, tree => tree.rows().clone()), None));
        let count = offsets.len();
        // Words of 64 bits as they are: no vector has 2^63 elements.
        let [offsets, sizes] =
            [offsets, sizes].map(|words| ScalarBuffer::new(ScalarBuffer::from(words).into_inner(), 0, count));
        let field = Arc::new(Field::new_list_field(DataType::UInt64, false));
        LargeListViewArray::new(field, offsets, sizes, rows, nulls)
    }

    /// How many rows each range of values has; null for a null bound. Otherwise like [`ArrowIndex::range`].
    ///
    /// # Errors
    /// As [`ArrowIndex::range`].
    pub fn count_range(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<UInt64Array> {
        let (starts, ends) = (Values::of_bound(starts)?, Values::of_bound(ends)?);
        let (bounds, nulls) = self.bounds(starts.as_ref().map(Values::array), ends.as_ref().map(Values::array))?;
        let counts = each!(&self.tree, tree => tree.count_range(&bounds)?);
        Ok(UInt64Array::new(counts.into(), nulls))
    }

    /// How many distinct values are within each range; null for a null bound. Otherwise like [`ArrowIndex::range`].
    ///
    /// # Errors
    /// As [`ArrowIndex::range`].
    pub fn count_keys(&self, starts: Bound<&dyn Array>, ends: Bound<&dyn Array>) -> Result<UInt64Array> {
        let (starts, ends) = (Values::of_bound(starts)?, Values::of_bound(ends)?);
        let (bounds, nulls) = self.bounds(starts.as_ref().map(Values::array), ends.as_ref().map(Values::array))?;
        let counts = each!(&self.tree, tree => tree.count_keys(&bounds)?);
        Ok(UInt64Array::new(counts.into(), nulls))
    }

    /// Calls a function with all values and their rows in order, some at a time.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    pub(crate) fn each_batch(&self, f: impl FnMut(ArrayRef, UInt64Array) -> Result<()>) -> Result<()> {
        each!(&self.tree, tree => tree.each_batch(&self.data_type, f))
    }

    fn check(&self, probes: &dyn Array) -> Result<()> {
        if *probes.data_type() == self.data_type {
            return Ok(());
        }
        Err(Error::ProbeType { index: self.data_type.clone(), probes: probes.data_type().clone() })
    }

    /// The ranges between bounds, and which of them are null.
    fn bounds<'a>(
        &self,
        starts: Bound<&'a dyn Array>,
        ends: Bound<&'a dyn Array>,
    ) -> Result<(Bounds<'a>, Option<NullBuffer>)> {
        let given = |bound: Bound<&'a dyn Array>| match bound {
            Bound::Included(keys) | Bound::Excluded(keys) => Some(keys),
            Bound::Unbounded => None,
        };
        let given = (given(starts), given(ends));
        given.0.into_iter().chain(given.1).try_for_each(|keys| self.check(keys))?;
        let count = match (given.0.map(Array::len), given.1.map(Array::len)) {
            (None, None) => 1,
            (Some(count), None) | (None, Some(count)) => count,
            (Some(starts), Some(ends)) if starts == ends => starts,
            (Some(starts), Some(ends)) => return Err(Error::BoundLengths { starts, ends }),
        };
        let nulls = NullBuffer::union(given.0.and_then(Array::nulls), given.1.and_then(Array::nulls));
        Ok((Bounds { starts, ends, count }, nulls))
    }
}

impl fmt::Debug for ArrowIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, keys) = (self.len(), self.keys_len());
        write!(f, "ArrowIndex<{}>[{rows} rows of {keys} values, on {}]", self.data_type, self.device())
    }
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
