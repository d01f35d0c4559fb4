//! Requests of a stream.

use lanetree_frame::NetChange;

/// A request of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<K, V> {
    /// Asks for the value of a key.
    Get(K),
    /// Inserts a pair, or replaces the value of a key that is present.
    Insert(K, V),
    /// Replaces the value of a key that is present; otherwise does nothing.
    Update(K, V),
    /// Removes a key and its value; if it is not present, does nothing.
    Remove(K),
}

impl<K, V> Request<K, V> {
    /// The key.
    pub fn key(&self) -> &K {
        match self {
            Self::Get(key) | Self::Insert(key, _) | Self::Update(key, _) | Self::Remove(key) => key,
        }
    }

    /// What it changes.
    pub(crate) fn change(self) -> Option<NetChange<V>> {
        match self {
            Self::Get(_) => None,
            Self::Insert(_, value) => Some(NetChange::Put(value)),
            Self::Update(_, value) => Some(NetChange::PutIfPresent(value)),
            Self::Remove(_) => Some(NetChange::Remove),
        }
    }
}
