"""Missing values: the table of docs/guide/python.md, for each class, source of arrays, and role, and against pandas and polars."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import lanetree

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

DTYPES = ["int64", "uint32", "uint64", "float64", "datetime64[ns]", "datetime64[us]", "timedelta64[ns]"]
#: What keys begin at: neighbours of it are one float64.
FAR = {"int64": 2**53, "uint64": 2**63, "datetime64[ns]": 2**53, "datetime64[us]": 2**53, "timedelta64[ns]": -(2**60)}
Items = list[Any]


def numbers(items: Items, dtype: str) -> np.ndarray:
    """Small numbers as keys, far from 0; what is missing is some key."""
    word = "uint64" if dtype == "uint64" else "int64"
    far = np.array([FAR.get(dtype, 0) + (0 if item is None else item) for item in items], word)
    return far.view(dtype) if np.dtype(dtype).kind in "mM" else far.astype(dtype)


def mask(items: Items) -> np.ndarray:
    return np.array([item is None for item in items], bool)


def objects(items: Items, dtype: str) -> list[Any]:
    made = numbers(items, dtype)
    return [None if item is None else number if np.dtype(dtype).kind in "mM" else number.item() for item, number in zip(items, made)]


def with_nat(items: Items, dtype: str) -> np.ndarray:
    made = numbers(items, dtype)
    made[mask(items)] = "NaT"
    return made


def nullable(items: Items, dtype: str) -> Any:
    """An extension array of pandas."""
    name = dtype.replace("ui", "UI").replace("int", "Int") if dtype[0] == "i" else dtype.replace("uint", "UInt").replace("float", "Float")
    made = pandas.array(numbers(items, dtype), dtype=name)
    made[mask(items)] = pandas.NA
    return made


def arrow(items: Items, dtype: str) -> Any:
    return pyarrow.array(numbers(items, dtype), mask=mask(items))


IS_TIME = {dtype: np.dtype(dtype).kind in "mM" for dtype in DTYPES}
#: How arrays with missing elements are made, and of which dtypes.
SOURCES: dict[str, tuple[Callable[[Items, str], Any], Callable[[str], bool]]] = {
    "numpy, NaT": (with_nat, lambda dtype: IS_TIME[dtype]),
    "numpy, masked": (lambda items, dtype: np.ma.array(numbers(items, dtype), mask=mask(items)), lambda dtype: True),
    "numpy, objects": (lambda items, dtype: np.array([*objects(items, dtype), 0], object)[:-1], lambda dtype: True),
    "list": (objects, lambda dtype: True),
    "list, NA": (lambda items, dtype: [pandas.NA if it is None else it for it in objects(items, dtype)], lambda dtype: True),
    "list, NaT": (lambda items, dtype: list(with_nat(items, dtype)), lambda dtype: IS_TIME[dtype]),
    "pandas, NaT": (lambda items, dtype: pandas.Series(with_nat(items, dtype)), lambda dtype: IS_TIME[dtype]),
    "pandas, NaN": (lambda items, dtype: pandas.Series(np.where(mask(items), np.nan, numbers(items, dtype))), lambda dtype: dtype == "float64"),
    "pandas, objects": (lambda items, dtype: pandas.Series(objects(items, dtype), dtype=object), lambda dtype: True),
    "pandas, nullable": (lambda items, dtype: pandas.Series(nullable(items, dtype)), lambda dtype: not IS_TIME[dtype]),
    "pandas, array": (nullable, lambda dtype: not IS_TIME[dtype]),
    "pandas, index": (lambda items, dtype: pandas.Index(nullable(items, dtype)), lambda dtype: not IS_TIME[dtype]),
    "pandas, Arrow": (lambda items, dtype: pandas.Series(pandas.arrays.ArrowExtensionArray(arrow(items, dtype))), lambda dtype: True),
    "polars": (lambda items, dtype: polars.Series(arrow(items, dtype)), lambda dtype: True),
    "pyarrow": (arrow, lambda dtype: True),
    "pyarrow, chunks": (lambda items, dtype: pyarrow.chunked_array([arrow(items[:2], dtype), arrow(items[2:], dtype)]), lambda dtype: True),
}
CASES = [(source, dtype) for source, (_, has) in SOURCES.items() for dtype in DTYPES if has(dtype)]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def made(request: pytest.FixtureRequest) -> tuple[Callable[[Items], Any], Callable[[Items], np.ndarray], str]:
    """What makes a source's arrays, what makes plain ones, and the dtype."""
    source, dtype = request.param
    return lambda items: SOURCES[source][0](items, dtype), lambda items: numbers(items, dtype), dtype


Made = tuple[Callable[[Items], Any], Callable[[Items], np.ndarray], str]
KEYS: Items = [5, None, 3, 9, None]


def test_a_missing_key_of_a_build(made: Made) -> None:
    of, plain, dtype = made
    keys = of(KEYS)
    kinds: list[Callable[..., Any]] = [lanetree.Index, lanetree.MultiIndex]
    is_list = isinstance(keys, list) or getattr(keys, "dtype", None) == object
    if np.dtype(dtype).kind != "f" and not is_list:
        kinds.append(lambda keys, rows=None, **how: lanetree.GroupedIndex(np.zeros(5, np.int64), keys, rows, **how))
    wanted: dict[str, Any] = {"key_dtype": dtype} if is_list else {}
    for kind in kinds:
        with pytest.raises(ValueError, match="the keys have 2 nulls, the first one in row 1: drop these rows, or build the index with nulls='skip'"):
            kind(keys, device="cpu", **wanted)
        for rows in (None, np.arange(5)):
            index = kind(keys, rows, device="cpu", nulls="skip", **wanted)
            got_keys, got = index.items()[-2:]
            assert index.key_dtype == plain(KEYS).dtype and got.tolist() == [2, 0, 3]
            assert got_keys.tolist() == plain([3, 5, 9]).tolist()
    with pytest.raises(ValueError, match="the keys have 2 nulls"):
        lanetree.Set(keys, device="cpu", **wanted)
    assert len(lanetree.Set(keys, device="cpu", nulls="skip", **wanted)) == 3
    for nulls, place in (("first", 0), ("last", 3)):
        for null_kind in (lanetree.Index, lanetree.MultiIndex):
            index = null_kind(keys, device="cpu", nulls=nulls, **wanted)
            order: Items = [2, 0, 3]
            order[place:place] = [4] if null_kind is lanetree.Index else [1, 4]
            assert index.values().tolist() == order and None in index


def test_a_missing_bound_of_an_interval(made: Made) -> None:
    of, plain, dtype = made
    starts, ends = of([1, None, 5, 7]), of([2, 3, None, 8])
    wanted: Any = {"key_dtype": dtype} if isinstance(starts, list) or getattr(starts, "dtype", None) == object else {}
    with pytest.raises(ValueError, match="the starts have 1 nulls, the first one in row 1"):
        lanetree.IntervalIndex(starts, ends, device="cpu", **wanted)
    with pytest.raises(ValueError, match="the ends have 1 nulls, the first one in row 2"):
        lanetree.IntervalIndex(plain([1, 2, 5, 7]), ends, device="cpu")
    index = lanetree.IntervalIndex(starts, ends, device="cpu", nulls="skip", **wanted)
    found = index.items()
    assert sorted(zip(*(column.tolist() for column in found))) == list(zip(plain([1, 7]).tolist(), plain([2, 8]).tolist(), [0, 3]))


def test_a_missing_value_of_a_build(made: Made) -> None:
    of, plain, dtype = made
    values, keys = of(KEYS), np.array([50, 20, 30, 90, 10])
    if isinstance(values, list) or getattr(values, "dtype", None) == object:
        pytest.skip("dtypes of lists of values are NumPy's")
    builds: list[Callable[..., Any]] = [
        lambda **how: lanetree.Index(keys, values, device="cpu", **how),
        lambda **how: lanetree.MultiIndex(keys, values, device="cpu", **how),
        lambda **how: lanetree.GroupedIndex(keys, keys, values, device="cpu", **how),
        lambda **how: lanetree.IntervalIndex(keys, keys, values, device="cpu", **how),
        lambda **how: lanetree.StringIndex([str(key) for key in keys], values, device="cpu", **how),
    ]
    if isinstance(values, pandas.Series) and values.dtype == np.float64:
        # A float holds NaN.
        assert all(np.isnan(build().items()[-1]).sum() == 2 for build in builds)
        return
    for build in builds:
        with pytest.raises(ValueError, match="the (values|rows) have 2 nulls, the first one in row 1"):
            build()
        got = build(nulls="skip").items()[-1]
        assert sorted(got.tolist()) == sorted(plain([5, 3, 9]).tolist()) and got.dtype == plain(KEYS).dtype
    index = lanetree.Index(keys, plain([1] * 5), device="cpu")
    for change in (index.insert, index.update):
        with pytest.raises(ValueError, match="the values have 2 nulls, the first one in row 1"):
            change(keys, values)
    assert np.unique(index.values()).size == 1


def test_a_missing_query_finds_nothing(made: Made, device: str) -> None:
    of, plain, dtype = made
    keys, asked = plain([5, 3, 9]), of([3, None, 4, None, 9])
    found = [True, False, False, False, True]
    index, multi = (kind(keys, np.array([50, 30, 90]), device=device) for kind in (lanetree.Index, lanetree.MultiIndex))
    numbers_alone = lanetree.Set(keys, device)
    whole = lambda it: [array.tolist() for array in it]
    assert whole(index.get(asked, default=-1)) == [[30, -1, -1, -1, 90], found]
    out = np.empty(5, np.int64), np.empty(5, np.bool_)
    index.get(asked, default=-1, out=out)
    assert whole(out) == [[30, -1, -1, -1, 90], found]
    assert whole(index.get(asked, default=-1, progress=lambda done, of: None)) == whole(out)
    index.asof(asked, default=-1, out=out)
    assert whole(out) == [[30, -1, 30, -1, 90], [True, False, True, False, True]]
    for it in (index, multi, numbers_alone):
        assert it.contains(asked).tolist() == found and None not in it and pandas.NA not in it and pandas.NaT not in it
        for call in (it.searchsorted, index.rank, index.lower_bound, index.upper_bound):
            with pytest.raises(ValueError, match="the queries have 2 nulls, the first one in row 1: a null has no rank"):
                call(asked)
        for call in (it.predecessor, it.successor):
            near, *values, has = call(asked)
            assert has.tolist() == [True, False, True, False, True]
            assert near[has].tolist() == plain([3, 3 if call == it.predecessor else 5, 9]).tolist()
            assert not near.view(f"u{near.itemsize}")[~has].any() and all(not value[~has].any() for value in values)
    assert np.asarray(index.scan(asked, 2).counts).tolist() == np.asarray(numbers_alone.scan(asked, 2).counts).tolist() == [2, 0, 2, 0, 1]
    assert index.scan(asked, 2).values.tolist() == [[30, 50], [0, 0], [50, 90], [0, 0], [90, 0]]
    assert multi.count(asked).tolist() == [1, 0, 0, 0, 1] and whole(multi.get(asked)) == [[0, 1, 1, 1, 1, 2], [30, 90]]
    assert whole(multi.first(asked, default=7)) == whole(multi.last(asked, default=7)) == [[30, 7, 7, 7, 90], found]
    with pytest.raises(KeyError):
        index[None]
    with pytest.raises(KeyError):
        multi[None]
    intervals = lanetree.IntervalIndex(keys, keys, device=device)
    assert intervals.count(asked).tolist() == [1, 0, 0, 0, 1] and whole(intervals.stab(asked)) == [[0, 1, 1, 1, 1, 2], [1, 2]]
    assert whole(intervals.most_specific(asked, default=7)) == [[1, 7, 7, 7, 2], found] and None not in intervals
    if np.dtype(dtype).kind != "f":
        offsets, near, rows = index.k_nearest(asked, 1)
        assert offsets.tolist() == [0, 1, 1, 2, 2, 3] and rows.tolist() == [30, 30, 90]
        grouped = lanetree.GroupedIndex(np.zeros(3, np.int64), keys, device=device)
        assert whole(grouped.asof(asked, by=np.zeros(5, np.int64), default=7)) == [[1, 7, 1, 7, 2], [True, False, True, False, True]]
        assert whole(grouped.get(asked, by=np.zeros(5, np.int64))) == [[1, 0, 0, 0, 2], found]


def test_a_missing_bound_is_an_empty_range(made: Made, device: str) -> None:
    of, plain, dtype = made
    keys = plain([5, 3, 9])
    index, multi, alone = lanetree.Index(keys, device=device), lanetree.MultiIndex(keys, device=device), lanetree.Set(keys, device)
    lows, highs = of([3, None, 4, None, 0]), of([9, 9, None, None, 5])
    for it in (index, multi, alone):
        assert it.count_range(lows, highs).tolist() == [3, 0, 0, 0, 2]
        assert it.range(lows, highs).offsets.tolist() == [0, 3, 3, 3, 3, 5]
    assert index.range(lows, highs).values.tolist() == [1, 0, 2, 1, 0]
    assert index.range_last(lows, highs, 1).offsets.tolist() == [0, 1, 1, 1, 1, 2]
    for it in (index, multi):
        assert it.range_join(lows, highs)[0].tolist() == [0, 0, 0, 4, 4]
        assert it.range_join(lows, highs, "anti").tolist() == [1, 2, 3] and it.range_join(lows, highs, "semi").tolist() == [0, 4]
    intervals = lanetree.IntervalIndex(keys, keys, device=device)
    assert intervals.count_overlap(lows, highs).tolist() == [3, 0, 0, 0, 2]
    assert intervals.overlap(lows, highs).offsets.tolist() == [0, 3, 3, 3, 3, 5]
    # As pandas says.
    frame = pandas.DataFrame({"low": [3, None, 4, None, 0], "high": [9, 9, None, None, 5]}, dtype="Int64")
    inside = frame.join(pandas.Series([5, 3, 9], name="key", dtype="Int64"), how="cross")
    inside["is"] = inside["key"].between(inside["low"], inside["high"]).fillna(False)
    assert inside.groupby(np.arange(15) // 3)["is"].sum().tolist() == index.count_range(lows, highs).tolist()


def test_joins_are_those_of_polars_and_pandas(made: Made, device: str) -> None:
    of, plain, dtype = made
    keys, asked = plain([5, 3, 9, 3]), [3, None, 4, None, 9]
    multi, probes = lanetree.MultiIndex(keys, device=device), of(asked)
    left = polars.DataFrame({"key": asked, "number": range(5)}, schema={"key": polars.Int64, "number": polars.Int64})
    right = polars.DataFrame({"key": [5, 3, 9, 3], "row": range(4)})
    for how in ("inner", "left", "semi", "anti"):
        theirs = left.join(right, on="key", how=how, maintain_order="left_right") if how in ("inner", "left") else left.join(right, on="key", how=how)
        got: Any = multi.join(probes, how)  # type: ignore[arg-type]
        assert (got if how in ("semi", "anti") else got[0]).tolist() == theirs["number"].to_list()
        if how in ("inner", "left"):
            has = got[2] if how == "left" else np.ones(got[1].size, bool)
            assert [int(row) if there else None for row, there in zip(got[1], has)] == theirs["row"].to_list()
    dropped = left.to_pandas().dropna().merge(right.to_pandas(), on="key")
    assert multi.join(probes)[0].tolist() == dropped["number"].tolist()
    if np.dtype(dtype).kind != "f":
        assert multi.band_join(probes, 1, "anti").tolist() == [1, 3]
    index = lanetree.Index(np.sort(keys), device=device)
    near = polars.DataFrame({"at": [None, None, 3, 4, 9]}).join_asof(polars.DataFrame({"at": [3, 3, 5, 9], "row": range(4)}), on="at")["row"]
    _, rows, found = index.asof_join(of([None, None, 3, 4, 9]))
    assert [int(row) if there else None for row, there in zip(rows, found)] == near.to_list()


@pytest.mark.parametrize("source", [source for source, dtype in CASES if dtype == "int64"])
def test_a_missing_group(source: str, device: str) -> None:
    of: Callable[[Items], Any] = lambda items: SOURCES[source][0](items, "int64")
    plain: Callable[[Items], np.ndarray] = lambda items: numbers(items, "int64")
    by, at = of([1, None, 1, 2]), np.array([10, 20, 30, 40])
    with pytest.raises(ValueError, match="the groups .by. have 1 nulls, the first one in row 1"):
        lanetree.GroupedIndex(by, at, device=device)
    index = lanetree.GroupedIndex(by, at, device=device, nulls="skip")
    assert index.items()[2].tolist() == [0, 2, 3]
    asked_by, asked = of([1, None, 2, None, 1]), np.array([15, 15, 50, 20, 30])
    frames = pandas.DataFrame({"at": asked, "by": [1, -1, 2, -1, 1], "n": range(5)}), pandas.DataFrame({"at": [10, 30, 40], "by": [1, 1, 2], "row": [0, 2, 3]})
    merged = pandas.merge_asof(frames[0].sort_values("at", kind="stable"), frames[1], on="at", by="by").sort_values("n")["row"]
    values, found = index.asof(asked, by=asked_by)
    assert [int(row) if there else None for row, there in zip(values, found)] == [None if pandas.isna(row) else int(row) for row in merged]
    assert index.get(asked, by=asked_by).found.tolist() == [False, False, False, False, True]
    left, rows = index.asof_join(asked, "inner", by=asked_by)
    assert left.tolist() == [0, 2, 4] and rows.tolist() == [0, 3, 2]
    for change in (index.insert, index.update):
        with pytest.raises(ValueError, match="the groups .by. have 1 nulls, the first one in row 1"):
            change(by, at, np.arange(4))
    with pytest.raises(ValueError, match="the groups .by. have 1 nulls"):
        index.remove(by, at)
    assert len(index) == 3 and index.get(10, by=plain([1])[0]).found


def test_a_missing_key_of_a_change_is_an_error(made: Made, device: str) -> None:
    of, plain, dtype = made
    for kind in (lanetree.Index, lanetree.MultiIndex, lanetree.Set):
        index: Any = kind(plain([5, 3]), device=device)
        calls = [(index.remove, ())] if kind is lanetree.Set else [(index.insert, (np.arange(5),)), (index.remove, ())]
        for call, values in calls:
            with pytest.raises(ValueError, match="the keys have 2 nulls, the first one in row 1: drop them"):
                call(of(KEYS), *values)
        assert len(index) == 2


@pytest.mark.parametrize("limit", [np.timedelta64("NaT"), np.timedelta64("NaT", "s"), pandas.NaT, pandas.NA, float("nan"), np.float32("nan")], ids=repr)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_missing_tolerance_is_an_error(dtype: str, limit: Any) -> None:
    keys = numbers([1, 2], dtype)
    index, calls = lanetree.Index(keys, device="cpu"), []
    calls += [lambda: index.asof(keys, tolerance=limit), lambda: index.asof_join(keys, tolerance=limit)]
    if np.dtype(dtype).kind != "f":
        grouped, multi = lanetree.GroupedIndex(keys, keys, device="cpu"), lanetree.MultiIndex(keys, device="cpu")
        calls += [lambda: index.k_nearest(keys, 1, tolerance=limit), lambda: grouped.asof(keys, by=keys, tolerance=limit)]
        calls += [lambda: grouped.asof_join(keys, by=keys, tolerance=limit), lambda: index.band_join(keys, limit)]
        calls += [lambda: multi.band_join(keys, limit), lambda: multi.band_join(keys, None)]
    for call in calls:
        with pytest.raises(ValueError, match="a (tolerance|distance) of .* is missing"):
            call()


def test_nan_is_missing_in_pandas_and_a_number_elsewhere(device: str) -> None:
    items = np.array([1.5, np.nan, -2.5])
    for keys in (items, items.tolist(), pyarrow.array(items, from_pandas=False), polars.Series(items), pandas.Series(items).to_numpy()):
        index = lanetree.Index(keys, device=device)
        assert len(index) == 3 and index.contains(keys).all() and index.join(keys, "semi").tolist() == [0, 1, 2]
    for keys in (pandas.Series(items), pandas.Index(items), np.ma.masked_invalid(items), pandas.Series(items, dtype="Float64")):
        with pytest.raises(ValueError, match="the keys have 1 nulls, the first one in row 1"):
            lanetree.Index(keys, device=device)
        assert len(lanetree.Index(keys, device=device, nulls="skip")) == 2
        assert lanetree.Index(items, device=device).contains(keys).tolist() == [True, False, True]
        assert lanetree.Index(items, device=device).join(keys, "anti").tolist() == [1]
        assert lanetree.Index(items, device=device).count_range(keys, np.full(3, np.inf)).tolist() == [1, 0, 2]
    # No distance is one from NaN, but from itself.
    floats = lanetree.Index(np.array([1.0, np.inf]), device=device)
    assert floats.asof([np.nan, 1.5, np.inf, 2.5], tolerance=1.0).found.tolist() == [False, True, True, False]
    assert lanetree.Index(np.array([1.0, np.nan]), device=device).asof([np.nan], tolerance=0).found.tolist() == [True]


@pytest.mark.filterwarnings("ignore:Warning. converting a masked element to nan")
def test_masked_elements_of_lists_are_missing() -> None:
    for dtype in DTYPES:
        keys = lanetree.Index(numbers([5, 3], dtype), device="cpu")
        asked = np.ma.array(numbers([5, 4, 3], dtype), mask=[False, True, False])
        if not IS_TIME[dtype]:
            assert keys.contains(list(asked)).tolist() == [True, False, True]
        assert not keys.contains(asked[1]) and not keys.contains(np.ma.masked) and keys.contains(asked[2])


def test_a_default_may_be_nat_or_nan() -> None:
    times = lanetree.Index([1], np.array([5], "M8[s]"), device="cpu")
    for nat in (np.datetime64("NaT"), pandas.NaT):
        assert np.isnat(times.get([2], default=nat).values).all() and np.isnat(times.get([None], default=nat).values).all()
    floats = lanetree.Index([1], [0.5], device="cpu")
    assert np.isnan(floats.get([None, 2], default=np.nan).values).all()
    for index in (times, floats):
        with pytest.raises(ValueError, match="the default is None, which"):
            index.get([1], default=None)


def test_what_an_index_gives_is_whole(tmp_path: Any) -> None:
    """NaT in arrays of a device is a key, and what is made of an index has it."""
    import pickle

    nat = np.array(["NaT", "2020-01-01"], "M8[s]")
    index = lanetree.Index(np.array([1, 2]), device="cpu", nulls="first")
    assert index.null_key == -(2**63)
    index = lanetree.Index(nat, device="cpu", nulls="first")
    index.save(tmp_path / "it")
    for again in (index.copy(), pickle.loads(pickle.dumps(index)), lanetree.Index.load(tmp_path / "it", "cpu")):
        assert again.items()[0].tobytes() == nat.tobytes() and again.nulls == "first" and None in again
    assert lanetree.Index(nat, device="cpu", nulls="skip").keys().tolist() == nat[1:].tolist()
    with pytest.raises(ValueError, match="the keys have 1 nulls, the first one in row 0"):
        lanetree.Index(nat, device="cpu")


def test_empty_columns_of_pandas_keep_their_dtype() -> None:
    for dtype in ("int64[pyarrow]", "uint32[pyarrow]", "timestamp[us][pyarrow]", "Int64", "int64", "datetime64[s]"):
        some = pandas.Series([1, 2]).astype(dtype)
        index = lanetree.Index(some, device="cpu")
        for empty in (some[[False, False]], some[:0]):
            assert lanetree.Index(empty, device="cpu").key_dtype == index.key_dtype
            assert index.get(empty).found.size == 0


def test_masks_of_valid_are_refused() -> None:
    with pytest.raises(ValueError, match="valid has masked elements"):
        lanetree.Index([1, 2], device="cpu").join([1, 2], valid=np.ma.array([True, True], mask=[False, True]))


WORDS: Items = ["b", None, "a", "c", None]
STRINGS: dict[str, Callable[[Items], Any]] = {
    "list": list,
    "list, NA": lambda items: [pandas.NA if item is None else item for item in items],
    "numpy, objects": lambda items: np.array(items, object),
    "numpy, masked": lambda items: np.ma.array([item or "?" for item in items], mask=mask(items)),
    "pandas": pandas.Series,
    "pandas, objects": lambda items: pandas.Series(items, dtype=object),
    "pandas, NaN": lambda items: pandas.Series([np.nan if item is None else item for item in items], dtype=object),
    "pandas, string": lambda items: pandas.Series(items, dtype="string"),
    "pandas, python": lambda items: pandas.Series(items, dtype=pandas.StringDtype("python")),
    "pandas, array": lambda items: pandas.array(items, dtype="string"),
    "pandas, Arrow": lambda items: pandas.Series(items, dtype=pandas.ArrowDtype(pyarrow.string())),
    "pandas, index": pandas.Index,
    "polars": polars.Series,
    "pyarrow": lambda items: pyarrow.array(items, pyarrow.string()),
    "pyarrow, chunks": lambda items: pyarrow.chunked_array([items[:2], items[2:]], pyarrow.large_string()),
}
if hasattr(np.dtypes, "StringDType"):
    STRINGS["numpy, None"] = lambda items: np.array(items, np.dtypes.StringDType(na_object=None))
    STRINGS["numpy, NaN"] = lambda items: np.array([np.nan if it is None else it for it in items], np.dtypes.StringDType(na_object=np.nan))


@pytest.mark.parametrize("source", STRINGS)
def test_missing_strings(source: str, device: str) -> None:
    of = STRINGS[source]
    with pytest.raises(ValueError, match="the keys have 2 nulls, the first one in row 1: drop these rows, or build the index with nulls='skip'"):
        lanetree.StringIndex(of(WORDS), device=device)
    index = lanetree.StringIndex(of(WORDS), device=device, nulls="skip")
    assert index.keys() == ["a", "b", "c"] and index.values().tolist() == [2, 0, 3]
    asked = of(["a", None, "b", "x", None])
    values, found = index.get(asked, default=-1)
    assert values.tolist() == [2, -1, 0, -1, -1] and found.tolist() == index.contains(asked).tolist() == [True, False, True, False, False]
    keys, values, has = index.predecessor(asked)
    assert keys == ["a", "", "b", "c", ""] and values.tolist() == [2, 0, 0, 3, 0] and has.tolist() == [True, False, True, True, False]
    assert index.successor(asked)[2].tolist() == [True, False, True, False, False]
    assert index.prefix(asked).offsets.tolist() == [0, 1, 1, 2, 2, 2]
    ranges = index.range(asked, of(["c", "c", None, "z", None]))
    assert ranges.offsets.tolist() == [0, 3, 3, 3, 3, 3] and ranges.keys == ["a", "b", "c"]
    with pytest.raises(ValueError, match="the queries have 2 nulls, the first one in row 1: a null has no rank"):
        index.searchsorted(asked)
    for call, values in ((index.insert, [np.arange(5)]), (index.update, [np.arange(5)]), (index.remove, [])):
        with pytest.raises(ValueError, match="the keys have 2 nulls, the first one in row 1: drop them"):
            call(asked, *values)
    assert None not in index and len(index) == 3
    with pytest.raises(KeyError):
        index[None]  # type: ignore[index]
    whole = lanetree.StringIndex(of(["b", "c", "a"]), device=device)
    assert whole.keys() == ["a", "b", "c"] and len(lanetree.StringIndex(of([None, None, None]), device=device, nulls="skip")) == 0
