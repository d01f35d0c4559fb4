//! For tests: a workspace with two kernel crates.

use crate::files;
use crate::source::Source;
use std::fs;
use std::path::PathBuf;

/// Its root manifest.
pub(crate) const MANIFEST: &str = "[workspace]\nmembers = []\n# why\n[workspace.package]\nversion = \"0.1.0\"\n\
    edition = \"2024\"\n[profile.release]\ndebug = 1\n[profile.dev]\nopt-level = 1\n[profile.ptx]\nlto = \"fat\"\n";

/// A workspace in the temporary folder, removed when dropped.
pub(crate) struct Workspace(pub(crate) PathBuf);

impl Workspace {
    /// One for the test of this name.
    pub(crate) fn new(test: &str) -> Self {
        let workspace = Self(std::env::temp_dir().join(format!("lanetree-ptx-{}-{test}", std::process::id())));
        workspace.write("Cargo.toml", MANIFEST);
        workspace.write(".cargo/config.toml", "[alias]\nxtask = \"run\"\n");
        for name in ["own/kernels", "other/kernels", "simt"] {
            workspace.write(&format!("crates/{name}/Cargo.toml"), "[package]\n");
            workspace.write(&format!("crates/{name}/src/lib.rs"), "//! Docs.\nfn f() {}\n");
        }
        workspace.write("crates/simt/src/emulator/mod.rs", "fn host() {}\n");
        workspace
    }

    /// Writes a file of it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        files::write(&self.0.join(name), text).expect("the temporary folder can be written to");
    }

    /// Its kernel crates.
    pub(crate) fn sources(&self) -> Vec<Source> {
        ["other", "own"].map(|name| self.source(name)).into()
    }

    /// One of them.
    pub(crate) fn source(&self, name: &str) -> Source {
        let folder = self.0.join("crates").join(name).join("kernels");
        let package = format!("lanetree-kernels-{name}");
        Source {
            name: name.to_owned(),
            library: package.replace('-', "_"),
            package,
            ptx: folder.join("ptx"),
            folder,
            root: self.0.clone(),
            target: self.0.join("target"),
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}
