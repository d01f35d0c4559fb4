//! CuART as an [`OrderedIndex`].

use crate::{Builder, Cuart};
use lanetree_frame::parallel::*;
use lanetree_frame::room::copied;
use lanetree_frame::{
    ByteKeys, ByteRange, ByteRanges, ByteString, DeviceForm, DeviceKeys, IndexBuilder, Op, OrderedIndex, Result,
    UpdateReport,
};
use lanetree_layout::Word;
use lanetree_runtime::{Buffer, Device, DeviceKind, Stream};

/// What [`Cuart`] and [`Hybrid`](crate::Hybrid) have as methods of their own, with the names of [`OrderedIndex`].
macro_rules! own_methods {
    ($v:ident) => {
        fn device(&self) -> &Device {
            self.device()
        }
        fn len(&self) -> u64 {
            self.len()
        }
        fn is_lost(&self) -> bool {
            self.is_lost()
        }
        fn get_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Option<$v>>> {
            self.get_many(keys)
        }
        fn lower_bound_many(&self, keys: ByteKeys<'_>) -> Result<Vec<u64>> {
            self.lower_bound_many(keys)
        }
        fn upper_bound_many(&self, keys: ByteKeys<'_>) -> Result<Vec<u64>> {
            self.upper_bound_many(keys)
        }
        fn predecessor_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Option<(Vec<u8>, $v)>>> {
            self.predecessor_many(keys)
        }
        fn successor_many(&self, keys: ByteKeys<'_>) -> Result<Vec<Option<(Vec<u8>, $v)>>> {
            self.successor_many(keys)
        }
        fn range_many(&self, ranges: &[ByteRange<'_>]) -> Result<ByteRanges<$v>> {
            self.range_many(ranges.iter().copied())
        }
        fn count_range_many(&self, ranges: &[ByteRange<'_>]) -> Result<Vec<u64>> {
            self.count_range_many(ranges.iter().copied())
        }
        fn apply(&mut self, ops: &[Op<Vec<u8>, $v>]) -> Result<UpdateReport> {
            self.apply(ops)
        }
        fn insert_many(&mut self, keys: ByteKeys<'_>, values: &[$v]) -> Result<UpdateReport> {
            self.insert_many(keys, values)
        }
        fn update_many(&mut self, keys: ByteKeys<'_>, values: &[$v]) -> Result<UpdateReport> {
            self.update_many(keys, values)
        }
        fn remove_many(&mut self, keys: ByteKeys<'_>) -> Result<UpdateReport> {
            self.remove_many(keys)
        }
        fn compact(&mut self) -> Result<u64> {
            self.compact()
        }
        fn restore_order(&mut self) -> Result<bool> {
            let was_out_of_order = !self.is_compact();
            self.compact()?;
            Ok(was_out_of_order)
        }
    };
}
pub(crate) use own_methods;

impl<V: Word> OrderedIndex for Cuart<V> {
    type Domain = ByteString;
    type Value = V;
    const NAME: &'static str = "cuart";

    own_methods!(V);

    fn bytes(&self) -> u64 {
        self.bytes()
    }
    fn host_bytes(&self) -> u64 {
        self.host_bytes()
    }
    fn pairs(&self) -> Result<Vec<(Vec<u8>, V)>> {
        // A device finds ranges by ranks and gathers them from its own leaves; the host follows links to all leaves.
        let by_ranks = self.is_compact() && self.stats().host_leaves == 0;
        if !by_ranks && self.device().kind() != DeviceKind::Host {
            return self.to_device(&Device::host())?.pairs();
        }
        let all = self.range_many([..])?;
        let (keys, values) = all.get(0);
        (0..values.len()).into_par_iter().try_map_collect(|i| Ok((copied(keys.at(i))?, values[i])))
    }
    fn device_form(&self) -> Option<&dyn DeviceForm<ByteString, V>> {
        Some(self)
    }
}

impl<V: Word> DeviceForm<ByteString, V> for Cuart<V> {
    fn get(
        &self,
        stream: &Stream,
        queries: &DeviceKeys,
        values: &mut Buffer<V>,
        hits: Option<&mut Buffer<u32>>,
        miss: V,
    ) -> Result<()> {
        self.on(stream).hits(hits).miss(miss).get(queries, values)
    }
    fn lower_bound(&self, stream: &Stream, queries: &DeviceKeys, ranks: &mut Buffer<u64>) -> Result<()> {
        self.on(stream).lower_bound(queries, ranks)
    }
    fn upper_bound(&self, stream: &Stream, queries: &DeviceKeys, ranks: &mut Buffer<u64>) -> Result<()> {
        self.on(stream).upper_bound(queries, ranks)
    }
}

impl<V: Word> IndexBuilder for Builder<V> {
    type Index = Cuart<V>;

    fn build(&self, device: &Device, keys: ByteKeys<'_>, values: &[V]) -> Result<Cuart<V>> {
        self.build(device, keys, values)
    }
}
