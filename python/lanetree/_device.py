"""Devices and pools of their memory."""

from __future__ import annotations

import re
import threading
from typing import Any

from . import _native as native

_lock = threading.Lock()
_known: dict[str, "Device"] = {}


class Device:
    """A GPU, or the CPU.

    Parameters
    ----------
    name : str or None, default None
        ``"cuda:0"`` (or ``"cuda"``), ``"cpu"``, or None: the first GPU if there is one, else the CPU; a GPU that is there but
        cannot be used is said on stderr, once. A GPU that is asked for and missing is an error. ``"emulated"`` runs the GPU's kernels on the CPU, slowly, in builds for tests.

    Attributes
    ----------
    name : str
        ``"cuda:0"``, ``"cpu"``, ``"emulated"``.
    kind : str
        ``"cuda"``, ``"cpu"``, ``"emulated"``.
    ordinal : int
        The number of the GPU; 0 for other devices.
    why_cpu : str or None
        Why the CPU was chosen, if it was chosen for lack of a GPU.

    Notes
    -----
    The memory of a GPU comes from a pool of the process's, since the driver's own allocation takes longer than most calls.
    :meth:`trim` gives what is not in use back; :class:`Pool` makes pools of your own, with a limit.

    Examples
    --------
    >>> lanetree.Device("cpu").name
    'cpu'
    """

    __slots__ = ("_native", "name", "kind", "ordinal", "why_cpu")
    _native: native.Device
    name: str
    kind: str
    ordinal: int
    why_cpu: str | None

    def __init__(self, name: "str | Device | None" = None) -> None:
        found = _shared(name) if not isinstance(name, Device) else name
        self._native, self.name, self.kind, self.ordinal = found._native, found.name, found.kind, found.ordinal
        self.why_cpu = found.why_cpu

    @classmethod
    def _of(cls, made: native.Device, why_cpu: str | None = None) -> "Device":
        self = cls.__new__(cls)
        self._native, self.name, self.kind, self.why_cpu = made, made.name, made.kind, why_cpu
        self.ordinal = int(made.name.partition(":")[2] or 0) if made.kind == "cuda" else 0
        return self

    @staticmethod
    def count() -> int:
        """The number of GPUs that this process can use."""
        return native.Device.count()

    @property
    def description(self) -> str:
        """What the device is, for people: ``NVIDIA H100 80GB HBM3 (cuda:0)``, say."""
        return self._native.description

    def properties(self) -> dict[str, Any]:
        """Name, multiprocessors, bytes of cache and memory, compute capability, and the driver's version; 0 where unknown."""
        return self._native.properties()

    def memory(self) -> tuple[int, int]:
        """Bytes of memory that are free, and in all; 0 if unknown. What pools hold is not free."""
        return self._native.memory()

    def synchronize(self) -> None:
        """Wait for all work on the device."""
        self._native.synchronize()

    def trim(self) -> int:
        """Give the memory that the device's pool caches back to the driver, and return its bytes."""
        return self._native.trim()

    def pool_stats(self) -> dict[str, int] | None:
        """Bytes that the pool has in use and cached, the peak, and how often it allocated; None without a pool."""
        return self._native.pool_stats()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self._native.same(other._native)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        because = f", as there is no GPU: {self.why_cpu}" if self.why_cpu else ""
        return f"<lanetree.Device {self.description}{because}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.name,)


def _shared(name: str | None) -> Device:
    """The process's device of a name, made once."""
    if name is None:
        why = native.Device.why_no_gpu()
        if why is None:
            return _shared("cuda:0")
        return Device._of(_shared("cpu")._native, why)
    match = re.fullmatch(r"(cuda|cpu|emulated)(?::(\d+))?", name) if isinstance(name, str) else None
    if match is None:
        raise ValueError(f"no device {name!r}: there are 'cuda:0', 'cuda:1', ..., and 'cpu'")
    kind, number = match[1], int(match[2] or 0)
    full = f"cuda:{number}" if kind == "cuda" else name
    with _lock:
        if full not in _known:
            _known[full] = Device._of(native.Device(kind, number))
        return _known[full]


class Pool:
    """A pool of a device's memory, with a limit.

    Parameters
    ----------
    device : str, Device or None
        The device, as for :class:`Device`.
    limit : int, optional
        The most bytes of device memory that it holds, in use or cached. More is a ``lanetree.errors.PoolLimit``.

    Attributes
    ----------
    device : Device
        A handle of the device whose memory comes from the pool: pass it as ``device=``.

    Examples
    --------
    >>> pool = lanetree.Pool("cuda:0", limit=8 << 30)
    >>> index = lanetree.Index(keys, rows, device=pool.device)
    """

    __slots__ = ("device", "limit")

    def __init__(self, device: str | Device | None = None, limit: int | None = None) -> None:
        if limit is not None and limit < 0:
            raise ValueError(f"a limit of {limit} bytes is below 0")
        self.device = Device._of(Device(device)._native.with_pool(limit))
        self.limit = limit

    def stats(self) -> dict[str, int]:
        """Bytes in use and cached, the peak, and how often it allocated, found memory, and waited."""
        return self.device.pool_stats() or {}

    def trim(self) -> int:
        """Give what it caches back to the driver, and return the bytes."""
        return self.device.trim()

    def __repr__(self) -> str:
        limit = "no limit" if self.limit is None else f"at most {self.limit} bytes"
        return f"<lanetree.Pool of {self.device.description}, {limit}>"
