"""What is there of devices, drivers and libraries: :func:`doctor`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Iterator

import numpy as np

from . import _native, errors
from ._device import Device

#: Libraries whose arrays, frames and bars are used where they are installed.
_LIBRARIES = ("torch", "cupy", "jax", "pyarrow", "pandas", "polars", "duckdb", "tqdm")


def _version(name: str) -> str | None:
    for package in (name, *(f"{name}-cuda{number}x" for number in (11, 12, 13) if name == "cupy")):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _lines() -> Iterator[tuple[str, str]]:
    """What there is, line by line."""
    yield "lanetree", f"{_native.__version__}, {os.path.dirname(__file__)}"
    yield "Python", f"{platform.python_version()}, {sys.executable}"
    yield "system", f"{platform.platform()}, {len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} CPUs for this process"
    yield "NumPy", np.__version__
    for name in _LIBRARIES:
        yield name, _version(name) or "not installed"
    why = _native.Device.why_no_gpu()
    if why is not None:
        yield "GPU", f"none that can be used: {why}"
    for number in range(0 if why is not None else Device.count()):
        device = Device(f"cuda:{number}")
        free, total = device.memory()
        yield device.name, device.description
        yield "", ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in device.properties().items())
        yield "", f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB are free"


def _check(device: Device) -> str | None:
    """What is wrong with an index on a device, or nothing."""
    from ._index import Index

    keys = np.arange(0, 3000, 3)
    try:
        with Index(keys[::-1], keys, device) as index:
            values, found = index.get(np.arange(3000))
    except errors.Error as error:
        return f"{type(error).__name__}: {error}"
    return None if np.array_equal(found, np.arange(3000) % 3 == 0) and np.array_equal(values[found], keys[::-1]) else "wrong answers"


def doctor() -> bool:
    """Print which devices, drivers and libraries are found, and try an index on each device. Also ``python -m lanetree doctor``.

    Returns
    -------
    bool
        Whether the indexes answered right.
    """
    for name, text in _lines():
        print(f"{name:<10}{text}")
    is_well = True
    places = ["cpu", *(f"cuda:{number}" for number in range(Device.count() if _native.Device.why_no_gpu() is None else 0))]
    for place in places:
        wrong = _check(Device(place))
        is_well &= wrong is None
        print(f"{'index':<10}on {place}: {'works' if wrong is None else wrong}")
    print(f"{'default':<10}{Device()!r}")
    return is_well
