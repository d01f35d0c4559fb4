"""GroupedIndex against pandas, and loops."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import lanetree

from conftest import DEVICES
from test_index import draw

GROUPS = ["int32", "uint32", "int64", "uint64"]
KEYS = ["int32", "uint32", "int64", "uint64", "datetime64[ns]"]


def neighbour(pairs: dict[tuple[int, int], int], group: int, at: int, direction: str, exact: bool, limit: int | None) -> int:
    """The value of the match, or -1."""
    inside = [key for other, key in pairs if other == group and (exact or key != at)]
    inside = [key for key in inside if limit is None or abs(key - at) <= limit]
    below = [key for key in inside if key <= at]
    above = [key for key in inside if key >= at]
    if direction == "backward":
        best = max(below, default=None)
    elif direction == "forward":
        best = min(above, default=None)
    else:
        # Of two at the same distance the one below.
        best = min(inside, key=lambda key: (abs(key - at), key), default=None)
    return -1 if best is None else pairs[group, best]


@pytest.mark.parametrize("where", ["cpu", "emulated", "arrays"])
@pytest.mark.parametrize("by", GROUPS)
@pytest.mark.parametrize("key", KEYS)
def test_groups_agree_with_a_loop(where: str, by: str, key: str) -> None:
    if where != "cpu" and "emulated" not in DEVICES:
        pytest.skip("the wheel has no emulator")
    rng = np.random.default_rng(3)
    groups, keys, values = draw(rng, by, 200, 6), draw(rng, key, 200, 90), np.arange(200, dtype=np.int32)
    asked_by, at = draw(rng, by, 80, 7), draw(rng, key, 80, 100)
    put: Any = (lambda array: lanetree.asarray(array, "emulated")) if where == "arrays" else lambda array: array
    take: Any = (lambda array: array.numpy()) if where == "arrays" else lambda array: array
    index = lanetree.GroupedIndex(put(groups), put(keys), put(values), device="cpu" if where == "cpu" else "emulated")
    whole = lambda array: array.astype(np.int64).tolist()
    pairs = dict(zip(zip(whole(groups), whole(keys)), values.tolist()))

    def check() -> None:
        assert len(index) == len(pairs)
        for direction in ("backward", "forward", "nearest"):
            for exact in (True, False):
                for limit in (None, 0, 5):
                    tolerance = np.timedelta64(limit, "ns") if limit is not None and key.startswith("d") else limit
                    got, found = index.asof(
                        put(at), by=put(asked_by), direction=direction, tolerance=tolerance, allow_exact_matches=exact, default=-1  # type: ignore[arg-type]
                    )
                    expected = [neighbour(pairs, *probe, direction, exact, limit) for probe in zip(whole(asked_by), whole(at))]
                    assert take(got).tolist() == expected, (direction, exact, limit)
                    assert take(found).tolist() == [value >= 0 for value in expected]
        got, found = index.get(put(at), by=put(asked_by), default=-1)
        assert take(got).tolist() == [pairs.get(probe, -1) for probe in zip(whole(asked_by), whole(at))]
        assert take(found).tolist() == [probe in pairs for probe in zip(whole(asked_by), whole(at))]
        all_groups, all_keys, all_values = index.items()
        assert (all_groups.dtype, all_keys.dtype, all_values.dtype) == (groups.dtype, keys.dtype, np.int32)
        assert dict(zip(zip(whole(all_groups), whole(all_keys)), all_values.tolist())) == pairs

    check()
    report = index.insert(put(groups[:1]), put(keys[:1] + 500), put(np.array([7], np.int32)))
    assert report.inserted == 1
    pairs[whole(groups)[0], whole(keys[:1] + 500)[0]] = 7
    assert index.update(put(groups[5:6]), put(keys[5:6]), put(np.array([9], np.int32))).replaced == 1
    pairs[whole(groups)[5], whole(keys)[5]] = 9
    gone = dict.fromkeys(zip(whole(groups[10:40]), whole(keys[10:40])))
    assert index.remove(put(groups[10:40]), put(keys[10:40])).removed == len(gone)
    pairs = {pair: value for pair, value in pairs.items() if pair not in gone}
    check()
    again = pickle.loads(pickle.dumps(index))
    assert again.device == index.device and all(np.array_equal(a, b) for a, b in zip(again.items(), index.items()))


def test_groups_are_those_of_pandas(device: str) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(9)
    # Groups 3 and 5 have no quotes, and group 7 no trades. Times are whole nanoseconds since 1970.
    quote_by, trade_by = rng.choice([0, 1, 2, 4, 6, 7], 300), rng.integers(0, 7, 200)
    start = np.datetime64("2026-01-05T09:30", "ns")
    quote_at, trade_at = (start + np.sort(rng.permutation(3000)[:size]).astype("m8[ms]") for size in (300, 200))
    left = pandas.DataFrame({"at": trade_at, "by": trade_by})
    right = pandas.DataFrame({"at": quote_at, "by": quote_by, "row": np.arange(300)})
    index = lanetree.GroupedIndex(quote_by, quote_at, device=device)
    for direction in ("backward", "forward", "nearest"):
        for milliseconds in (None, 40):
            tolerance = None if milliseconds is None else np.timedelta64(milliseconds, "ms")
            for exact in (True, False):
                options: Any = {"direction": direction, "allow_exact_matches": exact}
                limit = None if tolerance is None else pandas.Timedelta(tolerance)
                expected = pandas.merge_asof(left, right, on="at", by="by", tolerance=limit, **options)["row"]
                got, found = index.asof(left["at"], by=left["by"], tolerance=tolerance, **options)
                assert [int(row) if has else None for row, has in zip(got, found)] == [None if pandas.isna(row) else int(row) for row in expected]


@pytest.mark.parametrize("where", ["cpu", "emulated", "arrays"])
@pytest.mark.parametrize("by", ["int32", "uint64"])
@pytest.mark.parametrize("key", ["float32", "float64"])
def test_groups_of_floats_are_those_of_pandas(where: str, by: str, key: str) -> None:
    pandas = pytest.importorskip("pandas")
    if where != "cpu" and "emulated" not in DEVICES:
        pytest.skip("the wheel has no emulator")
    rng = np.random.default_rng(11)
    # Quarters of both signs and the infinities, each once: of equal times in a group pandas takes the last row.
    quote_at = np.append(np.unique(draw(rng, key, 400, 1200)), np.array([np.inf], key))
    trade_at = np.sort(np.append(draw(rng, key, 200, 1300), np.array([-np.inf, np.inf, 0.1], key)))
    quote_by, trade_by = rng.choice([0, 1, 2, 4, 6, 7], quote_at.size).astype(by), rng.integers(0, 7, trade_at.size).astype(by)
    left, right = pandas.DataFrame({"at": trade_at, "by": trade_by}), pandas.DataFrame({"at": quote_at, "by": quote_by, "row": np.arange(quote_at.size)})
    put: Any = (lambda array: lanetree.asarray(array, "emulated")) if where == "arrays" else lambda array: array
    order = rng.permutation(quote_at.size)
    index = lanetree.GroupedIndex(put(quote_by[order]), put(quote_at[order]), put(order), device="cpu" if where == "cpu" else "emulated")

    def check(right: Any) -> None:
        for direction in ("backward", "forward", "nearest"):
            for tolerance in (None, 0.0, 2.5):
                for exact in (True, False):
                    options: Any = {"direction": direction, "tolerance": tolerance, "allow_exact_matches": exact}
                    if where == "arrays" and (direction == "nearest" or tolerance is not None):
                        with pytest.raises(lanetree.errors.OptionValue, match="distances of floats"):
                            index.asof(put(trade_at), by=put(trade_by), **options)
                        with pytest.raises(lanetree.errors.OptionValue, match="distances of floats"):
                            index.asof_join(put(trade_at), by=put(trade_by), **options)
                        continue
                    rows = pandas.merge_asof(left, right, on="at", by="by", **options)["row"]
                    expected = [-1 if pandas.isna(row) else int(row) for row in rows]
                    got, found = index.asof(put(trade_at), by=put(trade_by), default=-1, **options)
                    probes, values = index.asof_join(put(trade_at), "inner", by=put(trade_by), **options)
                    if where == "arrays":
                        got, found, probes, values = (array.numpy() for array in (got, found, probes, values))  # type: ignore[union-attr]
                    assert got.tolist() == expected, options
                    assert found.tolist() == [row >= 0 for row in expected]
                    assert list(zip(probes.tolist(), values.tolist())) == [(i, row) for i, row in enumerate(expected) if row >= 0]

    check(right)
    stored = index.items()
    by_group = right.sort_values(["by", "at"], kind="stable")
    assert [array.dtype for array in stored] == [quote_by.dtype, quote_at.dtype, np.int64]
    assert all(np.array_equal(array, by_group[name]) for array, name in zip(stored, ("by", "at", "row")))
    gone = right.iloc[5:60]
    assert index.remove(put(gone["by"].to_numpy()), put(gone["at"].to_numpy())).removed == 55
    check(right.drop(index=gone.index))
    assert index.insert(put(gone["by"].to_numpy()), put(gone["at"].to_numpy()), put(gone["row"].to_numpy())).inserted == 55
    check(right)
    again = pickle.loads(pickle.dumps(index))
    assert again == index and (int(quote_by[3]), float(quote_at[3])) in again and (int(quote_by[3]), 0.125) not in again


def test_floats_in_groups_are_in_total_order(device: str, tmp_path: Any) -> None:
    nan = np.nan
    keys = np.array([nan, 0.0, -0.0, -np.inf, 5.0, -nan])
    index = lanetree.GroupedIndex(np.zeros(6, np.int64), keys, device=device)
    by = np.zeros(6, np.int64)
    assert np.array_equal(index.get(keys, by=by).values, np.arange(6)) and index.items()[2].tolist() == [5, 3, 2, 1, 4, 0]
    assert index.asof([-0.0, 1e300, nan], by=[0, 0, 0]).values.tolist() == [2, 4, 0]
    # A NaN is near no key but itself; the two zeros are at no distance.
    got, found = index.asof([nan, 4.0, -1e9, -0.0], by=[0, 0, 0, 0], direction="nearest", tolerance=1, default=-1)
    assert got.tolist() == [0, 4, -1, 2] and found.tolist() == [True, True, False, True]
    assert index.asof([-0.0], by=[0], direction="forward", allow_exact_matches=False, tolerance=0.0).values.tolist() == [1]
    assert index.asof([0.0], by=[1], direction="nearest").found.tolist() == [False]
    middle = lanetree.GroupedIndex([0, 0], [1.0, 2.0], device=device)
    assert [middle.asof([1.5], by=[0], direction="nearest", ties=ties).values.tolist() for ties in ("backward", "forward")] == [[0], [1]]  # type: ignore[arg-type]
    far = lanetree.GroupedIndex([0], [-1.7e308], device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [bool(far.asof(1.7e308, by=0, tolerance=most).found) for most in (None, 1e308)] == [True, False]
        assert far.asof([1.7e308], by=[0], direction="nearest").found.tolist() == [True]
    left, rows = index.asof_join([-0.0, 2.5, nan], "inner", by=by[:3], direction="nearest", ties="both")
    assert left.tolist() == [0, 0, 1, 1, 2] and rows.tolist() == [2, 1, 1, 4, 0]
    with pytest.raises(ValueError, match="a tolerance of nan is missing"):
        index.asof([1.0], by=[0], tolerance=nan)
    index.save(tmp_path / "floats")
    again = lanetree.load(tmp_path / "floats", device)
    assert all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(again.items(), index.items()))


def test_groups_of_python(device: str) -> None:
    index = lanetree.GroupedIndex([7, 7, 9], [100, 160, 120], device=device)
    assert [array.tolist() for array in index.asof([[159, 500], [119, 120]], by=[[7, 9], [9, 9]])] == [[[0, 2], [0, 2]], [[True, True], [False, True]]]
    assert tuple(index.asof(100, by=7)) == (0, True) and tuple(index.get(101, by=7, default=5)) == (5, False)
    assert "3 pairs, int64, int64 -> int64" in repr(index) and "in all" in index.describe() and "<pre>" in index._repr_html_()
    assert len(index.copy()) == len(index.to("cpu")) == 3 and index.nbytes > 0
    empty = lanetree.GroupedIndex(np.zeros(0, np.int32), np.zeros(0, np.int64), device=device)
    assert empty.asof(np.array([1]), by=np.array([1], np.int32)).found.tolist() == [False]
    assert index.asof(np.zeros(0, np.int64), by=np.zeros(0, np.int64)).values.size == 0
    with index:
        pass
    assert index.closed and "closed" in repr(index)
    with pytest.raises(RuntimeError, match="closed"):
        index.asof([1], by=[7])


def test_wrong_groups(device: str) -> None:
    with pytest.raises(TypeError, match="groups .by. of dtype float64 are not supported"):
        lanetree.GroupedIndex([1.0], [1], device=device)
    with pytest.raises(ValueError, match="arrays of 2 and of 1 elements"):
        lanetree.GroupedIndex([1, 2], [1], device=device)
    with pytest.raises(lanetree.errors.LengthMismatch, match="1 keys but 2 values"):
        lanetree.GroupedIndex([1], [1], [1, 2], device=device)
    index = lanetree.GroupedIndex([1, 2], [1, 2], device=device)
    with pytest.raises(ValueError, match="the groups .by. have 1 elements, but the keys have 2"):
        index.asof([1, 2], by=[1])
    with pytest.raises(TypeError, match="the groups .by. have dtype uint64, but int64 is needed"):
        index.asof([1], by=np.array([1], np.uint64))
    with pytest.raises(ValueError, match="direction is 'up', where"):
        index.asof([1], by=[1], direction="up")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a tolerance of -1 is below 0"):
        index.asof([1], by=[1], tolerance=-1)
    with pytest.raises(TypeError, match="a tolerance of 0.5 for keys of int64"):
        index.asof([1], by=[1], tolerance=0.5)
    with pytest.raises(TypeError, match="the keys have dtype float64, but int64 is needed"):
        index.asof(np.array([1.5]), by=[1])
    with pytest.raises(lanetree.errors.LengthMismatch):
        index.insert([1], [1], [1, 2])
    assert index.items()[2].tolist() == [0, 1]


def test_nulls_in_groups() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    by, keys = pyarrow.array([1, None, 1, 1]), pyarrow.array([10, 20, None, 40])
    with pytest.raises(ValueError, match="the groups .by. have 1 nulls"):
        lanetree.GroupedIndex(by, keys, device="cpu")
    index = lanetree.GroupedIndex(by, keys, device="cpu", nulls="skip")
    assert [array.tolist() for array in index.items()] == [[1, 1], [10, 40], [0, 3]]
    pandas = pytest.importorskip("pandas")
    # A NaN is missing in a Series, and a number elsewhere.
    floats = pandas.Series([1.5, np.nan, 3.5])
    with pytest.raises(ValueError, match="the keys have 1 nulls"):
        lanetree.GroupedIndex([1, 1, 1], floats, device="cpu")
    index = lanetree.GroupedIndex([1, 1, 1], floats, device="cpu", nulls="skip")
    assert [array.tolist() for array in index.items()] == [[1, 1], [1.5, 3.5], [0, 2]]
    assert index.asof(floats, by=[1, 1, 1]).found.tolist() == [True, False, True]
    assert index.asof(floats.to_numpy(), by=[1, 1, 1]).values.tolist() == [0, 2, 2]


def test_names_are_numbered_by_one_dictionary(device: str) -> None:
    """Codes that are made for each table alone mean different names."""
    pandas = pytest.importorskip("pandas")
    quotes = pandas.DataFrame({"at": [100, 120, 160], "stock": ["B", "A", "B"]})
    trades = pandas.DataFrame({"at": [130, 130, 130, 170], "stock": ["A", "B", "C", None]})
    named = trades.dropna()
    expected = pandas.merge_asof(named, quotes.assign(row=range(3)), on="at", by="stock")["row"]
    expected = [None if pandas.isna(row) else int(row) for row in expected] + [None]

    def rows(of_quotes: Any, of_trades: Any) -> list[int | None]:
        index = lanetree.GroupedIndex(of_quotes, quotes["at"], device=device)
        return [int(row) if has else None for row, has in zip(*index.asof(trades["at"], by=of_trades))]

    together = pandas.Series(pandas.factorize(pandas.concat([quotes["stock"], trades["stock"]]))[0])
    together = together.mask(together < 0).astype("Int64")
    assert rows(together[:3], together[3:]) == expected
    numbers = lanetree.StringIndex(quotes["stock"], device=device)
    by, is_known = numbers.get(trades["stock"])
    assert rows(numbers.get(quotes["stock"]).values, np.ma.array(by, mask=~is_known)) == expected
    assert rows(pandas.factorize(quotes["stock"])[0], pandas.factorize(trades["stock"])[0]) != expected
