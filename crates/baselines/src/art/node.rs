//! The four sizes of nodes.

use super::child::Child;

/// Bytes of its prefix that a node holds.
pub(super) const PREFIX: usize = 12;

/// What every node begins with.
#[derive(Default)]
pub(super) struct Head {
    /// The leaf of the key that ends here.
    pub(super) here: Option<Child>,
    pub(super) prefix_len: u32,
    pub(super) count: u16,
    pub(super) prefix: [u8; PREFIX],
}

impl Head {
    #[inline(always)]
    pub(super) fn prefix_len(&self) -> usize {
        self.prefix_len as usize
    }

    /// The prefix, or its first bytes.
    #[inline(always)]
    pub(super) fn stored_prefix(&self) -> &[u8] {
        &self.prefix[..self.prefix_len().min(PREFIX)]
    }

    pub(super) fn set_prefix(&mut self, prefix: &[u8]) {
        let stored = prefix.len().min(PREFIX);
        self.prefix_len = prefix.len() as u32;
        self.prefix[..stored].copy_from_slice(&prefix[..stored]);
    }

    /// Puts the prefix of a parent, and the byte that led on from there, in front.
    pub(super) fn prepend(&mut self, parent: &Head, byte: u8) {
        let len = parent.prefix_len + 1 + self.prefix_len;
        let mut path = [parent.stored_prefix(), &[byte], self.stored_prefix()].concat();
        path.truncate(PREFIX);
        self.set_prefix(&path);
        self.prefix_len = len;
    }
}

macro_rules! sorted_node {
    ($node:ident, $slots:literal) => {
        #[derive(Default)]
        pub(super) struct $node {
            pub(super) head: Head,
            pub(super) keys: [u8; $slots],
            pub(super) children: [Option<Child>; $slots],
        }

        impl $node {
            #[inline(always)]
            pub(super) fn find(&self, byte: u8) -> Option<usize> {
                let matches = self
                    .keys
                    .iter()
                    .enumerate()
                    .fold(0_u32, |matches, (slot, &key)| matches | u32::from(key == byte) << slot);
                let matches = matches & ((1 << self.head.count) - 1);
                (matches != 0).then(|| matches.trailing_zeros() as usize)
            }

            pub(super) fn slot(&mut self, byte: u8) -> Option<&mut Option<Child>> {
                self.find(byte).map(|slot| &mut self.children[slot])
            }

            pub(super) fn insert(&mut self, byte: u8, child: Child) {
                let count = usize::from(self.head.count);
                let slot = self.keys[..count].partition_point(|&key| key < byte);
                self.keys[slot..=count].rotate_right(1);
                self.children[slot..=count].rotate_right(1);
                (self.keys[slot], self.children[slot]) = (byte, Some(child));
                self.head.count += 1;
            }

            pub(super) fn remove(&mut self, byte: u8) {
                let Some(slot) = self.find(byte) else { return };
                let count = usize::from(self.head.count);
                self.children[slot] = None;
                self.keys[slot..count].rotate_left(1);
                self.children[slot..count].rotate_left(1);
                self.head.count -= 1;
            }
        }
    };
}
sorted_node!(N4, 4);
sorted_node!(N16, 16);

pub(super) struct N48 {
    pub(super) head: Head,
    /// 1 more than a child's slot; 0 for none.
    pub(super) slots: [u8; 256],
    pub(super) children: [Option<Child>; 48],
}

impl Default for N48 {
    fn default() -> Self {
        Self { head: Head::default(), slots: [0; 256], children: [const { None }; 48] }
    }
}

impl N48 {
    pub(super) fn slot(&mut self, byte: u8) -> Option<&mut Option<Child>> {
        let slot = usize::from(self.slots[usize::from(byte)]).checked_sub(1)?;
        Some(&mut self.children[slot])
    }

    pub(super) fn insert(&mut self, byte: u8, child: Child) {
        let free = self.children.iter().position(Option::is_none).expect("there is room");
        self.children[free] = Some(child);
        self.slots[usize::from(byte)] = free as u8 + 1;
        self.head.count += 1;
    }

    pub(super) fn remove(&mut self, byte: u8) {
        if let Some(slot) = self.slot(byte) {
            *slot = None;
            self.slots[usize::from(byte)] = 0;
            self.head.count -= 1;
        }
    }
}

pub(super) struct N256 {
    pub(super) head: Head,
    pub(super) children: [Option<Child>; 256],
}

impl Default for N256 {
    fn default() -> Self {
        Self { head: Head::default(), children: [const { None }; 256] }
    }
}

impl N256 {
    pub(super) fn insert(&mut self, byte: u8, child: Child) {
        self.children[usize::from(byte)] = Some(child);
        self.head.count += 1;
    }

    pub(super) fn remove(&mut self, byte: u8) {
        if self.children[usize::from(byte)].take().is_some() {
            self.head.count -= 1;
        }
    }
}
