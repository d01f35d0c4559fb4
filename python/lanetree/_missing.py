"""Elements in host memory: which are missing, and numbers and times of Python, exact in an index's dtypes.

Missing are None, ``pandas.NA``, NaT, elements that a masked array masks, and nulls of Arrow, polars and pandas. NaN is missing in a Series,
Index or extension array of pandas as pandas says, unless it is a value: a float holds it. In any other array or list it is a number. So
``series.to_numpy()`` makes numbers of NaNs, and ``numpy.ma.masked_invalid(array)`` makes them missing. Arrays on a device have no missing
elements; joins take ``valid=``.

===================================  ============================================================================================
a missing                            is
===================================  ============================================================================================
key, group or bound of a build       by ``nulls=`` an error that names the row, a row that is left out, or the first or last key
value or row number of a build       an error; with ``nulls="skip"`` the row is left out
key, group or value of a change      an error; where null is a key, a missing key is that one
query, probe, point, or its group    not found: no rows, no match, a count of 0; where null is a key, that one
query of a rank                      an error, since there is no rank for it; where null is a key, its rank
bound of a range                     an empty range: no rows, no match; where null is a key, that one
tolerance, distance, default         an error; the tolerance None is none at all, and a default may be NaN or NaT
===================================  ============================================================================================

All of this is here and in `_columns.Rows`; classes say in which role an array is.
"""

from __future__ import annotations

import datetime
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native

#: Which elements are there; None if all are.
Valid = npt.NDArray[np.bool_] | None

#: Fixed units of time, in attoseconds; months and years have no fixed length.
_UNITS = {unit: 1000**power for power, unit in enumerate(("as", "fs", "ps", "ns", "us", "ms", "s"))}
for _unit, _times, _of in (("m", 60, "s"), ("h", 60, "m"), ("D", 24, "h"), ("W", 7, "D")):
    _UNITS[_unit] = _times * _UNITS[_of]
_MONTHS = {"M": 1, "Y": 12}
#: Numbers of days and months up to which NumPy's calendar is asked.
_FAR = 2**50
#: The largest tolerance of a native call.
_MOST = 2**64 - 1
#: Times as objects; those of pandas are Python's, too.
_TIMES = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)


class Whole(np.ndarray):
    """An array that an index gave or made: nothing in it is missing, and NaT is a key like others."""


def whole(arrays: tuple[Any, ...]) -> list[Any]:
    """What an index gave, for another one: nothing in its arrays is missing."""
    return [array.view(Whole) if isinstance(array, np.ndarray) else array for array in arrays]


def is_missing(item: object) -> bool:
    """Whether one object is missing. NaN is a number."""
    if item is None or item is np.ma.masked:
        return True
    if isinstance(item, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(item))
    pandas = sys.modules.get("pandas")
    return pandas is not None and (item is pandas.NA or item is pandas.NaT)


def is_pandas(array: object) -> bool:
    """Whether an array is one of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(array, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray))


def is_arrow(array: object) -> bool:
    """Whether an array tells of itself as Arrow's arrays in host memory."""
    return hasattr(array, "__arrow_c_array__") or hasattr(array, "__arrow_c_stream__")


def split(array: Any, dtype: np.dtype[Any] | None, what: str, is_value: bool = False) -> tuple[npt.NDArray[Any], Valid]:
    """An array in host memory, without a copy where that is possible, and which elements are there. What is missing has any element.

    `dtype` is what lists and scalars become; other arrays keep theirs.
    """
    if type(array) is np.ndarray and array.dtype.kind in "iuf":
        return array, None
    if type(array) is Whole:
        return array.view(np.ndarray), None
    valid: Valid = None
    if isinstance(array, (list, tuple, range, int, float, np.generic, *_TIMES)) or is_missing(array):
        return from_python(array, dtype, what)
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmask(array)
        valid, array = None if mask is np.ma.nomask else ~np.asarray(mask), array.data
    elif is_pandas(array):
        array, valid = _of_pandas(array, what, is_value)
    elif not isinstance(array, np.ndarray):
        array, valid = _foreign(array, what)
    if array.dtype.kind == "O":
        array, there = from_python(array if valid is None else np.where(valid, array, None), dtype, what)
    elif array.dtype.kind in "mM":
        nat = np.isnat(array)
        there = ~nat if nat.any() else None
    else:
        there = None
    if valid is None or there is None:
        valid = there if valid is None else valid
    else:
        valid = valid & there
    return array, None if valid is None or valid.all() else valid


def refuse(valid: Valid, what: str, advice: str = "drop them") -> None:
    """An error that names the first missing element, if there is one."""
    if valid is not None:
        rows = np.flatnonzero(~np.atleast_1d(valid))
        raise ValueError(f"{what} have {rows.size} nulls, the first one in row {rows[0]}: {advice}")


def _of_pandas(array: Any, what: str, is_value: bool) -> tuple[npt.NDArray[Any], Valid]:
    """A Series, Index or extension array."""
    dtype = array.dtype
    if isinstance(dtype, np.dtype):
        made, can_be = np.asarray(array), dtype.kind == "O" or dtype.kind == "f" and not is_value
        return made, ~np.asarray(array.isna(), np.bool_) if can_be else None
    inner = getattr(array, "array", array)
    if hasattr(dtype, "pyarrow_dtype") and len(array) == 0:
        # It may have no chunk, which would say of what type it is.
        return np.empty(0, dtype.numpy_dtype), None
    if hasattr(dtype, "pyarrow_dtype"):
        made, valid = from_arrow(inner.__arrow_array__(), what)
    elif isinstance(getattr(dtype, "numpy_dtype", None), np.dtype) and dtype.numpy_dtype.kind in "iuf":
        # `asarray` makes floats of integers.
        made, valid = inner.to_numpy(dtype=dtype.numpy_dtype, na_value=0), None
    else:
        return _foreign(array, what)
    missing = np.asarray(array.isna(), np.bool_)
    return made, ~missing if valid is None else valid & ~missing


def _foreign(array: Any, what: str) -> tuple[npt.NDArray[Any], Valid]:
    """An array of another library in host memory."""
    if isinstance(getattr(array, "dtype", None), np.dtype) and hasattr(array, "__array__"):
        return np.asarray(array), None
    if is_arrow(array):
        return from_arrow(array, what)
    if hasattr(array, "__dlpack__"):
        return np.from_dlpack(array), None
    if hasattr(array, "__array__"):
        made = np.asarray(array)
        if made.dtype == object:
            raise TypeError(f"{what}: {type(array).__name__} converts to objects, not numbers: pass an array of one dtype")
        return made, None
    raise TypeError(f"{what}: {type(array).__module__}.{type(array).__name__} is no array that lanetree can read")


def arrow_chunks(array: Any) -> list[_native.Column]:
    """The chunks of a column of Arrow."""
    if hasattr(array, "__arrow_c_array__"):
        return [_native.arrow_import(*array.__arrow_c_array__())]
    return _native.arrow_stream(array.__arrow_c_stream__())


def arrow_validity(chunks: list[_native.Column]) -> Valid:
    """Which elements of a column are there."""
    if not any(chunk.null_count for chunk in chunks):
        return None
    masks = [chunk.validity() for chunk in chunks]
    return np.concatenate([np.ones(len(chunk), np.bool_) if mask is None else mask for chunk, mask in zip(chunks, masks)])


def from_arrow(array: Any, what: str) -> tuple[npt.NDArray[Any], Valid]:
    """A column of Arrow, without a copy if it is one chunk, and which elements are there."""
    chunks = arrow_chunks(array)
    if not chunks:
        raise TypeError(f"{what}: an Arrow stream without chunks has no elements: pass an array")
    parts = [np.asarray(chunk) for chunk in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts), arrow_validity(chunks)


def from_python(items: Any, dtype: np.dtype[Any] | None, what: str) -> tuple[npt.NDArray[Any], Valid]:
    """Objects of Python as an array, exactly, and which of them are there."""
    if is_missing(items):
        return np.zeros((), dtype or np.int64), np.zeros((), np.bool_)
    array = np.asarray(items)
    if array.size == 0:
        return (array if dtype is None else np.empty(array.shape, dtype)), None
    if array.dtype.kind not in "fmMO":
        return _numbers(array, dtype, what), None
    if array.dtype.kind == "f" and not _is_inexact(items):
        return _numbers(array, dtype, what), None
    objects = np.empty(array.shape, object)
    objects[...] = items
    there = np.array([not is_missing(item) for item in objects.flat], np.bool_).reshape(array.shape)
    present = list(objects[there])
    if there.all():
        return _exact(present, dtype, what).reshape(array.shape), None
    made = np.zeros(array.shape, dtype or np.int64)
    if present:
        exact = _exact(present, dtype, what)
        made = np.zeros(array.shape, exact.dtype)
        made[there] = exact
    return made, there


def _is_inexact(items: Any) -> bool:
    """Whether what NumPy makes floats of has other elements: integers that a float may not hold, or masked ones."""
    if isinstance(items, (list, tuple)):
        return any(_is_inexact(item) for item in items)
    return items is np.ma.masked or isinstance(items, (int, np.integer)) and abs(int(items)) > 2**53


def _exact(items: list[Any], dtype: np.dtype[Any] | None, what: str) -> npt.NDArray[Any]:
    """Objects of Python, none of which is missing, in one dimension."""
    if any(isinstance(item, _TIMES) for item in items):
        if dtype is None:
            dtype = np.result_type(*{_unit_of(item, what) for item in items})
        return np.array([ticks(item, dtype, what) for item in items], np.int64).view(dtype)
    array = np.asarray(items)
    if array.dtype.kind == "f":
        whole = [item for item in items if isinstance(item, (int, np.integer))]
        if len(whole) == len(items):
            array = np.array(items, object)
        elif any(int((dtype or array.dtype).type(item)) != item for item in whole):
            raise OverflowError(f"{what}: not all of these integers are exact as {dtype or array.dtype}")
    return _numbers(array, dtype, what)


def _numbers(array: npt.NDArray[Any], dtype: np.dtype[Any] | None, what: str) -> npt.NDArray[Any]:
    """Numbers as a dtype: each of them is in its range, or an error."""
    kind = array.dtype.kind
    if dtype is None or array.dtype == dtype:
        if kind == "O":
            if all(isinstance(item, int) for item in array.flat):
                raise OverflowError(f"{what} go from {min(array.flat)} to {max(array.flat)}, which no dtype holds: pass an array of NumPy")
            raise TypeError(f"{what} are no numbers of one dtype: pass an array of NumPy")
        return array
    if dtype.kind in "iu" and kind in "iuO":
        for item in (array.min(), array.max()) if kind != "O" else array.flat:
            if isinstance(item, bool) or not isinstance(item, (int, np.integer)):
                raise TypeError(f"{what}: {item!r} is no integer, but the dtype is {dtype}")
            info = np.iinfo(dtype)
            if not info.min <= int(item) <= info.max:
                raise OverflowError(f"{what}: {item} is outside of {dtype}, which goes from {info.min} to {info.max}")
        return array.astype(dtype)
    if dtype.kind == "f" and kind in "iuf":
        with np.errstate(over="ignore"):
            converted = array.astype(dtype)
        if kind == "f" and (np.isinf(converted) & np.isfinite(array)).any():
            raise OverflowError(f"{what}: not all of these numbers are in the range of {dtype}")
        if kind in "iu" and not all(int(a) == int(b) for a, b in zip(converted.flat, array.flat)):
            raise OverflowError(f"{what}: not all of these integers are exact as {dtype}")
        return converted
    raise TypeError(f"{what} of dtype {array.dtype} where {dtype} is needed")


def _unit_of(item: Any, what: str) -> np.dtype[Any]:
    """The dtype of a time of Python, NumPy or pandas."""
    if hasattr(item, "to_numpy"):
        item = item.to_numpy()
    if isinstance(item, (np.datetime64, np.timedelta64)):
        return item.dtype
    if isinstance(item, datetime.timedelta):
        return np.dtype("m8[us]")
    if isinstance(item, datetime.date):
        return np.dtype("M8[us]" if isinstance(item, datetime.datetime) else "M8[D]")
    raise TypeError(f"{what}: {item!r} is no time, but others are: pass an array of one dtype")


def _time(item: Any, what: str) -> tuple[str, str, int]:
    """A time as the kind of its dtype, what its number counts ("as", "M", or "generic"), and the number."""
    if getattr(item, "tzinfo", None) is not None:
        raise TypeError(f"{what}: {item!r} has a time zone, which keys have not: convert it to UTC, and remove the time zone")
    if hasattr(item, "to_numpy"):
        # pandas' are Python's, too, with finer units.
        item = item.to_numpy()
    if isinstance(item, (np.datetime64, np.timedelta64)):
        (unit, multiple), number = np.datetime_data(item.dtype), int(item.view(np.int64))
        if unit in _UNITS:
            return item.dtype.kind, "as", number * multiple * _UNITS[unit]
        return item.dtype.kind, "M" if unit in _MONTHS else unit, number * multiple * _MONTHS.get(unit, 1)
    if isinstance(item, datetime.timedelta):
        return "m", "as", item // datetime.timedelta(microseconds=1) * _UNITS["us"]
    if isinstance(item, datetime.datetime):
        return "M", "as", (item - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1) * _UNITS["us"]
    if isinstance(item, datetime.date):
        return "M", "as", (item - datetime.date(1970, 1, 1)).days * _UNITS["D"]
    raise TypeError(f"{what}: {item!r} is no time")


def _in_units(item: Any, dtype: np.dtype[Any], what: str) -> tuple[int, bool]:
    """How many units of a dtype a time is, rounded down, and whether that is exact."""
    if dtype.kind not in "mM":
        raise TypeError(f"{what}: {item!r} is a time, where {dtype} is needed")
    kind, counts, number = _time(item, what)
    unit, multiple = np.datetime_data(dtype)
    if kind == dtype.kind == "M" and (counts == "M") != (unit in _MONTHS):
        # The calendar knows how many days months have.
        days, rest = (0, 0) if counts == "M" else divmod(number, _UNITS["D"])
        if abs(number if counts == "M" else days) > _FAR:
            raise OverflowError(f"{what}: {item!r} is out of the range of {dtype}")
        if counts == "M":
            counts, number = "as", int(np.datetime64(number, "M").astype("M8[D]").view(np.int64)) * _UNITS["D"]
        else:
            month = np.datetime64(days, "D").astype("M8[M]")
            counts, number = "M", int(month.view(np.int64))
            if rest or int(month.astype("M8[D]").view(np.int64)) != days:
                return number // (multiple * _MONTHS[unit]), False
    size = _UNITS.get(unit, _MONTHS.get(unit, 1)) * multiple
    if kind != dtype.kind or counts != ("as" if unit in _UNITS else "M" if unit in _MONTHS else unit):
        raise TypeError(f"{what}: {item!r} does not convert to {dtype}: pass one of a unit that does")
    count, rest = divmod(number, size)
    return count, rest == 0


def ticks(item: Any, dtype: np.dtype[Any], what: str) -> int:
    """A time in units of a dtype, exactly, or an error."""
    count, is_exact = _in_units(item, dtype, what)
    if not is_exact:
        raise ValueError(f"{what}: {item!r} is not a whole number of units of {dtype}: round it, or use keys of a finer unit")
    if not -(2**63) < count < 2**63:
        raise OverflowError(f"{what}: {item!r} is out of the range of {dtype}")
    return count


def tolerance(limit: Any, dtype: np.dtype[Any], name: str = "tolerance") -> Any:
    """A largest distance in units of keys of a dtype: rounded down, which is exact since distances are whole; the most that calls take
    if it is larger. For floats a number."""
    if isinstance(limit, np.ndarray) and limit.ndim == 0:
        limit = limit[()]
    if is_missing(limit) or (isinstance(limit, (float, np.floating)) and limit != limit):
        raise ValueError(f"a {name} of {limit!r} is missing: pass a number or a time that is not")
    count: Any
    is_time = isinstance(limit, (np.timedelta64, datetime.timedelta))
    if is_time and dtype.kind in "mM" and _unit_of(limit, name) != np.dtype("m8"):
        count = _in_units(limit, np.dtype(f"m8{dtype.str[3:]}"), f"the {name}")[0]
    elif isinstance(limit, np.timedelta64) and dtype.kind in "mM":
        count = int(limit.view(np.int64))
    elif not is_time and isinstance(limit, (int, np.integer)):
        count = int(limit)
    elif dtype.kind == "f" and isinstance(limit, (float, np.floating)):
        count = limit
    else:
        needed = {"f": "a number", "m": "an integer or a timedelta64", "M": "an integer or a timedelta64"}.get(dtype.kind, "an integer")
        raise TypeError(f"a {name} of {limit!r} for keys of {dtype}: pass {needed}")
    if count < 0:
        raise ValueError(f"a {name} of {limit} is below 0")
    return count if dtype.kind == "f" else min(count, _MOST)
