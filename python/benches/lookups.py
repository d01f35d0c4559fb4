"""Look-ups compared with other libraries for Python: on a GPU torch and CuPy, on the CPU NumPy, pandas, polars and DuckDB where they are installed.

    python python/benches/lookups.py --json lookups.json            # the GPU, if there is one
    python python/benches/lookups.py --device cpu --json cpu.json

Every result is compared with NumPy's, or torch's, before its time counts. Times are medians; on a GPU by its events, over calls in one
stream, and on the CPU over rounds of all methods.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import time
from typing import Any, Callable

import numpy as np

import lanetree
from lanetree import _arrays


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def on_gpu(n: int, m: int, repeats: int, sorted_queries: bool) -> list[dict[str, Any]]:
    import torch

    generator = torch.Generator(device="cuda").manual_seed(1)
    keys = torch.unique(torch.randint(-(2**63), 2**63 - 1, (n,), device="cuda", generator=generator))
    values = torch.arange(keys.numel(), device="cuda")
    queries = keys[torch.randint(0, keys.numel(), (m,), device="cuda", generator=generator)]
    if sorted_queries:
        queries = queries.sort().values
    expected = torch.searchsorted(keys, queries)
    index = lanetree.Index(keys, values, is_sorted=True)
    rows: list[dict[str, Any]] = []

    def measure(name: str, call: Callable[[], Any], result: Callable[[Any], Any] | None) -> None:
        made = call()
        if result is not None and not torch.equal(result(made), expected):
            raise SystemExit(f"{name}: a wrong result")
        del made
        times = []
        for _ in range(repeats):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        seconds = statistics.median(times)
        rows.append({"what": name, "n": keys.numel(), "queries": m, "sorted": sorted_queries, "seconds": seconds, "rate": m / seconds})
        print(f"{name:<48}{seconds * 1e3:10.3f} ms {m / seconds / 1e9:8.2f} G/s", flush=True)

    # What the library for Rust does, without this package: a kernel, from and to memory that is there.
    column, on = index._on(queries, None)
    native = _arrays.empty(index.device, m, np.dtype(np.int64))
    measure("Rust's get alone", lambda: index._index.get(column._memory, (native._memory, None, 0), on), lambda _: torch.from_dlpack(native))
    del native, column
    out = torch.empty(m, dtype=torch.int64, device="cuda"), torch.empty(m, dtype=torch.bool, device="cuda")
    measure("lanetree get, out=", lambda: index.get(queries, out=out), lambda made: made[0])
    measure("lanetree get", lambda: index.get(queries), lambda made: torch.from_dlpack(made[0]))
    measure("lanetree searchsorted", lambda: index.searchsorted(queries), lambda made: torch.from_dlpack(made))
    measure("lanetree asof, a tolerance", lambda: index.asof(queries, tolerance=1), lambda made: torch.from_dlpack(made[0]))

    def gather() -> Any:
        at = torch.searchsorted(keys, queries).clamp_(max=keys.numel() - 1)
        return torch.where(keys[at] == queries, values[at], 0)

    measure("torch.searchsorted, gather", gather, lambda made: made)
    measure("torch.searchsorted", lambda: torch.searchsorted(keys, queries), lambda made: made)
    if installed("cupy"):
        import cupy

        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            theirs = cupy.from_dlpack(keys), cupy.from_dlpack(queries)
            measure("cupy.searchsorted", lambda: cupy.searchsorted(*theirs), lambda made: torch.from_dlpack(made))
    return rows


#: What is measured: a name, the call, and what makes an array of its result, in the order of the queries or not.
Method = tuple[str, Callable[[], Any], Callable[[Any], Any]]


def alternate(methods: list[Method], expected: np.ndarray, what: str, repeats: int) -> list[dict[str, Any]]:
    """Medians over rounds of all methods, one after another, so that what else the machine does meets all alike.

    "cpu" is the time of all threads together: what a busy machine takes away is not in it.
    """
    for name, call, result in methods:
        got = np.asarray(result(call()))
        if not (np.array_equal(got, expected) or "duckdb" in name and np.array_equal(np.sort(got), np.sort(expected))):
            raise SystemExit(f"{name}: a wrong result")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in methods}
    for _ in range(repeats):
        for name, call, _ in methods:
            start, used = time.perf_counter(), time.process_time()
            call()
            times[name].append((time.perf_counter() - start, time.process_time() - used))
    rows = []
    for name, measured in times.items():
        walls, cpus = zip(*measured)
        seconds, cpu = statistics.median(walls), statistics.median(cpus)
        rows.append({"what": what, "method": name, "queries": expected.size, "seconds": seconds, "least": min(walls), "most": max(walls), "cpu": cpu})
        print(f"{what:<16}{name:<30}{seconds * 1e3:10.2f} ms, {min(walls) * 1e3:10.2f} at least, {cpu * 1e3:10.2f} of CPU", flush=True)
    return rows


def on_cpu(n: int, m: int, repeats: int, only: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    keys = np.unique(rng.integers(-(2**62), 2**62, n))
    values = np.arange(keys.size)
    index = lanetree.Index(keys, values, device="cpu", is_sorted=True)
    queries = keys[rng.integers(0, keys.size, m)]
    # The row of the last key that is not above; all have one.
    at = np.sort(rng.integers(int(keys[0]), 2**62, m))
    rows: list[dict[str, Any]] = []
    for what, asked in (("get, random", queries), ("get, sorted", np.sort(queries))):
        if only not in what:
            continue
        methods: list[Method] = [
            ("lanetree", lambda: index.get(asked), lambda made: made[0]),
            ("numpy.searchsorted, take", lambda: values[np.searchsorted(keys, asked)], lambda made: made),
        ]
        if installed("pandas"):
            import pandas

            table = pandas.Index(keys)
            methods.append(("pandas.Index.get_indexer", lambda: table.get_indexer(asked), lambda made: made))
        rows += alternate(methods, np.searchsorted(keys, asked), what, repeats)
    if only not in "as-of":
        return [{"n": keys.size, **row} for row in rows]
    methods = [
        ("lanetree", lambda: index.asof(at), lambda made: made[0]),
        ("numpy.searchsorted, take", lambda: values[np.searchsorted(keys, at, "right") - 1], lambda made: made),
    ]
    if installed("pandas"):
        import pandas

        frames = pandas.DataFrame({"at": at}), pandas.DataFrame({"at": keys, "value": values})
        methods.append(("pandas.merge_asof", lambda: pandas.merge_asof(*frames, on="at"), lambda made: made["value"]))
    if installed("polars"):
        import polars

        left, right = polars.DataFrame({"at": at}), polars.DataFrame({"at": keys, "value": values})
        left, right = left.set_sorted("at"), right.set_sorted("at")
        methods.append(("polars.DataFrame.join_asof", lambda: left.join_asof(right, on="at"), lambda made: made["value"]))
    if installed("duckdb"):
        import duckdb
        import pyarrow

        database = duckdb.connect()
        database.register("trades", pyarrow.table({"at": at}))
        database.register("quotes", pyarrow.table({"at": keys, "value": values}))
        query = "select value from trades asof join quotes on trades.at >= quotes.at"
        methods.append(("duckdb, asof join", lambda: database.execute(query).fetchnumpy(), lambda made: made["value"]))
    rows += alternate(methods, np.searchsorted(keys, at, "right") - 1, "as-of, sorted", repeats)
    rows += in_groups(keys.size, m, repeats)
    return [{"n": keys.size, **row} for row in rows]


#: Groups of the as-of joins.
GROUPS = 1 << 13


def in_groups(n: int, m: int, repeats: int) -> list[dict[str, Any]]:
    """As-of joins by group, probes and quotes sorted by group and time. pandas has its tables in the order of time, as it asks for."""
    rng = np.random.default_rng(2)

    def columns(count: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.unique(rng.integers(0, GROUPS << 32, count, dtype=np.uint64))
        return (rows >> np.uint64(32)).astype(np.uint32), rows.astype(np.uint32)

    quotes, trades = columns(n), columns(m)
    whole = [by.astype(np.uint64) << np.uint64(32) | at for by, at in (quotes, trades)]
    row = np.searchsorted(whole[0], whole[1], "right") - 1
    expected = np.where((row >= 0) & (quotes[0][row] == trades[0]), row, -1)
    values = np.arange(quotes[0].size)
    index = lanetree.GroupedIndex(*quotes, values, device="cpu")
    filled = lambda column: np.asarray(column.fill_null(-1) if hasattr(column, "fill_null") else column)
    methods: list[Method] = [("lanetree", lambda: index.asof(trades[1], by=trades[0], default=-1), lambda made: made[0])]
    tables = [{"by": by, "at": at} for by, at in (trades, quotes)]
    tables[1]["value"] = values
    if installed("pandas"):
        import pandas

        order = np.argsort(trades[1], kind="stable")
        frames = [pandas.DataFrame(table).sort_values("at", kind="stable") for table in tables]

        def by_row(made: Any) -> np.ndarray:
            found = np.empty(order.size, np.int64)
            found[order] = made["value"].fillna(-1)
            return found

        methods.append(("pandas.merge_asof", lambda: pandas.merge_asof(*frames, on="at", by="by"), by_row))
    if installed("polars"):
        import polars

        left, right = (polars.DataFrame(table) for table in tables)
        join = lambda: left.join_asof(right, on="at", by="by", check_sortedness=False)
        methods.append(("polars.DataFrame.join_asof", join, lambda made: filled(made["value"])))
    if installed("duckdb"):
        import duckdb
        import pyarrow

        database = duckdb.connect()
        database.register("trades", pyarrow.table(tables[0]))
        database.register("quotes", pyarrow.table(tables[1]))
        query = "select coalesce(value, -1) as value from trades asof left join quotes on trades.by = quotes.by and trades.at >= quotes.at"
        methods.append(("duckdb, asof join", lambda: database.execute(query).fetchnumpy(), lambda made: made["value"]))
    return alternate(methods, expected, "as-of, by group", repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], help="by default the GPU, if there is one")
    parser.add_argument("--log-n", type=int, nargs="+", help="log2 of the pairs, and of the queries: 26 on a GPU, 20 and 24 on the CPU")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT", help="on the CPU: only look-ups whose names contain this, such as get or as-of")
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    device = lanetree.Device(options.device)
    sizes = options.log_n or ([26] if device.kind == "cuda" else [20, 24])
    print(device)
    names = ("numpy", "torch", "cupy", "pandas", "polars", "duckdb", "pyarrow")
    record: dict[str, Any] = {"device": device.description, "lanetree": lanetree.__version__, "python": platform.python_version()}
    record["versions"] = {name: importlib.metadata.version(name) for name in names if installed(name) and name != "cupy"}
    record["rows"] = []
    if device.kind == "cuda":
        if installed("cupy"):
            record["versions"]["cupy"] = __import__("cupy").__version__
        for size in sizes:
            for is_sorted in (False, True):
                record["rows"] += on_gpu(1 << size, 1 << size, options.repeats, is_sorted)
    else:
        cores = sorted(os.sched_getaffinity(0))
        model = next((line.partition(": ")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
        record.update(cpu=model, cores=len(cores), load_before=os.getloadavg(), repeats=options.repeats)
        for size in sizes:
            record["rows"] += on_cpu(1 << size, 1 << size, options.repeats, options.only)
        record["load_after"] = os.getloadavg()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
