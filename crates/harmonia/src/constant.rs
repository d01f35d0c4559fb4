//! Look-ups with the top of the prefix-sum array in constant memory, as in the paper (section 3.1): for a figure.

use super::{GroupWidth, Harmonia, launch};
use crate::LookUpTuning;
use lanetree_frame::Result;
use lanetree_frame::fixed::bits;
use lanetree_frame::pointers::optional_mut;
use lanetree_kernels_harmonia::{GetConstantArgs, TOP, calls};
use lanetree_layout::{Key, Word};
use lanetree_runtime::{Buffer, DeviceKind, Stream};
use lanetree_simt::{GetBatch, QueryArgs};

/// A tree, and the first children of its top nodes, which go to the kernel with its arguments: a GPU keeps these in constant
/// memory.
#[derive(Debug)]
pub struct ConstantTop<'a, K: Key, V: Word> {
    tree: &'a Harmonia<K, V>,
    top: [u32; TOP],
}

impl<K: Key, V: Word> Harmonia<K, V> {
    /// Copies the top of the prefix-sum array from the device.
    ///
    /// # Errors
    /// [`Lost`](lanetree_frame::Error::Lost); [`Runtime`](lanetree_frame::Error::Runtime) from the copy.
    pub fn constant_top(&self) -> Result<ConstantTop<'_, K, V>> {
        self.whole.check()?;
        let mut top = [0; TOP];
        let count = TOP.min(self.shape.inner as usize);
        self.prefix_sum.copy_range_to(0, &mut top[..count])?;
        Ok(ConstantTop { tree: self, top })
    }
}

impl<K: Key, V: Word> ConstantTop<'_, K, V> {
    /// [`OnStream::get`](super::OnStream::get) with groups of `lanes` lanes and the prefix-sum child region, the top of it in
    /// constant memory where there is such a kernel.
    ///
    /// # Errors
    /// Those of [`OnStream::get`](super::OnStream::get).
    pub fn get(
        &self,
        stream: &Stream,
        lanes: u32,
        queries: &Buffer<K>,
        values: &mut Buffer<V>,
        hits: Option<&mut Buffer<u32>>,
        miss: V,
    ) -> Result<()> {
        let (tree, count) = (self.tree, queries.len());
        let on = tree.on(stream).group(GroupWidth::Lanes(lanes));
        if count == 0 || stream.device().kind() == DeviceKind::Host {
            return on.hits(hits).miss(miss).get(queries, values);
        }
        let group = on.group_width()?;
        on.check("the queries' buffer", count, queries)?;
        on.check("the values' buffer", count, values)?;
        if let Some(hits) = &hits {
            on.check("the hit mask's buffer", count.div_ceil(32), hits)?;
        }
        let batch = GetBatch {
            queries: bits::<K>(stream, queries)?,
            count: count as u64,
            values: values.write_on(stream)?,
            hits: optional_mut(hits, stream)?,
            miss,
        };
        let get = QueryArgs { tree: tree.tree_ref(stream)?, batch };
        let args = GetConstantArgs { get, top: self.top };
        let launch = launch::over(stream, count as u64, 1)?;
        // SAFETY: the buffers were checked to be long enough, and the pointers are for this stream; the tree is valid by
        // construction, and has been borrowed since the top was copied.
        Ok(unsafe { launch.run(calls::get_constant::<K::Bits, V>(tree.fanout(), group, &args)) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_runtime::Device;

    #[test]
    fn look_ups_go_on_below_the_top_in_constant_memory() {
        let device = Device::emulated_with_seed(5);
        let stream = device.stream().unwrap();
        let keys: Vec<u64> = (0..1 << 16).map(|i| 3 * i).collect();
        let queries: Vec<u64> = (0..777).map(|i| i * 7919 % (3 << 16)).collect();
        for &(fanout, widths) in calls::CONSTANT {
            let tree = Harmonia::builder().fanout(fanout).build_sorted(&device, &keys, &keys).unwrap();
            // The last inner level of the tree of fanout 8 begins in constant memory, and ends elsewhere.
            assert_eq!(tree.shape.inner as usize > TOP, fanout == 8);
            let top = tree.constant_top().unwrap();
            let (buffer, mut out) = (device.upload(&queries).unwrap(), device.alloc(queries.len()).unwrap());
            for &lanes in widths {
                top.get(&stream, lanes, &buffer, &mut out, None, 1).unwrap();
                let right = queries.iter().map(|query| if query % 3 == 0 { *query } else { 1 });
                assert!(out.to_vec().unwrap().into_iter().eq(right), "fanout {fanout}, {lanes} lanes");
            }
        }
    }
}
