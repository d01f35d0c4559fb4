//! `verify` itself put to the test: it passes what is right, and finds what was made wrong on purpose.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

fn verify(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanetree-verify"));
    command.args(arguments).env("NO_COLOR", "1").output().expect("the verifier starts")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs over small trees; gives the exit code and the JSON.
fn small(device: &str, more: &[&str], json: &Path) -> (Option<i32>, Value) {
    run(&[&["--device", device, "--max-len", "40"], more].concat(), json)
}

/// Runs on the emulator.
fn emulated(more: &[&str], json: &Path) -> (Option<i32>, Value) {
    run(&[&["--device", "emulated"], more].concat(), json)
}

fn run(arguments: &[&str], json: &Path) -> (Option<i32>, Value) {
    let json = json.to_str().unwrap();
    let arguments = [arguments, &["--json", json]].concat();
    let output = verify(&arguments);
    let text = std::fs::read_to_string(json).unwrap_or_else(|error| panic!("{error}\n{}", stderr(&output)));
    (code(&output), serde_json::from_str(&text).unwrap())
}

fn rows(json: &Value) -> impl Iterator<Item = (&str, u64, u64)> {
    rows_of(json, |_| true)
}

/// The rows of the indexes that are wanted, by name: operation, cases, how many failed.
fn rows_of(json: &Value, is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, u64, u64)> {
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let rows = json["rows"].as_array().unwrap().iter().filter(move |row| is_wanted(row["index"].as_str().unwrap()));
    rows.map(move |row| (row["operation"].as_str().unwrap(), number(row, "cases"), number(row, "failed")))
}

#[test]
fn right_answers_pass() {
    let folder = tempfile::tempdir().unwrap();
    let (code, json) = small("host", &[], &folder.path().join("out.json"));
    assert_eq!((code, &json["failed"], &json["seed"]), (Some(0), &0.into(), &1.into()));
    assert!(json["passed"].as_u64().unwrap() > 300);
    assert!(rows(&json).all(|(_, cases, failed)| cases > 0 && failed == 0));
    let all = indexes(&json);
    assert!(
        all.is_superset(&["cuart", "harmonia", "intervals", "lanetree", "multimap", "primitives"].into()),
        "{all:?}"
    );
    assert!(!all.contains("grt"), "there are no kernels");
}

#[test]
fn the_table_is_folded_unless_all_rows_are_asked_for() {
    let rows = |more: &[&str]| {
        let output = verify(&[&["--device", "host", "--max-len", "9", "--index", "harmonia"], more].concat());
        let text = stdout(&output);
        (text.lines().filter(|line| line.starts_with("│ host")).count(), text)
    };
    let ((folded, text), (all, full)) = (rows(&[]), rows(&["--verbose"]));
    // One operation, of five types of keys and values.
    assert_eq!((folded, all), (1, 5), "{text}\n{full}");
    assert!(!text.contains(" keys ") && full.contains(" keys "));
    // What failed is there with its keys.
    let (with_failed, text) = rows(&["--sabotage", "tree", "--only", "at-size/harmonia_wide/"]);
    assert!(text.contains("what failed, by the keys") && text.contains("┆ harmonia_wide "), "{text}");
    assert!(with_failed > 1, "{text}");
}

#[test]
fn one_seed_gives_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let rows_of = |seed: &str, name: &str| {
        let (_, mut json) =
            small("host", &["--seed", seed, "--index", "cuart,cubpt,primitives"], &folder.path().join(name));
        json["rows"].as_array_mut().unwrap().iter_mut().for_each(|row| row["seconds"] = 0.into());
        json["rows"].take()
    };
    assert_eq!(rows_of("5", "a"), rows_of("5", "b"));
    assert_ne!(rows_of("5", "c"), rows_of("6", "d"));
}

/// Every operation's comparison is alive: wrong outputs fail in device form, and a tree that lacks a pair
/// fails in every form.
#[test]
fn wrong_answers_are_found_in_every_operation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let (code, json) = small("host", &["--sabotage", "tree"], &file);
    assert_eq!(code, Some(1));
    for (operation, cases, failed) in rows_of(&json, |index| index != "primitives") {
        assert!(failed * 4 > cases, "{operation}: {failed} of {cases} trees without their smallest key were found");
    }
    for sabotage in ["output", "guard"] {
        let (code, json) = small("host", &["--sabotage", sabotage], &file);
        assert_eq!(code, Some(1));
        let of_trees = rows_of(&json, |index| index != "primitives").filter(|row| row.0 == "keys");
        for (operation, cases, failed) in of_trees.chain(rows_of(&json, |index| index == "primitives")) {
            assert!(failed * 2 > cases, "{sabotage}, {operation}: {failed} of {cases} were found");
        }
    }
}

#[test]
fn wrong_answers_of_kernels_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--sabotage", "tree", "--only", "at-size/harmonia_wide/way1/"];
    let (code, json) = small("emulated", &more, &folder.path().join("out.json"));
    assert_eq!(code, Some(1));
    assert!(rows(&json).all(|(_, _, failed)| failed > 0), "{json:#}");
}

#[test]
fn a_wrong_answer_says_how_to_see_it_again() {
    let output =
        verify(&["--device", "host", "--max-len", "9", "--index", "harmonia", "--seed", "3", "--sabotage", "tree"]);
    let text = stderr(&output);
    for part in ["wrong answer on host", "seed 3", "case:      host/harmonia/", "operation: ", "expected", "got"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let command = text.lines().find_map(|line| line.strip_prefix("  reproduce: lanetree-verify ")).unwrap();
    let arguments: Vec<String> = command.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect();
    let again = verify(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code(&again), Some(1));
    assert!(stdout(&again).contains("verify: 0 cases passed, 1 failed on host"), "{}", stdout(&again));
    let case = |text: &str| -> Vec<String> { text.lines().take(5).map(str::to_owned).collect() };
    assert_eq!(case(&stderr(&again)), case(&text), "the same case, and the same answer");
}

fn indexes(json: &Value) -> BTreeSet<&str> {
    json["rows"].as_array().unwrap().iter().map(|row| row["index"].as_str().unwrap()).collect()
}

#[test]
fn only_the_indexes_that_are_named_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    // Emulated, as one of them has no cases without kernels; few cases of the others.
    for names in ["harmonia", "cuart", "grt", "intervals", "multimap", "primitives", "grt,primitives"] {
        let only = if names == "harmonia" { "way0/uniform/n1" } else { "n1" };
        let (code, json) = small("emulated", &["--index", names, "--only", only], &file);
        assert_eq!((code, indexes(&json)), (Some(0), names.split(',').collect()));
    }
}

#[test]
fn an_unknown_index_is_refused_with_those_that_are_known() {
    let output = verify(&["--index", "hash"]);
    assert_eq!(code(&output), Some(2));
    let text = stderr(&output);
    assert!(text.contains("'hash'"), "{text}");
    for name in ["harmonia", "cuart", "grt", "intervals", "multimap", "primitives"] {
        assert!(text.contains(name), "{name} is missing in:\n{text}");
    }
    let output = verify(&["--device", "host", "--index", "grt"]);
    assert_eq!(code(&output), Some(2), "there are no kernels");
    assert!(stderr(&output).contains("no case was run; --index was grt"), "{}", stderr(&output));
}

/// The comparisons of what only kernels do are alive too.
#[test]
fn wrong_answers_of_radix_trees_are_found_in_every_operation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    for sabotage in ["tree", "output", "guard"] {
        // Larger than the smallest trees that are changed.
        let more = ["--max-len", "250", "--index", "cuart,grt", "--only", "u32", "--sabotage", sabotage];
        let (code, json) = emulated(&more, &file);
        assert_eq!(code, Some(1));
        // Two trees as one have a host form only, which has no guards.
        let is_host_form = |operation: &str| operation == "hybrid" && sabotage != "tree";
        for (operation, cases, failed) in rows(&json).filter(|row| !is_host_form(row.0)) {
            assert!(failed * 4 > cases, "{sabotage}, {operation}: {failed} of {cases} were found");
        }
    }
}

#[test]
fn wrong_answers_of_joins_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    for sabotage in ["tree", "output", "guard"] {
        let more = ["--index", "lanetree", "--only", "joins/", "--sabotage", sabotage];
        let (code, json) = emulated(&more, &file);
        assert_eq!(code, Some(1));
        for (operation, cases, failed) in rows(&json) {
            assert!(failed * 2 > cases, "{sabotage}, {operation}: {failed} of {cases} were found");
        }
    }
}

/// And one that has no time says which it has not reached.
#[test]
fn a_sample_reaches_every_kernel_or_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let cases = |json: &Value| rows(json).map(|row| row.1).sum::<u64>();
    let sample = |more: &[&str]| emulated(&[&["--index", "grt", "--sample", "1"], more].concat(), &file);
    let missing = |json: &Value| json["kernels"]["missing"].as_array().unwrap().len();
    let (code, json) = sample(&[]);
    assert_eq!((code, missing(&json), &json["mode"]), (Some(0), 0, &"sample 1".into()));
    let (_, all) = emulated(&["--index", "grt"], &file);
    assert!(cases(&json) > 0 && cases(&json) < cases(&all), "{json:#}");
    assert_eq!(json["kernels"]["compiled"], all["kernels"]["compiled"]);
    let (code, json) = sample(&["--kernels", "get"]);
    let wanted = json["kernels"]["compiled"].as_u64().unwrap();
    assert!(code == Some(0) && wanted > 0 && wanted < all["kernels"]["compiled"].as_u64().unwrap(), "{json:#}");
    let output = verify(&["--device", "emulated", "--index", "grt", "--sample", "1", "--seconds", "0"]);
    assert_ne!(self::code(&output), Some(0));
    assert!(stderr(&output).contains("no case ran these kernels: grt_"), "{}", stderr(&output));
}

#[test]
fn no_case_is_not_a_pass() {
    let output = verify(&["--device", "host", "--only", "no such case"]);
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("no case was run: none has \"no such case\" in its name"));
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_gpu_that_is_asked_for_and_missing_is_an_error() {
    let output = verify(&["--device", "cuda"]);
    assert_eq!(code(&output), Some(2));
    assert!(stderr(&output).contains("built without CUDA"), "{}", stderr(&output));
}

#[test]
#[cfg(not(feature = "cuda"))]
fn without_a_gpu_auto_says_what_it_did_instead() {
    let output = verify(&["--only", "at-size/harmonia/way0/uniform/n1"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("skipped: no GPU; ran on host and emulated instead"), "{text}");
    let verdict = text.lines().last().unwrap();
    assert!(verdict.starts_with("verify: ") && verdict.ends_with(" and emulated"), "{verdict}");
}

#[test]
fn bad_arguments_are_refused() {
    for arguments in [
        &["--device", "tpu"][..],
        &["--quick", "--full"],
        &["--quick", "--sample", "1"],
        &["--seconds", "9"],
        &["--seed", "many"],
        &["--device", "host", "--json", "/no/such/folder/out.json"],
    ] {
        assert_eq!(code(&verify(arguments)), Some(2), "{arguments:?}");
    }
}
