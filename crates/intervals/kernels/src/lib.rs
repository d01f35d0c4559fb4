//! Kernels of the interval index ([`layout`]): its build, and the search for the intervals that contain a point.
#![no_std]
#![cfg_attr(all(target_os = "cuda", not(feature = "cuda_std")), feature(abi_ptx))]

mod build;
#[cfg(not(target_os = "cuda"))]
pub mod calls;
mod instances;
pub mod layout;
pub mod modules;
mod search;
mod stab;

pub use build::{
    Arrange, ArrangeArgs, Check, CheckArgs, Link, LinkArgs, Mark, MarkArgs, Raise, RaiseArgs, Turn, TurnArgs,
};
pub use search::{Intervals, innermost, link};
pub use stab::{Count, CountArgs, MostSpecific, MostSpecificArgs, Stab, StabArgs};
