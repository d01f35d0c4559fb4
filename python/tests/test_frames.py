"""Joins of frames compared with pandas' and polars' own, on random tables with duplicates, nulls, NaNs and empty sides."""

from __future__ import annotations

import datetime
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
