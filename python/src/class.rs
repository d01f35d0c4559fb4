//! The table of an index's calls. An entry makes the method of the trait that is one interface over all types of keys and values, the
//! method of the Python class, and the line of `_native.pyi`.

use crate::device::{Device, On};
use crate::words::Cache;
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Queries in host memory after which a call lets Python's signal handlers run.
static PIECE: AtomicUsize = AtomicUsize::new(1 << 24);

/// Sets the number of queries in host memory after which a call lets signal handlers run, for tests, and returns the one before.
#[pyfunction]
pub(crate) fn set_piece(queries: NonZeroUsize) -> usize {
    PIECE.swap(queries.get(), Ordering::Relaxed)
}

/// Calls a function with one range of queries in host memory after another; at once if they are few or on a device.
///
/// Signal handlers run between two pieces, and may use the same index. So the function takes the index's lock for each piece.
pub(crate) fn in_pieces(
    py: Python<'_>,
    len: Option<usize>,
    mut call: impl FnMut(Range<usize>) -> PyResult<()>,
) -> PyResult<()> {
    let (len, most) = (len.unwrap_or_default(), PIECE.load(Ordering::Relaxed));
    if len <= most {
        return call(0..len);
    }
    for start in (0..len).step_by(most) {
        if start > 0 {
            py.check_signals()?;
        }
        call(start..len.min(start.saturating_add(most)))?;
    }
    Ok(())
}

/// Where an index is built, and in the order of which stream.
pub(crate) struct Place<'a> {
    pub(crate) device: &'a lanetree::Device,
    pub(crate) cache: &'a Arc<Cache>,
    pub(crate) stream: &'a lanetree::Stream,
}

impl<'a> Place<'a> {
    pub(crate) fn new(device: &'a Device, on: &'a On<'_>) -> Self {
        Self { device: device.get(), cache: device.cache(), stream: on }
    }
}

/// A line of `_native.pyi`.
pub(crate) fn line(name: &str, arguments: &[(&str, &str)], result: &str) -> String {
    let arguments: String = arguments.iter().map(|(name, of)| format!(", {name}: {of}")).collect();
    format!("    def {name}(self{arguments}, stream: Optional[Stream] = None) -> {result}: ...\n")
}

/// The lines of what all indexes have.
pub(crate) const LINES_OF_ALL: &str = "    def stats(self) -> dict[str, int]: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...
";

/// A method of the trait over all types.
macro_rules! method {
    (change $(#[$doc:meta])* $name:ident($($argument:ident: $given:ty),*) -> $result:ty) => {
        $(#[$doc])*
        #[allow(clippy::needless_lifetimes, reason = "calls without arguments need none")]
        fn $name<'a>(
            &'a mut self,
            $($argument: <$given as $crate::arguments::Argument>::Seen<'a>,)*
            stream: &lanetree::Stream,
        ) -> PyResult<$result>;
    };
    ($how:ident $(#[$doc:meta])* $name:ident($($argument:ident: $given:ty),*) -> $result:ty) => {
        $(#[$doc])*
        #[allow(clippy::needless_lifetimes, reason = "calls without arguments need none")]
        fn $name<'a>(
            &'a self,
            $($argument: <$given as $crate::arguments::Argument>::Seen<'a>,)*
            stream: &lanetree::Stream,
        ) -> PyResult<$result>;
    };
}
pub(crate) use method;

/// A call of that method, without the GIL.
macro_rules! call {
    (pieces $index:expr, $py:ident, $on:ident, $name:ident($($argument:ident),*)) => {{
        let mut len = None;
        $($crate::arguments::Seen::check($argument, &mut len)?;)*
        $crate::class::in_pieces($py, len, |range| {
            $(let $argument = $crate::arguments::Seen::part($argument, &range);)*
            $index.read($py, |index| index.$name($($argument,)* &$on))
        })
    }};
    (ordered $index:expr, $py:ident, $on:ident, $name:ident($($argument:ident),*)) => {{
        let found = $index.read($py, |index| index.is_ordered().then(|| index.$name($($argument,)* &$on)).transpose());
        if let Some(found) = found? {
            return Ok(found);
        }
        $index.change($py, |index| {
            index.restore_order()?;
            index.$name($($argument,)* &$on)
        })
    }};
    ($how:ident $index:expr, $py:ident, $on:ident, $name:ident($($argument:ident),*)) => {
        $index.$how($py, |index| index.$name($($argument,)* &$on))
    };
}
pub(crate) use call;

/// An index: the trait that is one interface over all its types, and its Python class, which the function builds. A call reads the index
/// (`read`; `pieces` for as many queries at a time as [`in_pieces`] says; `ordered` after its order is restored, where
/// changes have disturbed it) or changes it (`change`).
macro_rules! class {
    (
        $(#[$about:meta])*
        $class:ident over $any:ident, by $build:ident($($part:ident: $type:ty),*);
        $(
            $(#[$doc:meta])*
            $how:ident $name:ident($($argument:ident: $given:ty),*) -> $result:ty;
        )*
        { $($more:tt)* }
    ) => {
        /// An index, whatever its types are. Calls run without the GIL.
        pub(crate) trait $any: Send + Sync {
            fn device(&self) -> &lanetree::Device;
            fn sizes(&self) -> $crate::arguments::Sizes;
            $($crate::class::method! { $how $(#[$doc])* $name($($argument: $given),*) -> $result })*
            $($more)*
        }

        $(#[$about])*
        #[pyclass(frozen, module = "lanetree._native")]
        pub(crate) struct $class {
            pub(crate) index: $crate::held::Held<Box<dyn $any>>,
            /// The stream of calls that name none.
            pub(crate) stream: lanetree::Stream,
        }

        impl $class {
            pub(crate) fn of(index: Box<dyn $any>) -> PyResult<Self> {
                let stream = index.device().stream().map_err($crate::errors::raise_runtime)?;
                Ok(Self { index: $crate::held::Held::new(index), stream })
            }

            pub(crate) fn stub() -> String {
                let parts = [("device", "Device"), $((stringify!($part), <$type as $crate::arguments::Named>::NAME)),*];
                [
                    concat!("class ", stringify!($class), ":\n").to_owned(),
                    $crate::class::line("__init__", &parts, "None"),
                    $($crate::class::line(
                        stringify!($name),
                        &[$((stringify!($argument), <$given as $crate::arguments::Named>::NAME)),*],
                        <$result as $crate::arguments::Named>::NAME,
                    ),)*
                    $crate::class::LINES_OF_ALL.to_owned(),
                ]
                .concat()
            }
        }

        #[pymethods]
        #[allow(clippy::too_many_arguments, reason = "called by the front end alone")]
        impl $class {
            #[new]
            #[pyo3(signature = (device, $($part,)* stream=None))]
            fn new(
                py: Python<'_>,
                device: &$crate::device::Device,
                $($part: $type,)*
                stream: Option<&pyo3::Bound<'_, $crate::device::Stream>>,
            ) -> PyResult<Self> {
                $crate::errors::check_not_forked()?;
                let own = device.get().stream().map_err($crate::errors::raise_runtime)?;
                let on = $crate::device::On::new(stream, &own)?;
                let place = $crate::class::Place::new(device, &on);
                $(let $part = $crate::arguments::Argument::seen(&$part);)*
                Self::of(py.detach(|| $build(&place, $($part),*))?)
            }

            $(
                $(#[$doc])*
                #[pyo3(signature = ($($argument,)* stream=None))]
                fn $name(
                    &self,
                    py: Python<'_>,
                    $($argument: $given,)*
                    stream: Option<&pyo3::Bound<'_, $crate::device::Stream>>,
                ) -> PyResult<$result> {
                    $(let $argument = $crate::arguments::Argument::seen(&$argument);)*
                    let on = $crate::device::On::new(stream, &self.stream)?;
                    $crate::class::call!($how self.index, py, on, $name($($argument),*))
                }
            )*

            fn stats(&self, py: Python<'_>) -> PyResult<$crate::arguments::Sizes> {
                self.index.read(py, |index| Ok(index.sizes()))
            }

            fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
                Ok(self.stats(py)?["len"] as usize)
            }

            /// Frees its memory. Later calls are errors; a second close is none.
            fn close(&self, py: Python<'_>) -> PyResult<()> {
                self.index.close(py)
            }

            #[getter]
            fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
                self.index.is_closed(py)
            }
        }
    };
}
pub(crate) use class;

/// Calls with the types `K` of keys and `V` of values that are named: None for others. Floats are seen as words; `Own` is the type of
/// keys that they are words of.
macro_rules! with_types {
    ($key:expr, $bytes:expr, $values:tt, $call:expr) => {
        match $key {
            "u32" => $crate::class::with_types!(@ u32, u32, $bytes, $values, $call),
            "u64" => $crate::class::with_types!(@ u64, u64, $bytes, $values, $call),
            "i32" => $crate::class::with_types!(@ i32, i32, $bytes, $values, $call),
            "i64" => $crate::class::with_types!(@ i64, i64, $bytes, $values, $call),
            "f32" => $crate::class::with_types!(@ u32, lanetree::F32, $bytes, $values, $call),
            "f64" => $crate::class::with_types!(@ u64, lanetree::F64, $bytes, $values, $call),
            _ => None,
        }
    };
    (@ $word:ty, $own:ty, $bytes:expr, [$($width:literal $value:ty),*], $call:expr) => {{
        type K = $word;
        #[allow(dead_code, reason = "files alone use it")]
        type Own = $own;
        match $bytes {
            $($width => {
                type V = $value;
                Some($call)
            })*
            _ => None,
        }
    }};
}
pub(crate) use with_types;

/// The same, and keys of 16 bytes.
macro_rules! with_all_types {
    ($key:expr, $bytes:expr, $values:tt, $call:expr) => {
        match $key {
            "bytes16" => $crate::class::with_types!(@ u128, lanetree::Bytes16, $bytes, $values, $call),
            _ => $crate::class::with_types!($key, $bytes, $values, $call),
        }
    };
}
pub(crate) use with_all_types;
