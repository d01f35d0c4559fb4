//! The program's tests, in one binary.

mod figures;
mod key_files;
mod measured;
