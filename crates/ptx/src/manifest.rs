//! ptx/manifest.json of a kernel crate: what its committed PTX was compiled from, by what, and what it needs.

use crate::digest::sha256;
use crate::failure::{Failure, Result};
use crate::files;
use crate::source::Source;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// Release, commit and LLVM of the compiler.
    pub(crate) compiler: String,
    /// The oldest GPU that the PTX serves, `sm_75`.
    pub(crate) target: String,
    /// The PTX version, `7.4`.
    pub(crate) isa: String,
    /// What the modules were assembled for, if they were.
    #[serde(default)]
    pub(crate) assembled: Option<AssembledFor>,
    /// The version of ptxas that counted the resources, if one did.
    pub(crate) ptxas: Option<String>,
    /// The hash of all sources that go into the crate.
    pub(crate) source_sha256: String,
    /// Its modules, by name.
    pub(crate) modules: BTreeMap<String, ModuleEntry>,
}

/// That ptxas, in the version of the manifest, took all modules for some architectures, and that no kernel needed local
/// memory there but those that may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AssembledFor {
    pub(crate) architectures: Vec<u32>,
    /// The hash of the modules' hashes: a merge can bring modules that the list is not about.
    pub(crate) modules_sha256: String,
}

/// One module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModuleEntry {
    /// The hash of its text.
    pub(crate) sha256: String,
    /// Its kernels by symbol, with what ptxas says they need on [`COUNTED_ON`].
    pub(crate) kernels: BTreeMap<String, Option<Resources>>,
}

/// The architecture whose resource counts are kept.
pub const COUNTED_ON: u32 = 90;

/// What a thread, or a block, of a kernel needs: bytes but for the registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resources {
    pub(crate) registers: u32,
    /// Static shared memory of a block.
    pub(crate) shared: u32,
    pub(crate) spill_stores: u32,
    pub(crate) spill_loads: u32,
    /// The stack frame, in local memory.
    pub(crate) stack: u32,
}

impl Resources {
    /// Whether a thread keeps anything in local memory.
    pub(crate) fn is_in_local_memory(&self) -> bool {
        self.stack + self.spill_stores + self.spill_loads > 0
    }
}

impl Manifest {
    /// The path of a kernel crate's manifest.
    pub(crate) fn path(source: &Source) -> PathBuf {
        source.ptx.join("manifest.json")
    }

    /// Reads a kernel crate's manifest; `None` where there is none yet.
    pub(crate) fn read(source: &Source) -> Result<Option<Self>> {
        let path = Self::path(source);
        if !path.exists() {
            return Ok(None);
        }
        let parsed = serde_json::from_str(&files::read(&path)?);
        parsed.map(Some).map_err(|error| {
            let path = files::shown(&path);
            Failure::Wrong(format!("{path} cannot be read: {error}; remove it, and it is written anew"))
        })
    }

    /// Records what the modules were assembled for, by the manifest's ptxas.
    pub(crate) fn record_assembled(&mut self, architectures: Vec<u32>) {
        self.assembled = Some(AssembledFor { architectures, modules_sha256: self.modules_sha256() });
    }

    /// Whether a ptxas of this version is recorded to have assembled all modules, as they are, for an architecture.
    pub(crate) fn is_assembled_for(&self, architecture: u32, ptxas: &str) -> bool {
        self.ptxas.as_deref() == Some(ptxas)
            && self.assembled.as_ref().is_some_and(|record| {
                record.architectures.contains(&architecture) && record.modules_sha256 == self.modules_sha256()
            })
    }

    fn modules_sha256(&self) -> String {
        let hashes: String = self.modules.values().map(|module| module.sha256.as_str()).collect();
        sha256(hashes.as_bytes())
    }

    /// The text of the file: one line per kernel, so that a diff shows what changed.
    pub(crate) fn to_json(&self) -> String {
        let quote = |text: &str| serde_json::Value::from(text).to_string();
        let ptxas = self.ptxas.as_deref().map_or("null".to_owned(), quote);
        let mut json = String::from("{\n");
        let head = [
            ("compiler", quote(&self.compiler)),
            ("target", quote(&self.target)),
            ("isa", quote(&self.isa)),
            ("assembled", serde_json::to_string(&self.assembled).expect("numbers and a string are JSON")),
            ("ptxas", ptxas),
            ("source_sha256", quote(&self.source_sha256)),
        ];
        for (name, value) in head {
            json.extend(["  \"", name, "\": ", &value, ",\n"]);
        }
        let modules = object(2, &self.modules, |module| {
            let kernels = object(6, &module.kernels, |resources| {
                serde_json::to_string(resources).expect("integers and null are JSON")
            });
            format!("{{\n      \"sha256\": \"{}\",\n      \"kernels\": {kernels}\n    }}", module.sha256)
        });
        json.extend(["  \"modules\": ", &modules, "\n}\n"]);
        json
    }
}

/// A JSON object with one entry per line.
fn object<T>(indent: usize, map: &BTreeMap<String, T>, value: impl Fn(&T) -> String) -> String {
    if map.is_empty() {
        return "{}".to_owned();
    }
    let lines = map.iter().map(|(name, item)| format!("{:indent$}  \"{name}\": {}", "", value(item)));
    format!("{{\n{}\n{:indent$}}}", lines.collect::<Vec<_>>().join(",\n"), "")
}

/// What differs between two sets of module texts, one line each: missing, left over, or the first line
/// that is not the same.
pub(crate) fn differences(committed: &BTreeMap<String, String>, compiled: &BTreeMap<String, String>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, text) in compiled {
        match committed.get(name) {
            None => lines.push(format!("module {name}: compiled from the sources, but not committed")),
            Some(old) if old != text => {
                let same = old.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
                let line = |text: &str| text.lines().nth(same).unwrap_or("(end)").trim().to_owned();
                lines.push(format!(
                    "module {name}: differs from line {} on: committed `{}`, compiled `{}`",
                    same + 1,
                    line(old),
                    line(text)
                ));
            }
            Some(_) => {}
        }
    }
    let stale = committed.keys().filter(|name| !compiled.contains_key(*name));
    lines.extend(stale.map(|name| format!("module {name}: committed, but the sources no longer have it")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        let resources = Resources { registers: 32, ..Resources::default() };
        let kernels = [("m_f8__a".to_owned(), Some(resources)), ("m_f8__b".to_owned(), None)];
        let module = ModuleEntry { sha256: "ab".to_owned(), kernels: kernels.into() };
        Manifest {
            compiler: "rustc 1.96.0 (\"x\"), LLVM 22".to_owned(),
            target: "sm_75".to_owned(),
            isa: "7.4".to_owned(),
            assembled: Some(AssembledFor { architectures: vec![75, 90], modules_sha256: "ef".to_owned() }),
            ptxas: None,
            source_sha256: "cd".to_owned(),
            modules: [("m_f8".to_owned(), module), ("none".to_owned(), ModuleEntry::default())].into(),
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let json = example().to_json();
        assert_eq!(serde_json::from_str::<Manifest>(&json).expect("valid JSON"), example(), "{json}");
        let empty = Manifest::default().to_json();
        assert_eq!(serde_json::from_str::<Manifest>(&empty).expect("valid JSON"), Manifest::default(), "{empty}");
    }

    #[test]
    fn each_kernel_has_a_line() {
        let json = example().to_json();
        let line = json.lines().find(|line| line.contains("m_f8__a")).expect("the kernel is there");
        assert!(line.contains("\"registers\":32") && line.contains("\"stack\":0"), "{line}");
    }

    #[test]
    fn what_was_assembled_is_known_for_these_modules_and_this_ptxas_only() {
        let mut manifest = Manifest { ptxas: Some("13.0.88".to_owned()), ..example() };
        assert!(!manifest.is_assembled_for(75, "13.0.88"), "it is recorded of other modules");
        manifest.record_assembled(vec![75, 90]);
        assert!(manifest.is_assembled_for(75, "13.0.88") && manifest.is_assembled_for(90, "13.0.88"));
        assert!(!manifest.is_assembled_for(120, "13.0.88") && !manifest.is_assembled_for(75, "13.1.0"));
        manifest.modules.insert("m_f16".to_owned(), ModuleEntry { sha256: "01".to_owned(), ..ModuleEntry::default() });
        assert!(!manifest.is_assembled_for(75, "13.0.88"), "a module is new");
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(serde_json::from_str::<Manifest>(&example().to_json().replace("\"isa\"", "\"isb\"")).is_err());
    }

    #[test]
    fn differences_name_the_module_and_the_line() {
        let texts = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let committed = texts(&[("same", "x\n"), ("changed", "a\nb\n"), ("stale", "s\n")]);
        let compiled = texts(&[("same", "x\n"), ("changed", "a\nc\n"), ("fresh", "f\n")]);
        let lines = differences(&committed, &compiled);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("module changed: differs from line 2"), "{lines:?}");
        assert!(lines[1].contains("module fresh") && lines[1].contains("not committed"), "{lines:?}");
        assert!(lines[2].contains("module stale"), "{lines:?}");
        assert!(differences(&compiled, &compiled).is_empty());
    }
}
