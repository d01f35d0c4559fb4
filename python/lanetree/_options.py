"""Options that methods of several classes take."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from . import _missing, errors

Inclusive = Literal["both", "left", "right", "neither"]
Direction = Literal["backward", "forward", "nearest"]
Side = Literal["left", "right"]
_CLOSED = {"both": (True, True), "left": (True, False), "right": (False, True), "neither": (False, False)}
_MOST = 2**64 - 1

#: Kinds of operations, for :meth:`Index.apply`.
INSERT, UPDATE, REMOVE = 0, 1, 2


def closed_of(inclusive: str, name: str = "inclusive") -> tuple[bool, bool]:
    """Which bounds belong to a range. The option has this name in errors."""
    if inclusive not in _CLOSED:
        raise ValueError(f"{name} is {inclusive!r}, where 'both', 'left', 'right' or 'neither' is needed")
    return _CLOSED[inclusive]


def limit_of(limit: int | None) -> int:
    """The most pairs of a range, or of a query."""
    if limit is None:
        return _MOST
    if not 0 <= limit <= _MOST:
        raise ValueError(f"a limit of {limit} pairs is not possible")
    return int(limit)


def is_right(side: str) -> bool:
    """Whether ranks count the keys that are not above a query, and not those below it."""
    if side not in ("left", "right"):
        raise ValueError(f"side is {side!r}, where 'left' or 'right' is needed")
    return side == "right"


def distance_of(distance: Any, dtype: np.dtype[Any], on_gpu: bool) -> Any:
    """The distance of a band join."""
    if dtype.kind == "f" and on_gpu:
        raise errors.OptionValue("distances of floats on a device are not measured: use range_join with bounds of your own")
    return _missing.tolerance(distance, dtype, "distance")
