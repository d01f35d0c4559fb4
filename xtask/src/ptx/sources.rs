//! The kernel crates, and the hash of what their PTX is made from.

use super::digest::sha256;
use crate::failure::{Failure, Result};
use crate::{paths, process};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A kernel crate.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Its family: the name of the folder in crates that it is in.
    pub(crate) name: String,
    /// Its package.
    pub(crate) package: String,
    /// Its folder: `kernels` in that of the family.
    pub(crate) folder: PathBuf,
}

/// The kernel crates of the workspace in `root`, sorted.
pub(crate) fn discover(root: &Path) -> Vec<Source> {
    let families = paths::list(&root.join("crates")).into_iter();
    let crates = families.filter_map(|family| {
        let name = family.file_name()?.to_str()?.to_owned();
        Some(Source { package: format!("lanetree-kernels-{name}"), name, folder: family.join("kernels") })
    });
    crates.filter(|source| source.folder.join("Cargo.toml").is_file()).collect()
}

/// All of the kernel crates, or the one named.
pub(crate) fn choose(all: &[Source], only: Option<&str>) -> Result<Vec<Source>> {
    let chosen: Vec<_> = all.iter().filter(|source| only.is_none_or(|only| only == source.name)).cloned().collect();
    match only {
        Some(only) if chosen.is_empty() => {
            let known: Vec<_> = all.iter().map(|source| source.name.as_str()).collect();
            let known = known.join(", ");
            Err(Failure::CannotRun(format!("no kernel crate crates/{only}/kernels; there are those of: {known}")))
        }
        _ => Ok(chosen),
    }
}

/// What of xtask shapes the PTX: the compiler's flags, its environment, and what is made of its output.
pub(super) const SHAPING: [&str; 3] = ["xtask/src/ptx/compile.rs", "xtask/src/ptx/split.rs", "xtask/src/toolchain.rs"];

/// What a kernel crate's clippy.toml is: a link to the rules for device code.
const CLIPPY: &str = "../../simt/clippy.toml";

impl Source {
    /// The folder of its PTX and its manifest.
    pub(crate) fn ptx(&self) -> PathBuf {
        self.folder.join("ptx")
    }

    /// The file of a module.
    pub(crate) fn module(&self, name: &str) -> PathBuf {
        self.ptx().join(format!("{name}.ptx"))
    }

    /// The files of all modules that are there.
    pub(crate) fn modules(&self) -> Vec<PathBuf> {
        let mut files = paths::list(&self.ptx());
        files.retain(|file| file.extension().is_some_and(|extension| extension == "ptx"));
        files
    }

    /// Says so where clippy would not read the rules for device code.
    pub(crate) fn unruled(&self) -> Option<String> {
        let link = self.folder.join("clippy.toml");
        if std::fs::read_link(&link).is_ok_and(|target| target == Path::new(CLIPPY)) {
            return None;
        }
        let (name, link) = (&self.name, paths::shown(&link));
        Some(format!(
            "kernel crate {name}: {link} is not the link to clippy's rules; to fix it: ln -sf {CLIPPY} {link}"
        ))
    }

    /// The hash of everything that shapes the crate's PTX besides the compiler: see [`inputs`].
    pub(crate) fn hash(&self) -> Result<String> {
        Ok(sha256(inputs(&paths::root(), &self.tree()?)?.as_bytes()))
    }

    /// The crates that the device code is made of, a line each: package, version, folder or source, features.
    fn tree(&self) -> Result<String> {
        let mut command = process::cargo();
        command.args(["tree", "--locked", "--edges", "normal,build", "--target", super::TARGET]);
        command.args(["--package", &self.package, "--prefix", "none", "--no-dedupe", "--format", "{p} {f}"]);
        let output = process::output(&mut command)?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::CannotRun(format!("`cargo tree` failed for {}: {reason}", self.package)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Everything that shapes the PTX of the crates of `tree`, but for the compiler: the sources of those in the
/// workspace, the versions and features of the others as Cargo.lock has them, the profile and the edition,
/// cargo's settings, and what xtask does before and after. Comments on lines of their own and tests do not
/// count; nor does the place of the workspace on the disk.
fn inputs(root: &Path, tree: &str) -> Result<String> {
    let mut text = String::new();
    let lines: BTreeSet<_> = tree.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for line in lines {
        match folder(root, line) {
            Some((folder, shown)) => {
                text.extend(["crate ", &shown, "\n"]);
                for file in source_files(&folder) {
                    add_file(&mut text, root, &file)?;
                }
            }
            None => text.extend(["dependency ", line, "\n"]),
        }
    }
    for file in SHAPING {
        add_file(&mut text, root, &root.join(file))?;
    }
    let settings = root.join(".cargo/config.toml");
    if settings.is_file() {
        add_file(&mut text, root, &settings)?;
    }
    text += &device_settings(&paths::read(&root.join("Cargo.toml"))?);
    Ok(text)
}

/// The folder of a crate of the workspace, from its line of `cargo tree`, and the line without the place of the
/// workspace; `None` for a crate from elsewhere.
fn folder(root: &Path, line: &str) -> Option<(PathBuf, String)> {
    let (head, rest) = line.split_once(" (")?;
    let (place, features) = rest.split_once(')')?;
    let folder = Path::new(place);
    let inside = folder.strip_prefix(root).ok()?;
    Some((folder.to_owned(), format!("{head} ({}){features}", inside.display())))
}

/// Adds what counts of a file, under its name.
fn add_file(text: &mut String, root: &Path, file: &Path) -> Result<()> {
    let name = file.strip_prefix(root).unwrap_or(file);
    let name = name.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
    let content = paths::read(file)?;
    let content = match file.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => significant(&without_tests(&content), "//"),
        Some("toml") => significant(&content, "#"),
        _ => content,
    };
    text.extend(["file ", &name, "\n", &content]);
    Ok(())
}

/// A crate's manifest, build script and sources, without tests and without simt's emulator, which is host code.
fn source_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = ["Cargo.toml", "build.rs"].map(|name| folder.join(name)).into();
    files.retain(|file| file.is_file());
    let emulator = Path::new("simt/src/emulator");
    let mut folders = vec![folder.join("src")];
    while let Some(folder) = folders.pop() {
        for path in paths::list(&folder) {
            if path.file_stem().is_some_and(|stem| stem == "tests") || path.ends_with(emulator) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The text without its modules of tests, as rustfmt lays them out: `#[cfg(test)]`, then `mod … {` up to a brace
/// in the first column, or `mod …;`.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let module = lines.peek().filter(|next| line == "#[cfg(test)]" && next.starts_with("mod "));
        match module.map(|module| module.ends_with('{')) {
            Some(true) => {
                let _end = lines.find(|line| *line == "}");
            }
            Some(false) => {
                let _declaration = lines.next();
            }
            None => kept.extend([line, "\n"]),
        }
    }
    kept
}

/// The lines that are neither blank nor only a comment.
fn significant(text: &str, comment: &str) -> String {
    let lines = text.lines().map(str::trim_end);
    let kept = lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with(comment));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// What the root manifest says of how kernels are compiled: the profiles but for those of host builds, and the
/// edition.
fn device_settings(manifest: &str) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in significant(manifest, "#").lines() {
        if line.starts_with('[') {
            let host = ["dev", "test", "bench", "verify"].map(|name| format!("[profile.{name}"));
            let host = host.iter().any(|table| line.starts_with(table));
            inside = line.starts_with("[profile") && !host;
        }
        if inside || line.starts_with("edition") {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::workspace::{MANIFEST, Workspace};
    use super::*;

    fn tree(workspace: &Workspace) -> String {
        let root = workspace.0.display();
        format!(
            "own v0.1.0 ({root}/crates/own/kernels) \nother v0.1.0 ({root}/crates/other/kernels) \n\
             simt v0.1.0 ({root}/crates/simt) \nbytemuck v1.25.2 min_const_generics\n\n\
             pastey v0.2.3 (proc-macro) \n"
        )
    }

    fn inputs_of(workspace: &Workspace) -> String {
        inputs(&workspace.0, &tree(workspace)).expect("all files are there")
    }

    #[test]
    fn a_kernel_crate_has_the_name_of_its_family() {
        let workspace = Workspace::new("discover");
        workspace.write("crates/empty/kernels/README.md", "");
        let sources = workspace.sources();
        let names: Vec<_> = sources.iter().map(|source| (source.name.as_str(), source.package.as_str())).collect();
        assert_eq!(names, [("other", "lanetree-kernels-other"), ("own", "lanetree-kernels-own")]);
        assert_eq!(sources[1].module("m"), workspace.0.join("crates/own/kernels/ptx/m.ptx"));
        let chosen = choose(&sources, Some("own")).expect("it is there");
        assert_eq!(chosen.iter().map(|source| &source.name).collect::<Vec<_>>(), ["own"]);
    }

    #[test]
    fn a_crate_without_the_rules_for_device_code_is_named() {
        let workspace = Workspace::new("unruled");
        let source = workspace.source("own");
        assert!(source.unruled().expect("there is no file").contains("own/kernels/clippy.toml"));
        workspace.write("crates/own/kernels/clippy.toml", "");
        assert!(source.unruled().is_some(), "a file is not a link");
        let link = source.folder.join("clippy.toml");
        std::fs::remove_file(&link).expect("it is there");
        std::os::unix::fs::symlink(CLIPPY, &link).expect("the temporary folder can be written to");
        assert_eq!(source.unruled(), None);
    }

    #[test]
    fn all_that_shapes_the_ptx_is_hashed() {
        let workspace = Workspace::new("all");
        let changes = [
            ("crates/own/kernels/src/lib.rs", "fn g() {}\n"),
            ("crates/own/kernels/src/table.bin", "1"),
            ("crates/own/kernels/build.rs", "fn main() {}\n"),
            ("crates/other/kernels/src/lib.rs", "fn g() {}\n"),
            ("crates/other/kernels/Cargo.toml", "[package]\nedition = \"2021\"\n"),
            ("crates/simt/src/emulated.rs", "fn g() {}\n"),
            ("xtask/src/ptx/compile.rs", "const FLAG: u32 = 2;\n"),
            ("xtask/src/ptx/split.rs", "const FLAG: u32 = 2;\n"),
            ("xtask/src/toolchain.rs", "const FLAG: u32 = 2;\n"),
            (".cargo/config.toml", "[build]\nrustflags = [\"-O\"]\n"),
            ("Cargo.toml", &MANIFEST.replace("fat", "thin")),
            ("Cargo.toml", &MANIFEST.replace("debug = 1", "debug = 2")),
            ("Cargo.toml", &MANIFEST.replace("2024", "2021")),
        ];
        for (name, text) in changes {
            let before = inputs_of(&workspace);
            workspace.write(name, text);
            assert_ne!(inputs_of(&workspace), before, "{name}");
        }
        let newer = tree(&workspace).replace("1.25.2", "1.25.3");
        assert_ne!(inputs(&workspace.0, &newer).expect("all files are there"), inputs_of(&workspace));
        let more = tree(&workspace).replace("min_const_generics", "derive,min_const_generics");
        assert_ne!(inputs(&workspace.0, &more).expect("all files are there"), inputs_of(&workspace));
    }

    #[test]
    fn comments_tests_host_code_and_ptx_are_not_hashed() {
        let workspace = Workspace::new("comments");
        let before = inputs_of(&workspace);
        workspace.write("crates/own/kernels/src/lib.rs", "//! Other docs.\n\nfn f() {}\n\n#[cfg(test)]\nmod tests;\n");
        workspace.write("crates/own/kernels/src/tests.rs", "fn t() {}\n");
        workspace.write("crates/own/kernels/ptx/m.ptx", "ret;\n");
        workspace.write("crates/simt/src/emulator/mod.rs", "fn other() {}\n");
        workspace.write("xtask/src/ptx/split.rs", "const FLAG: u32 = 1;\n");
        workspace.write("Cargo.toml", &MANIFEST.replace("opt-level = 1", "opt-level = 2").replace("0.1.0", "0.2.0"));
        assert_eq!(inputs_of(&workspace), before);
    }

    #[test]
    fn the_place_of_the_workspace_is_not_hashed() {
        let (here, there) = (Workspace::new("here"), Workspace::new("there"));
        assert_eq!(inputs_of(&here), inputs_of(&there));
    }

    #[test]
    fn kernel_crates_are_hashed_with_the_crates_that_they_use() {
        let source = choose(&discover(&paths::root()), Some("harmonia")).expect("it is there").remove(0);
        let text = inputs(&paths::root(), &source.tree().expect("cargo runs")).expect("all files are there");
        for file in ["crates/harmonia/kernels/src/get.rs", "crates/simt/src/lib.rs", "crates/layout/src/lib.rs"] {
            assert!(text.contains(&format!("file {file}\n")), "{file}");
        }
        assert!(text.contains("dependency bytemuck v") && !text.contains(&paths::root().display().to_string()));
    }

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let text = "//! Docs.\n\nfn f() {\n    // why\n    g(); // trailing\n}\n";
        assert_eq!(significant(text, "//"), "fn f() {\n    g(); // trailing\n}\n");
    }

    #[test]
    fn what_follows_a_module_of_tests_counts() {
        let text = "f\n#[cfg(test)]\nmod tests {\n    {\n    }\n}\ng\n#[cfg(test)]\nuse h;\n";
        assert_eq!(without_tests(text), "f\ng\n#[cfg(test)]\nuse h;\n");
    }

    #[test]
    fn an_unknown_crate_is_named_with_those_that_exist() {
        let error = choose(&discover(&paths::root()), Some("btrie")).expect_err("no such crate").to_string();
        assert!(error.contains("btrie") && error.contains("harmonia"), "{error}");
    }
}
