//! What can go wrong, with the values that went wrong and what to do.

use lanetree_runtime as runtime;
use lanetree_runtime::ErrorKind;

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = core::result::Result<T, E>;

runtime::errors! {
    /// Why an index could not do what it was asked.
    ///
    /// A call that gives an error has not changed the index, with these exceptions, which the calls name:
    ///
    /// * [`Error::Lost`]: the device failed while it changed the index, which can no longer be used;
    /// * a mirrored pair (`Mirrored`) whose device fails: the index on the host has the batch, and the copy is out of sync
    ///   until it is sent again;
    /// * calls in device form that say so: they return before their work is done, so a failure of the device may be the
    ///   error of a later call.
    ///
    /// An output buffer of a failed call may hold anything.
    #[non_exhaustive]
    #[derive(Debug)]
    pub enum Error {
        /// Keys and values do not pair up.
        #[error("{keys} keys but {values} values: give one value per key")]
        #[kind(InvalidInput)]
        LengthMismatch {
            /// Keys given.
            keys: usize,
            /// Values given.
            values: usize,
        },

        /// The input of a call that takes sorted pairs or keys is not sorted.
        #[error(
            "keys[{index}] = {key} is below {} = {previous}: sort the pairs, or use the build that sorts them",
            before("keys", *index)
        )]
        #[kind(InvalidInput)]
        NotSorted {
            /// The first key that is below the one before it. 0 where the input comes in pieces, and the one before it is the last
            /// of the pieces before.
            index: usize,
            /// The key before it.
            previous: String,
            /// That key.
            key: String,
        },

        /// The input of a build from distinct keys has one twice.
        #[error("keys[{index}] = {key} equals {}: keep one pair per key", before("keys", *index))]
        #[kind(InvalidInput)]
        NotDistinct {
            /// The first key that equals the one before it.
            index: usize,
            /// That key.
            key: String,
        },

        /// The input of a build that refuses equal keys has one twice.
        #[error(
            "keys[{index}] = {key} equals keys[{first}]: leave one of them out, or build with `Duplicates::First` or `Last`"
        )]
        #[kind(InvalidInput)]
        RepeatedKey {
            /// The first row whose key an earlier row has.
            index: usize,
            /// The first row with that key.
            first: usize,
            /// That key.
            key: String,
        },

        /// The input of a build that refuses nulls has one.
        #[error("keys[{index}] is null: leave such rows out, or build with `Nulls::Skip`")]
        #[kind(InvalidInput)]
        NullKey {
            /// The first row whose key is null.
            index: usize,
        },

        /// A fanout without kernels.
        #[error("there are no kernels for a fanout of {fanout}: choose one of {available:?}")]
        #[kind(InvalidInput)]
        Fanout {
            /// The fanout asked for.
            fanout: u32,
            /// The fanouts there are.
            available: &'static [u32],
        },

        /// An option whose kernels are not in this build.
        #[error("{option} needs kernels that this build lacks: turn on the feature `{feature}` of the crate `lanetree`")]
        #[kind(NotCompiled)]
        Feature {
            /// The option.
            option: String,
            /// The feature with which its kernels are compiled.
            feature: &'static str,
        },

        /// A fill outside (0, 1].
        #[error("a fill of {fill} is not possible: choose the part of each leaf's slots to fill, above 0 and at most 1")]
        #[kind(InvalidInput)]
        Fill {
            /// The fill asked for.
            fill: f64,
        },

        /// A width of thread groups without kernels.
        #[error("there are no kernels for {lanes} lanes per query at a fanout of {fanout}: choose one of {available:?}")]
        #[kind(InvalidInput)]
        GroupWidth {
            /// The width asked for.
            lanes: u32,
            /// The tree's fanout.
            fanout: u32,
            /// The widths there are.
            available: &'static [u32],
        },

        /// More pairs than 32-bit node numbers can address.
        #[error(
            "{pairs} pairs at a fanout of {fanout} and a fill of {fill} need more than 2^32 - 1 nodes: use a larger fanout or fill"
        )]
        #[kind(TooLarge)]
        TooManyPairs {
            /// Pairs given.
            pairs: usize,
            /// The fanout asked for.
            fanout: u32,
            /// The fill asked for.
            fill: f64,
        },

        /// More pairs than 32-bit numbers of leaves can address.
        #[error("{pairs} pairs are too many leaves: one tree holds at most {most}; use several")]
        #[kind(TooLarge)]
        TooManyLeaves {
            /// Pairs given.
            pairs: u64,
            /// The most that a tree can hold.
            most: u64,
        },

        /// More values of a key than a multi-map can count.
        #[error("the key {key} would have {values} values: a key of a multi-map has at most {most}; split it into several")]
        #[kind(TooLarge)]
        TooManyValues {
            /// The first such key.
            key: String,
            /// Its values.
            values: u64,
            /// The most that a key can have.
            most: u64,
        },

        /// A sum that 64 bits do not hold.
        #[error(
            "the sum of the values of range {range} has more than 64 bits: ask for it in device form, where other ranges have their results, or in shorter ranges"
        )]
        #[kind(Overflow)]
        SumOverflow {
            /// The first such range of the batch.
            range: usize,
        },

        /// More rows, or pairs of ranges, than main memory has room for.
        #[error(
            "main memory has no room for {rows} rows, which are {bytes} bytes: {free} bytes are free; ask for fewer at a time, or in device form"
        )]
        #[kind(OutOfMemory)]
        TooManyRows {
            /// Rows that were counted.
            rows: u64,
            /// Bytes that they need.
            bytes: u128,
            /// Bytes free at that time.
            free: u64,
        },

        /// A block has no room for the tables of the trees that it probes.
        #[error(
            "{threads} threads that probe these trees need {needed} bytes of shared memory, and a block on {device} can have {most}: build the trees with fewer `table_nodes`"
        )]
        #[kind(Unsupported)]
        SharedMemory {
            /// The fewest threads of a block.
            threads: u32,
            /// Bytes that they need.
            needed: u32,
            /// Bytes that a block can have.
            most: u32,
            /// The device.
            device: String,
        },

        /// An option of a build or a query that is not possible, or a list of devices.
        #[error("{what} of {value} is not possible: choose {allowed}")]
        #[kind(InvalidInput)]
        OptionValue {
            /// Which option.
            what: &'static str,
            /// The value given.
            value: String,
            /// The values there are.
            allowed: &'static str,
        },

        /// What was named before a query in device form that does not use it.
        #[error("{option}() was called before {call}(), which does not use it: leave it out")]
        #[kind(InvalidInput)]
        UnusedOption {
            /// The call that named it.
            option: &'static str,
            /// The query.
            call: &'static str,
        },

        /// A range that ends before it starts.
        #[error("range {index} starts at {start} and ends at {end}, before its start: swap the bounds, or leave it out")]
        #[kind(InvalidInput)]
        ReversedRange {
            /// Its place in the batch.
            index: usize,
            /// Its first key.
            start: String,
            /// Its last key.
            end: String,
        },

        /// Starts and ends of ranges that do not pair up.
        #[error("{starts} starts but {ends} ends: give one of each per range")]
        #[kind(InvalidInput)]
        BoundLengths {
            /// Starts given.
            starts: usize,
            /// Ends given.
            ends: usize,
        },

        /// A buffer, slice or scratch memory of the wrong length.
        #[error("{what} holds {}, but {}", elements(*actual), wanted(*expected, *actual))]
        #[kind(InvalidInput)]
        OutputLength {
            /// Which one.
            what: &'static str,
            /// Elements needed.
            expected: usize,
            /// Elements it has room for.
            actual: usize,
        },

        /// An offset of packed strings that is below the one before it.
        #[error("offsets[{index}] = {offset} is below {} = {previous}: offsets must not descend", before("offsets", *index))]
        #[kind(InvalidInput)]
        OffsetOrder {
            /// The first such offset's index.
            index: usize,
            /// The offset before it.
            previous: u64,
            /// That offset.
            offset: u64,
        },

        /// An offset of packed strings past the end of their bytes.
        #[error("offsets[{index}] = {offset} is past the end of the bytes: there are {bytes}, so no offset may be larger")]
        #[kind(InvalidInput)]
        OffsetBounds {
            /// The first such offset's index.
            index: usize,
            /// That offset.
            offset: u64,
            /// Bytes given.
            bytes: usize,
        },

        /// Bytes that are not keys of the given width.
        #[error("{bytes} bytes are not keys of {width} bytes: give whole keys, of 1 to 2^32 - 1 bytes each")]
        #[kind(InvalidInput)]
        KeyWidth {
            /// The width asked for.
            width: usize,
            /// Bytes given.
            bytes: usize,
        },

        /// A string whose length differs from that of keys of its type.
        #[error("keys[{index}] has {len} bytes, but a key of this type has {expected}")]
        #[kind(InvalidInput)]
        KeyLength {
            /// The first such string's index.
            index: usize,
            /// Its bytes.
            len: usize,
            /// Bytes of a key.
            expected: usize,
        },

        /// Strings with offsets passed to a build on a device.
        #[error(
            "keys with offsets: {device} builds trees over keys of one width (`DeviceKeys::fixed`); build trees over keys of several \
             lengths from main memory"
        )]
        #[kind(InvalidInput)]
        SeveralWidths {
            /// The device.
            device: String,
        },

        /// A key that is longer than the index takes.
        #[error(
            "keys[{index}] has {len} bytes, but the index takes keys of at most {max}: leave it out, or choose other `LongKeys`"
        )]
        #[kind(InvalidInput)]
        KeyTooLong {
            /// The first such key's index.
            index: usize,
            /// Its bytes.
            len: usize,
            /// The most that a key may have.
            max: usize,
        },

        /// A maximum key length for the device for which a hybrid index has no leaves.
        #[error("the device cannot take keys of up to {bytes} bytes: choose a maximum from 1 to 32 bytes")]
        #[kind(InvalidInput)]
        MaxDeviceKey {
            /// The bytes asked for.
            bytes: usize,
        },

        /// A call for devices that run kernels, on a tree on the host.
        #[error("{call} needs a tree on a device that runs kernels, but this one is on the host: use the host form")]
        #[kind(Unsupported)]
        NotOnDevice {
            /// The call.
            call: &'static str,
        },

        /// A call that the device cannot answer alone, on a tree with leaves in main memory.
        #[error(
            "{call}: the tree has {leaves} leaves in main memory, which the device cannot read; build it with \
             `LongKeys::DeviceLeaves`"
        )]
        #[kind(Unsupported)]
        LeavesInMainMemory {
            /// The call.
            call: &'static str,
            /// Leaves in main memory.
            leaves: usize,
        },

        /// An update engine that cannot serve this tree or batch.
        #[error("the update engine {engine} cannot serve this call: {reason}")]
        #[kind(Unsupported)]
        UpdateEngine {
            /// The engine asked for.
            engine: &'static str,
            /// Why not.
            reason: &'static str,
        },

        /// A device that an index has no kernels for.
        #[error("{index} runs on the host only, not on {device}: use Device::host()")]
        #[kind(Unsupported)]
        HostOnly {
            /// The index.
            index: &'static str,
            /// The device asked for.
            device: String,
        },

        /// A query that needs leaves or values in order, of an index where they are not: ranks, and in a multi-map ranges, scans and
        /// joins by ranges.
        #[error(
            "{query} is not available, because keys were inserted or removed since the index was built: call `{restore}` first"
        )]
        #[kind(WrongState)]
        NotCompact {
            /// What was asked.
            query: &'static str,
            /// The method that puts them in order.
            restore: &'static str,
        },

        /// Bits that a key does not have.
        #[error("bits {start}..{end} of a key of {width} bits: start at or before the end, and end at {width} or before")]
        #[kind(InvalidInput)]
        BitRange {
            /// The first bit asked for.
            start: u32,
            /// The bit past the last.
            end: u32,
            /// Bits of a key.
            width: u32,
        },

        /// Positions that do not fit into the word type.
        #[error("{elements} elements are more than {bits} bits can number: use 64-bit positions")]
        #[kind(InvalidInput)]
        PositionWidth {
            /// Elements given.
            elements: usize,
            /// Bits of a position.
            bits: u32,
        },

        /// More elements than tile numbers can address.
        #[error("{elements} elements are too many for one call: split them")]
        #[kind(TooLarge)]
        TooManyElements {
            /// Elements given.
            elements: usize,
        },

        /// More queries than one launch can serve.
        #[error("a batch of {queries} queries is too large for one launch: split it")]
        #[kind(TooLarge)]
        BatchTooLarge {
            /// Queries given.
            queries: usize,
        },

        /// More operations than one batch can have.
        #[error("a batch of {operations} operations is too large: split it into batches of at most 2^31 - 1")]
        #[kind(TooLarge)]
        TooManyOperations {
            /// Distinct keys of the batch.
            operations: usize,
        },

        /// Operations of a batch on the device that are neither inserts nor updates nor removals.
        #[error(
            "unknown operation kinds: {operations}, the first of them kinds[{index}] = {kind}; use 0 to insert, 1 to update, 2 to remove"
        )]
        #[kind(InvalidInput)]
        UnknownKinds {
            /// How many.
            operations: u64,
            /// The index of the first of them in the batch.
            index: usize,
            /// Its kind.
            kind: u32,
        },

        /// A batch of updates in buffers, for a tree on the host.
        #[error("a tree on {device} takes no updates from buffers: pass slices to `apply`")]
        #[kind(Unsupported)]
        NoUpdates {
            /// The tree's device.
            device: String,
        },

        /// A mirrored pair without a tree on the host.
        #[error("a mirrored pair needs a tree on the host, but this one is on {device}: build it on Device::host()")]
        #[kind(Unsupported)]
        NotOnHost {
            /// The tree's device.
            device: String,
        },

        /// The device failed while it changed the tree, so the tree's contents are unknown.
        ///
        /// Every later call that reads or changes its pairs gives this error too, with the same reason, and reads nothing.
        /// Only what is said of the tree as a whole (`len`, `stats`, `device`) is still told, and may be wrong. Build the
        /// tree again; the copy of a mirrored pair is sent again by its next batch.
        #[error("the tree is lost, because the device failed while it was changed: {reason}; build it again")]
        #[kind(Lost)]
        Lost {
            /// What failed.
            reason: String,
        },
    }
    transparent {
        /// The device or its driver.
        #[kind(runtime::Error::kind)]
        Runtime(runtime::Error),

        /// A file.
        #[kind(|error| error.kind)]
        File(FileError),
    }
}

/// An error of a file, as the error of a call that is not of files alone: that of Lanetree's files, behind
/// [`FileError::downcast_ref`].
#[derive(Debug)]
pub struct FileError {
    kind: ErrorKind,
    error: Box<dyn core::error::Error + Send + Sync>,
}

impl FileError {
    /// Of another crate's error.
    pub fn new(kind: ErrorKind, error: impl core::error::Error + Send + Sync + 'static) -> Self {
        Self { kind, error: Box::new(error) }
    }

    /// The error of the file, if it is of this type.
    ///
    /// # Errors
    /// Itself, if it is not.
    pub fn downcast<E: core::error::Error + 'static>(self) -> Result<E, Self> {
        let Self { kind, error } = self;
        error.downcast().map(|error| *error).map_err(|error| Self { kind, error })
    }

    /// The error of the file, if it is of this type.
    pub fn downcast_ref<E: core::error::Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

impl core::fmt::Display for FileError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.error.fmt(f)
    }
}

impl core::error::Error for FileError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Self {
        Self::Runtime(error)
    }
}

/// What comes before an element of an input, which may come in pieces.
fn before(what: &str, index: usize) -> String {
    index.checked_sub(1).map_or_else(|| "the last one before this piece".into(), |index| format!("{what}[{index}]"))
}

/// "1 element", "2 elements".
fn elements(count: usize) -> String {
    format!("{count} element{}", if count == 1 { "" } else { "s" })
}

/// What the length should have been: more, or exactly that.
fn wanted(expected: usize, actual: usize) -> String {
    let are = if expected == 1 { "is" } else { "are" };
    match actual < expected {
        true => format!("{expected} {are} needed; allocate at least {expected}"),
        false => format!("exactly {expected} {are} needed"),
    }
}

/// # Errors
/// [`runtime::Error::WrongDevice`] if the devices differ.
pub fn same_device(expected: &runtime::Device, actual: &runtime::Device, action: &'static str) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    let (expected, actual) = (expected.to_string(), actual.to_string());
    Err(runtime::Error::WrongDevice { action, expected, actual }.into())
}

/// Checks that there are as many ends as starts of ranges.
///
/// # Errors
/// [`Error::BoundLengths`].
pub fn check_bounds(starts: usize, ends: usize) -> Result<()> {
    if starts == ends { Ok(()) } else { Err(Error::BoundLengths { starts, ends }) }
}

/// Checks that a buffer has at least `expected` elements, and is on a device.
///
/// # Errors
/// [`Error::OutputLength`]; [`runtime::Error::WrongDevice`].
pub fn check_buffer<T: bytemuck::Pod>(
    device: &runtime::Device,
    what: &'static str,
    expected: usize,
    buffer: &runtime::Buffer<T>,
) -> Result<()> {
    if buffer.len() < expected {
        return Err(Error::OutputLength { what, expected, actual: buffer.len() });
    }
    same_device(device, buffer.device(), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_of_a_piece_is_told_with_the_last_one_before() {
        let message = |index| Error::NotSorted { index, previous: "2".into(), key: "1".into() }.to_string();
        let advice = ": sort the pairs, or use the build that sorts them";
        assert_eq!(message(3), format!("keys[3] = 1 is below keys[2] = 2{advice}"));
        assert_eq!(message(0), format!("keys[0] = 1 is below the last one before this piece = 2{advice}"));
        let message = Error::NotDistinct { index: 0, key: "1".into() }.to_string();
        assert_eq!(message, "keys[0] = 1 equals the last one before this piece: keep one pair per key");
    }

    #[test]
    fn lengths_are_told_with_what_to_do() {
        let message = |expected, actual| Error::OutputLength { what: "`values`", expected, actual }.to_string();
        assert_eq!(message(3, 1), "`values` holds 1 element, but 3 are needed; allocate at least 3");
        assert_eq!(message(1, 0), "`values` holds 0 elements, but 1 is needed; allocate at least 1");
        assert_eq!(message(2, 3), "`values` holds 3 elements, but exactly 2 are needed");
    }
}
