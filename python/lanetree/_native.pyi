"""What the package is written on: arrays are contiguous, of one dimension, and of the right width."""

from typing import Any, Callable, Optional, Union

import numpy as np
import numpy.typing as npt

__version__: str

_Column = Union[npt.NDArray[Any], "Memory"]
_Report = tuple[int, int, int, int, str]
#: Direction, ties, whether it is strict, tolerance.
_AsOf = tuple[str, str, bool, Optional[int]]
#: The numbers of probes, the values of their matches, and whether there is one.
_Joined = tuple["Memory", Optional["Memory"], Optional["Memory"]]

def after_fork_in_child() -> None: ...
def copies() -> int: ...
def set_piece(queries: int) -> int: ...
def dlpack_import(capsule: object, stream: Stream, in_order: bool) -> tuple[Memory, int]: ...
def dlpack_export(memory: Memory, len: int, code: int, device: tuple[int, int], versioned: bool) -> Any: ...

def arrow_import(schema: object, array: object) -> Column: ...
def arrow_stream(stream: object) -> list[Column]: ...
def arrow_export(
    array: npt.NDArray[Any], kind: str, validity: npt.NDArray[np.uint8], null_count: int
) -> tuple[Any, Any]: ...
def arrow_device_export(memory: Memory, len: int, kind: str, device: tuple[int, int]) -> tuple[Any, Any]: ...
def arrow_device_import(
    schema: object, array: object, device: Device, stream: Stream, wait: Callable[[int], None]
) -> tuple[Memory, str]: ...

def write_file(
    path: str, key: str, keys: _Column, values: Optional[_Column], value_bytes: int, has_several: bool, note: str
) -> None: ...
def read_file(path: str) -> tuple[str, npt.NDArray[Any], Any, bool, str]: ...

class Column:
    @property
    def kind(self) -> str: ...
    def __len__(self) -> int: ...
    @property
    def null_count(self) -> int: ...
    def validity(self) -> Optional[npt.NDArray[np.bool_]]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def strings(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]: ...

class Device:
    def __init__(self, kind: str, number: int) -> None: ...
    @staticmethod
    def why_no_gpu() -> Optional[str]: ...
    @staticmethod
    def count() -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def description(self) -> str: ...
    def properties(self) -> dict[str, Any]: ...
    def memory(self) -> tuple[int, int]: ...
    def synchronize(self) -> None: ...
    def trim(self) -> int: ...
    def pool_stats(self) -> Optional[dict[str, int]]: ...
    def with_pool(self, limit: Optional[int] = None) -> Device: ...
    def stream(self, handle: int, is_kept: bool = False) -> Stream: ...
    def same(self, other: Device) -> bool: ...

class Stream:
    def __init__(self, device: Device) -> None: ...
    @property
    def handle(self) -> int: ...
    def synchronize(self) -> None: ...
    def wait_for(self, other: Stream) -> None: ...

class Exchange:
    @staticmethod
    def of(kind: type, keeps_streams: bool) -> Optional[Exchange]: ...
    def take(
        self, array: object, device: Device, stream: Optional[Stream] = None
    ) -> Optional[tuple[Memory, int, Stream]]: ...

class Memory:
    @staticmethod
    def empty(device: Device, len: int, width: int) -> Memory: ...
    @staticmethod
    def upload(device: Device, array: npt.NDArray[Any]) -> Memory: ...
    @staticmethod
    def import_raw(
        address: int, len: int, width: int, stream: Stream, in_order: bool, readonly: bool, owner: object
    ) -> Memory: ...
    def download(self, array: npt.NDArray[Any]) -> None: ...
    def __len__(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def width(self) -> int: ...
    def lend_on(self, stream: Stream, is_shared: bool = False) -> int: ...
    def share(self) -> None: ...
    @property
    def is_shared(self) -> bool: ...
    @property
    def readonly(self) -> bool: ...

class Tree:
    def __init__(
        self,
        device: Device,
        key: str,
        keys: _Column,
        values: Optional[_Column],
        value_bytes: int,
        fill: float,
        is_sorted: bool,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def get(
        self,
        queries: _Column,
        values: Optional[_Column],
        found: Optional[_Column],
        miss: int,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def get_of(
        self, exchange: Exchange, queries: object, device: Device, number: int, value_bytes: int, miss: int
    ) -> Optional[tuple[Optional[Memory], Memory, int]]: ...
    def get_into(
        self,
        exchange: Exchange,
        queries: object,
        out: tuple[object, object],
        device: Device,
        numbers: tuple[int, int, int],
        miss: int,
    ) -> bool: ...
    def rank_of(self, exchange: Exchange, queries: object, device: Device, number: int, upper: bool) -> Optional[Memory]: ...
    def rank(self, queries: _Column, upper: bool, ranks: _Column, stream: Optional[Stream] = None) -> None: ...
    def neighbor(
        self,
        queries: _Column,
        predecessor: bool,
        keys: _Column,
        values: Optional[_Column],
        found: Optional[_Column],
        miss: int,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def range(
        self,
        starts: _Column,
        ends: _Column,
        closed: tuple[bool, bool],
        limit: int,
        stream: Optional[Stream] = None,
    ) -> tuple[Any, Any, Any]: ...
    def count(
        self,
        starts: _Column,
        ends: _Column,
        closed: tuple[bool, bool],
        counts: _Column,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def asof(
        self,
        queries: _Column,
        how: _AsOf,
        keys: Optional[_Column],
        values: _Column,
        found: _Column,
        miss: int,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def scan(self, starts: _Column, limit: int, stream: Optional[Stream] = None) -> tuple[Any, Any, Any]: ...
    def join(
        self,
        probes: _Column,
        asof: Optional[_AsOf],
        how: str,
        valid: Optional[Memory],
        stream: Optional[Stream] = None,
    ) -> _Joined: ...
    def asof_rows(self, probes: npt.NDArray[Any], how: _AsOf) -> tuple[Any, None, Any]: ...
    def join_between(
        self,
        lows: _Column,
        highs: _Column,
        closed: tuple[bool, bool],
        distance: Optional[int],
        how: str,
        valid: Optional[Memory],
        stream: Optional[Stream] = None,
    ) -> tuple[Memory, Optional[Memory], Optional[Memory], Optional[Memory]]: ...
    def rows_between(
        self, lows: npt.NDArray[Any], highs: npt.NDArray[Any], closed: tuple[bool, bool], distance: Optional[int]
    ) -> tuple[Any, Any, Any]: ...
    def k_nearest(
        self, queries: _Column, k: int, how: _AsOf, stream: Optional[Stream] = None
    ) -> tuple[Any, Any, Any]: ...
    def range_last(
        self,
        starts: _Column,
        ends: _Column,
        closed: tuple[bool, bool],
        k: int,
        stream: Optional[Stream] = None,
    ) -> tuple[Any, Any, Any]: ...
    def pairs(self, on_device: bool, stream: Optional[Stream] = None) -> tuple[Any, Any, Any]: ...
    def apply(
        self,
        kinds: Union[int, _Column],
        keys: _Column,
        values: Optional[_Column],
        stream: Optional[Stream] = None,
    ) -> _Report: ...
    def compact(self) -> int: ...
    def combine(self, other: Tree, how: str) -> Tree: ...
    def stats(self) -> dict[str, int]: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...

class Multi:
    def __init__(
        self,
        device: Device,
        key: str,
        keys: _Column,
        values: _Column,
        value_bytes: int,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def get(self, queries: _Column, stream: Optional[Stream] = None) -> tuple[Any, Any, Any]: ...
    def count(self, queries: _Column, counts: _Column, stream: Optional[Stream] = None) -> None: ...
    def join(
        self, probes: _Column, how: str, valid: Optional[Memory], stream: Optional[Stream] = None
    ) -> _Joined: ...
    def join_between(
        self,
        lows: _Column,
        highs: _Column,
        closed: tuple[bool, bool],
        distance: Optional[int],
        how: str,
        valid: Optional[Memory],
        stream: Optional[Stream] = None,
    ) -> _Joined: ...
    def rows_between(
        self,
        lows: npt.NDArray[Any],
        highs: npt.NDArray[Any],
        closed: tuple[bool, bool],
        distance: Optional[int],
        has_rows: bool,
    ) -> tuple[Any, None, Any]: ...
    def one(
        self,
        queries: _Column,
        is_last: bool,
        values: Optional[_Column],
        found: _Column,
        miss: int,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def rank(self, queries: _Column, upper: bool, ranks: _Column, stream: Optional[Stream] = None) -> None: ...
    def neighbor(
        self,
        queries: _Column,
        predecessor: bool,
        keys: _Column,
        values: _Column,
        found: _Column,
        miss: int,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def range(
        self,
        starts: _Column,
        ends: _Column,
        closed: tuple[bool, bool],
        limit: int,
        stream: Optional[Stream] = None,
    ) -> tuple[Any, Any, Any]: ...
    def count_range(
        self,
        starts: _Column,
        ends: _Column,
        closed: tuple[bool, bool],
        counts: _Column,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def insert(self, keys: _Column, values: _Column, stream: Optional[Stream] = None) -> tuple[int, int, int]: ...
    def remove(
        self, keys: _Column, values: Optional[_Column], stream: Optional[Stream] = None
    ) -> tuple[int, int, int]: ...
    def pairs(self) -> tuple[Any, Any, Any]: ...
    def stats(self) -> dict[str, int]: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...

class Intervals:
    def __init__(
        self,
        device: Device,
        key: str,
        starts: _Column,
        ends: _Column,
        rows: _Column,
        row_bytes: int,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def most_specific(self, points: _Column, miss: int, stream: Optional[Stream] = None) -> tuple[Any, Any, None]: ...
    def find(
        self, lows: _Column, highs: Optional[_Column], stream: Optional[Stream] = None
    ) -> tuple[Any, Any, None]: ...
    def count(
        self, lows: _Column, highs: Optional[_Column], counts: _Column, stream: Optional[Stream] = None
    ) -> None: ...
    def intervals(self) -> tuple[Any, Any, Any]: ...
    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...

class Groups:
    def __init__(
        self,
        device: Device,
        types: tuple[int, str, int],
        groups: _Column,
        keys: _Column,
        values: _Column,
        fill: float,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def get(
        self,
        groups: _Column,
        keys: _Column,
        how: Optional[_AsOf],
        values: _Column,
        found: _Column,
        miss: int,
        stream: Optional[Stream] = None,
    ) -> None: ...
    def join(
        self,
        groups: _Column,
        keys: _Column,
        asof: _AsOf,
        how: str,
        valid: Optional[Memory],
        stream: Optional[Stream] = None,
    ) -> _Joined: ...
    def asof_rows(
        self, groups: npt.NDArray[Any], keys: npt.NDArray[Any], how: _AsOf
    ) -> tuple[Any, None, Any]: ...
    def apply(
        self,
        kind: int,
        groups: _Column,
        keys: _Column,
        values: Optional[_Column],
        stream: Optional[Stream] = None,
    ) -> _Report: ...
    def pairs(self) -> tuple[Any, Any, Any]: ...
    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...

_Strings = tuple[npt.NDArray[Any], npt.NDArray[Any]]

class Strings:
    def __init__(
        self,
        device: Device,
        offsets: npt.NDArray[Any],
        bytes: npt.NDArray[Any],
        values: npt.NDArray[Any],
        value_bytes: int,
    ) -> None: ...
    def get(
        self,
        offsets: npt.NDArray[Any],
        bytes: npt.NDArray[Any],
        values: npt.NDArray[Any],
        found: npt.NDArray[np.bool_],
        miss: int,
    ) -> None: ...
    def rank(
        self, offsets: npt.NDArray[Any], bytes: npt.NDArray[Any], upper: bool, ranks: npt.NDArray[Any]
    ) -> None: ...
    def neighbor(
        self, offsets: npt.NDArray[Any], bytes: npt.NDArray[Any], predecessor: bool
    ) -> tuple[Any, Any, Any, Any]: ...
    def range(
        self, starts: Optional[_Strings], ends: Optional[_Strings], closed: tuple[bool, bool], limit: int
    ) -> tuple[Any, Any, Any, Any]: ...
    def apply(
        self, kind: int, offsets: npt.NDArray[Any], bytes: npt.NDArray[Any], values: Optional[npt.NDArray[Any]]
    ) -> _Report: ...
    def stats(self) -> dict[str, int]: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...
