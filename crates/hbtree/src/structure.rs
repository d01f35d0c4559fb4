//! What a tree is made of: inner levels that find the leaf of a query, and leaves in host memory. The queries, and their way
//! through a device, are written once over these (the paper's second line of future work: any tree that stores its pairs in
//! its leaves).

use crate::device::{Descending, DeviceLines};
use crate::options::{BuildTimes, Descent, DeviceSearch, Options, Pinning, UpdateTimes};
use crate::sorting::Sorting;
use core::fmt::Debug;
use core::ops::Range;
use core::time::Duration;
use lanetree_frame::{Device, DeviceKind, Error, NetChange, Op, Result, Stream, UpdateReport, fold};
use lanetree_layout::{Key, Word};
use lanetree_runtime::GrantedPages;
use std::time::Instant;

/// Where a query belongs: the first pair whose key is not below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The leaf's number.
    pub leaf: u32,
    /// The number of the leaf's keys that are below the query. There may be no pair in this slot: then the next one is in
    /// the next leaf, if there is one.
    pub slot: u32,
    /// Whether the key is the query.
    pub is_hit: bool,
}

/// The structure of a tree.
pub trait Structure: Copy + Send + Sync + Debug + 'static {
    /// What it is called, in the name of the index.
    const NAME: &'static str;
    /// Whether [`Fanout`](crate::Fanout) chooses the children of its nodes.
    const HAS_FANOUTS: bool;
    /// Its inner levels.
    type Inner<K: Key>: Inner<K>;
    /// Its leaves.
    type Leaves<K: Key, V: Word>: Leaves<K, V>;

    /// The inner levels above leaves that are complete.
    ///
    /// # Errors
    /// [`Error::Runtime`] if host memory has no room for them.
    fn inner<K: Key, V: Word>(leaves: &mut Self::Leaves<K, V>, options: &Options) -> Result<Self::Inner<K>>;

    /// Applies operations: sorted by the CPU, unless the structure has a better way.
    ///
    /// # Errors
    /// As [`Structure::change`].
    fn apply<K: Key, V: Word>(
        tree: &mut Parts<K, V, Self>,
        count: usize,
        op: impl Fn(usize) -> Op<K, V> + Sync,
    ) -> Result<UpdateReport> {
        let started = Instant::now();
        let changes = fold(count, op)?;
        let folding = started.elapsed();
        let report = Self::change(tree, &changes)?;
        tree.update_times.fold = folding;
        Ok(report)
    }

    /// Changes the pairs: `changes` has one for each key, in ascending order. Either all of it is done, on the device too,
    /// or nothing.
    ///
    /// # Errors
    /// [`Error::Runtime`], [`Error::TooManyLeaves`].
    fn change<K: Key, V: Word>(
        tree: &mut Parts<K, V, Self>,
        changes: &[(K::Bits, NetChange<V>)],
    ) -> Result<UpdateReport>;
}

/// Inner levels in host memory: what finds the leaf of a query.
pub trait Inner<K: Key>: Sized + Send + Sync + Debug {
    /// Its copy on a device.
    type OnDevice: InnerOnDevice<K>;

    /// Levels.
    fn height(&self) -> u32;

    /// Most children of a node.
    fn fanout(&self) -> u32;

    /// Nodes.
    fn nodes(&self) -> u64;

    /// Bytes of host memory.
    fn bytes(&self) -> u64;

    /// The pages that they lie in.
    fn pages(&self) -> GrantedPages;

    /// Takes each query's node, of the first of these levels, down through them. Past the last level nodes are leaves.
    fn descend(&self, how: Descent, words: &[K::Bits], levels: Range<u32>, nodes: &mut [u32]);

    /// A copy on a device, complete on return.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the device has no room.
    fn upload(&self, device: &Device) -> Result<Self::OnDevice>;
}

/// Inner levels in device memory.
pub trait InnerOnDevice<K: Key>: Sized + Send + Sync + Debug {
    /// What a bucket's descent needs in addition to queries and leaves.
    type Scratch: Send;

    /// Bytes on the device.
    fn bytes(&self) -> u64;

    /// Bytes of device memory and of pinned memory that batches of changes have allocated, and that are kept for the next
    /// ones.
    fn staging_bytes(&self) -> usize {
        0
    }

    /// Scratch memory for buckets of that many queries.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the device has no room.
    fn scratch(device: &Device, queries: usize) -> Result<Self::Scratch>;

    /// Bytes of scratch memory on the device.
    fn scratch_bytes(scratch: &Self::Scratch) -> usize;

    /// Launches the descent of queries, at least one.
    ///
    /// # Errors
    /// The errors of a launch.
    ///
    /// # Safety
    /// The stream may read `count` queries, and nodes unless these are null, and write `count` leaves.
    unsafe fn launch(
        &self,
        stream: &Stream,
        search: DeviceSearch,
        scratch: &mut Self::Scratch,
        batch: Descending<K::Bits>,
    ) -> Result<()>;
}

/// Leaves in host memory, in lines.
pub trait Leaves<K: Key, V: Word>: Sized + Send + Sync + Debug {
    /// Room for at most that many pairs, none of which is there yet.
    ///
    /// # Errors
    /// [`Error::TooManyLeaves`];
    /// [`Error::Runtime`] where main memory has no room.
    fn with_room(most: u64, options: &Options) -> Result<Self>;

    /// Appends pairs for which there is room, in strictly ascending order, above all that are there.
    fn append(&mut self, pairs: &[(K::Bits, V)]);

    /// Takes the last pair away again, so that another can take its place.
    fn forget_last(&mut self);

    /// Pairs.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves.
    fn count(&self) -> u64;

    /// Bytes of host memory.
    fn bytes(&self) -> u64;

    /// The pages that they lie in.
    fn pages(&self) -> GrantedPages;

    /// Pins the leaves, so that the device can read them.
    ///
    /// # Errors
    /// [`Error::Runtime`], where the system refuses it.
    fn pin(&mut self, device: &Device) -> Result<()>;

    /// The leaves for kernels of a stream.
    ///
    /// # Errors
    /// [`Error::Runtime`], if they are not pinned, among others.
    fn lines_on(&self, stream: &Stream) -> Result<DeviceLines>;

    /// The place of each query in its leaf, which is known; calls `each` with the query's number. The lines of the next
    /// `ahead` queries are under way while one is searched.
    fn find(&self, words: &[K::Bits], leaves: &[u32], ahead: usize, each: impl FnMut(usize, Place));

    /// The value of a hit.
    fn value(&self, place: Place) -> V;

    /// Makes what [`Leaves::rank`] needs, if it is not there: before the first call of it after a change.
    ///
    /// # Errors
    /// As [`Leaves::collect`].
    fn prepare_ranks(&self) -> Result<()> {
        Ok(())
    }

    /// The number of pairs before a place.
    fn rank(&self, place: Place) -> u64;

    /// The first pair at a place or after it, if there is one.
    fn pair_at(&self, place: Place) -> Option<(K::Bits, V)>;

    /// The last pair before a place, if there is one.
    fn pair_before(&self, place: Place) -> Option<(K::Bits, V)>;

    /// Prefetches `lines` lines after the line of a place into the caches.
    fn prefetch_after(&self, place: Place, lines: usize);

    /// Appends the pairs from a place on whose keys are not above `last`, up to `limit` of them.
    ///
    /// # Errors
    /// [`Error::Runtime`] if main memory has no room for them.
    fn collect(&self, place: Place, last: K::Bits, limit: u64, keys: &mut Vec<K>, values: &mut Vec<V>) -> Result<()>;

    /// All pairs in order.
    ///
    /// # Errors
    /// As [`Leaves::collect`].
    fn pairs(&self) -> Result<Vec<(K, V)>>;
}

/// What a tree is made of.
pub struct Parts<K: Key, V: Word, L: Structure> {
    /// The device that has the inner levels.
    pub(crate) device: Device,
    pub(crate) options: Options,
    pub(crate) leaves: L::Leaves<K, V>,
    pub(crate) inner: L::Inner<K>,
    /// The inner levels on the device; `None` on the host, and after a transfer has failed half-way: then the CPU answers
    /// all queries, until a later change sends them again.
    pub(crate) copy: Option<CopyOf<K, L>>,
    /// Why the device does not have the inner levels.
    pub(crate) no_copy: Option<String>,
    /// Whether the device can read the leaves, or why not, if that was asked for.
    pub(crate) pinned: Option<Result<(), String>>,
    /// What the last build has taken.
    pub(crate) times: BuildTimes,
    /// What the last batch of changes has taken.
    pub(crate) update_times: UpdateTimes,
    /// The memory of batches that the device sorts.
    pub(crate) sorting: Option<Sorting<K>>,
}

impl<K: Key, V: Word, L: Structure> Parts<K, V, L> {
    /// The tree over leaves that are complete; laying them out has taken `filling`.
    ///
    /// # Errors
    /// [`Error::Runtime`] if host memory or the device has no room for the inner levels, or
    /// the leaves cannot be pinned as [`Pinning::Required`] asks.
    pub(crate) fn over(device: &Device, options: Options, leaves: L::Leaves<K, V>, filling: Duration) -> Result<Self> {
        let mut parts = Self::in_main_memory(device, options, leaves, filling)?;
        parts.upload()?;
        parts.pin()?;
        Ok(parts)
    }

    /// [`Parts::over`] without what the device has.
    ///
    /// # Errors
    /// [`Error::Runtime`] if host memory has no room for the inner levels.
    pub(crate) fn in_main_memory(
        device: &Device,
        options: Options,
        mut leaves: L::Leaves<K, V>,
        filling: Duration,
    ) -> Result<Self> {
        let started = Instant::now();
        let inner = L::inner(&mut leaves, &options)?;
        let times = BuildTimes { leaves: filling, inner: started.elapsed(), ..BuildTimes::default() };
        Ok(Self {
            device: device.clone(),
            options,
            leaves,
            inner,
            copy: None,
            no_copy: None,
            pinned: None,
            times,
            update_times: UpdateTimes::default(),
            sorting: None,
        })
    }

    /// Sends the device the inner levels, unless that is the host.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the device has no room, among others.
    pub(crate) fn upload(&mut self) -> Result<()> {
        let started = Instant::now();
        if self.device.kind() != DeviceKind::Host {
            (self.copy, self.no_copy) = (Some(self.inner.upload(&self.device)?), None);
        }
        self.times.transfer = started.elapsed();
        Ok(())
    }

    /// Notes that the device has refused inner levels, or to pin leaves. Unless it merely has no room for them, it is not to be relied on, and its
    /// copy is dropped: so the next batch of changes does not depend on it.
    pub(crate) fn note_refusal(&mut self, error: &Error) {
        use lanetree_runtime::Error::{CannotPin, OutOfMemory, PoolLimit};
        let Error::Runtime(error) = error else { return };
        if !matches!(error, OutOfMemory { .. } | PoolLimit { .. } | CannotPin { .. }) {
            self.copy = None;
        }
        if self.copy.is_none() {
            self.no_copy = Some(error.to_string());
        }
    }

    /// Pins the leaves, if that is asked for and the device has the inner levels.
    ///
    /// # Errors
    /// [`Error::Runtime`] with [`Pinning::Required`].
    pub(crate) fn pin(&mut self) -> Result<()> {
        if self.copy.is_none() || self.options.pinning == Pinning::None {
            return Ok(());
        }
        self.pinned = Some(match self.leaves.pin(&self.device) {
            Err(error) if self.options.pinning == Pinning::Required => return Err(error),
            pinned => pinned.map_err(|error| error.to_string()),
        });
        Ok(())
    }

    /// Whether the device can read the leaves.
    pub(crate) fn leaves_pinned(&self) -> bool {
        matches!(self.pinned, Some(Ok(())))
    }
}

/// A copy of inner levels on a device.
pub(crate) type CopyOf<K, L> = <<L as Structure>::Inner<K> as Inner<K>>::OnDevice;
