"""How neighbours are looked for, and how far floats are away: :class:`Neighbors`."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays, _missing, errors

#: A direction, what is taken of two that are equally near, whether equal keys are left out, and a tolerance: as native calls take it.
AsOf = tuple[str, str, bool, "int | None"]


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
        if direction == "nearest" and (on_gpu or ties == "both"):
            why = "ties='both' is" if not on_gpu else "direction='nearest' with queries on a device is"
            raise errors.OptionValue(f"distances of floats are measured in host memory, one neighbour at a time, so {why} not for float keys")
        if limit is not None and on_gpu:
            raise errors.OptionValue("distances of floats on a device are not measured: pass the queries as an array in host memory")
        is_measured = limit is not None or direction == "nearest"
        return cls((direction, ties, not exact, None), (np.inf if limit is None else limit) if is_measured else None)

    def measured(
        self,
        find: Callable[[AsOf, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]], None],
        keys: npt.NDArray[Any],
        made: tuple[npt.NDArray[Any], npt.NDArray[Any]],
        miss: int,
    ) -> None:
        """Writes the values of neighbours among floats that are near enough, and whether there is one; for the nearest both are looked for.

        `find` looks on one side, and writes the keys of neighbours, their values, and whether there is one. NumPy's arithmetic measures.
        """
        (values, found), words = made, keys.view(f"u{keys.itemsize}")

        def one(way: str, values: npt.NDArray[Any], found: npt.NDArray[Any]) -> npt.NDArray[Any]:
            near = np.empty(keys.size, keys.dtype)
            find((way, *self.native[1:]), near, values, found)
            # From an infinity to itself, and from a NaN to itself, it is no distance. One that overflows is infinite.
            with np.errstate(invalid="ignore", over="ignore"):
                distance: npt.NDArray[Any] = keys - near if way == "backward" else near - keys
            distance[words == near.view(words.dtype)] = 0
            found &= distance <= self.most
            return distance

        if self.native[0] != "nearest":
            one(self.native[0], values, found)
        else:
            ahead, is_ahead = np.empty_like(values), np.empty_like(found)
            behind, before = one("backward", values, found), one("forward", ahead, is_ahead)
            takes = is_ahead & (~found | (before <= behind if self.native[1] == "forward" else before < behind))
            values[takes] = ahead[takes]
            found |= is_ahead
        _arrays.erase(np.flatnonzero(~found), (values, miss))
