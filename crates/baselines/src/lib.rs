//! What Lanetree's indexes are checked against and compared with.
//!
//! [`oracle`]: the reference that `verify` and the tests believe.

pub mod oracle;
