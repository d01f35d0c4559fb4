//! The kernel against a loop on the CPU, on the emulator, which checks every access and collective; on a GPU, too, if there is one.

use lanetree::kernel::Key;
use lanetree::{Device, Error, LaneTree};
use std::collections::BTreeMap;
use sum_by_group::{Rows, sum_by_group};

fn devices() -> Vec<Device> {
    let mut devices: Vec<_> = (0..3).map(Device::emulated_with_seed).collect();
    match Device::cuda(0) {
        Ok(gpu) => devices.push(gpu),
        Err(error) => eprintln!("SKIPPED on a GPU: {error}"),
    }
    devices
}

fn sums<K: Key>(key: impl Fn(u64) -> K) {
    const GROUPS: usize = 7;
    for device in devices() {
        // Group 7 has no sum.
        let map: BTreeMap<K, u32> = (0..500).map(|i| (key(2 * i), (i % 8) as u32)).collect();
        let (keys, groups): (Vec<K>, Vec<u32>) = map.iter().map(|(key, group)| (*key, *group)).unzip();
        let tree = LaneTree::build(&device, &keys, &groups).unwrap();
        let stream = device.stream().unwrap();
        for count in [0, 1, 33, 5000] {
            let rows: Vec<(K, u64)> = (0..count).map(|i| (key(i * 7919 % 1000), i)).collect();
            let (keys, amounts): (Vec<K>, Vec<u64>) = rows.iter().copied().unzip();
            let (keys, amounts) = (device.upload(&keys).unwrap(), device.upload(&amounts).unwrap());
            let mut sums = device.upload(&[0_u64; GROUPS]).unwrap();
            sum_by_group(&stream, &tree, Rows { keys: &keys, amounts: &amounts }, &mut sums).unwrap();
            stream.synchronize().unwrap();

            let mut expected = [0_u64; GROUPS];
            for (key, amount) in rows {
                if let Some(sum) = map.get(&key).and_then(|group| expected.get_mut(*group as usize)) {
                    *sum += amount;
                }
            }
            assert_eq!(sums.to_vec().unwrap(), expected, "{count} rows on {device}");
        }
    }
}

#[test]
fn rows_are_summed_by_the_group_of_their_key() {
    sums::<u64>(|i| i << 40);
    sums::<u32>(|i| u32::MAX - i as u32);
    sums::<i64>(|i| i as i64 - 500);
}

#[test]
fn too_few_amounts_are_an_error() {
    let device = Device::emulated();
    let tree = LaneTree::build(&device, &[1_u64], &[0_u32]).unwrap();
    let (keys, amounts) = (device.upload(&[1_u64, 2]).unwrap(), device.upload(&[1_u64]).unwrap());
    let mut sums = device.upload(&[0_u64]).unwrap();
    let rows = Rows { keys: &keys, amounts: &amounts };
    let error = sum_by_group(&device.stream().unwrap(), &tree, rows, &mut sums).unwrap_err();
    assert!(matches!(error, Error::OutputLength { expected: 2, actual: 1, .. }), "{error}");
}
