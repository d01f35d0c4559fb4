//! For tests: a workspace with two kernel crates.

use super::sources::{self, SHAPING, Source};
use crate::paths;
use std::fs;
use std::path::PathBuf;

/// Its root manifest.
pub(super) const MANIFEST: &str = "[workspace]\nmembers = []\n# why\n[workspace.package]\nversion = \"0.1.0\"\n\
    edition = \"2024\"\n[profile.release]\ndebug = 1\n[profile.dev]\nopt-level = 1\n[profile.ptx]\nlto = \"fat\"\n";

/// A workspace in the temporary folder, removed when dropped.
pub(super) struct Workspace(pub(super) PathBuf);

impl Workspace {
    /// One for the test of this name.
    pub(super) fn new(test: &str) -> Self {
        let workspace = Self(std::env::temp_dir().join(format!("lanetree-ptx-{}-{test}", std::process::id())));
        workspace.write("Cargo.toml", MANIFEST);
        workspace.write(".cargo/config.toml", "[alias]\nxtask = \"run\"\n");
        for name in ["own/kernels", "other/kernels", "simt"] {
            workspace.write(&format!("crates/{name}/Cargo.toml"), "[package]\n");
            workspace.write(&format!("crates/{name}/src/lib.rs"), "//! Docs.\nfn f() {}\n");
        }
        workspace.write("crates/simt/src/emulator/mod.rs", "fn host() {}\n");
        for file in SHAPING {
            workspace.write(file, "const FLAG: u32 = 1;\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n");
        }
        workspace
    }

    /// Writes a file of it.
    pub(super) fn write(&self, name: &str, text: &str) {
        paths::write(&self.0.join(name), text).expect("the temporary folder can be written to");
    }

    /// Its kernel crates.
    pub(super) fn sources(&self) -> Vec<Source> {
        sources::discover(&self.0)
    }

    /// One of them.
    pub(super) fn source(&self, name: &str) -> Source {
        self.sources().into_iter().find(|source| source.name == name).expect("it is there")
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}
