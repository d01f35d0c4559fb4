"""Ordered indexes for NVIDIA GPUs and CPUs.

An index holds sorted pairs and answers batches: look-ups, ranks, neighbours and ranges, over arrays of NumPy, torch, CuPy and
others, in place.

>>> import lanetree, numpy as np
>>> index = lanetree.Index(np.array([10, 20, 30]), np.array([1, 2, 3]), device="cpu")
>>> index.get(np.array([20, 25]))
Found(values=array([2, 0]), found=array([ True, False]))

* :class:`Index`: keys with one value each; :class:`Set`: keys alone; :class:`MultiIndex`: any number of values per key;
  :class:`GroupedIndex`: keys in groups; :class:`StringIndex`: byte strings; :class:`IntervalIndex`: intervals.
* :func:`merge_asof`, :func:`merge`, :func:`merge_nearest`, :func:`interval_join`, :func:`range_join`, :func:`lookup`: joins of frames of
  pandas, polars, pyarrow and DuckDB.
* :class:`FrameIndex`: a frame that is kept and asked many times.
* :func:`load`: an index of any class from its file.
* :func:`objects`: keys as objects of Python.
* :class:`Device`, :class:`Pool`: where an index is, and with what memory.
* :class:`Array`: what calls give for inputs on a device; `Output`: the type of results for type checkers.
* :func:`doctor`: which devices, drivers and libraries are there.
* :mod:`lanetree.errors`: the exceptions.
"""

import os as _os

from . import _native, errors
from ._arrays import Array, Found, Output, asarray
from ._asof import merge_asof
from ._between import interval_join, range_join
from ._device import Device, Pool
from ._doctor import doctor
from ._files import load
from ._frame_index import FrameIndex
from ._groups import GroupedIndex
from ._held import objects
from ._index import Index
from ._intervals import IntervalIndex, IntervalRows
from ._merge import lookup, merge
from ._multi import ChangeReport, MultiIndex, ValueRows
from ._nearest import merge_nearest
from ._options import INSERT, REMOVE, UPDATE
from ._results import KeyRanges, KeyScans, RangeMatches, Ranges, Scans, UpdateReport
from ._set import Set
from ._strings import StringIndex, StringRanges
from .errors import Error

__version__: str = _native.__version__

__all__ = [
    "INSERT",
    "REMOVE",
    "UPDATE",
    "Array",
    "ChangeReport",
    "Device",
    "Error",
    "Found",
    "FrameIndex",
    "GroupedIndex",
    "Index",
    "IntervalIndex",
    "IntervalRows",
    "KeyRanges",
    "KeyScans",
    "MultiIndex",
    "Output",
    "Pool",
    "RangeMatches",
    "Ranges",
    "Scans",
    "Set",
    "StringIndex",
    "StringRanges",
    "UpdateReport",
    "ValueRows",
    "asarray",
    "doctor",
    "errors",
    "interval_join",
    "load",
    "lookup",
    "merge",
    "merge_asof",
    "merge_nearest",
    "objects",
    "range_join",
]

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_native.after_fork_in_child)
