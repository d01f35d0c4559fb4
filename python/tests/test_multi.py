"""MultiIndex against lists of Python."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import lanetree

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
