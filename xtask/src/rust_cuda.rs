//! What rust-cuda's NVVM code generator is built from, and what of that this machine has.

use crate::failure::{Failure, Result as Done};
use crate::paths;
use crate::process::{self, which};
use std::ffi::OsString;
use std::os::unix::fs::symlink;
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

/// Files of the toolkit that are needed late, and what they are.
const OF_TOOLKIT: [(&str, &str); 2] =
    [("include/cuda_runtime_api.h", "CUDA's runtime headers"), ("nvvm/libdevice/libdevice.10.bc", "libdevice")];

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

/// The packages for Python with libNVVM, libdevice and the headers: of CUDA 12.9, which rust-cuda's revision knows.
const WHEELS: [&str; 2] = ["nvidia-cuda-nvcc-cu12==12.9.86", "nvidia-cuda-runtime-cu12==12.9.79"];

/// What LLVM 7 must be like, which no distribution has any more.
const LLVM: &str = "\
LLVM 7 is not installed by this. rust-cuda's code generator links it, so it must be LLVM 7.0 or 7.1 with the target nvptx, and
LLVM_CONFIG must name its llvm-config. Built from source: configure with -DLLVM_TARGETS_TO_BUILD='X86;NVPTX'. The archive that
rust-cuda offers ready-built has the old C++ ABI: with it set CXX=clang++ and CXXFLAGS=-D_GLIBCXX_USE_CXX11_ABI=0.";

/// Where [`install`] puts the toolkit, laid out as rust-cuda takes it: `include`, `nvvm`, `lib64`.
fn installed() -> PathBuf {
    paths::target().join("rust-cuda-toolkit")
}

/// Installs the toolchain of xtask/nvvm by rustup, and a CUDA toolkit of what rust-cuda needs of one into the target folder.
pub(crate) fn install() -> Done<()> {
    let toolchain = paths::root().join("xtask/nvvm/rust-toolchain.toml");
    let rustup = which("rustup").ok_or_else(|| cannot("rustup is not on the PATH: see https://rustup.rs"))?;
    let mut command = Command::new(rustup);
    command.args(["toolchain", "install"]).args(toolchain_of(&paths::read(&toolchain)?));
    // Cargo's own choice of a toolchain is not this one's.
    process::run(command.env_remove("RUSTUP_TOOLCHAIN"))?;

    let environment = paths::target().join("rust-cuda-venv");
    let python =
        which("python3").ok_or_else(|| cannot("python3 is not on the PATH: apt-get install python3 python3-venv"))?;
    process::run(Command::new(python).args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(environment.join("bin/python"));
    process::run(pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]).args(WHEELS))?;
    let packages = paths::list(&environment.join("lib")).into_iter().map(|python| python.join("site-packages/nvidia"));
    let packages = packages.into_iter().find(|folder| folder.is_dir());
    let packages = packages.ok_or_else(|| cannot("the packages hold no folder `nvidia`"))?;
    lay_out(&packages, &installed())?;
    println!("installed: {}\n\n{LLVM}\n", paths::shown(&installed()));
    Ok(())
}

fn cannot(reason: &str) -> Failure {
    Failure::CannotRun(reason.to_owned())
}

/// What rustup is to install, from a rust-toolchain.toml whose values stand in one line each.
fn toolchain_of(text: &str) -> Vec<String> {
    let value = |name: &str| {
        let line = text.lines().find(|line| line.split('=').next().is_some_and(|before| before.trim() == name));
        let quoted = line.map_or_else(Vec::new, |line| line.split('"').skip(1).step_by(2).collect());
        quoted.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let components = value("components").into_iter().flat_map(|name| ["--component".to_owned(), name]);
    let profile = value("profile").into_iter().flat_map(|name| ["--profile".to_owned(), name]);
    value("channel").into_iter().chain(profile).chain(components).collect()
}

/// Makes a toolkit of links to what the packages hold.
fn lay_out(packages: &Path, toolkit: &Path) -> Done<()> {
    for (from, to) in [
        ("cuda_nvcc/include", "include"),
        ("cuda_runtime/include", "include"),
        ("cuda_nvcc/nvvm", "nvvm"),
        ("cuda_runtime/lib", "lib64"),
    ] {
        link_all(&packages.join(from), &toolkit.join(to))?;
    }
    // The name that the code generator is linked with, which the package has not.
    link(&packages.join("cuda_nvcc/nvvm/lib64/libnvvm.so"), &toolkit.join("nvvm/lib64/libnvvm.so.4"))
}

/// Links all files of a folder and of those in it into another.
fn link_all(from: &Path, to: &Path) -> Done<()> {
    for path in paths::list(from) {
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() { link_all(&path, &place)? } else { link(&path, &place)? }
    }
    Ok(())
}

/// Links a file; what an earlier call has left there is replaced.
fn link(from: &Path, to: &Path) -> Done<()> {
    let made = to.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
        if to.symlink_metadata().is_ok() {
            std::fs::remove_file(to)?;
        }
        symlink(from, to)
    });
    made.map_err(|error| cannot(&format!("cannot link {}: {error}", paths::shown(to))))
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
                let versions = paths::list(Path::new("/usr/lib")).into_iter();
                let versions = versions.filter(|path| path.to_string_lossy().starts_with("/usr/lib/llvm-"));
                let usual =
                    ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu"].map(PathBuf::from);
                versions.map(|path| path.join("lib")).chain(usual).collect()
            }
        };
        let toolkits = toolkits.chain([installed()]).chain(usual).collect();
        Self { rustup: which("rustup"), llvm_configs, toolkits, clangs }
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
                .push("the CUDA toolkit, 12 or later, with include/cuda.h: name its folder in CUDA_PATH, or let `cargo xtask doctor --install-rust-cuda` install what is needed of one".to_owned()),
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
        // Without these, cust_raw and the linking of the kernels fail, after minutes.
        for (file, of) in OF_TOOLKIT {
            if let Some(toolkit) = toolkit.filter(|folder| !folder.join(file).is_file()) {
                missing.push(format!("{of}: the CUDA toolkit in {} has no {file}", toolkit.display()));
            }
        }
        let is_clang = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_c = name.starts_with("libclang.so") || name.starts_with("libclang-");
            is_c && !name.starts_with("libclang-cpp") && name.contains(".so")
        };
        if !self.clangs.iter().any(|folder| paths::list(folder).iter().any(is_clang)) {
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
            for (file, _) in OF_TOOLKIT {
                machine.file(&format!("cuda/{file}"), "");
            }
            machine.file("cuda/nvvm/lib64/libnvvm.so", "");
            machine.file("cuda/nvvm/lib64/libnvvm.so.4", "");
            machine.file("clang/libclang-14.so.1", "");
            machine
        }

        fn file(&self, name: &str, text: &str) {
            paths::write(&self.0.join(name), text).expect("the temporary folder can be written to");
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
            ("cuda/include/cuda_runtime_api.h", "runtime headers"),
            ("cuda/nvvm/libdevice/libdevice.10.bc", "libdevice"),
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
    fn packages_of_python_are_laid_out_as_a_toolkit() {
        let machine = Machine::new("packages");
        fs::remove_dir_all(machine.0.join("cuda")).expect("it was there");
        for file in [
            "cuda_nvcc/include/crt/host_defines.h",
            "cuda_nvcc/nvvm/lib64/libnvvm.so",
            "cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
            "cuda_runtime/include/cuda.h",
            "cuda_runtime/include/cuda_runtime_api.h",
            "cuda_runtime/lib/libcudart.so.12",
        ] {
            machine.file(&format!("nvidia/{file}"), "");
        }
        // Once more: as over an older one.
        for _ in 0..2 {
            lay_out(&machine.0.join("nvidia"), &machine.0.join("cuda"))
                .expect("the temporary folder can be written to");
        }
        machine.look().expect("nothing is missing");
        for file in ["include/crt/host_defines.h", "lib64/libcudart.so.12", "nvvm/lib64/libnvvm.so.4"] {
            assert!(machine.0.join("cuda").join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn the_toolchain_is_the_one_of_the_code_generator() {
        let text = paths::read(&paths::root().join("xtask/nvvm/rust-toolchain.toml")).expect("it is checked in");
        let arguments = toolchain_of(&text).join(" ");
        let rest = arguments.strip_prefix("nightly-").expect("a nightly");
        assert!(
            rest.ends_with(" --profile minimal --component llvm-tools --component rust-src --component rustc-dev"),
            "{rest}"
        );
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
