//! The kernels' PTX from a folder, instead of the PTX in the program: another compiler's, or tuned by hand.

use crate::{Error, Result};
use lanetree_simt::Module;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The hashes of a folder's files, as the program `sha256sum` writes and checks them.
const SUMS: &str = "SHA256SUMS";

/// Modules of a folder, by name. They live as long as the process, as GPUs do.
pub(super) struct PtxFolder(HashMap<&'static str, Module>);

impl PtxFolder {
    /// Reads all modules that the folder's file `SHA256SUMS` names, and compares their hashes with those that it has.
    ///
    /// # Errors
    /// [`Error::PtxFolder`], which names what is missing or differs.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let wrong = |reason: String| Error::PtxFolder { folder: folder.into(), reason };
        let text = |name: &str| {
            fs::read_to_string(folder.join(name)).map_err(|error| wrong(format!("{name} cannot be read ({error})")))
        };
        let mut all = HashMap::new();
        for line in text(SUMS)?.lines() {
            let (sum, name) = line.split_once("  ").ok_or_else(|| wrong(format!("{SUMS} has a line {line:?}")))?;
            let Some(module) = name.strip_suffix(".ptx") else { continue };
            let ptx = text(name)?;
            let digest: String = Sha256::digest(ptx.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            if sum != digest {
                return Err(wrong(format!("{name} is not what {SUMS} has the hash of")));
            }
            let name: &'static str = module.to_owned().leak();
            all.insert(name, Module { name, ptx: ptx.leak() });
        }
        if all.is_empty() { Err(wrong(format!("{SUMS} names no module"))) } else { Ok(Self(all)) }
    }

    /// The module that stands for one of the program's; `None` if there is none.
    pub(super) fn get(&self, module: &Module) -> Option<&Module> {
        self.0.get(module.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_taken_if_all_modules_are_what_the_manifest_says() {
        let folder = std::env::temp_dir().join(format!("lanetree-ptx-folder-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let error = || PtxFolder::read(&folder).err().unwrap().to_string();
        assert!(error().contains("SHA256SUMS cannot be read"), "{}", error());
        let sums = |text: &str| fs::write(folder.join(SUMS), text).unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  m.ptx\n";
        sums(abc);
        assert!(error().contains("m.ptx cannot be read"), "{}", error());
        fs::write(folder.join("m.ptx"), "abc").unwrap();
        let read = PtxFolder::read(&folder).unwrap();
        assert_eq!(read.get(&Module { name: "m", ptx: "embedded" }).unwrap().ptx, "abc");
        assert!(read.get(&Module { name: "n", ptx: "embedded" }).is_none());
        sums(&abc.replace("ba78", "ba79"));
        assert!(error().contains("m.ptx is not what"), "{}", error());
        sums("");
        assert!(error().contains("names no module"), "{}", error());
        fs::remove_dir_all(&folder).unwrap();
    }
}
