//! What is loaded ahead of an operation is what it launches. Alone in its process, as all launches of a process are recorded.

use lanetree::lane_tree::{BuildScratch, UpdateScratch};
use lanetree::runtime::{record_kernels, recorded_kernels};
use lanetree::{AnyKey, Batch, Bytes16, Device, LaneTree, Result, UpdatePath, Value};
use lanetree_lane_tree::ahead::{of_builds, of_changes, of_divisions, of_rebuilds};
use std::collections::BTreeSet;

/// Symbols that no operation so far has launched.
fn new(before: &mut BTreeSet<&'static str>) -> BTreeSet<&'static str> {
    let all = recorded_kernels();
    let new = &all - before;
    *before = all;
    new
}

#[test]
fn the_kernels_of_first_operations_are_loaded_ahead() -> Result<()> {
    record_kernels(true);
    let device = Device::emulated();
    let stream = device.stream()?;
    let mut before = BTreeSet::new();
    let symbols =
        |kernels: Vec<&'static lanetree_simt::Entry>| kernels.iter().map(|k| k.symbol()).collect::<BTreeSet<_>>();
    let check = |launched: &BTreeSet<&'static str>, ahead: &BTreeSet<&'static str>| {
        assert!(launched.is_subset(ahead), "not loaded ahead: {:?}", launched - ahead);
    };
    let len = 20_000;
    let keys: Vec<u64> = (0..len).map(|i| i * 1_000).collect();
    let (k, v) = (device.upload(&keys)?, device.upload(&keys)?);

    let mut tree = LaneTree::<u64, u64>::build(&device, &keys, &keys)?;
    assert_eq!(tree.get_many(&keys[..100])?[99], Some(keys[99]));
    let sorted = symbols(of_builds::<u64, u64>(None));
    let launched = new(&mut before);
    check(&launched, &sorted);
    assert!(launched.len() > 6);

    let mut scratch = BuildScratch::for_unsorted(&device, keys.len())?;
    LaneTree::<u64, u64>::builder().build_on(&stream, &k, &v, keys.len(), &mut scratch)?;
    check(&new(&mut before), &symbols(of_builds::<u64, u64>(Some(keys.len()))));

    let mut paths = Vec::new();
    let everywhere = (0..len).map(|i| i * 1_000 + 500).collect::<Vec<_>>();
    for batch in [(5..2_000_u64).map(|i| i * 100 + 1).collect(), vec![777, 12_345], everywhere] {
        let mut scratch = UpdateScratch::new(&device, batch.len())?;
        for fill in [1.0, 0.5] {
            tree = LaneTree::<u64, u64>::builder().fill(fill).build(&device, &keys, &keys)?;
            let (k, v) = (device.upload(&batch)?, device.upload(&batch)?);
            let path = tree.apply_on(&stream, Batch::inserts(&k, &v), &mut scratch)?.path;
            let mut ahead = of_changes::<u64, u64>(batch.len());
            match path {
                UpdatePath::Moved => ahead.extend(of_divisions::<u64, u64>()),
                UpdatePath::Rebuilt => ahead.extend(of_rebuilds::<u64, u64>()),
                _ => {}
            }
            check(&new(&mut before), &symbols(ahead));
            paths.push(path);
        }
    }
    assert!(
        [UpdatePath::InPlace, UpdatePath::Moved, UpdatePath::Rebuilt].iter().all(|path| paths.contains(path)),
        "{paths:?}"
    );
    // All that is loaded ahead exists, whatever the words.
    fn exist<K: AnyKey, V: Value>() {
        let builds = [of_builds::<K, V>(Some(1 << 20)), of_rebuilds::<K, V>()];
        for kernel in [builds.concat(), of_changes::<K, V>(1 << 10), of_divisions::<K, V>()].concat() {
            assert!(kernel.symbol().starts_with(kernel.module().name));
        }
    }
    exist::<u32, u32>();
    exist::<i64, ()>();
    exist::<Bytes16, u32>();
    Ok(())
}
