//! `ptx --check`: is the committed PTX what the sources compile to?

use super::manifest::{COUNTED_ON, KernelCrate, Manifest, differences, module_table, sha256};
use super::sources::Source;
use super::{
    Codegen, Options, assemble, compile, compile_all, conclude, local_variables, modules_folder, nvvm, slow, split,
    table_path,
};
use crate::failure::{Failure, Result};
use crate::{paths, toolchain};
use std::collections::BTreeMap;

/// Runs the check: of the files among themselves and of the hash of the sources, always; of the text,
/// by compiling anew, where the recorded compiler is here; by assembling, where there is a ptxas. Where one of
/// the two is missing a strict check fails.
pub(super) fn run(options: &Options, crates: &[Source], recorded: &Manifest) -> Result<()> {
    let committed = committed_texts();
    let mut problems = consistency(recorded, &committed);
    for source in crates {
        let hash = source.hash()?;
        if recorded.crates.get(&source.name).is_none_or(|entry| entry.source_sha256 != hash) {
            problems.push(format!("kernel crate {}: the sources have changed since the PTX was compiled", source.name));
        }
    }
    if options.only.is_none() {
        let gone = recorded.crates.keys().filter(|name| !crates.iter().any(|source| source.name == **name));
        problems.extend(gone.map(|name| format!("kernel crate {name}: in the manifest, but not in crates/kernels")));
    }

    let compiler = toolchain::find(Some(&recorded.compiler)).map_err(Failure::CannotRun)?;
    match no_recompilation(&recorded.compiler, compiler.as_ref().map(|compiler| compiler.version.as_str())) {
        Some(reason) => options.skip("RECOMPILED", &reason)?,
        None => {
            println!("compiling anew with {}", recorded.compiler);
            let compile =
                |source: &Source| compile::compile(compiler.as_ref().expect("it is the recorded one"), source);
            let compiled = compile_all(crates, compile, Codegen::Rustc)?;
            for source in crates {
                let modules = compiled[&source.name].iter();
                let fresh = modules.map(|module| (module.name.clone(), module.text.clone())).collect();
                let names = recorded.crates.get(&source.name).map(|entry| entry.modules.keys());
                let texts =
                    names.into_iter().flatten().filter_map(|name| Some((name.clone(), committed.get(name)?.clone())));
                problems.extend(differences(&texts.collect(), &fresh));
            }
        }
    }

    if let Some(ptxas) = options.ptxas()? {
        let architectures = options.architectures(&ptxas);
        let chosen = recorded.crates.iter().filter(|(name, _)| crates.iter().any(|source| source.name == **name));
        let names = chosen.flat_map(|(_, entry)| entry.modules.keys()).map(String::as_str);
        let names: Vec<_> = names.filter(|name| committed.contains_key(*name)).collect();
        let (assembled, failed) = assemble::assemble(&ptxas, &modules_folder(), &names, &architectures)?;
        print!("{}", assemble::table(&assembled, &architectures));
        problems.extend(failed);
        problems.extend(assemble::local_memory(&assembled));
        if recorded.ptxas.as_ref() == Some(&ptxas.version) {
            problems.extend(recorded.crates.values().flat_map(|entry| golden_counts(entry, &assembled)));
        } else {
            let counted = recorded.ptxas.as_deref().unwrap_or("none");
            options.skip(
                "COMPARED",
                &format!("registers were counted with ptxas {counted}, and here is {}", ptxas.version),
            )?;
        }
    }
    conclude(&problems, "`cargo xtask ptx` compiles anew; commit what it changes")?;
    println!("the committed PTX is in order: {} modules", committed.len());
    Ok(())
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

/// The committed modules, by name.
fn committed_texts() -> BTreeMap<String, String> {
    let files = paths::list(&modules_folder()).into_iter();
    files
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".ptx")?.to_owned();
            Some((name, paths::read(&path).ok()?))
        })
        .collect()
}

/// Whether modules, manifest and table agree.
fn consistency(recorded: &Manifest, committed: &BTreeMap<String, String>) -> Vec<String> {
    let mut problems = Vec::new();
    let (target, isa) = (&recorded.target, &recorded.isa);
    if target != compile::CPU {
        problems.push(format!("the manifest says {target}, but kernels are compiled for {}", compile::CPU));
    }
    let codegen = if recorded.compiler == nvvm::COMPILER { Codegen::Nvvm } else { Codegen::Rustc };
    // libNVVM writes the newest version that it knows.
    if codegen == Codegen::Rustc && isa != compile::ISA.1 {
        problems.push(format!("the manifest says PTX {isa}, but kernels are compiled for {}", compile::ISA.1));
    }
    for (name, entry) in recorded.crates.values().flat_map(|krate| &krate.modules) {
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
    let names = recorded.module_names();
    for (name, text) in committed {
        if names.contains(&name.as_str()) {
            problems.extend(slow(codegen, local_variables(text)));
        } else {
            problems.push(format!("module {name}: {name}.ptx is there, but not in the manifest"));
        }
    }
    if paths::read(&table_path()).ok() != Some(module_table(&names)) {
        problems.push(format!("{} does not list the modules of the manifest", paths::shown(&table_path())));
    }
    problems
}

/// One line for each kernel whose needs are not those of the manifest.
fn golden_counts(entry: &KernelCrate, assembled: &assemble::Assembled) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, module) in &entry.modules {
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
    use super::super::manifest::{ModuleEntry, Resources};
    use super::*;

    fn recorded(text: &str) -> Manifest {
        let module = ModuleEntry { sha256: sha256(text.as_bytes()), kernels: BTreeMap::new() };
        let krate = KernelCrate { source_sha256: String::new(), modules: [("m_f8".to_owned(), module)].into() };
        Manifest {
            compiler: "rustc 1.96.0 (x), LLVM 22".to_owned(),
            target: compile::CPU.to_owned(),
            isa: compile::ISA.1.to_owned(),
            crates: [("m".to_owned(), krate)].into(),
            ..Manifest::default()
        }
    }

    /// The problems, without that of the table, which belongs to the real modules.
    fn problems(manifest: &Manifest, committed: &[(&str, &str)]) -> Vec<String> {
        let committed = committed.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        consistency(manifest, &committed).into_iter().filter(|line| !line.contains("modules.rs")).collect()
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
        // What libNVVM wrote is as old as it says.
        let nvvm = Manifest { compiler: nvvm::COMPILER.to_owned(), isa: "8.8".to_owned(), ..recorded(text) };
        assert!(problems(&nvvm, &[("m_f8", text)]).is_empty());
    }

    #[test]
    fn without_the_recorded_compiler_a_strict_check_fails() {
        for here in [None, Some("rustc 1.97.0 (y), LLVM 23")] {
            let reason = no_recompilation("rustc 1.96.0 (x), LLVM 22", here).expect("it is another one, or none");
            let error = Options::checking().skip("RECOMPILED", &reason).expect_err("strict").to_string();
            assert!(error.contains("NOT RECOMPILED"), "{error}");
            let lenient = Options { strict: false, ..Options::checking() };
            lenient.skip("RECOMPILED", &reason).expect("only a warning");
        }
        assert_eq!(no_recompilation("rustc 1.96.0 (x), LLVM 22", Some("rustc 1.96.0 (x), LLVM 22")), None);
    }

    #[test]
    fn local_memory_in_a_committed_module_is_named() {
        let text = ".visible .entry m_f8__a(\n)\n{\n\t.local .b32 x;\n}\n";
        assert!(problems(&recorded(text), &[("m_f8", text)])[0].contains("m_f8__a"));
    }

    #[test]
    fn changed_register_counts_are_named() {
        let need = |registers| Resources { registers, ..Resources::default() };
        let mut entry = recorded("x").crates.remove("m").expect("it is there");
        let module = entry.modules.get_mut("m_f8").expect("it is there");
        module.kernels.insert("m_f8__a".to_owned(), Some(need(32)));
        let assembled = |registers| -> assemble::Assembled {
            let kernels = BTreeMap::from([("m_f8__a".to_owned(), need(registers))]);
            [("m_f8".to_owned(), [(COUNTED_ON, kernels)].into())].into()
        };
        assert!(golden_counts(&entry, &assembled(32)).is_empty());
        assert!(golden_counts(&entry, &assembled(40))[0].contains("m_f8__a"));
    }
}
