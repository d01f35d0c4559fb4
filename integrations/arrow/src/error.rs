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
