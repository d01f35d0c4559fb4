"""Threads, signals, forked children, memory of other libraries, memory that is lacking, and the end of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any, Callable

import numpy as np
import pytest

import lanetree
from lanetree import _arrays, _native

from conftest import DEVICES

emulated = pytest.mark.skipif("emulated" not in DEVICES, reason="the wheel has no emulator")


def run(code: str, *arguments: str) -> str:
    """What a program prints, in a process of its own that may hang or abort."""
    made = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *arguments], timeout=120, capture_output=True, text=True)
    assert made.returncode == 0, f"{made.returncode}: {made.stdout}{made.stderr}"
    return made.stdout


def test_indexes_are_combined_while_others_change_them() -> None:
    run("""
        import os, threading, time
        import lanetree

        a, b = (lanetree.Index([1, 2, 3], [1, 2, 3], device="cpu") for _ in range(2))
        end = time.monotonic() + 4

        def repeat(call):
            while time.monotonic() < end:
                call()

        calls = [lambda: a.union(a), lambda: a.intersection(a), lambda: a.difference(a), lambda: a.union(b), lambda: b.union(a)]
        calls += [lambda: a.insert([1], [2]), lambda: b.insert([1], [2])] * 2
        threads = [threading.Thread(target=repeat, args=(call,), daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        os._exit(any(thread.is_alive() for thread in threads))
    """)


def test_outputs_that_share_memory_are_refused(device: str) -> None:
    index = lanetree.Index(np.arange(8), np.arange(8), device=device)
    queries, room = np.arange(8), np.zeros(16, np.int64)
    hits = room.view(np.bool_)
    calls: list[Callable[..., Any]] = [index.get, index.asof]
    for call in calls:
        with pytest.raises(ValueError, match=r"out\[1\] shares memory with out\[0\]"):
            call(queries, out=(room[:8], hits[56:64]))
        with pytest.raises(ValueError, match=r"out\[1\] shares memory with the queries"):
            call(room[:8], out=(np.zeros(8, np.int64), hits[8:16]))
        with pytest.raises(ValueError, match=r"out\[0\] shares memory with the queries"):
            call(room[1:9], out=(room[:8], np.zeros(8, np.bool_)))
        values, found = out = room[:8], hits[64:72]
        assert call(queries, out=out) is out and values.tolist() == list(range(8)) and found.all()
    with pytest.raises(ValueError, match="out shares memory with the queries"):
        index.contains(room[:8], out=hits[:8])
    with pytest.raises(ValueError, match="out shares memory with the queries"):
        index.searchsorted(room[:8], out=room[7:15])


class Room:
    """Memory in which arrays of the emulated device begin at multiples of 256 bytes, as views of another library's tensor do."""

    def __init__(self, size: int) -> None:
        made = np.zeros(size + 256, np.uint8)
        self.bytes = made[-made.ctypes.data % 256 :][:size]
        self.device = lanetree.Device("emulated")
        self.stream = _native.Stream(self.device._native)

    def view(self, start: int, size: int, dtype: str = "int64") -> lanetree.Array:
        array = self.bytes[start : start + size * np.dtype(dtype).itemsize].view(dtype)
        return lanetree.Array(_native.dlpack_import(array.__dlpack__(), self.stream, False)[0], array.dtype, self.device)


@emulated
def test_arrays_on_a_device_that_share_memory_are_refused_where_one_is_written() -> None:
    room = Room(2048)
    index = lanetree.Index(lanetree.asarray(np.arange(64), "emulated"), lanetree.asarray(np.arange(64), "emulated"))
    queries = lanetree.asarray(np.arange(64), "emulated")
    overlap = "two arrays of a call, or of calls in two threads, share memory"
    values, found, apart = room.view(0, 64), room.view(256, 64, "bool"), room.view(512, 64, "bool")
    calls: list[Callable[..., Any]] = [index.get, index.asof]
    for call in calls:
        with pytest.raises(ValueError, match=overlap):
            call(queries, out=(values, found))
        with pytest.raises(ValueError, match=overlap):
            call(room.view(256, 64), out=(values, apart))
        assert call(queries, out=(values, apart))[0].numpy().tolist() == list(range(64))
    with pytest.raises(ValueError, match=f"{overlap}: one of 64 bytes at 0x.*, which it writes, and one of 512 bytes at 0x.*, which it reads. Pass"):
        index.contains(values, out=found)
    with pytest.raises(ValueError, match=overlap):
        index.searchsorted(values, out=room.view(256, 64))
    # Where none is written they may share it, and after the call nothing is in use.
    report = index.insert(room.view(0, 64), room.view(256, 64))
    assert report.inserted + report.replaced == 64
    assert index.searchsorted(queries, out=room.view(0, 64)).size == 64


AT_THE_END = """
    import ctypes, sys
    import numpy as np
    from lanetree import _native

    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    memory = _native.Memory.upload(_native.Device("cpu", 0), np.arange(5))
    kind = sys.argv[1]
    if kind == "arrow_array":
        capsule, place = _native.arrow_export(np.arange(5), "<i8", np.zeros(1, np.uint8), 5)[1], 64
    elif kind == "arrow_device_array":
        capsule, place = _native.arrow_device_export(memory, 5, "<i8", (1, -1))[1], 64
    else:
        is_versioned = kind == "dltensor_versioned"
        capsule, place = _native.dlpack_export(memory, 5, 0, (1, 0), is_versioned), 16 if is_versioned else 56
    tensor = get_pointer(capsule, kind.encode())
    # Taken: the capsule deletes it no more.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(capsule))
    deleter = ctypes.c_void_p.from_address(tensor + place)
    assert ctypes.CDLL(None).__cxa_atexit(deleter, ctypes.c_void_p(tensor), None) == 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="__cxa_atexit is glibc's")
@pytest.mark.parametrize("kind", ["dltensor", "dltensor_versioned", "arrow_array", "arrow_device_array"])
def test_arrays_are_deleted_after_the_end_of_the_interpreter(kind: str) -> None:
    run(AT_THE_END, kind)


@emulated
def test_the_default_stream_of_each_thread_is_not_one_stream() -> None:
    device = lanetree.Device("emulated")._native
    assert device.stream(0) is device.stream(1)
    # One object would have one queue, whose work is in order: for two threads it is not.
    assert device.stream(2) is not device.stream(2) and device.stream(2, True) is not device.stream(2, True)
    assert device.stream(2).handle == 2
    index = lanetree.Index(lanetree.asarray(np.arange(50), "emulated"), lanetree.asarray(np.arange(50), "emulated"))
    queries = lanetree.asarray(np.arange(40, 60), "emulated")
    for _ in range(3):
        values, found = (_native.Memory.empty(device, 20, width) for width in (8, 1))
        index._index.get(queries._memory, (values, found, 7), device.stream(2))
        values.lend_on(device.stream(2))
        assert values.is_shared
        got = np.zeros(20, np.int64)
        values.download(got)
        assert got.tolist() == [*range(40, 50), *[7] * 10]


@emulated
def test_arrays_for_a_consumer_that_waits_for_nothing_are_not_reused_at_once() -> None:
    array = lanetree.asarray(np.arange(5), "emulated")
    array.__dlpack__()
    assert not array._memory.is_shared
    array.__dlpack__(stream=-1)
    assert array._memory.is_shared


class Producer:
    """An array of NumPy as a GPU's library hands it out: with ``max_version`` or, as older ones, without."""

    def __init__(self, array: np.ndarray, is_old: bool) -> None:
        self.array, self.shape = array, array.shape
        self.asked: list[object] = []
        if is_old:
            self.__class__ = OldProducer

    def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None) -> Any:
        self.asked.append(max_version)
        return self.array.__dlpack__(max_version=max_version)  # type: ignore[call-arg]


class OldProducer(Producer):
    def __dlpack__(self, *, stream: object = None) -> Any:  # type: ignore[override]
        self.asked.append(stream)
        return self.array.__dlpack__()


@emulated
@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="NumPy tells of read-only arrays from 2.1 on")
def test_read_only_arrays_stay_read_only() -> None:
    device = lanetree.Device("emulated")
    stream = _native.Stream(device._native)
    room = Room(512)
    source = room.bytes[:64].view(np.int64)
    source.flags.writeable = False
    producer = Producer(source, False)
    array = _arrays._import(producer, "the output", device, stream, False)
    assert producer.asked == [(1, 0)] and array._memory.readonly
    index = lanetree.Index(lanetree.asarray(np.arange(8), device))
    with pytest.raises(ValueError, match="read-only"):
        index.searchsorted(lanetree.asarray(np.arange(8), device), out=array)
    assert not np.from_dlpack(array).flags.writeable
    with pytest.raises(BufferError, match=r"read-only.*max_version=\(1, 0\)"):
        array.__dlpack__()
    # A copy, as of a slice that is not aligned, is not the producer's memory.
    assert not _arrays._import(Producer(source[1:], False), "the array", device, stream, False)._memory.readonly

    old = Producer(np.arange(8), True)
    assert not _arrays._import(old, "the array", device, stream, False)._memory.readonly and len(old.asked) == 1
    assert np.from_dlpack(lanetree.asarray(np.arange(8), device)).flags.writeable


SIGNALS = """
    import signal, sys
    import numpy as np
    import lanetree

    size = 2**20
    assert lanetree._native.set_piece(1000) == 2**24
    queries, values, found = np.zeros(size, np.uint32), np.zeros(size, np.int64), np.zeros(size, np.bool_)
    groups = np.zeros(size, np.uint32)
    index = lanetree.Index(np.array([0, 1], np.uint32), [1, 2], device="cpu")
    grouped = lanetree.GroupedIndex(np.array([0], np.uint32), np.array([0], np.uint32), np.array([1]), device="cpu")
    exact = "backward", "backward", False, None
    calls = {
        "get": (index, lambda: index._index.get(queries, (values, found, 0))),
        "rank": (index, lambda: index._index.rank(queries, False, values)),
        "asof": (index, lambda: index._index.asof(queries, exact, None, (values, found, 0))),
        "groups": (grouped, lambda: grouped._index.get((groups, queries), exact, None, (values, found, 0))),
    }
    changed, call = calls[sys.argv[1]]
    handled = []

    def handler(*_):
        handled.append(changed.closed)
        if sys.argv[2] == "close":
            changed.close()
        elif changed is index:
            index.insert(np.array([7], np.uint32), [7])
        else:
            grouped.insert(np.array([7], np.uint32), np.array([7], np.uint32), [7])

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    try:
        # Once is enough where the call takes longer than the timer.
        while not handled:
            call()
        if sys.argv[2] == "close":
            call()
    except RuntimeError as error:
        assert sys.argv[2] == "close" and "closed" in str(error)
    else:
        assert sys.argv[2] == "insert"
        assert len(changed) == (3 if changed is index else 2)
    assert handled == [False]
"""


@pytest.mark.parametrize("call,change", [("get", "insert"), ("get", "close"), ("rank", "insert"), ("asof", "insert"), ("groups", "insert")])
def test_signal_handlers_change_the_index_of_the_call_that_they_interrupt(call: str, change: str) -> None:
    run(SIGNALS, call, change)


NO_MEMORY = """
    import resource, sys
    import numpy as np
    import lanetree
    from lanetree import _native

    size = 2**24
    floats, ints, groups, found = np.zeros(size), np.zeros(size, np.int64), np.zeros(size, np.uint32), np.zeros(size, np.bool_)
    index = lanetree.Index(np.arange(3.0), [1, 2, 3], device="cpu")
    numbers = lanetree.Index(np.arange(3), [1, 2, 3], device="cpu")
    multi = lanetree.MultiIndex(np.arange(3), [1, 2, 3], device="cpu")
    grouped = lanetree.GroupedIndex(np.arange(3, dtype=np.uint32), np.arange(3), [1, 2, 3], device="cpu")
    intervals = lanetree.IntervalIndex(np.arange(3.0), np.arange(3.0), device="cpu")
    calls = {
        "build": lambda: _native.Tree(index.device._native, "f64", floats, ints, 8, 1.0, False),
        "get": lambda: index._index.get(floats, (ints, found, 0)),
        "no values": lambda: numbers._index.get(ints, (None, found, 0)),
        "rank": lambda: index._index.rank(floats, False, ints),
        "insert": lambda: index._index.apply(0, floats, ints),
        "range": lambda: numbers._index.range((ints, ints), (False, False), 1),
        "ranges of a multi-map": lambda: multi._index.range((ints, ints), (True, True), 1),
        "remove": lambda: multi._index.remove(ints, ints),
        "groups": lambda: grouped._index.get((groups, ints), None, None, (ints, found, 0)),
        "neighbours in groups": lambda: grouped._index.get((groups, ints), ("backward", "backward", False, None), ints, (ints, found, 0)),
        "intervals": lambda: intervals._index.count(floats, None, ints),
        "file": lambda: _native.write_file(sys.argv[1], "f64", floats, ints, 8, False, ""),
    }
    index.get(np.zeros(5000))
    # As much address space as is in use, and a little more.
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (40 << 20), resource.RLIM_INFINITY))
    for name, call in calls.items():
        try:
            call()
        except MemoryError as error:
            assert "of host memory for" in str(error), (name, error)
        else:
            raise AssertionError(name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of address space is Linux's")
def test_host_memory_that_is_lacking_is_a_memory_error(tmp_path: Any) -> None:
    run(NO_MEMORY, str(tmp_path / "file"))


def test_forked_children_are_told_so_by_every_class() -> None:
    keys = np.arange(3, dtype=np.uint32)
    indexes = [
        lanetree.Index(keys, device="cpu"),
        lanetree.Set(keys, device="cpu"),
        lanetree.MultiIndex(keys, device="cpu"),
        lanetree.GroupedIndex(keys, keys, keys, device="cpu"),
        lanetree.IntervalIndex(keys, keys, device="cpu"),
        lanetree.StringIndex(["a", "b"], [1, 2], device="cpu"),
    ]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = 0
        for index in indexes:
            for ask in (lambda: index.closed, lambda: repr(index), lambda: len(index), index.close):
                try:
                    ask()
                except RuntimeError as error:
                    told += "spawn" in str(error)
        os.write(write, str(told).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() == str(4 * len(indexes))
