//! Composite keys of two columns on a device.

use crate::error::same_device;
use crate::launch::{self, THREADS};
use crate::parallel::*;
use crate::{Error, Result};
use lanetree_kernels_base::calls;
use lanetree_kernels_base::keys::ComposeArgs;
use lanetree_layout::{Composite, Key};
use lanetree_runtime::{Buffer, DeviceKind, Stream};

/// Makes composite keys of two columns of the same length, on a stream: `keys[i]` becomes `(firsts[i], seconds[i])`. Elements of
/// `keys` past these are not changed. It allocates nothing and may return before its work is done.
///
/// ```
/// use lanetree::{Composite, Device, compose_on};
///
/// # fn main() -> lanetree::Result<()> {
/// let device = Device::host();
/// let (stocks, times) = (device.upload(&[7_u32, 7])?, device.upload(&[-1_i64, 5])?);
/// let mut keys = device.alloc(2)?;
/// compose_on(&device.stream()?, &stocks, &times, &mut keys)?;
/// assert_eq!(keys.to_vec()?, [Composite::new(7, -1), Composite::new(7, 5)]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::OutputLength`] unless there is one second key per first key, and room for all keys; [`Error::BatchTooLarge`];
/// [`Error::Runtime`] for a buffer of another device than the stream's, and from the launch.
pub fn compose_on<A: Key, B: Key>(
    stream: &Stream,
    firsts: &Buffer<A>,
    seconds: &Buffer<B>,
    keys: &mut Buffer<Composite<A, B>>,
) -> Result<()> {
    let count = firsts.len();
    if seconds.len() != count {
        return Err(Error::OutputLength { what: "the second keys' buffer", expected: count, actual: seconds.len() });
    }
    if keys.len() < count {
        return Err(Error::OutputLength { what: "the composite keys' buffer", expected: count, actual: keys.len() });
    }
    same_device(stream.device(), firsts.device(), "the first keys' buffer")?;
    same_device(stream.device(), seconds.device(), "the second keys' buffer")?;
    same_device(stream.device(), keys.device(), "the composite keys' buffer")?;
    if count == 0 {
        return Ok(());
    }
    if stream.device().kind() == DeviceKind::Host
        && let (Some(firsts), Some(seconds), Some(keys)) = (firsts.as_slice(), seconds.as_slice(), keys.as_mut_slice())
    {
        keys.par_iter_mut()
            .zip(firsts)
            .zip(seconds)
            .for_each(|((key, &first), &second)| *key = Composite::new(first, second));
        return Ok(());
    }
    let args = ComposeArgs {
        firsts: firsts.read_on(stream)?.cast(),
        seconds: seconds.read_on(stream)?.cast(),
        count: count as u64,
        keys: keys.write_on(stream)?.cast(),
        first_flip: A::FLIP,
        second_flip: B::FLIP,
    };
    let launch = launch::over(stream, count as u64, 1, THREADS)?;
    // SAFETY: the buffers were checked to be long enough; the pointers are for this stream.
    Ok(unsafe { launch.run(calls::compose::<A::Bits, B::Bits>(&args)) }?)
}
