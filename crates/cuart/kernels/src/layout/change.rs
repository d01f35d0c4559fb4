//! Changes of nodes in place: children are inserted and removed, and leave tombstones.

use super::{Header, Link, N4, N16, N48, N256};

macro_rules! sorted_node {
    ($node:ident, $slots:literal, |$it:ident| $keys:expr) => {
        impl $node {
            /// Sets the link of a byte that has a slot; false where it has none.
            #[inline]
            pub fn set(&mut self, byte: u8, link: Link) -> bool {
                let $it = &*self;
                let slot = $keys[..self.slots()].iter().position(|&key| key == byte);
                slot.map(|slot| self.links[slot] = link).is_some()
            }

            /// Adds a child, or sets its link; false where the node is full of other children. Tombstones are
            /// dropped where there is no other room.
            #[inline]
            pub fn add(&mut self, byte: u8, link: Link) -> bool {
                if self.set(byte, link) {
                    return true;
                }
                if self.slots() == $slots {
                    self.drop_tombstones();
                }
                let count = self.slots();
                if count == $slots {
                    return false;
                }
                let $it = &mut *self;
                let slot = $keys[..count].partition_point(|&key| key < byte);
                $keys.copy_within(slot..count, slot + 1);
                $keys[slot] = byte;
                let last = $keys[count];
                $keys[count..].fill(last);
                self.links.copy_within(slot..count, slot + 1);
                self.links[slot] = link;
                self.header.count = count as u16 + 1;
                true
            }

            fn drop_tombstones(&mut self) {
                let mut kept = 0;
                for slot in 0..self.slots() {
                    if self.links[slot].is_none() {
                        continue;
                    }
                    let $it = &mut *self;
                    $keys[kept] = $keys[slot];
                    self.links[kept] = self.links[slot];
                    kept += 1;
                }
                let $it = &mut *self;
                let last = if kept > 0 { $keys[kept - 1] } else { 0 };
                $keys[kept..].fill(last);
                self.links[kept..].fill(Link::NONE);
                self.header.count = kept as u16;
            }

            /// Slots that have a key, even a tombstone's.
            #[inline]
            fn slots(&self) -> usize {
                usize::from(self.header.count).min($slots)
            }

            /// Whether neither a child nor a key that ends here is left.
            #[inline]
            pub fn is_vacant(&self) -> bool {
                self.header.here.is_none() && self.links.iter().all(|link| link.is_none())
            }
        }
    };
}
sorted_node!(N4, 4, |it| it.header.keys4);
sorted_node!(N16, 16, |it| it.keys);

impl N48 {
    /// Sets the link of a byte that has a slot; false where it has none.
    #[inline]
    pub fn set(&mut self, byte: u8, link: Link) -> bool {
        let slot = usize::from(self.slots[usize::from(byte)]);
        let Some(place) = slot.checked_sub(1).and_then(|slot| self.links.get_mut(slot)) else { return false };
        *place = link;
        true
    }

    /// Adds a child, or sets its link; false where the node is full of other children. Tombstones are dropped
    /// where there is no other room.
    #[inline]
    pub fn add(&mut self, byte: u8, link: Link) -> bool {
        if self.set(byte, link) {
            return true;
        }
        if usize::from(self.header.count) >= self.links.len() {
            let mut children = Children::default();
            children.fill(|from| self.child_from(from));
            *self = Self::new(self.header, children.bytes(), children.links());
        }
        let slot = usize::from(self.header.count);
        let Some(place) = self.links.get_mut(slot) else { return false };
        *place = link;
        self.slots[usize::from(byte)] = slot as u8 + 1;
        self.header.count += 1;
        true
    }

    /// Whether neither a child nor a key that ends here is left.
    #[inline]
    pub fn is_vacant(&self) -> bool {
        self.header.here.is_none() && self.links.iter().all(|link| link.is_none())
    }
}

impl N256 {
    /// Sets the link of a byte.
    #[inline]
    pub fn set(&mut self, byte: u8, link: Link) -> bool {
        let place = &mut self.links[usize::from(byte)];
        let count = &mut self.header.count;
        match (place.is_none(), link.is_none()) {
            (true, false) => *count = count.saturating_add(1),
            (false, true) => *count = count.saturating_sub(1),
            _ => {}
        }
        *place = link;
        true
    }

    /// As [`N256::set`]: there is room for any child.
    #[inline]
    pub fn add(&mut self, byte: u8, link: Link) -> bool {
        self.set(byte, link)
    }

    /// Whether neither a child nor a key that ends here is left.
    #[inline]
    pub fn is_vacant(&self) -> bool {
        self.header.here.is_none() && self.links.iter().all(|link| link.is_none())
    }
}

/// The children of a node of up to 48, in ascending order of their bytes, plus one more.
pub struct Children {
    bytes: [u8; 49],
    links: [Link; 49],
    count: usize,
}

impl Default for Children {
    fn default() -> Self {
        Self { bytes: [0; 49], links: [Link::NONE; 49], count: 0 }
    }
}

impl Children {
    /// Of a node that `child_from` has the children of.
    #[inline]
    pub fn fill(&mut self, child_from: impl Fn(u8) -> Option<(u8, Link)>) {
        let mut next = child_from(0);
        while let Some((byte, link)) = next {
            (self.bytes[self.count], self.links[self.count]) = (byte, link);
            self.count += 1;
            next = byte.checked_add(1).and_then(&child_from);
        }
    }

    /// Puts one in its place.
    #[inline]
    pub fn insert(&mut self, byte: u8, link: Link) {
        let slot = self.bytes().partition_point(|&other| other < byte);
        self.bytes.copy_within(slot..self.count, slot + 1);
        self.links.copy_within(slot..self.count, slot + 1);
        (self.bytes[slot], self.links[slot]) = (byte, link);
        self.count += 1;
    }

    /// Their bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.count]
    }

    /// Their links.
    #[inline]
    pub fn links(&self) -> &[Link] {
        &self.links[..self.count]
    }
}

impl Header {
    /// The same for a node of another type, which is given its keys and count.
    #[inline]
    #[must_use]
    pub fn without_children(self) -> Self {
        Self { count: 0, keys4: [0; 4], ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LinkType;
    use super::*;

    fn link(index: u64) -> Link {
        Link::new(LinkType::Leaf8, 1, index)
    }

    /// Children are inserted, removed and inserted again in any order; a model says which there are.
    #[test]
    fn children_come_and_go() {
        macro_rules! check {
            ($node:ident, $room:literal) => {{
                let mut node = $node::new(Header::new(b"", 0, Link::NONE), b"", &[]);
                let mut model = [Link::NONE; 256];
                let mut random = 1_u32;
                for step in 0..20_000_u64 {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // Sometimes few bytes, sometimes all of them.
                    let byte = (random >> 24) as u8 & if step / 500 % 2 == 0 { 0x3f } else { 0xff };
                    let live = model.iter().filter(|link| !link.is_none()).count();
                    if random >> 8 & 7 < 3 || live >= $room {
                        assert_eq!(node.set(byte, Link::NONE) || model[usize::from(byte)].is_none(), true);
                        model[usize::from(byte)] = Link::NONE;
                    } else {
                        assert!(node.add(byte, link(step + 1)), "{live} children");
                        model[usize::from(byte)] = link(step + 1);
                    }
                    assert_eq!(node.child(byte), model[usize::from(byte)]);
                    assert_eq!(node.is_vacant(), model.iter().all(|link| link.is_none()));
                    if step % 16 == 0 {
                        let at = |byte: u8| (byte, model[usize::from(byte)]);
                        for byte in 0..=255 {
                            assert_eq!(node.child(byte), at(byte).1);
                            let next = (byte..=255).map(at).find(|(_, link)| !link.is_none());
                            assert_eq!(node.child_from(byte), next);
                            let before = (0..=byte).rev().map(at).find(|(_, link)| !link.is_none());
                            assert_eq!(node.child_to(byte), before);
                        }
                    }
                }
            }};
        }
        check!(N4, 4);
        check!(N16, 16);
        check!(N48, 48);
        check!(N256, 256);
    }

    #[test]
    fn a_full_node_takes_no_other_child() {
        let bytes: [u8; 48] = core::array::from_fn(|i| i as u8);
        let links: [Link; 48] = core::array::from_fn(|i| link(i as u64));
        let header = Header::new(b"", 0, Link::NONE);
        let mut node = N48::new(header, &bytes, &links);
        assert!(!node.add(100, link(7)) && node.add(47, link(7)));
        let mut node = N16::new(header, &bytes[..16], &links[..16]);
        assert!(!node.add(100, link(7)) && node.set(3, Link::NONE) && node.add(100, link(7)));
        assert_eq!((node.child(3), node.child(100), node.header.count), (Link::NONE, link(7), 16));
        let mut node = N4::new(header, &bytes[..4], &links[..4]);
        assert!(!node.add(100, link(7)));
        let mut children = Children::default();
        children.fill(|from| node.child_from(from));
        children.insert(2, link(9));
        assert_eq!(children.bytes(), [0, 1, 2, 2, 3]);
        assert!(node.add(0, Link::NONE));
    }
}
