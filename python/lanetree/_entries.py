"""Rows of a table by group and number, kept in an index: :class:`Entries`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _keys, _native
from ._device import Device
from ._frame import Rows
from ._groups import GroupedIndex
from ._index import Index
from ._options import Direction

#: The group of each row or query; None if there is one group alone.
Groups = Any
#: What is not there, in arrays of rows.
_NONE = -1
#: On the CPU an index answers batches that have fewer numbers than a table has rows by this factor. Others are merged with the table.
_FEW = 8
#: The native names of what is merged.
_WORDS = {"int64": "i64", "uint64": "u64", "float32": "f32", "float64": "f64"}


class Spans(NamedTuple):
    """Pieces of an array: where each begins, and how many elements it has."""

    starts: Rows
    counts: Rows

    def places(self) -> Rows:
        """The places of all elements, piece by piece."""
        ends = np.cumsum(self.counts)
        inside = np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - self.counts, self.counts)
        places: Rows = np.repeat(self.starts, self.counts) + inside
        return places


class Order:
    """The rows of a table in the order of their groups and numbers."""

    __slots__ = ("by_number", "rows", "_width", "_ranks")
    #: In the order of their numbers alone.
    by_number: Rows
    rows: Rows

    def __init__(self, groups: Groups, numbers: npt.NDArray[Any], is_first: npt.NDArray[np.bool_] | None = None) -> None:
        """`is_first` says which rows are before all others of their group, whatever their numbers."""
        self.by_number = self.rows = np.argsort(numbers, kind="stable") if is_first is None else np.lexsort((numbers, ~is_first))
        self._width = numbers.size + 1
        if groups is not None:
            groups = groups[self.by_number]
            # Of few groups the numbers are sorted by radix.
            by_group = np.argsort(groups.astype(np.min_scalar_type(int(groups.max(initial=0))), copy=False), kind="stable")
            self.rows, self._ranks = self.by_number[by_group], groups[by_group].astype(np.int64) * self._width + by_group

    def places(self, groups: Groups, ranks: Rows) -> Rows:
        """How many rows are in lower groups, or in the same one and among the first ones by number, so many as each rank says."""
        return ranks if groups is None else np.searchsorted(self._ranks, groups.astype(np.int64) * self._width + ranks)


class Entries:
    """An index of the distinct pairs of group and number of a table, and the rows of each.

    Numbers are int64, uint64, float32 or float64, without NaNs.
    """

    __slots__ = ("index", "given", "below", "numbers", "rows", "offsets")
    #: The number of the entry of each pair, in the order of pairs.
    index: Index | GroupedIndex
    #: The groups and the numbers of the rows as they were given, and what all groups are below.
    given: tuple[Groups, npt.NDArray[Any]]
    below: int
    #: The number of each entry.
    numbers: npt.NDArray[Any]
    #: The rows of the table, by entry; of one entry they ascend.
    rows: Rows
    #: Where in these the rows of each entry begin, and how many rows there are.
    offsets: Rows

    def __init__(self, groups: Groups, numbers: npt.NDArray[Any], below: int, device: str | Device | None) -> None:
        self.given, self.below = (groups, numbers), below
        words = _keys.ordered_words(numbers)
        rows = Order(groups, words).rows
        words = words[rows]
        is_first = np.ones(rows.size, np.bool_)
        is_first[1:] = words[1:] != words[:-1]
        if groups is not None:
            groups = groups[rows]
            is_first[1:] |= groups[1:] != groups[:-1]
        firsts = np.flatnonzero(is_first)
        self.rows, self.offsets, self.numbers = rows, np.append(firsts, rows.size), numbers[rows[firsts]]
        count = np.arange(firsts.size)
        if groups is None:
            self.index = Index(words[firsts], count, device, is_sorted=True)
        else:
            self.index = GroupedIndex(groups[firsts], words[firsts], count, device)

    def _find(self, groups: Groups, words: npt.NDArray[Any], direction: Direction | None, is_exact: bool = True) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """The entry of each of some words, in a direction or of exactly that word, and whether there is one."""
        by: dict[str, Any] = {} if groups is None else {"by": groups}
        if direction is None:
            entries, found = self.index.get(words, **by)
        else:
            entries, found = self.index.asof(words, **by, direction=direction, allow_exact_matches=is_exact)
        return entries, found

    def asof(self, groups: Groups, numbers: npt.NDArray[Any], direction: Direction, is_strict: bool, limit: Any) -> Rows:
        """The row that each of some numbers finds in its group, or -1: the last one of a number backward, and the first one forward."""
        if not numbers.size or not self.rows.size:
            return np.full(numbers.size, _NONE)
        if self.index.device.kind == "cpu" and numbers.size * _FEW > self.rows.size:
            return merged((groups, numbers), self.given, self.below, direction, is_strict, limit)
        words = _keys.ordered_words(numbers)

        def one(way: Direction) -> tuple[Rows, npt.NDArray[Any]]:
            entries, found = self._find(groups, words, way, not is_strict)
            near = self.numbers[entries]
            distance = distances(near, numbers) if way == "backward" else distances(numbers, near)
            if limit is not None:
                found &= ~(distance > distance.dtype.type(limit))
            rows = self.rows[self.offsets[entries + 1] - 1 if way == "backward" else self.offsets[entries]]
            return np.where(found, rows, _NONE), distance

        if direction != "nearest":
            return one(direction)[0]
        (back, behind), (ahead, before) = one("backward"), one("forward")
        return np.where((back >= 0) & ((ahead < 0) | (behind <= before)), back, ahead)

    def equal(self, groups: Groups, numbers: npt.NDArray[Any]) -> Spans:
        """Where the rows of each of some numbers are."""
        entries, found = self._find(groups, _keys.ordered_words(numbers), None)
        return Spans(self.offsets[entries], np.where(found, self.offsets[np.minimum(entries + 1, self.offsets.size - 1)] - self.offsets[entries], 0))

    def between(self, groups: Groups, low: Any, high: Any, closed: tuple[bool, bool]) -> Spans:
        """Where the rows between two numbers are, in each of some groups. None is no bound."""
        size = 1 if groups is None else groups.size
        bounds = []
        for bound, is_closed, is_high in ((low, closed[0], False), (high, closed[1], True)):
            if bound is None:
                info = np.iinfo(self.index.key_dtype)
                words, is_closed = np.array([info.max if is_high else info.min], info.dtype), True
            else:
                words = _keys.ordered_words(bound)
            bounds.append(self._find(groups, np.repeat(words, size), "backward" if is_high else "forward", is_closed))
        (first, has_first), (last, has_last) = bounds
        if not self.rows.size:
            return Spans(np.zeros(size, np.int64), np.zeros(size, np.int64))
        starts = self.offsets[first]
        counts = np.where(has_first & has_last, np.maximum(self.offsets[last + 1] - starts, 0), 0)
        return Spans(starts, counts)

    def numbers_at(self, places: Rows) -> npt.NDArray[Any]:
        """The numbers of rows, by their places in the order of entries."""
        found: npt.NDArray[Any] = self.numbers[np.searchsorted(self.offsets, places, "right") - 1]
        return found


def merged(
    left: tuple[Groups, npt.NDArray[Any]], right: tuple[Groups, npt.NDArray[Any]], below: int, direction: str, is_strict: bool, limit: Any
) -> Rows:
    """The row of the right table that each row of the left one finds, or -1, without an index: both are read in order. All groups are
    below a number."""
    tables = [(groups, np.ascontiguousarray(numbers)) for groups, numbers in (left, right)]
    return _native.asof_rows(_WORDS[left[1].dtype.name], tables[0], tables[1], below, direction, is_strict, limit)


def distances(lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """How far numbers are above others that are not above them: integers as uint64, which holds all. From an infinity to itself it is a NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        made: npt.NDArray[Any] = upper - lower
    return made.view(np.uint64) if made.dtype.kind == "i" else made
