"""MultiIndex against lists of Python."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import lanetree

from conftest import DEVICES
from test_index import KEYS, draw


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["uint32", "float64"])
def test_queries_and_changes(device: str, key: str, value: str) -> None:
    rng = np.random.default_rng(5)
    keys, values = draw(rng, key, 200, 30), draw(rng, value, 200)
    index = lanetree.MultiIndex(keys, values, device=device)
    rows: dict[object, list[object]] = {}
    for one, item in zip(keys.tolist(), values.tolist()):
        rows.setdefault(one, []).append(item)

    def check() -> None:
        queries = draw(rng, key, 60, 40)
        offsets, found = index.get(queries)
        expected = [rows.get(query, []) for query in queries.tolist()]
        assert [found[a:b].tolist() for a, b in zip(offsets, offsets[1:])] == expected
        assert index.count(queries).tolist() == [len(row) for row in expected]
        assert index.contains(queries).tolist() == [bool(row) for row in expected]
        firsts, has = index.first(queries)
        assert firsts[has].tolist() == [row[0] for row in expected if row]
        lasts, has = index.last(queries, default=3)
        assert lasts.tolist() == [row[-1] if row else 3 for row in expected] and has.tolist() == [bool(row) for row in expected]
        pairs = [(one, item) for one in sorted(rows) for item in rows[one]]
        assert list(zip(index.keys().tolist(), index.values().tolist())) == pairs
        assert len(index) == len(pairs)
        ordered = np.array([pair[0] for pair in pairs], key)
        for side in ("left", "right"):
            assert np.array_equal(index.searchsorted(queries, side), np.searchsorted(ordered, queries, side))  # type: ignore[call-overload]
        assert np.array_equal(index.lower_bound(queries), index.rank(queries)) and np.array_equal(index.rank(queries), np.searchsorted(ordered, queries))
        ranks, has = np.empty(queries.size, np.int64), np.empty(queries.size, bool)
        assert index.searchsorted(queries, "right", out=ranks) is ranks and np.array_equal(ranks, index.upper_bound(queries))
        assert index.contains(queries, out=has) is has and has.tolist() == [bool(row) for row in expected]
        for call, at in (
            (index.predecessor, np.searchsorted(ordered, queries, "right") - 1),
            (index.successor, np.searchsorted(ordered, queries)),
        ):
            near, got, found = call(queries, default=9)
            inside = (at >= 0) & (at < len(pairs))
            assert np.array_equal(found, inside) and set(got[~inside].tolist()) <= {9}
            assert list(zip(near[inside].tolist(), got[inside].tolist())) == [pairs[i] for i in at[inside]]
        left, right = index.join(queries)
        assert list(zip(left.tolist(), right.tolist())) == [(i, v) for i, row in enumerate(expected) for v in row]

    check()
    more, new = draw(rng, key, 50, 30), draw(rng, value, 50)
    assert index.insert(more, new).inserted == 50
    for one, item in zip(more.tolist(), new.tolist()):
        rows.setdefault(one, []).append(item)
    check()
    gone = draw(rng, key, 3, 30)
    removed = sum(len(rows.pop(one, [])) for one in set(gone.tolist()))
    assert index.remove(gone).removed == removed
    check()
    assert index.remove(index.keys()[:1], index.values()[:1]).removed == 1
    least = min(rows)
    del rows[least][0]
    rows = {one: row for one, row in rows.items() if row}
    check()


def test_ranges(device: str) -> None:
    index = lanetree.MultiIndex([5, 3, 5, 9, 5], [50, 30, 51, 90, 52], device=device)
    offsets, keys, values = index.range([4, 9, 9], [9, 9, 3])
    assert (offsets.tolist(), keys.tolist(), values.tolist()) == ([0, 4, 5, 5], [5, 5, 5, 9, 9], [50, 51, 52, 90, 90])
    assert index.range([3], [9], inclusive="neither").values.tolist() == [50, 51, 52]
    assert index.range([3], [9], limit=2).values.tolist() == [30, 50]
    assert index.count_range([4, 0], [9, 1]).tolist() == [4, 0]
    assert index[5].tolist() == [50, 51, 52] and 4 not in index
    with pytest.raises(KeyError):
        index[4]
    assert index.join([5, 1, 3], how="anti").tolist() == [1]


def test_errors_pickles_and_closing(device: str) -> None:
    index = lanetree.MultiIndex([1, 1, 0], [3, 2, 1], device=device)
    again = pickle.loads(pickle.dumps(index))
    assert again.items()[0].tolist() == [0, 1, 1] and again.items()[1].tolist() == [1, 3, 2]
    with pytest.raises(lanetree.errors.LengthMismatch):
        lanetree.MultiIndex([1], [1, 2], device=device)
    with pytest.raises(lanetree.errors.LengthMismatch):
        index.insert([1], [1, 2])
    with pytest.raises(TypeError, match="int64 is needed"):
        index.get(np.array([1], np.uint64))
    assert "3 pairs of 2 keys" in repr(index) and "value_bytes" in index.describe()
    with index:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        index.get([1])


@pytest.mark.parametrize("value", ["uint32", "int32", "float32", "uint64", "int64", "float64", "timedelta64[s]"])
@pytest.mark.parametrize("key", ["uint32", "int64", "float64"])
def test_aggregates_are_those_of_rows_and_of_groups(device: str, key: str, value: str) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(7)
    # Many values per key, and one key with most of them.
    keys, values = np.append(draw(rng, key, 600, 40), np.full(3000, 5, key)), draw(rng, value, 3600)
    index = lanetree.MultiIndex(keys, values, device=device)
    frame = pandas.DataFrame({"key": keys, "value": values})
    wide = values.dtype if values.dtype.kind == "m" else np.dtype(f"{values.dtype.kind}8")
    starts, ends = draw(rng, key, 40, 45), draw(rng, key, 40, 45)
    ordered = frame.sort_values("key", kind="stable")
    queries = np.unique(np.append(keys, draw(rng, key, 30, 60)))
    for how in ("sum", "min", "max", "first", "last"):
        for inclusive in ("both", "left", "right", "neither"):
            rows = [ordered["value"][ordered["key"].between(start, end, inclusive)].to_numpy() for start, end in zip(starts, ends)]
            of = {"first": lambda row: row[0], "last": lambda row: row[-1], "sum": lambda row: row.astype(wide).sum()}
            found = index.aggregate(starts, ends, how, inclusive=inclusive)  # type: ignore[arg-type]
            assert found.values.dtype == wide and found.found.tolist() == [row.size > 0 for row in rows]
            wanted = [of.get(how, lambda row: getattr(np, how)(row))(row) if row.size else np.zeros(1, wide)[0] for row in rows]
            assert np.array_equal(found.values, np.array(wanted).astype(wide)), (how, inclusive)
        # A range of one key is its group.
        groups = getattr(frame.groupby("key")["value"], how)().reindex(queries)
        found = index.aggregate(queries, queries, how)  # type: ignore[arg-type]
        assert np.array_equal(found.found, groups.notna())
        assert np.array_equal(found.values[found.found], groups[groups.notna()].to_numpy().astype(wide)), how
    index.remove(keys[3590:])
    assert index.aggregate(keys[:1], keys[:1], "sum").found.tolist() == [True]
    assert index.aggregate([5], [5], "first").found.tolist() == [False]


def test_aggregates_take_what_those_of_an_index_take(device: str) -> None:
    index = lanetree.MultiIndex([1, 1, 2], np.array([2**63, 2**63, 1], "u8"), device=device)
    with pytest.raises(lanetree.errors.SumOverflow, match="range 1 has more than 64 bits"):
        index.aggregate([2, 0], [2, 1], "sum")
    assert index.aggregate([0], [2], "max").values.tolist() == [2**63]
    missing = index.aggregate([None, 2], [7, 5], "last")
    assert missing.found.tolist() == [False, True] and missing.values.tolist() == [0, 1]
    several = index.aggregate([[2, 3], [0, 5]], [[2, 9], [9, 1]], "min")
    assert several.values.tolist() == [[1, 0], [1, 0]] and several.found.tolist() == [[True, False], [True, False]]
    assert index.aggregate([], [], "sum").values.size == 0
    with pytest.raises(ValueError, match="'sum', 'min', 'max', 'first' or 'last'"):
        index.aggregate([0], [2], "mean")  # type: ignore[arg-type]
    with pytest.raises(lanetree.errors.BoundLengths):
        index.aggregate([0, 1], [2], "sum")
    with pytest.raises(TypeError, match="the starts have dtype float64, but int64 is needed"):
        index.aggregate(np.array([0.5]), [2], "sum")
    times = lanetree.MultiIndex([0, 0], np.array([1, 2], "M8[s]"), device=device)
    assert times.aggregate([0], [1], "last").values.tolist() == np.array([2], "M8[s]").tolist()
    with pytest.raises(TypeError, match="points in time have no sum"):
        times.aggregate([0], [1], "sum")
    empty = lanetree.MultiIndex(np.zeros(0, np.int64), np.zeros(0), device=device)
    assert empty.aggregate([0], [1], "sum").found.tolist() == [False]


def test_aggregates_of_a_devices_ranges_are_those_of_host_memory() -> None:
    if "emulated" not in DEVICES:
        pytest.skip("the wheel has no emulator")
    rng = np.random.default_rng(8)
    for key in ("int32", "float64", "datetime64[ns]"):
        for value in ("int32", "float64", "timedelta64[s]"):
            keys, values = draw(rng, key, 300, 30), draw(rng, value, 300)
            starts, ends = draw(rng, key, 50, 35), draw(rng, key, 50, 35)
            put = lambda array: lanetree.asarray(array, "emulated")
            on_host, on_device = lanetree.MultiIndex(keys, values, "cpu"), lanetree.MultiIndex(put(keys), put(values))
            for how in ("sum", "min", "max", "first", "last"):
                for inclusive in ("both", "neither"):
                    expected = on_host.aggregate(starts, ends, how, inclusive=inclusive)  # type: ignore[arg-type]
                    got = on_device.aggregate(put(starts), put(ends), how, inclusive=inclusive)  # type: ignore[arg-type]
                    found = got.found.numpy()  # type: ignore[union-attr]
                    assert np.array_equal(found, expected.found) and got.values.dtype == expected.values.dtype
                    assert np.array_equal(got.values.numpy()[found], expected.values[found]), (key, value, how)  # type: ignore[union-attr]
    full = lanetree.MultiIndex(put(np.zeros(2, np.int64)), put(np.array([2**63] * 2, "u8")))
    with pytest.raises(lanetree.errors.SumOverflow, match="range 0"):
        full.aggregate(put(np.array([0])), put(np.array([1])), "sum")
