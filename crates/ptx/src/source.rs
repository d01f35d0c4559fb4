//! A kernel crate, and the hash of what its PTX is made from.

use crate::digest::sha256;
use crate::failure::{Failure, Result};
use crate::toolchain::TARGET;
use crate::{files, process};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel crate.
#[derive(Clone, Debug)]
pub struct Source {
    /// What messages call it.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Its library, as the compiler names it.
    pub library: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The folder of its PTX and its manifest: where the macro `modules!` looks, `ptx` in the crate's folder.
    pub ptx: PathBuf,
    /// The workspace that it belongs to: the folder of Cargo.lock.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
}

/// What of this program shapes the PTX: the compiler's flags, its environment, and what is made of its output.
const SHAPING: [(&str, &str); 3] = [
    ("compile.rs", include_str!("compile.rs")),
    ("split.rs", include_str!("split.rs")),
    ("toolchain.rs", include_str!("toolchain.rs")),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Source {
    /// The kernel crate with this Cargo.toml.
    ///
    /// # Errors
    /// [`Failure::CannotRun`] without such a file, for a workspace without a package of its own, and for a package without a library;
    /// from cargo.
    pub fn at(manifest: &Path) -> Result<Self> {
        let shown = files::shown(manifest);
        let wrong = |reason: &str| Failure::CannotRun(format!("{shown}: {reason}"));
        let manifest = manifest.canonicalize().map_err(|error| wrong(&error.to_string()))?;
        let mut command = cargo();
        command.args(["metadata", "--format-version=1", "--no-deps", "--manifest-path"]).arg(&manifest);
        let output = process::output(&mut command)?;
        if !output.status.success() {
            return Err(wrong(String::from_utf8_lossy(&output.stderr).trim()));
        }
        let metadata: Metadata = serde_json::from_slice(&output.stdout)
            .map_err(|error| wrong(&format!("cannot read what `cargo metadata` says: {error}")))?;
        let found = metadata.packages.into_iter().find(|package| package.manifest_path == manifest);
        let package =
            found.ok_or_else(|| wrong("a workspace, not a package: name the Cargo.toml of a kernel crate"))?;
        let is_library = |target: &&Target| target.kind.iter().any(|kind| kind == "lib" || kind.ends_with("rlib"));
        let library = package.targets.iter().find(is_library);
        let library =
            library.ok_or_else(|| wrong("no kernel crate: it has no library, and kernels are in libraries"))?;
        let folder = manifest.with_file_name("");
        Ok(Self {
            name: package.name.clone(),
            library: library.name.replace('-', "_"),
            package: package.name,
            ptx: folder.join("ptx"),
            folder,
            root: metadata.workspace_root,
            target: metadata.target_directory,
        })
    }

    /// The file of a module.
    pub(crate) fn module(&self, name: &str) -> PathBuf {
        self.ptx.join(format!("{name}.ptx"))
    }

    /// The files of all modules that are there.
    pub(crate) fn modules(&self) -> Vec<PathBuf> {
        let mut files = files::list(&self.ptx);
        files.retain(|file| file.extension().is_some_and(|extension| extension == "ptx"));
        files
    }

    /// The hash of everything that shapes the crate's PTX besides the compiler: see [`inputs`].
    pub(crate) fn hash(&self) -> Result<String> {
        Ok(sha256(inputs(&self.root, &self.tree()?)?.as_bytes()))
    }

    /// The crates that the device code is made of, a line each: package, version, folder or source, features.
    fn tree(&self) -> Result<String> {
        let mut command = cargo();
        command.current_dir(&self.root);
        command.args(["tree", "--locked", "--edges", "normal,build", "--target", TARGET]);
        command.args(["--package", &self.package, "--prefix", "none", "--no-dedupe", "--format", "{p} {f}"]);
        let output = process::output(&mut command)?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::CannotRun(format!("`cargo tree` failed for {}: {reason}", self.package)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The cargo that runs this program, or the one in the PATH.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Everything that shapes the PTX of the crates of `tree`, but for the compiler: the sources of those that are named by a path,
/// the versions and features of the others as Cargo.lock has them, the workspace's profile and edition, cargo's
/// settings, and what this program does before and after. Comments on lines of their own and tests do not
/// count; nor do the places of the workspace and of other crates on the disk.
fn inputs(root: &Path, tree: &str) -> Result<String> {
    let mut text = String::new();
    let lines: BTreeSet<_> = tree.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for line in lines {
        match Listed::of(root, line) {
            Some(Listed { folder, shown, place }) => {
                text.extend(["crate ", &shown, "\n"]);
                for file in source_files(&folder) {
                    let name = file.strip_prefix(&folder).unwrap_or(&file);
                    add_file(&mut text, &place.join(name), &files::read(&file)?);
                }
            }
            None => text.extend(["dependency ", line, "\n"]),
        }
    }
    for (file, content) in SHAPING {
        add_file(&mut text, &Path::new("lanetree-ptx").join(file), content);
    }
    let settings = Path::new(".cargo/config.toml");
    if root.join(settings).is_file() {
        add_file(&mut text, settings, &files::read(&root.join(settings))?);
    }
    text += &device_settings(&files::read(&root.join("Cargo.toml"))?);
    Ok(text)
}

/// A crate that is named by a path.
struct Listed {
    folder: PathBuf,
    /// Its line of `cargo tree`, without the place of the workspace; of a crate outside of it, without its own.
    shown: String,
    /// What its folder is called in the names of files: where it is in the workspace, or the package's name.
    place: PathBuf,
}

impl Listed {
    /// From the line of `cargo tree`; `None` for a crate of a registry or a repository.
    fn of(root: &Path, line: &str) -> Option<Self> {
        let (head, rest) = line.split_once(" (")?;
        let (folder, features) = rest.split_once(')')?;
        let folder = Path::new(folder);
        if !folder.is_absolute() {
            return None;
        }
        let (package, _) = head.split_once(' ')?;
        let (place, shown) = match folder.strip_prefix(root) {
            Ok(inside) => (inside.to_owned(), format!("{head} ({}){features}", inside.display())),
            Err(_) => (package.into(), format!("{head}{features}")),
        };
        Some(Self { folder: folder.to_owned(), shown, place })
    }
}

/// Adds what counts of a file, under its name.
fn add_file(text: &mut String, name: &Path, content: &str) {
    let shown = name.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
    let content = match name.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => significant(&without_tests(content), "//"),
        Some("toml") => without_patches(&significant(content, "#")),
        _ => content.to_owned(),
    };
    text.extend(["file ", &shown, "\n", &content]);
}

/// A crate's manifest, build script and sources, without tests and without simt's emulator, which is host code.
fn source_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = ["Cargo.toml", "build.rs"].map(|name| folder.join(name)).into();
    files.retain(|file| file.is_file());
    let emulator = Path::new("simt/src/emulator");
    let mut folders = vec![folder.join("src")];
    while let Some(folder) = folders.pop() {
        for path in files::list(&folder) {
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

/// A manifest without its patches: what they choose is hashed.
fn without_patches(manifest: &str) -> String {
    let mut is_patch = false;
    let kept = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_patch = line.starts_with("[patch");
        }
        !is_patch
    });
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// The lines that are neither blank nor only a comment.
fn significant(text: &str, comment: &str) -> String {
    let lines = text.lines().map(str::trim_end);
    let kept = lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with(comment));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// What the root manifest says of how kernels are compiled: the edition, and the profiles except the ones for host
/// builds.
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
    use super::*;
    use crate::fixture::{MANIFEST, Workspace};
    use std::fs;

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
    fn a_package_with_a_library_is_a_kernel_crate_and_nothing_else_is() {
        let workspace = Workspace::new("at");
        let file = |name: &str| workspace.0.join(name).join("Cargo.toml");
        workspace.write("Cargo.toml", "[workspace]\nmembers = [\"own\", \"program\"]\nresolver = \"3\"\n");
        workspace.write("own/Cargo.toml", "[package]\nname = \"my-own\"\n[lib]\nname = \"mine\"\n");
        workspace.write("own/src/lib.rs", "");
        workspace.write("program/Cargo.toml", "[package]\nname = \"program\"\n");
        workspace.write("program/src/main.rs", "");
        let source = Source::at(&file("own")).expect("it has a library");
        assert_eq!((&*source.package, &*source.library), ("my-own", "mine"));
        let root = fs::canonicalize(&workspace.0).expect("it is there");
        assert_eq!((&source.root, source.module("m")), (&root, root.join("own/ptx/m.ptx")));
        for (name, reason) in [("program", "has no library"), ("", "a workspace, not a package"), ("none", "No such")] {
            let error = Source::at(&file(name)).expect_err(name).to_string();
            assert!(error.contains(reason) && error.contains("Cargo.toml"), "{error}");
        }
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
        for (file, _) in SHAPING {
            assert!(inputs_of(&workspace).contains(&format!("file lanetree-ptx/{file}\n")), "{file}");
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
        workspace.write("crates/own/kernels/Cargo.toml", "[package]\n\n[patch.crates-io]\nx = { path = \"x\" }\n");
        workspace.write("Cargo.toml", &MANIFEST.replace("opt-level = 1", "opt-level = 2").replace("0.1.0", "0.2.0"));
        assert_eq!(inputs_of(&workspace), before);
    }

    #[test]
    fn the_place_of_the_workspace_is_not_hashed() {
        let (here, there) = (Workspace::new("here"), Workspace::new("there"));
        assert_eq!(inputs_of(&here), inputs_of(&there));
    }

    #[test]
    fn a_crate_outside_the_workspace_is_hashed_and_its_place_is_not() {
        let workspace = Workspace::new("outside");
        let elsewhere = [Workspace::new("elsewhere"), Workspace::new("yonder")];
        let inputs_with = |other: &Workspace| {
            let line = format!("simt v0.1.0 ({}/crates/simt) emulator\n", other.0.display());
            inputs(&workspace.0, &line).expect("all files are there")
        };
        let before = inputs_with(&elsewhere[0]);
        assert!(before.contains("crate simt v0.1.0 emulator\nfile simt/Cargo.toml\n"), "{before}");
        assert_eq!(inputs_with(&elsewhere[1]), before);
        elsewhere[1].write("crates/simt/src/lib.rs", "fn g() {}\n");
        assert_ne!(inputs_with(&elsewhere[1]), before);
    }

    #[test]
    fn kernel_crates_are_hashed_with_the_crates_that_they_use() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harmonia/kernels/Cargo.toml");
        let source = Source::at(&manifest).expect("it is in this repository");
        let text = inputs(&source.root, &source.tree().expect("cargo runs")).expect("all files are there");
        for file in ["crates/harmonia/kernels/src/get.rs", "crates/simt/src/lib.rs", "crates/layout/src/lib.rs"] {
            assert!(text.contains(&format!("file {file}\n")), "{file}");
        }
        assert!(text.contains("dependency bytemuck v") && !text.contains(&source.root.display().to_string()));
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
}
