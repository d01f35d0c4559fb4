//! What can go wrong, with the values that went wrong and what to do.

use lanetree_layout::cuart::MAX_FIXED;
use lanetree_runtime as runtime;

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why an index could not do what it was asked. Nothing was changed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Keys and values do not pair up.
    #[error("{keys} keys and {values} values: each key needs one value")]
    LengthMismatch {
        /// Keys given.
        keys: usize,
        /// Values given.
        values: usize,
    },

    /// The input of a build from sorted pairs is not sorted.
    #[error(
        "keys[{index}] = {key} is below keys[{}] = {previous}: sort the pairs, or build without saying that they are sorted",
        index - 1
    )]
    NotSorted {
        /// The first key that is below the one before it.
        index: usize,
        /// The key before it.
        previous: String,
        /// That key.
        key: String,
    },

    /// The input of a build from distinct keys has one twice.
    #[error("keys[{index}] = {key} equals the one before it: keep one pair of a key")]
    NotDistinct {
        /// The first key that equals the one before it.
        index: usize,
        /// That key.
        key: String,
    },

    /// A fanout without kernels.
    #[error("a fanout of {fanout}: there are kernels for {available:?}")]
    Fanout {
        /// The fanout asked for.
        fanout: u32,
        /// The fanouts there are.
        available: &'static [u32],
    },

    /// A fill outside (0, 1].
    #[error("a fill of {fill}: nodes are filled to more than 0 and at most 1 of their slots")]
    Fill {
        /// The fill asked for.
        fill: f64,
    },

    /// A width of thread groups without kernels.
    #[error("{lanes} lanes per query at a fanout of {fanout}: there are kernels for {available:?}")]
    GroupWidth {
        /// The width asked for.
        lanes: u32,
        /// The tree's fanout.
        fanout: u32,
        /// The widths there are.
        available: &'static [u32],
    },

    /// More pairs than node numbers of 32 bits reach.
    #[error(
        "{pairs} pairs at a fanout of {fanout} and a fill of {fill} need more than 2^32 - 1 nodes: use a larger fanout or fill"
    )]
    TooManyPairs {
        /// Pairs given.
        pairs: usize,
        /// The fanout asked for.
        fanout: u32,
        /// The fill asked for.
        fill: f64,
    },

    /// A range that ends before it starts.
    #[error("range {index} starts at {start} and ends at {end}, before its start")]
    ReversedRange {
        /// Its place in the batch.
        index: usize,
        /// Its first key.
        start: String,
        /// Its last key.
        end: String,
    },

    /// A buffer or slice of the wrong length.
    #[error("{what} has room for {found} elements, and {expected} are needed")]
    OutputLength {
        /// Which one.
        what: &'static str,
        /// Elements needed.
        expected: usize,
        /// Its elements.
        found: usize,
    },

    /// An offset of packed strings that is below the one before it.
    #[error("offsets[{index}] = {offset} is below offsets[{}] = {previous}: a string ends where it begins or behind", index - 1)]
    OffsetOrder {
        /// The first such offset's index.
        index: usize,
        /// The offset before it.
        previous: u64,
        /// That offset.
        offset: u64,
    },

    /// An offset of packed strings behind their bytes.
    #[error("offsets[{index}] = {offset} lies behind the {bytes} bytes that there are")]
    OffsetBounds {
        /// The first such offset's index.
        index: usize,
        /// That offset.
        offset: u64,
        /// Bytes given.
        bytes: usize,
    },

    /// Bytes that cannot be cut into keys of one width.
    #[error("{bytes} bytes are no whole number of keys of {width} bytes")]
    KeyWidth {
        /// The width asked for.
        width: usize,
        /// Bytes given.
        bytes: usize,
    },

    /// A string of another length than a key of its type has.
    #[error("keys[{index}] has {len} bytes, and {expected} are expected")]
    KeyLength {
        /// The first such string's index.
        index: usize,
        /// Its bytes.
        len: usize,
        /// Bytes of a key.
        expected: usize,
    },

    /// Strings with offsets on a device that is to build a tree over them.
    #[error(
        "strings with offsets: {device} builds trees over keys of one width, as `DeviceKeys::fixed` takes them; \
         of others, build from main memory"
    )]
    SeveralWidths {
        /// The device.
        device: String,
    },

    /// A key that is longer than the index takes.
    #[error("keys[{index}] has {len} bytes, and the index is to hold keys of at most {max}")]
    KeyTooLong {
        /// The first such key's index.
        index: usize,
        /// Its bytes.
        len: usize,
        /// The most that a key may have.
        max: usize,
    },

    /// A longest key of a device that a hybrid index has no place for.
    #[error("keys of up to {bytes} bytes on the device: it has leaves for keys of 1 to {MAX_FIXED} bytes")]
    MaxDeviceKey {
        /// The bytes asked for.
        bytes: usize,
    },

    /// A call over buffers of a device that runs kernels, of a tree on the host.
    #[error("{call} of a tree on the host: it is for devices that run kernels")]
    NotOnDevice {
        /// The call.
        call: &'static str,
    },

    /// A call that the device cannot answer alone, of a tree with leaves in main memory.
    #[error(
        "{call} of a tree with {leaves} leaves in main memory, which the device does not reach: build it with device leaves"
    )]
    LeavesInMainMemory {
        /// The call.
        call: &'static str,
        /// Leaves in main memory.
        leaves: usize,
    },

    /// An engine of updates that is not for such a tree.
    #[error("updates by {engine}: not of this tree, as {reason}")]
    UpdateEngine {
        /// The engine asked for.
        engine: &'static str,
        /// Why not.
        reason: &'static str,
    },

    /// A device that an index has no kernels for.
    #[error("{index} on {device}: it runs on the host only, which is Device::host()")]
    HostOnly {
        /// The index.
        index: &'static str,
        /// The device asked for.
        device: String,
    },

    /// A query for ranks in a tree of which the leaves are in no order.
    #[error("{query} cannot be told, since keys have come or gone after the tree was built: call compact() first")]
    NotCompact {
        /// What was asked.
        query: &'static str,
    },

    /// Bits that a key does not have.
    #[error("bits {start}..{end} of a key: it has {width}, and a range starts where it ends or before")]
    BitRange {
        /// The first bit asked for.
        start: u32,
        /// The bit behind the last.
        end: u32,
        /// Bits of a key.
        width: u32,
    },

    /// Positions that a word is too narrow for.
    #[error("{elements} elements have positions that {bits} bits do not hold: use 64-bit positions")]
    PositionWidth {
        /// Elements given.
        elements: usize,
        /// Bits of a position.
        bits: u32,
    },

    /// More elements than can be numbered in tiles.
    #[error("{elements} elements are more than one sort can number: split them")]
    TooManyElements {
        /// Elements given.
        elements: usize,
    },

    /// More queries than one launch can serve.
    #[error("a batch of {queries} queries is more than one launch can serve: split it")]
    BatchTooLarge {
        /// Queries given.
        queries: usize,
    },

    /// More operations than one batch can have.
    #[error("a batch of {operations} operations on distinct keys: at most 2^31 - 1 go into one, so split it")]
    TooManyOperations {
        /// Distinct keys of the batch.
        operations: usize,
    },

    /// Operations of a batch on the device that are neither inserts nor updates nor removals.
    #[error(
        "{operations} operations of an unknown kind, first kinds[{index}] = {kind}: 0 inserts, 1 updates, 2 removes"
    )]
    UnknownKinds {
        /// How many.
        operations: u64,
        /// The place of the first of them in the batch.
        index: usize,
        /// Its kind.
        kind: u32,
    },

    /// A batch of updates in buffers, for a tree on the host.
    #[error("a tree on {device} takes its updates from slices")]
    NoUpdates {
        /// The tree's device.
        device: String,
    },

    /// A mirrored pair without a tree on the host.
    #[error("a tree on {device}: a mirrored pair begins with one on the host")]
    NotOnHost {
        /// The tree's device.
        device: String,
    },

    /// The device failed while a batch of updates was written: what the tree holds is unknown. Every later
    /// call gives this error too.
    #[error("the tree is lost, as the device failed while it was updated: {reason}")]
    Lost {
        /// What failed.
        reason: String,
    },

    /// The device or its driver.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

/// # Errors
/// [`runtime::Error::WrongDevice`] if the devices differ.
pub(crate) fn same_device(expected: &runtime::Device, actual: &runtime::Device, action: &'static str) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    let (expected, actual) = (expected.to_string(), actual.to_string());
    Err(runtime::Error::WrongDevice { action, expected, actual }.into())
}
