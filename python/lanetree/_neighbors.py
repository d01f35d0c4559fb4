"""How neighbours are looked for, and how far floats are away: :class:`Neighbors`."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from . import _arrays, _missing, _wide, errors

#: A direction, what is taken of two that are equally near, whether equal keys are left out, and a tolerance: as native calls take it.
AsOf = tuple[str, str, bool, "int | None"]
#: What looks on one side, and writes the keys of neighbours, their values, and whether there is one.
Find = Callable[[AsOf, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]], None]


class Neighbors(NamedTuple):
    """How neighbours are looked for."""

    native: AsOf
    #: The largest distance, where distances of floats are measured: native calls would measure their words.
    most: Any

    @classmethod
    def of(cls, dtype: np.dtype[Any], direction: str, ties: str, exact: bool, tolerance: Any, on_gpu: bool) -> Neighbors:
        """Among keys of a dtype; an error for distances that are not measured."""
        limit = None if tolerance is None else _missing.tolerance(tolerance, dtype)
        if dtype.kind != "f":
            return cls((direction, ties, not exact, limit), None)
        if on_gpu and (limit is not None or direction == "nearest"):
            raise errors.OptionValue("distances of floats on a device are not measured: pass the queries as an array in host memory")
        is_measured = limit is not None or direction == "nearest"
        return cls((direction, ties, not exact, None), (np.inf if limit is None else limit) if is_measured else None)

    def measured(
        self,
        find: Find,
        keys: npt.NDArray[Any],
        made: tuple[npt.NDArray[Any], npt.NDArray[Any]],
        miss: int,
    ) -> None:
        """Writes the values of neighbours among floats that are near enough, and whether there is one; for the nearest both are looked for.

        `find` looks on one side, and writes the keys of neighbours, their values, and whether there is one.
        """
        values, found = made
        if self.native[0] != "nearest":
            self._one(find, keys, self.native[0], made)
        else:
            ahead = np.empty_like(values), np.empty_like(found)
            behind, before = self._one(find, keys, "backward", made), self._one(find, keys, "forward", ahead)
            takes = ahead[1] & (~found | (before <= behind if self.native[1] == "forward" else before < behind))
            values[takes] = ahead[0][takes]
            found |= ahead[1]
        _arrays.erase(np.flatnonzero(~found), (values, miss))

    def both(self, find: Find, keys: npt.NDArray[Any], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """How many neighbours each float has that are nearest and near enough, and their values, of this dtype: two if they are equally near
        on both sides, of which the lower one is first. `find` is that of :meth:`measured`."""
        made = [(np.empty(keys.size, dtype), np.empty(keys.size, np.bool_)) for _ in range(2)]
        # A key that equals the query is below it.
        behind, before = self._one(find, keys, "backward", made[0]), self._one(find, keys, "forward", made[1], True)
        (values, found), (ahead, is_ahead) = made
        takes, also = found & (~is_ahead | (behind <= before)), is_ahead & (~found | (before <= behind))
        return takes.astype(np.int64) + also, np.stack([values, ahead], 1)[np.stack([takes, also], 1)]

    def _one(
        self, find: Find, keys: npt.NDArray[Any], way: str, made: tuple[npt.NDArray[Any], npt.NDArray[Any]], is_strict: bool = False
    ) -> npt.NDArray[Any]:
        """Looks on one side, and leaves what is near enough. Returns the distances."""
        near = np.empty(keys.size, keys.dtype)
        find((way, "backward", self.native[2] or is_strict, None), near, *made)
        distance = distances(keys, near)
        found = made[1]
        found &= distance <= self.most
        return distance

    def rows(self, find: Callable[[AsOf], Sequence[Any]], queries: npt.NDArray[Any], most: int) -> tuple[npt.NDArray[Any], ...]:
        """Offsets, keys and values of the pairs that are near enough to floats: at most so many of each, the nearest first. `find` has as
        many of one side, the nearest first."""
        is_nearest, parts = self.native[0] == "nearest", []
        for way in ("backward", "forward") if is_nearest else self.native[:1]:
            # A key that equals the query is below it.
            offsets, keys, values = find((way, "backward", self.native[2] or is_nearest and way == "forward", None))
            row, keys = np.repeat(np.arange(queries.size), np.diff(offsets)), keys.view(queries.dtype)
            # Of two that are equally near the first one has less: the query itself, then the one on the side of ties.
            place = np.where(_wide.words(queries)[row] == _wide.words(keys), 0, 1 + (is_nearest and way != self.native[1]))
            parts.append((row, distances(queries[row], keys), place, keys, values))
        row, distance, place, keys, values = (np.concatenate(columns) for columns in zip(*parts))
        order = np.lexsort((place, distance, row))
        order = order[distance[order] <= self.most]
        # The numbers of a query's rows begin where it does.
        begins = np.searchsorted(row[order], np.arange(queries.size))
        order = order[np.arange(order.size) - begins[row[order]] < most]
        return np.append(0, np.cumsum(np.bincount(row[order], minlength=queries.size))), keys[order], values[order]


def distances(some: npt.NDArray[Any], others: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """How far floats are away, in their dtype: by NumPy's arithmetic, but from an infinity to itself, and from a NaN to itself, it is no
    distance. One that overflows is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        made: npt.NDArray[Any] = np.abs(some - others)
    made[_wide.words(some) == _wide.words(others)] = 0
    return made


def in_bands(find: Callable[[Any], Sequence[Any]], probes: npt.NDArray[Any], far: Any) -> tuple[npt.NDArray[Any], ...]:
    """How many keys are at most so far from each of some floats, these keys, and their values. `find` has those between two bounds."""
    edge, is_nan = np.array(np.inf, probes.dtype), np.isnan(probes)
    # Whatever is rounded, these are further away.
    more = np.nextafter(probes.dtype.type(far), edge)
    with np.errstate(invalid="ignore", over="ignore"):
        bounds = [np.nextafter(bound, end) for bound, end in ((probes - more, -edge), (probes + more, edge))]
    bounds = [np.where(is_nan, probes, np.where(np.isnan(bound), end, bound)) for bound, end in zip(bounds, (-edge, edge))]
    offsets, keys, values = find(bounds)
    row, keys = np.repeat(np.arange(probes.size), np.diff(offsets)), keys.view(probes.dtype)
    near = distances(probes[row], keys) <= far
    return np.bincount(row[near], minlength=probes.size), keys[near], values[near]

