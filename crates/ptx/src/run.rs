//! The task: compiles kernel crates to PTX, each into its folder `ptx`, or checks what is there.

use crate::command::{
    Codegen, Generator, Options, Recorded, assemble_compiled, compile_all, generate, manifest_of, others,
    same_compiler, write_out,
};
use crate::failure::{Failure, Result};
use crate::manifest::Manifest;
use crate::source::Source;
use crate::toolchain::{self, TARGET};
use crate::{check, compile, files, list};

/// Compiles the crates of `crates`, or checks their PTX. `all` are the crates whose PTX is in one program with theirs: they are
/// of one compiler, and no two have a module of one name. With a `generator`, that one compiles; a check then only assembles,
/// and compares nothing.
///
/// # Errors
/// [`Failure::Wrong`] for what does not compile, for what compiled kernels must not have, and for a check that does not pass, after a
/// line on stderr for each problem; [`Failure::CannotRun`] for a crate that is no kernel crate, and without a compiler.
pub fn run(options: &Options, all: &[Source], crates: &[Source], generator: Option<&dyn Generator>) -> Result<()> {
    if let Some(sm) = options.arch.iter().find(|sm| **sm < 75) {
        return Err(Failure::CannotRun(format!("--arch {sm}: the PTX is for {} and later", compile::CPU)));
    }
    for source in crates {
        let list = list::path(source);
        if !list.is_file() {
            let (package, list) = (&source.package, files::shown(&list));
            return Err(Failure::CannotRun(format!(
                "{package} is no kernel crate: {list}, the list of its modules (`modules! {{ … }}`), is not there"
            )));
        }
    }
    let mut recorded = Recorded::new();
    for source in all {
        recorded.extend(Manifest::read(source)?.map(|manifest| (source.name.clone(), manifest)));
    }
    match (generator, options.check) {
        (None, true) => check::run(options, crates, &recorded),
        (None, false) => {
            let known = others(&recorded, crates).next().or(recorded.iter().next());
            let found = toolchain::find(known.map(|(_, manifest)| manifest.compiler.as_str()));
            let found = found.map_err(Failure::CannotRun)?;
            let Some(compiler) = found else {
                return Err(Failure::CannotRun(format!("no compiler for {TARGET}: {}", toolchain::INSTALL)));
            };
            if options.out.is_none() {
                same_compiler(&recorded, crates, &compiler.version)?;
            }
            println!("compiling with {}", compiler.version);
            let compile = |source: &Source| Ok(vec![compile::compile(&compiler, source)?]);
            let compiled = compile_all(crates, &recorded, compile, None)?;
            if let Some(folder) = &options.out {
                return write_out(folder, options, crates, &compiled, manifest_of(crates, &compiler.version)?);
            }
            generate(options, crates, &compiled, &compiler.version)
        }
        (Some(generator), check) => {
            if !check && options.out.is_none() {
                same_compiler(&recorded, crates, generator.compiler())?;
            }
            let texts = generator.compile(crates)?;
            let text = |source: &Source| Ok(texts.get(&source.name).cloned().unwrap_or_default());
            let compiled = compile_all(crates, &recorded, text, Some(generator))?;
            if check {
                return assemble_compiled(options, crates, &compiled, Codegen::Other);
            }
            if let Some(folder) = &options.out {
                return write_out(folder, options, crates, &compiled, manifest_of(crates, generator.compiler())?);
            }
            generate(options, crates, &compiled, generator.compiler())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Workspace;

    #[test]
    fn a_crate_without_modules_or_kernels_is_named() {
        let workspace = Workspace::new("none");
        let own = [workspace.source("own")];
        let error = run(&Options::default(), &own, &own, None).expect_err("it has no list").to_string();
        assert!(
            error.contains("lanetree-kernels-own is no kernel crate") && error.contains("src/modules.rs"),
            "{error}"
        );
        let text = |_: &Source| Ok(vec![".version 7.4\n.target sm_75\n.address_size 64\n".to_owned()]);
        compile_all(&own, &Recorded::new(), text, None).expect_err("there is no kernel");
    }
}
