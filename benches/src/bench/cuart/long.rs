//! Keys of which some are longer than the others, and the paper's three ways with them.

use crate::bench::cuart::data::Data;
use crate::bench::data::mix;
use crate::bench::error::Result;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::cuart::{Hybrid, LongKeys};
use lanetree::{ByteKeys, Cuart};
use lanetree_base::parallel::*;

/// Keys, most of them of one width, the others longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixed {
    pub(crate) data: Data,
    /// How many of a hundred are longer.
    pub(crate) share: u64,
    /// Bytes of the longer ones: the fewest and the most.
    pub(crate) longer: (usize, usize),
}

/// Strings and where each begins.
pub(crate) struct Packed {
    offsets: Vec<u64>,
    bytes: Vec<u8>,
}

impl Packed {
    pub(crate) fn keys(&self) -> Result<ByteKeys<'_>> {
        Ok(ByteKeys::new(&self.offsets[..], &self.bytes)?)
    }

    /// Bytes of all strings.
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
    }
}

impl Mixed {
    fn key_len(&self, index: u64) -> usize {
        // A number that has nothing to do with the key's bytes.
        let random = mix(mix(index) ^ mix(!self.data.seed));
        let (fewest, most) = self.longer;
        if random % 100 < self.share { fewest + (random / 100) as usize % (most - fewest + 1) } else { self.data.width }
    }

    /// The keys with these indexes.
    pub(crate) fn pack(&self, count: usize, index: impl Fn(usize) -> u64 + Sync) -> Packed {
        let mut offsets: Vec<u64> = vec![0; count + 1];
        offsets[1..].par_iter_mut().enumerate().for_each(|(i, len)| *len = self.key_len(index(i)) as u64);
        let mut end = 0;
        for offset in &mut offsets {
            end += *offset;
            *offset = end;
        }
        let mut bytes = vec![0; end as usize];
        let mut rest = &mut bytes[..];
        let mut strings = Vec::with_capacity(count);
        for pair in offsets.windows(2) {
            let string;
            (string, rest) = rest.split_at_mut((pair[1] - pair[0]) as usize);
            strings.push(string);
        }
        strings.into_par_iter().enumerate().for_each(|(i, string)| self.data.key(index(i), string));
        Packed { offsets, bytes }
    }

    /// Says in a row what is looked up in, and what it takes.
    pub(crate) fn label(&self, row: Row, tree: &Tree) -> Row {
        let (on_device, in_main_memory) = tree.bytes();
        let row = self.data.label::<u32>(row).with("footprint_bytes", on_device);
        let mut row = row.with("bytes_per_key", (on_device + in_main_memory) as f64 / self.data.len as f64);
        row.keys = self.name();
        row
    }

    /// What stands for the longer keys in a row.
    pub(crate) fn name(&self) -> String {
        match (self.share, self.longer) {
            (0, _) => "none".into(),
            (share, (fewest, most)) if fewest == most => format!("{share} % of {fewest} bytes"),
            (share, (fewest, most)) => format!("{share} % of {fewest} to {most} bytes"),
        }
    }
}

/// Where longer keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    DeviceLeaves,
    HostLeaves,
    Hybrid,
}

impl Way {
    pub(crate) fn name(self, mixed: &Mixed) -> &'static str {
        match self {
            Self::DeviceLeaves if mixed.longer.0 <= 32 => "all on the device",
            Self::DeviceLeaves => "device leaves",
            Self::HostLeaves => "host leaves",
            Self::Hybrid => "hybrid",
        }
    }
}

/// A tree built in some way.
pub(crate) enum Tree {
    Whole(Box<Cuart<u32>>),
    Partitioned(Box<Hybrid<u32>>),
}

impl Tree {
    pub(crate) fn build(session: &Session, mixed: &Mixed, way: Way) -> Result<Self> {
        let packed = mixed.pack(mixed.data.len, |i| i as u64);
        let (device, keys, values) = (&session.device, packed.keys()?, mixed.data.values::<u32>());
        let whole = |long_keys| Cuart::builder().long_keys(long_keys).build(device, keys, &values);
        Ok(match way {
            Way::DeviceLeaves => Self::Whole(Box::new(whole(LongKeys::DeviceLeaves)?)),
            Way::HostLeaves => Self::Whole(Box::new(whole(LongKeys::HostLeaves)?)),
            Way::Hybrid => {
                let builder = Hybrid::builder().max_device_key(mixed.data.width);
                Self::Partitioned(Box::new(builder.build(device, keys, &values)?))
            }
        })
    }

    pub(crate) fn get_many_into(&self, keys: ByteKeys<'_>, out: &mut [Option<u32>]) -> lanetree::Result<()> {
        match self {
            Self::Whole(tree) => tree.get_many_into(keys, out),
            Self::Partitioned(tree) => tree.get_many_into(keys, out),
        }
    }

    /// Bytes on the device, and bytes in main memory.
    fn bytes(&self) -> (u64, u64) {
        match self {
            Self::Whole(tree) => (tree.stats().bytes(), tree.stats().host_bytes),
            Self::Partitioned(tree) => (tree.stats().device.bytes(), tree.stats().host.bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_share_of_the_keys_is_longer() {
        for (width, share, longer) in [(32, 0, (33, 128)), (32, 25, (33, 128)), (8, 5, (9, 9))] {
            let mixed = Mixed { data: Data::new(width, 20_000, 3), share, longer };
            let packed = mixed.pack(20_000, |i| i as u64);
            let keys = packed.keys().unwrap();
            let distinct: BTreeSet<&[u8]> = keys.iter().collect();
            assert_eq!(distinct.len(), 20_000);
            let lens = || keys.iter().map(<[u8]>::len).filter(|&len| len > width);
            assert!(lens().count().abs_diff(200 * share as usize) < 300, "{}", lens().count());
            assert!(lens().min().is_none_or(|len| len == longer.0) && lens().max().is_none_or(|len| len == longer.1));
        }
    }
}
