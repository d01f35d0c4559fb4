"""Frames of pandas."""

from __future__ import annotations

import functools
import sys
from typing import Any, Hashable

import numpy as np
import numpy.typing as npt

from . import _keys
from ._frame import Frame, Rows
from ._frame_arrow import ArrowFrame, encode_arrow, of_categories
from ._keys import Coded, Key


class PandasFrame(Frame):
    """DataFrames, and Series with a name, of pandas."""

    @property
    def index(self) -> Any:
        return self.data.index

    def level_key(self, name: Hashable) -> Key | None:
        """The level of the index of a name as a key, unless a column has the name."""
        if name is None or name in self.names or name not in self.index.names:
            return None
        return self.key_of(self.index.get_level_values(name).to_series(), f"{self.side}.index[{name!r}]")

    def index_key(self) -> Key:
        """The index as a key."""
        if self.index.nlevels != 1:
            raise ValueError(f"{self.side}_index=True: the index of {self.side} has {self.index.nlevels} levels, where one is needed")
        return self.key_of(self.index.to_series(), f"the index of {self.side}")

    def key_of(self, column: Any, what: str) -> Key:
        pandas, dtype = sys.modules["pandas"], column.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "iufbmM":
            return _keys.number_key(column.to_numpy(), None, column, f"{what} ({_dtype_name(dtype)})")
        what = f"{what} ({dtype})"
        if isinstance(dtype, pandas.DatetimeTZDtype):
            words = np.asarray(column.array.view("i8"))
            missing = np.asarray(column.isna(), np.bool_)
            return Key("aware", words, ~missing if missing.any() else None, dtype.unit, column, what)
        if isinstance(dtype, pandas.ArrowDtype):
            key = ArrowFrame.key_of_arrow(_arrow_of(column), what)
            return key if key.words is not None else key._replace(column=column)
        number = getattr(dtype, "numpy_dtype", None)
        if isinstance(number, np.dtype) and number.kind in "iufb":
            missing = np.asarray(column.isna(), np.bool_)
            words = column.array.to_numpy(dtype=number, na_value=0)
            return _keys.number_key(words, ~missing if missing.any() else None, column, what)
        if isinstance(dtype, pandas.CategoricalDtype):
            dtype = dtype.categories.dtype
            inner = self.key_of(column.cat.categories.to_series(), what)
            if inner.words is not None:
                # Categories that are numbers are compared with columns of numbers.
                codes = np.asarray(column.cat.codes)
                there = codes >= 0
                words = inner.words[codes] if inner.words.size else np.zeros(codes.size, inner.words.dtype)
                return Key(inner.kind, words, None if there.all() else there, inner.unit, column, what)
        kind = "text" if dtype == object or isinstance(dtype, pandas.StringDtype) else str(dtype)
        return Key(kind, None, None, None, column, what)

    def encode(self, left: Any, right: Any) -> Coded:
        pandas = sys.modules["pandas"]
        sides, codes = [], []
        for column in (left, right):
            is_category = isinstance(column.dtype, pandas.CategoricalDtype)
            sides.append(column.cat.categories.to_series() if is_category else column)
            codes.append(np.asarray(column.cat.codes) if is_category else None)
        if codes[0] is not None and codes[1] is not None and left.cat.categories.equals(right.cat.categories):
            return codes[0], codes[1], len(sides[0])
        if all(_is_in_arrow(side) for side in sides):
            parts = encode_arrow(*(_arrow_of(side) for side in sides))
        else:
            made, distinct = pandas.factorize(pandas.concat(sides, ignore_index=True))
            parts = made[: len(sides[0])], made[len(sides[0]) :], len(distinct)
        return of_categories(parts, (codes[0], codes[1]))

    def kept(self) -> Frame:
        # From 3.0 on a change of either one copies first.
        is_shared = int(sys.modules["pandas"].__version__.split(".")[0]) >= 3
        return self.of(self.data.copy(deep=not is_shared))

    def there(self, column: Any) -> npt.NDArray[np.bool_]:
        return np.asarray(column.notna(), np.bool_)

    def _stacked(self, data: Any) -> Any:
        pandas = sys.modules["pandas"]
        is_numbered = self.index.equals(pandas.RangeIndex(len(self.data))) and self.index.name is None
        return pandas.concat([self.data, data], ignore_index=is_numbered)

    def take(self, rows: Rows) -> Any:
        frame = self.data
        if not (rows < 0).any():
            return frame.take(rows)
        return frame.set_axis(sys.modules["pandas"].RangeIndex(len(frame)), axis=0).reindex(rows)

    def only(self, keep: list[int]) -> "Frame":
        return PandasFrame(self.data.iloc[:, keep], self.side)

    def beside(self, left: Any, right: Any, names: tuple[list[Hashable], list[Hashable]]) -> Any:
        return _beside(left, right.set_axis(left.index, axis=0), _labels(left.columns, right.columns, names))

    def beside_rows(self, left: Any, right: Frame, keep: list[int], rows: Rows, names: tuple[list[Hashable], list[Hashable]]) -> Any:
        # Column by column: frames take no rows that are none, but for labels that are looked up.
        pandas, has_none = sys.modules["pandas"], bool((rows < 0).any())
        columns, is_unique = {}, right.data.columns.is_unique
        for at in keep:
            name = right.names[at]
            # By name it takes half of the time.
            column = right.data[name] if is_unique and type(name) is str else right.data.iloc[:, at]
            if isinstance(column.dtype, np.dtype):
                elements = column.to_numpy()
                taken = pandas.api.extensions.take(elements, rows, allow_fill=True) if has_none else elements.take(rows)
                # Objects stay so.
                columns[at] = pandas.Series(taken, index=left.index, dtype=object) if taken.dtype == object else taken
            else:
                columns[at] = column.array.take(rows, allow_fill=has_none)
        return _beside(left, pandas.DataFrame(columns, index=left.index, copy=False), _labels(left.columns, right.data.columns, names, keep))

    @staticmethod
    def numbered(data: Any) -> Any:
        """A frame of pandas whose index has the numbers of its rows, as that of a new one."""
        index, pandas = data.index, sys.modules["pandas"]
        if type(index) is pandas.RangeIndex and index.start == 0 and index.step == 1 and index.name is None:
            return data
        return data.set_axis(pandas.RangeIndex(len(data)), axis=0)

    def series(self, name: Hashable, rows: Rows, like: Any) -> Any:
        pandas = sys.modules["pandas"]
        made = self.only([self.names.index(name)]).take(rows).iloc[:, 0]
        if isinstance(like, pandas.Series):
            return made.set_axis(like.index).rename(like.name)
        return made.reset_index(drop=True).rename(None)


#: The name of a dtype of NumPy, which takes longer than a look-up.
_dtype_name = functools.lru_cache(maxsize=64)(str)


def _beside(left: Any, right: Any, labels: Any) -> Any:
    """Two frames of pandas with the same index as one, whose columns are called so."""
    made = sys.modules["pandas"].concat([left, right], axis=1, ignore_index=True)
    made.columns = labels
    return made


@functools.lru_cache(maxsize=64, typed=True)
def _text_labels(names: tuple[Hashable, ...], dtype: Any, name: Hashable) -> Any:
    """Names of columns as pandas has them: kept, since making them is a tenth of a join of small frames."""
    return sys.modules["pandas"].Index(names, dtype=dtype, name=name)


def _labels(left: Any, right: Any, names: tuple[list[Hashable], list[Hashable]], keep: list[int] | None = None) -> Any:
    """The names of columns of two frames side by side, in place of those that they have, of the right one those that are kept."""
    pandas = sys.modules["pandas"]
    if isinstance(left.dtype, pandas.StringDtype) and left.dtype == right.dtype:
        # The caller may rename its own.
        return _text_labels((*names[0], *names[1]), left.dtype, left.name if left.name == right.name else None).view()
    sides = zip((left, right if keep is None else right.take(keep)), names)
    # What pandas has for them, if they are as they were.
    one, other = (columns if list(columns) == new else pandas.Index(new, name=columns.name) for columns, new in sides)
    return one.append(other)


def _is_in_arrow(column: Any) -> bool:
    """Whether the elements of a column of pandas are in Arrow's memory."""
    pandas, dtype = sys.modules["pandas"], column.dtype
    return isinstance(dtype, pandas.ArrowDtype) or isinstance(dtype, pandas.StringDtype) and dtype.storage == "pyarrow"


def _arrow_of(column: Any) -> Any:
    """A column of pandas whose elements are in Arrow's memory, as pyarrow has it."""
    return sys.modules["pyarrow"].chunked_array(column.array.__arrow_array__())
