//! The modules against their manifest, and against the rules for kernels.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// By module: its entry in the manifest.
fn manifest() -> BTreeMap<String, Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/manifest.json");
    let text = std::fs::read_to_string(path).expect("the manifest is checked in");
    let json: Value = serde_json::from_str(&text).expect("the manifest is JSON");
    let crates = json["crates"].as_object().expect("the manifest has crates").values();
    let modules = crates.flat_map(|krate| krate["modules"].as_object().expect("a crate has modules"));
    modules.map(|(name, entry)| (name.clone(), entry.clone())).collect()
}

#[test]
fn the_table_is_sorted_and_without_duplicates() {
    assert!(lanetree_ptx::modules().is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn the_table_and_the_manifest_have_the_same_modules() {
    let table: Vec<_> = lanetree_ptx::modules().iter().map(|module| module.name.to_owned()).collect();
    assert_eq!(table, manifest().into_keys().collect::<Vec<_>>());
}

#[test]
fn symbols_are_those_of_the_manifest_and_begin_with_the_modules_name() {
    let manifest = manifest();
    for module in lanetree_ptx::modules() {
        let kernels = manifest[module.name]["kernels"].as_object().expect("a module has kernels");
        let mut expected: Vec<_> = kernels.keys().map(String::as_str).collect();
        expected.sort_unstable();
        let symbols: Vec<_> = module.symbols().collect();
        assert_eq!(symbols, expected, "{}", module.name);
        assert!(!symbols.is_empty(), "{} has no kernels", module.name);
        for symbol in symbols {
            assert_eq!(symbol.split_once("__").map(|(name, _)| name), Some(module.name), "{symbol}");
        }
    }
}

#[test]
fn texts_are_those_that_the_manifest_hashed() {
    let manifest = manifest();
    for module in lanetree_ptx::modules() {
        let expected = manifest[module.name]["sha256"].as_str().expect("a module has a hash");
        let hash = Sha256::digest(module.ptx.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, expected, "{}: run `cargo xtask ptx`", module.name);
    }
}

#[test]
fn no_kernel_keeps_variables_in_local_memory() {
    for module in lanetree_ptx::modules() {
        let local = module.ptx.lines().find(|line| line.trim_start().starts_with(".local"));
        assert_eq!(local, None, "{}", module.name);
    }
}
