//! The semi-join.

use crate::check;
use lanetree::lane_tree::shape_for_rows;
use lanetree::{Buffer, Device, Key, LaneTree, Result, Stream, Value};
use lanetree_kernels_joins::{MOST_THREADS, SemiJoinArgs, calls};

/// Rows on the device.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, K> {
    /// The foreign key of each row.
    pub keys: &'a Buffer<K>,
    /// The amount of each.
    pub amounts: &'a Buffer<u64>,
}

/// The rows that a [`semi_join`] has kept, on the device.
#[derive(Debug)]
pub struct Kept<K> {
    /// Their keys; past them anything.
    pub keys: Buffer<K>,
    /// Their amounts.
    pub amounts: Buffer<u64>,
    /// `[2]`: how many rows, and the sum.
    pub totals: Buffer<u64>,
}

impl<K: Key> Kept<K> {
    /// Room on `device` for a semi-join of `rows` rows that all match, allocated now.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree::Error::Runtime) if the device has no room, here and below from its driver.
    pub fn new(device: &Device, rows: usize) -> Result<Self> {
        Ok(Self { keys: device.alloc(rows)?, amounts: device.alloc(rows)?, totals: device.alloc(2)? })
    }

    /// How many rows were kept. Waits for the join.
    ///
    /// # Errors
    /// As [`Kept::new`].
    pub fn len(&self) -> Result<usize> {
        Ok(self.totals.to_vec()?[0] as usize)
    }

    /// Whether none was. Waits for the join.
    ///
    /// # Errors
    /// As [`Kept::new`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The sum of the index's values for the rows that were kept, wrapping. Waits for the join.
    ///
    /// # Errors
    /// As [`Kept::new`].
    pub fn sum(&self) -> Result<u64> {
        Ok(self.totals.to_vec()?[1])
    }

    /// The rows, in no particular order. Waits for the join.
    ///
    /// # Errors
    /// As [`Kept::new`].
    pub fn to_vec(&self) -> Result<Vec<(K, u64)>> {
        let len = self.len()?;
        let (keys, amounts) = (self.keys.to_vec()?, self.amounts.to_vec()?);
        Ok(keys.into_iter().zip(amounts).take(len).collect())
    }
}

/// Keeps the rows whose amount is above `threshold` and whose key is in the index, or in the [set](lanetree::LaneSet::as_tree). Allocates nothing, waits for nothing, and
/// may return before it is done.
///
/// # Errors
/// [`OutputLength`](lanetree::Error::OutputLength) for a buffer that is too small; [`Lost`](lanetree::Error::Lost);
/// [`Runtime`](lanetree::Error::Runtime) for a buffer of another device than the stream's, from the launch, and on the host,
/// which runs no kernels.
pub fn semi_join<K: Key, V: Value>(
    stream: &Stream,
    index: &LaneTree<K, V>,
    rows: Rows<'_, K>,
    threshold: u64,
    kept: &mut Kept<K>,
) -> Result<()> {
    let count = rows.keys.len();
    check("the amounts' buffer", count, rows.amounts)?;
    check("the buffer of the keys that are kept", count, &kept.keys)?;
    check("the buffer of the amounts that are kept", count, &kept.amounts)?;
    check("the totals' buffer", 2, &kept.totals)?;
    kept.totals.fill_zero_range(stream, 0..2)?;
    let args = SemiJoinArgs {
        index: index.handle_on(stream)?,
        keys: rows.keys.read_on(stream)?.cast::<K::Bits>(),
        amounts: rows.amounts.read_on(stream)?,
        count: count as u64,
        threshold,
        kept_keys: kept.keys.write_on(stream)?.cast(),
        kept_amounts: kept.amounts.write_on(stream)?,
        totals: kept.totals.write_on(stream)?,
    };
    let shape = shape_for_rows(stream, args.count, MOST_THREADS, |threads| args.index.shared_bytes(threads))?;
    // SAFETY: blocks of whole warps, of at most `MOST_THREADS` threads, with shared memory for the handle. The buffers
    // were checked to be long enough; handle and pointers are for this stream, and index and buffers have been borrowed
    // since.
    Ok(unsafe { stream.call(shape, calls::semi_join(&args)) }?)
}
