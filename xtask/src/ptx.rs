//! `ptx`: compiles the kernel crates of the workspace and of the template, or checks what is committed of them, as `lanetree-ptx` does for
//! one crate.

use crate::failure::{Failure, Result};
use crate::nvvm::Nvvm;
use crate::{paths, template};
use clap::{Args, ValueEnum};
use lanetree_ptx::{Generator, Source};
use std::path::{Path, PathBuf};

/// Compile the kernels to PTX.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ptx: lanetree_ptx::Options,
    /// Write the modules, a manifest and SHA256SUMS into this folder, instead of next to their sources: for `--ptx` of verify and
    /// bench, and `Device::cuda_with_ptx`
    #[arg(long, conflicts_with = "check", value_name = "DIR")]
    out: Option<PathBuf>,
    /// The code generator: rustc's own nvptx64 target, or rust-cuda's NVVM backend
    #[arg(long, value_enum, default_value_t)]
    codegen: Codegen,
    /// Only the kernel crates of these families, crates/NAME/kernels, or `template`
    #[arg(long = "crate", value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Codegen {
    /// rustc's nvptx64-nvidia-cuda target
    #[default]
    Rustc,
    /// rust-cuda's NVVM code generator, with its own toolchain
    Nvvm,
}

/// Runs the task.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut all = discover(&paths::root(), &paths::target());
    if options.ptx.check {
        let unruled: Vec<_> = all.iter().filter_map(unruled).collect();
        if !unruled.is_empty() {
            return Err(Failure::Wrong(unruled.join("\n")));
        }
    }
    if options.codegen == Codegen::Rustc {
        all.push(template()?);
    }
    let chosen = choose(&all, &options.only)?;
    let generator = (options.codegen == Codegen::Nvvm).then_some(&Nvvm as &dyn Generator);
    let mut ptx = options.ptx.clone();
    ptx.out.clone_from(&options.out);
    lanetree_ptx::run(&ptx, &all, &chosen, generator)
}

/// The kernel crates of the workspace in `root`, sorted.
fn discover(root: &Path, target: &Path) -> Vec<Source> {
    let families = paths::list(&root.join("crates")).into_iter();
    let crates = families.filter_map(|family| {
        let name = family.file_name()?.to_str()?.to_owned();
        let (package, folder) = (format!("lanetree-kernels-{name}"), family.join("kernels"));
        Some(Source {
            name,
            library: package.replace('-', "_"),
            package,
            ptx: folder.join("ptx"),
            folder,
            root: root.to_owned(),
            target: target.to_owned(),
        })
    });
    crates.filter(|source| source.folder.join("Cargo.toml").is_file()).collect()
}

/// The crate that users copy, which uses the workspace's kernels.
fn template() -> Result<Source> {
    let source = Source::at(&paths::root().join(template::FOLDER).join("Cargo.toml"))?;
    Ok(Source { name: "template".to_owned(), target: paths::target(), ..source })
}

/// All of the kernel crates, or those named.
fn choose(all: &[Source], only: &[String]) -> Result<Vec<Source>> {
    if let Some(unknown) = only.iter().find(|only| all.iter().all(|source| source.name != **only)) {
        let known: Vec<_> = all.iter().map(|source| source.name.as_str()).collect();
        let known = known.join(", ");
        return Err(Failure::CannotRun(format!("no kernel crate crates/{unknown}/kernels; there are: {known}")));
    }
    Ok(all.iter().filter(|source| only.is_empty() || only.contains(&source.name)).cloned().collect())
}

/// What a kernel crate's clippy.toml is: a link to the rules for device code.
const CLIPPY: &str = "../../simt/clippy.toml";

/// Says so where clippy would not read the rules for device code.
fn unruled(source: &Source) -> Option<String> {
    let link = source.folder.join("clippy.toml");
    if std::fs::read_link(&link).is_ok_and(|target| target == Path::new(CLIPPY)) {
        return None;
    }
    let (name, link) = (&source.name, paths::shown(&link));
    Some(format!("kernel crate {name}: {link} is not the link to clippy's rules; to fix it: ln -sf {CLIPPY} {link}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_kernel_crate_has_the_name_of_its_family() {
        let root = std::env::temp_dir().join(format!("lanetree-xtask-{}-discover", std::process::id()));
        for name in ["own", "other"] {
            paths::write(&root.join(format!("crates/{name}/kernels/Cargo.toml")), "").expect("it can be written to");
        }
        paths::write(&root.join("crates/empty/kernels/README.md"), "").expect("it can be written to");
        let sources = discover(&root, &root.join("target"));
        let names: Vec<_> = sources.iter().map(|source| (source.name.as_str(), source.package.as_str())).collect();
        assert_eq!(names, [("other", "lanetree-kernels-other"), ("own", "lanetree-kernels-own")]);
        let chosen = choose(&sources, &["own".to_owned()]).expect("it is there");
        assert_eq!(chosen.iter().map(|source| &source.name).collect::<Vec<_>>(), ["own"]);

        let own = &chosen[0];
        assert!(unruled(own).expect("there is no file").contains("own/kernels/clippy.toml"));
        let link = own.folder.join("clippy.toml");
        paths::write(&link, "").expect("it can be written to");
        assert!(unruled(own).is_some(), "a file is not a link");
        fs::remove_file(&link).expect("it is there");
        std::os::unix::fs::symlink(CLIPPY, &link).expect("it can be written to");
        assert_eq!(unruled(own), None);
        let _gone = fs::remove_dir_all(&root);
    }

    #[test]
    fn an_unknown_crate_is_named_with_those_that_exist() {
        let all = discover(&paths::root(), &paths::target());
        let error = choose(&all, &["btrie".to_owned()]).expect_err("no such crate").to_string();
        assert!(error.contains("btrie") && error.contains("harmonia"), "{error}");
    }
}
