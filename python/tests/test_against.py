"""As-of look-ups and joins compared with pandas, polars and DuckDB, on random tables with duplicates, nulls, NaNs and empty groups."""

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
#: One database for all queries: to open one takes longer than they do.
DATABASE = duckdb.connect(config={"threads": 1})


def ask(query: str, **tables: Any) -> list[Any]:
    """The rows of a query of DuckDB's over tables."""
    for name, table in tables.items():
        DATABASE.register(name, table)
    return DATABASE.execute(query).fetchall()  # type: ignore[no-any-return]


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


HOW = ("inner", "left", "semi", "anti")
#: What tables of joins are like: no rows on a side, nulls alone on a side, one key everywhere.
SHAPES = ("random", "no probes", "no keys", "null probes", "null keys", "one key")


def nullable(array: np.ndarray, valid: np.ndarray) -> pyarrow.Array:
    return pyarrow.array(array, mask=~valid)


def join_tables(seed: int, dtype: str, shape: str) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Probes (low, high, number) and keys (key, value), with nulls, duplicates on both sides, and NaNs if they are floats."""
    rng = np.random.default_rng(seed)
    sizes = 0 if shape == "no probes" else int(rng.integers(1, 120)), 0 if shape == "no keys" else int(rng.integers(1, 200))
    columns = []
    for size in (sizes[0], sizes[0], sizes[1]):
        numbers = np.full(size, 7) if shape == "one key" else rng.integers(0, 60, size)
        made = numbers.astype(dtype) / 4 if dtype.startswith("float") else numbers.astype(dtype)
        if dtype.startswith("float") and shape != "one key":
            made[rng.random(size) < 0.1] = np.nan
            made[rng.random(size) < 0.05] = np.inf
        columns.append(made)
    there = [rng.random(size) < 0.85 for size in (sizes[0], sizes[0], sizes[1])]
    if shape == "null probes":
        there[:2] = [np.zeros(sizes[0], bool)] * 2
    if shape == "null keys":
        there[2] = np.zeros(sizes[1], bool)
    low, high, key = (nullable(*column) for column in zip(columns, there))
    left = pyarrow.table({"low": low, "high": high, "number": np.arange(sizes[0])})
    return left, pyarrow.table({"key": key, "value": np.arange(sizes[1])})


def rows_of(how: str, columns: Any) -> list[Any]:
    """A join's rows: numbers of probes, or these with the value, None without a match."""
    if how in ("semi", "anti"):
        return list(columns.tolist())
    found = columns[-1] if how == "left" else np.ones(columns[0].size, bool)
    return list(zip(columns[0].tolist(), with_none(columns[-2 if how == "left" else -1], found)))


def duckdbs(left: pyarrow.Table, right: pyarrow.Table, how: str, on: str, order: str = "value") -> list[Any]:
    """The rows of DuckDB's join, in the order of the probes, and of one probe in an order."""
    if how in ("semi", "anti"):
        word = "" if how == "semi" else "not"
        query = f"select number from probes where {word} exists (select * from pairs where {on}) order by number"
    else:
        query = f"select number, value from probes {how} join pairs on {on} order by number, {order}"
    rows = ask(query, probes=left, pairs=right)
    return [row[0] for row in rows] if how in ("semi", "anti") else rows


def column(table: pyarrow.Table, name: str) -> pyarrow.Array:
    return table[name].combine_chunks()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int64", "uint32", "float64", "float32", "datetime64[ns]"])
def test_joins_are_those_of_polars_pandas_and_duckdb(device: str, dtype: str, shape: str) -> None:
    for seed in SEEDS[:2]:
        left, right = join_tables(seed, dtype, shape)
        probes = column(left, "low")
        # The rows of a probe are in the order of the table, of which values are the numbers.
        multi = lanetree.MultiIndex(column(right, "key"), column(right, "value"), device, nulls="skip")
        # An index has one value per key: the last one.
        index = lanetree.Index(column(right, "key"), column(right, "value"), device, nulls="skip")
        theirs = [polars.from_arrow(left).rename({"low": "key"}).select("key", "number"), polars.from_arrow(right)]
        # pandas matches nulls with nulls: without them.
        frames = [table.filter(polars.col("key").is_not_null()).to_pandas() for table in theirs]
        last = frames[1].drop_duplicates("key", keep="last")
        for how in HOW:
            got = rows_of(how, multi.join(probes, how=how))  # type: ignore[arg-type]
            assert got == duckdbs(left, right, how, "low = key"), (seed, how)
            expected = theirs[0].join(theirs[1], on="key", how=how)
            by_polars = sorted(expected["number"]) if how in ("semi", "anti") else sorted(expected.select("number", "value").rows(), key=repr)
            assert (got if how in ("semi", "anti") else sorted(got, key=repr)) == by_polars, (seed, how)
            of_index = rows_of(how, index.join(probes, how=how))  # type: ignore[arg-type]
            for table, rows in ((frames[1], got), (last, of_index)):
                merged = frames[0].merge(table, on="key").sort_values(["number", "value"])
                matched, number = set(merged["number"]), range(left.num_rows)
                ours = rows if how in ("semi", "anti") else [row for row in rows if row[1] is not None]
                missed = [i for i in number if i not in matched]
                assert how in ("semi", "anti") or ours == list(zip(merged["number"], merged["value"])), (seed, how)
                assert how != "left" or [row[0] for row in rows if row[1] is None] == missed
                assert how != "semi" or ours == sorted(matched)
                assert how != "anti" or ours == missed


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int64", "uint32", "float64", "datetime64[ns]"])
def test_joins_by_ranges_of_every_kind_are_duckdbs_and_polars(device: str, dtype: str, shape: str) -> None:
    for seed in SEEDS[:2]:
        left, right = join_tables(seed, dtype, shape)
        pairs: Any = column(right, "key"), column(right, "value")
        multi = lanetree.MultiIndex(*pairs, device, nulls="skip")
        index, last = lanetree.Index(*pairs, device, nulls="skip"), right
        if right.num_rows:
            last = polars.from_arrow(right).unique("key", keep="last").to_arrow()
        low, high = column(left, "low"), column(left, "high")
        for how, inclusive in itertools.product(HOW, ("both", "left", "right", "neither")):
            on = f"key >{'=' * (inclusive in ('both', 'left'))} low and key <{'=' * (inclusive in ('both', 'right'))} high"
            for one, table in ((multi, right), (index, last)):
                got = rows_of(how, one.range_join(low, high, how, inclusive=inclusive))  # type: ignore[arg-type, attr-defined]
                assert got == duckdbs(left, table, how, on, "key, value"), (seed, how, inclusive, type(one))
        if not dtype.startswith("float"):
            left_frame, right_frame = polars.from_arrow(left), polars.from_arrow(right)
            matches = left_frame.join_where(right_frame, polars.col("key") >= polars.col("low"), polars.col("key") < polars.col("high"))
            assert sorted(rows_of("inner", multi.range_join(low, high, inclusive="left"))) == sorted(matches.select("number", "value").rows())
        if dtype in ("int64", "uint32"):
            for how in HOW:
                on = "abs(key::bigint - low::bigint) <= 3"
                for one, table in ((multi, right), (index, last)):
                    got = rows_of(how, one.band_join(low, 3, how))  # type: ignore[arg-type, attr-defined]
                    assert got == duckdbs(left, table, how, on, "key, value"), (seed, how, type(one))


@pytest.mark.parametrize("shape", ["random", "no quotes", "no trades", "one group", "null trades"])
def test_asof_joins_in_groups_are_those_of_all_three(device: str, shape: str) -> None:
    for seed in SEEDS[:2]:
        rng = np.random.default_rng(seed)
        quotes, trades = 0 if shape == "no quotes" else 200, 0 if shape == "no trades" else 120
        # Groups 3 and 5 have no quotes, and group 7 no trades.
        quote_by, trade_by = rng.choice([0, 1, 2, 4, 6, 7], quotes), rng.integers(0, 7, trades)
        if shape == "one group":
            quote_by, trade_by = np.full(quotes, 4), np.full(trades, 4)
        # Times are distinct, so that all three agree which quote it is.
        quote_at = np.sort(rng.permutation(400)[:quotes]) * 4
        trade_at = np.sort(rng.integers(0, 400, trades) * 4 + rng.choice([0, 1, 3], trades))
        there = np.zeros(trades, bool) if shape == "null trades" else rng.random(trades) < 0.9
        index = lanetree.GroupedIndex(quote_by, quote_at, device=device)
        right = {"at": quote_at, "by": quote_by, "row": np.arange(quotes)}
        left = {"at": trade_at[there], "by": trade_by[there]}
        frames = pandas.DataFrame(left), pandas.DataFrame(right)
        theirs = polars.DataFrame(left).set_sorted("at"), polars.DataFrame(right).set_sorted("at")
        with_nulls = pyarrow.table({"number": np.arange(trades), "at": nullable(trade_at, there), "by": trade_by})
        for direction, exact, limit in itertools.product(("backward", "forward", "nearest"), (True, False), (None, 0, 9)):
            options: Any = {"direction": direction, "allow_exact_matches": exact, "tolerance": limit}
            columns = index.asof_join(column(with_nulls, "at"), by=trade_by, **options)
            rows = rows_of("left", columns)
            assert [row[0] for row in rows] == list(range(trades))
            found = [row[1] for row in rows]
            assert not any(value is not None for value, is_there in zip(found, there) if not is_there)
            ours = [value for value, is_there in zip(found, there) if is_there]
            merged = pandas.merge_asof(*frames, on="at", by="by", **options)["row"]
            assert ours == [None if pandas.isna(row) else int(row) for row in merged], (seed, options)
            by_polars = theirs[0].join_asof(
                theirs[1], on="at", by="by", strategy=direction, tolerance=limit, allow_exact_matches=exact, check_sortedness=False
            )["row"].to_list()
            # Of two equally near polars takes the later one.
            forward, _ = index.asof(trade_at[there], by=trade_by[there], ties="forward", default=-1, **options)
            assert forward.tolist() == [-1 if row is None else row for row in by_polars], (seed, options)
            matched = [i for i, value in enumerate(found) if value is not None]
            inner = index.asof_join(trade_at, "inner", by=trade_by, valid=there, **options)
            assert rows_of("inner", inner) == [(i, found[i]) for i in matched]
            assert index.asof_join(trade_at, "semi", by=trade_by, valid=there, **options).tolist() == matched
            assert index.asof_join(trade_at, "anti", by=trade_by, valid=there, **options).tolist() == [i for i in range(trades) if found[i] is None]
            if direction == "nearest" or limit is not None:
                continue
            compares = (">" if direction == "backward" else "<") + "=" * exact
            for how in ("left", "inner"):
                on = f"trades.by = quotes.by and trades.at {compares} quotes.at"
                query = f"select number, row from trades asof {how} join quotes on {on} order by number"
                got = index.asof_join(column(with_nulls, "at"), how, by=trade_by, **options)  # type: ignore[arg-type]
                assert rows_of(how, got) == ask(query, quotes=pyarrow.table(right), trades=with_nulls), (seed, options, how)


def test_differences_of_asof_joins(device: str) -> None:
    """What the table in docs/guide/as-of-look-ups.md says, by row."""

    def by_pandas(at: Any, times: Any, **options: Any) -> list[Any]:
        frames = pandas.DataFrame({"at": at}), pandas.DataFrame({"at": times, "row": np.arange(len(times))})
        return [None if pandas.isna(row) else int(row) for row in pandas.merge_asof(*frames, on="at", **options)["row"]]

    def by_polars(at: Any, times: Any, **options: Any) -> list[Any]:
        frames = polars.DataFrame({"at": at}), polars.DataFrame({"at": times, "row": np.arange(len(times))})
        rows: list[Any] = frames[0].join_asof(frames[1], on="at", **options)["row"].to_list()
        return rows

    def by_duckdb(at: Any, times: Any, compares: str, kind: str = "") -> list[Any]:
        tables = pyarrow.table({"n": np.arange(len(at)), "at": at}), pyarrow.table({"at": times, "row": np.arange(len(times))})
        return ask(f"select n, row from l asof {kind} join r on l.at {compares} r.at order by n", l=tables[0], r=tables[1])

    def ours(at: Any, times: Any, how: Any = "left", **options: Any) -> list[Any]:
        return rows_of(how, lanetree.Index(times, device=device).asof_join(at, how, **options))

    # Two equally near.
    assert by_pandas([15], [10, 20], direction="nearest") == [0] and by_polars([15], [10, 20], strategy="nearest") == [1]
    assert ours([15], [10, 20], direction="nearest") == [(0, 0)]
    assert ours([15], [10, 20], direction="nearest", ties="forward") == [(0, 1)]
    assert ours([15], [10, 20], direction="nearest", ties="both") == [(0, 0), (0, 1)]
    # A tolerance is inclusive.
    assert by_pandas([15], [10], tolerance=5) == by_polars([15], [10], tolerance=5) == [0] and ours([15], [10], tolerance=5) == [(0, 0)]
    assert ours([15], [10], tolerance=4) == [(0, None)]
    # Sides that are not sorted.
    with pytest.raises(ValueError, match="sorted"):
        by_pandas([20, 10], [10, 20])
    with pytest.raises(polars.exceptions.InvalidOperationError, match="sorted"):
        by_polars([20, 10], [10, 20])
    assert by_duckdb([20, 10], [20, 10], ">=") == ours([20, 10], [20, 10]) == [(0, 0), (1, 1)]
    # Equal times on the right.
    assert by_pandas([10], [10, 10]) == by_polars([10], [10, 10]) == [1] and ours([10], [10, 10]) == [(0, 1)]
    assert by_pandas([10], [10, 10], direction="forward") == by_polars([10], [10, 10], strategy="forward") == [0]
    assert ours([10], [10, 10], direction="forward") == [(0, 1)]
    assert by_duckdb([10], [10, 10], ">=") in ([(0, 0)], [(0, 1)])
    # Rows without a neighbour.
    assert by_pandas([5, 15], [10]) == by_polars([5, 15], [10]) == [None, 0]
    assert by_duckdb([5, 15], [10], ">=") == ours([5, 15], [10], "inner") == [(1, 0)]
    assert by_duckdb([5, 15], [10], ">=", "left") == ours([5, 15], [10]) == [(0, None), (1, 0)]
    # Null keys.
    with pytest.raises(ValueError, match="null"):
        by_pandas(pandas.array([15, None], dtype="Int64"), pandas.array([10], dtype="Int64"))
    assert by_polars([None, 15], [10]) == [None, 0]
    at = pyarrow.array([15, None])
    assert by_duckdb(at, [10], ">=") == ours(at, [10], "inner") == [(0, 0)]
    assert by_duckdb(at, [10], ">=", "left") == ours(at, [10]) == [(0, 0), (1, None)]
    # Distances of floats.
    assert by_pandas([1.5], [1.0, 1.75], direction="nearest") == by_polars([1.5], [1.0, 1.75], strategy="nearest") == [1]
    assert by_pandas([1.5], [1.0], tolerance=0.4) == by_polars([1.5], [1.0], tolerance=0.4) == [None]
    assert ours([1.5], [1.0], tolerance=0.4) == [(0, None)] and ours([1.5], [1.0], tolerance=0.5) == [(0, 0)]
    assert ours([1.5], [1.0, 1.75], direction="nearest") == [(0, 1)]


def test_differences_of_joins(device: str) -> None:
    """What the table in docs/guide/joins.md says, by row."""

    def theirs(probe: Any, key: Any) -> list[bool]:
        """Whether a probe matches a key by pandas, polars and DuckDB."""
        # polars compares NaNs otherwise where a side has one row.
        left, right = (pyarrow.table({"key": pyarrow.array([it, 99], pyarrow.float64())}) for it in (probe, key))
        as_objects = lambda table: polars.from_arrow(table).to_pandas()
        rows = ask("select * from l join r on l.key = r.key", l=left, r=right)
        merged = as_objects(left).merge(as_objects(right), on="key")
        return [len(merged) == 2, len(polars.from_arrow(left).join(polars.from_arrow(right), on="key")) == 2, len(rows) == 2]

    def ours(probe: Any, key: Any) -> bool:
        index = lanetree.MultiIndex(pyarrow.array([key], pyarrow.float64()), np.array([1]), device, nulls="skip")
        return index.join(pyarrow.array([probe], pyarrow.float64()))[0].size == 1

    nan = float("nan")
    assert theirs(None, None) == [True, False, False] and not ours(None, None)
    assert theirs(nan, nan) == [True, True, True] and ours(nan, nan)
    assert theirs(-0.0, 0.0) == [True, True, True] and not ours(-0.0, 0.0) and ours(-0.0 + 0.0, 0.0)
    # Null as a key.
    index = lanetree.MultiIndex([5, None], [50, 51], device, nulls="last")
    assert rows_of("inner", index.join([None, 5])) == [(0, 51), (1, 50)]
    # NOT IN of a column with a null has no rows; an anti-join has.
    assert ask("select x from (values (1)) l(x) where x not in (values (2), (null))") == []
    assert lanetree.MultiIndex(pyarrow.array([2, None]), np.arange(2), device, nulls="skip").join([1], "anti").tolist() == [0]


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
