//! Several columns as one key: the numbers of a row in one word, the first column's in its highest bits. That is the order of
//! `lanetree::Composite` for two columns; here there may be more of them, each of which takes the bits that its values need, with
//! one more value for nulls.

use crate::ranges::ColumnFilter;
use core::ops::Bound;
use datafusion::arrow::array::{Array, ArrayData, ArrayRef, Decimal128Array, UInt64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::common::{ScalarValue, exec_err, internal_err, plan_err};
use datafusion::error::Result;
use std::sync::Arc;

/// The bits of a word.
const BITS: u32 = u128::BITS;

/// How rows of some columns are words of up to 128 bits.
///
/// A row whose first column is null is in no index: no condition on the first column is true of it. One with a null in another
/// column has a word, since conditions on the columns before that one may be true of it. Nulls come last.
#[derive(Debug)]
pub(crate) struct Packing {
    fields: Vec<Field>,
    bits: u32,
}

/// The numbers of a column.
#[derive(Debug)]
struct Field {
    data_type: DataType,
    /// The smallest and the largest one; `None` if all rows are null.
    ends: Option<(i128, i128)>,
    /// That of nulls, above those of all values.
    null_code: u128,
    bits: u32,
}

/// The type of a column's values: of a dictionary's, what they stand for.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Bits of any value of a type; `None` if it has no numbers.
fn bits_of(data_type: &DataType) -> Option<u32> {
    use DataType::*;
    Some(match data_type {
        Int8 | UInt8 => 8,
        Int16 | UInt16 => 16,
        Int32 | UInt32 | Date32 | Time32(_) => 32,
        Int64 | UInt64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => 64,
        Decimal32(digits, _) | Decimal64(digits, _) | Decimal128(digits, _) => {
            // From -(10^digits - 1) to 10^digits - 1.
            BITS - (2 * (10_u128.pow((*digits).min(38).into()) - 1)).leading_zeros()
        }
        _ => return None,
    })
}

/// The smallest and the largest number of a type of so many bits.
fn limits(data_type: &DataType, bits: u32) -> (i128, i128) {
    match data_type.is_unsigned_integer() {
        true => (0, (1 << bits) - 1),
        // Decimals have fewer.
        false => (i128::MIN >> (BITS - bits), i128::MAX >> (BITS - bits)),
    }
}

/// Calls a function with the number of each row; a null's is any.
fn each(values: &dyn Array, f: &mut dyn FnMut(usize, i128)) -> Result<()> {
    fn of<T: ArrowNativeType + Into<i128>>(data: &ArrayData, f: &mut dyn FnMut(usize, i128)) {
        let numbers = &data.buffer::<T>(0)[..data.len()];
        numbers.iter().enumerate().for_each(|(row, number)| f(row, (*number).into()));
    }
    let data = values.to_data();
    use DataType::*;
    match data.data_type() {
        Int8 => of::<i8>(&data, f),
        UInt8 => of::<u8>(&data, f),
        Int16 => of::<i16>(&data, f),
        UInt16 => of::<u16>(&data, f),
        Int32 | Date32 | Time32(_) | Decimal32(..) => of::<i32>(&data, f),
        UInt32 => of::<u32>(&data, f),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => of::<i64>(&data, f),
        UInt64 => of::<u64>(&data, f),
        Decimal128(..) => of::<i128>(&data, f),
        other => return internal_err!("{other} has no numbers"),
    }
    Ok(())
}

/// The values of a column of a type, written out if they are a dictionary's.
fn values_of(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let values = match column.data_type() {
        DataType::Dictionary(..) => cast(column, value_type(column.data_type()))?,
        _ => column.clone(),
    };
    match values.data_type() == data_type {
        true => Ok(values),
        false => exec_err!("the index is over {data_type}, but these are {}: cast them", values.data_type()),
    }
}

fn number_of(value: &ScalarValue) -> Result<i128> {
    let mut number = 0;
    each(&value.to_array()?, &mut |_, value| number = value)?;
    Ok(number)
}

/// A word with a number in the bits below it.
fn append(word: u128, bits: u32, code: u128) -> u128 {
    word.checked_shl(bits).unwrap_or(0) | code
}

impl Packing {
    /// # Errors
    /// A plan error for a type without numbers, and for types whose values need more than 128 bits.
    pub(crate) fn check(columns: &[(&str, &DataType)]) -> Result<()> {
        let mut bits = 0;
        for (name, data_type) in columns {
            bits += match bits_of(value_type(data_type)) {
                Some(bits) => bits,
                None => {
                    return plan_err!(
                        "{name} is {data_type}, which can't be in an index on several columns: cast it to an integer, a date, a time or a decimal"
                    );
                }
            };
        }
        match bits > BITS {
            true => {
                let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
                plan_err!(
                    "a row of ({}) needs {bits} bits, and an index on several columns has {BITS}: index fewer columns, or of smaller types",
                    names.join(", ")
                )
            }
            false => Ok(()),
        }
    }

    /// The packing of a table's columns. Fields have the bits of the word that no value needs, so that rows with other values may
    /// come.
    ///
    /// # Errors
    /// An execution error if the values and nulls of all columns together need more than 128 bits, which can be for columns of which
    /// each uses all of its bits.
    pub(crate) fn of(columns: &[ArrayRef]) -> Result<Self> {
        let mut fields = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            let data_type = value_type(column.data_type()).clone();
            let values = values_of(column, &data_type)?;
            let nulls = values.nulls();
            let mut ends: Option<(i128, i128)> = None;
            each(&values, &mut |row, number| {
                if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                    ends = Some(ends.map_or((number, number), |(min, max)| (min.min(number), max.max(number))));
                }
            })?;
            let last = ends.map(|(min, max)| max.wrapping_sub(min) as u128);
            let null_code = last.map_or(Some(0), |last| last.checked_add(1));
            let largest = if at > 0 && values.null_count() > 0 { null_code } else { Some(last.unwrap_or(0)) };
            let (Some(null_code), Some(largest)) = (null_code.or(last), largest) else {
                return exec_err!("the values and nulls of a column of {data_type} need more than {BITS} bits");
            };
            fields.push(Field { data_type, ends, null_code, bits: BITS - largest.leading_zeros() });
        }
        let bits: u32 = fields.iter().map(|field| field.bits).sum();
        if bits > BITS {
            return exec_err!(
                "the values and nulls of the {} columns of the index need {bits} bits, and a row has {BITS}: drop the index, or make one on fewer columns",
                fields.len()
            );
        }
        let word = if bits <= u64::BITS { u64::BITS } else { BITS };
        let more = (word - bits) / fields.len() as u32;
        fields.iter_mut().enumerate().for_each(|(at, field)| field.widen(more, at > 0));
        let bits = fields.iter().map(|field: &Field| field.bits).sum();
        Ok(Self { fields, bits })
    }

    /// Whether each row has a word, or a null in its first column.
    pub(crate) fn fits(&self, columns: &[ArrayRef]) -> Result<bool> {
        let mut fits = true;
        for (at, (field, column)) in self.fields.iter().zip(columns).enumerate() {
            let values = values_of(column, &field.data_type)?;
            let nulls = values.nulls();
            let has_null_code = at == 0 || field.has_null_code();
            each(&values, &mut |row, number| {
                let is_null = nulls.is_some_and(|nulls| nulls.is_null(row));
                fits &= if is_null { has_null_code } else { field.code(number).is_some() };
            })?;
        }
        Ok(fits)
    }

    /// The words of a table's rows; null for one that is in no index.
    pub(crate) fn keys(&self, columns: &[ArrayRef]) -> Result<ArrayRef> {
        let (words, nulls) = self.words(columns, true)?;
        Ok(self.array(words, nulls))
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The first and the last word of the rows that begin with the values of probes, for all columns or the first ones: null for a probe
    /// that has a null, or with which no row begins.
    pub(crate) fn probes(&self, columns: &[ArrayRef]) -> Result<(ArrayRef, ArrayRef)> {
        let (words, nulls) = self.words(columns, false)?;
        let end = |highest| self.array(self.filled(words.clone(), columns.len(), highest), nulls.clone());
        let first = end(false);
        let last = if columns.len() == self.fields.len() { first.clone() } else { end(true) };
        Ok((first, last))
    }

    /// Words of the first columns with the lowest codes of all columns from one on, or the highest ones.
    fn filled(&self, mut words: Vec<u128>, from: usize, highest: bool) -> Vec<u128> {
        for field in &self.fields[from..] {
            let code = if highest { u128::MAX.checked_shr(BITS - field.bits).unwrap_or(0) } else { 0 };
            words.iter_mut().for_each(|word| *word = append(*word, field.bits, code));
        }
        words
    }

    /// The words of the first columns, and which are null.
    fn words(&self, columns: &[ArrayRef], has_nulls: bool) -> Result<(Vec<u128>, Option<NullBuffer>)> {
        let rows = match columns {
            [first, ..] if columns.len() <= self.fields.len() => first.len(),
            _ => return internal_err!("{} keys for an index on {} columns", columns.len(), self.fields.len()),
        };
        let (mut words, mut valid) = (vec![0_u128; rows], vec![true; rows]);
        for (at, (field, column)) in self.fields.iter().zip(columns).enumerate() {
            let values = values_of(column, &field.data_type)?;
            let nulls = values.nulls();
            let null_code = (has_nulls && at > 0).then_some(field.null_code);
            each(&values, &mut |row, number| {
                let is_null = nulls.is_some_and(|nulls| nulls.is_null(row));
                match if is_null { null_code } else { field.code(number) } {
                    Some(code) => words[row] = append(words[row], field.bits, code),
                    None => valid[row] = false,
                }
            })?;
        }
        Ok((words, Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0)))
    }

    /// Words as an array whose order is theirs.
    fn array(&self, words: Vec<u128>, nulls: Option<NullBuffer>) -> ArrayRef {
        if self.bits <= u64::BITS {
            return Arc::new(UInt64Array::new(words.into_iter().map(|word| word as u64).collect(), nulls));
        }
        Arc::new(Decimal128Array::new(words.into_iter().map(|word| (word ^ 1 << 127) as i128).collect(), nulls))
    }

    /// The first and the last word of each of the ranges that filters on the first columns leave, which are disjoint and ascend; `None`
    /// if there is none.
    pub(crate) fn ranges(&self, filters: &[ColumnFilter]) -> Result<Option<(ArrayRef, ArrayRef)>> {
        let (mut firsts, mut lasts) = (vec![0], vec![0]);
        for (at, (field, filter)) in self.fields.iter().zip(filters).enumerate() {
            let mut codes = Vec::with_capacity(filter.ranges().len() + 1);
            for (low, high) in filter.ranges() {
                codes.extend(field.range(low, high)?);
            }
            // Rows whose first column is null have no word.
            if at > 0 && filter.nulls() && field.has_null_code() {
                codes.push((field.null_code, field.null_code));
            }
            // Only the last filter is of ranges.
            let both = |words: Vec<u128>, code: fn(&(u128, u128)) -> u128| -> Vec<u128> {
                words.iter().flat_map(|word| codes.iter().map(|codes| append(*word, field.bits, code(codes)))).collect()
            };
            (firsts, lasts) = (both(firsts, |codes| codes.0), both(lasts, |codes| codes.1));
        }
        if firsts.is_empty() {
            return Ok(None);
        }
        let end = |words, highest| self.array(self.filled(words, filters.len(), highest), None);
        Ok(Some((end(firsts, false), end(lasts, true))))
    }
}

impl Field {
    /// Gives a field more bits, for values below and above its own.
    fn widen(&mut self, more: u32, has_nulls: bool) {
        let (Some((min, max)), Some(of_type)) = (self.ends, bits_of(&self.data_type)) else { return };
        // Of wider fields, sums would have no room.
        let bits = (self.bits + more).min(of_type + 1).min(BITS - 2);
        if more == 0 || bits <= self.bits {
            return;
        }
        let last = (1_i128 << bits) - 1 - i128::from(has_nulls);
        let (least, greatest) = limits(&self.data_type, of_type);
        let below = (last - (max - min)) / 2;
        let low = min.saturating_sub(below).max(least);
        let high = low.saturating_add(last).min(greatest).max(max);
        self.ends = Some((low, high));
        self.null_code = (high - low) as u128 + 1;
        let largest = self.null_code - u128::from(!has_nulls);
        self.bits = BITS - largest.leading_zeros();
    }

    /// Whether rows may have a null; of a first column, any word does without it.
    fn has_null_code(&self) -> bool {
        BITS - self.null_code.leading_zeros() <= self.bits
    }

    /// `None` if no row has this value.
    fn code(&self, number: i128) -> Option<u128> {
        let (min, max) = self.ends?;
        (min..=max).contains(&number).then(|| number.wrapping_sub(min) as u128)
    }

    /// The codes from one value to another; `None` if there are none.
    fn range(&self, low: &Bound<ScalarValue>, high: &Bound<ScalarValue>) -> Result<Option<(u128, u128)>> {
        let Some((min, max)) = self.ends else { return Ok(None) };
        let low = match low {
            Bound::Included(value) => Some(number_of(value)?),
            Bound::Excluded(value) => number_of(value)?.checked_add(1),
            Bound::Unbounded => Some(min),
        };
        let high = match high {
            Bound::Included(value) => Some(number_of(value)?),
            Bound::Excluded(value) => number_of(value)?.checked_sub(1),
            Bound::Unbounded => Some(max),
        };
        let (Some(low), Some(high)) = (low, high) else { return Ok(None) };
        let (low, high) = (low.max(min), high.min(max));
        Ok((low <= high).then(|| (low.wrapping_sub(min) as u128, high.wrapping_sub(min) as u128)))
    }
}
