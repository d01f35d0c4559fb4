"""Frames of pandas, polars, pyarrow and DuckDB, behind one interface: columns as keys, rows by number, and tables side by side.

None of these libraries is needed: what a frame is, its module says, which is there if the frame is.
"""

from __future__ import annotations

import copy
import functools
import importlib
import sys
from typing import Any, Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from . import _keys, _missing, _native
from ._keys import Coded, Key

#: Numbers of rows; -1 stands for a row of nulls.
Rows = npt.NDArray[np.int64]
#: What is called what in two tables, by the names of columns that both have.
Suffixes = Sequence["str | None"]


class Column:
    """An array in place of the name of a column. It is called as no other one is."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    def __repr__(self) -> str:
        return f"<an array of {len(self.data)}>"


def is_column(data: Any) -> bool:
    """Whether this is an array or a column of a library, not a name."""
    if isinstance(data, (str, int, tuple)):
        return False
    pyarrow = sys.modules.get("pyarrow")
    is_arrow = pyarrow is not None and isinstance(data, (pyarrow.Array, pyarrow.ChunkedArray))
    polars = sys.modules.get("polars")
    return is_arrow or isinstance(data, np.ndarray) or _missing.is_pandas(data) or polars is not None and isinstance(data, polars.Series)


class Frame:
    """A table of one library."""

    #: The table in its library's own form.
    data: Any
    #: What errors call it: "left" or "right".
    side: str

    def __init__(self, data: Any, side: str) -> None:
        self.data, self.side = data, side

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.data)

    @functools.cached_property
    def names(self) -> list[Hashable]:
        """The names of the columns."""
        return list(self.data.columns)

    def column(self, name: Hashable, argument: str) -> Any:
        """The column of a name, which an argument has, or an error."""
        self.check_name(name, argument)
        return self.data[name]

    def key(self, name: Hashable, argument: str) -> Key:
        """The column of a name, which an argument has, as a key; or an array."""
        if isinstance(name, Column):
            if len(name.data) != self.size:
                raise ValueError(f"{argument} is an array of {len(name.data)} elements, and {self.side} has {self.size} rows: give one for each")
            frame = in_form_of(self, column_frame(name.data, self, argument))
            return frame.key_of(frame.column(argument, argument), argument)
        return self.key_of(self.column(name, argument), f"{self.side}[{name!r}]")

    def with_column(self, at: int, name: str, column: Any) -> "Frame":
        """The table with one more column at a place."""
        if name in self.names:
            raise ValueError(f"{self.side} has a column {name!r}, which the result has for an array: rename it")
        new = in_form_of(self, column_frame(column, self, name))
        if isinstance(self, PandasFrame):
            new = new.of(new.data.set_axis(self.index, axis=0))
        made, numbers = self.of(self.beside(new.data, self.data, ([name], self.names))), list(range(1, len(self.names) + 1))
        return self.of(made.only([*numbers[:at], 0, *numbers[at:]]).data)

    def check_name(self, name: Hashable, argument: str) -> None:
        """An error unless there is one column of a name."""
        found = self.names.count(name)
        if found == 0:
            raise KeyError(f"{argument}={name!r}: {self.side} has no such column; it has {', '.join(map(repr, self.names[:20]))}")
        if found > 1:
            raise ValueError(f"{argument}={name!r}: {self.side} has {found} columns of this name: rename all but one of them")

    def key_of(self, column: Any, what: str) -> Key:
        """A column as a key."""
        raise NotImplementedError

    def encode(self, left: Any, right: Any) -> Coded:
        """Codes of two columns that are no numbers."""
        raise NotImplementedError

    def of(self, data: Any) -> "Frame":
        """Another table of the library, which is given as this one was."""
        made = copy.copy(self)
        made.data = data
        made.__dict__.pop("names", None)
        return made

    def kept(self) -> "Frame":
        """The table, without what the caller will change in it."""
        return self

    def there(self, column: Any) -> npt.NDArray[np.bool_]:
        """Which elements of a column there are."""
        raise NotImplementedError

    def stacked(self, other: "Frame") -> Any:
        """The rows of this table and those of another one of the library, if the columns keep their dtypes."""
        for side, names, others in ((other.side, other.names, self.names), ("the index", self.names, other.names)):
            for name in others:
                if names.count(name) != others.count(name):
                    raise KeyError(f"{side} has {names.count(name) or 'no'} column {name!r}, where {others.count(name)} is needed")
        if other.names != self.names:
            other = other.only([other.names.index(name) for name in self.names])
        try:
            made = self._stacked(other.data)
        except (TypeError, ValueError, getattr(getattr(sys.modules.get("polars"), "exceptions", None), "PolarsError", TypeError)) as error:
            raise ValueError(f"{other.side} does not go below the rows of the index: {error}") from error
        kept, new, now = (self._dtypes(data) for data in (self.data, other.data, made))
        for name, dtype, given, becomes in zip(self.names, kept, new, now):
            if becomes != dtype:
                raise ValueError(f"{other.side}[{name!r}] is {given}, where the index has {dtype}, and both would be {becomes}: convert it")
        return made

    def _stacked(self, data: Any) -> Any:
        """The rows of two tables of the library with the same names."""
        raise NotImplementedError

    @staticmethod
    def _dtypes(data: Any) -> list[Any]:
        return list(data.dtypes)

    def take(self, rows: Rows) -> Any:
        """Rows by their numbers, as a table of the library."""
        raise NotImplementedError

    def only(self, keep: list[int]) -> "Frame":
        """The table with these columns alone, by their numbers."""
        raise NotImplementedError

    def beside(self, left: Any, right: Any, names: tuple[list[Hashable], list[Hashable]]) -> Any:
        """Two tables of the library as one, with these names."""
        raise NotImplementedError

    def beside_rows(self, left: Any, right: "Frame", keep: list[int], rows: Rows, names: tuple[list[Hashable], list[Hashable]]) -> Any:
        """A table of the library, and rows of some columns of another one, as one."""
        return self.beside(left, right.only(keep).take(rows), names)

    def given(self, made: Any) -> Any:
        """A table of the library in the form in which the caller gave this one."""
        return made

    def series(self, name: Hashable, rows: Rows, like: Any) -> Any:
        """A column's elements by their rows, as one of the library; `like` is the column of keys for which they are."""
        raise NotImplementedError


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
        return _of_categories(parts, (codes[0], codes[1]))

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


def _is_numbered(index: Any) -> bool:
    """Whether an index of pandas has the numbers of the rows, as that of a new frame."""
    return type(index) is sys.modules["pandas"].RangeIndex and index.start == 0 and index.step == 1 and index.name is None


def _is_in_arrow(column: Any) -> bool:
    """Whether the elements of a column of pandas are in Arrow's memory."""
    pandas, dtype = sys.modules["pandas"], column.dtype
    return isinstance(dtype, pandas.ArrowDtype) or isinstance(dtype, pandas.StringDtype) and dtype.storage == "pyarrow"


def _of_categories(parts: Coded, codes: tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]) -> Coded:
    """The codes of two columns of which some are numbers of categories, -1 for none, from the codes of the categories."""
    *sides, count = parts
    left, right = (
        # -1, for what is missing, takes the element after the last one.
        side if code is None else np.append(side.astype(np.int64), -1)[code]
        for side, code in zip(sides, codes)
    )
    return left, right, count


def _arrow_of(column: Any) -> Any:
    """A column of pandas whose elements are in Arrow's memory, as pyarrow has it."""
    return sys.modules["pyarrow"].chunked_array(column.array.__arrow_array__())


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


class ArrowFrame(Frame):
    """Tables and record batches of pyarrow."""

    def __init__(self, data: Any, side: str) -> None:
        pyarrow = sys.modules["pyarrow"]
        self._is_batch = isinstance(data, pyarrow.RecordBatch)
        super().__init__(pyarrow.Table.from_batches([data]) if self._is_batch else data, side)

    @property
    def size(self) -> int:
        return int(self.data.num_rows)

    @functools.cached_property
    def names(self) -> list[Hashable]:
        return list(self.data.column_names)

    def key_of(self, column: Any, what: str) -> Key:
        return self.key_of_arrow(column, f"{what} ({column.type})")

    @staticmethod
    def key_of_arrow(column: Any, what: str) -> Key:
        """A column of pyarrow as a key."""
        pyarrow, compute = sys.modules["pyarrow"], importlib.import_module("pyarrow.compute")
        types, dtype = pyarrow.types, column.type
        if types.is_dictionary(dtype) and not _is_text(types, dtype.value_type) and not types.is_nested(dtype.value_type):
            column, dtype = column.cast(dtype.value_type), dtype.value_type
        valid: _missing.Valid = None
        if column.null_count:
            valid = np.asarray(compute.is_valid(column).to_numpy(zero_copy_only=False) if isinstance(column, pyarrow.Array) else compute.is_valid(column).to_numpy())
        inner = dtype.value_type if types.is_dictionary(dtype) else dtype
        if _is_text(types, inner):
            return Key("text" if types.is_string(inner) or types.is_large_string(inner) or inner == pyarrow.string_view() else "bytes", None, valid, None, column, what)
        kind, unit, width = "", None, 0
        if types.is_timestamp(dtype):
            kind, unit, width = "aware" if dtype.tz else "naive", dtype.unit, 64
        elif types.is_duration(dtype):
            kind, unit, width = "duration", dtype.unit, 64
        elif types.is_date(dtype):
            kind, unit, width = "naive", "D" if types.is_date32(dtype) else "ms", dtype.bit_width
        elif types.is_time(dtype):
            kind, unit, width = "clock", dtype.unit, dtype.bit_width
        if kind:
            column = column.cast(pyarrow.int32() if width == 32 else pyarrow.int64())
        elif not (types.is_integer(dtype) or types.is_floating(dtype) or types.is_boolean(dtype)):
            return Key(str(dtype), None, valid, None, column, what)
        filled = column if valid is None else compute.fill_null(column, False if types.is_boolean(dtype) else 0)
        words = np.asarray(filled)
        return Key(kind, words, valid, unit, column, what) if kind else _keys.number_key(words, valid, column, what)

    def encode(self, left: Any, right: Any) -> Coded:
        return encode_arrow(left, right)

    def there(self, column: Any) -> npt.NDArray[np.bool_]:
        return np.asarray(column.is_valid(), np.bool_)

    def _stacked(self, data: Any) -> Any:
        pyarrow = sys.modules["pyarrow"]
        for at, (column, field) in enumerate(zip(data.columns, self.data.schema)):
            inner = column.type.value_type if pyarrow.types.is_dictionary(column.type) else column.type
            if column.type != field.type and _is_text(pyarrow.types, inner) and _is_text(pyarrow.types, field.type):
                # They differ in how they tell where strings are.
                data = data.set_column(at, field, column.cast(field.type))
        return pyarrow.concat_tables([self.data, data], promote_options="permissive")

    @staticmethod
    def _dtypes(data: Any) -> list[Any]:
        return list(data.schema.types)

    def take(self, rows: Rows) -> Any:
        pyarrow, missing = sys.modules["pyarrow"], rows < 0
        numbers = pyarrow.array(rows, mask=missing if missing.any() else None)
        # pyarrow takes no elements of views.
        schema = self.data.schema
        plain = pyarrow.schema([field.with_type(_without_views(field.type)) for field in schema])
        return self.data.take(numbers) if plain == schema else self.data.cast(plain).take(numbers).cast(schema)

    def only(self, keep: list[int]) -> "Frame":
        return ArrowFrame(self.data.select(keep), self.side)

    def beside(self, left: Any, right: Any, names: tuple[list[Hashable], list[Hashable]]) -> Any:
        pyarrow = sys.modules["pyarrow"]
        fields = [field.with_name(name) for side, new in zip((left, right), names) for field, name in zip(side.schema, new)]
        # Those of the right side may be null, whatever they were.
        fields[left.num_columns :] = [field.with_nullable(True) for field in fields[left.num_columns :]]
        return pyarrow.Table.from_arrays([*left.columns, *right.columns], schema=pyarrow.schema(fields))

    def given(self, made: Any) -> Any:
        if not self._is_batch:
            return made
        made = made.combine_chunks()
        pyarrow = sys.modules["pyarrow"]
        arrays = [column.chunk(0) if column.num_chunks else pyarrow.array([], column.type) for column in made.columns]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=made.schema)

    def series(self, name: Hashable, rows: Rows, like: Any) -> Any:
        made = self.only([self.names.index(name)]).take(rows).column(0)
        return made.combine_chunks() if isinstance(like, sys.modules["pyarrow"].Array) else made


def _without_views(dtype: Any) -> Any:
    """A type of strings by offsets in place of one by views."""
    pyarrow = sys.modules["pyarrow"]
    return {"string_view": pyarrow.large_string(), "binary_view": pyarrow.large_binary()}.get(str(dtype), dtype)


def encode_strings(left: Any, right: Any) -> Coded:
    """Codes of two columns of strings, or of byte strings, of Arrow's."""
    codes, count = _native.encode_strings([chunk for column in (left, right) for chunk in _missing.arrow_chunks(column)])
    return codes[: len(left)], codes[len(left) :], count


def encode_arrow(left: Any, right: Any) -> Coded:
    """Codes of two columns of pyarrow that are no numbers."""
    pyarrow, compute = sys.modules["pyarrow"], importlib.import_module("pyarrow.compute")
    sides: list[Any] = []
    codes: list[npt.NDArray[Any] | None] = []
    for column in (left, right):
        if not pyarrow.types.is_dictionary(column.type):
            sides.append(column)
            codes.append(None)
            continue
        chunked = pyarrow.chunked_array(column) if isinstance(column, pyarrow.Array) else column.unify_dictionaries()
        sides.append(chunked.chunk(0).dictionary if chunked.num_chunks else pyarrow.array([], column.type.value_type))
        indices = [np.asarray(compute.fill_null(chunk.indices.cast(pyarrow.int64()), -1)) for chunk in chunked.chunks]
        codes.append(np.concatenate([np.zeros(0, np.int64), *indices]))
    if all(_is_text(pyarrow.types, side.type) for side in sides):
        parts = encode_strings(*sides)
    else:
        chunks = [chunk for side in sides for chunk in (side.chunks if isinstance(side, pyarrow.ChunkedArray) else [side])]
        made = pyarrow.chunked_array(chunks, sides[0].type).combine_chunks().dictionary_encode()
        made = made.combine_chunks() if isinstance(made, pyarrow.ChunkedArray) else made
        numbers = np.asarray(compute.fill_null(made.indices, -1))
        parts = numbers[: len(sides[0])], numbers[len(sides[0]) :], len(made.dictionary)
    return _of_categories(parts, (codes[0], codes[1]))


def _is_text(types: Any, dtype: Any) -> bool:
    """Whether a type is one of strings or of byte strings of any length."""
    return bool(
        types.is_string(dtype)
        or types.is_large_string(dtype)
        or types.is_binary(dtype)
        or types.is_large_binary(dtype)
        or str(dtype) in ("string_view", "binary_view")
    )


class DuckFrame(ArrowFrame):
    """Relations of DuckDB: read once, into Arrow's memory. The result is a relation of the same connection."""

    def __init__(self, data: Any, side: str) -> None:
        self._relation = data
        try:
            importlib.import_module("pyarrow")
        except ImportError as error:
            raise ImportError(f"{side} is a relation of DuckDB, which is read by pyarrow: pip install pyarrow") from error
        super().__init__(data.to_arrow_table() if hasattr(data, "to_arrow_table") else data.fetch_arrow_table(), side)

    def given(self, made: Any) -> Any:
        # DuckDB finds the table by the name of this variable, and the relation keeps it.
        lanetree_joined = made
        del made
        return self._relation.query("lanetree_given", "select * from lanetree_joined") if lanetree_joined is not None else None


def frame_of(data: Any, side: str) -> Frame:
    """A table of any of the libraries, or an error that says what is one."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    pyarrow, duckdb = sys.modules.get("pyarrow"), sys.modules.get("duckdb")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return PandasFrame(data, side)
    if pandas is not None and isinstance(data, pandas.Series):
        if data.name is None:
            raise ValueError(f"{side} is a Series without a name: give it one by .rename(name)")
        return PandasFrame(data.to_frame(), side)
    if polars is not None and isinstance(data, polars.DataFrame):
        return PolarsFrame(data, side)
    if polars is not None and isinstance(data, polars.LazyFrame):
        raise TypeError(f"{side} is a LazyFrame, which has no rows yet: pass {side}.collect()")
    if pyarrow is not None and isinstance(data, (pyarrow.Table, pyarrow.RecordBatch)):
        return ArrowFrame(data, side)
    if duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation):
        return DuckFrame(data, side)
    raise TypeError(
        f"{side} is a {type(data).__module__}.{type(data).__name__}: pass a DataFrame of pandas or polars, a Table or RecordBatch of"
        " pyarrow, or a relation of DuckDB"
    )


def frames_of(left: Any, right: Any) -> tuple[Frame, Frame]:
    """Two tables, the right one in the form of the left one's library."""
    one, other = frame_of(left, "left"), frame_of(right, "right")
    return one, in_form_of(one, other)


def column_frame(column: Any, like: Frame, name: str) -> Frame:
    """A column, which an argument of this name has, as a table of its own: that of its library, or of another one's, if it has none."""
    pandas, polars, pyarrow = (sys.modules.get(library) for library in ("pandas", "polars", "pyarrow"))
    if pandas is not None and isinstance(column, pandas.Series):
        return PandasFrame(column.to_frame(name), name)
    if polars is not None and isinstance(column, polars.Series):
        return PolarsFrame(polars.DataFrame({name: column}), name)
    if pyarrow is not None and isinstance(column, (pyarrow.Array, pyarrow.ChunkedArray)):
        return ArrowFrame(pyarrow.table({name: column}), name)
    if isinstance(like, PandasFrame) or pandas is not None and _missing.is_pandas(column):
        return PandasFrame(sys.modules["pandas"].DataFrame({name: column}), name)
    if isinstance(like, PolarsFrame):
        return PolarsFrame(sys.modules["polars"].DataFrame({name: column}), name)
    return ArrowFrame(sys.modules["pyarrow"].table({name: sys.modules["pyarrow"].array(column)}), name)


def in_form_of(other: Frame, frame: Frame) -> Frame:
    """A table in the form of another one's library."""
    base = ArrowFrame if isinstance(other, ArrowFrame) else type(other)
    return frame if isinstance(frame, base) else _converted(frame, other)


def _converted(frame: Frame, like: Frame) -> Frame:
    """A table in the form of another one's library."""
    data = frame.data
    if isinstance(like, PandasFrame):
        pandas = sys.modules["pandas"]
        made = data.to_pandas() if isinstance(frame, ArrowFrame) else pandas.DataFrame.from_arrow(data) if hasattr(pandas.DataFrame, "from_arrow") else data.to_pandas()
        return PandasFrame(made, frame.side)
    if isinstance(like, PolarsFrame):
        polars = sys.modules["polars"]
        return PolarsFrame(polars.from_pandas(data) if isinstance(frame, PandasFrame) else polars.from_arrow(data), frame.side)
    pyarrow = sys.modules["pyarrow"]
    if isinstance(frame, PandasFrame):
        return ArrowFrame(pyarrow.Table.from_pandas(data, preserve_index=False), frame.side)
    return ArrowFrame(pyarrow.table(data), frame.side)


def selected(frame: Frame, is_kept: npt.NDArray[np.bool_]) -> Any:
    """Some rows of a table, as they are, as one of its library."""
    return frame.given(frame.take(np.flatnonzero(is_kept)))


def joined(
    left: Frame,
    right: Frame,
    rows: tuple[Rows | None, Rows],
    drop: Iterable[Hashable],
    suffixes: Suffixes,
    keeps_index: bool = False,
) -> Any:
    """The rows of a join as one table of the left side's library.

    The numbers of left rows are None for all of them in order. Columns of `drop` are left out of the right side. Names that both sides
    have get the suffixes. `keeps_index`: of a frame of pandas the result has the left one's index, and otherwise numbers.
    """
    dropped = set(drop)
    keep = [number for number, name in enumerate(right.names) if name not in dropped]
    names = _with_suffixes(left.names, [right.names[number] for number in keep], suffixes)
    taken = left.data if rows[0] is None else left.take(rows[0])
    if isinstance(left, PandasFrame) and not keeps_index and not _is_numbered(taken.index):
        taken = taken.set_axis(sys.modules["pandas"].RangeIndex(len(taken)), axis=0)
    return left.given(left.beside_rows(taken, right, keep, rows[1], names))


def _with_suffixes(left: list[Hashable], right: list[Hashable], suffixes: Suffixes) -> tuple[list[Hashable], list[Hashable]]:
    """The names of a join's columns, by pandas' rules."""
    if isinstance(suffixes, (str, bytes, dict, set, frozenset)) or not hasattr(suffixes, "__len__"):
        raise TypeError(f"suffixes is {suffixes!r}: pass a pair, such as ('_x', '_y')")
    if len(suffixes) != 2:
        raise ValueError(f"suffixes has {len(suffixes)} elements: pass a pair, such as ('_x', '_y')")
    both = set(left) & set(right)
    if not both:
        return left, right
    shown = ", ".join(repr(name) for name in left if name in both)
    if not any(suffixes):
        raise ValueError(f"suffixes={tuple(suffixes)!r}, but both sides have columns {shown}: give one side a suffix, or rename them")
    made = []
    for names, others, suffix in ((left, right, suffixes[0]), (right, left, suffixes[1])):
        new = [name if suffix is None or name not in both else f"{name}{suffix}" for name in names]
        # Names that were there twice stay so; no others become equal.
        twice = [now for now, was in zip(new, names) if new.count(now) > 1 and names.count(was) == 1]
        twice += [now for now in new if now in others and now not in both]
        if twice:
            raise ValueError(f"suffixes={tuple(suffixes)!r} make several columns {twice[0]!r}: choose others, or rename columns")
        made.append(new)
    return made[0], made[1]
