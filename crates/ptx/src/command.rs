//! What to do with kernel crates: options, and compiling them into their folders `ptx`.

use crate::assemble::{self, ARCHITECTURES};
use crate::compile;
use crate::digest::sha256;
use crate::failure::{Failure, Result};
use crate::files;
use crate::manifest::{COUNTED_ON, Manifest, ModuleEntry};
use crate::ptxas::{self, Ptxas};
use crate::source::Source;
use crate::split::{self, Calls, Module};
use crate::{barriers, list};
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How to compile or check kernel crates.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "ptx")]
pub struct Options {
    /// Change nothing: fail when the committed PTX is not what the sources compile to
    #[arg(long)]
    pub check: bool,
    /// With --check: fail where the recorded compiler or ptxas is not here (by default: say so)
    #[arg(long, requires = "check")]
    pub(crate) strict: bool,
    /// With --check: do not assemble again what the manifests record for the same ptxas, but for sm_90, whose registers
    /// are compared
    #[arg(long, requires = "check")]
    pub(crate) unrecorded: bool,
    /// Assemble for every architecture, and fail when there is no ptxas (by default: if there is one)
    #[arg(long, overrides_with = "no_assemble")]
    assemble: bool,
    /// Do not assemble
    #[arg(long, overrides_with = "assemble")]
    no_assemble: bool,
    /// A folder into which the modules, a manifest and `SHA256SUMS` of all crates are written, instead of next to their sources
    #[arg(skip)]
    pub out: Option<PathBuf>,
    /// Architectures to assemble for (default: 75,80,86,89,90,100,120)
    #[arg(long, value_delimiter = ',', value_name = "SM,…")]
    pub(crate) arch: Vec<u32>,
}

/// Another compiler than rustc's own target, which compiles several crates at a time.
///
/// Its PTX may have calls; and local memory in it is a warning, as the kernels are written for rustc's, but for spills of more than
/// 64 bytes.
pub trait Generator {
    /// What manifests call it. Only names of rustc begin with `rustc `.
    fn compiler(&self) -> &str;

    /// The PTX of each crate, by its name: one text or more, each with other modules.
    ///
    /// # Errors
    /// If it cannot run, or the crates do not compile.
    fn compile(&self, crates: &[Source]) -> Result<BTreeMap<String, Vec<String>>>;

    /// One line for each kernel of a module that the generator has compiled to something else than was written.
    fn miscompiled(&self, text: &str) -> Vec<String>;
}

/// Bytes that a kernel of another compiler may spill.
pub(crate) const MOST_SPILLED: u32 = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codegen {
    Rustc,
    Other,
}

impl Codegen {
    /// That of the compiler of a manifest.
    pub(crate) fn of(compiler: &str) -> Self {
        if compiler.starts_with("rustc ") { Self::Rustc } else { Self::Other }
    }
}

impl Options {
    /// A strict check: the architectures to assemble for, all modules or those that are not recorded.
    #[cfg(test)]
    pub(crate) fn checking(architectures: &[u32], unrecorded: bool) -> Self {
        Self {
            check: true,
            strict: true,
            unrecorded,
            assemble: true,
            no_assemble: false,
            arch: architectures.to_vec(),
            out: None,
        }
    }

    /// Says what was not done and why; an error where it was insisted on.
    pub(crate) fn skip(&self, what: &str, reason: &str) -> Result<()> {
        if self.strict {
            return Err(Failure::CannotRun(format!("NOT {what}: {reason}")));
        }
        eprintln!("warning: NOT {what}: {reason}");
        Ok(())
    }

    /// The assembler, unless none is wanted, or none found and none insisted on.
    pub(crate) fn ptxas(&self, crates: &[Source]) -> Result<Option<Ptxas>> {
        if self.no_assemble {
            return Ok(None);
        }
        let found = crates.iter().find_map(|source| ptxas::find(&source.target));
        if found.is_none() && (self.assemble || self.strict) {
            return Err(Failure::CannotRun(format!("no ptxas; to fix it: {}", ptxas::INSTALL)));
        }
        if found.is_none() {
            eprintln!(
                "warning: NOT ASSEMBLED: no ptxas, so nothing checks registers and spills; to fix it: {}",
                ptxas::INSTALL
            );
        }
        Ok(found)
    }

    /// The architectures that `ptxas` is to assemble for.
    pub(crate) fn architectures(&self, ptxas: &Ptxas) -> Vec<u32> {
        let asked = if self.arch.is_empty() { &ARCHITECTURES[..] } else { &self.arch };
        let (known, unknown): (Vec<u32>, Vec<u32>) = asked.iter().partition(|sm| ptxas.knows(**sm));
        for sm in unknown {
            eprintln!(
                "warning: NOT ASSEMBLED for sm_{sm}: ptxas {} is too old; to fix it: {}",
                ptxas.version,
                ptxas::INSTALL
            );
        }
        known
    }
}

/// Assembles what was compiled, without a change to what is recorded.
pub(crate) fn assemble_compiled(
    options: &Options,
    crates: &[Source],
    compiled: &Compiled,
    codegen: Codegen,
) -> Result<()> {
    let mut files = Vec::new();
    for source in crates {
        for module in &compiled[&source.name] {
            let file = source.target.join("nvvm/modules").join(format!("{}.ptx", module.name));
            files::write(&file, &module.text)?;
            files.push(file);
        }
    }
    println!("{} modules compiled", files.len());
    let Some(ptxas) = options.ptxas(crates)? else { return Ok(()) };
    let architectures = options.architectures(&ptxas);
    let (assembled, mut problems) = assemble::assemble(&ptxas, &assemble::jobs(files, &architectures))?;
    print!("{}", assemble::table(&assembled, &architectures));
    problems.extend(in_local_memory(codegen, &assembled));
    conclude(&problems, "the kernels must be fixed")
}

/// A manifest of several crates, without modules.
pub(crate) fn manifest_of(crates: &[Source], compiler: &str) -> Result<Manifest> {
    let sources: String = crates.iter().map(Source::hash).collect::<Result<_>>()?;
    let (compiler, target) = (compiler.to_owned(), compile::CPU.to_owned());
    Ok(Manifest { compiler, target, source_sha256: sha256(sources.as_bytes()), ..Manifest::default() })
}

/// Writes what was compiled into a folder, with one manifest, and assembles it.
pub(crate) fn write_out(
    folder: &Path,
    options: &Options,
    crates: &[Source],
    compiled: &Compiled,
    mut manifest: Manifest,
) -> Result<()> {
    for module in crates.iter().flat_map(|source| &compiled[&source.name]) {
        files::write(&folder.join(format!("{}.ptx", module.name)), &module.text)?;
        split::isa(&module.text).unwrap_or(compile::ISA.1).clone_into(&mut manifest.isa);
        let kernels = module.kernels.iter().map(|kernel| (kernel.clone(), None)).collect();
        let sha256 = sha256(module.text.as_bytes());
        manifest.modules.insert(module.name.clone(), ModuleEntry { sha256, kernels });
    }
    files::write(&folder.join("manifest.json"), &manifest.to_json())?;
    let sums = manifest.modules.iter().map(|(name, module)| format!("{}  {name}.ptx\n", module.sha256));
    files::write(&folder.join("SHA256SUMS"), &sums.collect::<String>())?;
    println!("{}: {} modules, PTX {}", files::shown(folder), manifest.modules.len(), manifest.isa);
    assemble_compiled(options, crates, compiled, Codegen::of(&manifest.compiler))
}

/// The manifests, by kernel crate.
pub(crate) type Recorded = BTreeMap<String, Manifest>;

/// The manifests of the crates that are not among the chosen ones.
pub(crate) fn others<'a>(
    recorded: &'a Recorded,
    chosen: &[Source],
) -> impl Iterator<Item = (&'a String, &'a Manifest)> {
    recorded.iter().filter(|(name, _)| !chosen.iter().any(|source| source.name == **name))
}

/// Fails where some crates are to be compiled with another compiler than the rest was.
pub(crate) fn same_compiler(recorded: &Recorded, chosen: &[Source], compiler: &str) -> Result<()> {
    match others(recorded, chosen).find(|(_, manifest)| manifest.compiler != compiler) {
        Some((name, manifest)) => {
            let old = &manifest.compiler;
            Err(Failure::CannotRun(format!(
                "the committed PTX of {name} is of another compiler ({old}): compile all kernel crates, without --crate"
            )))
        }
        None => Ok(()),
    }
}

/// Compiled modules, by kernel crate.
pub(crate) type Compiled = BTreeMap<String, Vec<Module>>;

/// Compiles the crates and splits what comes out. Fails on a module that two crates have, be they compiled or
/// recorded, and on local memory that is not expected; but see [`slow`].
pub(crate) fn compile_all(
    crates: &[Source],
    recorded: &Recorded,
    compile: impl Fn(&Source) -> Result<Vec<String>>,
    generator: Option<&dyn Generator>,
) -> Result<Compiled> {
    let (codegen, calls) = match generator {
        None => (Codegen::Rustc, Calls::Refuse),
        Some(_) => (Codegen::Other, Calls::Keep),
    };
    let mut compiled = Compiled::new();
    let mut problems = Vec::new();
    for source in crates {
        let mut modules = Vec::new();
        for text in compile(source)? {
            let wrong = |reason| Failure::Wrong(format!("the PTX of {}: {reason}", source.package));
            modules.extend(split::split(&text, calls).map_err(wrong)?);
        }
        if modules.is_empty() {
            let package = &source.package;
            problems.push(format!(
                "{package} has no kernels: `instance!` makes them, in a module of the crate that is compiled"
            ));
        }
        modules.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = modules.windows(2).find(|pair| pair[0].name == pair[1].name) {
            problems.push(format!("module {} of {} is in two groups of its instances", pair[0].name, source.package));
        }
        for module in &modules {
            problems.extend(slow(codegen, local_variables(&module.text)));
            problems.extend(barriers::on_both_sides(&module.text));
            problems.extend(generator.into_iter().flat_map(|generator| generator.miscompiled(&module.text)));
        }
        compiled.insert(source.name.clone(), modules);
    }
    let kept = others(recorded, crates).flat_map(|(name, manifest)| manifest.modules.keys().map(move |m| (name, m)));
    let fresh = compiled.iter().flat_map(|(name, modules)| modules.iter().map(move |module| (name, &module.name)));
    problems.extend(of_one_name(kept.chain(fresh)));
    conclude(&problems, "the kernels must be fixed").map(|()| compiled)
}

/// One line for each module of one name with another, from pairs of a kernel crate and a module of it.
pub(crate) fn of_one_name<'a>(modules: impl Iterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    let mut first = BTreeMap::new();
    let mut lines = Vec::new();
    for (name, module) in modules {
        if let Some(other) = first.insert(module, name) {
            lines.push(format!("module {module} comes from two kernel crates, {other} and {name}"));
        }
    }
    lines
}

/// The problems, of which another generator's are printed as warnings and none are left: local memory is slow, not wrong,
/// and the kernels are written for rustc's code generator, which unrolls more than rust-cuda's.
pub(crate) fn slow(codegen: Codegen, problems: Vec<String>) -> Vec<String> {
    if codegen == Codegen::Rustc {
        return problems;
    }
    problems.iter().for_each(|problem| eprintln!("warning: {problem}"));
    Vec::new()
}

/// The problems with local memory of what was assembled. Spills of more than [`MOST_SPILLED`] bytes are one of any compiler's.
fn in_local_memory(codegen: Codegen, assembled: &assemble::Assembled) -> Vec<String> {
    let mut problems = slow(codegen, assemble::local_memory(assembled));
    if codegen == Codegen::Other {
        problems.extend(assemble::spilling(assembled, MOST_SPILLED));
    }
    problems
}

/// One line for each kernel with a `.local` variable that is not expected.
pub(crate) fn local_variables(text: &str) -> Vec<String> {
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
pub(crate) fn conclude(problems: &[String], advice: &str) -> Result<()> {
    for problem in problems {
        eprintln!("  {problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err(Failure::Wrong(format!("1 problem with the PTX (above); {advice}"))),
        n => Err(Failure::Wrong(format!("{n} problems with the PTX (above); {advice}"))),
    }
}

/// Writes modules and manifests, removes modules that are no more, and assembles.
pub(crate) fn generate(options: &Options, crates: &[Source], compiled: &Compiled, compiler: &str) -> Result<()> {
    let mut problems = Vec::new();
    let mut manifests = Recorded::new();
    for source in crates {
        let modules = &compiled[&source.name];
        // Another generator may write a newer PTX, whatever the target.
        let isa = modules.iter().find_map(|module| split::isa(&module.text)).unwrap_or(compile::ISA.1);
        let mut manifest = Manifest {
            compiler: compiler.to_owned(),
            target: compile::CPU.to_owned(),
            isa: isa.to_owned(),
            assembled: None,
            ptxas: None,
            source_sha256: source.hash()?,
            modules: BTreeMap::new(),
        };
        for module in modules {
            files::write(&source.module(&module.name), &module.text)?;
            let kernels = module.kernels.iter().map(|kernel| (kernel.clone(), None)).collect();
            let sha256 = sha256(module.text.as_bytes());
            manifest.modules.insert(module.name.clone(), ModuleEntry { sha256, kernels });
        }
        remove_stale(source, &manifest)?;
        problems.extend(list::problems(source, manifest.modules.keys().map(String::as_str)));
        manifests.insert(source.name.clone(), manifest);
    }
    if let Some(ptxas) = options.ptxas(crates)? {
        problems.extend(count_resources(options, &ptxas, crates, &mut manifests)?);
    }
    for source in crates {
        files::write(&Manifest::path(source), &manifests[&source.name].to_json())?;
    }
    for (name, manifest) in &manifests {
        let kernels: usize = manifest.modules.values().map(|module| module.kernels.len()).sum();
        let (modules, target, isa) = (manifest.modules.len(), &manifest.target, &manifest.isa);
        println!("{name}: {modules} modules, {kernels} kernels, {target} PTX {isa}");
    }
    conclude(&problems, "the files were written, but the kernels must be fixed")
}

/// Removes the modules that the manifest does not have.
fn remove_stale(source: &Source, manifest: &Manifest) -> Result<()> {
    for path in source.modules() {
        if !manifest.modules.contains_key(assemble::module_of(&path)) {
            std::fs::remove_file(&path)
                .map_err(|error| Failure::CannotRun(format!("cannot remove {}: {error}", files::shown(&path))))?;
        }
    }
    Ok(())
}

/// Assembles all modules of the crates, prints the table and puts the counts into the manifests.
fn count_resources(
    options: &Options,
    ptxas: &Ptxas,
    crates: &[Source],
    manifests: &mut Recorded,
) -> Result<Vec<String>> {
    let shown = options.architectures(ptxas);
    let mut all = shown.clone();
    if !all.contains(&COUNTED_ON) {
        all.push(COUNTED_ON);
        all.sort_unstable();
    }
    let jobs = assemble::jobs(crates.iter().flat_map(Source::modules), &all);
    let (assembled, mut problems) = assemble::assemble(ptxas, &jobs)?;
    print!("{}", assemble::table(&assembled, &shown));
    let codegen = manifests.values().next().map_or(Codegen::Rustc, |manifest| Codegen::of(&manifest.compiler));
    problems.extend(in_local_memory(codegen, &assembled));
    for manifest in manifests.values_mut() {
        manifest.ptxas = Some(ptxas.version.clone());
        let modules: Vec<_> = manifest.modules.keys().map(String::as_str).collect();
        let in_order = assemble::in_order_for(&assembled, &modules, &all);
        manifest.record_assembled(in_order);
        for (name, entry) in &mut manifest.modules {
            let counted = assembled.get(name).and_then(|by_architecture| by_architecture.get(&COUNTED_ON));
            for (kernel, resources) in &mut entry.kernels {
                *resources = counted.and_then(|kernels| kernels.get(kernel)).copied();
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Workspace;

    fn of(compiler: &str, modules: &[&str]) -> Manifest {
        let modules = modules.iter().map(|name| ((*name).to_owned(), ModuleEntry::default())).collect();
        Manifest { compiler: compiler.to_owned(), modules, ..Manifest::default() }
    }

    #[test]
    fn one_crate_is_not_compiled_with_another_compiler_than_the_rest() {
        let workspace = Workspace::new("compilers");
        let recorded = Recorded::from([("own".to_owned(), of("old", &[])), ("other".to_owned(), of("old", &[]))]);
        let own = [workspace.source("own")];
        let error = same_compiler(&recorded, &own, "new").expect_err("other stays of the old one").to_string();
        assert!(error.contains("other") && error.contains("old"), "{error}");
        same_compiler(&recorded, &own, "old").expect("all are of one");
        same_compiler(&recorded, &workspace.sources(), "new").expect("all are compiled");
    }

    #[test]
    fn a_folder_has_all_modules_and_a_manifest_with_their_hashes() {
        let workspace = Workspace::new("out");
        let sources = workspace.sources();
        let text = |module: &str| format!(".version 8.8\n.visible .entry {module}__k(\n)\n{{\n\tret;\n}}\n");
        let compile = |source: &Source| Ok(vec![text(&source.name)]);
        let compiled = compile_all(&sources, &Recorded::new(), compile, None).expect("nothing is wrong with it");
        let folder = sources[0].target.join("set");
        let options = Options { no_assemble: true, ..Options::default() };
        write_out(&folder, &options, &sources, &compiled, of("c", &[]))
            .expect("the temporary folder can be written to");
        let manifest = files::read(&folder.join("manifest.json")).expect("it is written");
        let manifest: Manifest = serde_json::from_str(&manifest).expect("it is a manifest");
        assert_eq!((&*manifest.compiler, &*manifest.isa, manifest.modules.len()), ("c", "8.8", sources.len()));
        for (name, entry) in &manifest.modules {
            let text = files::read(&folder.join(format!("{name}.ptx"))).expect("it is written");
            assert_eq!(entry.sha256, sha256(text.as_bytes()));
            let sums = files::read(&folder.join("SHA256SUMS")).expect("it is written");
            assert!(sums.lines().any(|line| line == format!("{}  {name}.ptx", entry.sha256)), "{sums}");
        }
    }

    #[test]
    fn another_compiler_may_spill_a_little() {
        let of = |codegen, spill_stores| {
            let need = crate::manifest::Resources { spill_stores, ..Default::default() };
            let kernels = BTreeMap::from([("m__k".to_owned(), need)]);
            in_local_memory(codegen, &BTreeMap::from([("m".to_owned(), BTreeMap::from([(90, kernels)]))])).len()
        };
        assert_eq!((of(Codegen::Other, MOST_SPILLED), of(Codegen::Other, MOST_SPILLED + 4)), (0, 1));
        assert_eq!((of(Codegen::Rustc, 0), of(Codegen::Rustc, 4)), (0, 1));
    }

    #[test]
    fn a_module_of_two_crates_is_an_error() {
        let workspace = Workspace::new("twice");
        let text = |_: &Source| Ok(vec![".visible .entry m__k(\n)\n{\n\tret;\n}\n".to_owned()]);
        let recorded = Recorded::from([("own".to_owned(), of("c", &["m"])), ("other".to_owned(), of("c", &["m"]))]);
        let own = [workspace.source("own")];
        // The second is compiled, or was.
        compile_all(&workspace.sources(), &Recorded::new(), text, None).expect_err("both have m");
        compile_all(&own, &recorded, text, None).expect_err("other has m");
        let compiled = compile_all(&own, &Recorded::new(), text, None).expect("one has m");
        assert_eq!(compiled["own"][0].name, "m");
        let pairs: Vec<_> = recorded.iter().map(|(name, manifest)| (name, &manifest.modules)).collect();
        let lines = of_one_name(pairs.iter().flat_map(|(name, modules)| modules.keys().map(move |m| (*name, m))));
        assert_eq!(lines, ["module m comes from two kernel crates, other and own"]);
    }

    #[test]
    fn a_crate_may_be_compiled_in_groups_but_no_module_in_two() {
        let workspace = Workspace::new("groups");
        let own = [workspace.source("own")];
        let text = |module: &str| format!(".visible .entry {module}__k(\n)\n{{\n\tret;\n}}\n");
        let of = |modules: [&str; 2]| {
            let texts = modules.map(text).to_vec();
            compile_all(&own, &Recorded::new(), move |_: &Source| Ok(texts.clone()), None)
        };
        let names = |compiled: &Compiled| compiled["own"].iter().map(|module| module.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&of(["n", "m"]).expect("they differ")), ["m", "n"]);
        of(["m", "m"]).expect_err("m is in both");
    }

    #[test]
    fn modules_that_are_no_more_are_removed_and_nothing_else() {
        let workspace = Workspace::new("stale");
        let source = workspace.source("own");
        for file in ["m.ptx", "gone.ptx", "manifest.json"] {
            workspace.write(&format!("crates/own/kernels/ptx/{file}"), "");
        }
        remove_stale(&source, &of("c", &["m"])).expect("the temporary folder can be written to");
        assert_eq!(files::list(&source.ptx), ["m.ptx", "manifest.json"].map(|name| source.ptx.join(name)));
    }
}
