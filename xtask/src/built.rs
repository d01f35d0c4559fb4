//! What a program is built from: the bench keeps it in its records. A build script would not see that another commit is
//! checked out, and a program runs where there is neither the checkout nor git.

use crate::{paths, process};
use lanetree_ptx::sha256;
use std::process::Command;

/// The variable that the bench's program reads when it is compiled: a `Built` of the crate lanetree-record as JSON.
pub(crate) const VARIABLE: &str = "LANETREE_BUILT";

/// What stands in the checkout; `None` where git or the compiler does not say.
pub(crate) fn from() -> Option<String> {
    let git = |arguments: &[&str]| process::stdout(Command::new("git").current_dir(paths::root()).args(arguments));
    // Records and documents that a run has written anew are nothing that it is built from.
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!benches/record", ":!docs", ":!*.md"])?;
    let built = serde_json::json!({
        "commit": git(&["rev-parse", "HEAD"])?,
        "is_clean": changed.is_empty(),
        "rustc": process::stdout(Command::new("rustc").current_dir(paths::root()).arg("--version"))?,
        "ptx_sha256": ptx(),
    });
    Some(built.to_string())
}

/// The hash of the paths and texts of all PTX.
fn ptx() -> String {
    let mut all = Vec::new();
    for of_crate in paths::list(&paths::root().join("crates")) {
        let files = paths::list(&of_crate.join("kernels/ptx"));
        for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "ptx")) {
            let text = std::fs::read(file).unwrap_or_default();
            all.extend(paths::shown(file).into_bytes());
            all.extend((text.len() as u64).to_le_bytes());
            all.extend(text);
        }
    }
    sha256(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_record_says_of_its_program_is_known() {
        // A package of the sources has no history.
        if !paths::root().join(".git").exists() {
            return;
        }
        let json: serde_json::Value = serde_json::from_str(&from().unwrap()).unwrap();
        let text = |name: &str| json[name].as_str().unwrap();
        assert!(text("commit").len() == 40 && text("rustc").starts_with("rustc 1."), "{json}");
        assert!(text("ptx_sha256").len() == 64 && json["is_clean"].is_boolean(), "{json}");
    }
}
