"""How far a long call has come."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any, Callable, Iterator, Union

import numpy.typing as npt

#: None or False; True: a bar on standard error, by tqdm where it is installed; or a function that is given how many are done, and all.
Progress = Union[bool, Callable[[int, int], object], None]

#: Queries of a native call.
PIECE = 1 << 22
#: Seconds after which a bar is shown, and between its updates where nothing is counted.
PATIENCE, TICK = 1.0, 0.2


class _Bar:
    """A bar of a call's, from its second second on."""

    def __init__(self, total: int | None, what: str) -> None:
        self.total, self.what, self.start = total, what, time.monotonic()
        self.shown: Any = None
        self.has_written = False

    def update(self, done: int) -> None:
        if time.monotonic() - self.start < PATIENCE and self.shown is None:
            return
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            part = "" if self.total is None else f" {done / max(self.total, 1):.0%}"
            sys.stderr.write(f"\r{self.what}:{part} after {time.monotonic() - self.start:.1f} s")
            sys.stderr.flush()
            self.has_written = True
            return
        if self.shown is None:
            self.shown = tqdm(total=self.total, desc=self.what, unit_scale=True)
        if self.total is None:
            self.shown.refresh()
        else:
            self.shown.update(done - self.shown.n)

    def close(self) -> None:
        if self.shown is not None:
            self.shown.close()
        if self.has_written:
            sys.stderr.write("\n")


def in_pieces(call: Callable[..., object], arrays: tuple[npt.NDArray[Any], ...], progress: Progress, what: str) -> None:
    """Calls a function with one part of all arrays after another, and tells how far it is."""
    size = arrays[0].size
    bar = _Bar(size, what)
    try:
        for start in range(0, size, PIECE):
            end = min(start + PIECE, size)
            call(*(array[start:end] for array in arrays))
            if callable(progress):
                progress(end, size)
            else:
                bar.update(end)
    finally:
        bar.close()


@contextlib.contextmanager
def waiting(progress: Progress, size: int, what: str) -> Iterator[None]:
    """For a call in one piece: a function is told of its begin and end, and a bar shows the time."""
    if callable(progress):
        progress(0, size)
        yield
        progress(size, size)
        return
    if not progress:
        yield
        return
    done, bar = threading.Event(), _Bar(None, f"{what} {size:,}")

    def show() -> None:
        is_over = done.wait(PATIENCE)
        while not is_over:
            bar.update(0)
            is_over = done.wait(TICK)
        bar.close()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
