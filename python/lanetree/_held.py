"""What all indexes have in common: memory that is freed at once, sizes and pictures."""

from __future__ import annotations

import os
from html import escape
from typing import Any, Callable, Iterator, NamedTuple, Sequence, TypeVar

import numpy as np
import numpy.typing as npt

from . import _arrays, _columns, _files, _joins, _missing, _native, _progress, _wide, errors
from ._arrays import Array, ArrayLike, Output
from ._device import Device
from ._progress import Progress

_Self = TypeVar("_Self", bound="Held")
_Ordered = TypeVar("_Ordered", bound="Ordered")
_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)
#: An array, and what it is called in messages.
Given = tuple[ArrayLike, str]


class Held:
    """An index's native object, with the memory that it holds."""

    __slots__ = ("_index", "device", "__weakref__")
    _index: Any
    device: Device

    def _contents(self) -> str:
        """How many pairs there are, and of which dtypes, for people."""
        raise NotImplementedError

    def _parts(self) -> tuple[Any, ...]:
        """What the index is of: columns in host memory, in order, as its constructor takes them."""
        parts: tuple[Any, ...] = self.items()  # type: ignore[attr-defined]
        return parts

    def _options(self) -> dict[str, Any]:
        """What the constructor is told of these columns, in addition to the device."""
        return {}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the keys."""
        dtype: np.dtype[Any] = self.key_dtype  # type: ignore[attr-defined]
        return dtype

    @property
    def time_zone(self) -> str | None:
        """The time zone in which keys that are instants are shown; None for other keys, and times without one."""
        return _missing.zone_of(self.dtype)

    @property
    def size(self) -> int:
        """How many there are: ``len(index)``."""
        return len(self)

    @property
    def shape(self) -> tuple[int]:
        """``(size,)``"""
        return (len(self),)

    def __eq__(self, other: object) -> bool:
        """Whether the other one is an index of the same class and dtypes with the same contents, bit by bit. Copies these."""
        if not isinstance(other, Held) or type(other) is not type(self):
            return NotImplemented
        is_same = len(self) == len(other) and getattr(self, "nulls", None) == getattr(other, "nulls", None)
        return is_same and all(_is_equal(*parts) for parts in zip(self._parts(), other._parts()))

    # As of other containers that change.
    __hash__ = None  # type: ignore[assignment]

    def to(self: _Self, device: str | Device) -> _Self:
        """A copy of the index on another device."""
        return restored(type(self), self._parts(), device, self._options(), getattr(self, "nulls", None))

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickled, (type(self), self._parts(), self.device.name, self._options(), getattr(self, "nulls", None))

    def _file_columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of a file, as the constructor names them."""
        raise NotImplementedError

    @classmethod
    def _of_file(cls, columns: dict[str, npt.NDArray[Any]]) -> tuple[Any, ...]:
        """What the constructor takes of the columns of a file."""
        return tuple(columns.values())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the index to a file, in place of one that is there; :meth:`load` and :func:`lanetree.load` make an index of it.

        The file is an archive of NumPy's (npz), which :func:`numpy.load` reads, too. It is written under another name in the same
        folder, synced, and renamed: after a crash the path has the old file or the new one.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        lanetree.errors.Io
            An ``OSError``; the path has the old file.
        """
        _files.write(path, type(self).__name__, self._file_columns())

    @classmethod
    def load(cls: type[_Self], path: str | os.PathLike[str], device: str | Device | None = None) -> _Self:
        """An index from a file that :meth:`save` has made.

        Parameters
        ----------
        path : path-like
        device : str, Device or None
            As for :class:`Index`.

        Raises
        ------
        lanetree.errors.NotFound, lanetree.errors.Io
            Both are an ``OSError``.
        lanetree.errors.Damaged, lanetree.errors.Unsupported
            For what is no such file, not whole, or newer.
        TypeError
            For the file of another class.
        """
        kind, columns = _files.read(path)
        if kind != cls.__name__:
            raise TypeError(f"{os.fspath(path)!r} is a file of class {kind}: use {kind}.load, or lanetree.load")
        return restored(cls, cls._of_file(columns), Device(device), {})

    def copy(self: _Self) -> _Self:
        """A copy of the index on the same device."""
        return self.to(self.device)

    @property
    def nbytes(self) -> int:
        """Bytes of the device's memory that the index takes."""
        return int(self.stats()["bytes"])

    def stats(self) -> dict[str, int]:
        """The index's size, by part: how many of each, and their bytes."""
        found: dict[str, int] = self._index.stats()
        return found

    def describe(self) -> str:
        """The index's size, by part, as text."""
        stats = self.stats()
        size, total = max(stats["len"], 1), stats.pop("bytes")
        lines = [repr(self)]
        for name, value in stats.items():
            is_bytes = name.endswith("bytes")
            lines.append(f"  {name:<16}{value:>16,}" + (f" B {value / size:9.2f} B/key" if is_bytes else ""))
        return "\n".join([*lines, f"  {'in all':<16}{total:>16,} B {total / size:9.2f} B/key"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self) if self.closed else self.describe())}</pre>"

    def close(self) -> None:
        """Free the index's memory now. Later calls are errors."""
        self._index.close()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return bool(self._index.is_closed)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        name = f"lanetree.{type(self).__name__}"
        return f"<{name}, closed>" if self.closed else f"<{name} of {self._contents()}, on {self.device.name}>"


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two columns have the same elements, bit by bit."""
    if isinstance(one, list):
        return bool(one == other)
    is_one = one.dtype == other.dtype and _wide.note_of(one.dtype) == _wide.note_of(other.dtype)
    return bool(is_one and np.array_equal(_wide.words(one), _wide.words(other)))


def restored(kind: type[_Self], parts: tuple[Any, ...], device: str | Device, options: dict[str, Any], nulls: str | None = None) -> _Self:
    """An index of columns that another one gave, on a device."""
    made = kind(*_missing.whole(parts), device=device, **options)  # type: ignore[call-arg]
    if isinstance(made, Keyed) and nulls is not None:
        # Its keys have the one that stands for nulls.
        made.nulls = nulls
    return made


def unpickled(kind: type[_Self], parts: tuple[Any, ...], device: str, options: dict[str, Any], nulls: str | None) -> _Self:
    """An index that was pickled: on the same device if there is one, else on the one that is chosen by default."""
    try:
        place = Device(device)
    except (errors.Error, ValueError):
        place = Device()
    return restored(kind, parts, place, options, nulls)


class Ordered(Held):
    """What indexes have whose keys are in one order: those of strings, too."""

    __slots__ = ()

    def keys(self) -> Any:
        """All keys, in order."""
        raise NotImplementedError

    def _end(self, is_last: bool) -> tuple[Any, ...] | None:
        """The first or last key that is not null, after it its value if there are values; None if there is none."""
        raise NotImplementedError

    def _pair_at_end(self, is_last: bool) -> tuple[Any, ...]:
        end = self._end(is_last)
        if end is None:
            raise ValueError(f"the {type(self).__name__} has no keys, so there is no {'last' if is_last else 'first'} one")
        return end

    def _between(self, start: Any, stop: Any) -> tuple[Any, ...]:
        """The columns of the keys between two bounds, both inclusive; None for no bound."""
        raise NotImplementedError

    def _slice(self: _Ordered, bounds: slice) -> _Ordered:
        """An index of the keys of a slice."""
        if bounds.step is not None:
            raise ValueError(f"a slice of keys has no step, but {bounds.step!r} was passed: for descending order use reversed(index)")
        for name, bound in (("start", bounds.start), ("stop", bounds.stop)):
            if bound is not None and _missing.is_missing(bound):
                raise ValueError(f"the {name} of a slice of keys is {bound!r}: pass a key, or leave it out")
        parts = self._between(bounds.start, bounds.stop)
        return restored(type(self), parts, self.device, self._options(), getattr(self, "nulls", None))

    def min(self) -> Any:
        """The first key in the index's order that is not null. A ValueError if there is none."""
        return self._pair_at_end(False)[0]

    def max(self) -> Any:
        """The last key in the index's order that is not null. A ValueError if there is none."""
        return self._pair_at_end(True)[0]

    def __iter__(self) -> Iterator[Any]:
        """The keys in ascending order: numbers of Python, times of NumPy. Copies all of them first."""
        return iter(objects(self.keys()))

    def __reversed__(self) -> Iterator[Any]:
        """The keys in descending order. Copies all of them first."""
        return iter(objects(self.keys()[::-1]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The keys in ascending order."""
        return np.asarray(self.keys(), dtype)

    def _has(self, key: Any) -> bool:
        """Whether one key is there, or an error of what cannot be one."""
        raise NotImplementedError

    def __contains__(self, key: object) -> bool:
        """Whether one key is there. What cannot be a key is not."""
        return is_there(key, self._has)


class Pairs(Ordered):
    """An index of keys with one value each."""

    __slots__ = ()

    def first(self) -> tuple[Any, Any]:
        """The pair of :meth:`min`: a key and its value."""
        key, value = self._pair_at_end(False)
        return key, value

    def last(self) -> tuple[Any, Any]:
        """The pair of :meth:`max`: a key and its value."""
        key, value = self._pair_at_end(True)
        return key, value


def is_there(key: Any, has: Callable[[Any], bool], cannot_be: tuple[type[Exception], ...] = (TypeError, ValueError, OverflowError)) -> bool:
    """Whether an index has one key, by a call that may say by some errors that it cannot be one; then it has not."""
    if isinstance(key, tuple):
        return False
    if not isinstance(key, (int, float, str)) and np.ndim(key):
        raise TypeError(f"`in` is for one key, but a {type(key).__name__} was passed: use contains(...), which has an answer for each")
    try:
        return has(key)
    except cannot_be:
        return False


def whole_number(key: Any, dtype: np.dtype[Any]) -> Any:
    """A float without a fraction as an integer, where keys are integers."""
    is_whole = dtype.kind in "iu" and isinstance(key, (float, np.floating)) and key.is_integer()
    return int(key) if is_whole else key


def objects(keys: Any) -> list[Any]:
    """Keys that an index gave as objects, as iteration over it gives them.

    Parameters
    ----------
    keys : numpy.ndarray or list
        In one dimension, in host memory.

    Returns
    -------
    list
        Numbers of Python; times of NumPy, whatever their unit, or in their time zone; UUIDs, IPv6 addresses and decimals, which in arrays of
        NumPy are 16 bytes.

    Examples
    --------
    >>> import decimal
    >>> index = lanetree.Index([decimal.Decimal("0.5"), decimal.Decimal("1.5")], device="cpu")
    >>> lanetree.objects(index.range([0], [1]).keys)
    [Decimal('0.5')]
    """
    if isinstance(keys, list):
        return keys
    if not isinstance(keys, np.ndarray):
        raise TypeError(f"keys is a {type(keys).__name__}, where an array of NumPy or a list is needed: fetch what is on a device")
    if keys.dtype == _wide.BYTES:
        return _wide.to_objects(keys)
    return list(_missing.in_zone(keys)) if keys.dtype.kind in "mM" else keys.tolist()


class Queries(NamedTuple):
    """Queries in host memory."""

    #: In one dimension; where one is missing, any.
    raw: npt.NDArray[Any]
    #: The shape of the results.
    shape: tuple[int, ...]
    #: The numbers of those that are missing, unless none is: they find nothing.
    missing: npt.NDArray[np.int64] | None


class Keyed(Held):
    """An index over keys of one dtype."""

    __slots__ = ("key_dtype", "nulls")
    key_dtype: np.dtype[Any]
    #: "first" or "last" if nulls are keys, else None.
    nulls: str | None

    @property
    def null_key(self) -> Any:
        """The key that stands for nulls, where they are keys (``nulls="first"`` or ``"last"``); None where they are not.

        It is the lowest or the highest one of the dtype: of datetimes, for "first", NaT, and of floats a NaN that no arithmetic makes.
        In arrays without nulls of their own, on a device, say, it is null, too.
        """
        return None if self.nulls is None else _columns.null_key(self.nulls, self.key_dtype)

    def _take(
        self, nulls: str, key_dtype: npt.DTypeLike | None, device: str | Device | None, stream: Any, keys: ArrayLike, *values: ArrayLike | None
    ) -> tuple[_native.Stream | None, list[_columns.Column]]:
        """The columns of a build of keys, with values or without, and the stream in whose order they are read."""
        _columns.check_nulls(nulls, "first", "last")
        self.nulls = nulls if nulls in ("first", "last") else None
        wanted = None if key_dtype is None else np.dtype(key_dtype)
        given = [(keys, wanted, "the keys"), *((column, None, "the values") for column in values)]
        self.device, on, columns = _columns.columns(device, stream, nulls, *given)
        self.key_dtype = columns[0].dtype
        return on, columns

    def _queries(self, keys: ArrayLike, what: str = "the queries") -> Queries:
        """Keys in host memory to look for."""
        array, valid = _columns.keys_of(self.nulls, keys, self.key_dtype, what)
        return Queries(_arrays.flat(array), array.shape, None if valid is None else np.flatnonzero(~valid))

    def _keys(self, keys: ArrayLike, is_new: bool = True) -> npt.NDArray[Any]:
        """Keys of a change, in host memory, none of which is missing."""
        array, valid = _columns.keys_of(self.nulls, keys, self.key_dtype, "the keys", is_new)
        _missing.refuse(valid, "the keys")
        return _arrays.flat(array)

    def _rows(self, *given: tuple[ArrayLike, str]) -> _columns.Rows:
        """Columns of queries, in host memory, with their names."""
        return _columns.Rows(self.nulls, *((array, self.key_dtype, what) for array, what in given))

    def _on(self, keys: ArrayLike, stream: Any, what: str = "the queries") -> tuple[Array, _native.Stream | None]:
        """Keys on a device, and the stream of the call."""
        return _arrays.on_stream(keys, self.key_dtype, what, self.device, stream)

    def _all_on(self, given: tuple[Given, ...], stream: Any) -> tuple[list[Any], _native.Stream | None]:
        """Columns of keys on a device as native calls take them, and the stream of the call."""
        first, on = self._on(given[0][0], stream, given[0][1])
        rest = (first if array is given[0][0] else _arrays.to_device(array, self.key_dtype, what, self.device, on) for array, what in given[1:])
        return [first._memory, *(column._memory for column in rest)], on

    def _results(
        self,
        call: Callable[[Any, Any, _native.Stream | None], object],
        queries: ArrayLike,
        outputs: tuple[tuple[np.dtype[Any], int], ...],
        out: tuple[Any, ...] | None = None,
        stream: Any = None,
        progress: Progress = None,
        what: str = "",
        is_rank: bool = False,
        name: str = "the queries",
    ) -> Sequence[Output]:
        """Columns with an element for each query: those of the caller's (`out`), or new ones.

        The native call is given the queries, the columns and the stream. Of each column there are its dtype and the bits that it has where
        a query is missing; none may be missing of those for ranks. `what` is done is told while it is; `name` is what errors call the queries.
        """
        if _arrays.on_device(queries):
            column, on = self._on(queries, stream, name)
            arrays: list[Any]
            if out is None:
                arrays = [_arrays.empty(self.device, column.size, dtype) for dtype, _ in outputs]
            else:
                names = _names_of_outputs(outputs)
                arrays = [_arrays.to_device(array, dtype, name, self.device, on) for array, (dtype, _), name in zip(out, outputs, names)]
                for array, name in zip(arrays, names):
                    if array.size != column.size:
                        raise ValueError(f"{name} is an output of {array.size} elements for {column.size} queries")
            call(column._memory, [array._memory for array in arrays], on)
            return arrays if out is None else out
        if is_rank:
            keys, valid = _columns.keys_of(self.nulls, queries, self.key_dtype, name)
            _missing.refuse(valid, name, "a null has no rank, so drop them")
            raw, shape, missing = _arrays.flat(keys), keys.shape, None
        else:
            raw, shape, missing = self._queries(queries, name)
        made: list[Any] = [np.empty(raw.size, dtype) for dtype, _ in outputs] if out is None else _outputs(out, outputs, shape, raw)
        if progress:
            _progress.in_pieces(lambda part, *columns: call(part, columns, None), (raw, *made), progress, what)
        else:
            call(raw, made, None)
        if missing is not None:
            _arrays.erase(missing, *((column, word) for column, (_, word) in zip(made, outputs)))
        if out is not None:
            return out
        return made if len(shape) == 1 else [_wide.shaped(column, shape) for column in made]

    def _counts(self, call: Callable[[Any, Any, _native.Stream | None], object], *given: Given, stream: Any) -> Output:
        """A count for each row of queries, int64."""
        if _arrays.on_device(given[0][0]):
            columns, on = self._all_on(given, stream)
            counts = _arrays.empty(self.device, len(columns[0]), _INT64)
            call(columns, counts._memory, on)
            return counts  # type: ignore[return-value]
        rows = self._rows(*given)
        made = np.empty(rows.columns[0].size, _INT64)
        call(rows.columns, made, None)
        return rows.fill(made).reshape(rows.shape)[()]  # type: ignore[return-value]

    def _ranges(
        self, call: Callable[[Any, _native.Stream | None], tuple[Any, ...]], dtypes: tuple[np.dtype[Any] | None, ...], *given: Given, stream: Any
    ) -> list[Any]:
        """Rows for each row of queries: offsets, and those columns of these dtypes that there are."""
        if _arrays.on_device(given[0][0]):
            columns, on = self._all_on(given, stream)
            found = zip(call(columns, on), (_INT64, *dtypes))
            return [Array(memory, dtype, self.device) for memory, dtype in found if memory is not None]  # type: ignore[arg-type]
        rows = self._rows(*given)
        offsets, *made = call(rows.columns, None)
        return [rows.spread(offsets), *(column.view(dtype) for column, dtype in zip(made, dtypes) if column is not None)]

    def _each(
        self, call: Callable[[Any, _native.Stream | None], tuple[Any, ...]], dtypes: tuple[np.dtype[Any], ...], *given: Given, stream: Any
    ) -> list[Any]:
        """Columns of these dtypes with an element for each row of queries; 0 for one that is missing."""
        if _arrays.on_device(given[0][0]):
            columns, on = self._all_on(given, stream)
            made = [memory for memory in call(columns, on) if memory is not None]
            return [Array(memory, dtype, self.device, len(columns[0])) for memory, dtype in zip(made, dtypes)]
        rows = self._rows(*given)
        return [
            rows.fill(column.view(dtype)).reshape(rows.shape)[()] for column, dtype in zip(call(rows.columns, None), dtypes)
        ]

    def _join_on(
        self,
        call: Callable[[Any, tuple[str, Any], _native.Stream | None], tuple[Any, ...]],
        dtypes: tuple[np.dtype[Any], ...],
        how: str,
        valid: ArrayLike | None,
        stream: Any,
        *given: Given,
    ) -> Any:
        """The columns of a join of a device's probes."""
        columns, on = self._all_on(given, stream)
        asked = how, _joins.bitmap(valid, len(columns[0]), self.device, on)
        return _joins.on_device(call(columns, asked, on), self.device, *dtypes)

    def _pairs_on(
        self, keys: ArrayLike, values: ArrayLike | None, dtype: np.dtype[Any] | None, stream: Any, is_new: bool = True
    ) -> tuple[Any, Any, _native.Stream | None]:
        """Keys and values, if there are any, of a change as native calls take them, and the stream of the call."""
        if _arrays.on_device(keys):
            column, on = self._on(keys, stream, "the keys")
            given = None if values is None else _arrays.to_device(values, dtype, "the values", self.device, on)._memory
            return column._memory, given, on
        raw = self._keys(keys, is_new)
        return raw, None if values is None else _arrays.flat(_arrays.host(values, dtype, "the values", True)), None


class Sorted(Keyed, Ordered):
    """An index over keys of one dtype, in ascending order."""

    __slots__ = ()

    def _has(self, key: Any) -> bool:
        keys, valid = _columns.keys_of(self.nulls, whole_number(key, self.key_dtype), self.key_dtype, "the key")
        return valid is None and bool(self.contains(keys.view(_missing.Whole)))  # type: ignore[attr-defined]

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """The keys in ascending order, as a column of Arrow."""
        keys = self.keys()
        words = _wide.words(keys)
        is_there = np.ones(keys.size, np.bool_) if self.nulls is None else words != self._bound(self.nulls).view(words.dtype)
        return _arrays.Found(keys, is_there).__arrow_c_array__()

    def _bound(self, side: str) -> npt.NDArray[Any]:
        """The lowest key of the dtype ("first"), or the highest one ("last")."""
        return self._of_word(_columns.null_word(side, self.key_dtype))

    def _of_word(self, word: int) -> npt.NDArray[Any]:
        """A key of these bits, as a query."""
        key: npt.NDArray[Any] = np.array([_arrays.of_word(word, self.key_dtype)], self.key_dtype).view(_missing.Whole)
        return key

    def _end(self, is_last: bool) -> tuple[Any, ...] | None:
        side = "last" if is_last else "first"
        word = _columns.null_word(side, self.key_dtype)
        if self.nulls == side:
            # The next key. Of floats these are negative NaNs, whose words ascend where the numbers descend.
            word += 1 if not is_last and self.key_dtype.kind != "f" else -1
        *near, found = (self.predecessor if is_last else self.successor)(self._of_word(word))  # type: ignore[attr-defined]
        if not found[0] or self.nulls is not None and near[0].tobytes() == self._bound(self.nulls).tobytes():
            return None
        return tuple(
            column[0] if _wide.note_of(column.dtype) is None and column.dtype != _wide.BYTES else objects(column)[0] for column in near
        )

    def _between(self, start: Any, stop: Any) -> tuple[Any, ...]:
        given = self._bound("first") if start is None else [start], self._bound("last") if stop is None else [stop]
        parts: tuple[Any, ...] = self.range(*given)[1:]  # type: ignore[attr-defined]
        return parts


def _names_of_outputs(outputs: tuple[Any, ...]) -> list[str]:
    """What errors call the arrays that take results."""
    return ["out"] if len(outputs) == 1 else [f"out[{i}]" for i in range(len(outputs))]


def _outputs(
    out: tuple[Any, ...], outputs: tuple[tuple[np.dtype[Any], int], ...], shape: tuple[int, ...], queries: npt.NDArray[Any]
) -> list[npt.NDArray[Any]]:
    """Arrays of the caller's that take results, none of which shares memory with the queries or with another one."""
    used = {"the queries": queries}
    for array, (dtype, _), name in zip(out, outputs, _names_of_outputs(outputs)):
        if not isinstance(array, np.ndarray) or array.dtype != dtype:
            raise TypeError(f"{name} is an output of {getattr(array, 'dtype', type(array))} where an array of {dtype} is needed")
        if array.shape != shape:
            raise ValueError(f"{name} is an output of shape {array.shape} for queries of shape {shape}")
        if not (array.flags.c_contiguous and array.flags.aligned and array.flags.writeable):
            raise ValueError(f"{name} must be contiguous, aligned and writable")
        for other, memory in used.items():
            # All are contiguous, so that their bounds tell.
            if np.may_share_memory(array, memory):
                raise ValueError(f"{name} shares memory with {other}: pass arrays that do not overlap")
        used[name] = array.reshape(-1)
    return list(used.values())[1:]
