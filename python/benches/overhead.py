"""What a call with one query takes the CPU, by method: microseconds, without the wait for a GPU's results.

    python python/benches/overhead.py                              # torch on the GPU, if there is one
    python python/benches/overhead.py --device cpu --json cpu.json # NumPy on the CPU

Medians over rounds of calls. "native" is the part in Rust alone: arrays that are imported and allocated before. The difference of a call
to it is what Python adds, with the import of the queries and the memory of the results.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from typing import Any, Callable

import numpy as np

import lanetree
from lanetree import _arrays


def measure(calls: dict[str, Callable[[], Any]], rounds: int, number: int, wait: Callable[[], Any]) -> list[dict[str, Any]]:
    rows = []
    for name, call in calls.items():
        for _ in range(number):
            call()
        wait()
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            for _ in range(number):
                call()
            times.append((time.perf_counter() - start) / number)
            # Between the rounds, so that a GPU's queue does not fill up.
            wait()
        seconds = statistics.median(times)
        rows.append({"what": name, "seconds": seconds})
        print(f"{name:<40}{seconds * 1e6:10.2f} us", flush=True)
    return rows


def calls_of(keys: Any, query: Any, out: tuple[Any, Any], device: lanetree.Device) -> dict[str, Callable[[], Any]]:
    index, numbers, multi = (kind(keys, device=device) for kind in (lanetree.Index, lanetree.Set, lanetree.MultiIndex))
    return {
        "Index.get": lambda: index.get(query),
        "Index.get, out=": lambda: index.get(query, out=out),
        "Index.contains": lambda: index.contains(query),
        "Index.searchsorted": lambda: index.searchsorted(query),
        "Index.predecessor": lambda: index.predecessor(query),
        "Index.successor": lambda: index.successor(query),
        "Index.asof": lambda: index.asof(query),
        "Index.asof, a tolerance": lambda: index.asof(query, tolerance=1),
        "Index.count_range": lambda: index.count_range(query, query),
        "Index.range": lambda: index.range(query, query),
        "Index.scan, 4": lambda: index.scan(query, 4),
        "Set.contains": lambda: numbers.contains(query),
        "MultiIndex.get": lambda: multi.get(query),
        "MultiIndex.count": lambda: multi.count(query),
    }


def on_gpu(n: int, device: lanetree.Device) -> tuple[dict[str, Callable[[], Any]], Callable[[], Any]]:
    import torch

    keys = torch.arange(n, device="cuda")
    query = torch.tensor([7], device="cuda")
    out = torch.empty(1, dtype=torch.int64, device="cuda"), torch.empty(1, dtype=torch.bool, device="cuda")
    calls = calls_of(keys, query, out, device)
    index = lanetree.Index(keys, device=device)
    column, on = index._on(query, None)
    values, found = (_arrays.empty(index.device, 1, dtype)._memory for dtype in (np.dtype(np.int64), np.dtype(np.bool_)))
    calls["native get"] = lambda: index._index.get(column._memory, (values, found, 0), on)
    calls["native searchsorted"] = lambda: index._index.rank(column._memory, False, values, on)
    other = torch.empty(1, dtype=torch.int64, device="cuda")
    calls["torch.searchsorted, out="] = lambda: torch.searchsorted(keys, query, out=other)
    calls["torch.from_dlpack of a result"] = lambda: torch.from_dlpack(index.searchsorted(query))
    return calls, torch.cuda.synchronize


def on_cpu(n: int, device: lanetree.Device) -> tuple[dict[str, Callable[[], Any]], Callable[[], Any]]:
    keys, query = np.arange(n), np.array([7])
    out = np.empty(1, np.int64), np.empty(1, np.bool_)
    calls = calls_of(keys, query, out, device)
    index = lanetree.Index(keys, device=device)
    calls["native get"] = lambda: index._index.get(query, (*out, 0))
    calls["native searchsorted"] = lambda: index._index.rank(query, False, out[0])
    calls["Index.get of a list"] = lambda: index.get([7])
    calls["key in Index"] = lambda: 7 in index
    calls["numpy.searchsorted"] = lambda: np.searchsorted(keys, query)
    return calls, lambda: None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], help="by default the GPU, if there is one")
    parser.add_argument("--log-n", type=int, default=20, help="log2 of the pairs")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--number", type=int, default=200, help="calls of a round")
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    device = lanetree.Device(options.device)
    print(device)
    calls, wait = (on_gpu if device.kind == "cuda" else on_cpu)(1 << options.log_n, device)
    record = {"device": device.description, "lanetree": lanetree.__version__, "python": platform.python_version()}
    rows = measure(calls, options.rounds, options.number, wait)
    seconds = {row["what"]: row["seconds"] for row in rows}
    for name, native in (("Index.get", "native get"), ("Index.get, out=", "native get"), ("Index.searchsorted", "native searchsorted")):
        rows.append({"what": f"{name}, above {native}", "seconds": seconds[name] - seconds[native]})
        print(f"{rows[-1]['what']:<40}{rows[-1]['seconds'] * 1e6:10.2f} us")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({**record, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
