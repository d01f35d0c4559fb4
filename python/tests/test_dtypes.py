"""Columns as they are: each dtype, from each library, in each class, as keys, queries and values. Run as a program, this writes the guide's
table of them."""

from __future__ import annotations

import datetime
import decimal
import ipaddress
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import lanetree

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "python.md"
BEGIN, END = "<!-- dtypes: written by python/tests/test_dtypes.py -->\n", "<!-- end of dtypes -->\n"

DAY, ZONE = datetime.datetime(2024, 3, 30), "Europe/Berlin"
NUMBERS, HALVES = [3, 1, 100, 0, 7], [1.5, -0.5, 100.0, 0.25, 7.0]
DAYS = [(DAY + datetime.timedelta(days=n)).date() for n in NUMBERS]
TIMES = [DAY + datetime.timedelta(seconds=n) for n in NUMBERS]
# Over the end of winter time, of one zone.
INSTANTS = [(DAY + datetime.timedelta(hours=10 * n)).replace(tzinfo=datetime.timezone.utc) for n in NUMBERS]
WORDS = ["b", "", "ä", "aa", "Z"]
BYTES = [bytes([n] * 16) for n in NUMBERS]
CLASSES = ("Index", "Set", "MultiIndex", "IntervalIndex", "GroupedIndex", "StringIndex")

#: What a type is called, its elements, and how they are a column: the dtypes of NumPy, pandas, polars and pyarrow; None where one has none.
TYPES: dict[str, tuple[list[Any], Any, Any, Any, Any]] = {
    "bool": ([True, False], "bool", "boolean", polars.Boolean, pyarrow.bool_()),
    **{
        f"{sign}int{bits}": (NUMBERS, f"{sign}int{bits}", f"{sign.upper()}Int{bits}", getattr(polars, f"{sign.upper()}Int{bits}"), getattr(pyarrow, f"{sign}int{bits}")())
        for bits in (8, 16, 32, 64)
        for sign in ("", "u")
    },
    "float16": (HALVES, "float16", None, None, pyarrow.float16()),
    "float32": (HALVES, "float32", "Float32", polars.Float32, pyarrow.float32()),
    "float64": (HALVES, "float64", "Float64", polars.Float64, pyarrow.float64()),
    "decimal": ([decimal.Decimal(n) for n in NUMBERS], "object", "object", polars.Decimal(10, 2), pyarrow.decimal128(10, 2)),
    "date": (DAYS, "datetime64[D]", None, polars.Date, pyarrow.date32()),
    "date64": (DAYS, None, None, None, pyarrow.date64()),
    "time": ([time.time() for time in TIMES], None, None, polars.Time, pyarrow.time64("us")),
    "time32": ([time.time() for time in TIMES], None, None, None, pyarrow.time32("s")),
    **{f"timestamp, {unit}": (TIMES, f"datetime64[{unit}]", f"datetime64[{unit}]", None if unit == "s" else polars.Datetime(unit), pyarrow.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "timestamp with a time zone": (INSTANTS, None, f"datetime64[us, {ZONE}]", polars.Datetime("us", ZONE), pyarrow.timestamp("us", ZONE)),
    "duration": ([time - DAY for time in TIMES], "timedelta64[us]", "timedelta64[us]", polars.Duration("us"), pyarrow.duration("us")),
    "dictionary of numbers": ([n for n in NUMBERS], None, pandas.CategoricalDtype(pandas.Index(NUMBERS)), None, pyarrow.dictionary(pyarrow.int32(), pyarrow.int64())),
    "string": (WORDS, "U", "str", polars.String, pyarrow.string()),
    "large_string": (WORDS, None, None, None, pyarrow.large_string()),
    "string_view": (WORDS, None, None, None, pyarrow.string_view()),
    "dictionary of strings": (WORDS, None, "category", polars.Categorical, pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
    "enum": (WORDS, None, None, polars.Enum(WORDS), None),
    "binary": (BYTES, "S", None, polars.Binary, pyarrow.binary()),
    "fixed_size_binary of 16 bytes": (BYTES, "V16", None, None, pyarrow.binary(16)),
    "fixed_size_binary of other sizes": ([item[:5] for item in BYTES], None, None, None, pyarrow.binary(5)),
    "UUID": ([uuid.UUID(bytes=item) for item in BYTES], "object", "object", None, pyarrow.uuid()),
    "IPv4 address": ([ipaddress.IPv4Address(n) for n in NUMBERS], "object", "object", None, None),
    "IPv6 address": ([ipaddress.IPv6Address(item) for item in BYTES], "object", "object", None, None),
    "list": ([[n] for n in NUMBERS], None, None, polars.List(polars.Int64), pyarrow.list_(pyarrow.int64())),
}


def of_numpy(items: list[Any], dtype: str) -> Any:
    missing = [item is None for item in items]
    present = next(item for item in items if item is not None)
    return np.ma.array(np.array([present if item is None else item for item in items], dtype), mask=missing)


def of_pyarrow(items: list[Any], dtype: Any) -> Any:
    if isinstance(dtype, pyarrow.BaseExtensionType):
        return pyarrow.ExtensionArray.from_storage(dtype, of_pyarrow([item and item.bytes for item in items], dtype.storage_type))
    if pyarrow.types.is_dictionary(dtype):
        return pyarrow.array(items, dtype.value_type).dictionary_encode().cast(dtype)
    return pyarrow.array([None if item is None else np.float16(item) for item in items] if dtype == pyarrow.float16() else items, dtype)


def of_pandas(items: list[Any], dtype: Any) -> Any:
    return pandas.Series(pandas.Series(items).astype(dtype) if dtype == "category" else pandas.array(items, dtype=dtype))


#: The libraries, and how each makes a column of elements and one of its dtypes.
SOURCES: dict[str, Callable[[list[Any], Any], Any]] = {
    "list": lambda items, _: items,
    "NumPy": of_numpy,
    "pandas": of_pandas,
    "pandas of Arrow": lambda items, dtype: pandas.Series(pandas.arrays.ArrowExtensionArray(pyarrow.chunked_array([of_pyarrow(items, dtype)]))),
    "polars": lambda items, dtype: polars.Series(items, dtype=dtype),
    "pyarrow": of_pyarrow,
    "pyarrow, chunks": lambda items, dtype: pyarrow.chunked_array([of_pyarrow(items[:2], dtype), of_pyarrow(items[2:], dtype)]),
}
#: Where a source's dtype is among a type's.
AT = {"NumPy": 1, "pandas": 2, "pandas of Arrow": 4, "polars": 3, "pyarrow": 4, "pyarrow, chunks": 4}


def column(name: str, source: str, items: list[Any]) -> Any:
    """A column, or None if the library has not the type."""
    dtype = TYPES[name][AT[source]] if source in AT else True
    if dtype is None or source == "pandas of Arrow" and name in ("UUID",):
        return None
    return SOURCES[source](items, dtype)


def sources(name: str) -> list[str]:
    return [source for source in SOURCES if column(name, source, TYPES[name][0]) is not None]


def build(kind: str, keys: Any, **options: Any) -> Any:
    """An index of a class over a column of keys, with their row numbers."""
    made = getattr(lanetree, kind)
    if kind == "IntervalIndex":
        return made(keys, keys, device="cpu", **options)
    if kind != "GroupedIndex":
        return made(keys, device="cpu", **options)
    try:
        return made(keys, keys, device="cpu", **options)
    except TypeError as error:
        if "groups (by) of dtype float" not in str(error):
            raise
        # Floats are keys, but no groups.
        return made(np.zeros(len(keys), np.uint64), keys, device="cpu", **options)


def rows_of(index: Any, queries: Any) -> list[Any]:
    """The row of each query, or None."""
    if isinstance(index, lanetree.Set):
        return [True if found else None for found in index.contains(queries)]
    calls = {lanetree.MultiIndex: "first", lanetree.IntervalIndex: "most_specific", lanetree.GroupedIndex: "get"}
    by = {}
    if isinstance(index, lanetree.GroupedIndex):
        by = {"by": np.zeros(len(queries), np.uint64) if index.key_dtype.kind == "f" else queries}
    values, found = getattr(index, calls.get(type(index), "get"))(queries, **by)
    return [int(value) if has else None for value, has in zip(values, found)]


#: Which classes have a type, by the dtype of their keys; the others have an error that says what to write.
def classes_of(name: str) -> dict[str, str]:
    found = {}
    for kind in CLASSES:
        made: dict[str, str] = {}
        for source in sources(name):
            items = TYPES[name][0]
            try:
                index = build(kind, column(name, source, items))
                made[source] = ("bytes" if isinstance(index.max(), bytes) else "str") if kind == "StringIndex" else index.dtype.str.strip("|<") if index.dtype.kind == "V" else str(index.dtype)
            except (TypeError, ValueError) as error:
                assert any(word in str(error) for word in ("convert", "StringIndex", "all are str", "no sequence", "2 dimensions")), (name, kind, source, error)
        if made:
            # Of objects in lists it is what they have room in.
            of_columns = {dtype for source, dtype in made.items() if source != "list"}
            found[kind] = " or ".join(sorted(of_columns or set(made.values())))
    return found


HAS = {name: classes_of(name) for name in TYPES}


@pytest.mark.parametrize("name", TYPES)
def test_columns_of_all_libraries_find_each_other(name: str) -> None:
    items = TYPES[name][0]
    assert HAS[name] or name == "list"
    keys, queries = [None, *items[1:], None], [items[0], items[-1], None, items[1], items[-1]]
    expected = [keys.index(item) if item is not None and item in keys else None for item in queries]
    for kind in HAS[name]:
        for source in sources(name):
            given = column(name, source, keys)
            try:
                with pytest.raises((ValueError, TypeError), match="nulls, the first one in row 0|not supported|no numbers|no sequence"):
                    build(kind, given)
                index = build(kind, given, nulls="skip")
            except TypeError:
                # A list of numbers in a class of strings, say; the table says so.
                assert source in ("list", "NumPy") and name in ("IPv4 address", "fixed_size_binary of 16 bytes")
                continue
            assert len(index) == len(items) - 1
            wanted = [None if row is None else True for row in expected] if kind == "Set" else expected
            for other in sources(name):
                if name == "uint64" and "list" in (source, other) and source != other:
                    # Lists of integers are int64.
                    continue
                assert rows_of(index, column(name, other, queries)) == wanted, (kind, source, other)
            # Nothing, and nothing but nulls, of any type.
            assert rows_of(index, column(name, source, items)[:0]) == []
            assert rows_of(index, [None, None]) == [None, None]
            if kind in ("Index", "StringIndex"):
                assert [index.values()[at] for at in range(len(index))] == sorted(range(1, len(items)), key=lambda row: in_order(items[row]))
                for item, row in zip(queries, expected):
                    assert (item in index) == (row is not None) and (row is None or index[item] == row)


def in_order(item: Any) -> Any:
    return item.encode() if isinstance(item, str) else item


@pytest.mark.parametrize("name", TYPES)
def test_columns_of_all_libraries_are_values(name: str) -> None:
    items = TYPES[name][0]
    for source in sources(name):
        given = column(name, source, items)
        if HAS[name].get("Index", "V16") == "V16":
            with pytest.raises((TypeError, ValueError)):
                lanetree.Index(range(len(items)), given, "cpu")
            continue
        index, keys = lanetree.Index(np.arange(len(items)), given, "cpu"), lanetree.Index(given, device="cpu")
        assert index.value_dtype == keys.key_dtype and lanetree.Set(index.values(), "cpu") == lanetree.Set(keys.keys(), "cpu")
        got, series = pyarrow.array(index.get([0, 9, 1])), pandas.Series(index.get([0, 9, 1]))
        assert got.null_count == 1 and series.isna().tolist() == [False, True, False] and len(polars.Series(index.get([0, 9, 1]))) == 3
        # Times of the day are durations since midnight, and addresses numbers.
        if name not in ("date64", "time", "time32", "IPv4 address"):
            assert got.to_pylist() == [items[0], None, items[1]] and (name == "date" or series.dropna().tolist() == items[:2])


@pytest.mark.parametrize("name", TYPES)
def test_libraries_agree(name: str) -> None:
    """What is found is what the libraries find themselves."""
    items = TYPES[name][0]
    keys, queries = [*items[1:], None], [items[0], items[-1], None, items[1]]
    for kind in ("Index", "StringIndex"):
        if kind not in HAS[name]:
            continue
        for source in sources(name):
            given, asked = column(name, source, keys), column(name, source, queries)
            try:
                found = build(kind, given, nulls="skip").contains(asked).tolist()
            except TypeError:
                continue
            if name in ("string_view", "UUID", "float16", "dictionary of strings") and source not in ("pandas", "polars"):
                # pyarrow compares none of these.
                continue
            if source.startswith("pandas"):
                theirs = (asked.isin(given.dropna()) & asked.notna()).tolist()
            elif source == "polars":
                theirs = asked.is_in(given.drop_nulls().implode()).fill_null(False).to_list()
            elif source.startswith("pyarrow") and "dictionary" not in name:
                import pyarrow.compute

                theirs = pyarrow.compute.is_in(asked, value_set=given.drop_null()).to_pylist()
            elif source == "NumPy" and asked.dtype.kind not in "OV":
                theirs = (np.isin(asked.data, given.compressed()) & ~np.ma.getmaskarray(asked)).tolist()
            else:
                continue
            assert found == theirs, (kind, source)


def test_casts_are_exact_or_refused() -> None:
    """Each pair of numeric dtypes, as NumPy's rules for safe casts and the number of digits have it."""
    numbers = ["bool", *(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")), "float16", "float32", "float64"]
    for needed in ("int32", "int64", "uint32", "uint64", "float32", "float64"):
        index = lanetree.Index(np.array([0, 1]).astype(needed), device="cpu")
        for given in numbers:
            ends = np.array([0, 1]).astype(given)
            most = np.array([np.iinfo(given).max if "int" in given else 1], given)
            is_exact = given == needed or np.can_cast(given, needed) and int(most.astype(needed)[0]) == int(most[0])
            if is_exact:
                assert index.get(ends).found.all(), (given, needed)
                assert index.insert(ends, [5, 6]).replaced == 2 and index.count_range(ends[:1], ends[1:]).tolist() == [2]
            else:
                with pytest.raises(TypeError, match=f"the queries have dtype {given}, but {needed} is needed, and {given} to {needed} is not a safe cast"):
                    index.get(ends)
                with pytest.raises(TypeError, match="the keys have dtype"):
                    index.insert(ends, [5, 6])


@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_units_are_exact_or_refused_by_value(kind: str) -> None:
    units = ["D", "h", "m", "s", "ms", "us", "ns"]
    days = np.array([0, 2, 365])
    for needed in units:
        index = lanetree.Index(days.astype("m8[D]").astype(f"m8[{needed}]").view(np.int64).view(f"{kind}[{needed}]"), device="cpu")
        for given in units:
            same = days.astype("m8[D]").astype(f"m8[{given}]").view(np.int64).view(f"{kind}[{given}]")
            assert index.get(np.append(same, np.array("NaT", same.dtype))).found.tolist() == [True] * 3 + [False]
            odd = same + np.array(1, f"m8[{given}]")
            if np.can_cast(same.dtype, index.dtype):
                assert not index.get(odd).found.any()
            else:
                with pytest.raises(ValueError, match="the queries, row 0: .* is not a whole number of units"):
                    index.get(odd)
    far = np.array([1, 2**40]).view(f"{kind}[s]")
    nanos = lanetree.Index(np.array([10**9]).view(f"{kind}[ns]"), device="cpu")
    with pytest.raises(OverflowError, match="the queries, row 1: .* is out of the range of"):
        nanos.get(far)
    assert nanos.get(np.ma.array(far, mask=[False, True])).found.tolist() == [True, False]
    with pytest.raises(TypeError, match="but .*64.ns. is needed"):
        nanos.get(far.view("m8[s]" if kind == "M8" else "M8[s]"))


def test_time_zones(tmp_path: Path) -> None:
    series = pandas.Series(pandas.DatetimeIndex(INSTANTS).tz_convert(ZONE))
    index = lanetree.Index(series, series, "cpu")
    assert index.time_zone == ZONE and index.min() == min(INSTANTS) and list(index) == sorted(series) and index.min() in index
    for same in (series, series.dt.tz_convert("Asia/Tokyo"), polars.Series(INSTANTS), pyarrow.array(INSTANTS), INSTANTS, [str(item) for item in INSTANTS]):
        assert index.get(same).found.all()
        assert np.array_equal(index.get(same).values, index.get(series).values)
    assert index[INSTANTS[1] : INSTANTS[0]].size == 2 and index[INSTANTS[1] :].time_zone == ZONE
    pandas.testing.assert_series_equal(index.map(series), series)
    assert pandas.Series(index.get(series)).dt.tz.key == ZONE
    assert pyarrow.array(index.get(series)).type == pyarrow.timestamp("us", ZONE)
    assert polars.Series(index.get(series)).to_list() == series.tolist() and index.map(polars.Series(INSTANTS)).dtype == polars.Datetime("us", ZONE)
    groups, multi = lanetree.GroupedIndex(np.zeros(5, np.int32), series, device="cpu"), lanetree.MultiIndex(series, series, "cpu")
    for made in (index, lanetree.Set(series, "cpu"), multi, groups, lanetree.IntervalIndex(series, series, device="cpu")):
        made.save(tmp_path / "index")
        for again in (made.copy(), lanetree.load(tmp_path / "index", "cpu")):
            assert again == made and again.time_zone == ZONE
        naive = series.dt.tz_localize(None)
        query: Callable[[Any], Any] = (lambda at: groups.asof(at, by=np.zeros(5, np.int32))) if made is groups else getattr(made, "contains", getattr(made, "count", None))
        for wrong in (naive, naive.to_numpy(), polars.Series(naive), pyarrow.array(naive), naive.tolist()):
            with pytest.raises(TypeError, match=r"times without a time zone, but the index has instants of Europe/Berlin: give them theirs by Series.dt.tz_localize"):
                query(wrong)
    times = lanetree.Set(naive, "cpu")
    for wrong in (series, polars.Series(INSTANTS), INSTANTS, INSTANTS[0]):
        with pytest.raises(TypeError, match="have a time zone, .*, but the index has times without one: .* remove it by"):
            times.contains(wrong)
    with pytest.raises(TypeError, match="the keys of the other index have a time zone"):
        times | lanetree.Set(series, "cpu")
    with pytest.raises(TypeError, match="are instants, of UTC, and times without a time zone"):
        lanetree.Set([INSTANTS[0], DAY], "cpu")
    assert times != lanetree.Set(series, "cpu") and INSTANTS[0] not in times


def test_zones_that_are_fixed_offsets() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=-2, minutes=-30))
    times = [item.astimezone(zone) for item in INSTANTS]
    for given in (times, pandas.Series(times), pyarrow.array(times)):
        index = lanetree.Index(given, given, device="cpu")
        assert index.time_zone == "-02:30" and list(index) == sorted(times) and str(index.min()).endswith("-02:30")
        assert pandas.Series(index.get(times)).tolist() == times and pyarrow.array(index.get(times)).type.tz == "-02:30"
    code = """
        import datetime, sys, lanetree
        zone = datetime.timezone(datetime.timedelta(hours=2))
        time = datetime.datetime(2024, 1, 1, tzinfo=zone)
        index = lanetree.Set([time], "cpu")
        assert list(index) == [time] and index.min().utcoffset() == time.utcoffset() and time in index and "pandas" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_times_in_iso_8601() -> None:
    index = lanetree.Index(np.array(["2024-03-30", "2024-03-31T10:00"], "M8[ns]"), device="cpu")
    assert index["2024-03-30"] == 0 and index.contains(["2024-03-31 10:00:00.000000001", "2024-03-31T10:00"]).tolist() == [False, True]
    assert index["2024-03-30":"2024-03-31"].size == 1 and "yesterday" not in index  # type: ignore[misc]
    with pytest.raises(ValueError, match="the queries: 'yesterday' is no time in ISO 8601"):
        index.get("yesterday")
    with pytest.raises(TypeError, match="has a time zone|have a time zone"):
        index.get("2024-03-30T00:00:00+01:00")


def test_chunkless_and_empty_columns() -> None:
    for dtype, key in ((pyarrow.int16(), "int32"), (pyarrow.timestamp("s"), "M8[s]"), (pyarrow.date32(), "M8[D]"), (pyarrow.float64(), "float64"), (pyarrow.uuid(), "V16"), (pyarrow.binary(16), "V16"), (pyarrow.decimal128(5, 2), "V16")):
        for empty in (pyarrow.chunked_array([], dtype), pandas.Series(pandas.arrays.ArrowExtensionArray(pyarrow.chunked_array([], dtype)))):
            index = lanetree.Index(empty, device="cpu")
            assert len(index) == 0 and index.dtype == np.dtype(key) and index.get(empty).values.size == 0
    index = lanetree.Index([5], device="cpu")
    for empty in ([], np.array([]), pandas.Series([]), polars.Series([], dtype=polars.Int64), pyarrow.array([]), pyarrow.chunked_array([], pyarrow.float64())):
        assert len(index.get(empty)) == 0 and index.insert(empty, empty).inserted == 0
    for nothing in (pyarrow.array([None]), polars.Series([None]), pandas.Series([None])):
        assert index.get(nothing).found.tolist() == [False]


def table() -> str:
    """The guide's table."""
    shown = ["list", "NumPy", "pandas", "polars", "pyarrow"]
    kinds = {"Index": "`Index`, `Set`, `MultiIndex`, `IntervalIndex`", "GroupedIndex": "`GroupedIndex`", "StringIndex": "`StringIndex`"}
    lines = [f"| type | objects | {' | '.join(shown[1:])} | {' | '.join(kinds.values())} |", "|---" * (1 + len(shown) + len(kinds)) + "|"]
    for name, has in HAS.items():
        assert has.get("Index") == has.get("Set") == has.get("MultiIndex") == has.get("IntervalIndex"), name
        there = [("yes" if source in sources(name) else "") for source in shown]
        lines.append(f"| {name} | {' | '.join(there)} | {' | '.join(has.get(kind, 'no') for kind in kinds)} |")
    return "\n".join(lines) + "\n"


def test_the_table_of_the_guide_is_this_one() -> None:
    if not GUIDE.exists():
        pytest.skip("installed without the repository")
    text = GUIDE.read_text()
    assert text.partition(BEGIN)[2].partition(END)[0] == table(), "write it anew: python tests/test_dtypes.py"


if __name__ == "__main__":
    text = GUIDE.read_text()
    GUIDE.write_text(text.partition(BEGIN)[0] + BEGIN + table() + END + text.partition(END)[2])
    sys.exit(0)
