//! An example to copy: kernels of a user's own that probe an index on the device, each a join of one pass.
//!
//! A look-up as a call of its own writes a value and a bit per row, for a next kernel to read. Here the kernel of the join
//! takes the index as an argument ([`LaneTree::handle_on`](lanetree::LaneTree::handle_on)) and looks keys up where it has
//! them; what does not pass the filter is not looked up, and what does not join is not written.
//!
//! * [`semi_join`] keeps the rows whose amount is above a threshold and whose key is in the index, and sums the index's values
//!   for them: look-ups ([`Probe::get`](lanetree_kernels_lane_tree::Probe::get)).
//! * [`band_sums`] sums, for each row, the values of the index's pairs between two keys: ranks, and a cursor along the pairs
//!   ([`Probe::lower_bound`](lanetree_kernels_lane_tree::Probe::lower_bound)).
//! * [`star_join`] finds the rows whose keys are in two indexes: a handle for each, side by side in shared memory.
//!
//! The kernels are in `kernels/`, a crate of its own that is compiled for the device, too (`cargo xtask ptx`). It depends on
//! `lanetree-kernels-lane-tree` without that crate's default features.
//!
//! ```
//! use lanetree::{Device, LaneTree};
//! use lanetree_joins::{Kept, Rows, semi_join};
//!
//! # fn main() -> lanetree::Result<()> {
//! let device = Device::emulated();
//! let customers = LaneTree::build(&device, &[10_u64, 20, 30], &[1_u32, 2, 3])?;
//!
//! let stream = device.stream()?;
//! let (keys, amounts) = (device.upload(&[30_u64, 15, 10, 30])?, device.upload(&[7_u64, 9, 1, 8])?);
//! let mut kept = Kept::new(&device, 4)?;
//! semi_join(&stream, &customers, Rows { keys: &keys, amounts: &amounts }, 5, &mut kept)?;
//!
//! let mut rows = kept.to_vec()?;
//! rows.sort();
//! assert_eq!(rows, [(30, 7), (30, 8)]);
//! assert_eq!(kept.sum()?, 6);
//! # Ok(())
//! # }
//! ```

/// The guide's page about such kernels, whose example is compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/kernels-of-your-own.md")]
struct Guide;

mod band_sums;
mod semi_join;
mod star_join;
#[cfg(test)]
mod tests;

pub use band_sums::{Bands, Sums, band_sums};
#[doc(hidden)]
pub use lanetree_kernels_joins::modules::MODULES;
pub use semi_join::{Kept, Rows, semi_join};
pub use star_join::star_join;

use lanetree::{Buffer, Error, Result};

/// Checks that a buffer has an element for each row.
fn check<T: bytemuck::Pod>(what: &'static str, expected: usize, buffer: &Buffer<T>) -> Result<()> {
    let actual = buffer.len();
    if actual < expected { Err(Error::OutputLength { what, expected, actual }) } else { Ok(()) }
}
