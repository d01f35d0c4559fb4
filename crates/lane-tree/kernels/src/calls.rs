//! The choice of a kernel by its words. Next to each call is a function that returns its entry (`get_entry` for `get`),
//! by which it is loaded ahead.

use crate::{
    Aggregate, AggregateArgs, AssignOthers, AssignOthersArgs, AssignParts, AssignPartsArgs, BucketChangesArgs,
    CopyPairs, CopyPairsArgs, Count, CountOthers, CountUpper, Counted, CountedArgs, Cut, CutArgs, Ends, EndsArgs,
    Gather, GatherArgs, GatherBesideWindows, GatherSorted, GatherSortedArgs, Get, GetArgs, GetSorted, ListNodes,
    ListNodesArgs, ListSplit, ListSplitArgs, Locate, LocateArgs, LocateBesideWindows, LocateSorted, LocateSortedArgs,
    MovePairs, MovePairsArgs, Neighbor, NeighborArgs, NeighborBesideWindows, NeighborSorted, NeighborSortedArgs,
    NodeChangesArgs, NodesArgs, PlanBuckets, PlanNodes, PlanShifts, Rank, RankArgs, RankBesideWindows, RankCountedArgs,
    RankSorted, RankSortedArgs, Ranks, RanksArgs, Rebuild, RebuildArgs, Relocate, RelocateArgs, Scan, ScanArgs,
    ScanBesideWindows, ScanSorted, ScanSortedArgs, ScanWide, Search, SearchArgs, SizeOthers, SizeOthersArgs, SizeSplit,
    SizeSplitArgs, Spans, Starts, StartsArgs, Table, TableArgs, UpperArgs, Write, WriteBuckets, WriteNodes,
    WriteOthers, WriteShifts, WriteUpper,
};
use core::ptr;
use lanetree_layout::Value;
use lanetree_simt::{Call, Entry, Instance, KeyWord, Word, entry_by_words};

macro_rules! by_words {
    ($($(#[$doc:meta])* $function:ident($($args:tt)*) => $kernel:ty;)*) => { pastey::paste! {$(
        $(#[$doc])*
        pub const fn [<$function _entry>]<K: KeyWord, V: Value>() -> &'static Entry {
            const fn of_pairs<K: KeyWord, V: Word>() -> &'static Entry {
                entry_by_words!(K: KeyWord, V => $kernel)
            }
            const fn of_set<K: KeyWord>() -> &'static Entry {
                type V = ();
                entry_by_words!(K: KeyWord => $kernel)
            }
            const { if V::IS_SOME { of_pairs::<K, V::Word>() } else { of_set::<K>() } }
        }

        $(#[$doc])*
        pub fn $function<K: KeyWord, V: Value>(args: &$($args)*) -> Call<'_> {
            Call::new([<$function _entry>]::<K, V>(), args)
        }
    )*}};
}
by_words! {
    /// The kernel that copies all pairs.
    copy_pairs(CopyPairsArgs<K, V>) => CopyPairs<K, V>;
    /// The look-up.
    get(GetArgs<K, V>) => Get<K, V>;
    /// The look-up of queries of which the device has the number.
    get_counted(CountedArgs<GetArgs<K, V>>) => Counted<Get<K, V>>;
    /// The kernel that copies ranges, with 8 lanes per range.
    gather_narrow(GatherArgs<K, V>) => Gather<K, V, 8>;
    /// The kernel that copies ranges, with a warp per range.
    gather_wide(GatherArgs<K, V>) => Gather<K, V, 32>;
    /// The kernel that copies ranges from sorted keys on.
    gather_sorted(GatherSortedArgs<K, V>) => GatherSorted<K, V>;
    /// The kernel for those of them that have no window.
    gather_beside_windows(GatherSortedArgs<K, V>) => GatherBesideWindows<K, V>;
    /// The look-up of sorted queries of which many share a bucket.
    get_sorted_dense(GetArgs<K, V>) => GetSorted<K, V, 2>;
    /// The look-up of sorted queries of which few share a bucket.
    get_sorted_sparse(GetArgs<K, V>) => GetSorted<K, V, 1>;
    /// The kernel that copies the pairs of nodes that are split, and those that a batch inserts into them.
    move_pairs(MovePairsArgs<K, V>) => MovePairs<K, V>;
    /// The neighbour kernel.
    neighbor(NeighborArgs<K, V>) => Neighbor<K, V>;
    /// The neighbour kernel of queries of which the device has the number.
    neighbor_counted(CountedArgs<NeighborArgs<K, V>>) => Counted<Neighbor<K, V>>;
    /// The neighbour kernel for sorted queries.
    neighbor_sorted(NeighborSortedArgs<K, V>) => NeighborSorted<K, V>;
    /// The kernel for those neighbours of sorted queries that have no window.
    neighbor_beside_windows(NeighborSortedArgs<K, V>) => NeighborBesideWindows<K, V>;
    /// The kernel that plans nodes that are rewritten.
    plan_nodes(NodeChangesArgs<K, V>) => PlanNodes<K, V>;
    /// The kernel that writes a tree anew with a batch.
    rebuild(RebuildArgs<K, V>) => Rebuild<K, V>;
    /// The kernel that makes short scans.
    scan(ScanArgs<K, V>) => Scan<K, V>;
    /// The kernel that makes scans from sorted keys on.
    scan_sorted(ScanSortedArgs<K, V>) => ScanSorted<K, V>;
    /// The kernel for those scans of sorted queries that have no window.
    scan_beside_windows(ScanSortedArgs<K, V>) => ScanBesideWindows<K, V>;
    /// The kernel that makes longer ones.
    scan_wide(ScanArgs<K, V>) => ScanWide<K, V>;
    /// The kernel that changes buckets.
    write_buckets(BucketChangesArgs<K, V>) => WriteBuckets<K, V>;
    /// The kernel that changes buckets that shift pairs to neighbours.
    write_shifts(BucketChangesArgs<K, V>) => WriteShifts<K, V>;
    /// The kernel that rewrites nodes.
    write_nodes(NodeChangesArgs<K, V>) => WriteNodes<K, V>;
    /// The kernel that writes the nodes and buckets of parts that are one node.
    write(NodesArgs<K, V>) => Write<K, V>;
    /// The kernel that writes the nodes of other parts.
    write_others(NodesArgs<K, V>) => WriteOthers<K, V>;
}

// The entry of an instance with these words.
macro_rules! entry_of {
    ($key:ty, $value:ty => $kernel:ty) => {{
        type K = $key;
        type V = $value;
        <$kernel as Instance>::ENTRY
    }};
}

// The entry of a kernel that moves no values, of instances for buckets of each shape: with keys of 64 bits, a bucket
// has the same number of slots for values of 32 bits as for values of 64.
macro_rules! entry_by_buckets {
    ($k:ident, $v:ident => $kernel:ty) => {
        match ($k::BITS, <$v as Value>::BYTES) {
            (32, 0) => entry_of!(u32, () => $kernel),
            (32, 4) => entry_of!(u32, u32 => $kernel),
            (32, _) => entry_of!(u32, u64 => $kernel),
            (64, 0) => entry_of!(u64, () => $kernel),
            (64, _) => entry_of!(u64, u64 => $kernel),
            (_, 0) => entry_of!(u128, () => $kernel),
            (_, 4) => entry_of!(u128, u32 => $kernel),
            (_, _) => entry_of!(u128, u64 => $kernel),
        }
    };
}

// The entry of a kernel that knows of buckets only how many slots they have: with keys of 128 bits, that is one number.
macro_rules! entry_by_slots {
    ($k:ident, $v:ident => $kernel:ty) => {
        match ($k::BITS, <$v as Value>::BYTES) {
            (32, 0) => entry_of!(u32, () => $kernel),
            (32, 4) => entry_of!(u32, u32 => $kernel),
            (32, _) => entry_of!(u32, u64 => $kernel),
            (64, 0) => entry_of!(u64, () => $kernel),
            (64, _) => entry_of!(u64, u64 => $kernel),
            (_, _) => entry_of!(u128, u64 => $kernel),
        }
    };
}

macro_rules! by_buckets {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ty;)*) => { pastey::paste! {$(
        $(#[$doc])*
        pub const fn [<$function _entry>]<K: KeyWord, V: Value>() -> &'static Entry {
            const { entry_by_buckets!(K, V => $kernel) }
        }

        $(#[$doc])*
        pub fn $function<K: KeyWord, V: Value>(args: &$args<K>) -> Call<'_> {
            Call::new([<$function _entry>]::<K, V>(), args)
        }
    )*}};
}
by_buckets! {
    /// The kernel that finds the first and the last key of nodes.
    ends(EndsArgs) => Ends<K, V>;
    /// The kernel that locates ranges.
    locate(LocateArgs) => Locate<K, V>;
    /// The kernel that locates ranges from sorted keys on.
    locate_sorted(LocateSortedArgs) => LocateSorted<K, V>;
    /// The kernel for those ranges of sorted queries that have no window.
    locate_beside_windows(LocateSortedArgs) => LocateBesideWindows<K, V>;
    /// The rank kernel.
    rank(RankArgs) => Rank<K, V>;
    /// The rank kernel for sorted queries.
    rank_sorted(RankSortedArgs) => RankSorted<K, V>;
    /// The rank kernel of queries of which the device has the number.
    rank_counted(RankCountedArgs) => Counted<Rank<K, V>>;
    /// The kernel for those ranks of sorted queries that have no window.
    rank_beside_windows(RankSortedArgs) => RankBesideWindows<K, V>;
    /// The kernel that copies nodes to where they are to be.
    relocate(RelocateArgs) => Relocate<K, V>;
    /// The kernel that searches operations.
    search(SearchArgs) => Search<K, V>;
}

// Kernels whose arguments have pointers to values. They never read or write through these; instances that value types
// share are compiled for values of 64 bits.
macro_rules! without_values {
    ($($(#[$doc:meta])* $function:ident($args:ident) by $entry:ident => $kernel:ty;)*) => { pastey::paste! {$(
        $(#[$doc])*
        pub const fn [<$function _entry>]<K: KeyWord, V: Value>() -> &'static Entry {
            const { $entry!(K, V => $kernel) }
        }

        $(#[$doc])*
        pub fn $function<K: KeyWord, V: Value>(args: &$args<K, V>) -> Call<'_> {
            let entry = [<$function _entry>]::<K, V>();
            if ptr::eq(entry, const { $entry!(K, u64 => $kernel) }) {
                // SAFETY: these are `repr(C)`, and differ in what some pointers lead to.
                return Call::new(entry, unsafe { &*(&raw const *args).cast::<$args<K, u64>>() });
            }
            Call::new(entry, args)
        }
    )*}};
}
without_values! {
    /// The kernel that counts nodes and buckets.
    count(NodesArgs) by entry_by_slots => Count<K, V>;
    /// The kernel that counts the nodes of other parts.
    count_others(NodesArgs) by entry_by_slots => CountOthers<K, V>;
    /// The kernel that lists marked nodes.
    list_nodes(ListNodesArgs) by entry_by_slots => ListNodes<K, V>;
    /// The kernel that finds out where parts go.
    assign_parts(AssignPartsArgs) by entry_by_slots => AssignParts<K, V>;
    /// The kernel that plans buckets.
    plan_buckets(BucketChangesArgs) by entry_by_slots => PlanBuckets<K, V>;
    /// The kernel that finds out how many pairs split nodes have.
    size_split(SizeSplitArgs) by entry_by_slots => SizeSplit<K, V>;
    /// The kernel that finds out where nodes' pairs begin after a batch.
    starts(StartsArgs) by entry_by_slots => Starts<K, V>;
    /// The kernel that finds out which nodes' pairs and which operations blocks bring together.
    spans(RebuildArgs) by entry_by_slots => Spans<K, V>;
    /// The kernel that gives nodes their ranks.
    ranks(RanksArgs) by entry_by_slots => Ranks<K, V>;
    /// The kernel that plans what buckets shift to neighbours.
    plan_shifts(BucketChangesArgs) by entry_by_buckets => PlanShifts<K, V>;
}

macro_rules! by_key {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ty;)*) => { pastey::paste! {$(
        $(#[$doc])*
        pub const fn [<$function _entry>]<K: KeyWord>() -> &'static Entry {
            entry_by_words!(K: KeyWord => $kernel)
        }

        $(#[$doc])*
        pub fn $function<K: KeyWord>(args: &$args<K>) -> Call<'_> {
            Call::new([<$function _entry>]::<K>(), args)
        }
    )*}};
}
by_key! {
    /// The kernel that counts the nodes of a level above the lowest.
    count_upper(UpperArgs) => CountUpper<K>;
    /// The kernel that chooses where parts begin.
    cut(CutArgs) => Cut<K>;
    /// The kernel that makes the table.
    table(TableArgs) => Table<K>;
    /// The kernel that writes a level above the lowest.
    write_upper(UpperArgs) => WriteUpper<K>;
}

macro_rules! by_nothing {
    ($($(#[$doc:meta])* $function:ident($args:ident) => $kernel:ty;)*) => { pastey::paste! {$(
        $(#[$doc])*
        pub const fn [<$function _entry>]() -> &'static Entry {
            entry_by_words!(=> $kernel)
        }

        $(#[$doc])*
        pub fn $function(args: &$args) -> Call<'_> {
            Call::new([<$function _entry>](), args)
        }
    )*}};
}
by_nothing! {
    /// The kernel that lists split nodes.
    list_split(ListSplitArgs) => ListSplit;
    /// The kernel that finds out where the nodes of a rebuilt tree go.
    assign_others(AssignOthersArgs) => AssignOthers;
    /// The kernel that notes how many nodes the other parts of a rebuilt tree are.
    size_others(SizeOthersArgs) => SizeOthers;
}

/// The kernel that aggregates ranges, with 8 lanes per range. Nobody asks it of a set.
pub fn aggregate_narrow<K: KeyWord, V: Word>(args: &AggregateArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, V => Aggregate<K, V, 8>), args)
}

/// The kernel that aggregates parts of ranges, with a warp per part.
pub fn aggregate_wide<K: KeyWord, V: Word>(args: &AggregateArgs<K>) -> Call<'_> {
    Call::new(entry_by_words!(K: KeyWord, V => Aggregate<K, V, 32>), args)
}
