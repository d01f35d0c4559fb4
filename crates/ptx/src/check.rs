//! Is the PTX in a crate's folder what the sources compile to?

use crate::command::{Codegen, Compiled, Options, Recorded, compile_all, conclude, local_variables, of_one_name, slow};
use crate::digest::sha256;
use crate::failure::{Failure, Result};
use crate::manifest::{COUNTED_ON, Manifest, differences};
use crate::source::Source;
use crate::{assemble, barriers, compile, files, list, split, toolchain};
use std::collections::{BTreeMap, BTreeSet};

/// What is committed of one kernel crate.
struct Committed<'a> {
    source: &'a Source,
    manifest: &'a Manifest,
    /// The modules' texts, by name.
    texts: BTreeMap<String, String>,
}

/// Runs the check: of the files among themselves and of the hash of the sources, always; of the text,
/// by compiling anew, where the recorded compiler is here; by assembling, where there is a ptxas. Where one of
/// the two is missing a strict check fails.
pub(crate) fn run(options: &Options, crates: &[Source], recorded: &Recorded) -> Result<()> {
    let mut problems = of_other_compilers(recorded);
    let modules = recorded.iter().flat_map(|(name, manifest)| manifest.modules.keys().map(move |m| (name, m)));
    problems.extend(of_one_name(modules));
    let mut committed = Vec::new();
    for source in crates {
        let Some(manifest) = recorded.get(&source.name) else {
            let path = files::shown(&Manifest::path(source));
            problems.push(format!("kernel crate {}: {path} is not there", source.name));
            continue;
        };
        let texts = texts(source)?;
        problems.extend(consistency(&source.name, manifest, &texts));
        if manifest.source_sha256 != source.hash()? {
            problems.push(format!("kernel crate {}: the sources have changed since the PTX was compiled", source.name));
        }
        committed.push(Committed { source, manifest, texts });
    }

    // The compiler links each crate on one core; the assembler takes the others meanwhile.
    let (compiled, assembled) = std::thread::scope(|scope| {
        let assembling = scope.spawn(|| assemble_all(options, crates, &committed));
        let compiled = compile_anew(options, &committed, recorded);
        (compiled, assembling.join())
    });
    let compiled = compiled?;
    for Committed { source, manifest, texts } in &committed {
        // The list must hold what the sources compile to; where that is not known, what they were compiled to.
        let Some(modules) = compiled.get(&source.name) else {
            problems.extend(list::problems(source, manifest.modules.keys().map(String::as_str)));
            continue;
        };
        problems.extend(list::problems(source, modules.iter().map(|module| module.name.as_str())));
        let fresh = modules.iter().map(|module| (module.name.clone(), module.text.clone())).collect();
        problems.extend(differences(&of_manifest(manifest, texts), &fresh));
    }
    problems.extend(assembled.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    conclude(&problems, "without --check the PTX is compiled anew; commit what changes")?;
    let modules: usize = committed.iter().map(|of_crate| of_crate.texts.len()).sum();
    println!("the committed PTX is in order: {modules} modules of {} kernel crates", committed.len());
    Ok(())
}

/// One line for each crate of another compiler than the first.
fn of_other_compilers(recorded: &Recorded) -> Vec<String> {
    let Some((first, Manifest { compiler, .. })) = recorded.first_key_value() else { return Vec::new() };
    let others = recorded.iter().filter(|(_, manifest)| manifest.compiler != *compiler);
    others
        .map(|(name, manifest)| {
            let other = &manifest.compiler;
            format!("kernel crate {name}: its PTX is of {other}, but that of {first} is of {compiler}")
        })
        .collect()
}

/// Compiles the crates whose recorded compiler is here.
fn compile_anew(options: &Options, committed: &[Committed], recorded: &Recorded) -> Result<Compiled> {
    let mut compiled = Compiled::new();
    let compilers: BTreeSet<_> = committed.iter().map(|of_crate| of_crate.manifest.compiler.as_str()).collect();
    for recorded_one in compilers {
        let found = toolchain::find(Some(recorded_one)).map_err(Failure::CannotRun)?;
        if let Some(reason) = no_recompilation(recorded_one, found.as_ref().map(|found| found.version.as_str())) {
            options.skip("RECOMPILED", &reason)?;
            continue;
        }
        println!("compiling anew with {recorded_one}");
        let of_it = committed.iter().filter(|of_crate| of_crate.manifest.compiler == recorded_one);
        let crates: Vec<_> = of_it.map(|of_crate| of_crate.source.clone()).collect();
        let found = found.as_ref().expect("it is the recorded one");
        let compile = |source: &Source| Ok(vec![compile::compile(found, source)?]);
        compiled.extend(compile_all(&crates, recorded, compile, None)?);
    }
    Ok(compiled)
}

/// Assembles what is committed; one line for each module that cannot be, and for each kernel that needs more than it
/// should or other than recorded.
fn assemble_all(options: &Options, crates: &[Source], committed: &[Committed]) -> Result<Vec<String>> {
    let Some(ptxas) = options.ptxas(crates)? else { return Ok(Vec::new()) };
    let architectures = options.architectures(&ptxas);
    let jobs: Vec<_> =
        committed.iter().flat_map(|of_crate| jobs(options, of_crate, &ptxas.version, &architectures)).collect();
    let (assembled, mut problems) = assemble::assemble(&ptxas, &jobs)?;
    print!("{}", assemble::table(&assembled, &architectures));
    problems.extend(assemble::local_memory(&assembled));
    for Committed { source, manifest, .. } in committed {
        if manifest.ptxas.as_ref() == Some(&ptxas.version) {
            problems.extend(golden_counts(manifest, &assembled));
        } else {
            let (name, counted) = (&source.name, manifest.ptxas.as_deref().unwrap_or("none"));
            let here = &ptxas.version;
            let reason = format!("registers of {name} were counted with ptxas {counted}, and here is {here}");
            options.skip("COMPARED", &reason)?;
        }
    }
    Ok(problems)
}

/// What is to be assembled of a crate. That its modules are the recorded ones is checked by their hashes.
fn jobs(options: &Options, of_crate: &Committed, ptxas: &str, architectures: &[u32]) -> Vec<assemble::Job> {
    let Committed { source, manifest, texts } = of_crate;
    let is_known = |sm: u32| options.unrecorded && sm != COUNTED_ON && manifest.is_assembled_for(sm, ptxas);
    let architectures: Vec<_> = architectures.iter().copied().filter(|sm| !is_known(*sm)).collect();
    assemble::jobs(of_manifest(manifest, texts).into_keys().map(|name| source.module(&name)), &architectures)
}

/// The texts of the modules that the manifest has.
fn of_manifest(manifest: &Manifest, texts: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let known = texts.iter().filter(|(name, _)| manifest.modules.contains_key(*name));
    known.map(|(name, text)| (name.clone(), text.clone())).collect()
}

/// Why the committed PTX cannot be compiled anew `here`, if so.
fn no_recompilation(recorded: &str, here: Option<&str>) -> Option<String> {
    let reason = match here {
        Some(here) if here == recorded => return None,
        Some(here) => format!("the committed PTX is of {recorded}, and here is {here}"),
        None => format!("there is no device compiler here; to compile: {}", toolchain::INSTALL),
    };
    Some(reason + ". Only the hash of the sources was compared")
}

/// The committed modules of a crate, by name.
fn texts(source: &Source) -> Result<BTreeMap<String, String>> {
    let files = source.modules().into_iter();
    files.map(|file| Ok((assemble::module_of(&file).to_owned(), files::read(&file)?))).collect()
}

/// Whether a crate's modules and manifest agree.
fn consistency(crate_name: &str, recorded: &Manifest, committed: &BTreeMap<String, String>) -> Vec<String> {
    let mut problems = Vec::new();
    let (target, isa) = (&recorded.target, &recorded.isa);
    if target != compile::CPU {
        let cpu = compile::CPU;
        problems
            .push(format!("kernel crate {crate_name}: the manifest says {target}, but kernels are compiled for {cpu}"));
    }
    let codegen = Codegen::of(&recorded.compiler);
    // Another generator may write a newer version.
    if codegen == Codegen::Rustc && isa != compile::ISA.1 {
        let ours = compile::ISA.1;
        problems.push(format!(
            "kernel crate {crate_name}: the manifest says PTX {isa}, but kernels are compiled for {ours}"
        ));
    }
    for (name, entry) in &recorded.modules {
        match committed.get(name) {
            None => problems.push(format!("module {name}: in the manifest, but {name}.ptx is not there")),
            Some(text) if sha256(text.as_bytes()) != entry.sha256 => {
                problems.push(format!("module {name}: {name}.ptx is not what the manifest says (edited by hand?)"));
            }
            Some(text) if split::isa(text).is_some_and(|version| version != isa) => {
                problems.push(format!("module {name}: {name}.ptx is not of PTX {isa}, as the manifest says"));
            }
            Some(_) => {}
        }
    }
    for (name, text) in committed {
        if recorded.modules.contains_key(name) {
            problems.extend(slow(codegen, local_variables(text)));
            problems.extend(barriers::on_both_sides(text));
        } else {
            problems.push(format!("module {name}: {name}.ptx is there, but not in the manifest"));
        }
    }
    problems
}

/// One line for each kernel whose resources differ from the manifest's.
fn golden_counts(recorded: &Manifest, assembled: &assemble::Assembled) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, module) in &recorded.modules {
        let Some(counted) = assembled.get(name).and_then(|architectures| architectures.get(&COUNTED_ON)) else {
            continue;
        };
        for (kernel, golden) in &module.kernels {
            if counted.get(kernel) != golden.as_ref() {
                let now = counted.get(kernel);
                lines.push(format!(
                    "kernel {kernel}: the manifest says {golden:?} on sm_{COUNTED_ON}, and ptxas {now:?}"
                ));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Workspace;
    use crate::manifest::{ModuleEntry, Resources};

    fn recorded(text: &str) -> Manifest {
        let module = ModuleEntry { sha256: sha256(text.as_bytes()), kernels: BTreeMap::new() };
        Manifest {
            compiler: "rustc 1.96.0 (x), LLVM 22".to_owned(),
            target: compile::CPU.to_owned(),
            isa: compile::ISA.1.to_owned(),
            modules: [("m_f8".to_owned(), module)].into(),
            ..Manifest::default()
        }
    }

    fn problems(manifest: &Manifest, committed: &[(&str, &str)]) -> Vec<String> {
        let committed = committed.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        consistency("m", manifest, &committed)
    }

    #[test]
    fn files_that_agree_are_in_order() {
        assert!(problems(&recorded("x"), &[("m_f8", "x")]).is_empty());
    }

    #[test]
    fn an_edited_a_missing_and_a_stray_module_are_named() {
        assert!(problems(&recorded("x"), &[("m_f8", "y")])[0].contains("edited by hand"));
        assert!(problems(&recorded("x"), &[])[0].contains("not there"));
        assert!(problems(&recorded("x"), &[("m_f8", "x"), ("z", "")])[0].contains("z.ptx is there"));
    }

    #[test]
    fn a_crate_of_another_compiler_is_named() {
        let other = Manifest { compiler: "rustc 1.97.0 (y), LLVM 23".to_owned(), ..recorded("x") };
        let all = |b: Manifest| Recorded::from([("a".to_owned(), recorded("x")), ("b".to_owned(), b)]);
        assert!(of_other_compilers(&all(recorded("y"))).is_empty());
        let lines = of_other_compilers(&all(other));
        assert!(lines.len() == 1 && lines[0].contains("crate b") && lines[0].contains("1.97.0"), "{lines:?}");
    }

    #[test]
    fn another_target_is_named() {
        let manifest = Manifest { target: "sm_90".to_owned(), ..recorded("x") };
        assert!(problems(&manifest, &[("m_f8", "x")])[0].contains("sm_90"));
    }

    #[test]
    fn another_ptx_version_is_named() {
        let manifest = Manifest { isa: "8.8".to_owned(), ..recorded("x") };
        assert!(problems(&manifest, &[("m_f8", "x")])[0].contains("8.8"));
        let text = ".version 8.8\n";
        assert!(problems(&recorded(text), &[("m_f8", text)])[0].contains("m_f8.ptx is not of PTX 7.4"));
        // What another generator wrote is as old as it says.
        let nvvm = Manifest { compiler: "rust-cuda".to_owned(), isa: "8.8".to_owned(), ..recorded(text) };
        assert!(problems(&nvvm, &[("m_f8", text)]).is_empty());
    }

    #[test]
    fn without_the_recorded_compiler_a_strict_check_fails() {
        for here in [None, Some("rustc 1.97.0 (y), LLVM 23")] {
            let reason = no_recompilation("rustc 1.96.0 (x), LLVM 22", here).expect("it is another one, or none");
            let error = Options::checking(&[90], false).skip("RECOMPILED", &reason).expect_err("strict").to_string();
            assert!(error.contains("NOT RECOMPILED"), "{error}");
            let mut lenient = Options::checking(&[90], false);
            lenient.strict = false;
            lenient.skip("RECOMPILED", &reason).expect("only a warning");
        }
        assert_eq!(no_recompilation("rustc 1.96.0 (x), LLVM 22", Some("rustc 1.96.0 (x), LLVM 22")), None);
    }

    #[test]
    fn what_is_recorded_is_assembled_for_the_counted_architecture_only() {
        let workspace = Workspace::new("recorded");
        let source = &workspace.source("own");
        let mut manifest = Manifest { ptxas: Some("13.0.88".to_owned()), ..recorded("x") };
        manifest.record_assembled(vec![75, COUNTED_ON]);
        let texts = BTreeMap::from([("m_f8".to_owned(), "x".to_owned())]);
        let of_crate = Committed { source, manifest: &manifest, texts };
        let asked = |unrecorded, ptxas| -> Vec<u32> {
            let options = Options::checking(&[], unrecorded);
            jobs(&options, &of_crate, ptxas, &[75, COUNTED_ON, 120]).into_iter().map(|(_, sm)| sm).collect()
        };
        assert_eq!(asked(true, "13.0.88"), [COUNTED_ON, 120]);
        assert_eq!(asked(true, "13.1.0"), [75, COUNTED_ON, 120]);
        assert_eq!(asked(false, "13.0.88"), [75, COUNTED_ON, 120]);
    }

    #[test]
    fn local_memory_in_a_committed_module_is_named() {
        let text = ".visible .entry m_f8__a(\n)\n{\n\t.local .b32 x;\n}\n";
        assert!(problems(&recorded(text), &[("m_f8", text)])[0].contains("m_f8__a"));
    }

    #[test]
    fn changed_register_counts_are_named() {
        let need = |registers| Resources { registers, ..Resources::default() };
        let mut manifest = recorded("x");
        let module = manifest.modules.get_mut("m_f8").expect("it is there");
        module.kernels.insert("m_f8__a".to_owned(), Some(need(32)));
        let assembled = |registers| -> assemble::Assembled {
            let kernels = BTreeMap::from([("m_f8__a".to_owned(), need(registers))]);
            [("m_f8".to_owned(), [(COUNTED_ON, kernels)].into())].into()
        };
        assert!(golden_counts(&manifest, &assembled(32)).is_empty());
        assert!(golden_counts(&manifest, &assembled(40))[0].contains("m_f8__a"));
    }
}
