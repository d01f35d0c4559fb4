use arrow_schema::{ArrowError, DataType};

/// A result whose error is [`Error`] unless said otherwise.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a column could not be indexed, or probes not be answered.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A type without keys.
    #[error(
        "a column of type {0} can't be indexed: cast it to an integer, a float, a date, a time, a decimal of at most 128 bits, or a string"
    )]
    Type(DataType),

    /// A dictionary whose values have no room in one array.
    #[error("the values of a dictionary can't be written out: {0}: split the column, or use one of large strings")]
    Dictionary(ArrowError),

    /// Probes of another type than the index.
    #[error("the index is over {index}, but these are {probes}: cast them to {index}")]
    ProbeType {
        /// The type of the index.
        index: DataType,
        /// The type of the probes.
        probes: DataType,
    },

    /// A null in a column that may have none.
    #[error("row {row} is null: build the index with `Nulls::Skip`, or leave out the column's {nulls} nulls")]
    Null {
        /// The first null.
        row: usize,
        /// How many there are.
        nulls: usize,
    },

    /// A column on a device whose elements are others than those that were asked for.
    #[error(
        "a column of type {data_type} on a device is no buffer of `{element}`: name another type of elements, or copy it to main memory"
    )]
    Elements {
        /// The type of the column.
        data_type: DataType,
        /// The type of elements that was asked for.
        element: &'static str,
    },

    /// A column that is on another device.
    #[error(
        "the array is {place}, but the stream is of {device}: copy the array there, or use an index on the array's device"
    )]
    Place {
        /// Where the array is.
        place: String,
        /// The device of the stream.
        device: String,
    },

    /// An array of the C device interface that is no column of a fixed size.
    #[error("the array can't be taken from, or given to, a device: {reason}")]
    DeviceArray {
        /// Why.
        reason: String,
    },

    /// Nulls in a column on a device that may have none.
    #[error(
        "the column on a device has {} nulls: leave them out there, or take its elements together with its validity",
        nulls.map_or("uncounted".to_owned(), |nulls| nulls.to_string())
    )]
    DeviceNulls {
        /// How many; `None` if nobody has counted them.
        nulls: Option<usize>,
    },

    /// Ranges with more starts than ends, or fewer.
    #[error("{starts} starts but {ends} ends: give one end per start")]
    BoundLengths {
        /// Starts given.
        starts: usize,
        /// Ends given.
        ends: usize,
    },

    /// Main memory has no room for results.
    #[error("main memory has no room for {elements} more elements of {bytes} bytes: probe with smaller batches")]
    NoRoom {
        /// How many elements.
        elements: usize,
        /// The size of one.
        bytes: usize,
    },

    /// A file that could not be written, or that is not one of its format.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    #[error("the file of an index can't be {action}: {source}")]
    File {
        /// What was being done: `"read"` or `"written"`.
        action: &'static str,
        /// The error of the format's own crate.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// A file whose columns are not the columns that the index has.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    #[error("the file has columns of types [{found}], but the index needs {needed}: select and cast them")]
    Columns {
        /// The types in the file.
        found: String,
        /// What the index is of.
        needed: String,
    },

    /// A file whose pairs are not those that were written.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    #[error(
        "the pairs of the file, with their checksums, were `{written}`, but are `{read}`: the file is damaged; if another program has changed it on purpose, remove its metadata `lanetree.pairs`"
    )]
    Pairs {
        /// The number and the checksums that the file has.
        written: String,
        /// The columns that were read.
        read: String,
    },

    /// A row number that can't be.
    #[cfg(any(feature = "ipc", feature = "parquet"))]
    #[error("pair {pair} of the file is of row {row}, but {reason}")]
    Row {
        /// Which pair.
        pair: usize,
        /// Its row.
        row: u64,
        /// Why that can't be.
        reason: String,
    },

    /// The index's own.
    #[error(transparent)]
    Index(#[from] lanetree::Error),
}

/// An empty vector with room.
pub(crate) fn room<T>(elements: usize) -> Result<Vec<T>> {
    let mut out = Vec::new();
    out.try_reserve_exact(elements).map_err(|_| Error::NoRoom { elements, bytes: size_of::<T>() })?;
    Ok(out)
}

/// A vector of one element, over and over.
pub(crate) fn filled<T: Clone>(element: T, elements: usize) -> Result<Vec<T>> {
    let mut out = room(elements)?;
    out.resize(elements, element);
    Ok(out)
}
