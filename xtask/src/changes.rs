//! What `ci` runs after a change: which packages the changed files reach, and which steps.

use crate::failure::{Failure, Result};
use crate::{packages, paths, process};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The oldest commit since which not everything is run.
const OLDEST: Duration = Duration::from_hours(4 * 24);

/// Files and folders that decide how everything is compiled or run.
const COMMON: [&str; 8] =
    [".cargo/", ".ci/run", "Cargo.lock", "Cargo.toml", "rust-toolchain.toml", "rustfmt.toml", "xtask/", "crates/ptx/"];

/// Packages on which everything is built, or which every kernel is compiled with.
const GROUND: [&str; 3] = ["lanetree-layout", "lanetree-runtime", "lanetree-simt"];

/// What a package's tests read outside of its folder.
const READ: [(&str, &str); 7] = [
    ("README.md", "lanetree-report"),
    ("README.md", PYTHON),
    (DATA, "lanetree-report"),
    ("benches/figures/", "lanetree-report"),
    ("docs/", "lanetree-report"),
    ("docs/guide/kernels-of-your-own.md", "lanetree-joins"),
    ("docs/guide/saving-and-loading.md", "lanetree-files"),
];

/// What lies in a package's folder, but belongs to the packages that read it alone.
const DATA: &str = "benches/record/";

/// What belongs to no package, and is read by the tests of links alone, or not at all.
const PROSE: [&str; 8] =
    [".ci/passed", ".gitignore", ".github/", "CITATION.cff", "LICENSE-APACHE", "LICENSE-MIT", "deny.toml", "site/"];

/// Tasks of this program that are steps of their own, by their files.
const TASKS: [(&str, Rare); 4] = [
    ("xtask/src/first_build.rs", Rare::FirstBuild),
    ("xtask/src/packages.rs", Rare::FirstBuild),
    ("xtask/src/python.rs", Rare::Python),
    ("xtask/src/template.rs", Rare::Template),
];

/// Tested after every change: the façade, the verifier that the steps start, and the links of all documents.
const ALWAYS: [&str; 3] = [FACADE, VERIFY, "xtask"];

const FACADE: &str = "lanetree";
/// The package in `templates/kernel`, which is compiled with kernels of others.
const TEMPLATE: &str = "sum-by-group";
const VERIFY: &str = "lanetree-verify";
/// What asks the indexes.
const ASKING: [&str; 2] = ["lanetree-suite", VERIFY];
const PYTHON: &str = "lanetree-python";
/// Where the kernel crates' names begin.
const KERNELS: &str = "lanetree-kernels-";

/// Steps that only a change of their own brings, in addition to a run of everything; and Python, which is compiled by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rare {
    Python,
    FirstBuild,
    Platforms,
    Template,
    Integrations,
}

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything, and why.
    Everything(String),
    /// What a change reaches.
    Some(Plan),
}

/// What a change reaches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The commit that everything has passed at.
    pub(crate) since: String,
    /// Packages of the main workspace that are linted and tested, beyond [`ALWAYS`].
    reached: BTreeSet<String>,
    /// Whether sources of one have changed, so that pages may.
    pub(crate) has_pages: bool,
    /// Kernel crates whose PTX is checked.
    pub(crate) kernels: BTreeSet<String>,
    /// What `verify` is asked for; a sample if there is nothing.
    pub(crate) indexes: BTreeSet<String>,
    rare: BTreeSet<Rare>,
}

impl Plan {
    /// Packages that are linted and tested.
    pub(crate) fn packages(&self) -> BTreeSet<&str> {
        self.reached.iter().map(String::as_str).chain(ALWAYS).collect()
    }

    /// Whether a package is among them.
    pub(crate) fn has(&self, package: &str) -> bool {
        self.packages().contains(package)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let named = |names: &BTreeSet<String>| if names.is_empty() { "none".to_owned() } else { list(names) };
        let Self { reached, kernels, indexes, .. } = self;
        write!(f, "packages {}; kernels {}; indexes {}", named(reached), named(kernels), named(indexes))
    }
}

impl Scope {
    /// What has changed since a commit, by its name; everything without one.
    ///
    /// # Errors
    /// [`Failure::CannotRun`] without git or cargo.
    pub(crate) fn since(commit: Option<&str>) -> Result<Self> {
        let Some(commit) = commit else { return Ok(Self::Everything("no commit was named since which".to_owned())) };
        let everything = |why: &str| Ok(Self::Everything(format!("{commit} {why}")));
        if process::stdout(git().args(["merge-base", "--is-ancestor", commit, "HEAD"])).is_none() {
            return everything("is no commit before this one");
        }
        let time = process::stdout(git().args(["log", "-1", "--format=%ct", commit]));
        let time = time.and_then(|seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds.trim().parse().ok()?)));
        if time.and_then(|time| SystemTime::now().duration_since(time).ok()).is_some_and(|age| age > OLDEST) {
            return everything("is older than four days");
        }
        let changed = process::stdout(git().args(["diff", "--name-only", "--no-renames", commit]));
        let new = process::stdout(git().args(["ls-files", "--others", "--exclude-standard"]));
        let (Some(changed), Some(new)) = (changed, new) else {
            return Err(Failure::CannotRun("git does not say which files have changed".to_owned()));
        };
        let files: Vec<&str> = changed.lines().chain(new.lines()).collect();
        let mut scope = Graph::read()?.scope(&files);
        if let Self::Some(plan) = &mut scope {
            plan.since = commit.to_owned();
        }
        Ok(scope)
    }

    /// The plan, if not everything is run.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Everything(_) => None,
            Self::Some(plan) => Some(plan),
        }
    }

    /// Why a step is left out; nothing if it runs.
    pub(crate) fn left_out(&self, step: Rare) -> Option<String> {
        let plan = self.plan()?;
        let why = match step {
            Rare::Python => "nothing that it compiles or reads has changed",
            _ => "neither it nor its manifest has changed",
        };
        (!plan.rare.contains(&step)).then(|| format!("{why} since {}", plan.since))
    }
}

fn git() -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(paths::root());
    command
}

/// A package of any of the workspaces.
#[derive(Debug)]
struct Package {
    name: String,
    /// Relative to the root, with a slash at its end.
    folder: String,
    /// Names of what it is built from.
    built_from: Vec<String>,
    /// Names of what only its tests use.
    tested_with: Vec<String>,
}

/// All packages.
struct Graph(Vec<Package>);

/// Workspaces beside the main one, by their folders, and the step that builds each.
pub(crate) const WORKSPACES: [(&str, Rare); 3] =
    [("integrations/", Rare::Integrations), ("python/", Rare::Python), ("templates/kernel/", Rare::Template)];

/// The workspace beside the main one that a path is in.
fn beside(path: &str) -> Option<Rare> {
    WORKSPACES.iter().find(|(folder, _)| path.starts_with(folder)).map(|(_, step)| *step)
}

impl Graph {
    fn read() -> Result<Self> {
        let folders = WORKSPACES.iter().map(|(folder, _)| *folder).chain([""]);
        let listed = folders.map(|folder| packages::listed_in(&paths::root().join(folder)));
        let listed = listed.collect::<Result<Vec<_>>>()?;
        let package = |listed: packages::Listed| {
            let folder = listed.manifest_path.parent().unwrap_or(Path::new(""));
            let folder = format!("{}/", folder.strip_prefix(paths::root()).unwrap_or(folder).display());
            let (tests, others): (Vec<_>, Vec<_>) =
                listed.dependencies.into_iter().partition(|it| it.kind.as_deref() == Some("dev"));
            let names = |all: Vec<packages::Dependency>| all.into_iter().map(|it| it.name).collect();
            Package { name: listed.name, folder, built_from: names(others), tested_with: names(tests) }
        };
        Ok(Self(listed.into_iter().flatten().map(package).collect()))
    }

    /// The innermost package that a file is in.
    fn package_of(&self, file: &str) -> Option<&Package> {
        let all = if file.starts_with(DATA) { &[][..] } else { &self.0 };
        all.iter().filter(|it| file.starts_with(&it.folder)).max_by_key(|it| it.folder.len())
    }

    fn scope(&self, files: &[&str]) -> Scope {
        let mut plan = Plan::default();
        // Packages whose sources have changed, and those whose tests have.
        let (mut built, mut tested) = (BTreeSet::new(), BTreeSet::new());
        for &file in files {
            if let Some((_, step)) = TASKS.iter().find(|(task, _)| *task == file) {
                plan.rare.insert(*step);
                continue;
            }
            if COMMON.iter().any(|common| begins(file, common)) {
                return Scope::Everything(format!("{file} has changed"));
            }
            if file.ends_with("/Cargo.toml") && beside(file).is_none() {
                plan.rare.extend([Rare::FirstBuild, Rare::Platforms]);
            }
            plan.rare.extend(beside(file));
            let readers = READ.iter().filter(|(read, _)| begins(file, read));
            tested.extend(readers.map(|(_, name)| *name));
            match self.package_of(file) {
                Some(package) if is_of_tests(&file[package.folder.len()..]) => _ = tested.insert(&package.name),
                Some(package) => _ = built.insert(&*package.name),
                None if is_prose(file) || beside(file).is_some() || READ.iter().any(|(read, _)| begins(file, read)) => {
                }
                None => return Scope::Everything(format!("{file} has changed, which is in no package")),
            }
        }
        // How indexes are asked, and what they are compared with: concerns all of them.
        if ASKING.iter().any(|name| built.contains(name)) {
            plan.indexes.extend(INDEXES.iter().flat_map(|(_, names)| *names).map(|name| (*name).to_owned()));
        }
        let (has_facade, has_template) = (built.contains(FACADE), built.contains(TEMPLATE));
        loop {
            let from = |package: &&Package| package.built_from.iter().any(|name| built.contains(&**name));
            let more: Vec<&str> = self.0.iter().filter(from).map(|it| &*it.name).collect();
            let before = built.len();
            built.extend(more);
            if built.len() == before {
                break;
            }
        }
        if let Some(ground) = GROUND.iter().find(|ground| built.contains(**ground)) {
            return Scope::Everything(format!("{ground} has changed, on which everything is built"));
        }
        // What only the examples in a crate's documentation use is the façade; most crates are part of it, and would be reached by
        // each other.
        let with = |package: &&Package| {
            package.tested_with.iter().any(|name| built.contains(&**name) && (name != FACADE || has_facade))
        };
        tested.extend(self.0.iter().filter(with).map(|it| &*it.name));
        for package in self.0.iter().filter(|it| built.contains(&*it.name) || tested.contains(&*it.name)) {
            match beside(&package.folder) {
                // Python is compiled by itself, with other features. The others rarely break.
                Some(step) => plan.rare.extend((step == Rare::Python).then_some(step)),
                None => {
                    plan.reached.insert(package.name.clone());
                    plan.has_pages |= built.contains(&*package.name);
                }
            }
        }
        for name in built {
            plan.kernels.extend(name.strip_prefix(KERNELS).map(str::to_owned));
            plan.indexes.extend(indexes_of(name).iter().map(|name| (*name).to_owned()));
        }
        // It is compiled from the kernels of LaneTree alone, and from what the façade exports of them.
        if has_template || has_facade || plan.kernels.contains("lane-tree") {
            plan.kernels.insert("template".to_owned());
        }
        Scope::Some(plan)
    }
}

/// What `verify --index` calls what a package is.
const INDEXES: [(&str, &[&str]); 11] = [
    ("lanetree-baselines", &["grt"]),
    ("lanetree-cuart", &["cuart"]),
    ("lanetree-cubpt", &["cubpt"]),
    ("lanetree-harmonia", &["harmonia"]),
    ("lanetree-hbtree", &["hbtree"]),
    ("lanetree-intervals", &["intervals"]),
    ("lanetree-lane-tree", &["lanetree"]),
    ("lanetree-multimap", &["multimap"]),
    ("lanetree-primitives", &["primitives"]),
    ("lanetree-sharded", &["sharded", "replicated"]),
    ("lanetree-sorted", &["sorted"]),
];

fn indexes_of(package: &str) -> &'static [&'static str] {
    INDEXES.iter().find(|(name, _)| *name == package).map_or(&[], |(_, names)| names)
}

/// Whether a path is this file, or in this folder, which ends with a slash.
fn begins(path: &str, with: &str) -> bool {
    if with.ends_with('/') { path.starts_with(with) } else { path == with }
}

/// Whether a file of a package is its tests' alone, or prose.
fn is_of_tests(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    matches!(parts[0], "tests" | "examples" | "benches")
        || parts.iter().any(|part| matches!(*part, "tests" | "tests.rs"))
        || file.ends_with(".md")
}

fn is_prose(file: &str) -> bool {
    !file.contains('/') && file.ends_with(".md")
        || file.starts_with("docs/")
        || PROSE.iter().any(|prose| begins(file, prose))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(file: &str) -> Plan {
        match Graph::read().expect("cargo lists the packages").scope(&[file]) {
            Scope::Some(plan) => plan,
            Scope::Everything(why) => panic!("{file} runs everything: {why}"),
        }
    }

    fn words<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
        words.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_everything_is_built_on_runs_everything() {
        let graph = Graph::read().expect("cargo lists the packages");
        for file in [
            "crates/layout/src/word.rs",
            "crates/simt/src/lib.rs",
            "crates/runtime/src/uses.rs",
            "rust-toolchain.toml",
            "Cargo.toml",
            "Cargo.lock",
            ".ci/run",
            "xtask/src/ci.rs",
            "crates/ptx/src/check.rs",
            "a-new-folder/file",
        ] {
            let scope = graph.scope(&["docs/format.md", file]);
            assert!(matches!(&scope, Scope::Everything(why) if !why.is_empty()), "{file}: {scope:?}");
        }
    }

    #[test]
    fn a_changed_file_runs_the_steps_that_it_reaches() {
        // The file; what is verified; whose PTX is checked; rare steps; whether pages are made.
        let table: [(&str, &str, &str, &[Rare], bool); 16] = [
            ("docs/format.md", "", "", &[], false),
            ("docs/guide/kernels-of-your-own.md", "", "", &[], false),
            ("CHANGELOG.md", "", "", &[], false),
            (".ci/passed", "", "", &[], false),
            ("README.md", "", "", &[Rare::Python], false),
            ("benches/src/main.rs", "", "", &[], true),
            ("benches/record/nvidia-h100/bench.json", "", "", &[], false),
            ("crates/lanetree/tests/errors.rs", "", "", &[], false),
            (
                "crates/lane-tree/src/update/mod.rs",
                "intervals lanetree multimap replicated sharded",
                "",
                &[Rare::Python],
                true,
            ),
            ("crates/lane-tree/src/tests/batches.rs", "", "", &[], false),
            ("crates/cubpt/src/lib.rs", "cubpt", "", &[Rare::Python], true),
            ("crates/cubpt/kernels/src/search.rs", "cubpt", "cubpt", &[Rare::Python], true),
            ("integrations/sql/src/main.rs", "", "", &[Rare::Integrations], false),
            ("python/lanetree/_index.py", "", "", &[Rare::Python], false),
            ("xtask/src/first_build.rs", "", "", &[Rare::FirstBuild], false),
            ("templates/kernel/src/kernel.rs", "", "template", &[Rare::Template], false),
        ];
        for (file, indexes, kernels, rare, has_pages) in table {
            let plan = plan(file);
            assert_eq!((&words(&plan.indexes)[..], &words(&plan.kernels)[..]), (indexes, kernels), "{file}");
            assert_eq!(plan.rare.iter().copied().collect::<Vec<_>>(), rare, "{file}");
            assert_eq!(plan.has_pages, has_pages, "{file}");
            assert!(ALWAYS.iter().all(|package| plan.has(package)), "{file}");
        }
    }

    #[test]
    fn packages_are_reached_by_what_they_are_built_from_and_tested_with() {
        assert!(plan("docs/claims.md").has("lanetree-report") && !plan("docs/claims.md").has("lanetree-lane-tree"));
        assert!(plan("docs/guide/kernels-of-your-own.md").has("lanetree-joins"));
        let figures = plan("benches/figures/cuart.toml");
        assert!(figures.has("lanetree-report") && figures.has("lanetree-bench"));
        let tree = plan("crates/lane-tree/src/build.rs");
        let all = ["lane-tree", "multimap", "intervals", "sharded", "joins", "suite", "verify"];
        assert!(all.iter().all(|name| tree.has(&format!("lanetree-{name}"))), "{:?}", tree.packages());
        let others = ["harmonia", "cuart", "cubpt", "hbtree", "frame", "primitives", "base"];
        assert!(!others.iter().any(|name| tree.has(&format!("lanetree-{name}"))), "{:?}", tree.packages());
        // Tests that use the façade, of crates that it is built from.
        assert!(plan("crates/lanetree/src/host.rs").has("lanetree-sharded"));
        // Not what is built from those: their tests have not changed.
        assert!(!plan("crates/lane-tree/src/tests/batches.rs").has("lanetree-multimap"));
        let kernels = plan("crates/lane-tree/kernels/src/search.rs");
        assert_eq!(words(&kernels.kernels), "joins lane-tree template");
        let shared = plan("crates/base/kernels/src/rows.rs");
        assert!(["base", "multimap"].iter().all(|name| shared.kernels.contains(*name)), "{:?}", shared.kernels);
        assert!(shared.indexes.contains("cubpt") && shared.indexes.contains("primitives"), "{:?}", shared.indexes);
    }

    #[test]
    fn how_indexes_are_asked_concerns_all_of_them() {
        for file in ["crates/suite/src/run.rs", "crates/verify/src/run.rs"] {
            let plan = plan(file);
            assert!(INDEXES.iter().all(|(_, names)| names.iter().all(|name| plan.indexes.contains(*name))), "{file}");
        }
    }

    #[test]
    fn what_was_named_as_passed_must_be_a_commit_before_this_one() {
        for commit in [None, Some("no-such-commit")] {
            assert!(matches!(Scope::since(commit), Ok(Scope::Everything(_))), "{commit:?}");
        }
        assert_eq!(Scope::Everything(String::new()).left_out(Rare::Python), None);
        let some = Scope::Some(Plan { since: "abc".to_owned(), ..Plan::default() });
        assert_eq!(some.left_out(Rare::Template).as_deref(), Some("neither it nor its manifest has changed since abc"));
    }
}
