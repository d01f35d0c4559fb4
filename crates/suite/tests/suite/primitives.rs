//! Primitives whose device fails at any point: they say so, and their scratch memory stays usable.

use lanetree::primitives::{
    Keys, KeysMut, MergeRule, MergeScratch, Pairs, PairsMut, RadixSortScratch, RunScratch, ScanScratch, SelectScratch,
    exclusive_scan, inclusive_max_scan, last_by_key, local_sort_pairs, merge, partition, radix_argsort, radix_sort,
    radix_sort_in_place, run_lengths, select, sum_by_key, unique_keys,
};
use lanetree::runtime::Failure;
use lanetree::{Buffer, Device, Error, Result, Stream};

/// What primitives work on: two sorted sequences and one in any order.
struct Work {
    stream: Stream,
    keys: Buffer<u64>,
    values: Buffer<u32>,
    sorted: Buffer<u64>,
    flags: Buffer<u32>,
    out_keys: Buffer<u64>,
    out_values: Buffer<u32>,
    sums: Buffer<u64>,
    count: Buffer<u64>,
    sort: RadixSortScratch<u64, u32>,
    runs: RunScratch,
    scan: ScanScratch,
    select: SelectScratch,
    merge: MergeScratch,
}

const LEN: usize = 5000;

impl Work {
    fn new(device: &Device) -> Self {
        let keys: Vec<u64> = (0..LEN as u64).map(|i| i * 7919 % 1000).collect();
        let values: Vec<u32> = (0..LEN as u32).map(|i| i % 77).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        Self {
            stream: device.stream().unwrap(),
            keys: device.upload(&keys).unwrap(),
            values: device.upload(&values).unwrap(),
            sorted: device.upload(&sorted).unwrap(),
            flags: device.upload(&vec![0x0f0f_3c5a; LEN.div_ceil(32)]).unwrap(),
            out_keys: device.alloc_zeroed(2 * LEN).unwrap(),
            out_values: device.alloc_zeroed(2 * LEN).unwrap(),
            sums: device.alloc_zeroed(2 * LEN).unwrap(),
            count: device.alloc_zeroed(4).unwrap(),
            sort: RadixSortScratch::for_pairs(device, LEN).unwrap(),
            runs: RunScratch::new(device, LEN).unwrap(),
            scan: ScanScratch::new(device, LEN).unwrap(),
            select: SelectScratch::new(device, LEN).unwrap(),
            merge: MergeScratch::new(device, 2 * LEN).unwrap(),
        }
    }

    fn results(&self) -> (Vec<u64>, Vec<u32>, Vec<u64>, u64) {
        let count = self.count.to_vec().unwrap()[0];
        (self.out_keys.to_vec().unwrap(), self.out_values.to_vec().unwrap(), self.sums.to_vec().unwrap(), count)
    }
}

#[test]
fn a_primitive_that_fails_says_so_and_its_scratch_memory_stays_usable() {
    type Call = fn(&mut Work) -> Result<()>;
    let calls: [(&str, Call); 17] = [
        ("radix_sort_keys", |it| radix_sort(&it.stream, &it.keys, LEN, 0..64, &mut it.out_keys, &mut it.sort)),
        ("radix_sort_pairs", |it| {
            let out = (&mut it.out_keys, &mut it.out_values);
            radix_sort(&it.stream, (&it.keys, &it.values), LEN, 0..64, out, &mut it.sort)
        }),
        ("last_by_key", |it| {
            let input = Pairs { keys: &it.sorted, values: &it.values, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.out_values, count: &mut it.count };
            last_by_key(&it.stream, input, out, &mut it.runs)
        }),
        ("exclusive_scan", |it| exclusive_scan(&it.stream, &it.values, LEN, &mut it.sums, &mut it.scan)),
        ("radix_argsort", |it| {
            radix_argsort(&it.stream, &it.keys, LEN, 0..64, &mut it.out_keys, &mut it.out_values, &mut it.sort)
        }),
        ("radix_sort_keys_in_place", |it| {
            it.out_keys.copy_from_buffer(&it.stream, 0, &it.keys, 0..LEN)?;
            radix_sort_in_place(&it.stream, &mut it.out_keys, LEN, 0..20, &mut it.sort)
        }),
        ("radix_sort_pairs_in_place", |it| {
            it.out_keys.copy_from_buffer(&it.stream, 0, &it.keys, 0..LEN)?;
            it.out_values.copy_from_buffer(&it.stream, 0, &it.values, 0..LEN)?;
            let pairs = (&mut it.out_keys, &mut it.out_values);
            radix_sort_in_place(&it.stream, pairs, LEN, 0..20, &mut it.sort)
        }),
        ("local_sort_pairs", |it| {
            it.out_keys.copy_from_buffer(&it.stream, 0, &it.keys, 0..LEN)?;
            it.out_values.copy_from_buffer(&it.stream, 0, &it.values, 0..LEN)?;
            local_sort_pairs(&it.stream, &mut it.out_keys, &mut it.out_values, LEN, 0, &mut it.count)
        }),
        ("inclusive_max_scan", |it| inclusive_max_scan(&it.stream, &it.keys, LEN, &mut it.sums, &mut it.scan)),
        ("unique_keys", |it| {
            let input = Keys { keys: &it.sorted, count: LEN.into() };
            unique_keys(&it.stream, input, KeysMut { keys: &mut it.out_keys, count: &mut it.count }, &mut it.runs)
        }),
        ("run_lengths", |it| {
            let input = Keys { keys: &it.sorted, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.sums, count: &mut it.count };
            run_lengths(&it.stream, input, out, &mut it.runs)
        }),
        ("sum_by_key", |it| {
            let input = Pairs { keys: &it.sorted, values: &it.values, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.sums, count: &mut it.count };
            sum_by_key(&it.stream, input, out, &mut it.runs)
        }),
        ("select", |it| {
            let input = Keys { keys: &it.keys, count: LEN.into() };
            let out = KeysMut { keys: &mut it.out_keys, count: &mut it.count };
            select(&it.stream, input, &it.flags, out, &mut it.select)?;
            let input = Pairs { keys: &it.keys, values: &it.values, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.out_values, count: &mut it.count };
            select(&it.stream, input, &it.flags, out, &mut it.select)
        }),
        ("partition", |it| {
            let input = Keys { keys: &it.keys, count: LEN.into() };
            let out = KeysMut { keys: &mut it.out_keys, count: &mut it.count };
            partition(&it.stream, input, &it.flags, out, &mut it.select)?;
            let input = Pairs { keys: &it.keys, values: &it.values, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.out_values, count: &mut it.count };
            partition(&it.stream, input, &it.flags, out, &mut it.select)
        }),
        ("merge_keys", |it| {
            let input = Keys { keys: &it.sorted, count: LEN.into() };
            let out = KeysMut { keys: &mut it.out_keys, count: &mut it.count };
            merge(&it.stream, MergeRule::KeepBoth, input, input, out, &mut it.merge)
        }),
        ("merge_pairs", |it| {
            let input = Pairs { keys: &it.sorted, values: &it.values, count: LEN.into() };
            let out = PairsMut { keys: &mut it.out_keys, values: &mut it.out_values, count: &mut it.count };
            merge(&it.stream, MergeRule::KeepBoth, input, input, out, &mut it.merge)
        }),
        ("scratch memory", |it| {
            // Its own allocations.
            let device = it.stream.device();
            it.sort = RadixSortScratch::for_pairs(device, LEN)?;
            it.runs = RunScratch::new(device, LEN)?;
            it.scan = ScanScratch::new(device, LEN)?;
            it.select = SelectScratch::new(device, LEN)?;
            it.merge = MergeScratch::new(device, 2 * LEN)?;
            inclusive_max_scan(&it.stream, &it.keys, LEN, &mut it.sums, &mut it.scan)
        }),
    ];
    for (name, call) in calls {
        let work = |it: &mut Work| {
            call(it)?;
            Ok(it.stream.synchronize()?)
        };
        let mut whole = Work::new(&Device::emulated());
        let before = whole.results();
        work(&mut whole).unwrap();
        let expected = whole.results();
        assert!(before != expected, "{name} has written something");
        let errors = Failure::at_every_point(Work::new, work, |it, error| {
            assert!(matches!(error, Error::Runtime(_)), "{name}: {error}");
            work(it).unwrap();
            assert!(it.results() == expected, "{name} after {error}");
        });
        assert!(errors.len() >= 2, "{name}: a launch that is refused, and a kernel that fails");
    }
}
