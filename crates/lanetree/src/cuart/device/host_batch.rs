//! Host batches of look-ups on a device.

use crate::Result;
use crate::byte_keys::{ByteKeys, DeviceKeys};
use crate::cuart::Cuart;
use lanetree_layout::Word;
use rayon::prelude::*;

/// Most queries of a piece, a multiple of 32.
const PIECE: usize = 1 << 20;

impl<V: Word> Cuart<V> {
    /// Looks up a batch in main memory piece by piece.
    pub(in crate::cuart) fn get_across(&self, keys: ByteKeys<'_>, out: &mut [Option<V>]) -> Result<()> {
        let device = &self.device;
        let stream = device.stream()?;
        let piece = keys.len().min(PIECE);
        let mut values = device.alloc(piece)?;
        let mut found = device.alloc(piece.div_ceil(32))?;
        let with_host_leaves = !self.leaves.host.values.is_empty();
        let mut pending = device.alloc(if with_host_leaves { piece.div_ceil(32) } else { 0 })?;
        let (mut host_values, mut host_found) = (vec![V::MIN; piece], vec![0_u32; piece.div_ceil(32)]);
        let mut host_pending = vec![0_u32; if with_host_leaves { piece.div_ceil(32) } else { 0 }];
        for (start, out) in (0..).step_by(PIECE).zip(out.chunks_mut(PIECE)) {
            let part = keys.slice(start..start + out.len());
            let queries = DeviceKeys::upload(device, part)?;
            let words = out.len().div_ceil(32);
            if with_host_leaves {
                self.on(&stream).get_pending(&queries, &mut values, &mut found, &mut pending, V::MIN)?;
            } else {
                self.on(&stream).get(&queries, &mut values, Some(&mut found), V::MIN)?;
            }
            stream.synchronize()?;
            values.copy_range_to(0, &mut host_values[..out.len()])?;
            found.copy_range_to(0, &mut host_found[..words])?;
            if with_host_leaves {
                pending.copy_range_to(0, &mut host_pending[..words])?;
            }
            let bit = |words: &[u32], i: usize| words.get(i / 32).is_some_and(|word| word >> (i % 32) & 1 == 1);
            out.par_iter_mut().with_min_len(1 << 12).enumerate().for_each(|(i, out)| {
                *out = if bit(&host_found, i) {
                    Some(host_values[i])
                } else if bit(&host_pending, i) {
                    // The CPU's part of a long key.
                    let leaf = self.host_leaf(host_values[i].widen());
                    leaf.filter(|&(key, _)| key == part.at(i)).map(|(_, value)| value)
                } else {
                    None
                };
            });
        }
        Ok(())
    }
}
