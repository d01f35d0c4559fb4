//! What several of the tests need.

pub(crate) mod cuart_lost;
pub(crate) mod cuart_models;
pub(crate) mod points;
