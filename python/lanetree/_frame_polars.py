"""Frames of polars."""

from __future__ import annotations

import sys
from typing import Any, Hashable

import numpy as np
import numpy.typing as npt

from . import _keys, _missing
from ._frame import Frame, Rows
from ._frame_arrow import encode_strings
from ._keys import Coded, Key


class PolarsFrame(Frame):
    """DataFrames of polars."""

    def key_of(self, column: Any, what: str) -> Key:
        polars, dtype = sys.modules["polars"], column.dtype
        what = f"{what} ({dtype})"
        valid: _missing.Valid = None
        if column.null_count():
            valid = column.is_not_null().to_numpy()
        kind, unit = str(dtype), None
        if dtype.is_integer() and dtype not in (polars.Int128, getattr(polars, "UInt128", polars.Int128)):
            kind = "integer"
        elif dtype in (polars.Float32, polars.Float64, polars.Boolean):
            words = (column.fill_null(0 if dtype.is_float() else False) if valid is not None else column).to_numpy()
            return _keys.number_key(words, valid, column, what)
        elif dtype == polars.Date:
            kind, unit = "naive", "D"
        elif dtype == polars.Datetime:
            kind, unit = "aware" if dtype.time_zone else "naive", dtype.time_unit
        elif dtype == polars.Duration:
            kind, unit = "duration", dtype.time_unit
        elif dtype == polars.Time:
            kind, unit = "clock", "ns"
        elif isinstance(dtype, (polars.String, polars.Categorical, polars.Enum)):
            return Key("text", None, valid, None, column, what)
        else:
            return Key("bytes" if dtype == polars.Binary else kind, None, valid, None, column, what)
        physical = column.to_physical()
        words = (physical if valid is None else physical.fill_null(0)).to_numpy()
        return Key(kind, words, valid, unit, column, what)

    def encode(self, left: Any, right: Any) -> Coded:
        polars = sys.modules["polars"]
        # Before there were named categories, two categoricals could be of one type and have other numbers for the same names.
        has_numbers = isinstance(left.dtype, polars.Enum) or isinstance(left.dtype, polars.Categorical) and hasattr(polars, "Categories")
        if has_numbers and left.dtype == right.dtype:
            codes = [column.to_physical().cast(polars.Int64).fill_null(-1).to_numpy() for column in (left, right)]
            return codes[0], codes[1], int(max((side.max(initial=-1) for side in codes), default=-1)) + 1
        sides = [column.cast(polars.String) if isinstance(column.dtype, (polars.Categorical, polars.Enum)) else column for column in (left, right)]
        if sides[0].dtype in (polars.String, polars.Binary):
            return encode_strings(*sides)
        both = polars.concat([side.alias("key") for side in sides])
        distinct = polars.DataFrame({"key": both.unique().drop_nulls()}).with_row_index("code")
        made = both.to_frame().join(distinct, on="key", how="left", maintain_order="left")["code"].cast(polars.Int64)
        numbers = made.fill_null(-1).to_numpy()
        return numbers[: len(left)], numbers[len(left) :], int(numbers.max(initial=-1)) + 1

    def there(self, column: Any) -> npt.NDArray[np.bool_]:
        return np.asarray(column.is_not_null().to_numpy(), np.bool_)

    def _stacked(self, data: Any) -> Any:
        return sys.modules["polars"].concat([self.data, data], how="vertical_relaxed")

    def take(self, rows: Rows) -> Any:
        polars = sys.modules["polars"]
        if not (rows < 0).any():
            return self.data[rows]
        numbers = polars.Series(rows)
        return self.data.select(polars.all().gather(polars.select(polars.when(numbers >= 0).then(numbers)).to_series()))

    def only(self, keep: list[int]) -> "Frame":
        return PolarsFrame(self.data[:, keep], self.side)

    def beside(self, left: Any, right: Any, names: tuple[list[Hashable], list[Hashable]]) -> Any:
        left, right = (side.rename(dict(zip(side.columns, new))) for side, new in zip((left, right), names))
        # Without columns on one side, polars would not know how many rows there are.
        return left if not right.width else left.hstack(right) if left.width else right

    def series(self, name: Hashable, rows: Rows, like: Any) -> Any:
        polars = sys.modules["polars"]
        made = self.only([self.names.index(name)]).take(rows).to_series()
        return made.alias(like.name if isinstance(like, polars.Series) else "")
