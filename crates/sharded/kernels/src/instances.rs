//! The instances that are compiled, one of each kernel per word; `calls` chooses among them.

use crate::{Back, Cut, Judge, Merge, Owners, Permute, PutPairs, Scatter, Settle, Share, Sought};
use lanetree_simt::instance;

macro_rules! instances {
    ($($k:ident)*) => {
        pastey::paste! {$(
            instance!([<sharded__scatter_ $k>], sharded, Scatter<$k>);
            instance!([<sharded__cut_ $k>], sharded, Cut<$k>);
            instance!([<sharded__settle_ $k>], sharded, Settle<$k>);
            instance!([<sharded__back_ $k>], sharded, Back<$k>);
            instance!([<sharded__put_pairs_ $k>], sharded, PutPairs<$k>);
            instance!([<sharded__owners_ $k>], sharded, Owners<$k>);
            instance!([<sharded__permute_ $k>], sharded, Permute<$k>);
            instance!([<sharded__sought_ $k>], sharded, Sought<$k>);
            instance!([<sharded__judge_ $k _u32>], sharded, Judge<$k, u32>);
            instance!([<sharded__judge_ $k _u64>], sharded, Judge<$k, u64>);
        )*}
    };
}
instances!(u32 u64 u128);
instance!(sharded__share, sharded, Share);
instance!(sharded__merge, sharded, Merge);
