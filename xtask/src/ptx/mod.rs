//! `ptx`: compiles every kernel crate to PTX, into crates/ptx, or checks what is committed there.

mod assemble;
mod check;
mod compile;
mod manifest;
mod nvvm;
mod sources;
mod split;

use crate::failure::{Failure, Result};
use crate::ptxas::{self, Ptxas};
use crate::{paths, toolchain};
use clap::{Args, ValueEnum};
use manifest::{COUNTED_ON, KernelCrate, Manifest, ModuleEntry};
use sources::Source;
use split::{Calls, Module};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The target of the kernels.
const TARGET: &str = "nvptx64-nvidia-cuda";

/// Compile the kernels to PTX.
#[derive(Args)]
pub(crate) struct Options {
    /// Change nothing: fail when the committed PTX is not what the sources compile to
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: fail where the recorded compiler or ptxas is not here (by default: say so)
    #[arg(long, requires = "check")]
    strict: bool,
    /// The code generator: rustc's own nvptx64 target, or rust-cuda's NVVM backend
    #[arg(long, value_enum, default_value_t)]
    codegen: Codegen,
    /// Assemble for every architecture, and fail when there is no ptxas (by default: if there is one)
    #[arg(long, overrides_with = "no_assemble")]
    assemble: bool,
    /// Do not assemble
    #[arg(long, overrides_with = "assemble")]
    no_assemble: bool,
    /// Only the kernel crate of this folder in crates/kernels
    #[arg(long = "crate", value_name = "NAME")]
    only: Option<String>,
    /// Architectures to assemble for (default: 75,80,86,89,90,100,120)
    #[arg(long, value_delimiter = ',', value_name = "SM,…")]
    arch: Vec<u32>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Codegen {
    /// rustc's nvptx64-nvidia-cuda target
    #[default]
    Rustc,
    /// rust-cuda's NVVM code generator, with its own toolchain
    Nvvm,
}

impl Options {
    /// What continuous integration asks for.
    pub(crate) fn checking() -> Self {
        Self {
            check: true,
            strict: true,
            codegen: Codegen::Rustc,
            assemble: true,
            no_assemble: false,
            only: None,
            arch: Vec::new(),
        }
    }

    /// Says what was not done and why; an error where it was insisted on.
    fn skip(&self, what: &str, reason: &str) -> Result<()> {
        if self.strict {
            return Err(Failure::CannotRun(format!("NOT {what}: {reason}")));
        }
        eprintln!("warning: NOT {what}: {reason}");
        Ok(())
    }

    /// The assembler, unless none is wanted, or none found and none insisted on.
    fn ptxas(&self) -> Result<Option<Ptxas>> {
        if self.no_assemble {
            return Ok(None);
        }
        let found = ptxas::find();
        if found.is_none() && (self.assemble || self.strict) {
            return Err(Failure::CannotRun(format!("no ptxas; to mend: {}", ptxas::INSTALL)));
        }
        if found.is_none() {
            eprintln!(
                "warning: NOT ASSEMBLED: no ptxas, so nothing checks registers and spills; to mend: {}",
                ptxas::INSTALL
            );
        }
        Ok(found)
    }

    /// The architectures that `ptxas` is to assemble for.
    fn architectures(&self, ptxas: &Ptxas) -> Vec<u32> {
        let asked = if self.arch.is_empty() { &assemble::ARCHITECTURES[..] } else { &self.arch };
        let (known, unknown): (Vec<u32>, Vec<u32>) = asked.iter().partition(|sm| ptxas.knows(**sm));
        for sm in unknown {
            eprintln!(
                "warning: NOT ASSEMBLED for sm_{sm}: ptxas {} is too old; to mend: {}",
                ptxas.version,
                ptxas::INSTALL
            );
        }
        known
    }
}

/// Runs the task.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(sm) = options.arch.iter().find(|sm| **sm < 75) {
        return Err(Failure::CannotRun(format!("--arch {sm}: the PTX is for {} and later", compile::CPU)));
    }
    let crates = sources::discover(options.only.as_deref())?;
    let recorded = Manifest::read()?;
    match (options.codegen, options.check) {
        (Codegen::Rustc, true) => {
            let Some(recorded) = recorded else {
                return Err(Failure::Wrong(
                    "crates/ptx/manifest.json is not there; `cargo xtask ptx` writes it".to_owned(),
                ));
            };
            check::run(options, &crates, &recorded)
        }
        (Codegen::Rustc, false) => {
            let found = toolchain::find(recorded.as_ref().map(|manifest| manifest.compiler.as_str()));
            let found = found.map_err(Failure::CannotRun)?;
            let Some(compiler) = found else {
                return Err(Failure::CannotRun(format!("no compiler for {TARGET}: {}", toolchain::INSTALL)));
            };
            same_compiler(options, recorded.as_ref(), &compiler.version)?;
            println!("compiling with {}", compiler.version);
            let compiled = compile_all(&crates, |source| compile::compile(&compiler, source), Codegen::Rustc)?;
            generate(options, &crates, compiled, compiler.version.clone(), recorded)
        }
        (Codegen::Nvvm, check) => {
            if !check {
                same_compiler(options, recorded.as_ref(), nvvm::COMPILER)?;
            }
            let texts = nvvm::compile(&crates)?;
            let text = |source: &Source| Ok(texts.get(&source.name).cloned().unwrap_or_default());
            let compiled = compile_all(&crates, text, Codegen::Nvvm)?;
            if check {
                return nvvm::assemble(options, &compiled);
            }
            generate(options, &crates, compiled, nvvm::COMPILER.to_owned(), recorded)
        }
    }
}

/// Fails where one crate is to be compiled with another compiler than the rest was.
fn same_compiler(options: &Options, recorded: Option<&Manifest>, compiler: &str) -> Result<()> {
    match recorded {
        Some(manifest) if options.only.is_some() && manifest.compiler != compiler => {
            let old = &manifest.compiler;
            Err(Failure::CannotRun(format!(
                "the committed PTX is of another compiler ({old}): compile all kernel crates, without --crate"
            )))
        }
        _ => Ok(()),
    }
}

/// Compiled modules, by kernel crate.
type Compiled = BTreeMap<String, Vec<Module>>;

/// Compiles the crates and splits what comes out. Fails on a module that two of them have, and on
/// local memory that is not expected; but see [`slow`].
fn compile_all(crates: &[Source], compile: impl Fn(&Source) -> Result<String>, codegen: Codegen) -> Result<Compiled> {
    let calls = if codegen == Codegen::Rustc { Calls::Refuse } else { Calls::Keep };
    let mut compiled = Compiled::new();
    let mut problems = Vec::new();
    for source in crates {
        let text = compile(source)?;
        let modules = split::split(&text, calls)
            .map_err(|reason| Failure::Wrong(format!("the PTX of {}: {reason}", source.package)))?;
        for module in &modules {
            problems.extend(slow(codegen, local_variables(&module.text)));
            if codegen == Codegen::Nvvm {
                problems.extend(nvvm::miscompiled(&module.text));
            }
            let others = compiled.values().flatten();
            if others.into_iter().any(|other| other.name == module.name) {
                problems
                    .push(format!("module {} comes from two kernel crates, {} and another", module.name, source.name));
            }
        }
        compiled.insert(source.name.clone(), modules);
    }
    conclude(&problems, "the kernels must be mended").map(|()| compiled)
}

/// The problems, of which rust-cuda's are printed as warnings and none are left: local memory is slow, not wrong,
/// and the kernels are written for rustc's code generator, which unrolls more than rust-cuda's.
fn slow(codegen: Codegen, problems: Vec<String>) -> Vec<String> {
    if codegen == Codegen::Rustc {
        return problems;
    }
    problems.iter().for_each(|problem| eprintln!("warning: {problem}"));
    Vec::new()
}

/// One line for each kernel with a `.local` variable that is not expected.
fn local_variables(text: &str) -> Vec<String> {
    let kernels = split::kernels_with_local(text).into_iter().filter(|kernel| !assemble::local_expected(kernel));
    kernels
        .map(|kernel| {
            format!(
                "kernel {kernel} keeps an array in local memory (`.local`): a loop that indexes it was not unrolled"
            )
        })
        .collect()
}

/// Prints the problems; an error if there are any.
fn conclude(problems: &[String], advice: &str) -> Result<()> {
    for problem in problems {
        eprintln!("  {problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err(Failure::Wrong(format!("1 problem with the PTX (above); {advice}"))),
        n => Err(Failure::Wrong(format!("{n} problems with the PTX (above); {advice}"))),
    }
}

fn modules_folder() -> PathBuf {
    paths::ptx_crate().join("modules")
}

fn table_path() -> PathBuf {
    paths::ptx_crate().join("src/modules.rs")
}

/// Writes the modules, their table and the manifest; assembles the modules.
fn generate(
    options: &Options,
    crates: &[Source],
    compiled: Compiled,
    compiler: String,
    recorded: Option<Manifest>,
) -> Result<()> {
    let mut manifest = recorded.unwrap_or_default();
    if options.only.is_none() {
        manifest.crates.clear();
    }
    // libNVVM writes the newest PTX that it knows, whatever the target.
    let isa = compiled.values().flatten().find_map(|module| split::isa(&module.text)).unwrap_or(compile::ISA.1);
    (manifest.compiler, manifest.target, manifest.isa) = (compiler, compile::CPU.to_owned(), isa.to_owned());
    for source in crates {
        let mut entry = KernelCrate { source_sha256: source.hash()?, ..KernelCrate::default() };
        for module in &compiled[&source.name] {
            paths::write(&modules_folder().join(format!("{}.ptx", module.name)), &module.text)?;
            let kernels = module.kernels.iter().map(|kernel| (kernel.clone(), None)).collect();
            let sha256 = manifest::sha256(module.text.as_bytes());
            entry.modules.insert(module.name.clone(), ModuleEntry { sha256, kernels });
        }
        manifest.crates.insert(source.name.clone(), entry);
    }
    let names = manifest.module_names();
    for path in paths::list(&modules_folder()) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if !names.contains(&stem) {
            std::fs::remove_file(&path)
                .map_err(|error| Failure::CannotRun(format!("cannot remove {}: {error}", paths::shown(&path))))?;
        }
    }
    paths::write(&table_path(), &manifest::module_table(&names))?;

    let mut problems = Vec::new();
    if let Some(ptxas) = options.ptxas()? {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        problems = count_resources(options, &ptxas, &names, &mut manifest)?;
    } else {
        manifest.ptxas = None;
        let entries = manifest.crates.values_mut().flat_map(|krate| krate.modules.values_mut());
        entries.flat_map(|entry| entry.kernels.values_mut()).for_each(|resources| *resources = None);
    }
    paths::write(&Manifest::path(), &manifest.to_json())?;
    let modules = manifest.module_names().len();
    let kernels: usize =
        manifest.crates.values().flat_map(|krate| krate.modules.values()).map(|m| m.kernels.len()).sum();
    println!("crates/ptx: {modules} modules, {kernels} kernels, {} PTX {}", manifest.target, manifest.isa);
    conclude(&problems, "the files were written, but the kernels must be mended")
}

/// Assembles all modules, prints the table and puts the counts into the manifest.
fn count_resources(options: &Options, ptxas: &Ptxas, names: &[String], manifest: &mut Manifest) -> Result<Vec<String>> {
    let shown = options.architectures(ptxas);
    let mut all = shown.clone();
    if !all.contains(&COUNTED_ON) {
        all.push(COUNTED_ON);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (assembled, mut problems) = assemble::assemble(ptxas, &modules_folder(), &names, &all)?;
    print!("{}", assemble::table(&assembled, &shown));
    problems.extend(slow(options.codegen, assemble::local_memory(&assembled)));
    manifest.ptxas = Some(ptxas.version.clone());
    for (name, entry) in manifest.crates.values_mut().flat_map(|krate| krate.modules.iter_mut()) {
        let counted = assembled.get(name).and_then(|by_architecture| by_architecture.get(&COUNTED_ON));
        for (kernel, resources) in &mut entry.kernels {
            *resources = counted.and_then(|kernels| kernels.get(kernel)).copied();
        }
    }
    Ok(problems)
}
