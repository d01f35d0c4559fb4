//! What calls take from Python and return to it, and how both are named in `_native.pyi`.

use crate::errors::value_error;
use crate::input::{In, Input};
use crate::memory::{Memory, Reading};
use crate::types::check_len;
use core::ops::Range;
use lanetree::{Aggregate, AsOf, Closed, JoinKind, Ties, UpdateReport};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::BTreeMap;

/// The name of a type in `_native.pyi`.
pub(crate) trait Named {
    const NAME: &'static str;
}

/// An argument of a call.
pub(crate) trait Argument: Named {
    /// The argument for a thread that does not hold the GIL.
    type Seen<'a>: Seen
    where
        Self: 'a;

    fn seen(&self) -> Self::Seen<'_>;
}

/// An argument as the work of a call sees it.
pub(crate) trait Seen: Copy {
    /// Arrays in host memory with an element for each query: an error if they have another length than the one given, if there is one.
    fn check(self, _len: &mut Option<usize>) -> PyResult<()> {
        Ok(())
    }

    /// The same for a range of the queries.
    fn part(self, _range: &Range<usize>) -> Self {
        self
    }
}

macro_rules! named {
    ($($type:ty: $name:literal,)*) => {$(
        impl Named for $type {
            const NAME: &'static str = $name;
        }
    )*};
}
named! {
    (): "None", (Memory, Option<Memory>, Option<Memory>): "_Joined", Found: "_Columns", Report: "_Report",
    (Memory, Option<Memory>, Option<Memory>, Option<Memory>): "_Between",
}

/// Arguments, how they are named, and how calls see them.
macro_rules! argument {
    ($($type:ty: $name:literal, $it:ident => $seen:ty, $made:expr;)*) => {$(
        named! { $type: $name, }
        impl Argument for $type {
            type Seen<'a> = $seen where Self: 'a;

            fn seen(&self) -> Self::Seen<'_> {
                let $it = self;
                $made
            }
        }
    )*};
}
argument! {
    &str: "str", it => &'a str, it;
    bool: "bool", it => bool, *it;
    u32: "int", it => u32, *it;
    u64: "int", it => u64, *it;
    usize: "int", it => usize, *it;
    f64: "float", it => f64, *it;
    Ends: "tuple[bool, bool]", it => Closed, it.0;
    By: "_By", it => By, *it;
    How: "_AsOf", it => AsOf, it.0;
    Folding: "tuple[str, str]", it => Folding, *it;
    Option<How>: "Optional[_AsOf]", it => Option<AsOf>, it.map(|how| how.0);
    Input: "_Column", it => In<'a>, it.get();
    Option<Input>: "Optional[_Column]", it => Option<In<'a>>, it.as_ref().map(Input::get);
    [Input; 2]: "_Pair", it => [In<'a>; 2], it.each_ref().map(Input::get);
    Option<[Input; 2]>: "Optional[_Pair]", it => Option<[In<'a>; 2]>, it.as_ref().map(Argument::seen);
    Outputs: "_Results", it => Results<'a>, Results { values: it.0.seen(), found: it.1.seen(), miss: it.2 };
    Request: "_Asked", it => Asked<'a>, Asked { kind: it.0, valid: it.1.seen() };
    KindsGiven: "_Kinds", it => Kinds<'a>, match it {
        KindsGiven::All(kind) => Kinds::All(*kind),
        KindsGiven::Each(kinds) => Kinds::Each(kinds.get()),
    };
}

macro_rules! whole {
    ($($type:ty,)*) => { $(impl Seen for $type {})* };
}
whole! {
    &str, bool, u32, u64, usize, f64, Closed, By, AsOf, Folding, Option<AsOf>, Option<[In<'_>; 2]>, Asked<'_>, Kinds<'_>,
}

impl Seen for In<'_> {
    fn check(self, len: &mut Option<usize>) -> PyResult<()> {
        match len {
            _ if self.is_device() => Ok(()),
            Some(len) => check_len(*len, self.len()),
            None => {
                *len = Some(self.len());
                Ok(())
            }
        }
    }

    fn part(self, range: &Range<usize>) -> Self {
        self.within(range.clone())
    }
}

impl Seen for Option<In<'_>> {
    fn check(self, len: &mut Option<usize>) -> PyResult<()> {
        self.map_or(Ok(()), |array| array.check(len))
    }

    fn part(self, range: &Range<usize>) -> Self {
        self.map(|array| array.part(range))
    }
}

impl Seen for [In<'_>; 2] {
    fn check(self, len: &mut Option<usize>) -> PyResult<()> {
        self.into_iter().try_for_each(|array| array.check(len))
    }

    fn part(self, range: &Range<usize>) -> Self {
        self.map(|array| array.part(range))
    }
}

/// Extraction by that of another type, whose errors stay what they are.
macro_rules! extract {
    ($type:ty: $from:ty, $given:pat => $made:expr) => {
        impl<'a, 'py> FromPyObject<'a, 'py> for $type {
            type Error = PyErr;

            fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
                let $given: $from = object.extract()?;
                $made
            }
        }
    };
}

/// Arrays for a look-up's results: values, and whether they are found; and the value of what is not found.
pub(crate) struct Outputs(Option<Input>, Option<Input>, u64);

extract! { Outputs: (Option<Input>, Option<Input>, u64), (values, found, miss) => Ok(Self(values, found, miss)) }

/// Where a look-up's results go: values, unless they are nothing, and which are found.
#[derive(Clone, Copy)]
pub(crate) struct Results<'a> {
    pub(crate) values: Option<In<'a>>,
    pub(crate) found: Option<In<'a>>,
    pub(crate) miss: u64,
}

impl Seen for Results<'_> {
    fn check(self, len: &mut Option<usize>) -> PyResult<()> {
        self.values.check(len).and_then(|()| self.found.check(len))
    }

    fn part(self, range: &Range<usize>) -> Self {
        Self { values: self.values.part(range), found: self.found.part(range), miss: self.miss }
    }
}

/// An as-of look-up, by the names of its direction ("backward", "forward", "nearest") and of what is taken of two that are equally near
/// ("backward", "forward", "both"), perhaps of another key than the query itself, within a tolerance if there is one.
#[derive(Clone, Copy)]
pub(crate) struct How(AsOf);

extract! { How: (&str, &str, bool, Option<u64>), (direction, ties, is_strict, tolerance) => {
    let how = match direction {
        "backward" => AsOf::backward(),
        "forward" => AsOf::forward(),
        "nearest" => AsOf::nearest(),
        _ => return Err(unknown("direction", direction, "'backward', 'forward' or 'nearest'")),
    };
    let ties = match ties {
        "backward" => Ties::Backward,
        "forward" => Ties::Forward,
        "both" => Ties::Both,
        _ => return Err(unknown("ties", ties, "'backward', 'forward' or 'both'")),
    };
    let how = how.strict(is_strict).ties(ties);
    Ok(Self(tolerance.map_or(how, |most| how.tolerance(most))))
} }

fn unknown(what: &str, given: &str, needed: &str) -> PyErr {
    value_error(format!("{what} is '{given}', where {needed} is needed"))
}

/// An aggregate by its name, and the kind of its numbers: "u", "i" or "f".
#[derive(Clone, Copy)]
pub(crate) struct Folding {
    pub(crate) how: Aggregate,
    pub(crate) number: char,
}

extract! { Folding: (&str, char), (how, number) => {
    let how = match how {
        "sum" => Aggregate::Sum,
        "min" => Aggregate::Min,
        "max" => Aggregate::Max,
        "first" => Aggregate::First,
        "last" => Aggregate::Last,
        _ => return Err(unknown("how", how, "'sum', 'min', 'max', 'first' or 'last' (count_range counts)")),
    };
    Ok(Self { how, number })
} }

/// Which bounds of ranges belong to them.
#[derive(Clone, Copy)]
pub(crate) struct Ends(Closed);

extract! { Ends: [bool; 2], bounds => Ok(Self(match bounds {
    [true, true] => Closed::Both,
    [true, false] => Closed::Left,
    [false, true] => Closed::Right,
    [false, false] => Closed::Neither,
})) }

/// What a join by ranges asks for.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// Keys between two bounds.
    Ranges(Closed),
    /// Keys at most so far away.
    Bands(u64),
}

// By bands if there is a distance.
extract! { By: (Ends, Option<u64>), (ends, distance) => {
    Ok(distance.map_or(Self::Ranges(ends.0), Self::Bands))
} }

/// A join's kind by its name, and of a device's probes which ones are there, as a bitmap of 32-bit words.
pub(crate) struct Request(JoinKind, Option<Input>);

extract! { Request: (&str, Option<Input>), (how, valid) => Ok(Self(
    match how {
        "inner" => JoinKind::Inner,
        "left" => JoinKind::Left,
        "semi" => JoinKind::Semi,
        "anti" => JoinKind::Anti,
        _ => return Err(unknown("how", how, "'inner', 'left', 'semi' or 'anti'")),
    },
    valid,
)) }

/// What a join is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) kind: JoinKind,
    valid: Option<In<'a>>,
}

impl<'a> Asked<'a> {
    /// The bitmap of the probes that are there, if there is one.
    pub(crate) fn valid(self) -> PyResult<Option<Reading<'a, u32>>> {
        self.valid.map(In::read).transpose()
    }
}

/// Operations of a batch: one kind, or an array of 32-bit kinds.
#[derive(FromPyObject)]
pub(crate) enum KindsGiven {
    All(u32),
    Each(Input),
}

/// Operations of a batch: all of one kind, or each its own (0 inserts, 1 updates, 2 removes).
#[derive(Clone, Copy)]
pub(crate) enum Kinds<'a> {
    All(u32),
    Each(In<'a>),
}

/// An index's size, by part.
pub(crate) type Sizes = BTreeMap<&'static str, u64>;

/// The counts of a report, and the path.
#[derive(IntoPyObject)]
pub(crate) struct Report(u64, u64, u64, u64, String);

impl From<UpdateReport> for Report {
    fn from(done: UpdateReport) -> Self {
        Self(done.inserted, done.replaced, done.removed, done.unmatched, format!("{:?}", done.path))
    }
}

/// A function that makes arrays.
type Arrays = dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyList>> + Send;

/// What a batch found, in columns: offsets, keys and values of ranges, say.
pub(crate) enum Found {
    /// In vectors, of which arrays are made under the GIL.
    Host(Box<Arrays>),
    /// On the device.
    Device(Box<[Option<Memory>; 3]>),
}

impl Found {
    pub(crate) fn host<const N: usize>(
        arrays: impl FnOnce(Python<'_>) -> PyResult<[Py<PyAny>; N]> + Send + 'static,
    ) -> Self {
        Self::Host(Box::new(move |py| PyList::new(py, arrays(py)?)))
    }

    pub(crate) fn device(offsets: Memory, keys: Option<Memory>, values: Option<Memory>) -> Self {
        Self::Device(Box::new([Some(offsets), keys, values]))
    }
}

impl<'py> IntoPyObject<'py> for Found {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self {
            Self::Host(arrays) => arrays(py),
            Self::Device(found) => PyList::new(py, *found),
        }
    }
}
