//! Builds from sorted pieces.

use super::{Map, compare, emulated};
use crate::{ShardPieces, Sharded};
use lanetree::{Device, Error, LaneTree, OrderedIndex, Result};

/// Pieces from main memory and from devices, the shards' own and others.
#[test]
fn shards_are_built_from_sorted_pieces() -> Result<()> {
    for devices in [vec![Device::host(); 3], emulated(3)] {
        for sizes in [[500, 300, 0], [0, 7, 250], [1, 0, 1], [0, 0, 0], [0, 9, 0]] {
            let (mut map, mut next, mut shards) = (Map::new(), 0, Vec::new());
            for (shard, &size) in sizes.iter().enumerate() {
                let mut pieces = ShardPieces::new(&devices[shard], size + 1)?;
                let all: Vec<u64> = (0..size as u64).map(|i| (next + i) * 3).collect();
                next += size as u64;
                for (number, keys) in all.chunks(90).enumerate() {
                    let values: Vec<u64> = keys.iter().map(|key| key ^ 0x55).collect();
                    map.extend(keys.iter().copied().zip(values.iter().copied()));
                    let at = &devices[number % 3];
                    match number % 4 {
                        0 => pieces.push(keys, &values)?,
                        _ => {
                            let (len, stream) = (keys.len(), at.stream()?);
                            pieces.push_on(&stream, &at.upload(keys)?, &at.upload(&values)?, len)?;
                        }
                    }
                }
                // The last key again: its last value is kept.
                if let Some(&last) = all.last() {
                    pieces.push(&[last], &[1])?;
                    map.insert(last, 1);
                }
                assert_eq!((pieces.len(), pieces.is_empty()), (size + usize::from(size > 0), size == 0));
                shards.push(pieces);
            }
            let mut index = Sharded::from_pieces(LaneTree::builder(), shards)?;
            let asked: Vec<u64> = map.keys().step_by(40).flat_map(|&key| [key, key + 1]).chain([0, u64::MAX]).collect();
            compare(&index, &map, &asked)?;
            index.insert_many(&[1, 4000, u64::MAX], &[1, 2, 3])?;
            map.extend([(1, 1), (4000, 2), (u64::MAX, 3)]);
            compare(&index, &map, &asked)?;
        }
    }
    Ok(())
}

#[test]
fn pieces_that_are_not_in_order_are_errors_and_leave_those_before() -> Result<()> {
    let device = Device::emulated();
    let pieces = |keys: &[u64]| {
        let mut pieces = ShardPieces::new(&device, 4)?;
        pieces.push(keys, keys)?;
        Ok::<_, Error>(pieces)
    };
    let mut first = pieces(&[5, 7])?;
    let stream = device.stream()?;
    let (above, below) = (device.upload(&[9_u64, 8])?, device.upload(&[6_u64, 9])?);
    let refused = [
        first.push(&[8, 9], &[1]),
        first.push(&[8, 7], &[1, 2]),
        first.push(&[6], &[1]),
        first.push(&[8, 9, 10], &[1, 2, 3]),
        first.push_on(&stream, &above, &above, 2),
        first.push_on(&stream, &below, &below, 2),
        first.push_on(&stream, &below, &below, 3),
        first.push_on(&Device::host().stream()?, &above, &above, 2),
    ];
    let refused = refused.map(|result| result.expect_err("refused").to_string());
    let words =
        ["2 keys", "keys[1] = 7", "= 6 is below the last one", "holds 4", "keys[1] = 8", "= 6 is", "holds 2", "host"];
    assert!(refused.iter().zip(words).all(|(error, word)| error.contains(word)), "{refused:#?}");
    assert_eq!(first.len(), 2);
    let index = Sharded::from_pieces(LaneTree::builder(), vec![first, pieces(&[9])?])?;
    compare(&index, &[(5, 5), (7, 7), (9, 9)].into(), &[5, 6, 9])?;

    let build = |shards: [&[u64]; 2]| {
        let shards = shards.map(pieces).into_iter().collect::<Result<Vec<_>>>()?;
        Sharded::from_pieces(LaneTree::<u64, u64>::builder(), shards)
    };
    let refused = [
        build([&[5, 7], &[6]]),
        build([&[5, 7], &[7, 8]]),
        build([&[u64::MAX], &[]]),
        Sharded::from_pieces(LaneTree::builder(), Vec::new()),
        Sharded::from_pieces(
            LaneTree::builder(),
            vec![{
                let mut pieces = ShardPieces::new(&device, 4)?;
                let keys = device.upload(&[3_u64, 1, 7])?;
                pieces.push_on(&stream, &keys, &keys, 3)?;
                pieces
            }],
        ),
    ];
    let refused = refused.map(|result| result.expect_err("refused").to_string());
    let words = ["= 6 is below", "= 7 equals", "a shard without pairs", "a number of devices", "= 1 is below"];
    assert!(refused.iter().zip(words).all(|(error, word)| error.contains(word)), "{refused:#?}");
    Ok(())
}
