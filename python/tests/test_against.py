"""As-of look-ups and joins beside pandas, polars and DuckDB, on random tables with duplicates, nulls, NaNs and empty groups."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow
import pytest

import lanetree

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

SEEDS = range(4)


def tables(seed: int, dtype: str, is_distinct: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys in ascending order, mostly with duplicates, a value for each, and queries, some of which are keys."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([0, 1, 30, 300]))
    numbers = rng.integers(-200, 200, size) if not is_distinct else rng.permutation(1000)[:size] - 500
    keys, queries = np.sort(numbers), np.sort(rng.integers(-600 if is_distinct else -220, 220, 100))
    if dtype.startswith("float"):
        return keys.astype(dtype) / 4, rng.integers(0, 10**6, size), queries.astype(dtype) / 4
    return keys.astype(dtype), rng.integers(0, 10**6, size), queries.astype(dtype)


def with_none(values: np.ndarray, found: np.ndarray) -> list[Any]:
    return [int(value) if has else None for value, has in zip(values, found)]


@pytest.mark.parametrize("dtype", ["int64", "int32", "float64", "datetime64[ns]"])
@pytest.mark.parametrize("tolerance", [None, 5])
def test_asof_is_pandas_merge_asof(device: str, dtype: str, tolerance: int | None) -> None:
    limit: Any = tolerance
    if tolerance is not None and dtype.startswith("float"):
        limit = float(tolerance)
    elif tolerance is not None and dtype.startswith("datetime"):
        limit = np.timedelta64(tolerance, "ns")
    for seed in SEEDS:
        for direction, exact in itertools.product(("backward", "forward", "nearest"), (True, False)):
            # Of equal keys an index has the last one's value, as pandas matches backward; forward it matches the first one.
            keys, values, queries = tables(seed, dtype, is_distinct=direction != "backward")
            if direction == "nearest" and dtype.startswith("float"):
                continue
            left, right = pandas.DataFrame({"at": queries}), pandas.DataFrame({"at": keys, "value": values})
            options: Any = {"direction": direction, "allow_exact_matches": exact}
            their_limit = pandas.Timedelta(limit) if limit is not None and dtype.startswith("datetime") else limit
            merged = pandas.merge_asof(left, right, on="at", tolerance=their_limit, **options)
            expected = [None if pandas.isna(value) else int(value) for value in merged["value"]]
            index = lanetree.Index(keys, values, device)
            got, found = index.asof(queries, tolerance=limit, **options)
            assert with_none(got, found) == expected, (seed, direction, exact)
            # A Series is taken as it is.
            again, _ = index.asof(left["at"], tolerance=limit, **options)
            assert np.array_equal(again, got)


@pytest.mark.parametrize("dtype", ["int64", "uint32", "float64"])
def test_asof_is_polars_join_asof(device: str, dtype: str) -> None:
    for seed in SEEDS:
        for strategy in ("backward", "forward"):
            keys, values, queries = tables(seed, "int64" if dtype == "uint32" else dtype, is_distinct=strategy == "forward")
            if dtype == "uint32":
                keys, queries = (keys + 1000).astype(dtype), (queries + 1000).astype(dtype)
            left = polars.DataFrame({"at": queries}).set_sorted("at")
            right = polars.DataFrame({"at": keys, "value": values}).set_sorted("at")
            expected = left.join_asof(right, on="at", strategy=strategy)["value"].to_list()
            index = lanetree.Index(right["at"], right["value"], device) if keys.size else lanetree.Index(keys, values, device)
            got, found = index.asof(left["at"], direction=strategy)  # type: ignore[arg-type]
            assert with_none(got, found) == expected, (seed, strategy)


def test_asof_in_groups_is_pandas_by_groups(device: str) -> None:
    rng = np.random.default_rng(9)
    # Groups 3 and 5 have no quotes, and group 7 no trades.
    quote_groups, trade_groups = rng.choice([0, 1, 2, 4, 6, 7], 300), rng.integers(0, 7, 200)
    quote_times, trade_times = np.sort(rng.integers(0, 1000, 300)), np.sort(rng.integers(0, 1000, 200))
    rows = np.arange(300)
    left = pandas.DataFrame({"at": trade_times, "by": trade_groups})
    right = pandas.DataFrame({"at": quote_times, "by": quote_groups, "row": rows})
    expected = pandas.merge_asof(left, right, on="at", by="by")["row"]
    # The group in the high bits of the key: a match of another group is none.
    index = lanetree.Index(quote_groups << 40 | quote_times, rows, device)
    keys, got, found = index.predecessor(trade_groups << 40 | trade_times)
    found &= keys >> 40 == trade_groups
    assert with_none(got, found) == [None if pandas.isna(row) else int(row) for row in expected]
    for group in range(8):
        inside = quote_groups == group
        one = lanetree.Index(quote_times[inside], rows[inside], device)
        got, found = one.asof(trade_times[trade_groups == group])
        assert with_none(got, found) == [None if pandas.isna(row) else int(row) for row in expected[trade_groups == group]]


@pytest.mark.parametrize("is_float", [False, True])
def test_asof_is_duckdbs_asof_join(device: str, is_float: bool) -> None:
    for seed in SEEDS:
        # DuckDB takes any of equal keys.
        keys, values, queries = tables(seed, "float64" if is_float else "int64", is_distinct=True)
        if is_float:
            # NaNs are above all numbers, and equal one another, there and here.
            keys, values = np.append(keys, [np.inf, np.nan]), np.append(values, [7, 8])
            queries = np.append(queries, [-np.inf, np.inf, np.nan])
        # A null matches nothing, and is left out of an index.
        rng = np.random.default_rng(seed)
        right = pyarrow.table({"at": pyarrow.array(keys, mask=rng.random(keys.size) < 0.2), "value": values})
        left = pyarrow.table({"number": np.arange(queries.size), "at": queries})
        with duckdb.connect() as database:
            database.register("quotes", right)
            database.register("trades", left)
            for direction, compares in (("backward", ">="), ("forward", "<=")):
                query = f"select value from trades asof left join quotes on trades.at {compares} quotes.at order by number"
                expected = [row[0] for row in database.execute(query).fetchall()]
                index = lanetree.Index(right["at"].combine_chunks(), right["value"].combine_chunks(), device, nulls="skip")
                got, found = index.asof(queries, direction=direction)  # type: ignore[arg-type]
                assert with_none(got, found) == expected, (seed, direction)


def test_joins_are_those_of_polars_and_pandas(device: str) -> None:
    for seed in SEEDS:
        keys, values, probes = tables(seed, "int64")
        multi = lanetree.MultiIndex(keys, values, device)
        left = polars.DataFrame({"key": probes, "left": np.arange(probes.size)})
        right = polars.DataFrame({"key": keys, "value": values})
        for how in ("inner", "left"):
            expected = left.join(right, on="key", how=how)
            columns = multi.join(probes, how=how)  # type: ignore[arg-type]
            found = columns[2] if how == "left" else np.ones(columns[0].size, bool)
            got = list(zip(columns[0].tolist(), with_none(columns[1], found)))
            order = lambda row: (row[0], row[1] is None, row[1] or 0)
            assert sorted(got, key=order) == sorted(zip(expected["left"], expected["value"]), key=order), (seed, how)
        for how in ("semi", "anti"):
            expected = left.join(right, on="key", how=how)["left"].sort().to_list()
            assert multi.join(probes, how=how).tolist() == expected  # type: ignore[arg-type]
        # An index has one value per key: the last one.
        last = pandas.DataFrame({"key": keys, "value": values}).drop_duplicates("key", keep="last")
        merged = pandas.DataFrame({"key": probes, "left": np.arange(probes.size)}).merge(last, on="key").sort_values("left")
        rows, got_values = lanetree.Index(keys, values, device).join(probes)
        assert rows.tolist() == merged["left"].tolist() and got_values.tolist() == merged["value"].tolist()


def test_joins_by_ranges_and_intervals_are_duckdbs(device: str) -> None:
    for seed in SEEDS:
        keys, values, lows = tables(seed, "int64", is_distinct=True)
        rng = np.random.default_rng(seed)
        highs = lows + rng.integers(-5, 40, lows.size)
        points = pyarrow.table({"key": keys, "value": values})
        ranges = pyarrow.table({"number": np.arange(lows.size), "low": lows, "high": highs})
        with duckdb.connect() as database:
            database.register("points", points)
            database.register("ranges", ranges)
            index = lanetree.Index(keys, values, device)
            for inclusive, where in (("both", "key between low and high"), ("left", "key >= low and key < high")):
                query = f"select number, key, value from ranges join points on {where} order by number, key"
                got = index.range_join(lows, highs, inclusive=inclusive)  # type: ignore[arg-type]
                assert list(zip(*(column.tolist() for column in got))) == database.execute(query).fetchall()
            query = "select number, key, value from ranges join points on key between low - 9 and low + 9 order by number, key"
            assert list(zip(*(column.tolist() for column in index.band_join(lows, 9)))) == database.execute(query).fetchall()
            # The other way round: the ranges are the index.
            kept = np.flatnonzero(lows <= highs)
            intervals = lanetree.IntervalIndex(lows[kept], highs[kept], kept, device)
            offsets, rows = intervals.stab(keys)
            got_rows = sorted(zip(np.repeat(keys, np.diff(offsets)).tolist(), rows.tolist()))
            query = "select key, number from ranges join points on key between low and high order by key, number"
            assert got_rows == database.execute(query).fetchall()
