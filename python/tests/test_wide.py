"""Keys of 16 bytes, UUIDs, IPv6 addresses, decimals and byte strings, against Python's own objects."""

from __future__ import annotations

import bisect
import decimal
import ipaddress
import pickle
import random
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import lanetree

from conftest import DEVICES

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

#: The object of a number of 128 bits, in whose order they are.
KINDS: dict[str, Callable[[int], Any]] = {
    "uuid": lambda n: uuid.UUID(int=n),
    "ipv6": ipaddress.IPv6Address,
    "bytes": lambda n: n.to_bytes(16, "big"),
    "decimal": lambda n: decimal.Context(prec=50).scaleb(Decimal(n - 2**127), -3),
}
BITS = {kind: 128 if kind != "decimal" else 126 for kind in KINDS}
OPTIONS: dict[str, dict[str, Any]] = {"bytes": {"key_dtype": "V16"}}


def numbers(kind: str, count: int = 90) -> list[int]:
    """Distinct numbers, of which some differ in one bit, and the ends."""
    made = random.Random(7)
    middle = 0 if kind != "decimal" else 2**127
    near = [middle + (1 << bit) for bit in range(0, BITS[kind], 9)]
    ends = [0, 2**128 - 1] if kind != "decimal" else []
    return list(dict.fromkeys([*(made.getrandbits(BITS[kind]) + middle // 2 for _ in range(count)), *near, *ends]))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_index_is_a_sorted_list(kind: str, device: str) -> None:
    of, words = KINDS[kind], numbers(kind)
    keys, order = [of(n) for n in words], sorted(words)
    index = lanetree.Index(keys, device=device, **OPTIONS.get(kind, {}))
    assert index.dtype == np.dtype("V16") and list(index) == [of(n) for n in order] == list(reversed(index))[::-1]
    assert (index.min(), index.max()) == (of(order[0]), of(order[-1])) and index.first() == (index.min(), words.index(order[0]))
    asked = words + [n ^ 1 for n in words]
    queries, ranks = [of(n) for n in asked], [bisect.bisect_left(order, n) for n in asked]
    assert index.searchsorted(queries).tolist() == ranks
    assert index.searchsorted(queries, "right").tolist() == [bisect.bisect_right(order, n) for n in asked]
    assert index.contains(queries).tolist() == [n in words for n in asked] == [query in index for query in queries]
    values, found = index.get(queries)
    assert values.tolist() == [words.index(n) if n in words else 0 for n in asked] and found.tolist() == [n in words for n in asked]
    near, rows, has = index.successor(queries)
    expected = [order[rank] if rank < len(order) else None for rank in ranks]
    assert [it if there else None for it, there in zip(lanetree.objects(near), has)] == [None if n is None else of(n) for n in expected]
    assert [int(row) if there else None for row, there in zip(rows, has)] == [None if n is None else words.index(n) for n in expected]
    assert index.asof(queries, direction="forward").values[has].tolist() == rows[has].tolist()
    # One key alone: an object.
    assert index.predecessor(queries[0])[0] == queries[0] and index[queries[0]] == 0
    low, high = of(order[5]), of(order[-6])
    part = index[low:high]
    assert list(part) == [of(n) for n in order[5:-5]] and len(index[:low]) == 6
    for inclusive, count in (("both", len(order) - 10), ("left", len(order) - 11), ("neither", len(order) - 12)):
        offsets, between, _ = index.range([low], [high], inclusive=inclusive)
        assert offsets.tolist() == [0, count] and index.count_range([low], [high], inclusive=inclusive).tolist() == [count]
        assert lanetree.objects(between) == [of(n) for n in order[5 + (inclusive == "neither") : len(order) - 5 - (inclusive != "both")]]
    assert lanetree.objects(index.range_last([low], [high], 2).keys) == [of(order[-6]), of(order[-7])]
    assert lanetree.objects(index.scan([low], 2).keys[0]) == [low, of(order[6])]
    left, found_rows = index.join(queries, "inner")
    assert left.tolist() == [at for at, n in enumerate(asked) if n in words] and found_rows.tolist() == [words.index(n) for n in asked if n in words]
    left, matched, _ = index.range_join([low], [of(order[6])])
    assert left.tolist() == [0, 0] and lanetree.objects(matched) == [low, of(order[6])]
    assert index.aggregate([low], [high], "max").values.tolist() == [max(words.index(n) for n in order[5:-5])]


def test_changes_and_sets(kind: str, device: str) -> None:
    of, words = KINDS[kind], numbers(kind)
    options = OPTIONS.get(kind, {})
    keys = [of(n) for n in words]
    index = lanetree.Index(keys[:50], device=device, **options)
    assert index.insert(keys[40:60], np.arange(20)).inserted == 10 and index.update(keys[:1], [99]).replaced == 1
    assert index.remove(keys[1:3]).removed == 2 and index.get(keys[:4]).values.tolist() == [99, 0, 0, 3]
    some, more = lanetree.Set(keys[:50], device, **options), lanetree.Set(keys[40:], device, **options)
    assert len(some | more) == len(keys) and list(some & more) == sorted(keys[40:50], key=lambda key: words[keys.index(key)])
    assert list(some - more)[0] == of(min(words[:40]))
    several = lanetree.MultiIndex(keys + keys[:2], device=device, **options)
    assert several.get(keys[:3]).offsets.tolist() == [0, 2, 4, 5] and several.count(keys[0]) == 2 and several.min() == of(min(words))
    assert several.remove(keys[:1]).removed == 2 and keys[0] not in several and list(several) == sorted(several, key=lambda key: words[keys.index(key)])
    assert lanetree.objects(several.predecessor(keys[1:2])[0]) == keys[1:2]


def test_copies_and_files(kind: str, device: str, tmp_path: Path) -> None:
    keys, options = [KINDS[kind](n) for n in numbers(kind)], OPTIONS.get(kind, {})
    for name in ("Index", "Set", "MultiIndex"):
        index = getattr(lanetree, name)(keys, device=device, **options)
        index.save(tmp_path / "index")
        # As the Rust library names the type of such keys.
        assert b"bytes16" in (tmp_path / "index").read_bytes()[:256]
        for again in (pickle.loads(pickle.dumps(index)), index.copy(), index.to("cpu"), lanetree.load(tmp_path / "index", "cpu")):
            assert again == index and list(again) == list(index) and keys[3] in again
    intervals = lanetree.IntervalIndex(keys, keys, device=device, **options)
    intervals.save(tmp_path / "intervals")
    for again in (pickle.loads(pickle.dumps(intervals)), lanetree.load(tmp_path / "intervals", "cpu")):
        assert again == intervals and list(again) == list(intervals) and keys[3] in again


def test_nulls(kind: str, device: str) -> None:
    words = [n for n in numbers(kind) if n not in (0, 2**128 - 1)]
    keys, options = [KINDS[kind](n) for n in words], OPTIONS.get(kind, {})
    with pytest.raises(ValueError, match="the keys have 1 nulls, the first one in row 0"):
        lanetree.Index([None, *keys], device=device, **options)
    assert lanetree.Index([None, *keys], device=device, nulls="skip", **options).get([keys[2], None]).found.tolist() == [True, False]
    for nulls in ("first", "last"):
        index = lanetree.Index([keys[0], None, *keys[1:]], device=device, nulls=nulls, **options)
        assert index[None] == 1 and index.min() == KINDS[kind](min(words)) and index.max() == KINDS[kind](max(words))
        assert pyarrow.array(index).null_count == 1 and index.searchsorted([None]).tolist() == [0 if nulls == "first" else len(keys)]
        end = index.null_key
        with pytest.raises(ValueError, match=r"keys\[0\] is .*, which stands for nulls here"):
            index.insert(np.array([end], "V16").view(index.dtype), [5])
        assert index.copy() == index and index.remove([None]).removed == 1


def test_intervals(kind: str, device: str) -> None:
    of, order = KINDS[kind], sorted(numbers(kind))
    options = OPTIONS.get(kind, {})
    bounds = [(order[4], order[40]), (order[10], order[20]), (order[12], order[12])]
    starts, ends = ([of(bound[at]) for bound in bounds] for at in (0, 1))
    for closed in ("both", "left", "right", "neither"):
        index = lanetree.IntervalIndex(starts, ends, device=device, closed=closed, **options)
        points = [order[at] + by for at in (4, 10, 12, 20, 40) for by in (-1, 0, 1)]
        inside = [
            [row for row, (low, high) in enumerate(bounds) if (low < at or low == at and closed in ("both", "left")) and (at < high or high == at and closed in ("both", "right"))]
            for at in points
        ]
        offsets, rows = index.stab([of(at) for at in points])
        assert [sorted(rows[a:b].tolist()) for a, b in zip(offsets, offsets[1:])] == inside, closed
        assert index.count([of(at) for at in points]).tolist() == [len(item) for item in inside]
    assert next(iter(lanetree.IntervalIndex(starts, ends, device=device, **options)))[:2] == (of(order[12]), of(order[12]))
    open_ended = lanetree.IntervalIndex([None, starts[1]], [ends[0], None], device=device, nulls="open", **options)
    assert open_ended.count([of(order[0]), of(order[-1]), of(order[15])]).tolist() == [1, 1, 2]
    with pytest.raises(lanetree.errors.ReversedRange, match=re.escape(f"range 0 starts at {ends[0]} and ends at {starts[0]}")):
        lanetree.IntervalIndex(ends[:1], starts[:1], device=device, **options)


def test_columns_out() -> None:
    ids = [uuid.UUID(int=n) for n in numbers("uuid")]
    made = pyarrow.array(lanetree.Set(ids, "cpu"))
    assert made.type == pyarrow.uuid() and made.to_pylist() == sorted(ids)
    assert polars.Series(lanetree.Set(ids, "cpu")).to_list() == [item.bytes for item in sorted(ids)]
    amounts = pyarrow.array([Decimal("1.25"), Decimal("-3"), Decimal("99999999999999999999.99")], pyarrow.decimal128(30, 2))
    index = lanetree.Index(amounts, device="cpu")
    assert pyarrow.array(index).type == amounts.type and pyarrow.array(index).to_pylist() == sorted(amounts.to_pylist())
    assert polars.Series(index).to_list() == sorted(amounts.to_pylist()) and polars.Series(index).dtype == polars.Decimal(30, 2)
    assert index.get(index.keys()).values.tolist() == [1, 0, 2] and index.get(list(index.keys())).found.all()
    home = lanetree.Set([ipaddress.IPv6Address("::1")], "cpu")
    assert pyarrow.array(home).type == pyarrow.binary(16) and "::1" in home and home.keys().tolist() == [ipaddress.IPv6Address("::1").packed]


def test_frames_of_uuids_and_decimals() -> None:
    ids, amounts = [uuid.UUID(int=n) for n in (3, 1, 2)], [Decimal("1.50"), Decimal("-2.00"), Decimal("0.00")]
    for keys, dtype in ((ids, pyarrow.uuid()), (amounts, pyarrow.decimal128(9, 2))):
        stored = keys if dtype != pyarrow.uuid() else [key.bytes for key in keys]
        left = pyarrow.table({"key": pyarrow.array([*stored, None], dtype), "row": range(4)})
        right = pyarrow.table({"key": pyarrow.array(stored[:0:-1], dtype), "other": [2, 1]})
        made = lanetree.merge(left, right, "left", on="key")
        assert made["other"].to_pylist() == [None, 1, 2, None] and made.schema.field("key").type == dtype
        frames = [pandas.DataFrame({"key": keys, "row": range(3)}), pandas.DataFrame({"key": keys[:0:-1], "other": [2, 1]})]
        assert lanetree.merge(*frames, on="key")["other"].tolist() == [1, 2]
        assert lanetree.lookup(frames[0]["key"], frames[1], on="key", column="other").tolist()[1:] == [1, 2]


def test_decimals_are_exact_or_refused() -> None:
    index = lanetree.Index([Decimal("1.5"), Decimal("-0.25"), Decimal(100)], device="cpu")
    assert list(index) == [Decimal("-0.25"), Decimal("1.50"), Decimal("100.00")] and index.get([Decimal("1.500"), 100, "-0.25"]).values.tolist() == [0, 2, 1]
    for same in (pyarrow.array([Decimal("1.5")], pyarrow.decimal128(20, 7)), polars.Series([Decimal("1.5")]), pandas.Series([Decimal("1.50")]), pyarrow.array([Decimal("1.5"), None], pyarrow.decimal128(3, 1))):
        assert index.get(same).found.tolist() == [True, False][: len(same)]
    assert index.get(np.array([100, 3])).found.tolist() == [True, False] and Decimal("1.505") not in index and 1.5 not in index
    assert index.asof([Decimal("1.6")], direction="nearest", tolerance=Decimal("0.1")).found.all()
    assert not index.asof([Decimal("1.61")], direction="nearest", tolerance=Decimal("0.1")).found.any()
    assert index.band_join([Decimal("99.99")], Decimal("0.01")).values.tolist() == [2]
    with pytest.raises(ValueError, match="the queries: 1.505 has more than 2 digits after the point"):
        index.get([Decimal("1.505")])
    with pytest.raises(ValueError, match="has more than 2 digits"):
        index.get(pyarrow.array([Decimal("1.505")]))
    with pytest.raises(OverflowError, match="is out of the range of decimals of 38 digits, 2 of them"):
        index.get([10**37])
    with pytest.raises(OverflowError, match="a tolerance of 184467440737095517 is"):
        index.asof([1], tolerance=Decimal(184467440737095517))
    for built in ([Decimal("NaN")], [Decimal("-Infinity")], [Decimal("NaN"), Decimal("1.5")]):
        with pytest.raises(ValueError, match="is no decimal of at most 38 digits"):
            lanetree.Set(built, "cpu")
    with pytest.raises(ValueError, match="a decimal has 60 digits after the point, where keys have 38 at most"):
        lanetree.Set([Decimal("1e-60")], "cpu")
    with pytest.raises(OverflowError, match="is out of the range of decimals of 38 digits"):
        lanetree.Set([Decimal(10) ** 38], "cpu")
    for wrong in (Decimal("NaN"), Decimal("Infinity"), "one", Decimal("1.5" + "0" * 200 + "1"), Decimal("1e400")):
        with pytest.raises(ValueError, match="is no decimal of at most 38 digits"):
            index.get([wrong])
    with pytest.raises(TypeError, match="1.5 is no decimal"):
        index.get([1.5])
    with pytest.raises(ValueError, match="a tolerance of .* is below 0"):
        index.asof([1], tolerance=Decimal("-0.01"))


def test_what_is_no_key() -> None:
    ids, homes = lanetree.Index([uuid.UUID(int=5)], device="cpu"), lanetree.Set(["::1"], "cpu", key_dtype=lanetree.Set([ipaddress.IPv6Address(1)], "cpu").dtype)
    assert str(uuid.UUID(int=5)) in ids and uuid.UUID(int=5).bytes in ids and 5 not in ids and "five" not in ids and b"\0" * 15 + b"\5" in ids
    assert ipaddress.IPv6Address(1) in homes and ipaddress.IPv4Address(1) not in homes and uuid.UUID(int=1) not in homes and b"\1" not in homes
    for wrong, says in (
        ([ipaddress.IPv6Address(5)], "where UUIDs are needed"),
        (homes.keys(), "the queries are IPv6 addresses, where UUIDs are needed: convert them"),
        (np.array([5]), "the queries are elements of dtype int64, where UUIDs are needed: convert them"),
        (pyarrow.array([Decimal(5)]), "the queries are decimals with 0 digits after the point, where UUIDs are needed"),
        (pandas.Series(["a"]), "strings"),
    ):
        with pytest.raises(TypeError, match=says):
            ids.get(wrong)
    with pytest.raises(TypeError, match="where UUIDs are needed"):
        ids.get(list(lanetree.Set([Decimal(5)], "cpu").keys()))
    with pytest.raises(ValueError, match="no elements of 16 bytes"):
        lanetree.asarray(ids.keys(), "emulated" if "emulated" in DEVICES else "cuda:0")
    with pytest.raises(TypeError, match="keys is a Set, where an array of NumPy or a list is needed"):
        lanetree.objects(homes)
    with pytest.raises(ValueError, match="has 3 bytes, where 16 are needed"):
        ids.get([b"abc"])
    with pytest.raises(ValueError, match="'five', where UUIDs are needed"):
        ids.get("five")
    with pytest.raises(ValueError, match="has a scope"):
        homes.contains([ipaddress.IPv6Address("fe80::1%eth0")])
    with pytest.raises(TypeError, match="the keys are IPv6 addresses here and UUIDs there"):
        homes | lanetree.Set([uuid.UUID(int=5)], "cpu")
    with pytest.raises(TypeError, match="has 16 bytes, where int64 is needed"):
        lanetree.Index([1], device="cpu").get([uuid.UUID(int=5)])
    with pytest.raises(TypeError, match="values are UUIDs, which are keys of Index, Set, MultiIndex and IntervalIndex alone"):
        lanetree.Index([1], [uuid.UUID(int=5)], "cpu")
    with pytest.raises(TypeError, match="keys in groups are UUIDs, which are keys of"):
        lanetree.GroupedIndex([1], [uuid.UUID(int=5)], device="cpu")
    with pytest.raises(lanetree.errors.NotSorted, match=re.escape(f"keys[1] = {uuid.UUID(int=4)} is below keys[0] = {uuid.UUID(int=5)}")):
        lanetree.Index([uuid.UUID(int=5), uuid.UUID(int=4)], device="cpu", is_sorted=True)


def test_columns_that_are_no_multiple_of_16_bytes_from_the_start() -> None:
    raw = np.zeros(16 * 4 + 8, np.uint8)
    raw[8:] = np.frombuffer(b"".join(n.to_bytes(16, "big") for n in (3, 1, 2, 9)), np.uint8)
    index = lanetree.Index(raw[8:].view("V16"), device="cpu")
    assert index.keys().tolist() == [n.to_bytes(16, "big") for n in (1, 2, 3, 9)]
    assert index.get(raw[8:].view("V16")[::-2]).values.tolist() == [3, 1] and index.get(pyarrow.array([bytes(16), (9).to_bytes(16, "big")], pyarrow.binary(16))[1:]).values.tolist() == [3]
