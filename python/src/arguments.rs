//! What calls take from Python and return to it, and how both are named in `_native.pyi`.

use crate::errors::value_error;
use crate::input::{In, Input};
use crate::memory::{Memory, Reading};
use crate::types::check_len;
use core::ops::Range;
use lanetree::bindings::JoinBounds;
use lanetree::{AnyKey, AsOf, Closed, JoinKind, Ties, UpdateReport};
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

macro_rules! plain {
    ($($type:ty: $name:literal,)*) => {$(
        impl Named for $type {
            const NAME: &'static str = $name;
        }
        impl Argument for $type {
            type Seen<'a> = Self;

            fn seen(&self) -> Self {
                *self
            }
        }
        impl Seen for $type {}
    )*};
}
plain! {
    bool: "bool", u32: "int", u64: "int", usize: "int", f64: "float", [bool; 2]: "tuple[bool, bool]",
    By: "_By", How: "_AsOf", Option<How>: "Optional[_AsOf]",
}

macro_rules! named {
    ($($type:ty: $name:literal,)*) => {$(
        impl Named for $type {
            const NAME: &'static str = $name;
        }
    )*};
}
named! {
    &str: "str", (): "None", (Memory, Option<Memory>, Option<Memory>): "_Joined", Found: "_Columns",
    (Memory, Option<Memory>, Option<Memory>, Option<Memory>): "_Between",
    Input: "_Column", Option<Input>: "Optional[_Column]", [Input; 2]: "_Pair", Report: "_Report",
    Outputs: "_Results", Request: "_Asked",
    KindsGiven: "_Kinds",
}

impl Argument for &str {
    type Seen<'a>
        = &'a str
    where
        Self: 'a;

    fn seen(&self) -> &str {
        self
    }
}
impl Seen for &str {}

impl Argument for Input {
    type Seen<'a> = In<'a>;

    fn seen(&self) -> In<'_> {
        self.get()
    }
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

impl Argument for Option<Input> {
    type Seen<'a> = Option<In<'a>>;

    fn seen(&self) -> Option<In<'_>> {
        self.as_ref().map(Input::get)
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

/// Two columns: bounds, or groups and keys.
impl Argument for [Input; 2] {
    type Seen<'a> = [In<'a>; 2];

    fn seen(&self) -> [In<'_>; 2] {
        self.each_ref().map(Input::get)
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

/// Arrays for a look-up's results: values, and whether they are found; and the value of what is not found.
pub(crate) struct Outputs(Option<Input>, Option<Input>, u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Outputs {
    type Error = PyErr;

    // By that of a tuple, whose errors stay what they are.
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let (values, found, miss): (Option<Input>, Option<Input>, u64) = object.extract()?;
        Ok(Self(values, found, miss))
    }
}

/// Where a look-up's results go: values, unless they are nothing, and which are found.
#[derive(Clone, Copy)]
pub(crate) struct Results<'a> {
    pub(crate) values: Option<In<'a>>,
    pub(crate) found: Option<In<'a>>,
    pub(crate) miss: u64,
}

impl Argument for Outputs {
    type Seen<'a> = Results<'a>;

    fn seen(&self) -> Results<'_> {
        Results { values: self.0.seen(), found: self.1.seen(), miss: self.2 }
    }
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
pub(crate) struct How(pub(crate) AsOf);

fn asof((direction, ties, is_strict, tolerance): (&str, &str, bool, Option<u64>)) -> PyResult<How> {
    let how = match direction {
        "backward" => AsOf::backward(),
        "forward" => AsOf::forward(),
        "nearest" => AsOf::nearest(),
        _ => {
            return Err(value_error(format!(
                "direction is '{direction}', where 'backward', 'forward' or 'nearest' is needed"
            )));
        }
    };
    let ties = match ties {
        "backward" => Ties::Backward,
        "forward" => Ties::Forward,
        "both" => Ties::Both,
        _ => {
            return Err(value_error(format!("ties is '{ties}', where 'backward', 'forward' or 'both' is needed")));
        }
    };
    let how = how.strict(is_strict).ties(ties);
    Ok(How(tolerance.map_or(how, |most| how.tolerance(most))))
}

impl<'a, 'py> FromPyObject<'a, 'py> for How {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        asof(object.extract()?)
    }
}

/// What a join by ranges asks for.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// Keys between two bounds.
    Ranges(Closed),
    /// Keys at most so far away.
    Bands(u64),
}

impl<'a, 'py> FromPyObject<'a, 'py> for By {
    type Error = PyErr;

    /// By bands if there is a distance, else by ranges with these bounds inclusive.
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let (bounds, distance): ([bool; 2], Option<u64>) = object.extract()?;
        Ok(distance.map_or_else(|| Self::Ranges(closed(bounds)), Self::Bands))
    }
}

impl By {
    /// The bounds of each probe's matches, both inclusive.
    pub(crate) fn bounds<K: AnyKey>(self) -> lanetree::Result<JoinBounds<K>> {
        match self {
            Self::Ranges(closed) => Ok(JoinBounds::of_ranges(closed)),
            Self::Bands(distance) => JoinBounds::of_bands(distance),
        }
    }
}

/// Which bounds of ranges belong to them.
pub(crate) fn closed(bounds: [bool; 2]) -> Closed {
    match bounds {
        [true, true] => Closed::Both,
        [true, false] => Closed::Left,
        [false, true] => Closed::Right,
        [false, false] => Closed::Neither,
    }
}

/// A join's kind by its name, and of a device's probes which ones are there, as a bitmap of 32-bit words.
pub(crate) struct Request(JoinKind, Option<Input>);

impl<'a, 'py> FromPyObject<'a, 'py> for Request {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let (how, valid): (String, Option<Input>) = object.extract()?;
        let kind = match &*how {
            "inner" => JoinKind::Inner,
            "left" => JoinKind::Left,
            "semi" => JoinKind::Semi,
            "anti" => JoinKind::Anti,
            _ => {
                return Err(value_error(format!("how is '{how}', where 'inner', 'left', 'semi' or 'anti' is needed")));
            }
        };
        Ok(Self(kind, valid))
    }
}

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

impl Argument for Request {
    type Seen<'a> = Asked<'a>;

    fn seen(&self) -> Asked<'_> {
        Asked { kind: self.0, valid: self.1.seen() }
    }
}
impl Seen for Asked<'_> {}

/// Operations of a batch: one kind, or an array of 32-bit kinds.
pub(crate) enum KindsGiven {
    All(u32),
    Each(Input),
}

impl<'a, 'py> FromPyObject<'a, 'py> for KindsGiven {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(kind) => Ok(Self::All(kind)),
            Err(_) => object.extract().map(Self::Each),
        }
    }
}

/// Operations of a batch: all of one kind, or each its own (0 inserts, 1 updates, 2 removes).
#[derive(Clone, Copy)]
pub(crate) enum Kinds<'a> {
    All(u32),
    Each(In<'a>),
}

impl Argument for KindsGiven {
    type Seen<'a> = Kinds<'a>;

    fn seen(&self) -> Kinds<'_> {
        match self {
            Self::All(kind) => Kinds::All(*kind),
            Self::Each(kinds) => Kinds::Each(kinds.get()),
        }
    }
}
impl Seen for Kinds<'_> {}

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

/// A function that makes three arrays.
pub(crate) trait MakeArrays: FnOnce(Python<'_>) -> [Py<PyAny>; 3] + Send {}

impl<F: FnOnce(Python<'_>) -> [Py<PyAny>; 3] + Send> MakeArrays for F {}

/// What a batch found, in three columns: offsets, keys and values of ranges, say.
pub(crate) enum Found {
    /// In vectors, of which arrays are made under the GIL.
    Host(Box<dyn MakeArrays>),
    /// On the device.
    Device(Box<[Option<Memory>; 3]>),
}

impl Found {
    pub(crate) fn host(arrays: impl FnOnce(Python<'_>) -> [Py<PyAny>; 3] + Send + 'static) -> Self {
        Self::Host(Box::new(arrays))
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
        let columns = match self {
            Self::Host(arrays) => arrays(py),
            Self::Device(found) => {
                let object = |memory: Option<Memory>| -> PyResult<Py<PyAny>> {
                    memory.map_or_else(|| Ok(py.None()), |memory| Ok(Py::new(py, memory)?.into_any()))
                };
                let [offsets, keys, values] = found.map(object);
                [offsets?, keys?, values?]
            }
        };
        PyList::new(py, columns)
    }
}
