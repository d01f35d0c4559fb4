//! Indexes over columns of every type against std's `BTreeMap`: with nulls, equal values, slices, and nothing.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::*;
use arrow_schema::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
use arrow_schema::{DataType, TimeUnit};
use core::ops::Bound;
use lanetree::Device;
use lanetree_arrow::{ArrowIndex, Error, Join, Nulls};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbers of a column; its values are of the column's type, in the numbers' order.
type Numbers = Vec<Option<i8>>;

fn primitive<T: ArrowPrimitiveType>(numbers: &[Option<i8>], make: impl Fn(i8) -> T::Native) -> PrimitiveArray<T> {
    numbers.iter().map(|number| number.map(&make)).collect()
}

fn unsigned(number: i8) -> u8 {
    number as u8 ^ 0x80
}

/// Of some length, which says nothing of the order.
fn padded_text(number: i8) -> String {
    format!("key {:03}{}", unsigned(number), "~".repeat(unsigned(number) as usize % 40))
}

/// Each is a prefix of those above it; the first is empty.
fn prefix(number: i8) -> Vec<u8> {
    vec![0; unsigned(number).into()]
}

fn timestamp(unit: TimeUnit, numbers: &[Option<i8>]) -> ArrayRef {
    use arrow_array::types::*;
    let make = |number| i64::from(number) << 40;
    match unit {
        Second => Arc::new(primitive::<TimestampSecondType>(numbers, make)),
        Millisecond => Arc::new(primitive::<TimestampMillisecondType>(numbers, make)),
        Microsecond => Arc::new(primitive::<TimestampMicrosecondType>(numbers, make).with_timezone("+02:00")),
        Nanosecond => Arc::new(primitive::<TimestampNanosecondType>(numbers, make)),
    }
}

/// A column of the type: a part of a larger array.
fn column(data_type: &DataType, numbers: &[Option<i8>]) -> ArrayRef {
    use DataType::*;
    use arrow_array::types::*;
    let padded: Numbers =
        [Some(1), None, Some(-3)].into_iter().chain(numbers.iter().copied()).chain([Some(7)]).collect();
    let n = &padded[..];
    let whole: ArrayRef = match data_type {
        Int8 => Arc::new(primitive::<Int8Type>(n, |number| number)),
        Int16 => Arc::new(primitive::<Int16Type>(n, |number| i16::from(number) * 256)),
        Int32 => Arc::new(primitive::<Int32Type>(n, |number| i32::from(number) << 24)),
        Int64 => Arc::new(primitive::<Int64Type>(n, |number| i64::from(number) << 56)),
        UInt8 => Arc::new(primitive::<UInt8Type>(n, unsigned)),
        UInt16 => Arc::new(primitive::<UInt16Type>(n, |number| u16::from(unsigned(number)) << 8)),
        UInt32 => Arc::new(primitive::<UInt32Type>(n, |number| u32::from(unsigned(number)) << 24)),
        UInt64 => Arc::new(primitive::<UInt64Type>(n, |number| u64::from(unsigned(number)) << 56)),
        Float32 => Arc::new(primitive::<Float32Type>(n, |number| f32::from(number) / 3.0)),
        Float64 => Arc::new(primitive::<Float64Type>(n, |number| f64::from(number) / 3.0)),
        Date32 => Arc::new(primitive::<Date32Type>(n, i32::from)),
        Date64 => Arc::new(primitive::<Date64Type>(n, |number| i64::from(number) * 86_400_000)),
        Time32(Second) => Arc::new(primitive::<Time32SecondType>(n, |number| unsigned(number).into())),
        Time64(Nanosecond) => Arc::new(primitive::<Time64NanosecondType>(n, |number| unsigned(number).into())),
        Duration(Millisecond) => Arc::new(primitive::<DurationMillisecondType>(n, i64::from)),
        Timestamp(unit, _) => timestamp(*unit, n),
        Decimal32(..) => Arc::new(primitive::<Decimal32Type>(n, i32::from)),
        Decimal64(..) => Arc::new(primitive::<Decimal64Type>(n, i64::from)),
        Decimal128(..) => Arc::new(primitive::<Decimal128Type>(n, |number| i128::from(number) << 100)),
        FixedSizeBinary(16) => {
            let bytes = |number: i8| (u128::from(unsigned(number)) << 64).to_be_bytes();
            let items = n.iter().map(|number| number.map(bytes));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(items, 16).unwrap())
        }
        FixedSizeBinary(3) => {
            let items = n.iter().map(|number| number.map(|number| [7, unsigned(number), 0]));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(items, 3).unwrap())
        }
        Utf8 => Arc::new(n.iter().map(|number| number.map(padded_text)).collect::<StringArray>()),
        LargeUtf8 => Arc::new(n.iter().map(|number| number.map(padded_text)).collect::<LargeStringArray>()),
        Utf8View => Arc::new(n.iter().map(|number| number.map(padded_text)).collect::<StringViewArray>()),
        Binary => Arc::new(n.iter().map(|number| number.map(prefix)).collect::<BinaryArray>()),
        LargeBinary => Arc::new(n.iter().map(|number| number.map(prefix)).collect::<LargeBinaryArray>()),
        BinaryView => Arc::new(n.iter().map(|number| number.map(prefix)).collect::<BinaryViewArray>()),
        Dictionary(_, values) => return dictionary(values, numbers),
        other => panic!("no column of {other}"),
    };
    whole.slice(3, numbers.len())
}

/// A dictionary with a key per row, of values in another order, with equal values. Nulls are null keys, or keys of null values.
fn dictionary(values: &DataType, numbers: &[Option<i8>]) -> ArrayRef {
    let backwards: Numbers = numbers.iter().rev().copied().chain([Some(5), None]).collect();
    let key = |row: usize| (numbers[row].is_some() || row.is_multiple_of(2)).then(|| (numbers.len() - 1 - row) as i32);
    let keys: Int32Array = (0..numbers.len()).map(key).collect();
    Arc::new(DictionaryArray::new(keys, column(values, &backwards)))
}

fn types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Dictionary(Int32.into(), Int64.into()),
        Dictionary(Int32.into(), Utf8.into()),
        Dictionary(Int32.into(), FixedSizeBinary(16).into()),
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Date32,
        Date64,
        Time32(Second),
        Time64(Nanosecond),
        Duration(Millisecond),
        Timestamp(Second, None),
        Timestamp(Millisecond, None),
        Timestamp(Microsecond, Some("+02:00".into())),
        Timestamp(Nanosecond, None),
        Decimal32(9, 2),
        Decimal64(18, 6),
        Decimal128(38, 10),
        FixedSizeBinary(16),
        FixedSizeBinary(3),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
    ]
}

struct Model(BTreeMap<i8, Vec<u64>>);

impl Model {
    fn new(numbers: &[Option<i8>]) -> Self {
        let mut rows: BTreeMap<i8, Vec<u64>> = BTreeMap::new();
        for (row, number) in numbers.iter().enumerate() {
            number.iter().for_each(|number| rows.entry(*number).or_default().push(row as u64));
        }
        Self(rows)
    }

    fn range(&self, start: Bound<i8>, end: Bound<i8>) -> Vec<u64> {
        let after = |number: i8| match start {
            Bound::Included(start) => start <= number,
            Bound::Excluded(start) => start < number,
            Bound::Unbounded => true,
        };
        let before = |number: i8| match end {
            Bound::Included(end) => number <= end,
            Bound::Excluded(end) => number < end,
            Bound::Unbounded => true,
        };
        let keys = self.0.iter().filter(|(number, _)| after(**number) && before(**number));
        keys.flat_map(|(_, rows)| rows.iter().copied()).collect()
    }
}

fn numbers(rng: &mut StdRng, len: usize, nulls: f64, distinct: bool) -> Numbers {
    let mut all: Vec<i8> = (i8::MIN..=i8::MAX).collect();
    (0..len)
        .map(|_| match rng.random_bool(nulls) {
            true => None,
            false if distinct => Some(all.swap_remove(rng.random_range(0..all.len()))),
            false => Some(rng.random_range(-30..30)),
        })
        .collect()
}

fn check(device: &Device, data_type: &DataType, rows: &[Option<i8>], probes: &[Option<i8>], ends: &[Option<i8>]) {
    let index = ArrowIndex::build(device, &column(data_type, rows), Nulls::Skip).unwrap();
    let model = Model::new(rows);
    let values = if let DataType::Dictionary(_, values) = data_type { values } else { data_type };
    assert_eq!(index.data_type(), values);
    assert_eq!(index.rows(), rows.len());
    assert_eq!(index.len() as usize, rows.iter().flatten().count());
    assert_eq!(index.keys_len() as usize, model.0.len());
    let (probe_column, end_column) = (column(data_type, probes), column(data_type, ends));
    let expect = |answer: &dyn Fn(i8) -> Option<u64>| -> UInt64Array {
        probes.iter().map(|probe| probe.and_then(answer)).collect()
    };

    let first = |probe: i8| Some(model.0.get(&probe)?[0]);
    assert_eq!(index.get(&probe_column).unwrap(), expect(&first), "{data_type}");
    let contains: BooleanArray = probes.iter().map(|probe| probe.map(|probe| model.0.contains_key(&probe))).collect();
    assert_eq!(index.contains(&probe_column).unwrap(), contains);
    let predecessor = |probe: i8| model.0.range(..=probe).next_back()?.1.last().copied();
    assert_eq!(index.predecessor(&probe_column).unwrap(), expect(&predecessor), "{data_type}");
    let successor = |probe: i8| model.0.range(probe..).next()?.1.first().copied();
    assert_eq!(index.successor(&probe_column).unwrap(), expect(&successor), "{data_type}");

    for join in [Join::Inner, Join::Left] {
        let mut pairs = Vec::new();
        for (i, probe) in probes.iter().enumerate() {
            let rows = probe.and_then(|probe| model.0.get(&probe));
            match rows {
                Some(rows) => pairs.extend(rows.iter().map(|row| (i as u64, Some(*row)))),
                None if join == Join::Left => pairs.push((i as u64, None)),
                None => {}
            }
        }
        let (matched, rows) = index.join(&probe_column, join).unwrap();
        assert_eq!(matched.values().iter().copied().zip(rows.iter()).collect::<Vec<_>>(), pairs, "{data_type}");
    }

    let bounds = [Bound::Included(()), Bound::Excluded(()), Bound::Unbounded];
    for (start, end) in bounds.iter().flat_map(|start| bounds.map(|end| (*start, end))) {
        let arrays = (start.map(|()| &*probe_column as &dyn Array), end.map(|()| &*end_column as &dyn Array));
        let found = index.range(arrays.0, arrays.1).unwrap();
        let counts = index.count_range(arrays.0, arrays.1).unwrap();
        let views = index.range_views(arrays.0, arrays.1).unwrap();
        // Values of the ranges, one after the other, have the rows of the ranges.
        let (keys, key_counts) =
            (index.key_views(arrays.0, arrays.1).unwrap(), index.count_keys(arrays.0, arrays.1).unwrap());
        let rows_of = |list: ArrayRef| list.as_primitive::<UInt64Type>().values().to_vec();
        let of_keys: Vec<Vec<u64>> = keys.iter().flatten().map(rows_of).collect();
        let of_ranges: Vec<u64> = found.iter().flatten().flat_map(rows_of).collect();
        assert_eq!((of_keys.concat(), of_keys.iter().any(Vec::is_empty)), (of_ranges, false));
        assert_eq!(of_keys.len() as u64, key_counts.iter().flatten().sum::<u64>());
        let unbounded = (start, end) == (Bound::Unbounded, Bound::Unbounded);
        if unbounded {
            assert_eq!(key_counts.value(0), index.keys_len());
        }
        assert_eq!(found.len(), if unbounded { 1 } else { probes.len() });
        for range in 0..found.len() {
            let null = start != Bound::Unbounded && probes[range].is_none()
                || end != Bound::Unbounded && ends[range].is_none();
            assert_eq!((found.is_null(range), counts.is_null(range), views.is_null(range)), (null, null, null));
            if null {
                assert_eq!(views.value_size(range), 0);
                continue;
            }
            let rows = model.range(start.map(|()| probes[range].unwrap()), end.map(|()| ends[range].unwrap()));
            assert_eq!(
                found.value(range).as_primitive::<UInt64Type>().values(),
                &rows[..],
                "{data_type} {start:?} {end:?}"
            );
            assert_eq!(counts.value(range), rows.len() as u64);
            assert_eq!(views.value(range).as_primitive::<UInt64Type>().values(), &rows[..]);
        }
    }
}

#[test]
fn every_type_answers_as_the_model() {
    let mut rng = StdRng::seed_from_u64(1);
    for data_type in types() {
        for (len, nulls, distinct) in [(120, 0.0, true), (120, 0.2, true), (200, 0.0, false), (200, 0.2, false)] {
            let rows = numbers(&mut rng, len, nulls, distinct);
            let probes = numbers(&mut rng, 70, 0.1, false);
            let ends = numbers(&mut rng, 70, 0.1, false);
            check(&Device::best(), &data_type, &rows, &probes, &ends);
        }
    }
}

#[test]
fn the_kernels_answer_as_the_model() {
    let mut rng = StdRng::seed_from_u64(2);
    let decimal = DataType::Decimal128(38, 10);
    for data_type in [DataType::Int16, DataType::Float64, decimal, DataType::FixedSizeBinary(16), DataType::Utf8] {
        for distinct in [true, false] {
            let rows = numbers(&mut rng, 60, 0.2, distinct);
            let (probes, ends) = (numbers(&mut rng, 40, 0.1, false), numbers(&mut rng, 40, 0.1, false));
            check(&Device::emulated(), &data_type, &rows, &probes, &ends);
        }
    }
}

#[test]
fn empty_columns_and_empty_batches_are_answered() {
    let some = [Some(1), None, Some(2), Some(1)];
    for data_type in types() {
        check(&Device::best(), &data_type, &[], &some, &some);
        check(&Device::best(), &data_type, &[None, None], &some, &some);
        check(&Device::best(), &data_type, &some, &[], &[]);
    }
}

#[test]
fn dictionaries_and_plain_arrays_ask_one_index() {
    let rows = [Some(3), None, Some(-4), Some(3)];
    let utf8 = DataType::Utf8;
    let plain = ArrowIndex::build(&Device::host(), &column(&utf8, &rows), Nulls::Skip).unwrap();
    let of_dictionary = ArrowIndex::build(&Device::host(), &dictionary(&utf8, &rows), Nulls::Skip).unwrap();
    let expected = UInt64Array::from(vec![Some(2), None, None, Some(0)]);
    let probes = [Some(-4), Some(9), None, Some(3)];
    for index in [plain, of_dictionary] {
        assert_eq!(index.get(&column(&utf8, &probes)).unwrap(), expected);
        assert_eq!(index.get(&dictionary(&utf8, &probes)).unwrap(), expected);
        let error = index.get(&dictionary(&DataType::Int64, &probes)).unwrap_err().to_string();
        assert_eq!(error, "the index is over Utf8, but these are Int64: cast them to Utf8");
    }
    // A null may be a key's or its value's.
    let error = ArrowIndex::build(&Device::host(), &dictionary(&utf8, &rows), Nulls::Refuse).unwrap_err();
    assert!(matches!(error, Error::Null { row: 1, nulls: 1 }), "{error}");
}

#[test]
fn floats_are_in_total_order() {
    let column = Float64Array::from(vec![f64::NAN, 0.0, f64::NEG_INFINITY, -0.0, -f64::NAN]);
    let index = ArrowIndex::build(&Device::host(), &column, Nulls::Refuse).unwrap();
    assert!(index.is_unique());
    let rows = index.range(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert_eq!(rows.value(0).as_primitive::<UInt64Type>().values(), &[4, 2, 3, 1, 0]);
    let probes = Float64Array::from(vec![-0.0, f64::NAN, 1.0]);
    assert_eq!(index.get(&probes).unwrap(), UInt64Array::from(vec![Some(3), Some(0), None]));
}

#[test]
fn answers_without_a_miss_have_no_validity() {
    let column = Int32Array::from(vec![5, 6]);
    let index = ArrowIndex::build(&Device::host(), &column, Nulls::Refuse).unwrap();
    assert!(index.get(&column).unwrap().nulls().is_none());
    assert_eq!(index.get(&Int32Array::from(vec![6, 7])).unwrap().null_count(), 1);
}

#[test]
fn a_single_range_is_not_copied() {
    let column = Int32Array::from(vec![5, 6, 5, 4]);
    let index = ArrowIndex::build(&Device::host(), &column, Nulls::Refuse).unwrap();
    let rows = |start: i32| {
        let start = Int32Array::from(vec![start]);
        let list = index.range(Bound::Included(&start), Bound::Unbounded).unwrap();
        list.value(0).as_primitive::<UInt64Type>().values().clone()
    };
    assert_eq!((&rows(4)[..], &rows(5)[..], &rows(7)[..]), (&[3, 0, 2, 1][..], &[0, 2, 1][..], &[][..]));
    assert_eq!(rows(5).as_ptr(), rows(4)[1..].as_ptr());
    let starts = Int32Array::from(vec![5, 4]);
    let views = index.range_views(Bound::Included(&starts), Bound::Unbounded).unwrap();
    let first = views.value(0).as_primitive::<UInt64Type>().values().clone();
    assert_eq!((&first[..], first.as_ptr()), (&[0, 2, 1][..], rows(5).as_ptr()));
}

#[test]
fn errors_name_the_type_or_the_row() {
    let said = |error: Error| error.to_string();
    let host = Device::host();
    let column = Int64Array::from(vec![Some(1), None, Some(3), None]);
    let index = ArrowIndex::build(&host, &column, Nulls::Skip).unwrap();
    assert_eq!(format!("{index:?}"), format!("ArrowIndex<Int64>[2 rows of 2 values, on {host}]"));
    assert_eq!(
        said(ArrowIndex::build(&host, &column, Nulls::Refuse).unwrap_err()),
        "row 1 is null: build the index with `Nulls::Skip`, or leave out the column's 2 nulls"
    );
    let flags = BooleanArray::from(vec![true]);
    let error = said(ArrowIndex::build(&host, &flags, Nulls::Skip).unwrap_err());
    assert!(error.starts_with("a column of type Boolean can't be indexed: cast it to"), "{error}");
    assert!(!ArrowIndex::supports(&DataType::Decimal256(50, 2)));
    let narrow = Int32Array::from(vec![1]);
    let expected = "the index is over Int64, but these are Int32: cast them to Int64";
    assert_eq!(said(index.get(&narrow).unwrap_err()), expected);
    assert_eq!(said(index.contains(&narrow).unwrap_err()), expected);
    assert_eq!(said(index.successor(&narrow).unwrap_err()), expected);
    assert_eq!(said(index.join(&narrow, Join::Left).unwrap_err()), expected);
    assert_eq!(said(index.range(Bound::Included(&narrow), Bound::Unbounded).unwrap_err()), expected);
    let (starts, ends) = (Int64Array::from(vec![1]), Int64Array::from(vec![1, 2]));
    let error = index.count_range(Bound::Included(&starts), Bound::Excluded(&ends)).unwrap_err();
    assert_eq!(said(error), "1 starts but 2 ends: give one end per start");
}

#[test]
fn an_index_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<ArrowIndex>();
    shared::<Error>();
}
