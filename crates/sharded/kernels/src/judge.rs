//! As-of look-ups: which of the neighbours that all shards together have found count.

use core::marker::PhantomData;
use lanetree_simt::{
    FULL_MASK, Global, GlobalMut, Hint, Kernel, KeyWord, Near, NearArrays, Simt, Verdict, WARP, Word, kernel_args,
};

kernel_args! {
    /// Arguments of [`Sought`].
    pub struct SoughtArgs<K> {
        /// In the caller's form: `[count]`.
        pub queries: Global<K>,
        /// How many there are.
        pub count: u64,
        /// Out: `[count]`, in the caller's form.
        pub sought: GlobalMut<K>,
        /// Which neighbours count.
        pub near: Near<K>,
        /// What the caller's form is xored with.
        pub flip: K,
        /// Whether the neighbour below a query is looked for: 0 or 1.
        pub is_below: u32,
        #[doc(hidden)]
        pub padding: u32,
    }
}

/// The words to search for, instead of the queries. A thread for each.
#[derive(Debug)]
pub struct Sought<K>(PhantomData<K>);

impl<K: KeyWord> Kernel for Sought<K> {
    type Args = SoughtArgs<K>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let at = simt.global_index();
        if at < args.count {
            // SAFETY: a query, whose element is this thread's.
            unsafe {
                let word = simt.load(args.queries, at, Hint::Streaming).xor(args.flip);
                let sought = args.near.sought(word, args.is_below != 0);
                simt.store(args.sought, at, sought.xor(args.flip), Hint::Default);
            }
        }
    }
}

kernel_args! {
    /// Arguments of [`Judge`].
    pub struct JudgeArgs<K, V> {
        /// In the caller's form: `[count]`.
        pub queries: Global<K>,
        /// How many there are.
        pub count: u64,
        /// The keys of the neighbours that were found, in the caller's form: `[count]`; may be `keys`, as the next two may be outputs.
        pub found_keys: Global<K>,
        /// Their values: `[count]`.
        pub found_values: Global<V>,
        /// Which queries have one: `[ceil(count / 32)]`.
        pub found_hits: Global<u32>,
        /// Out: the keys of those that count. In, of a second search: those of the first one.
        pub keys: GlobalMut<K>,
        /// The same of their values.
        pub values: GlobalMut<V>,
        /// The same of the hit mask.
        pub hits: GlobalMut<u32>,
        /// Which neighbours count.
        pub near: Near<K>,
        /// What the caller's form is xored with.
        pub flip: K,
        /// The value of queries without a neighbour.
        pub miss: V,
    }
}

/// Keeps the neighbours that count; of a second search, the nearer ones. A thread for each query.
#[derive(Debug)]
pub struct Judge<K, V>(PhantomData<(K, V)>);

impl<K: KeyWord, V: Word> Kernel for Judge<K, V> {
    type Args = JudgeArgs<K, V>;

    #[inline(always)]
    unsafe fn run<S: Simt>(simt: S, args: &Self::Args) {
        let at = simt.global_index();
        let mut is_hit = false;
        if at < args.count {
            // SAFETY: a query, whose elements are this thread's; its warp's queries have a word of the masks to themselves.
            unsafe {
                let bits = simt.load(args.found_hits, at / u64::from(WARP), Hint::Default);
                let found = bits >> (at % u64::from(WARP)) & 1 != 0;
                let key = if found { simt.load(args.found_keys, at, Hint::Default) } else { K::MIN };
                let arrays = NearArrays { queries: args.queries, keys: args.keys, hits: args.hits };
                let verdict = args.near.judge(simt, at, args.flip, arrays, found.then_some(key.xor(args.flip)));
                match verdict {
                    Verdict::Found => {
                        simt.store(args.keys, at, key, Hint::Default);
                        let value = simt.load(args.found_values, at, Hint::Default);
                        simt.store(args.values, at, value, Hint::Default);
                    }
                    Verdict::Kept => {}
                    Verdict::Missed => simt.store(args.values, at, args.miss, Hint::Default),
                }
                is_hit = verdict.is_hit();
            }
        }
        let word = simt.ballot(FULL_MASK, is_hit);
        if at < args.count && simt.lane() == 0 {
            // SAFETY: a word of the mask.
            unsafe { simt.store(args.hits, at / u64::from(WARP), word, Hint::Default) };
        }
    }
}
