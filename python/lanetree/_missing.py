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
import decimal
import functools
import ipaddress
import re
import sys
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _native, _wide

if TYPE_CHECKING:
    from . import _keys

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
#: Other objects that are keys of some index.
_OBJECTS = (datetime.time, ipaddress.IPv4Address, ipaddress.IPv6Address, uuid.UUID, decimal.Decimal)


#: The dtypes of indexes in which narrower elements are, by kind and bytes.
_WIDE = {("b", 1): "u4", ("u", 1): "u4", ("u", 2): "u4", ("i", 1): "i4", ("i", 2): "i4", ("f", 2): "f4"}


def zone_of(dtype: np.dtype[Any]) -> str | None:
    """The time zone in which instants are shown; None for times without one. They are in UTC, and dtypes are equal whatever the zone."""
    return _wide.note_of(dtype) if dtype.kind == "M" else None


def zoned(dtype: np.dtype[Any], zone: str | None) -> np.dtype[Any]:
    """The dtype of instants in a time zone, or of times without one."""
    return _wide.noted(dtype, zone)


def zone_named(zone: Any) -> str:
    """The name of a time zone of Python or pandas, as Arrow has it: of a fixed offset that alone."""
    return re.sub(r"^UTC(?=[+-])", "", str(zone))


def check_zones(given: np.dtype[Any], dtype: np.dtype[Any], what: str) -> None:
    """An error if some of two are instants, and the others times without a time zone."""
    zone, needed = zone_of(given), zone_of(dtype)
    if zone is None and needed is not None:
        raise TypeError(
            f"{what} are times without a time zone, but the index has instants of {needed}: give them theirs by"
            f" Series.dt.tz_localize({needed!r}) (polars: dt.replace_time_zone; pyarrow: assume_timezone; datetime: tzinfo=)"
        )
    if zone is not None and needed is None:
        raise TypeError(
            f"{what} have a time zone, {zone}, but the index has times without one: convert them to that of the index, and remove it by"
            " Series.dt.tz_localize(None) (polars: dt.replace_time_zone(None); pyarrow: local_timestamp; datetime: tzinfo=None)"
        )


def in_zone(times: npt.NDArray[Any]) -> Any:
    """Instants as objects with a time zone: Timestamps of pandas where it is imported, else datetimes, and where these do not hold
    nanoseconds, NumPy's times in UTC."""
    zone, pandas = zone_of(times.dtype), sys.modules.get("pandas")
    if zone is not None and pandas is not None:
        return pandas.DatetimeIndex(times).tz_localize("UTC").tz_convert(zone)
    if zone is not None and np.datetime_data(times.dtype)[0] in ("s", "ms", "us"):
        from zoneinfo import ZoneInfo

        utc, to = datetime.timezone.utc, datetime.datetime.strptime(zone, "%z").tzinfo if zone[0] in "+-" else ZoneInfo(zone)
        return [time and time.replace(tzinfo=utc).astimezone(to) for time in times.tolist()]
    return list(times)


def widened(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Elements that indexes do not have, in a dtype that holds all of these: bytes and 16 bits in 32, booleans as 0 and 1."""
    dtype = array.dtype
    wide = _WIDE.get((dtype.kind, dtype.itemsize))
    return array.astype(wide) if wide is not None else array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def cast(array: npt.NDArray[Any], valid: Valid, dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """Elements in a dtype that holds all numbers of theirs, or times in another unit, exactly; an error if it does not."""
    given = array.dtype
    if given.kind in "mM" and given.kind == dtype.kind and "generic" not in (np.datetime_data(given)[0], np.datetime_data(dtype)[0]):
        return _in_other_units(array, valid, dtype, what)
    # NumPy calls int64 to float64 safe, which it is not for large numbers.
    is_safe = given.kind in "biuf" and dtype.kind in "iuf" and np.can_cast(given, dtype, "safe")
    if not is_safe or given.itemsize == 8 and given.kind != dtype.kind == "f":
        # The dtypes of pandas for integers that may be missing.
        to = dtype.name if valid is None or dtype.kind not in "iu" else dtype.name.replace("i", "I").replace("u", "U")
        raise TypeError(
            f"{what} have dtype {given}, but {dtype} is needed, and {given} to {dtype} is not a safe cast: if they fit, convert them by"
            f" astype({to!r})"
        )
    return array.astype(dtype)


def _in_other_units(array: npt.NDArray[Any], valid: Valid, dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    try:
        made = array.astype(dtype)
        # What is rounded, or out of range and so wrapped around, does not come back.
        is_wrong = (made.astype(array.dtype) != array) & ~np.isnat(array)
    except TypeError as error:
        raise TypeError(f"{what} have dtype {array.dtype}, which does not convert to {dtype}: {error}") from error
    if valid is not None:
        is_wrong &= valid
    if is_wrong.any():
        row = int(np.flatnonzero(is_wrong)[0])
        ticks(array.reshape(-1)[row], dtype, f"{what}, row {row}")
        raise OverflowError(f"{what}, row {row}: {array.reshape(-1)[row]} is out of the range of {dtype}")
    return made


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
    if isinstance(array, (list, tuple, range, int, float, str, bytes, np.generic, *_TIMES, *_OBJECTS)) or is_missing(array):
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
    if hasattr(dtype, "pyarrow_dtype"):
        made, valid = _of_pyarrow(sys.modules["pyarrow"].chunked_array(inner.__arrow_array__()), what)
    elif isinstance(getattr(dtype, "numpy_dtype", None), np.dtype) and dtype.numpy_dtype.kind in "iufb":
        # `asarray` makes floats of integers.
        made, valid = inner.to_numpy(dtype=dtype.numpy_dtype, na_value=0), None
    else:
        from ._frame_pandas import PandasFrame

        return _of_key(PandasFrame(None, "").key_of(sys.modules["pandas"].Series(array), what), what, dtype)
    missing = np.asarray(array.isna(), np.bool_)
    return made, ~missing if valid is None else valid & ~missing


@functools.lru_cache(maxsize=256)
def _is_taken_in_place(dtype: Any) -> bool:
    """Whether the elements of a type of pyarrow are those of an index."""
    taken = r"u?int(32|64)|float|double|timestamp\[\w+\]|duration\[\w+\]|fixed_size_binary\[16\]|decimal128\(.+\)|extension<arrow.uuid>"
    return re.fullmatch(taken, str(dtype)) is not None


def _of_pyarrow(column: Any, what: str) -> tuple[npt.NDArray[Any], Valid]:
    """An array or chunked array of pyarrow: in place if an index has its type and it has a chunk, which says of what type it is."""
    dtype = column.type
    if _is_taken_in_place(dtype):
        if hasattr(column, "num_chunks") and not column.num_chunks:
            column = sys.modules["pyarrow"].array([], dtype)
        return from_arrow(column, what, "uuid" if str(dtype) == "extension<arrow.uuid>" else None)
    from ._frame_arrow import ArrowFrame

    return _of_key(ArrowFrame.key_of_arrow(column, f"{what} ({dtype})"), what, dtype)


def _of_polars(column: Any, what: str) -> tuple[npt.NDArray[Any], Valid]:
    """A Series of polars: in place if an index has its type."""
    polars, dtype = sys.modules["polars"], column.dtype
    is_native = dtype in (polars.Int32, polars.Int64, polars.UInt32, polars.UInt64, polars.Float32, polars.Float64, polars.Duration)
    if dtype == polars.Decimal and not len(column):
        return np.zeros(0, _wide.decimal_dtype(dtype.precision or 38, dtype.scale)), None
    if len(column) and (is_native or dtype == polars.Decimal or dtype == polars.Datetime and dtype.time_zone is None):
        return from_arrow(column, what)
    from ._frame_polars import PolarsFrame

    return _of_key(PolarsFrame(None, "").key_of(column, what), what, dtype)


def _of_key(key: _keys.Key, what: str, dtype: Any) -> tuple[npt.NDArray[Any], Valid]:
    """A column of a type that an index has not, as numbers and times of NumPy."""
    words = key.words
    if key.kind in ("null", "Null"):
        return np.zeros(key.size, np.bool_), np.zeros(key.size, np.bool_)
    if words is None:
        advice = "use a StringIndex" if key.kind in ("text", "bytes") else "convert them to numbers, times or strings"
        names = {"text": "strings", "bytes": "byte strings"}
        kind = f"{names[key.kind]} ({dtype})" if key.kind in names else str(dtype)
        raise TypeError(f"{what} are {kind}, which are no keys of this index: {advice}")
    if key.unit is not None:
        zone = _zone_name(dtype) if key.kind == "aware" else None
        of = zoned(np.dtype(f"{'M8' if key.kind in ('naive', 'aware') else 'm8'}[{key.unit}]"), zone)
        return np.asarray(words, np.int64).view(of), key.valid
    # What is missing is 0 there, and a NaN is a number, but in pandas.
    valid = key.valid if key.valid is None or key.kind != "float" else key.valid | np.isnan(words)
    return words.view(np.bool_) if key.kind == "bool" else words, valid


def _zone_name(dtype: Any) -> str:
    """The time zone of a type of pandas, polars or pyarrow, or of the elements of its dictionary."""
    for inner in ("pyarrow_dtype", "value_type", "categories"):
        dtype = getattr(dtype, inner, dtype)
    dtype = getattr(dtype, "dtype", dtype)
    return zone_named(dtype.time_zone if hasattr(dtype, "time_zone") else dtype.tz)


def _foreign(array: Any, what: str) -> tuple[npt.NDArray[Any], Valid]:
    """An array of another library in host memory."""
    pyarrow, polars = sys.modules.get("pyarrow"), sys.modules.get("polars")
    if pyarrow is not None and isinstance(array, (pyarrow.Array, pyarrow.ChunkedArray)):
        return _of_pyarrow(array, what)
    if polars is not None and isinstance(array, polars.Series):
        return _of_polars(array, what)
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


def storage(column: Any) -> Any:
    """A column of pyarrow, of an extension's type as that of its elements in memory."""
    is_extension = isinstance(column.type, sys.modules["pyarrow"].BaseExtensionType)
    return column.cast(column.type.storage_type) if is_extension else column


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


def from_arrow(array: Any, what: str, note: str | None = None) -> tuple[npt.NDArray[Any], Valid]:
    """A column of Arrow, without a copy if it is one chunk, and which elements are there. Of 16 bytes `note` is what they are, unless their
    type says so."""
    chunks = arrow_chunks(array)
    if not chunks:
        raise TypeError(f"{what}: an Arrow stream without chunks has no elements: pass an array")
    parts = [np.asarray(chunk) for chunk in chunks]
    made = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return made if made.dtype != _wide.BYTES else _wide.of_arrow(made, note or chunks[0].kind), arrow_validity(chunks)


def from_python(items: Any, dtype: np.dtype[Any] | None, what: str) -> tuple[npt.NDArray[Any], Valid]:
    """Objects of Python as an array, exactly, and which of them are there."""
    if is_missing(items):
        return np.zeros((), dtype or np.int64), np.zeros((), np.bool_)
    array = np.asarray(items)
    if array.size == 0:
        return (array if dtype is None else np.empty(array.shape, dtype)), None
    is_wide = dtype is not None and dtype == _wide.BYTES
    if array.dtype == _wide.BYTES and not is_wide:
        return array, None
    is_parsed = is_wide or array.dtype.kind == "U" and dtype is not None and dtype.kind == "M"
    if array.dtype.kind not in "fmMO" and not is_parsed:
        return _numbers(array, dtype, what), None
    if array.dtype.kind == "f" and not is_wide and not _is_inexact(items):
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


def _parsed(text: str, what: str) -> Any:
    """A time in ISO 8601, without a time zone or with an offset."""
    try:
        if re.search(r"T.*(Z|[+-][\d:]+)$", text.replace(" ", "T")):
            return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        # Which has more digits than a datetime.
        return np.datetime64(text)
    except ValueError as error:
        raise ValueError(f"{what}: {text!r} is no time in ISO 8601: {error}") from error


def _since_midnight(time: datetime.time, what: str) -> datetime.timedelta:
    if time.tzinfo is not None:
        raise TypeError(f"{what}: {time!r} has a time zone, which times of the day have not here: remove it")
    return datetime.timedelta(hours=time.hour, minutes=time.minute, seconds=time.second, microseconds=time.microsecond)


def _is_inexact(items: Any) -> bool:
    """Whether what NumPy makes floats of has other elements: integers that a float may not hold, or masked ones."""
    if isinstance(items, (list, tuple)):
        return any(_is_inexact(item) for item in items)
    return items is np.ma.masked or isinstance(items, (int, np.integer)) and abs(int(items)) > 2**53


def _exact(items: list[Any], dtype: np.dtype[Any] | None, what: str) -> npt.NDArray[Any]:
    """Objects of Python, none of which is missing, in one dimension."""
    wide = _wide.dtype_of(items) if dtype is None else dtype if dtype == _wide.BYTES else None
    if wide is not None:
        return _wide.of_objects(items, wide, what)
    if dtype is not None and dtype.kind == "M" and any(isinstance(item, str) for item in items):
        items = [_parsed(item, what) if isinstance(item, str) else item for item in items]
    if any(isinstance(item, datetime.time) for item in items):
        items = [_since_midnight(item, what) if isinstance(item, datetime.time) else item for item in items]
    if any(isinstance(item, ipaddress.IPv4Address) for item in items):
        items, dtype = [int(item) if isinstance(item, ipaddress.IPv4Address) else item for item in items], dtype or np.dtype(np.uint32)
    large = next((item for item in items if isinstance(item, (uuid.UUID, ipaddress.IPv6Address))), None)
    if large is not None:
        raise TypeError(f"{what}: {large!r} has 16 bytes, where {dtype} is needed: convert it")
    if any(isinstance(item, _TIMES) for item in items):
        if dtype is None:
            zones = sorted({zone_named(getattr(item, "tzinfo", None)) for item in items})
            if len(zones) > 1 and "None" in zones:
                raise TypeError(f"{what} are instants, of {zones[0 if zones[0] != 'None' else 1]}, and times without a time zone: give all of them one, or none")
            zone = None if zones[0] == "None" else zones[0] if len(zones) == 1 else "UTC"
            dtype = zoned(np.result_type(*{_unit_of(item, what) for item in items}), zone)
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
            raise TypeError(
                f"{what} are no numbers of one dtype, as {next(array.flat)!r} is among them: convert them to an array of NumPy, or pass"
                " strings to a StringIndex"
            )
        return array
    if kind == "b":
        return array.astype(dtype)
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
    found = "are strings" if kind in "SU" else f"have dtype {array.dtype}"
    raise TypeError(f"{what} {found}, as {array.flat[0]!r}, but {dtype} is needed: convert them")


def _unit_of(item: Any, what: str) -> np.dtype[Any]:
    """The dtype of a time of Python, NumPy or pandas."""
    if hasattr(item, "to_numpy"):
        item = (item.tz_convert(None) if getattr(item, "tzinfo", None) is not None else item).to_numpy()
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
        item = item.tz_convert(None) if hasattr(item, "tz_convert") else item.astimezone(datetime.timezone.utc).replace(tzinfo=None)
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
    if dtype.kind == "M" and not isinstance(item, (np.timedelta64, datetime.timedelta)):
        zone = getattr(item, "tzinfo", None)
        check_zones(zoned(dtype, None if zone is None else str(zone)), dtype, what)
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
    if dtype == _wide.BYTES:
        limit = _wide.distance(limit, dtype, name)
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
