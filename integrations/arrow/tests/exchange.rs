//! Whole indexes in IPC and Parquet files and back: types, nulls, files of other programs, and damage.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::*;
use arrow_ipc::writer::FileWriter;
use arrow_schema::DataType;
use bytes::Bytes;
use core::fmt::Debug;
use core::ops::Bound::Unbounded;
use lanetree::{AnyKey, ByteKeysBuf, Bytes16, Cuart, Device, F32, F64, LaneTree, Word};
use lanetree_arrow::{ArrowIndex, Error, Exchange, Nulls, Result, read_ipc, read_parquet, write_ipc, write_parquet};
use parquet::arrow::ArrowWriter;
use std::io::Cursor;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
enum Format {
    Ipc,
    Parquet,
}

const FORMATS: [Format; 2] = [Format::Ipc, Format::Parquet];

impl Format {
    fn written(self, index: &impl Exchange) -> Vec<u8> {
        let mut file = Vec::new();
        match self {
            Self::Ipc => write_ipc(index, &mut file).unwrap(),
            Self::Parquet => write_parquet(index, &mut file).unwrap(),
        }
        file
    }

    fn read_with<I: Exchange>(self, device: &Device, file: Vec<u8>, nulls: Nulls) -> Result<I> {
        match self {
            Self::Ipc => read_ipc(device, Cursor::new(file), nulls),
            Self::Parquet => read_parquet(device, Bytes::from(file), nulls),
        }
    }

    fn read<I: Exchange>(self, file: Vec<u8>) -> Result<I> {
        self.read_with(&Device::host(), file, Nulls::Refuse)
    }

    /// A file of batches that another program has written.
    fn foreign(self, batch: &RecordBatch) -> Vec<u8> {
        let mut file = Vec::new();
        match self {
            Self::Ipc => {
                let mut writer = FileWriter::try_new(&mut file, &batch.schema()).unwrap();
                writer.write(batch).unwrap();
                writer.finish().unwrap();
            }
            Self::Parquet => {
                let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
                writer.write(batch).unwrap();
                writer.close().unwrap();
            }
        }
        file
    }
}

fn lane_tree<K: AnyKey + Debug, V: Word + Debug>(keys: Vec<K>, device: &Device, make: impl Fn(usize) -> V)
where
    LaneTree<K, V>: Exchange,
{
    let values: Vec<V> = (0..keys.len()).map(make).collect();
    for len in [0, 1, keys.len()] {
        let tree = LaneTree::build(device, &keys[..len], &values[..len]).unwrap();
        for format in FORMATS {
            let read: LaneTree<K, V> = format.read_with(device, format.written(&tree), Nulls::Refuse).unwrap();
            assert_eq!(read.pairs().unwrap(), tree.pairs().unwrap(), "{format:?} {} {len}", K::NAME);
        }
    }
}

#[test]
fn lane_trees_of_every_key_and_value_type_come_back() {
    let host = Device::host();
    let numbers = || (0..5000_i64).map(|number| (number - 2500) * 700_001);
    lane_tree(numbers().map(|number| number as u32).collect(), &host, |at| at as u32);
    lane_tree(numbers().map(|number| number as u64).collect(), &host, |at| u64::MAX - at as u64);
    lane_tree(numbers().map(|number| number as i32).collect(), &host, |at| at as u64);
    lane_tree(numbers().collect(), &host, |at| at as u32);
    lane_tree(numbers().map(|number| i128::from(number) << 63).collect(), &host, |at| at as u64);
    lane_tree(numbers().map(|number| F32::new(number as f32)).collect(), &host, |at| at as u32);
    let odd = [f64::NAN, -0.0, 0.0, f64::NEG_INFINITY, -f64::NAN];
    lane_tree(odd.into_iter().chain(numbers().map(|n| n as f64)).map(F64::new).collect(), &host, |at| at as u64);
    lane_tree(numbers().map(|n| Bytes16::new((n as u128).to_be_bytes())).collect(), &host, |at| at as u64);
    lane_tree(numbers().take(300).collect(), &Device::emulated(), |at| at as u32);
    // Several windows.
    let keys: Vec<u32> = (0..600_000).collect();
    let tree = LaneTree::build(&host, &keys, &keys).unwrap();
    let mut batches = 0;
    let count = |_: &RecordBatch| {
        batches += 1;
        Ok(())
    };
    tree.each_batch(&mut { count }).unwrap();
    assert!(batches > 1, "{batches} batches");
    lane_tree(keys, &host, |at| at as u64);
}

#[test]
fn trees_of_strings_come_back() {
    let mut words: Vec<String> =
        (0..40_000).map(|number| format!("{}word {number}", "~".repeat(number % 50))).collect();
    words.extend(["".into(), "é".into(), "long ".repeat(3000)]);
    let values: Vec<u64> = (0..words.len() as u64).collect();
    for (len, device) in [(0, Device::host()), (words.len(), Device::host()), (100, Device::emulated())] {
        let keys: ByteKeysBuf = words[..len].iter().collect();
        let tree = Cuart::build(&device, &keys, &values[..len]).unwrap();
        for format in FORMATS {
            let read: Cuart<u64> = format.read_with(&device, format.written(&tree), Nulls::Refuse).unwrap();
            assert_eq!(read.len(), len as u64);
            let found = read.get_many(&keys).unwrap();
            assert!(found.into_iter().eq(values[..len].iter().copied().map(Some)), "{format:?} {len}");
        }
    }
}

/// All rows in the order of their values, and how many rows there are.
fn rows(index: &ArrowIndex) -> (Vec<u64>, usize, DataType) {
    let all = index.range(Unbounded, Unbounded).unwrap().value(0);
    (all.as_primitive::<UInt64Type>().values().to_vec(), index.rows(), index.data_type().clone())
}

#[test]
fn indexes_over_columns_come_back_with_their_types_and_nulls() {
    let some = [Some(3), None, Some(-4), Some(3), Some(100), None, None];
    let text = || some.iter().map(|number| number.map(|number: i32| format!("text {number}")));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int8Array::from_iter(some.map(|number| number.map(|number| number as i8)))),
        Arc::new(UInt16Array::from_iter(some.map(|number| number.map(|number| number as u16)))),
        Arc::new(Int32Array::from_iter(some)),
        Arc::new(Date32Array::from_iter(some)),
        Arc::new(TimestampMicrosecondArray::from_iter(some.map(|n| n.map(i64::from))).with_timezone("+02:00")),
        Arc::new(Decimal128Array::from_iter(some.map(|n| n.map(i128::from))).with_precision_and_scale(20, 2).unwrap()),
        Arc::new(Float64Array::from_iter(some.map(|n| n.map(|n| f64::from(n) / 3.0)))),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(some.map(|n| n.map(i32::to_be_bytes)).into_iter(), 4)
                .unwrap(),
        ),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                some.map(|n| n.map(|n| (n as u128).to_be_bytes())).into_iter(),
                16,
            )
            .unwrap(),
        ),
        Arc::new(StringArray::from_iter(text())),
        Arc::new(LargeStringArray::from_iter(text())),
        Arc::new(StringViewArray::from_iter(text())),
        Arc::new(BinaryArray::from_iter(text())),
        Arc::new(BinaryViewArray::from_iter(text())),
        Arc::new(StringArray::from_iter([None::<&str>, None])),
        Arc::new(Int64Array::from(Vec::<i64>::new())),
        // Several batches, and rows of one value in several of them.
        Arc::new(Int64Array::from_iter_values((0..200_000).map(|row| row * 7919 % 50))),
    ];
    for column in columns {
        let index = ArrowIndex::build(&Device::host(), &column, Nulls::Skip).unwrap();
        for format in FORMATS {
            let read: ArrowIndex = format.read(format.written(&index)).unwrap();
            assert_eq!(rows(&read), rows(&index), "{format:?} {}", column.data_type());
            assert_eq!(read.get(&column).unwrap(), index.get(&column).unwrap());
        }
    }
}

fn batch(columns: [(&str, ArrayRef); 2]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

#[test]
fn files_of_other_programs_are_read() {
    let keys = TimestampSecondArray::from(vec![Some(30), None, Some(10), Some(20), Some(30)]);
    let values = UInt32Array::from(vec![Some(3), Some(9), Some(1), None, Some(4)]);
    let pairs = batch([("when", Arc::new(keys)), ("what", Arc::new(values))]);
    let words: DictionaryArray<types::Int8Type> = vec!["bee", "ant", "bee"].into_iter().collect();
    let places = batch([("word", Arc::new(words)), ("at", Arc::new(UInt64Array::from(vec![5, 0, 2])))]);
    for format in FORMATS {
        let file = format.foreign(&pairs);
        let read: LaneTree<i64, u32> = format.read_with(&Device::host(), file.clone(), Nulls::Skip).unwrap();
        assert_eq!(read.pairs().unwrap(), [(10, 1), (30, 4)]);
        let error = format.read::<LaneTree<i64, u32>>(file.clone()).unwrap_err();
        assert!(matches!(error, Error::Null { row: 1, nulls: 2 }), "{error}");
        let error = format.read::<LaneTree<i32, u32>>(file.clone()).unwrap_err().to_string();
        assert!(error.contains("UInt32], but the index needs keys that are Int32 and values of UInt32"), "{error}");
        let error = format.read::<Cuart<u32>>(file).unwrap_err();
        assert!(matches!(error, Error::Columns { .. }), "{error}");

        let read: ArrowIndex = format.read(format.foreign(&places)).unwrap();
        assert_eq!(rows(&read), (vec![0, 2, 5], 6, DataType::Utf8));
        let read: Cuart<u64> = format.read(format.foreign(&places)).unwrap();
        assert_eq!(read.get_many(&["ant", "bee"].into_iter().collect::<ByteKeysBuf>()).unwrap(), [Some(0), Some(2)]);
        let twice =
            batch([("key", Arc::new(Int32Array::from(vec![7, 8]))), ("row", Arc::new(UInt64Array::from(vec![4, 4])))]);
        let error = format.read::<ArrowIndex>(format.foreign(&twice)).unwrap_err().to_string();
        assert_eq!(error, "pair 1 of the file is of row 4, but pair 0 is, too");
        let huge = batch([
            ("key", Arc::new(Int32Array::from(vec![7]))),
            ("row", Arc::new(UInt64Array::from(vec![u64::MAX - 1]))),
        ]);
        assert!(matches!(format.read::<ArrowIndex>(format.foreign(&huge)), Err(Error::NoRoom { .. })));
    }
}

#[test]
fn damaged_files_are_errors() {
    let tree = LaneTree::<u64, u32>::build(&Device::host(), &[10, 20, 70_000], &[1, 2, 3]).unwrap();
    let words: ByteKeysBuf = ["", "car", "cargo"].into_iter().collect();
    let strings = Cuart::build(&Device::host(), &words, &[1_u32, 2, 3]).unwrap();
    let mut wrong = Vec::new();
    let (mut errors, mut mismatches) = (0, 0);
    for format in FORMATS {
        let whole = format.written(&tree);
        let other = format.written(&strings);
        for len in 0..whole.len() {
            let read = format.read::<LaneTree<u64, u32>>(whole[..len].to_vec());
            assert!(read.is_err(), "{format:?} of {len} bytes");
        }
        for at in 0..whole.len() {
            let mut file = whole.clone();
            file[at] ^= 1 << (at % 8);
            match format.read::<LaneTree<u64, u32>>(file) {
                // Not all bytes of a file are of its pairs.
                Ok(read) if read.pairs().unwrap() == tree.pairs().unwrap() => {}
                Ok(read) => wrong.push((format, at, format!("{:?}", read.pairs()))),
                Err(error) => {
                    errors += 1;
                    mismatches += usize::from(matches!(error, Error::Pairs { .. }));
                }
            }
        }
        for at in 0..other.len() {
            let mut file = other.clone();
            file[at] ^= 1 << (at % 8);
            match format.read::<Cuart<u32>>(file) {
                Ok(read) if read.get_many(&words).unwrap() == [Some(1), Some(2), Some(3)] && read.len() == 3 => {}
                Ok(read) => wrong.push((format, at, format!("{:?}", read.get_many(&words)))),
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 500 && mismatches > 50, "{errors} errors, {mismatches} of them by checksums");
    assert!(wrong.is_empty(), "{wrong:?}");
}
