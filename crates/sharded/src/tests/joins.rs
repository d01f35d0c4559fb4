//! As-of look-ups, joins, and the nearest pairs in device form: against one index on the host.

use super::devices_for_tests;
use crate::{OnDevices, Sharded};
use lanetree::runtime::Failure;
use lanetree::{
    AsOf, Buffer, Closed, Composite, Device, DeviceMatches, DeviceRangeMatches, DeviceRanges, Error, F64, Join,
    JoinKind, JoinScratch, LaneTree, NearestScratch, RangeJoinScratch, Result, Stream, Ties, Validity,
};
use lanetree_frame::AnyKey;
use lanetree_frame::fixed::{RangeScratch, RowsOfProbes, Side, Steps};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type Index<K> = Sharded<LaneTree<K, u64>>;
type One<K> = LaneTree<K, u64>;

/// The same pairs in shards and in one index.
fn both<K: AnyKey>(devices: &[Device], mut keys: Vec<K>) -> Result<(Index<K>, One<K>)> {
    keys.sort_unstable();
    keys.dedup();
    let values: Vec<u64> = (0..keys.len() as u64).map(|i| i ^ 0x5a).collect();
    let one = LaneTree::build(&Device::host(), &keys, &values)?;
    Ok((Sharded::build(devices, LaneTree::builder(), &keys, &values)?, one))
}

/// Few groups of many keys each, so that borders are within groups; and one of a single key.
fn in_groups(random: &mut StdRng, count: usize) -> Vec<Composite<u32, u32>> {
    let mut key = |i| Composite::from((random.random_range(0..4_u32) * 3, random.random_range(0..900_u32) + i));
    (0..count as u32).map(|i| key(i % 3)).chain([(7, 7).into()]).collect()
}

/// Every direction, strict or not, within a distance or not, and both ties.
fn every_asof() -> Vec<AsOf> {
    let sides = [AsOf::backward(), AsOf::forward(), AsOf::nearest(), AsOf::nearest().ties(Ties::Forward)];
    let sides = sides.into_iter().flat_map(|how| [how, how.strict(true)]);
    sides.flat_map(|how| [how, how.tolerance(3), how.tolerance(40), how.tolerance(0)]).collect()
}

fn check_asof<K: AnyKey>(index: &Index<K>, one: &One<K>, stream: &Stream, asked: &[K], how: &AsOf) -> Result<()> {
    let (device, count) = (stream.device(), asked.len());
    let expected = one.asof_many(asked, how)?;
    assert_eq!(index.asof_many(asked, how)?, expected, "{how:?}");
    let queries = device.upload(asked)?;
    for on in on(index, stream) {
        let (mut keys, mut values) = (device.upload(asked)?, device.upload(&vec![5; count])?);
        let mut hits = device.upload(&vec![!0; count.div_ceil(32)])?;
        on.miss(77).asof(&queries, how, &mut keys, &mut values, &mut hits)?;
        let (keys, values, hits) = (keys.to_vec()?, values.to_vec()?, hits.to_vec()?);
        for (i, expected) in expected.iter().enumerate() {
            let is_hit = hits[i / 32] >> (i % 32) & 1 != 0;
            assert_eq!(is_hit.then_some((keys[i], values[i])), *expected, "{how:?} of {:?}", asked[i]);
            assert!(is_hit || values[i] == 77, "{how:?} of {:?}", asked[i]);
        }
        assert!(
            count % 32 == 0 || hits.last().is_none_or(|word| word >> (count % 32) == 0),
            "bits past the last query"
        );
    }
    Ok(())
}

/// Without the hint that queries ascend, and with it, whether they do or not.
fn on<'a, K: AnyKey>(index: &'a Index<K>, stream: &'a Stream) -> [OnDevices<'a, One<K>>; 2] {
    [index.on(stream), index.on(stream).sorted()]
}

fn check_nearest<K: AnyKey>(index: &Index<K>, one: &One<K>, stream: &Stream, asked: &[K], how: &AsOf) -> Result<()> {
    let (device, count) = (stream.device(), asked.len());
    let queries = device.upload(asked)?;
    // Longer than is needed.
    let mut scratch = NearestScratch::new(device, count + 3)?;
    for k in [1, 3] {
        let expected = one.k_nearest_many(asked, k, how)?;
        for on in on(index, stream) {
            let mut out = DeviceRanges::new(device, count, expected.keys.len())?;
            on.k_nearest(&queries, k, how, &mut scratch, &mut out)?;
            assert_eq!(out.offsets.to_vec()?, expected.offsets, "{how:?}, {k}");
            assert_eq!((out.keys.to_vec()?, out.values.to_vec()?), (expected.keys.clone(), expected.values.clone()));
            let mut out = DeviceRanges::without_keys(device, count, expected.values.len())?;
            on.k_nearest(&queries, k, how, &mut scratch, &mut out)?;
            assert_eq!(out.values.to_vec()?, expected.values, "{how:?}, {k}, without keys");
        }
    }
    Ok(())
}

#[test]
fn asof_looks_past_borders_and_not_past_groups() -> Result<()> {
    let mut random = StdRng::seed_from_u64(71);
    for devices in devices_for_tests() {
        let (index, one) = both(&devices, in_groups(&mut random, 300))?;
        let mut asked = in_groups(&mut random, 70);
        asked.extend([(0, 0), (u32::MAX, u32::MAX), (3, u32::MAX), (3, 0), (8, 1), (7, 7)].map(Composite::from));
        let stream = devices[devices.len() - 1].stream()?;
        for how in every_asof() {
            check_asof(&index, &one, &stream, &asked, &how)?;
        }
        for how in [AsOf::backward().strict(true), AsOf::nearest(), AsOf::forward().tolerance(40)] {
            check_nearest(&index, &one, &stream, &asked, &how)?;
        }
        check_asof(&index, &one, &stream, &[], &AsOf::nearest())?;
    }
    Ok(())
}

/// Shards that have no pairs are passed over.
#[test]
fn asof_of_numbers_and_of_few_pairs() -> Result<()> {
    let devices: Vec<_> = (0..3).map(Device::emulated_with_seed).collect();
    let stream = devices[1].stream()?;
    for keys in [vec![], vec![5_i64], vec![i64::MIN, -3, i64::MAX], (0..200).map(|i| i * 9 - 700).collect()] {
        let (index, one) = both(&devices, keys)?;
        let asked = [i64::MIN, i64::MIN + 1, -4, -3, 0, 4, 5, 6, 14, 600, i64::MAX - 1, i64::MAX];
        for how in every_asof() {
            check_asof(&index, &one, &stream, &asked, &how)?;
        }
        check_nearest(&index, &one, &stream, &asked, &AsOf::nearest().ties(Ties::Forward))?;
    }
    Ok(())
}

/// Nulls of every fifth probe, from a bit on.
fn nulls(device: &Device, count: usize) -> Result<(Buffer<u32>, Vec<u8>, usize)> {
    let from = 3;
    let mut bits = vec![0_u32; (from + count).div_ceil(32) + 1];
    (0..count).filter(|i| i % 5 != 2).for_each(|i| bits[(from + i) / 32] |= 1 << ((from + i) % 32));
    Ok((device.upload(&bits)?, bits.iter().flat_map(|word| word.to_le_bytes()).collect(), from))
}

const KINDS: [JoinKind; 4] = [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti];

fn check_joins<K: AnyKey>(index: &Index<K>, one: &One<K>, stream: &Stream, asked: &[K], other: &[K]) -> Result<()> {
    let (device, count) = (stream.device(), asked.len());
    let (probes, highs) = (device.upload(asked)?, device.upload(other)?);
    let (valid, bytes, from) = nulls(device, count)?;
    let mut scratch = JoinScratch::new(device, count + 3)?;
    let mut of_ranges = RangeJoinScratch::new(device, count + 3)?;
    for kind in KINDS {
        for has_nulls in [false, true] {
            let what = format!("{kind:?}, nulls: {has_nulls}, {count} probes");
            // With a hint that is wrong for most of these batches.
            let on = || match has_nulls {
                true => index.on(stream).sorted().kind(kind).valid(&valid, from),
                false => index.on(stream).sorted().kind(kind),
            };
            let join = match has_nulls {
                true => Join::new(kind).valid(Validity::new(&bytes, from, count)?),
                false => Join::new(kind),
            };
            let expected = one.join_as_many(asked, &join)?;
            let mut out = DeviceMatches::new(device, count)?;
            on().join(&probes, &mut scratch, &mut out)?;
            let rows = out.count.to_vec()?[0] as usize;
            assert_eq!(out.probes.to_vec()?[..rows], expected.probes, "{what}");
            if kind.has_rows() {
                assert_eq!(out.rows.to_vec()?[..rows], expected.rows, "{what}");
            }
            for closed in [Closed::Both, Closed::Left, Closed::Right, Closed::Neither] {
                let expected = one.range_join_as_many(asked, other, closed, &join)?;
                let room = expected.rows.len().max(count);
                let mut out = DeviceRangeMatches::new(device, count, room)?;
                on().range_join(&probes, &highs, closed, &mut of_ranges, &mut out)?;
                check_rows(&out, kind, &expected, &what)?;
                let mut out = DeviceRangeMatches::without_keys(device, count, room)?;
                on().range_join(&probes, &highs, closed, &mut of_ranges, &mut out)?;
                check_rows(&out, kind, &expected, &what)?;
            }
            let expected = one.band_join_as_many(asked, 25, &join)?;
            let mut out = DeviceRangeMatches::new(device, count, expected.rows.len().max(count))?;
            on().band_join(&probes, 25, &mut of_ranges, &mut out)?;
            check_rows(&out, kind, &expected, &what)?;
        }
    }
    let mut scratch = NearestScratch::new(device, count + 3)?;
    for k in [1, 4] {
        let expected = one.range_last_many(asked, other, k)?;
        for on in on(index, stream) {
            let mut out = DeviceRanges::new(device, count, expected.keys.len())?;
            on.range_last(&probes, &highs, k, &mut scratch, &mut out)?;
            assert_eq!(out.offsets.to_vec()?, expected.offsets, "{k}");
            assert_eq!((out.keys.to_vec()?, out.values.to_vec()?), (expected.keys.clone(), expected.values.clone()));
            let mut out = DeviceRanges::without_keys(device, count, expected.values.len())?;
            on.range_last(&probes, &highs, k, &mut scratch, &mut out)?;
            assert_eq!(out.values.to_vec()?, expected.values, "{k}, without keys");
        }
    }
    Ok(())
}

fn check_rows<K: AnyKey>(
    out: &DeviceRangeMatches<K, u64>,
    kind: JoinKind,
    expected: &lanetree::JoinRows<u64>,
    what: &str,
) -> Result<()> {
    let (offsets, probes) = (out.pairs.offsets.to_vec()?, out.probes.to_vec()?);
    let wanted = expected.probes()?;
    if !kind.has_rows() {
        assert_eq!(probes[..offsets[0] as usize], wanted, "{what}");
        return Ok(());
    }
    assert_eq!(offsets, expected.offsets, "{what}");
    assert_eq!(probes[..wanted.len()], wanted, "{what}");
    assert_eq!(out.pairs.values.to_vec()?[..wanted.len()], expected.rows, "{what}");
    Ok(())
}

#[test]
fn joins_on_devices_have_the_rows_of_one_index() -> Result<()> {
    let mut random = StdRng::seed_from_u64(72);
    for devices in devices_for_tests() {
        let (index, one) = both(&devices, (0..300).map(|_| random.random_range(0..2000_u64)).collect())?;
        let mut asked: Vec<u64> = (0..60).map(|_| random.random_range(0..2010)).collect();
        let mut other: Vec<u64> = asked.iter().map(|low| low + random.random_range(0..200) - low.min(&20)).collect();
        asked.extend([0, u64::MAX, 5, 7]);
        other.extend([u64::MAX, 0, 5, 7]);
        check_joins(&index, &one, &devices[0].stream()?, &asked, &other)?;
        check_joins(&index, &one, &devices[0].stream()?, &[], &[])?;
    }
    let devices: Vec<_> = (0..3).map(Device::emulated_with_seed).collect();
    let (none, one) = both(&devices, Vec::<u64>::new())?;
    check_joins(&none, &one, &devices[2].stream()?, &[1, 0, u64::MAX], &[2, u64::MAX, 0])
}

/// What is looked for round by round does not ascend where the queries do, nor do the ends of ranges where their starts do.
#[test]
fn queries_that_ascend_do_not_make_what_is_looked_for_ascend() -> Result<()> {
    let devices: Vec<_> = (0..2).map(Device::emulated_with_seed).collect();
    let (index, one) = both(&devices, vec![3_u64, 20, u64::MAX])?;
    let stream = devices[0].stream()?;
    check_nearest(&index, &one, &stream, &[3, u64::MAX - 1], &AsOf::nearest().strict(true))?;
    let (index, one) = both(&devices, (0..8_u64).collect())?;
    check_joins(&index, &one, &stream, &[0, 1], &[7, 2])
}

/// Steps that joins are made of are public to the other crates: each checks its buffers itself.
#[test]
fn steps_check_their_buffers() -> Result<()> {
    fn check<S: Steps<Key = u64, Value = u64>>(on: &S) -> Result<()> {
        let device = on.stream().device().clone();
        let (two, mut one, mut words) = (device.upload(&[1_u64, 2])?, device.alloc(1)?, device.alloc(2)?);
        let (mut hits, mut no_hits) = (device.alloc(1)?, device.alloc(0)?);
        let short = |done: Result<()>| assert!(matches!(done, Err(Error::OutputLength { .. })), "{done:?}");
        short(on.find_first(3, &two, &mut hits, &mut words, true));
        short(on.find_first(2, &two, &mut no_hits, &mut words, true));
        short(on.find_first(2, &two, &mut hits, &mut one, true));
        short(on.count_first(3, (&two, &two), 9, &mut words));
        short(on.count_first(2, (&two, &two), 9, &mut one));
        let mut other = device.alloc(2)?;
        short(on.neighbors_first(3, Side::Lower, &two, &mut words, &mut other));
        short(on.neighbors_first(2, Side::Lower, &two, &mut one, &mut other));
        short(on.neighbors_first(2, Side::Lower, &two, &mut words, &mut one));
        let mut ranges = RangeScratch::new(&device, 2)?;
        let mut out = DeviceRanges::new(&device, 2, 4)?;
        short(on.range_first(3, (&two, &two), &mut ranges, &mut out));
        out.values = device.alloc(3)?;
        short(on.range_first(2, (&two, &two), &mut ranges, &mut out));
        let mut first = RangeScratch::new(&device, 1)?;
        let mut rows = |count: usize, hits: &mut Buffer<u32>, out: &mut DeviceRanges<u64, u64>| {
            let all = (&two, &two);
            let rows = RowsOfProbes { valid: None, is_left: true, hits, ranges: &mut ranges, all, first: &mut first };
            short(on.rows_first(count, (&two, &two), rows, out));
        };
        rows(2, &mut hits, &mut out);
        out.values = device.alloc(4)?;
        rows(3, &mut hits, &mut out);
        rows(2, &mut no_hits, &mut out);
        Ok(())
    }
    for devices in [vec![Device::emulated(), Device::emulated()], vec![Device::host(); 2]] {
        let (index, _) = both(&devices, (0..60_u64).collect())?;
        let one = LaneTree::build(&devices[0], &[1_u64, 2], &[3_u64, 4])?;
        let stream = devices[0].stream()?;
        check(&index.on(&stream))?;
        check(&one.on(&stream))?;
    }
    Ok(())
}

#[test]
fn joins_on_devices_have_errors_that_name_the_value() -> Result<()> {
    let devices: Vec<_> = (0..2).map(Device::emulated_with_seed).collect();
    let (index, _) = both(&devices, (0..60_u64).collect())?;
    let (here, stream) = (&devices[0], devices[0].stream()?);
    let (two, one, there) = (here.upload(&[1_u64, 2])?, here.upload(&[1_u64])?, devices[1].upload(&[1_u64, 2])?);
    let text = |result: Result<()>| result.expect_err("an error").to_string();
    let (mut keys, mut values, mut hits) = (here.alloc(2)?, here.alloc(2)?, here.alloc(1)?);
    let how = AsOf::backward();
    assert!(text(index.on(&stream).asof(&there, &how, &mut keys, &mut values, &mut hits)).contains("buffer"));
    let mut short = here.alloc(1)?;
    let error = text(index.on(&stream).asof(&two, &how, &mut keys, &mut short, &mut hits));
    assert!(error.contains("the values' buffer"), "{error}");
    assert!(text(index.on(&stream).limit(1).asof(&two, &how, &mut keys, &mut values, &mut hits)).contains("limit"));
    let (mut scratch, mut out) = (JoinScratch::new(here, 1)?, DeviceMatches::new(here, 2)?);
    assert!(text(index.on(&stream).join(&two, &mut scratch, &mut out)).contains("the scratch memory"));
    let mut scratch = JoinScratch::new(here, 2)?;
    let elsewhere = Device::emulated().stream()?;
    assert!(text(index.on(&elsewhere).join(&two, &mut scratch, &mut out)).contains("the stream"));
    let mut scratch = RangeJoinScratch::new(here, 2)?;
    let mut out = DeviceRangeMatches::new(here, 2, 2)?;
    let done = index.on(&stream).range_join(&two, &one, Closed::Both, &mut scratch, &mut out);
    assert!(matches!(done, Err(Error::BoundLengths { .. })), "{done:?}");
    let (index, _) = both(&devices, vec![F64::from(1.0)])?;
    let queries = here.upload(&[F64::from(2.0)])?;
    let (mut keys, how) = (here.alloc(1)?, AsOf::nearest());
    assert!(text(index.on(&stream).asof(&queries, &how, &mut keys, &mut values, &mut hits)).contains("floats"));
    Ok(())
}

/// Every failure of each device, at each of its points.
#[test]
fn joins_on_devices_that_fail_say_so() -> Result<()> {
    let mut failed = 0;
    let asked: Vec<u64> = (0..20).map(|i| i * 31).collect();
    for failing in 0..3 {
        for kind in Failure::KINDS {
            for at in Failure::points(kind) {
                let devices: Vec<_> = (0..3).map(Device::emulated_with_seed).collect();
                let (index, one) = both(&devices, (0..60).map(|i| i * 10).collect())?;
                let (here, stream) = (&devices[0], devices[0].stream()?);
                let (valid, bytes, from) = nulls(here, asked.len())?;
                let join = Join::new(JoinKind::Left).valid(Validity::new(&bytes, from, asked.len())?);
                let rows = one.band_join_as_many(&asked, 25, &join)?;
                let near = one.asof_many(&asked, &AsOf::nearest().strict(true))?;
                let near: Vec<u64> = near.into_iter().map(|pair| pair.map_or(u64::MAX, |pair| pair.1)).collect();
                let queries = here.upload(&asked)?;
                let mut scratch = RangeJoinScratch::new(here, asked.len())?;
                let mut ask = || {
                    let mut out = DeviceRangeMatches::new(here, asked.len(), rows.rows.len())?;
                    let on = index.on(&stream).kind(JoinKind::Left).valid(&valid, from);
                    on.band_join(&queries, 25, &mut scratch, &mut out)?;
                    let (mut keys, mut values) = (here.alloc(asked.len())?, here.alloc(asked.len())?);
                    let (mut hits, how) = (here.alloc(1)?, AsOf::nearest().strict(true));
                    index.on(&stream).asof(&queries, &how, &mut keys, &mut values, &mut hits)?;
                    devices.iter().try_for_each(|device| Ok::<_, Error>(device.synchronize()?))?;
                    Ok::<_, Error>((out.pairs.offsets.to_vec()?, out.pairs.values.to_vec()?, values.to_vec()?))
                };
                devices[failing].inject(Some(kind(at)));
                let done = ask();
                let has_failed = devices[failing].inject(None).is_none();
                let what = format!("{:?} of device {failing}", kind(at));
                assert_eq!(done.is_err(), has_failed, "{what}: {:?}", done.err());
                let (offsets, values, found) = ask()?;
                assert_eq!((offsets, values, found), (rows.offsets, rows.rows, near), "after {what}");
                if !has_failed {
                    break;
                }
                failed += 1;
            }
        }
    }
    assert!(failed > 20, "{failed} points");
    Ok(())
}
