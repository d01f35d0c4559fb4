"""Tables of pyarrow, and relations of DuckDB, which pyarrow reads."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, Hashable

import numpy as np
import numpy.typing as npt

from . import _keys, _missing, _native
from ._frame import Frame, Rows
from ._keys import Coded, Key


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
    for column in (_missing.storage(side) for side in (left, right)):
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
    return of_categories(parts, (codes[0], codes[1]))


def _is_text(types: Any, dtype: Any) -> bool:
    """Whether a type is one of strings or of byte strings of any length."""
    return bool(
        types.is_string(dtype)
        or types.is_large_string(dtype)
        or types.is_binary(dtype)
        or types.is_large_binary(dtype)
        or str(dtype) in ("string_view", "binary_view")
    )


def of_categories(parts: Coded, codes: tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]) -> Coded:
    """The codes of two columns of which some are numbers of categories, -1 for none, from the codes of the categories."""
    *sides, count = parts
    left, right = (
        # -1, for what is missing, takes the element after the last one.
        side if code is None else np.append(side.astype(np.int64), -1)[code]
        for side, code in zip(sides, codes)
    )
    return left, right, count


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
