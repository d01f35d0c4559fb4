//! All indexes through the suite; and the suite itself, which must find what is broken.

mod broken;
mod indexes;
mod numbers;
mod parsers;
mod primitives;
mod shortening;
