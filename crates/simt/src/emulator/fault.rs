//! What a kernel did wrong, and where.

use super::access::{Earlier, GlobalAccess};
use crate::WARP;
use core::fmt;
use core::panic::Location;

/// A rule that a kernel broke, and the thread that broke it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kernel: an instance's symbol, or the name given to the launch.
    pub kernel: &'static str,
    /// The block's index in the grid.
    pub block: u32,
    /// The thread's index in its block.
    pub thread: u32,
    /// What it did.
    pub kind: FaultKind,
}

/// The ways in which a kernel can break the rules of [`Simt`](crate::Simt).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A launch with 0 or at least 2^31 blocks, or with 0 or more than 1024 threads per block.
    LaunchShape {
        /// Blocks asked for.
        blocks: u32,
        /// Threads of a block asked for.
        threads: u32,
    },
    /// A warp collective that cannot complete: lanes of its mask are elsewhere and will not reach it.
    CollectiveMismatch {
        /// What the thread called.
        op: Collective,
        /// Where.
        location: &'static Location<'static>,
        /// With which mask.
        mask: u32,
        /// The lanes of `mask` that called the same collective with the same mask.
        arrived: u32,
        /// The other lanes of `mask`, ascending, and where each is.
        missing: Vec<(u32, Whereabouts)>,
    },
    /// A warp collective whose caller is not in the mask that it passed.
    CallerNotInMask {
        /// What the thread called.
        op: Collective,
        /// Where.
        location: &'static Location<'static>,
        /// With which mask.
        mask: u32,
    },
    /// A shuffle from a lane that takes no part in it.
    SourceLaneNotInMask {
        /// What the thread called.
        op: Collective,
        /// Where.
        location: &'static Location<'static>,
        /// With which mask.
        mask: u32,
        /// The lane that it asked for.
        source: u32,
    },
    /// A block barrier that cannot complete: threads are elsewhere and will not reach it.
    BarrierNotReached {
        /// Where the thread waits.
        location: &'static Location<'static>,
        /// Threads of the block that wait at the barrier.
        arrived: u32,
        /// Threads of the block that do not.
        missing: u32,
        /// The first of these, and where it is.
        example: (u32, Whereabouts),
    },
    /// A read of shared memory that no thread of the block has written.
    UninitialisedShared {
        /// Byte offset in the block's shared memory.
        offset: u32,
    },
    /// An access beyond a shared array, or beyond the block's shared memory.
    SharedOutOfBounds {
        /// Byte offset in the block's shared memory.
        offset: u64,
        /// Bytes accessed.
        bytes: u32,
        /// The first byte past the end of the array, or of the block's shared memory if that is less.
        end: u64,
    },
    /// Two accesses to the same shared memory, one of them a write, with no barrier or collective
    /// between them that orders the two threads.
    SharedRace {
        /// Byte offset in the block's shared memory.
        offset: u32,
        /// What the thread did.
        access: SharedAccess,
        /// The thread of the same block that accessed it before.
        other: u32,
        /// What that one did.
        other_access: SharedAccess,
    },
    /// An access to global memory outside every buffer of the launch.
    GlobalOutOfBounds {
        /// The address.
        address: usize,
        /// Bytes accessed.
        bytes: u32,
        /// The nearest buffer; `None` if the launch has no buffers.
        nearest: Option<Nearest>,
    },
    /// Two accesses of different threads to the same global memory, at least one of them plain and one a write, and
    /// nothing orders them: no barrier, no collective, no release that was acquired.
    GlobalRace {
        /// The address of the first word of 4 bytes that both touch.
        address: usize,
        /// Its byte offset in the buffer.
        offset: usize,
        /// What the thread did.
        access: GlobalAccess,
        /// What was done before.
        earlier: Earlier,
    },
    /// Two atomic accesses of different threads and different widths to the same global memory, at least one of them
    /// a write, and nothing orders them: they are not atomic to each other.
    MixedWidths {
        /// The address of the first word of 4 bytes that both touch.
        address: usize,
        /// Its byte offset in the buffer.
        offset: usize,
        /// What the thread did.
        access: GlobalAccess,
        /// What was done before.
        earlier: Earlier,
    },
    /// A write to a buffer that the kernel's arguments name for reading only.
    WriteToReadOnly {
        /// The address.
        address: usize,
        /// Byte offset in the buffer.
        offset: usize,
    },
    /// A load through the read-only cache ([`Hint::ReadOnly`](crate::Hint::ReadOnly) or
    /// [`Hint::EvictFirst`](crate::Hint::EvictFirst)) of memory that the same launch has written.
    ReadOnlyOfWritten {
        /// The address.
        address: usize,
        /// Byte offset in the buffer.
        offset: usize,
    },
    /// A write to memory that the same launch has loaded through the read-only cache.
    WriteOfConstant {
        /// The address.
        address: usize,
        /// Byte offset in the buffer.
        offset: usize,
    },
    /// An access whose address is not a multiple of its size: global, or an offset in shared memory.
    Misaligned {
        /// The address or the offset.
        address: usize,
        /// Bytes accessed.
        bytes: u32,
    },
    /// The kernel panicked.
    Panic(String),
    /// Every thread of the block that can still run only spins, and has done so for a long time.
    Livelock {
        /// How many threads spin.
        spinning: u32,
    },
}

/// Where an access lies in relation to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The buffer's index among the buffers of the launch.
    pub region: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// Byte offset of the access from the buffer's start; negative before it.
    pub offset: i128,
}

/// How a thread touched shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedAccess {
    /// [`Simt::shared_load`](crate::Simt::shared_load).
    Read,
    /// [`Simt::shared_store`](crate::Simt::shared_store).
    Write,
    /// [`Simt::shared_atomic_add`](crate::Simt::shared_atomic_add).
    Atomic,
}

/// The warp collectives of [`Simt`](crate::Simt).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named after its method")]
pub enum Collective {
    Ballot,
    Any,
    All,
    Shuffle,
    ShuffleXor,
    ShuffleUp,
    ShuffleDown,
    MatchAny,
    ReduceAdd,
    ReduceMax,
    ReduceMin,
    SyncWarp,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// The block has fewer threads.
    Absent,
    /// Its kernel has returned.
    Exited,
    /// It waits at a warp collective.
    AtCollective {
        /// Which.
        op: Collective,
        /// With which mask.
        mask: u32,
        /// Where.
        location: &'static Location<'static>,
    },
    /// It waits at the block barrier.
    AtBarrier(&'static Location<'static>),
    /// It spins, waiting for another thread, or has been interrupted.
    Spinning,
}

impl Collective {
    /// The method's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ballot => "ballot",
            Self::Any => "any",
            Self::All => "all",
            Self::Shuffle => "shuffle",
            Self::ShuffleXor => "shuffle_xor",
            Self::ShuffleUp => "shuffle_up",
            Self::ShuffleDown => "shuffle_down",
            Self::MatchAny => "match_any",
            Self::ReduceAdd => "reduce_add",
            Self::ReduceMax => "reduce_max",
            Self::ReduceMin => "reduce_min",
            Self::SyncWarp => "sync_warp",
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("does not exist in this block"),
            Self::Exited => f.write_str("has exited"),
            Self::AtCollective { op, mask, location } => {
                write!(f, "waits at {op} with mask {mask:#010x} at {location}")
            }
            Self::AtBarrier(location) => write!(f, "waits at the barrier at {location}"),
            Self::Spinning => f.write_str("spins"),
        }
    }
}

impl fmt::Display for SharedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic addition",
        })
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LaunchShape { blocks, threads } => {
                write!(f, "launched with {blocks} blocks of {threads} threads")
            }
            Self::CollectiveMismatch { op, location, mask, missing, .. } => {
                write!(f, "{op} at {location}: mask {mask:#010x} names ")?;
                match missing.as_slice() {
                    [] => f.write_str("lanes that will not reach it"),
                    [(lane, place)] => write!(f, "lane {lane}, which {place}"),
                    [(lane, place), rest @ ..] => {
                        write!(f, "lane {lane}, which {place}, and {} more missing", rest.len())
                    }
                }
            }
            Self::CallerNotInMask { op, location, mask } => {
                write!(f, "{op} at {location}: mask {mask:#010x} does not name the caller")
            }
            Self::SourceLaneNotInMask { op, location, mask, source } => {
                write!(f, "{op} at {location}: reads from lane {source}, which is not in the mask {mask:#010x}")
            }
            Self::BarrierNotReached { location, arrived, missing, example: (thread, place) } => {
                let all = arrived + missing;
                write!(
                    f,
                    "barrier at {location}: {missing} of {all} threads have not reached it; \
                     thread {thread}, say, {place}"
                )
            }
            Self::UninitialisedShared { offset } => {
                write!(f, "read of shared memory at byte {offset}, which no thread of the block has written")
            }
            Self::SharedOutOfBounds { offset, bytes, end } => {
                write!(f, "shared access of {bytes} bytes at byte {offset}, which must end by {end}")
            }
            Self::SharedRace { offset, access, other, other_access } => write!(
                f,
                "{access} of shared memory at byte {offset} races with thread {other}'s \
                 {other_access}: no barrier or collective between"
            ),
            Self::GlobalOutOfBounds { address, bytes, nearest } => {
                write!(f, "global access of {bytes} bytes at {address:#x}, ")?;
                match nearest {
                    None => f.write_str("in a launch without buffers"),
                    Some(Nearest { region, bytes, offset }) => write!(
                        f,
                        "outside every buffer; the nearest, number {region} of {bytes} bytes, \
                         begins {offset} bytes before it"
                    ),
                }
            }
            Self::GlobalRace { address, offset, access, earlier } => write!(
                f,
                "{access} of global memory at {address:#x}, byte {offset} of a buffer, races with {earlier}: \
                 nothing orders them"
            ),
            Self::MixedWidths { address, offset, access, earlier } => write!(
                f,
                "{access} of global memory at {address:#x}, byte {offset} of a buffer, is not atomic to {earlier}: \
                 their widths differ, and nothing orders them"
            ),
            Self::WriteToReadOnly { address, offset } => {
                write!(f, "write to {address:#x}, byte {offset} of a buffer passed for reading")
            }
            Self::ReadOnlyOfWritten { address, offset } => write!(
                f,
                "load through the read-only cache of {address:#x}, byte {offset} of a buffer, \
                 which this launch has written"
            ),
            Self::WriteOfConstant { address, offset } => write!(
                f,
                "write to {address:#x}, byte {offset} of a buffer, \
                 which this launch has loaded through the read-only cache"
            ),
            Self::Misaligned { address, bytes } => {
                write!(f, "misaligned access of {bytes} bytes at {address:#x}")
            }
            Self::Panic(message) => write!(f, "panicked: {message}"),
            Self::Livelock { spinning } => {
                write!(f, "{spinning} threads spin, and what they wait for does not come")
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, block, thread, kind } = self;
        let (warp, lane) = (thread / WARP, thread % WARP);
        write!(f, "kernel {kernel}, block {block}, thread {thread} (warp {warp}, lane {lane}): {kind}")
    }
}

impl std::error::Error for Fault {}
