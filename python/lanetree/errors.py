"""The exceptions of lanetree: one class per kind, under :class:`Error`.

The names and messages are those of the Rust library. A kind that Python has a class for is that, too: ``OutOfMemory`` is a
``MemoryError``, ``LengthMismatch`` a ``ValueError``.
"""

from __future__ import annotations


class Error(Exception):
    """Any error of the library."""


def _kinds(base: type[Exception], *names: str) -> None:
    for name in names:
        bases = (Error,) if base is Error else (Error, base)
        globals()[name] = type(name, bases, {"__module__": __name__, "__doc__": f"The kind ``{name}`` of the library's errors."})
        __all__.append(name)


__all__ = ["Error"]
# What a caller passed.
_kinds(
    ValueError,
    *("LengthMismatch", "NotSorted", "NotDistinct", "Fanout", "Fill", "GroupWidth", "TooManyPairs", "TooManyLeaves"),
    *("TooManyValues", "OptionValue", "ReversedRange", "BoundLengths", "OutputLength", "OffsetOrder", "OffsetBounds"),
    *("KeyWidth", "KeyLength", "SeveralWidths", "KeyTooLong", "MaxDeviceKey", "BitRange", "PositionWidth"),
    *("TooManyElements", "BatchTooLarge", "TooManyOperations", "UnknownKinds", "OutOfRange", "WrongDevice", "Misaligned"),
)
# Memory.
_kinds(MemoryError, "OutOfMemory", "PoolLimit")
# A device that is missing, or a call that an index or a device does not have.
_kinds(
    RuntimeError,
    *("CudaNotCompiled", "NoDriver", "NoDevice", "NoSuchDevice", "DriverTooOld", "PtxTooNew", "UnsupportedGpu"),
    *("InvalidPtx", "UnknownKernel", "CannotPin", "NotPinned", "NotAGpu", "NotOwned", "NotRecorded", "NoKernels", "Launch"),
    *("Emulator", "Unordered", "Injected", "Cuda", "NotOnDevice", "LeavesInMainMemory", "UpdateEngine", "HostOnly"),
    *("NotCompact", "NoUpdates", "NotOnHost", "Lost"),
)
