//! Walks from leaf to leaf along the links, in ascending or descending order of keys: for trees whose leaves have no
//! ranks.

use super::native::{View, compare_path};
use core::cmp::Ordering;
use lanetree_frame::byte_keys::{Side, Sides};
use lanetree_kernels_cuart::layout::{LeafRef, Link};

/// A position between two leaves. It moves in one direction, over the leaves after the position or over those before
/// it.
pub(super) struct Cursor<'a> {
    tree: View<'a>,
    backward: bool,
    /// The link that comes next, before the children of the nodes on the stack; none if there is none.
    front: Link,
    /// The nodes on the path, and the position among their children: 0 is before the key that ends at the node, 1 is
    /// after that key, and `b + 1` is before the child of byte `b`.
    stack: Vec<(Link, u16)>,
}

/// Behind the last child of a node.
const END: u16 = 257;

impl<'a> Cursor<'a> {
    /// In front of all leaves.
    pub(super) fn start(tree: View<'a>) -> Self {
        Self::under(tree, tree.regions.root)
    }

    /// Before all leaves under a link, to go over them.
    pub(super) fn under(tree: View<'a>, link: Link) -> Self {
        Self { tree, backward: false, front: link, stack: Vec::new() }
    }

    /// After the leaves that a bound counts as below it.
    pub(super) fn seek(tree: View<'a>, key: &[u8], side: Side) -> Self {
        Self::seek_to(tree, key, side, false)
    }

    /// At that position, to go back over these leaves.
    pub(super) fn seek_back(tree: View<'a>, key: &[u8], side: Side) -> Self {
        Self::seek_to(tree, key, side, true)
    }

    fn seek_to(tree: View<'a>, key: &[u8], side: Side, backward: bool) -> Self {
        let mut cursor = Self { tree, backward, front: Link::NONE, stack: Vec::new() };
        let regions = &tree.regions;
        let (mut link, mut from) = (regions.root, 0);
        // Whether all leaves under the link are below the bound.
        let below = loop {
            let Some(header) = regions.header(link) else {
                break regions.leaf(link).is_some_and(|leaf| is_below(leaf.key, key, side));
            };
            let depth = regions.depth(link, from);
            let (path, rest) = (depth - from, &key[from..]);
            let order = if path <= header.prefix.len() {
                compare_path(header.prefix(path), rest)
            } else {
                // If there is no leaf, either answer is right.
                tree.first_under(link).map_or(Ordering::Less, |leaf| compare_path(&leaf.key[from..depth], rest))
            };
            match order {
                Ordering::Less => break true,
                Ordering::Greater => break false,
                Ordering::Equal => {}
            }
            let Some(&byte) = key.get(depth) else {
                match side {
                    Side::Prefix => break true,
                    Side::Upper if key.len() == depth => {
                        cursor.stack.push((link, 1));
                        return cursor;
                    }
                    Side::Lower | Side::Upper => break false,
                }
            };
            // The child itself has yet to be descended into.
            cursor.stack.push((link, u16::from(byte) + 1 + u16::from(!backward)));
            (link, from) = (regions.child(link, byte), depth + 1);
        };
        if below == backward {
            cursor.front = link;
        }
        cursor
    }

    /// The next child of the nodes on the stack.
    fn pop(&mut self) -> Option<Link> {
        let regions = &self.tree.regions;
        while let Some((node, place)) = self.stack.last_mut() {
            let here = regions.header(*node).map_or(Link::NONE, |header| header.here);
            let byte = |from: u16| u8::try_from(from).ok();
            let child = if self.backward {
                let below = place.checked_sub(2).and_then(byte).and_then(|byte| regions.child_to(*node, byte));
                match below {
                    Some((byte, child)) => Some((u16::from(byte) + 1, child)),
                    None => (*place > 0 && !here.is_none()).then_some((0, here)),
                }
            } else if *place == 0 && !here.is_none() {
                Some((1, here))
            } else {
                let from = byte(place.saturating_sub(1));
                let next = from.and_then(|byte| regions.child_from(*node, byte));
                next.map(|(byte, child)| (u16::from(byte) + 2, child))
            };
            match child {
                Some((after, child)) => {
                    *place = after;
                    return Some(child);
                }
                None => drop(self.stack.pop()),
            }
        }
        None
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = LeafRef<'a>;

    fn next(&mut self) -> Option<LeafRef<'a>> {
        loop {
            let link = match core::mem::take(&mut self.front) {
                Link::NONE => self.pop()?,
                link => link,
            };
            if link.kind().is_node() {
                self.stack.push((link, if self.backward { END } else { 0 }));
            } else if let Some(leaf) = self.tree.regions.leaf(link) {
                return Some(leaf);
            }
        }
    }
}

/// Whether a bound counts a key as below it.
pub(super) fn is_below(own: &[u8], key: &[u8], side: Side) -> bool {
    match side {
        Side::Lower => own < key,
        Side::Upper => own <= key,
        Side::Prefix => own <= key || own.starts_with(key),
    }
}

impl<'a> View<'a> {
    /// The leaves of a range.
    pub(super) fn walk(&self, range: Sides<'a>) -> impl Iterator<Item = LeafRef<'a>> + use<'a> {
        let cursor = match range.start {
            Some((key, side)) => Cursor::seek(*self, key, side),
            None => Cursor::start(*self),
        };
        let inside = move |leaf: &LeafRef<'_>| range.end.is_none_or(|(key, side)| is_below(leaf.key, key, side));
        cursor.take_while(inside).take(usize::try_from(range.limit).unwrap_or(usize::MAX))
    }

    /// The first leaf under a link; none if there are no leaves.
    pub(super) fn first_under(&self, link: Link) -> Option<LeafRef<'a>> {
        // Straight down, unless that ends at a node whose keys were all removed.
        self.regions.leaf(self.regions.first_leaf(link)).or_else(|| Cursor::under(*self, link).next())
    }
}
