//! Both trees as one [`OrderedIndex`].

use super::{Hybrid, HybridBuilder};
use crate::ordered::own_methods;
use lanetree_frame::room::make_room;
use lanetree_frame::{
    ByteKeys, ByteRange, ByteRanges, ByteString, Device, IndexBuilder, Op, OrderedIndex, Result, UpdateReport,
};
use lanetree_layout::Word;

impl<V: Word> OrderedIndex for Hybrid<V> {
    type Domain = ByteString;
    type Value = V;
    const NAME: &'static str = "hybrid";

    own_methods!(V);

    fn bytes(&self) -> u64 {
        self.bytes()
    }
    fn host_bytes(&self) -> u64 {
        self.host_bytes()
    }
    fn pairs(&self) -> Result<Vec<(Vec<u8>, V)>> {
        let mut pairs = self.device_tree().pairs()?;
        let mut long = self.host_tree().pairs()?;
        make_room(&mut pairs, long.len())?;
        pairs.append(&mut long);
        // Keys are distinct. In place, as opposed to a stable sort.
        pairs.sort_unstable();
        Ok(pairs)
    }
}

impl<V: Word> IndexBuilder for HybridBuilder<V> {
    type Index = Hybrid<V>;

    fn build(&self, device: &Device, keys: ByteKeys<'_>, values: &[V]) -> Result<Hybrid<V>> {
        self.build(device, keys, values)
    }
}
