//! What a figure is: all that the bench knows of one. Each is an entry of `benches/figures`, which says what it is called,
//! how much it measures and how its rows are printed; a file in `figures` here, which measures; and a line of the list there.

use super::columns::Column;
use super::data::{Data, MAX_LEN};
use super::error::Result;
use super::plan::{STANDARD, Sizes};
use super::session::Session;
use super::subject::Subject;
use super::table::{Summary, Table};
use core::fmt;
use serde::Deserialize;
use std::path::PathBuf;

/// A figure, or a part of what is measured unless less is asked for.
pub(crate) struct Figure {
    /// What it is called on the command line: a value of `--only` for a part, of `--figure` for any other.
    pub(crate) name: &'static str,
    /// One line for `--help`.
    pub(crate) about: &'static str,
    /// How its rows are printed; `None` if it has none.
    pub(crate) table: Option<&'static Table>,
    /// What it needs to be measured.
    pub(crate) needs: Needs,
    /// Which options change what it measures. Others are refused.
    pub(crate) takes: Takes,
    /// The keys of its trees, unless `--sizes` says otherwise.
    pub(crate) sizes: &'static Sizes,
    /// The largest of `--sizes`.
    pub(crate) most: u32,
    /// Whether the hardware's ceilings are measured with it.
    pub(crate) with_ceilings: bool,
    pub(crate) run: Run,
}

impl Figure {
    /// What most figures have; the rest of its fields are to be given.
    pub(crate) const BASE: Self = Self {
        name: "",
        about: "",
        table: None,
        needs: Needs::Device,
        takes: Takes::SIZES_OR_KEYS,
        sizes: &STANDARD,
        most: MAX_LEN.ilog2(),
        with_ceilings: false,
        run: Run::Alone(|_, _| Ok(())),
    };
}

/// The name.
impl fmt::Debug for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What is measured for a figure, and what only code can say of its rows.
#[derive(Clone, Copy)]
pub(crate) struct Measurement {
    /// That of the figure's entry.
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    /// Columns that no other figure has, by the names that the entry gives them.
    pub(crate) columns: &'static [(&'static str, Column)],
    /// What its table says of all rows together.
    pub(crate) summary: Option<Summary>,
}

impl Measurement {
    pub(crate) const fn new(name: &'static str, run: Run) -> Self {
        Self { name, run, columns: &[], summary: None }
    }

    /// With columns of its own.
    pub(crate) const fn columns(self, columns: &'static [(&'static str, Column)]) -> Self {
        Self { columns, ..self }
    }

    /// With lines below its table.
    pub(crate) const fn summary(self, summary: Summary) -> Self {
        Self { summary: Some(summary), ..self }
    }
}

/// What a figure needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Needs {
    /// Kernels: a GPU, or the emulator.
    Kernels,
    /// Any device; the host's native code stands for kernels.
    Device,
    /// None: it is the same with a GPU and without.
    Nothing,
}

/// Options that a figure takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Takes {
    pub(crate) sizes: bool,
    /// A file of keys.
    pub(crate) keys: bool,
    /// A folder of inputs.
    pub(crate) input: bool,
}

impl Takes {
    pub(crate) const NOTHING: Self = Self { sizes: false, keys: false, input: false };
    pub(crate) const SIZES: Self = Self { sizes: true, ..Self::NOTHING };
    pub(crate) const SIZES_OR_KEYS: Self = Self { keys: true, ..Self::SIZES };
}

/// How a figure is measured.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// By itself.
    Alone(fn(&mut Session, &Request) -> Result<()>),
    /// Over keys that it is given: a file's keys, or uniform ones.
    OverKeys(At, fn(&mut Session, Keys) -> Result<()>),
    /// As a part.
    Part(Part),
}

/// At which of the sizes something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    EverySize,
    MainSize,
}

/// What a part measures. Parts share their trees: each tree is built once, for all of them.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// Something before the first tree, and something of every tree: the ceilings.
    Ceilings { first: fn(&mut Session) -> Result<()>, of_tree: fn(&mut Session, &Tree) -> Result<()> },
    /// Something of the trees.
    OfTree(At, fn(&mut Session, &Tree) -> Result<()>),
    /// Something over the main tree's keys, once the tree is gone.
    AfterTree(fn(&mut Session, &Keys) -> Result<()>),
    /// Something over uniform keys of 64 bits, without a tree, at the main size.
    OverUniform(fn(&mut Session, &Data<u64>) -> Result<()>),
    /// Something on the CPU, at sizes of its own.
    OnCpu(fn(&mut Session, &Keys) -> Result<()>),
}

/// What a figure is asked for.
pub(crate) struct Request {
    /// The keys of its trees, as exponents of two.
    pub(crate) sizes: Vec<u32>,
    /// The folder of its inputs, if one was given.
    pub(crate) input: Option<PathBuf>,
}

/// Something over keys of 32 or of 64 bits.
pub(crate) enum Either<A, B> {
    Narrow(A),
    Wide(B),
}

/// Keys and their values.
pub(crate) type Keys = Either<Data<u32>, Data<u64>>;

/// A Harmonia tree, with its data.
pub(crate) type Tree = Either<Subject<u32>, Subject<u64>>;

impl From<Data<u32>> for Keys {
    fn from(data: Data<u32>) -> Self {
        Self::Narrow(data)
    }
}

impl From<Data<u64>> for Keys {
    fn from(data: Data<u64>) -> Self {
        Self::Wide(data)
    }
}

/// An expression over what an [`Either`] holds.
macro_rules! either {
    ($of:expr, $held:ident => $value:expr) => {
        match $of {
            crate::bench::figure::Either::Narrow($held) => $value,
            crate::bench::figure::Either::Wide($held) => $value,
        }
    };
}
pub(crate) use either;

impl Tree {
    /// Builds it, and measures its build.
    ///
    /// # Errors
    /// As [`Subject::build`].
    pub(crate) fn build(session: &Session, keys: Keys) -> Result<Self> {
        Ok(match keys {
            Either::Narrow(data) => Either::Narrow(Subject::build(session, data)?),
            Either::Wide(data) => Either::Wide(Subject::build(session, data)?),
        })
    }

    /// The data, without the tree.
    pub(crate) fn into_keys(self) -> Keys {
        match self {
            Either::Narrow(subject) => Either::Narrow(subject.into_data()),
            Either::Wide(subject) => Either::Wide(subject.into_data()),
        }
    }
}
