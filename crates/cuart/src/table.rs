//! The root table: links by the first bytes of keys.

use super::native::View;
use lanetree_frame::Result;
use lanetree_frame::byte_keys::ByteKeys;
use lanetree_frame::parallel::*;
use lanetree_kernels_cuart::layout::{Link, table_index, table_len};
use lanetree_runtime::{Buffer, Device};

/// From this number of distinct 3-byte prefixes on, a table over them is worth its 128 MiB.
const THREE: usize = 1 << 21;

/// From this number of distinct 2-byte prefixes on, a table over them is worth its 512 KiB.
const TWO: usize = 1 << 13;

/// The index in a table of `bytes` bytes for keys that are long enough.
fn index(key: &[u8], bytes: u32) -> Option<usize> {
    match (bytes, key) {
        (2, [a, b, ..]) => Some(table_index(*a, *b, None)),
        (3, [a, b, c, ..]) => Some(table_index(*a, *b, Some(*c))),
        _ => None,
    }
}

/// How many bytes should index the table of a tree over ascending keys.
pub(super) fn choose(keys: ByteKeys<'_>) -> u32 {
    let beginnings = |bytes| {
        let differs = |i: &usize| {
            let own = index(keys.at(*i), bytes);
            own.is_some() && (*i == 0 || index(keys.at(*i - 1), bytes) != own)
        };
        (0..keys.len()).into_par_iter().with_min_len(1 << 12).count_if(differs)
    };
    // Fewer keys cannot have that many prefixes.
    let least = |bytes| if bytes == 3 { THREE } else { TWO };
    worthwhile(|bytes| if keys.len() >= least(bytes) { beginnings(bytes) as u64 } else { 0 })
}

/// How many bytes should index the table of a tree, given the number of distinct prefixes of each length.
pub(super) fn worthwhile(beginnings: impl Fn(u32) -> u64) -> u32 {
    if beginnings(3) >= THREE as u64 {
        3
    } else if beginnings(2) >= TWO as u64 {
        2
    } else {
        0
    }
}

/// Builds the table of a tree.
pub(super) fn build(device: &Device, tree: &View<'_>, bytes: u32) -> Result<Buffer<Link>> {
    let mut table = device.alloc_zeroed(table_len(bytes))?;
    let entries = table.as_mut_slice().expect("the host's memory");
    if entries.is_empty() || tree.regions.root.is_none() {
        return Ok(table);
    }
    let regions = &tree.regions;
    // A link, the number of key bytes before it, and those bytes as the upper ones of an index.
    let mut stack = vec![(regions.root, 0, 0)];
    while let Some((link, from, path)) = stack.pop() {
        let Some(header) = regions.header(link) else {
            let leaf = regions.leaf(link).expect("a link leads to a node or a leaf");
            if let Some(index) = index(leaf.key, bytes) {
                entries[index] = link;
            }
            continue;
        };
        let depth = regions.depth(link, from);
        if depth >= bytes as usize {
            // A kernel that removes keys leaves nodes as they are: nothing is found by an entry for one without leaves.
            let Some(leaf) = tree.first_under(link) else { continue };
            let index = index(leaf.key, bytes).expect("keys under a node are longer than its depth");
            entries[index] = Link::new(link.kind(), depth - bytes as usize, link.index());
            continue;
        }
        let path = header.prefix(depth - from).iter().fold(path, |path, &byte| path << 8 | usize::from(byte));
        let mut next = regions.child_from(link, 0);
        while let Some((byte, child)) = next {
            let path = path << 8 | usize::from(byte);
            if depth + 1 == bytes as usize {
                entries[path] = child;
            } else {
                stack.push((child, depth + 1, path));
            }
            next = byte.checked_add(1).and_then(|byte| regions.child_from(link, byte));
        }
    }
    Ok(table)
}
