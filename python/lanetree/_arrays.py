"""Arrays in and out: of NumPy, of devices, and what converts to these without a copy."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np
import numpy.typing as npt

from . import _missing, _native, _wide, errors
from ._device import Device

#: What calls take as an array: NumPy's, torch's, CuPy's, Arrow's, a Series, a list, or a number.
ArrayLike = Any

_KEYS = {"uint32": "u32", "uint64": "u64", "int32": "i32", "int64": "i64", "float32": "f32", "float64": "f64", "void128": "bytes16"}
_DLPACK = {"i": 0, "u": 1, "f": 2, "b": 6, "m": 0, "M": 0}
#: The dtypes of DLPack's types of elements, by code and bits.
_DTYPES = {code << 8 | bits: np.dtype(f"{name}{bits}") for code, name in enumerate(("int", "uint", "float")) for bits in (8, 32, 64) if name != "float" or bits > 8}
_DTYPES[6 << 8 | 8] = np.dtype(np.bool_)
_CUDA, _CPU = 2, 1
#: Devices of DLPack whose memory a GPU reads: CUDA's own, and its managed memory.
_ON_GPU = (2, 13)
#: Types whose elements are in host memory.
_IN_HOST = frozenset((np.ndarray, list, tuple, range, int, float))


def word_of(dtype: np.dtype[Any], what: str) -> str:
    """The native name of a dtype."""
    name = "int64" if dtype.kind in "mM" and dtype.itemsize == 8 else dtype.name
    if dtype == _wide.BYTES and what in ("values", "rows", "groups (by)", "keys in groups"):
        raise TypeError(f"{what} are {_wide.name_of(dtype)}, which are keys of Index, Set, MultiIndex and IntervalIndex alone: convert them")
    if name not in _KEYS or not dtype.isnative:
        names = f"convert them to one of {', '.join(list(_KEYS)[:-1])}, or datetime64 or timedelta64"
        raise TypeError(f"{what} of dtype {dtype} are not supported: {'use a StringIndex' if dtype.kind in 'SUT' else names}")
    return _KEYS[name]


def number_of(dtype: np.dtype[Any]) -> int:
    """DLPack's number of a type of elements."""
    return _DLPACK[dtype.kind] << 8 | dtype.itemsize * 8


def _is_torch(array: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def on_device(array: object) -> bool:
    """Whether an array is in a GPU's memory, or the emulator's."""
    kind = type(array)
    if kind in _IN_HOST:
        return False
    if kind is Array:
        return True
    if _is_torch(array):
        return bool(array.is_cuda)  # type: ignore[attr-defined]
    if isinstance(array, np.ndarray):
        return False
    if hasattr(array, "__dlpack_device__"):
        # pyarrow's arrays with nulls, or of times, have no place in DLPack's words, and some versions say so by an error.
        with contextlib.suppress(TypeError, ValueError, BufferError):
            return int(array.__dlpack_device__()[0]) in _ON_GPU
    return hasattr(array, "__cuda_array_interface__") or _is_arrow_of_device(array)


def _is_arrow_of_device(array: object) -> bool:
    """Whether an array tells of itself as Arrow's device arrays alone. pyarrow's have both ways, and are in host memory."""
    return hasattr(array, "__arrow_c_device_array__") and not hasattr(array, "__arrow_c_array__")


def nullable(
    array: ArrayLike, dtype: np.dtype[Any] | None, what: str, is_value: bool = False
) -> tuple[npt.NDArray[Any], _missing.Valid]:
    """An array in host memory, without a copy where that is possible, of a dtype, if one is given, to which the cast is safe, and which elements
    are there."""
    if on_device(array):
        raise TypeError(f"{what} are on a device, where an array in host memory is needed: put all arrays of a call into one memory")
    made, valid = _missing.split(array, dtype, what, is_value)
    if dtype is not None and (made.size == 0 or valid is not None and not valid.any()):
        # There is nothing that a dtype may not hold.
        made = np.zeros(made.shape, dtype)
    elif dtype is not None:
        if _wide.BYTES in (made.dtype, dtype):
            made = _wide.cast(made, valid, dtype, what)
        elif made.dtype != dtype:
            zone, made = _missing.zone_of(made.dtype), _missing.cast(made, valid, dtype, what)
            made = made if made.dtype.kind != "M" else made.view(_missing.zoned(made.dtype, zone))
        if dtype.kind == "M":
            _missing.check_zones(made.dtype, dtype, what)
    return made, valid


def host(array: ArrayLike, dtype: np.dtype[Any] | None, what: str, is_value: bool = False) -> npt.NDArray[Any]:
    """An array in host memory, as of :func:`nullable`, in which nothing is missing."""
    made, valid = nullable(array, dtype, what, is_value)
    _missing.refuse(valid, what)
    return made


def flat(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The elements in one contiguous, aligned dimension: a copy where they are not."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and (array.dtype != _wide.BYTES or array.ctypes.data % 16 == 0):
        return array if array.ndim == 1 else array.reshape(-1)
    return np.array(array.reshape(-1), copy=True, order="C")


class Array:
    """An array of one dimension in a device's memory: what calls give for inputs on a device.

    Other libraries take it without a copy, by ``__dlpack__``, ``__cuda_array_interface__`` and ``__arrow_c_device_array__``:
    ``torch.from_dlpack(array)``, ``cupy.asarray(array)``. They are made to wait, on the device, for the work that writes it; for the
    last one, the call waits.

    Attributes
    ----------
    dtype : numpy.dtype
    shape : tuple of int
    size : int
    nbytes : int
    device : Device
    """

    __slots__ = ("_memory", "dtype", "device", "_size", "__weakref__")

    def __init__(self, memory: _native.Memory, dtype: np.dtype[Any], device: Device, size: int | None = None) -> None:
        self._memory, self.dtype, self.device = memory, dtype, device
        self._size = len(memory) if size is None else size

    @property
    def shape(self) -> tuple[int]:
        return (self._size,)

    @property
    def ndim(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        return self._size * self.dtype.itemsize

    def __len__(self) -> int:
        return self._size

    def numpy(self) -> npt.NDArray[Any]:
        """A copy in host memory. Waits for the work that writes the array."""
        made: npt.NDArray[Any] = np.empty(len(self._memory), self.dtype)
        self._memory.download(made)
        return made[: self._size]

    def __array__(self, *args: Any, **kwargs: Any) -> npt.NDArray[Any]:
        raise TypeError("an array on a device does not convert to NumPy's implicitly: call .numpy(), which copies it")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CUDA, self.device.ordinal) if self.device.kind == "cuda" else (_CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        device = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(f"the array is on {self.device.name}: copy it by .numpy()")
        if copy:
            raise BufferError("a copy is not offered: copy what you make of it")
        if stream == -1:
            # The consumer waits for nothing, and nothing can be told of its work.
            self._memory.share()
        if self.device.kind != "cuda":
            # Its streams run late: the consumer reads at once.
            self.device.synchronize()
        elif stream != -1:
            self._memory.lend_on(stream_of(self.device, 1 if stream is None else int(stream)))
        versioned = max_version is not None and max_version[0] >= 1
        return _native.dlpack_export(self._memory, self._size, _DLPACK[self.dtype.kind], device, versioned)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device.kind != "cuda":
            raise AttributeError(f"an array on {self.device.name} has no __cuda_array_interface__")
        # The consumer's stream waits for the default stream, which waits for the work that writes the array.
        self._memory.lend_on(stream_of(self.device, 1), True)
        typestr = self.dtype.str if self.dtype.kind not in "mM" else "<i8"
        data = self._memory.address, self._memory.readonly
        return {"shape": self.shape, "typestr": typestr, "data": data, "version": 3, "stream": 1, "strides": None}

    def __arrow_c_device_array__(self, requested_schema: Any = None, **_: Any) -> tuple[Any, Any]:
        # Arrow's array has no event, so its elements are ready.
        if self.device.kind == "cuda":
            stream = stream_of(self.device, 1)
            self._memory.lend_on(stream, True)
            stream.synchronize()
            device = _CUDA, self.device.ordinal
        else:
            self.device.synchronize()
            device = _CPU, -1
        return _native.arrow_device_export(self._memory, self._size, self.dtype.str, device)

    def __repr__(self) -> str:
        return f"<lanetree.Array of {self._size} {self.dtype} on {self.device.name}>"


def asarray(array: ArrayLike, device: str | Device | None = None, dtype: npt.DTypeLike | None = None, stream: Any = None) -> Array:
    """An array on a device.

    Parameters
    ----------
    array : array_like
        One dimension, in host memory (copied) or on the device (not copied, if it begins at a multiple of 256 bytes).
    device : str, Device or None
        As for :class:`Device`; not the CPU, where arrays are NumPy's.
    dtype : dtype, optional
        What the elements must be. In host memory safe casts happen; on a device nothing is cast.
    stream : int or object with ``__cuda_stream__``, optional
        The stream in whose order `array` is complete; by default the producer's current stream.
    """
    if isinstance(array, Array):
        return array
    wanted = None if dtype is None else np.dtype(dtype)
    if on_device(array):
        place = Device(f"cuda:{_ordinal(array)}") if device is None else Device(device)
        return to_device(array, wanted, "the array", place, producer_stream(array, place, stream), is_temporary=False)
    place = Device(device)
    if place.kind == "cpu":
        raise ValueError("arrays on the CPU are NumPy's: pass them as they are")
    # NaT stays: it is the key of nulls in some indexes.
    made = host(array.view(_missing.Whole) if type(array) is np.ndarray else array, wanted, "the array", is_value=True)
    if made.ndim != 1:
        raise ValueError(f"an array of {made.ndim} dimensions, where one is needed")
    return Array(_native.Memory.upload(place._native, flat(made)), made.dtype, place)


def _ordinal(array: Any) -> int:
    if isinstance(array, Array):
        return array.device.ordinal
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[1])
    return 0


def stream_of(device: Device, handle: int, is_kept: bool = False) -> _native.Stream:
    """The native object of a stream's handle, of a GPU. Handles that never go away have one object each, but for that of the per-thread
    default stream (2), whose object is of this thread and for one call."""
    return device._native.stream(handle, is_kept)


def producer_stream(array: Any, device: Device, stream: Any = None) -> _native.Stream | None:
    """The stream of a call: the caller's, or that in whose order the producer of its input works; None for the index's own."""
    if device.kind != "cuda":
        return None
    if stream is not None:
        if hasattr(stream, "__cuda_stream__"):
            stream = stream.__cuda_stream__()[1]
        elif hasattr(stream, "cuda_stream"):
            stream = stream.cuda_stream
        elif hasattr(stream, "ptr"):
            stream = stream.ptr
        return stream_of(device, int(stream))
    if _is_torch(array):
        return stream_of(device, sys.modules["torch"].cuda.current_stream(array.device).cuda_stream, True)
    if isinstance(array, Array):
        return None
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, cupy.ndarray):
        return stream_of(device, cupy.cuda.get_current_stream().ptr)
    if not hasattr(array, "__dlpack__"):
        return stream_of(device, getattr(array, "__cuda_array_interface__", {}).get("stream") or 1)
    return stream_of(device, 1)


#: How arrays of a type that a GPU's index was asked with are taken in one native call; None for types that have no such way.
exchanges: dict[type, _native.Exchange | None] = {}


def _exchange(kind: type) -> _native.Exchange | None:
    try:
        return exchanges[kind]
    except KeyError:
        torch = sys.modules.get("torch")
        made = _native.Exchange.of(kind, torch is not None and issubclass(kind, torch.Tensor))
        exchanges[kind] = made
        return made


def on_stream(array: Any, dtype: np.dtype[Any] | None, what: str, device: Device, stream: Any = None) -> tuple[Array, _native.Stream | None]:
    """An array of a device as this package's, without a copy, and the stream of the call: the caller's, or the producer's current one."""
    if stream is None and device.kind == "cuda":
        exchange = _exchange(type(array))
        taken = None if exchange is None else exchange.take(array, device._native)
        if taken is not None:
            memory, number, on = taken
            return _of_dtype(Array(memory, _DTYPES[number], device), dtype, what), on
    on_it = producer_stream(array, device, stream)
    return to_device(array, dtype, what, device, on_it), on_it


def _of_dtype(array: Array, dtype: np.dtype[Any] | None, what: str) -> Array:
    made = array.dtype
    if dtype is not None and made is not dtype and made != dtype and not (dtype.kind in "mM" and made == np.int64):
        raise TypeError(f"{what} have dtype {made}, but {dtype} is needed: nothing is cast silently")
    return array


def to_device(
    array: Any, dtype: np.dtype[Any] | None, what: str, device: Device, stream: _native.Stream | None, is_temporary: bool = True
) -> Array:
    """An array of a device as this package's, without a copy."""
    exchange = _exchange(type(array)) if is_temporary and stream is not None else None
    taken = None if exchange is None else exchange.take(array, device._native, stream)
    if taken is not None:
        return _of_dtype(Array(taken[0], _DTYPES[taken[1]], device), dtype, what)
    if isinstance(array, Array):
        if array.device != device:
            raise ValueError(f"{what} are on {array.device.name}, but the index is on {device.name}: use one device for both")
        made = array
    elif not on_device(array):
        raise TypeError(f"{what} are in host memory, where an array on {device.name} is needed: put all arrays of a call into one memory")
    elif _is_arrow_of_device(array):
        made = _import_arrow(array, device, stream)
    else:
        if _ordinal(array) != device.ordinal or device.kind != "cuda":
            raise ValueError(f"{what} are on GPU {_ordinal(array)}, but the index is on {device.name}: use one device for both")
        made = _import(array, what, device, stream or stream_of(device, 1), is_temporary)
    return _of_dtype(made, dtype, what)


def _import(array: Any, what: str, device: Device, stream: _native.Stream, is_temporary: bool) -> Array:
    if len(array.shape) != 1:
        raise ValueError(f"{what} have {len(array.shape)} dimensions, where one is needed: flatten them")
    if hasattr(array, "__dlpack__"):
        if hasattr(array, "is_contiguous"):
            # torch's; a copy in its own current stream, which is waited for below.
            array = array.contiguous()
            cuda = sys.modules["torch"].cuda
            if cuda.current_stream(array.device).cuda_stream != stream.handle:
                # Its memory is not given to others before the work of this stream is done.
                array.record_stream(cuda.ExternalStream(stream.handle, device=array.device))
        elif hasattr(array, "flags") and not getattr(array.flags, "c_contiguous", True):
            array = array.copy()
        # 0 is not allowed for CUDA: 1 is the default stream.
        order = {"stream": stream.handle or 1}
        try:
            # From version 1.0 on DLPack tells whether the array is read-only.
            capsule = array.__dlpack__(**order, max_version=(1, 0))
        except TypeError:
            capsule = array.__dlpack__(**order)
        memory, number = _native.dlpack_import(capsule, stream, is_temporary)
        dtype = _DTYPES.get(number)
        if dtype is None:
            raise TypeError(f"{what}: elements of DLPack's type {number >> 8} with {number & 255} bits are not supported")
        return Array(memory, dtype, device)
    interface = array.__cuda_array_interface__
    dtype = np.dtype(interface["typestr"])
    if interface.get("mask") is not None:
        raise TypeError(f"{what} are masked, which is not supported")
    strides = interface.get("strides")
    if strides is not None and tuple(strides) != (dtype.itemsize,) and interface["shape"][0] > 1:
        raise ValueError(f"{what} are strided: make them contiguous")
    theirs = interface.get("stream")
    if theirs is not None and theirs != (stream.handle or 1):
        stream.wait_for(stream_of(device, theirs))
    address, readonly = interface["data"]
    memory = _native.Memory.import_raw(address, interface["shape"][0], dtype.itemsize, stream, is_temporary, readonly, array)
    return Array(memory, dtype, device)


def _import_arrow(array: Any, device: Device, stream: _native.Stream | None) -> Array:
    """An array of Arrow's on a device, without a copy."""
    if stream is None:
        stream = stream_of(device, 1) if device.kind == "cuda" else _native.Stream(device._native)
    handle = stream.handle

    def wait(event: int) -> None:
        # What is told is where the event's handle is.
        cuda, its_handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p.from_address(event)
        if cuda.cuStreamWaitEvent(ctypes.c_void_p(handle), its_handle, 0) != 0 and cuda.cuEventSynchronize(its_handle) != 0:
            raise errors.Cuda("the event of an Arrow array cannot be waited for")

    schema, capsule = array.__arrow_c_device_array__()
    memory, kind = _native.arrow_device_import(schema, capsule, device._native, stream, wait)
    return Array(memory, np.dtype(kind), device)


if TYPE_CHECKING:

    class Output(np.ndarray[Any, np.dtype[Any]], Array):  # type: ignore[misc]
        """An array of results: NumPy's for queries in host memory, an :class:`Array` for queries on a device, which types do not tell
        apart. So type checkers take it for both."""

        dtype: np.dtype[Any]

else:
    Output = Any


class Found:
    """Values, and which of them there are: ``values, found = index.get(queries)``.

    Of queries in host memory it is a column, too, whose nulls are what was not found: ``pandas.Series(index.get(queries))``,
    ``polars.Series(...)``, ``pyarrow.array(...)``, the latter two without a copy of the values, and ``numpy.asarray(...)``, as
    :meth:`to_numpy` has it.

    Parameters
    ----------
    values : array
        A value for each query; the default where there is none.
    found : array of bool
        Whether there is one.
    """

    __slots__ = ("values", "found")
    values: Output
    found: Output

    def __init__(self, values: Any, found: Any) -> None:
        self.values, self.found = values, found

    def __iter__(self) -> Iterator[Output]:
        return iter((self.values, self.found))

    def __getitem__(self, item: int) -> Output:
        """The values for 0, and which of them there are for 1, as of a pair."""
        return (self.values, self.found)[item]

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.values)

    def __repr__(self) -> str:
        return f"Found(values={self.values!r}, found={self.found!r})"

    def to_numpy(self, missing: Any = None) -> npt.NDArray[Any]:
        """The values as one array in host memory, with `missing` where nothing was found.

        Parameters
        ----------
        missing : scalar, optional
            What stands there, exactly in the dtype of the values. By default NaN, which makes floats of integers, or NaT.

        Raises
        ------
        OverflowError
            For integers above 2^53 among which some are missing, unless `missing` is given: floats do not hold them.

        Examples
        --------
        >>> index = lanetree.Index(np.array([10, 20]), np.array([1, 2]), device="cpu")
        >>> index.get(np.array([20, 25])).to_numpy()
        array([ 2., nan])
        >>> index.get(np.array([20, 25])).to_numpy(missing=-1)
        array([ 2, -1])
        """
        values, found = (part.numpy() if isinstance(part, Array) else np.asarray(part) for part in self)
        if missing is not None:
            return np.where(found, values, of_word(word(missing, values.dtype, "missing"), values.dtype)).view(values.dtype)
        if found.all():
            return values
        if values.dtype.kind in "iu":
            there = values[found]
            if there.size and max(int(there.max()), -int(there.min())) > 2**53:
                raise OverflowError(
                    f"the values are {values.dtype} up to {there.max()}, which floats with NaN for what is missing do not hold: call"
                    " to_numpy(missing=...) with an integer, or make a column of Arrow or polars"
                )
            values = values.astype(np.float64)
        return np.where(found, values, np.array("NaT" if values.dtype.kind in "mM" else "nan", values.dtype)).view(values.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if isinstance(self.values, Array):
            self.values.__array__()
        made = self.to_numpy()
        if _missing.zone_of(made.dtype) is not None and "pandas" in sys.modules:
            # As arrays of pandas do.
            made = np.asarray(_missing.in_zone(made.reshape(-1)), object).reshape(made.shape)
        return made if dtype is None else made.astype(dtype, copy=False)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        values, found = self
        if isinstance(values, Array):
            raise TypeError("results on a device are no array of Arrow in host memory: call numpy() of both")
        values, found = np.atleast_1d(values), np.atleast_1d(found)
        bits, absent = np.packbits(found, bitorder="little"), found.size - int(np.count_nonzero(found))
        zone, kind = _missing.zone_of(values.dtype), values.dtype.str
        if values.dtype == _wide.BYTES:
            values, kind = _wide.to_arrow(values)
        if kind in ("<M8[D]", "<m8[D]", "<M8[h]", "<m8[h]", "<M8[m]", "<m8[m]"):
            # Arrow has no such units, but for dates.
            days = np.where(found, values.view(np.int64), 0)
            if kind == "<M8[D]" and (days == days.astype(np.int32)).all():
                values, kind = days.astype(np.int32), "date32"
            else:
                values = _missing.cast(values, found, np.dtype(f"{kind[:3]}[s]"), "the values")
                kind = values.dtype.str
        return _native.arrow_export(values, kind + (f"@{zone}" if zone else ""), bits, absent)


def column_like(found: Found, column: Any) -> Any:
    """Results as a column of the library that the queries are of, with their index and name."""
    pandas, polars, pyarrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    if pandas is not None and isinstance(column, pandas.Series):
        return pandas.Series(np.asarray(found), index=column.index, name=column.name)
    if pandas is not None and isinstance(column, pandas.Index):
        return pandas.Index(np.asarray(found), name=column.name)
    if polars is not None and isinstance(column, polars.Series):
        return polars.Series(found).alias(column.name)
    if pyarrow is not None and isinstance(column, (pyarrow.Array, pyarrow.ChunkedArray)):
        made = pyarrow.array(found)
        return pyarrow.chunked_array([made]) if isinstance(column, pyarrow.ChunkedArray) else made
    if on_device(column):
        raise TypeError("map is for columns in host memory: use get for arrays on a device")
    return found.to_numpy()


def word(value: Any, dtype: np.dtype[Any], what: str = "the default") -> int:
    """The bits of what stands for values that are not there, as an integer. NaT is one of times. `what` is how errors call it."""
    if isinstance(value, (int, float, np.number)) and value == 0 and (type(value) is int or dtype.kind != "f"):
        return 0
    array, valid = _missing.from_python(value, dtype, what)
    if valid is not None:
        if value is None or dtype.kind not in "mM":
            raise ValueError(f"{what} is {value!r}, which {dtype} has not: pass a value")
        array = np.array("NaT", dtype)
    return int(array.reshape(1).view(f"u{dtype.itemsize}")[0])


def of_word(word: int, dtype: np.dtype[Any]) -> Any:
    """The element of these bits."""
    if dtype == _wide.BYTES:
        return np.array(word.to_bytes(16, "big"), dtype)[()]
    return np.array(word, f"u{dtype.itemsize}").view(dtype)[()]


def erase(missing: npt.NDArray[np.int64] | None, *outputs: tuple[npt.NDArray[Any], int]) -> None:
    """Gives missing queries, by their numbers, the bits of what nothing was found for, in each of some results."""
    if missing is not None:
        for output, word in outputs:
            output[missing] = of_word(word, output.dtype)


def empty(device: Device, size: int, dtype: np.dtype[Any]) -> Array:
    """Memory for results. Of bytes a few more, as kernels write words."""
    room = size if dtype.itemsize > 1 else (size + 3) // 4 * 4
    return Array(_native.Memory.empty(device._native, room, dtype.itemsize), dtype, device, size)
