//! `ptx --codegen nvvm`: compiles kernel crates with rust-cuda, through the package in xtask/nvvm.
//!
//! rust-cuda wants a toolchain and a Cargo.lock of its own, and kernel crates that are `cdylib`s. So
//! this makes a copy of the device crates in the target folder, a workspace by itself, and leaves the
//! real one as it is.

use crate::failure::{Failure, Result};
use crate::{paths, process, rust_cuda};
use lanetree_ptx::{Generator, Source, kernels_with, toolchain};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the copy's manifest has beyond the original: the `cuda_std` of the revision in
/// xtask/nvvm/Cargo.toml, as the published one does not build with today's compilers.
const PATCH: &str = "
[patch.crates-io]
cuda_std = { git = \"https://github.com/Rust-GPU/rust-cuda\", rev = \"946c91f\" }
";

/// The version of cuda_std's dependency glam that rust-cuda locks; newer ones do not build for the GPU.
const GLAM: &str = "0.30.9";

/// What the manifest calls the compiler.
const COMPILER: &str = "rust-cuda 946c91f (nightly-2026-04-02), libNVVM";

/// rust-cuda's NVVM code generator.
pub(crate) struct Nvvm;

impl Generator for Nvvm {
    fn compiler(&self) -> &str {
        COMPILER
    }

    fn compile(&self, crates: &[Source]) -> Result<BTreeMap<String, Vec<String>>> {
        compile(crates)
    }

    fn miscompiled(&self, text: &str) -> Vec<String> {
        miscompiled(text)
    }
}

/// The kernel crates that are compiled by groups of instances: LLVM 7's time grows faster than the number of instances
/// that are compiled at once.
const GROUPED: [&str; 1] = ["lane-tree"];

/// A kernel crate's list of instances.
const INSTANCES: &str = "src/instances.rs";

/// The PTX of each kernel crate, by its family: a text for each group of its instances.
fn compile(crates: &[Source]) -> Result<BTreeMap<String, Vec<String>>> {
    let rust_cuda = rust_cuda::find().map_err(|missing| {
        Failure::CannotRun(format!("rust-cuda cannot be built without\n  {}", missing.join("\n  ")))
    })?;
    let folder = paths::target().join("nvvm");
    let copy = folder.join("workspace");
    copy_device_crates(&copy, crates)?;

    let target = folder.join("target");
    // Cargo keeps what a compiler says of itself, and that it could not be loaded; another libNVVM may fix that.
    match std::fs::remove_file(target.join(".rustc_info.json")) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Failure::CannotRun(format!(
                "cannot remove .rustc_info.json in {}: {error}",
                paths::shown(&target)
            )));
        }
        _ => {}
    }
    let cargo = || {
        let mut command = Command::new("cargo");
        // The shim chooses the toolchain by the folder that it is called in.
        toolchain::clean(&mut command).current_dir(paths::root().join("xtask/nvvm"));
        command.env("CARGO_TARGET_DIR", &target);
        command.env("CUDA_PATH", &rust_cuda.toolkit).env("LLVM_CONFIG", &rust_cuda.llvm_config);
        // The code generator is linked with libnvvm.so.4, which no loader's path has.
        command.env("LD_LIBRARY_PATH", &rust_cuda.libnvvm);
        command
    };
    // First the lock takes in the patched cuda_std with what it needs, then glam can be set back.
    for what in [&["--workspace"][..], &["--package", "glam", "--precise", GLAM]] {
        let manifest = copy.join("Cargo.toml");
        process::run(cargo().args(["update", "--quiet"]).args(what).arg("--manifest-path").arg(manifest))?;
    }
    let (grouped, whole): (Vec<_>, Vec<_>) = crates.iter().partition(|source| GROUPED.contains(&source.name.as_str()));
    let run = |sources: &[&Source]| {
        let out = folder.join("ptx");
        let mut command = cargo();
        command.args(["run", "--release", "--locked", "--"]).arg(&copy).arg(&out);
        process::run(command.args(sources.iter().map(|source| &source.name)))?;
        let text = |source: &&Source| paths::read(&out.join(format!("{}.ptx", source.name)));
        sources.iter().map(text).collect::<Result<Vec<_>>>()
    };
    let mut texts = BTreeMap::new();
    if !whole.is_empty() {
        texts.extend(
            whole.iter().map(|source| source.name.clone()).zip(run(&whole)?.into_iter().map(|text| vec![text])),
        );
    }
    for source in grouped {
        let instances = copy.join("crates").join(&source.name).join("kernels").join(INSTANCES);
        let groups = groups(&paths::read(&instances)?);
        let mut of_groups = Vec::new();
        for (i, group) in groups.iter().enumerate() {
            println!("crates/{}: group {} of {}", source.name, i + 1, groups.len());
            paths::write(&instances, group)?;
            of_groups.extend(run(&[source])?);
        }
        texts.insert(source.name.clone(), of_groups);
    }
    Ok(texts)
}

/// The key words that rows of instances begin with.
const WORDS: [&str; 3] = ["u32", "u64", "u128"];

/// A list of instances for each key word: with the rows of the macros that begin with it. The first one has the instances that are in
/// no row, too.
fn groups(instances: &str) -> Vec<String> {
    let word_of = |line: &str| {
        let row = line.strip_prefix("    ")?.strip_suffix(';')?;
        WORDS
            .into_iter()
            .find(|word| row.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with(',')))
    };
    let group = |own: &str| {
        let is_kept = |line: &&str| match word_of(line) {
            Some(word) => word == own,
            None => own == WORDS[0] || !line.starts_with("instance!("),
        };
        instances.lines().filter(is_kept).fold(String::new(), |text, line| text + line + "\n")
    };
    WORDS.map(group).into()
}

/// One line for each kernel that counts the bits of words of another size than 32: rust-cuda's code generator has these wrong.
/// PTX counts those of 128 bits by halves, and those of 8 and 16 in a register of 32 that was converted from one of 16.
fn miscompiled(text: &str) -> Vec<String> {
    const WIDE: [&str; 4] = ["popc.b64", "clz.b64", "brev.b64", "bfind.u64"];
    const NARROW: [&str; 4] = ["popc.b32", "clz.b32", "brev.b32", "bfind.u32"];
    let converted = RefCell::new(BTreeSet::new());
    let counts = |line: &str| {
        let mut words = line.split(|c: char| c.is_whitespace() || c == ',' || c == ';').filter(|word| !word.is_empty());
        let mut words = words.by_ref().skip_while(|word| word.starts_with('@'));
        let (Some(instruction), Some(to), Some(from)) = (words.next(), words.next(), words.next()) else {
            return false;
        };
        let mut converted = converted.borrow_mut();
        if NARROW.contains(&instruction) && converted.contains(from) {
            return true;
        }
        // Each kernel declares its registers, and gives some of them the names of others'.
        if instruction == ".reg" {
            converted.clear();
        }
        match instruction {
            "cvt.u32.u16" | "cvt.s32.s16" | "cvt.u32.u8" | "cvt.s32.s8" => converted.insert(to.to_owned()),
            _ => converted.remove(to),
        };
        WIDE.contains(&instruction)
    };
    let kernels = kernels_with(text, counts);
    let wrong = "counts bits of words of 8, 16 or 64 bits, which rust-cuda miscompiles: see crates/simt/src/bits.rs";
    kernels.into_iter().map(|kernel| format!("kernel {kernel} {wrong}")).collect()
}

/// Makes a workspace of layout, simt and the kernel crates, these as `cdylib`s.
fn copy_device_crates(to: &Path, crates: &[Source]) -> Result<()> {
    let root = paths::root();
    let kernels: Vec<_> = crates.iter().map(|source| paths::shown(&source.folder)).collect();
    let members: Vec<_> =
        ["crates/layout", "crates/simt"].into_iter().chain(kernels.iter().map(String::as_str)).collect();
    let manifest = device_workspace(&paths::read(&root.join("Cargo.toml"))?, &members) + PATCH;
    paths::write(&to.join("Cargo.toml"), &manifest)?;
    paths::write(&to.join("Cargo.lock"), &paths::read(&root.join("Cargo.lock"))?)?;
    for member in members {
        for file in files(&root.join(member)) {
            let name = file.strip_prefix(&root).unwrap_or(&file);
            let mut text = paths::read(&file)?;
            if member.ends_with("/kernels") && name.ends_with("Cargo.toml") {
                text = as_cdylib(&text);
            }
            paths::write(&to.join(name), &text)?;
        }
    }
    Ok(())
}

/// A kernel crate's manifest, for a library whose entries are in its PTX.
fn as_cdylib(manifest: &str) -> String {
    const LIB: &str = "[lib]\n";
    let (head, rest) = manifest.split_once(LIB).unwrap_or((manifest, ""));
    format!("{head}\n{LIB}crate-type = [\"cdylib\", \"rlib\"]\n{rest}")
}

/// The root manifest with other members.
fn device_workspace(manifest: &str, members: &[&str]) -> String {
    let list: String = members.iter().map(|member| format!("    \"{member}\",\n")).collect();
    let replaced = manifest.split_once("members = [").and_then(|(head, rest)| {
        let (_, tail) = rest.split_once(']')?;
        Some(format!("{head}members = [\n{list}]{tail}"))
    });
    replaced.unwrap_or_else(|| manifest.to_owned())
}

/// A crate's manifest and sources; and its tests, as the manifest may name some.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = vec![folder.join("Cargo.toml")];
    let mut folders = vec![folder.join("src"), folder.join("tests")];
    while let Some(folder) = folders.pop() {
        let (inner, plain): (Vec<_>, Vec<_>) = paths::list(&folder).into_iter().partition(|path| path.is_dir());
        folders.extend(inner);
        files.extend(plain);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_has_one_library() {
        let library = "\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n";
        assert_eq!(as_cdylib("[package]\n"), format!("[package]\n{library}"));
        assert_eq!(as_cdylib("[package]\n[lib]\ntest = false\n"), format!("[package]\n{library}test = false\n"));
    }

    #[test]
    fn each_instance_is_in_one_group() {
        for name in GROUPED {
            let text = paths::read(&paths::root().join("crates").join(name).join("kernels").join(INSTANCES)).unwrap();
            let is_row =
                |line: &&str| line.starts_with("instance!(") || line.starts_with("    u") && line.ends_with(';');
            let mut expected: Vec<_> = text.lines().filter(is_row).collect();
            let groups = groups(&text);
            let mut found: Vec<_> = groups.iter().flat_map(|group| group.lines()).filter(is_row).collect();
            // In several macros there may be equal rows.
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected);
            for (group, word) in groups.iter().zip(WORDS) {
                let rows = group.lines().filter(|line| line.starts_with("    u"));
                assert!(
                    rows.clone().count() > 3,
                    "{name} has few instances of {word}: are its rows written otherwise?"
                );
                assert!(rows.into_iter().all(|row| row.trim_start().starts_with(word)));
                let others =
                    |text: &str| text.lines().filter(|line| !is_row(line)).map(str::to_owned).collect::<Vec<_>>();
                assert_eq!(others(group), others(&text), "what is no instance is in all");
            }
        }
    }

    #[test]
    fn the_members_are_replaced_and_the_rest_stays() {
        let manifest = "[workspace]\nmembers = [\n    \"a\",\n    \"b\",\n]\n[profile.ptx]\nlto = \"fat\"\n";
        let expected = "[workspace]\nmembers = [\n    \"c\",\n]\n[profile.ptx]\nlto = \"fat\"\n";
        assert_eq!(device_workspace(manifest, &["c"]), expected);
    }

    #[test]
    fn counts_of_64_bits_are_named_with_their_kernel() {
        let text = ".visible .entry m__a(\n)\n{\n\tpopc.b32 %r1, %r2;\n}\n\
            .visible .entry m__b(\n)\n{\n\tpopc.b64 %r1, %rd2;\n\tclz.b64 %r1, %rd2;\n}\n";
        let lines = miscompiled(text);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("m__b"), "{lines:?}");
    }

    #[test]
    fn counts_of_8_and_16_bits_are_named_with_their_kernel() {
        let kernel = |name: &str, body: &str| {
            format!(".visible .entry m__{name}(\n)\n{{\n\t.reg .b32 \t%r<9>;\n{body}\tret;\n}}\n")
        };
        let text = kernel("narrow", "\tcvt.u32.u16 \t%r1, %rs1;\n\t@%p1 popc.b32 \t%r2, %r1;\n")
            + &kernel("plain", "\tpopc.b32 \t%r2, %r1;\n")
            + &kernel("written_again", "\tcvt.u32.u16 \t%r1, %rs1;\n\tadd.s32 \t%r1, %r2, 1;\n\tclz.b32 \t%r2, %r1;\n");
        let lines = miscompiled(&text);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("m__narrow"), "{lines:?}");
    }

    #[test]
    fn the_package_is_locked_to_the_revision_that_kernels_are_patched_with() {
        let folder = paths::root().join("xtask/nvvm");
        let revision = PATCH.split_once("rev = \"").expect("it names one").1.split('"').next().expect("and ends");
        let lock = paths::read(&folder.join("Cargo.lock")).expect("it is checked in");
        assert!(lock.contains(&format!("rust-cuda?rev={revision}#{revision}")), "Cargo.lock is of another revision");
        let manifest = paths::read(&folder.join("Cargo.toml")).expect("it is checked in");
        assert!(manifest.contains(&format!("rev = \"{revision}\"")) && COMPILER.contains(revision));
    }
}
