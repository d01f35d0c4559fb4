//! What rust-cuda's NVVM code generator is built from, and what of that this machine has.

use crate::process::{self, which};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where to look.
struct Places {
    rustup: Option<PathBuf>,
    /// Programs that may be LLVM 7's `llvm-config`, in the order of rust-cuda's build script.
    llvm_configs: Vec<PathBuf>,
    /// Folders that may be the CUDA toolkit's, in the same order.
    toolkits: Vec<PathBuf>,
    /// Folders that may hold libclang, with which the bindings of libNVVM are made.
    clangs: Vec<PathBuf>,
}

/// What was found.
#[derive(Clone, Debug)]
pub(crate) struct RustCuda {
    /// LLVM 7's `llvm-config`.
    pub(crate) llvm_config: PathBuf,
    /// The CUDA toolkit's folder.
    pub(crate) toolkit: PathBuf,
    /// The folder of libNVVM in it.
    pub(crate) libnvvm: PathBuf,
}

/// What rust-cuda needs, if all of it is here; else a line for each thing that is missing, with what to do.
pub(crate) fn find() -> Result<RustCuda, Vec<String>> {
    Places::usual(|name| std::env::var_os(name)).look(version_of)
}

fn version_of(llvm_config: &Path) -> String {
    process::stdout(Command::new(llvm_config).arg("--version")).unwrap_or_default()
}

impl Places {
    /// Those that rust-cuda's build scripts know, and where distributions have LLVM.
    fn usual(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let named = |name: &str| variable(name).map(PathBuf::from);
        let on_path = which("llvm-config").into_iter().chain(which("llvm-config-7"));
        let llvm_configs = match named("LLVM_CONFIG") {
            Some(program) => vec![program],
            None => on_path
                .chain(["/usr/lib/llvm-7/bin/llvm-config".into(), "/opt/llvm-7/bin/llvm-config".into()])
                .collect(),
        };
        let toolkits = ["CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"].into_iter().filter_map(named);
        let usual = ["/usr/lib/cuda", "/usr/local/cuda", "/opt/cuda"].map(PathBuf::from);
        let clangs = match named("LIBCLANG_PATH") {
            Some(place) if place.is_file() => place.parent().map(Path::to_path_buf).into_iter().collect(),
            Some(place) => vec![place],
            None => {
                let versions = crate::paths::list(Path::new("/usr/lib")).into_iter();
                let versions = versions.filter(|path| path.to_string_lossy().starts_with("/usr/lib/llvm-"));
                let usual =
                    ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu"].map(PathBuf::from);
                versions.map(|path| path.join("lib")).chain(usual).collect()
            }
        };
        Self { rustup: which("rustup"), llvm_configs, toolkits: toolkits.chain(usual).collect(), clangs }
    }

    /// Looks there; `version` asks an `llvm-config` for its version.
    fn look(&self, version: impl Fn(&Path) -> String) -> Result<RustCuda, Vec<String>> {
        let mut missing = Vec::new();
        if self.rustup.is_none() {
            missing
                .push("rustup, for the toolchain in xtask/nvvm/rust-toolchain.toml: see https://rustup.rs".to_owned());
        }
        let llvm_config = self.llvm_configs.iter().find(|program| version(program).starts_with("7."));
        if llvm_config.is_none() {
            missing.push(
                "LLVM 7: build LLVM 7.1 with its nvptx target, and name its llvm-config in LLVM_CONFIG".to_owned(),
            );
        }
        // Where this header is, rust-cuda takes the toolkit to be, and looks no further.
        let toolkit = self.toolkits.iter().find(|folder| folder.join("include/cuda.h").is_file());
        let libnvvm = toolkit.map(|folder| folder.join("nvvm/lib64"));
        match (toolkit, libnvvm.as_ref().filter(|folder| folder.join("libnvvm.so").exists())) {
            (None, _) => missing
                .push("the CUDA toolkit, 12 or later, with include/cuda.h: name its folder in CUDA_PATH".to_owned()),
            (Some(toolkit), None) => {
                let toolkit = toolkit.display();
                missing.push(format!("libNVVM: the CUDA toolkit in {toolkit} has no nvvm/lib64/libnvvm.so"));
            }
            // The name that the code generator is linked with; the toolkit has it, NVIDIA's package for Python has not.
            (Some(_), Some(folder)) if !folder.join("libnvvm.so.4").exists() => {
                let folder = folder.display();
                missing.push(format!("libnvvm.so.4: ln -s libnvvm.so {folder}/libnvvm.so.4"));
            }
            (Some(_), Some(_)) => {}
        }
        let is_clang = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_c = name.starts_with("libclang.so") || name.starts_with("libclang-");
            is_c && !name.starts_with("libclang-cpp") && name.contains(".so")
        };
        if !self.clangs.iter().any(|folder| crate::paths::list(folder).iter().any(is_clang)) {
            missing.push("libclang: apt-get install libclang-dev, or name its folder in LIBCLANG_PATH".to_owned());
        }
        match (llvm_config, toolkit, libnvvm) {
            (Some(llvm_config), Some(toolkit), Some(libnvvm)) if missing.is_empty() => {
                Ok(RustCuda { llvm_config: llvm_config.clone(), toolkit: toolkit.clone(), libnvvm })
            }
            _ => Err(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A machine that has everything, in the temporary folder; removed when dropped.
    struct Machine(PathBuf);

    impl Machine {
        fn new(test: &str) -> Self {
            let machine = Self(std::env::temp_dir().join(format!("lanetree-rust-cuda-{}-{test}", std::process::id())));
            machine.file("rustup", "");
            machine.file("llvm-config", "7.1.0");
            machine.file("cuda/include/cuda.h", "");
            machine.file("cuda/nvvm/lib64/libnvvm.so", "");
            machine.file("cuda/nvvm/lib64/libnvvm.so.4", "");
            machine.file("clang/libclang-14.so.1", "");
            machine
        }

        fn file(&self, name: &str, text: &str) {
            crate::paths::write(&self.0.join(name), text).expect("the temporary folder can be written to");
        }

        fn places(&self) -> Places {
            let rustup = Some(self.0.join("rustup")).filter(|path| path.is_file());
            let [llvm, cuda, clang] = ["llvm-config", "cuda", "clang"].map(|name| vec![self.0.join(name)]);
            Places { rustup, llvm_configs: llvm, toolkits: cuda, clangs: clang }
        }

        /// What is found there; a file stands for a program, and holds what it says.
        fn look(&self) -> Result<RustCuda, Vec<String>> {
            self.places().look(|program| fs::read_to_string(program).unwrap_or_default())
        }

        /// What is missing, which is one thing.
        fn missing(&self) -> String {
            let mut missing = self.look().expect_err("something is missing");
            assert_eq!(missing.len(), 1, "{missing:?}");
            missing.remove(0)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_machine_that_has_everything_lacks_nothing() {
        let machine = Machine::new("whole");
        let found = machine.look().expect("all is there");
        assert_eq!(found.libnvvm, machine.0.join("cuda/nvvm/lib64"));
    }

    #[test]
    fn each_thing_that_is_missing_is_named() {
        for (file, name) in [
            ("rustup", "rustup"),
            ("llvm-config", "LLVM 7"),
            ("cuda/include/cuda.h", "CUDA toolkit"),
            ("cuda/nvvm/lib64/libnvvm.so", "libNVVM"),
            ("cuda/nvvm/lib64/libnvvm.so.4", "ln -s libnvvm.so "),
            ("clang/libclang-14.so.1", "libclang"),
        ] {
            let machine = Machine::new("lacking");
            fs::remove_file(machine.0.join(file)).expect("it was there");
            machine.file("clang/libclang-cpp.so.14", "");
            let missing = machine.missing();
            assert!(missing.contains(name), "{file}: {missing}");
        }
    }

    #[test]
    fn another_llvm_will_not_do() {
        let machine = Machine::new("llvm");
        machine.file("llvm-config", "14.0.6");
        assert!(machine.missing().starts_with("LLVM 7"));
    }

    #[test]
    fn a_place_that_the_environment_names_comes_first() {
        let named = |name: &str| Some(format!("/named/{name}").into());
        let places = Places::usual(named);
        assert_eq!(places.llvm_configs, [PathBuf::from("/named/LLVM_CONFIG")]);
        assert_eq!(places.toolkits[0], PathBuf::from("/named/CUDA_PATH"));
        assert_eq!(places.clangs, [PathBuf::from("/named/LIBCLANG_PATH")]);
    }
}
