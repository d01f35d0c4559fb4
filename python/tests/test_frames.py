"""Joins of frames compared with pandas' and polars' own, on random tables with duplicates, nulls, NaNs and empty sides."""

from __future__ import annotations

import datetime
import doctest
import inspect
import itertools
from typing import Any, Callable

import numpy as np
import pytest

import lanetree

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

DIRECTIONS = ("backward", "forward", "nearest")
NAMES = np.array(["A", "Bee", "", "Δ", "A longer name than eight bytes"], object)

#: Numbers as a column by which tables are ordered, by name.
TIMES: dict[str, Callable[[np.ndarray], Any]] = {
    "int64": lambda it: it.astype("int64"),
    "int8": lambda it: it.astype("int8"),
    "uint16": lambda it: (it + 100).astype("uint16"),
    "uint64": lambda it: it.astype("int64").astype("uint64") + np.uint64(2**63),
    "float64": lambda it: it / 4,
    "float32": lambda it: (it / 4).astype("float32"),
    "datetime64[s]": lambda it: it.astype("M8[s]"),
    "datetime64[ns]": lambda it: it.astype("M8[ns]"),
    "in a time zone": lambda it: pandas.DatetimeIndex((it * 3600).astype("M8[s]"), tz="UTC").tz_convert("Europe/Berlin"),
    "timedelta64[ms]": lambda it: it.astype("m8[ms]"),
    "Int32": lambda it: pandas.array(it, dtype="Int32"),
    "timestamp[us] of Arrow": lambda it: pandas.array(it.astype("M8[us]"), dtype=pandas.ArrowDtype(pyarrow.timestamp("us"))),
}
#: Numbers from 0 to 4 as columns that have to be equal. They are None where a number is below 0, if they can be.
GROUPS: dict[str, Callable[[np.ndarray], Any]] = {
    "str": lambda it: pandas.Series(np.where(it < 0, None, NAMES[it]), dtype="str"),
    "object": lambda it: pandas.Series(np.where(it < 0, None, NAMES[it]), dtype=object),
    "category": lambda it: pandas.Categorical.from_codes(it, NAMES),
    "string of Arrow": lambda it: pandas.array(np.where(it < 0, None, NAMES[it]), dtype=pandas.ArrowDtype(pyarrow.string())),
    "int64": lambda it: it * 2**40,
    "int16": lambda it: it.astype("int16"),
    "Int64": lambda it: pandas.array(np.where(it < 0, None, it), dtype="Int64"),
    "float64": lambda it: np.where(it < 0, np.nan, it * 0.5 - 1),
    "bool": lambda it: it > 1,
    "datetime64[us]": lambda it: np.where(it < 0, np.datetime64("NaT", "us"), it.astype("M8[us]")),
}


def limit_of(times: str, number: int | None) -> Any:
    """A tolerance for a column of times."""
    if number is None:
        return None
    if times.startswith("float"):
        return number / 4
    units = {"datetime64[s]": "s", "datetime64[ns]": "ns", "in a time zone": "h", "timedelta64[ms]": "ms", "timestamp[us] of Arrow": "us"}
    return pandas.Timedelta(number, units[times]) if times in units else number


def tables(seed: int, times: str, groups: tuple[str, ...] = (), is_sorted: bool = True) -> tuple[Any, Any]:
    """Trades (at, by0, ..., size, note) and quotes (at, by0, ..., bid, note, when), in which names repeat and equal times are frequent."""
    rng = np.random.default_rng(seed)
    made = []
    for side in range(2):
        size = int(rng.choice([0, 1, 40, 150], p=[0.1, 0.1, 0.4, 0.4]))
        numbers = rng.integers(-60, 60, size)
        numbers = np.sort(numbers) if is_sorted else numbers
        columns = {"at": TIMES[times](numbers)}
        for number, group in enumerate(groups):
            # The last group is on the right side alone.
            columns[f"by{number}"] = GROUPS[group](rng.integers(-1 if group not in ("int64", "int16", "bool") else 0, 4 + side, size))
        columns["size" if side == 0 else "bid"] = rng.integers(0, 10**6, size)
        columns["note"] = pandas.Series(NAMES[rng.integers(0, 5, size)], dtype="str")
        if side == 1:
            columns["when"] = rng.integers(0, 10**6, size).astype("M8[s]")
        made.append(pandas.DataFrame(columns))
    return made[0], made[1]


def pandas_asof(left: Any, right: Any, on: str = "at", **options: Any) -> Any:
    """pandas' result for tables in any order."""
    there = left.assign(row=np.arange(len(left))).sort_values(on, kind="stable")
    made = pandas.merge_asof(there, right.sort_values(on, kind="stable"), on=on, **options)
    return made.sort_values("row", kind="stable").drop(columns="row").reset_index(drop=True)


def same(made: Any, expected: Any) -> None:
    pandas.testing.assert_frame_equal(made, expected, check_exact=True, check_column_type=True)
    assert type(made.index) is type(expected.index)


@pytest.mark.parametrize("times", TIMES)
def test_merge_asof_is_pandas(times: str) -> None:
    for seed, direction, exact, number in itertools.product(range(4), DIRECTIONS, (True, False), (None, 0, 7)):
        for groups, is_sorted in (((), True), (("str",), True), (("str",), False), ((), False)):
            left, right = tables(seed, times, groups, is_sorted)
            options: Any = {"direction": direction, "allow_exact_matches": exact, "tolerance": limit_of(times, number)}
            if groups:
                options["by"] = "by0"
            same(lanetree.merge_asof(left, right, on="at", **options), pandas_asof(left, right, **options))


@pytest.mark.parametrize("groups", [(name,) for name in GROUPS] + [("str", "int16"), ("category", "Int64", "bool"), ("object", "float64")], ids="+".join)
def test_merge_asof_by_columns_is_pandas(groups: tuple[str, ...]) -> None:
    by = [f"by{number}" for number in range(len(groups))]
    for seed, direction in itertools.product(range(6), DIRECTIONS):
        left, right = tables(100 + seed, "int64", groups, is_sorted=seed % 2 == 0)
        same(lanetree.merge_asof(left, right, on="at", by=by, direction=direction), pandas_asof(left, right, by=by, direction=direction))  # type: ignore[arg-type]


@pytest.mark.parametrize("times", ["int64", "float64", "datetime64[ns]", "in a time zone", "uint64"])
def test_merge_asof_on_a_device_is_pandas(device: str, times: str) -> None:
    for seed, direction, exact, number in itertools.product(range(2), DIRECTIONS, (True, False), (None, 7)):
        left, right = tables(200 + seed, times, ("str",), is_sorted=seed == 0)
        options: Any = {"direction": direction, "allow_exact_matches": exact, "tolerance": limit_of(times, number), "by": "by0"}
        same(lanetree.merge_asof(left, right, on="at", device=device, **options), pandas_asof(left, right, **options))
        del options["by"]
        same(lanetree.merge_asof(left, right, on="at", device=device, **options), pandas_asof(left, right, **options))


@pytest.mark.parametrize("groups", [1, 7, 20_000])
@pytest.mark.parametrize("sizes", [(300_000, 200_000), (50_000, 300_000)], ids=str)
def test_large_tables_are_walked_in_slices(sizes: tuple[int, int], groups: int) -> None:
    rng = np.random.default_rng(5)
    made = []
    for size in sizes:
        # The first tenth of the time has half of the rows.
        times = np.sort(np.where(rng.random(size) < 0.5, rng.integers(0, 10**4, size), rng.integers(0, 10**5, size)))
        made.append(pandas.DataFrame({"at": times, "by": rng.integers(0, groups, size), "row": np.arange(size)}))
    for direction, exact in itertools.product(DIRECTIONS, (True, False)):
        options: Any = {"on": "at", "by": "by", "direction": direction, "allow_exact_matches": exact, "tolerance": 1000}
        same(lanetree.merge_asof(*made, **options), pandas.merge_asof(*made, **options))


#: Frames of pandas in another library's form.
KINDS: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda it: it,
    "polars": lambda it: polars.from_pandas(it),
    "pyarrow.Table": lambda it: pyarrow.Table.from_pandas(it, preserve_index=False),
    "pyarrow.RecordBatch": lambda it: pyarrow.RecordBatch.from_pandas(it, preserve_index=False),
    "duckdb": lambda it: duckdb.from_df(it),
}
TYPES = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "pyarrow.Table": pyarrow.Table,
    "pyarrow.RecordBatch": pyarrow.RecordBatch,
    "duckdb": duckdb.DuckDBPyRelation,
}


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame of any library, as Python's objects; what is missing is None."""
    if isinstance(frame, pandas.DataFrame):
        frame = pyarrow.Table.from_pandas(frame, preserve_index=False)
    elif isinstance(frame, duckdb.DuckDBPyRelation):
        frame = frame.to_arrow_table()
    elif isinstance(frame, polars.DataFrame):
        frame = frame.to_arrow()
    made = frame.to_pylist()
    as_is = lambda it: None if it is None or it != it else it.replace(tzinfo=None) if isinstance(it, datetime.datetime) else it
    return [{name: as_is(it) for name, it in row.items()} for row in made]


@pytest.mark.parametrize(("left_kind", "right_kind"), list(itertools.product(KINDS, KINDS)))
def test_each_kind_of_frame_is_answered_in_kind(left_kind: str, right_kind: str) -> None:
    for seed, groups in ((300, ("str", "int16")), (301, ("object",)), (302, ()), (303, ("float64", "datetime64[us]"))):
        left, right = tables(seed, "datetime64[ns]", groups, is_sorted=seed % 2 == 0)
        if seed == 302:
            left = left[:0]
        by = [f"by{number}" for number in range(len(groups))] or None
        given = KINDS[left_kind](left), KINDS[right_kind](right)
        for made, expected in (
            (lanetree.merge_asof(*given, on="at", by=by, direction="nearest"), pandas_asof(left, right, by=by, direction="nearest")),
            (lanetree.merge(*given, "left", on=by or "at"), pandas.merge(left, right, "left", on=by or "at")),
            (lanetree.merge(*given, on=by or "at"), pandas.merge(left, right, on=by or "at")),
        ):
            assert type(made) is TYPES[left_kind]
            assert list(made.schema.names if "pyarrow" in left_kind else made.columns) == list(expected.columns)
            assert rows_of(made) == rows_of(expected)


def test_results_have_the_types_of_the_columns() -> None:
    left = pyarrow.table({"at": pyarrow.array([1, 5], pyarrow.int16()), "by": pyarrow.array(["x", "y"]).dictionary_encode()})
    right = pyarrow.table({
        "at": pyarrow.array([0, 2], pyarrow.int64()),
        "by": pyarrow.array(["y", "z"], pyarrow.large_string()),
        "paid": pyarrow.array([1, 2]).cast(pyarrow.decimal128(30, 2)),
        "list": [[1], [2, 3]],
    })
    made = lanetree.merge_asof(left, right, on="at", by="by")
    assert made.schema.types == [*left.schema.types, pyarrow.decimal128(30, 2), pyarrow.list_(pyarrow.int64())]
    assert made["list"].to_pylist() == [None, [1]]
    both = polars.from_arrow(left), polars.from_arrow(right)
    made = lanetree.merge_asof(*both, on="at", by="by")
    assert made.dtypes == [*both[0].dtypes, *both[1].dtypes[2:]] and made["list"].to_list() == [None, [1]]


@pytest.mark.parametrize("dtype", [polars.Int64, polars.Float32, polars.Datetime("us"), polars.Datetime("ms", "Asia/Tokyo"), polars.Date, polars.Duration("ns"), polars.Time], ids=str)
def test_merge_asof_is_polars_join_asof(dtype: Any) -> None:
    for seed, strategy in itertools.product(range(5), ("backward", "forward")):
        rng = np.random.default_rng(400 + seed)
        left, right = (
            polars.DataFrame({
                "at": polars.Series(np.sort(rng.integers(0, 90, size))).cast(polars.Int64),
                # polars finds nothing for a null, and pandas' rule is another one.
                "by": polars.Series(NAMES[rng.integers(0, 4, size)], dtype=polars.String).cast(polars.Categorical if seed % 2 else polars.String),
                name: rng.integers(0, 1000, size),
            }).with_columns(polars.col("at").cast(dtype))
            for name, size in (("size", 60), ("bid", 80))
        )
        expected = left.join_asof(right, on="at", by="by", strategy=strategy, check_sortedness=False)
        assert lanetree.merge_asof(left, right, on="at", by="by", direction=strategy).equals(expected)  # type: ignore[arg-type]


#: What pandas' documentation of `merge_asof` says, one case for each rule: options, and the values of `b` that rows of the left side get.
#: Left: t 1, 5, 10 and g x, y, x. Right: t 1, 3, 5, 5, 9 and g x, x, y, y, y, with b 0 to 4.
RULES: list[tuple[str, dict[str, Any], list[int | None]]] = [
    ("the last row that is not later", {}, [0, 3, 4]),
    ("the first row that is not earlier", {"direction": "forward"}, [0, 2, None]),
    ("the row that is closest in absolute distance", {"direction": "nearest"}, [0, 3, 4]),
    ("strictly earlier", {"allow_exact_matches": False}, [None, 1, 4]),
    ("strictly later", {"allow_exact_matches": False, "direction": "forward"}, [1, 4, None]),
    ("strictly nearest", {"allow_exact_matches": False, "direction": "nearest"}, [1, 1, 4]),
    ("of equal groups", {"by": "g"}, [0, 3, 1]),
    ("of equal groups, later", {"by": "g", "direction": "forward"}, [0, 2, None]),
    ("within a tolerance", {"by": "g", "tolerance": 6}, [0, 3, None]),
    ("a tolerance is inclusive", {"by": "g", "tolerance": 7}, [0, 3, 1]),
    ("a tolerance of 0", {"tolerance": 0}, [0, 3, None]),
]


@pytest.mark.parametrize(("rule", "options", "expected"), RULES, ids=[rule for rule, _, _ in RULES])
def test_rules_of_pandas(rule: str, options: dict[str, Any], expected: list[int | None]) -> None:
    left = pandas.DataFrame({"t": [1, 5, 10], "g": ["x", "y", "x"]})
    right = pandas.DataFrame({"t": [1, 3, 5, 5, 9], "g": list("xxyyy"), "b": range(5)})
    if "by" not in options:
        right = right.drop(columns="g")
    made = lanetree.merge_asof(left, right, on="t", **options)
    assert [None if pandas.isna(it) else int(it) for it in made["b"]] == expected
    same(made, pandas.merge_asof(left, right, on="t", **options))


def test_indexes_and_names_are_pandas() -> None:
    left = pandas.DataFrame({"x": [1, 2, 30], "g": [1, 1, 2], "n": [1, 2, 3]}, index=pandas.Index([10, 20, 30]))
    right = pandas.DataFrame({"b": [5, 15, 25], "h": [1, 2, 1], "n": [4, 5, 6]})
    by_b, named = right.set_index("b"), left.rename_axis("b")
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        (left, right, {"left_index": True, "right_on": "b"}),
        (left, by_b, {"left_index": True, "right_index": True}),
        (left, by_b, {"left_on": "x", "right_index": True}),
        (left, by_b, {"left_on": "x", "right_on": "b"}),
        (named, by_b, {"on": "b"}),
        (named, right, {"on": "b"}),
        (left, right, {"left_on": "x", "right_on": "b"}),
        (left, right, {"left_on": "x", "right_on": "b", "left_by": "g", "right_by": "h"}),
        (left, by_b, {"left_index": True, "right_index": True, "left_by": "g", "right_by": "h"}),
        (left, right, {"left_on": "x", "right_on": "b", "suffixes": (None, "_right")}),
        (left, right, {"left_on": "x", "right_on": "b", "suffixes": ("_left", None)}),
        (left, right, {"left_on": "x", "right_on": "n"}),
        (left["x"], right[["b"]], {"left_on": "x", "right_on": "b"}),
        (left[["x"]], right.rename(columns={"b": "x"})[["x", "h"]], {}),
        (left.set_axis(pandas.date_range("2024", periods=3), axis=0), right.set_axis(pandas.date_range("2024", periods=3), axis=0), {"left_index": True, "right_index": True}),
        (left.rename(columns={"x": 0}), right.rename(columns={"b": 0, "h": 1}), {"on": 0}),
    ]
    for one, other, options in cases:
        same(lanetree.merge_asof(one, other, **options), pandas.merge_asof(one, other, **options))


def test_columns_of_other_dtypes_are_compared_exactly() -> None:
    def bids(left: Any, right: Any, **options: Any) -> list[Any]:
        tables = pandas.DataFrame({"at": left}), pandas.DataFrame({"at": right, "bid": np.arange(len(right))})
        made = lanetree.merge_asof(*tables, on="at", **options)
        assert made["at"].dtype == tables[0]["at"].dtype
        return [None if pandas.isna(it) else int(it) for it in made["bid"]]

    # pandas refuses all of these.
    assert bids(np.array([1, 2**31 - 1], "int32"), np.array([2**31, 1], "int64")) == [1, 1]
    assert bids(np.array([2**63 - 1, 5], "uint64"), np.array([-1, 2**63 - 1], "int64")) == [1, 0]
    assert bids(np.array([0.1], "float32"), np.array([0.1], "float64")) == [0]
    assert bids(np.array([0.1], "float64"), np.array([0.1], "float32")) == [None]
    seconds, nanoseconds = np.array([1, 2], "M8[s]"), np.array([1_000_000_001, 2_000_000_000], "M8[ns]")
    assert bids(seconds, nanoseconds) == [None, 1]
    assert bids(nanoseconds, seconds) == [0, 1]
    assert bids(seconds, nanoseconds, direction="forward", tolerance=np.timedelta64(1, "ns")) == [0, 1]
    assert bids(seconds, nanoseconds, direction="forward", tolerance=datetime.timedelta(0)) == [None, 1]
    berlin = pandas.DatetimeIndex(["2024-07-01 12:00"], tz="Europe/Berlin")
    assert bids(berlin, berlin.tz_convert("Asia/Tokyo")) == [0]
    assert bids(berlin, pandas.DatetimeIndex(["2024-07-01 12:00"], tz="UTC")) == [None]
    # The whole range, whose distances are no numbers of 64 bits with a sign.
    whole = np.array([-(2**63), 2**63 - 1])
    assert bids(whole[1:], whole[:1], tolerance=2**63) == [None] and bids(whole[1:], whole[:1]) == [0]
    assert bids(np.array([-0.0]), np.array([0.0]), tolerance=0) == [0] and bids(np.array([0.0]), np.array([-0.0]), allow_exact_matches=False) == [None]


def test_groups_of_other_dtypes_are_compared_by_value() -> None:
    words = ["b", "a", None, "c"]
    sides = {
        "str": pandas.Series(words, dtype="str"),
        "object": pandas.Series(words, dtype=object),
        "category": pandas.Series(pandas.Categorical(words, ["c", "b", "a"])),
        "other categories": pandas.Series(pandas.Categorical(words, ["a", "b", "c", "d"], ordered=True)),
        "dictionary": pandas.Series(pandas.array(words, dtype=pandas.ArrowDtype(pyarrow.dictionary(pyarrow.int8(), pyarrow.string())))),
    }
    for left, right in itertools.product(sides.values(), repeat=2):
        tables = pandas.DataFrame({"at": 5, "by": left[::-1].reset_index(drop=True)}), pandas.DataFrame({"at": range(4), "by": right, "bid": range(4)})
        made = lanetree.merge_asof(*tables, on="at", by="by")
        assert made["bid"].tolist() == [3, 2, 1, 0] and made["by"].dtype == left.dtype
        assert lanetree.merge(*tables, on="by")["bid"].tolist() == [3, 2, 1, 0]
    enums = polars.Series(words, dtype=polars.Enum(["a", "b", "c"])), polars.Series(words, dtype=polars.Categorical), polars.Series(words)
    for one, other in itertools.product(enums, repeat=2):
        left, right = polars.DataFrame({"by": one.reverse()}), polars.DataFrame({"by": other, "bid": range(4)})
        assert lanetree.merge(left, right)["bid"].to_list() == [3, 2, 1, 0]
    # Each has numbers of its own.
    named = [polars.Series(list(names), dtype=polars.Categorical(polars.Categories(names))) for names in ("abc", "cba")]
    made_of = lanetree.merge(polars.DataFrame({"by": named[0]}), polars.DataFrame({"by": named[1], "bid": range(3)}))
    assert made_of["bid"].to_list() == [2, 1, 0]
    chunked = pyarrow.chunked_array([pyarrow.array(words[:2]).dictionary_encode(), pyarrow.array(words[2:]).dictionary_encode()])
    right_table = pyarrow.table({"by": pyarrow.array(words, pyarrow.string_view()), "bid": range(4)})
    assert lanetree.merge(pyarrow.table({"by": chunked}), right_table)["bid"].to_pylist() == [0, 1, 2, 3]
    decimals = pyarrow.array([1, 2, None]).cast(pyarrow.decimal128(30, 5))
    made = lanetree.merge(pyarrow.table({"by": decimals}), pyarrow.table({"by": decimals[::-1], "bid": range(3)}))
    assert made["bid"].to_pylist() == [2, 1, 0]
    # Floats that are whole are equal to integers.
    made = lanetree.merge(pandas.DataFrame({"k": [1.0, np.nan, 2.5]}), pandas.DataFrame({"k": [1, 2], "v": [7, 8]}), "left", on="k")
    assert made["v"].tolist()[0] == 7 and made["v"].isna().tolist() == [False, True, True]


def test_arrays_are_keys_as_in_pandas() -> None:
    left = pandas.DataFrame({"a": [1, 5, 9], "g": [1, 1, 2]}, index=[1, 4, 6])
    right = pandas.DataFrame({"b": [1, 4], "h": [1, 2], "v": [7, 8]})
    at, times, by, others = np.array([1, 5, 9]), np.array([1, 4]), np.array([1, 1, 2]), np.array([1, 2])
    for options in (
        {"left_on": at, "right_on": "b"},
        {"left_on": "a", "right_on": times},
        {"left_on": at, "right_on": times},
        {"left_on": [at], "right_on": [times]},
        {"left_on": pandas.Series(at, name="a"), "right_on": "b"},
        {"left_on": pandas.Index(at), "right_on": pandas.Series(times, index=[5, 6])},
    ):
        options = dict(options)
        same(lanetree.merge_asof(left, right, **options), pandas.merge_asof(left, right, **options))
        same(lanetree.merge(left, right, **options), pandas.merge(left, right, **options))
        if not isinstance(options["right_on"], str):
            # Of rows without a match pandas has the left key in the right column.
            same(lanetree.merge(left, right, "left", **options), pandas.merge(left, right, "left", **options))
    for options in (
        {"left_index": True, "right_on": times},
        {"left_on": at, "right_index": True},
        {"left_on": "a", "right_on": "b", "left_by": [by], "right_by": "h"},
        {"left_on": "a", "right_on": "b", "left_by": [by], "right_by": [others]},
        {"left_on": at, "right_on": times, "left_by": [by, "g"], "right_by": [others, "h"]},
    ):
        options = dict(options)
        same(lanetree.merge_asof(left, right, **options), pandas.merge_asof(left, right, **options))
    mixed: Any = {"left_on": ["g", at], "right_on": ["h", times]}
    same(lanetree.merge(left, right, **mixed), pandas.merge(left, right, **mixed))
    for kind in KINDS.values():
        for column in (at, polars.Series(at), pyarrow.array(at), pandas.Series(at)):
            made = lanetree.merge_asof(kind(left), kind(right), left_on=column, right_on=polars.Series(times))
            assert rows_of(made) == rows_of(pandas.merge_asof(left, right, left_on=at, right_on=times))
    with pytest.raises(ValueError, match="left_on is an array of 2 elements, and left has 3 rows"):
        lanetree.merge_asof(left, right, left_on=times, right_on="b")
    with pytest.raises(ValueError, match="on has an array, where columns of both sides are named: give left_on and right_on"):
        lanetree.merge_asof(left, right, on=at)
    with pytest.raises(ValueError, match="left has a column 'key_0', which the result has for an array: rename it"):
        lanetree.merge(left.assign(key_0=1), right, left_on=at, right_on=times)


def errors(left: Any, right: Any, **options: Any) -> Any:
    with pytest.raises((KeyError, ValueError, TypeError)) as raised:
        lanetree.merge_asof(left, right, **options)
    return raised


def test_errors_are_where_pandas_has_them_and_say_what_to_write() -> None:
    left = pandas.DataFrame({"at": [1, 2], "g": ["x", "y"], "m": [1, 2], "t": pandas.to_datetime(["2024", "2025"])})
    right = pandas.DataFrame({"at": [1, 2], "g": ["x", "y"], "v": [1, 2], "t": pandas.to_datetime(["2024", "2025"])})
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "'at', 'g', 't' in common: give on"),
        ({"on": "no"}, "on='no': left has no such column; it has 'at', 'g'"),
        ({"on": "v"}, "on='v': left has no such column"),
        ({"left_on": "at"}, "right_on is not given"),
        ({"right_on": "at"}, "left_on is not given"),
        ({"on": "at", "left_on": "at"}, "on and left_on or right_on are both given"),
        ({"on": "at", "left_index": True}, "on='at' and left_index=True"),
        ({"left_on": "at", "left_index": True, "right_on": "at"}, "left_on='at' and left_index=True"),
        ({"left_index": True}, "right_on is not given"),
        ({"on": ["at", "m"]}, "on has 2 columns"),
        ({"on": "at", "by": "g", "left_by": "g"}, "by and left_by or right_by are both given"),
        ({"on": "at", "left_by": "g"}, "left_by is given without right_by"),
        ({"on": "at", "right_by": "g"}, "right_by is given without left_by"),
        ({"on": "at", "left_by": ["g", "m"], "right_by": ["g"]}, "left_by has 2 names, and right_by 1"),
        ({"on": "at", "by": "w"}, "by='w'"),
        ({"on": "at", "direction": "sideways"}, "direction is 'sideways'"),
        ({"on": "at", "allow_exact_matches": "yes"}, "allow_exact_matches is 'yes'"),
        ({"on": "at", "tolerance": -1}, "tolerance of -1 is below 0"),
        ({"on": "at", "tolerance": 1.5}, "tolerance is 1.5 for"),
        ({"on": "at", "tolerance": pandas.Timedelta(1, "s")}, "pass a number"),
        ({"on": "t", "tolerance": 1}, "pass a timedelta"),
        ({"on": "g"}, r"left\['g'\] \(str\) are strings"),
        ({"left_on": "at", "right_on": "t"}, r"left\['at'\] \(int64\) are integers, and right\['t'\] .* are times"),
        ({"on": "at", "left_by": "g", "right_by": "v"}, "are strings, and .* are integers"),
        ({"on": "at", "suffixes": ("", None)}, "both sides have columns 'g', 't'"),
    ]
    for options, message in cases:
        assert errors(left, right, **options).match(message), options
        with pytest.raises((KeyError, ValueError)):
            pandas.merge_asof(left, right, **options)
    for side, wanted in (("left", "left"), ("right", "right")):
        given = [it.assign(at=[1.0, np.nan]) if name == side else it.astype({"at": "float64"}) for name, it in (("left", left), ("right", right))]
        assert errors(*given, on="at").match(rf"{wanted}\['at'\] \(float64\) have 1 missing elements, the first one in row 1: drop these rows")
        with pytest.raises(ValueError):
            pandas.merge_asof(*given, on="at")
    assert errors(left, right.assign(t=right["t"].dt.tz_localize("UTC")), on="t").match(r"tz_localize.*replace_time_zone.*assume_timezone")
    assert errors(left.assign(at=[0.5, 1.5]), right, on="at").match("are floats, and .* are integers: convert one of them")
    assert errors(left.assign(at=np.array([2**63, 1], "uint64")), right, on="at").match("9223372036854775808")
    assert errors(left.assign(t=np.array([2**40] * 2, "M8[s]")), right.assign(t=right["t"].astype("M8[ns]")), on="t").match("row 0 is out of the range")
    assert errors(left["at"].rename(None), right, on="at").match("give it one by .rename")
    assert errors([1], right, on="at").match("left is a builtins.list: pass a DataFrame")
    assert errors(polars.from_pandas(left).lazy(), right, on="at").match(r"pass left.collect\(\)")
    assert errors(polars.from_pandas(left), right, left_index=True, right_on="at").match("no frame of pandas")
    assert errors(left.set_index(["at", "m"]), right, left_index=True, right_on="at").match("2 levels")
    assert errors(polars.DataFrame({"at": [1, None]}), right, on="at").match(r"left\['at'\] \(Int64\) have 1 missing")
    twice = pandas.DataFrame([[1, 2]], columns=["at", "at"])
    assert errors(twice, right, on="at").match("left has 2 columns of this name")


KEYS = ["str", "object", "category", "string of Arrow", "int64", "int16", "Int64", "float64", "bool", "datetime64[us]"]


@pytest.mark.parametrize("groups", [(name,) for name in KEYS] + [("str", "int16"), ("category", "float64", "bool")], ids="+".join)
def test_merge_is_pandas(groups: tuple[str, ...]) -> None:
    on = [f"by{number}" for number in range(len(groups))]
    for seed in range(12):
        left, right = tables(500 + seed, "int64", groups, is_sorted=False)
        for how in ("inner", "left"):
            same(lanetree.merge(left, right, how, on=on), pandas.merge(left, right, how, on=on))  # type: ignore[arg-type]
            other = right.rename(columns={name: f"{name}_there" for name in on})
            options: Any = {"left_on": on, "right_on": [f"{name}_there" for name in on], "suffixes": (None, "_r")}
            same(lanetree.merge(left, other, how, **options), pandas.merge(left, other, how, **options))  # type: ignore[arg-type]
        # A key is there if its row is in an inner join.
        there = pandas.merge(left.reset_index(), right[on].drop_duplicates(), on=on)["index"]
        left = left.set_axis([f"row {row}" for row in range(len(left))], axis=0)
        same(lanetree.merge(left, right, "semi", on=on), left.iloc[there])
        same(lanetree.merge(left, right, "anti", on=on), left.drop(left.index[there]))


def test_merge_of_many_rows_and_distinct_keys_is_pandas() -> None:
    rng = np.random.default_rng(8)
    keys = [rng.integers(0, 60_000, size) for size in (150_000, 120_000)]
    for of in (lambda it: it * 2**40 + 1, lambda it: it, lambda it: it.astype(str), lambda it: it / 3):
        left, right = (pandas.DataFrame({"key": of(its), "row": np.arange(its.size)}) for its in keys)
        for how in ("inner", "left"):
            same(lanetree.merge(left, right, how, on="key"), pandas.merge(left, right, how, on="key"))  # type: ignore[arg-type]


def test_errors_of_merge() -> None:
    left, right = pandas.DataFrame({"a": [1], "b": ["x"]}), pandas.DataFrame({"c": [1], "d": ["x"]})
    with pytest.raises(ValueError, match="how is 'outer'"):
        lanetree.merge(left, right, "outer", on="a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no column of the same name: give on"):
        lanetree.merge(left, right)
    with pytest.raises(KeyError, match="on='a': right has no such column"):
        lanetree.merge(left, right, on="a")
    with pytest.raises(ValueError, match="left_on is given without right_on"):
        lanetree.merge(left, right, left_on="a")
    with pytest.raises(ValueError, match="are integers, and .* are strings: convert one of them"):
        lanetree.merge(left, right, left_on="a", right_on="d")
    with pytest.raises(ValueError, match="are floats, and .* are integers"):
        lanetree.merge(pandas.DataFrame({"a": [0.5]}), pandas.DataFrame({"a": [2**53 + 1]}))


@pytest.mark.parametrize("dtype", ["int64", "str", "category", "datetime64[us]"])
def test_lookup_is_pandas_map(dtype: str) -> None:
    rng = np.random.default_rng(7)
    keys = pandas.Series(GROUPS[dtype](rng.integers(0, 5, 40)), name="k", index=np.arange(40)[::-1])
    table = pandas.DataFrame({"key": GROUPS[dtype](np.array([3, 0, 2])), "value": [1, 2, 3], "word": ["x", None, "z"]})
    for column in ("value", "word"):
        expected = keys.astype(object).map(dict(zip(table["key"].astype(object), table[column]))) if dtype == "category" else keys.map(table.set_index("key")[column])
        made = lanetree.lookup(keys, table, on="key", column=column)
        assert made.index.equals(keys.index) and made.name == "k" and made.dtype in (table[column].dtype, np.dtype(float))
        assert [None if pandas.isna(it) else it for it in made] == [None if pandas.isna(it) else it for it in expected]


def test_lookup_is_answered_in_the_kind_of_the_keys() -> None:
    table = pandas.DataFrame({"key": ["a", "b"], "value": [1, 2]})
    for kind in KINDS.values():
        made = lanetree.lookup(polars.Series("k", ["b", "c", None]), kind(table), "key", "value")
        assert isinstance(made, polars.Series) and made.name == "k" and made.to_list() == [2, None, None]
        arrow = lanetree.lookup(pyarrow.array(["b", "c"]), kind(table), "key", "value")
        assert isinstance(arrow, pyarrow.Array) and arrow.to_pylist() == [2, None]
        assert list(lanetree.lookup(pandas.Series(["b", "a"]), kind(table), "key", "value")) == [2, 1]
        assert list(lanetree.lookup(["b", "a"], polars.from_pandas(table), "key", "value")) == [2, 1]
    with pytest.raises(ValueError, match="on='key': the key in row 0 is there 2 times"):
        lanetree.lookup(["a"], table.assign(key=["b", "b"]), "key", "value")
    with pytest.raises(KeyError, match="column='no': frame has no such column"):
        lanetree.lookup(["a"], table, "key", "no")
    with pytest.raises(KeyError, match="on='no'"):
        lanetree.lookup(["a"], table, "no", "value")


def number(rng: np.random.Generator, size: int, has_nulls: bool) -> Any:
    """Integers of which some are null, as pandas' masked ones."""
    return pandas.array(np.where(rng.random(size) < (0.15 if has_nulls else 0), None, rng.integers(0, 40, size)), dtype="Int64")


@pytest.mark.parametrize("closed", ["both", "left", "right", "neither"])
@pytest.mark.parametrize("by", [None, "by"])
def test_range_join_is_duckdb(closed: str, by: str | None) -> None:
    above, below = "> " if closed in ("right", "neither") else ">=", "<" if closed in ("left", "neither") else "<="
    for seed in range(8):
        rng = np.random.default_rng(600 + seed)
        sizes = [int(rng.choice([0, 1, 30])), int(rng.choice([0, 1, 40]))]
        left = pandas.DataFrame({"number": np.arange(sizes[0]), "at": number(rng, sizes[0], True), "by": NAMES[rng.integers(0, 3, sizes[0])]}).astype({"by": "str"})
        right = pandas.DataFrame({"low": number(rng, sizes[1], True), "high": number(rng, sizes[1], True), "by": NAMES[rng.integers(0, 3, sizes[1])], "row": np.arange(sizes[1])}).astype({"by": "str"})
        made = lanetree.range_join(left, right, on=("at", "low", "high"), closed=closed, by=by)  # type: ignore[arg-type]
        with duckdb.connect() as database:
            database.register("l", pyarrow.Table.from_pandas(left, preserve_index=False))
            database.register("r", pyarrow.Table.from_pandas(right, preserve_index=False))
            expected = database.execute(
                f"select number, row from l join r on l.at is not null and (low is null or l.at {above} low) and (high is null or l.at {below} high)"
                f" and {'l.by = r.by' if by else 'true'} order by number, row"
            ).fetchall()
        assert list(zip(made["number"], made["row"])) == expected
        names = ["number", "at", "by", "low", "high", "row"] if by else ["number", "at", "by_x", "low", "high", "by_y", "row"]
        assert list(made.columns) == names


def test_errors_of_range_join() -> None:
    left, right = pandas.DataFrame({"a": [1], "s": ["x"]}), pandas.DataFrame({"b": [1], "c": [2], "s": ["x"]})
    with pytest.raises(ValueError, match="on is 'a': give three columns"):
        lanetree.range_join(left, right, on="a")  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="on='z'"):
        lanetree.range_join(left, right, on=("a", "b", "z"))
    with pytest.raises(ValueError, match="are strings: only numbers and times are ordered here"):
        lanetree.range_join(left, right, on=("s", "s", "s"))
    with pytest.raises(ValueError, match="are strings, and .* are integers"):
        lanetree.range_join(left, right, on=("s", "b", "c"))


def test_functions_have_docstrings_whose_examples_run() -> None:
    for function in (lanetree.lookup, lanetree.merge, lanetree.merge_asof, lanetree.range_join):
        section = (function.__doc__ or "").split("Parameters\n")[1]
        assert all(name in section for name in inspect.signature(function).parameters)
        (test,) = doctest.DocTestFinder(recurse=False).find(function, globs={"lanetree": lanetree})
        assert test.examples and doctest.DocTestRunner().run(test).failed == 0


def test_an_inner_join_of_as_many_rows_as_the_left_side_has_others() -> None:
    left, right = pandas.DataFrame({"k": [0, 1, 2], "a": list("xyz")}), pandas.DataFrame({"k": [1, 1, 1], "b": [1, 2, 3]})
    same(lanetree.merge(left, right), pandas.merge(left, right))


def test_columns_of_arrow_without_nulls_may_have_them_after_a_join() -> None:
    fields = [pyarrow.field("at", pyarrow.int64(), nullable=False), pyarrow.field("bid", pyarrow.int64(), nullable=False)]
    right = pyarrow.table([[5], [1]], schema=pyarrow.schema(fields))
    made = lanetree.merge_asof(pyarrow.table([[1]], schema=pyarrow.schema(fields[:1])), right, on="at")
    assert made["bid"].to_pylist() == [None] and [field.nullable for field in made.schema] == [False, True]
    made.validate(full=True)


def test_names_of_columns_are_the_callers_own() -> None:
    left, right = pandas.DataFrame({"at": [1]}).rename_axis(columns="names"), pandas.DataFrame({"at": [1], "bid": [2]})
    for name in (None, "names"):
        made = lanetree.merge_asof(left, right.rename_axis(columns=name), on="at")
        same(made, pandas.merge_asof(left, right.rename_axis(columns=name), on="at"))
        made.columns.name = "mine"
        assert lanetree.merge_asof(left, right.rename_axis(columns=name), on="at").columns.name == name and left.columns.name == "names"


@pytest.mark.parametrize("columns", [["a", 1], [1, 2], [("a", 1), ("b", 2)], pandas.date_range("2026", periods=2), pandas.CategoricalIndex(["x", "y"])], ids=str)
def test_names_of_any_kind_are_those_of_pandas(columns: Any) -> None:
    left = pandas.DataFrame([[1, 2], [3, 4]]).set_axis(columns, axis=1)
    for right in (left, pandas.DataFrame({"k": [1, 3], "v": [5, 6]}), left.rename(columns=lambda name: "other" if name == columns[1] else name)):
        on = {"left_on": [columns[0]], "right_on": [right.columns[0]]}
        same(lanetree.merge(left, right, **on), pandas.merge(left, right, **on))
