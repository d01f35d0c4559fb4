"""The exceptions of lanetree: one class per kind, under :class:`Error`.

Names and messages are the same as in the Rust library. A kind that Python has a class for is that, too: ``OutOfMemory`` is a
``MemoryError``, ``LengthMismatch`` a ``ValueError``.
"""

from __future__ import annotations


class Error(Exception):
    """Any error of the library. A call that gives one has not changed the index, but for :class:`Lost`."""


# What a caller passed.


class LengthMismatch(Error, ValueError):
    """Keys and values do not pair up."""


class NotSorted(Error, ValueError):
    """The input of a call that takes sorted pairs or keys is not sorted."""


class NotDistinct(Error, ValueError):
    """The input of a build from distinct keys has one twice."""


class RepeatedKey(Error, ValueError):
    """The input of a build that refuses equal keys has one twice."""


class NullKey(Error, ValueError):
    """The input of a build that refuses nulls has one."""


class Fanout(Error, ValueError):
    """A fanout without kernels."""


class Fill(Error, ValueError):
    """A fill outside (0, 1]."""


class GroupWidth(Error, ValueError):
    """A width of thread groups without kernels."""


class TooManyPairs(Error, ValueError):
    """More pairs than 32-bit node numbers can address."""


class TooManyLeaves(Error, ValueError):
    """More pairs than 32-bit numbers of leaves can address."""


class TooManyValues(Error, ValueError):
    """More values of a key than a multi-map can count."""


class OptionValue(Error, ValueError):
    """An option of a build or a query that is not possible."""


class UnusedOption(Error, ValueError):
    """An option that the call does not use."""


class ReversedRange(Error, ValueError):
    """A range that ends before it starts."""


class BoundLengths(Error, ValueError):
    """Starts and ends of ranges that do not pair up."""


class OutputLength(Error, ValueError):
    """An output or scratch memory of the wrong length."""


class OffsetOrder(Error, ValueError):
    """An offset of packed strings that is below the one before it."""


class OffsetBounds(Error, ValueError):
    """An offset of packed strings past the end of their bytes."""


class KeyWidth(Error, ValueError):
    """Bytes that are not keys of the given width."""


class KeyLength(Error, ValueError):
    """A string whose length differs from that of keys of its type."""


class SeveralWidths(Error, ValueError):
    """Strings of several lengths for a build on a device that takes keys of one."""


class KeyTooLong(Error, ValueError):
    """A key that is longer than the index takes."""


class MaxDeviceKey(Error, ValueError):
    """A longest key for the device that it has no leaves for."""


class BitRange(Error, ValueError):
    """Bits that a key does not have."""


class PositionWidth(Error, ValueError):
    """Positions that do not fit into the word type."""


class TooManyElements(Error, ValueError):
    """More elements than tile numbers can address."""


class BatchTooLarge(Error, ValueError):
    """More queries than one launch can serve."""


class TooManyOperations(Error, ValueError):
    """More operations than one batch can have."""


class UnknownKinds(Error, ValueError):
    """Operations of a batch on the device that are neither inserts nor updates nor removals."""


class OutOfRange(Error, ValueError):
    """A range of elements is not inside its buffer."""


class WrongDevice(Error, ValueError):
    """A buffer, stream or event belongs to another device than the one it is used with."""


class Misaligned(Error, ValueError):
    """Memory does not begin where it must, to be a buffer or for what was to be done with it."""


class Feature(Error, ValueError):
    """An option whose kernels are not in this build."""


# Memory.


class OutOfMemory(Error, MemoryError):
    """An allocation failed."""


class SumOverflow(Error, OverflowError):
    """A sum that 64 bits do not hold."""


class TooManyRows(Error, MemoryError):
    """More rows, or pairs of ranges, than main memory has room for."""


class PoolLimit(Error, MemoryError):
    """A pool's limit leaves no room for an allocation."""


# Files.


class Io(Error, OSError):
    """The system could not read or write. The message has the path."""


class NotFound(Io, FileNotFoundError):
    """There is no file of this path."""


class Damaged(Error, ValueError):
    """The file is not what was saved."""


class Unsupported(Error, ValueError):
    """The file is of a newer version, or has flags that this program doesn't know."""


class Types(Error, ValueError):
    """The file is of types that the class does not have."""


class Composite(Error, ValueError):
    """A file of composite keys was asked for, which there is not."""


class Several(Error, ValueError):
    """The file is of a `MultiIndex`, and was to be loaded as another class."""


class NoteTooLong(Error, ValueError):
    """A note that has no room in the header."""


class LogFailed(Error, RuntimeError):
    """A log whose last write or sync failed."""


# A device that is missing or failed, or a call that an index or a device does not have.


class CudaNotCompiled(Error, RuntimeError):
    """A GPU was asked for, and the package was built without CUDA."""


class PtxFolder(Error, RuntimeError):
    """A folder with the kernels' PTX, which Python's devices do not take, is not what its list of hashes says."""


class NoDriver(Error, RuntimeError):
    """There is no CUDA driver, or the library that was loaded as one does not work."""


class NoDevice(Error, RuntimeError):
    """The driver works but finds no GPU."""


class NoSuchDevice(Error, RuntimeError):
    """There are GPUs, but not this one."""


class DriverTooOld(Error, RuntimeError):
    """The driver lacks functions that the package calls, or cannot read the kernels' PTX."""


class PtxTooNew(Error, RuntimeError):
    """The driver cannot read PTX of this version."""


class UnsupportedGpu(Error, RuntimeError):
    """The GPU is older than the code was compiled for."""


class InvalidPtx(Error, RuntimeError):
    """The driver's compiler rejected a module."""


class UnknownKernel(Error, RuntimeError):
    """The module lacks the kernel."""


class CannotPin(Error, RuntimeError):
    """Host memory could not be pinned for a device."""


class NotPinned(Error, RuntimeError):
    """A kernel was to read an array in host memory that is not pinned for its device."""


class NotAGpu(Error, RuntimeError):
    """Something that only GPUs have was asked of another device."""


class NotOwned(Error, RuntimeError):
    """A buffer's memory was to be given away, and cannot be."""


class NotRecorded(Error, RuntimeError):
    """An event was used before it was recorded."""


class NoKernels(Error, RuntimeError):
    """A kernel was launched on the host device, which runs none."""


class Launch(Error, RuntimeError):
    """The device cannot run a launch of this shape."""


class Emulator(Error, RuntimeError):
    """The emulator found an error of a kernel: an access out of bounds, a race, a barrier that not all threads reach."""


class Unordered(Error, RuntimeError):
    """Work uses a buffer that another stream's work also uses, and nothing orders the one after the other. Only the emulator detects this."""


class Injected(Error, RuntimeError):
    """A failure that a test has injected."""


class Cuda(Error, RuntimeError):
    """The CUDA driver reported any other error."""


class NotOnDevice(Error, RuntimeError):
    """A call for devices that run kernels, of an index on the host."""


class LeavesInMainMemory(Error, RuntimeError):
    """A call that the device cannot answer alone, of an index with leaves in main memory."""


class SharedMemory(Error, RuntimeError):
    """A block has no room for the tables of the trees that it probes."""


class UpdateEngine(Error, RuntimeError):
    """An update engine that cannot serve this index or batch."""


class HostOnly(Error, RuntimeError):
    """A device that an index has no kernels for."""


class NotCompact(Error, RuntimeError):
    """A query that needs the keys in order, of an index where changes have disturbed it."""


class NoUpdates(Error, RuntimeError):
    """A batch of updates on a device, for an index on the host."""


class NotOnHost(Error, RuntimeError):
    """A mirrored pair without a tree on the host."""


class Lost(Error, RuntimeError):
    """The device failed while it changed the index, which cannot be used any more: build it again."""
