//! Dictionaries, by the values that they stand for.

use crate::error::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use arrow_select::take::take;
use core::ops::Bound;

/// The type of a dictionary's values, or the type itself.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// An array whose elements are values.
pub(crate) enum Values<'a> {
    Given(&'a dyn Array),
    Written(ArrayRef),
}

impl<'a> Values<'a> {
    pub(crate) fn of(array: &'a dyn Array) -> Result<Self> {
        match array.as_any_dictionary_opt() {
            Some(dictionary) => {
                let values = take(dictionary.values(), dictionary.keys(), None);
                Ok(Self::Written(values.map_err(Error::Dictionary)?))
            }
            None => Ok(Self::Given(array)),
        }
    }

    pub(crate) fn of_bound(bound: Bound<&'a dyn Array>) -> Result<Bound<Self>> {
        Ok(match bound {
            Bound::Included(array) => Bound::Included(Self::of(array)?),
            Bound::Excluded(array) => Bound::Excluded(Self::of(array)?),
            Bound::Unbounded => Bound::Unbounded,
        })
    }

    pub(crate) fn array(&self) -> &(dyn Array + '_) {
        match self {
            Self::Given(array) => *array,
            Self::Written(array) => array,
        }
    }
}
