//! The pairs of scans, of the keys that they are of.

use crate::layout::{begin, count};
use core::marker::PhantomData;
use lanetree_simt::{Global, GlobalMut, Hint, Kernel, KeyWord, Simt, Word, kernel_args, last_where};

kernel_args! {
    /// Arguments of [`Scan`].
    pub struct ScanArgs<K, V> {
        /// The keys of each scan, from `i * limit` on, in ascending order and with no other key between two of them.
        pub keys: Global<K>,
        /// Their places.
        pub places: Global<u64>,
        /// How many keys each scan has, at most `limit`: `[count]`.
        pub key_counts: Global<u32>,
        /// How many scans.
        pub count: u64,
        /// Pairs of a scan, at most; at least one.
        pub limit: u64,
        /// `[len]`, in the order of the keys.
        pub values: Global<V>,
        /// Values.
        pub len: u64,
        /// Out: the key of each pair, from `i * limit` on.
        pub out_keys: GlobalMut<K>,
        /// Out: its value.
        pub out_values: GlobalMut<V>,
        /// Out: `[count]`, how many pairs each scan has.
        pub counts: GlobalMut<u32>,
    }
}

/// Copies the pairs of scans. One thread per pair that a scan may have; any block.
#[derive(Debug)]
pub struct Scan<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word> Kernel for Scan<K, V> {
    type Args = ScanArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let index = simt.global_index();
        let Some(scan) = index.checked_div(args.limit).filter(|&scan| scan < args.count) else { return };
        let within = index - scan * args.limit;
        // SAFETY: `scan` is a scan, whose keys are from `first` on; outputs are of the scan, and positions are checked.
        unsafe {
            let first = scan * args.limit;
            let keys = u64::from(simt.load(args.key_counts, scan, Hint::ReadOnly)).min(args.limit);
            let mut pairs = 0;
            let mut position = 0;
            if keys > 0 {
                position = begin(simt.load(args.places, first, Hint::ReadOnly));
                let last = simt.load(args.places, first + keys - 1, Hint::ReadOnly);
                pairs = (begin(last) + count(last)).saturating_sub(position).min(args.limit);
            }
            if within == 0 {
                simt.store(args.counts, scan, pairs as u32, Hint::Default);
            }
            position += within;
            if within < pairs && position < args.len {
                let holds = |key| begin(simt.load(args.places, key, Hint::ReadOnly)) <= position;
                let key = last_where(first, keys.min(within + 1), holds);
                simt.store(args.out_keys, index, simt.load(args.keys, key, Hint::ReadOnly), Hint::Streaming);
                simt.store(args.out_values, index, simt.load(args.values, position, Hint::EvictFirst), Hint::Streaming);
            }
        }
    }
}
