//! `bench --figure`: figures of the paper, as far as they need no GPU.

use serde_json::Value;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanetree-bench"));
    command.args(arguments).env("NO_COLOR", "1").output().expect("the bench starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a run that ends well prints, and its JSON.
fn figure(arguments: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let output = bench(&[arguments, &["--json", json.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    (stdout(&output), serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap())
}

#[test]
fn figures_and_parts_are_listed_and_others_refused() {
    let help = stdout(&bench(&["--help"]));
    for part in ["harmonia-ntg", "narrowed thread groups", "cuart-long", "end-to-end", "Copy bandwidth"] {
        assert!(help.contains(part), "{part} is missing in:\n{help}");
    }
    // A part is no figure, and the other way about.
    for (arguments, listed) in [
        (["--figure", "lookups"], "cuart-widths"),
        (["--only", "latency"], "neighbors"),
        (["--figure", "harmonia"], "harmonia-ntg"),
    ] {
        let output = bench(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(listed), "{}", stderr(&output));
    }
}

#[test]
fn without_a_gpu_the_first_lines_say_what_is_measured() {
    let arguments = ["--quick", "--sizes", "8", "--queries", "8", "--only", "lookups", "--device"];
    for (device, words) in [("host", "native code"), ("emulated", "emulator")] {
        let text = stdout(&bench(&[&arguments[..], &[device]].concat()));
        let first: Vec<&str> = text.lines().take(2).collect();
        assert!(first[1].contains(words) && first[1].contains("say nothing of a GPU"), "{text}");
    }
    // What is counted is the same with a GPU.
    let text = stdout(&bench(&["--figure", "cuart-cpu", "--quick", "--sizes", "8", "--queries", "8"]));
    assert!(!text.contains("No GPU:"), "{text}");
}

#[test]
fn a_text_file_that_is_read_as_binary_is_told_to_be_text() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"10\n20\n30\n40\n").unwrap();
    let path = file.path().to_str().unwrap();
    let arguments = ["--device", "host", "--quick", "--only", "lookups", "--keys", path];
    let output = bench(&arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--format text"), "{}", stderr(&output));
    let output = bench(&[&arguments[..], &["--format", "text"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_file_of_keys_is_measured_like_any_other() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"7\n7\n1\n5\n6\n").unwrap();
    let keys = ["--keys", file.path().to_str().unwrap(), "--format", "text", "--key-width", "32"];
    let (_, json) = figure(&[&["--device", "host", "--only", "lookups", "--queries", "10"][..], &keys].concat());
    let rows = json["rows"].as_array().unwrap();
    let name = file.path().file_name().unwrap().to_str().unwrap();
    assert!(rows.iter().all(|row| row["n"] == 4 && row["keys"] == name && row["key"] == "u32"));
    // Three orders, all hits and half misses.
    assert_eq!(rows.len(), 6);
}

#[test]
fn memory_transactions_are_counted_without_a_gpu() {
    let (text, json) = figure(&["--figure", "harmonia-memory", "--device", "host"]);
    assert!(text.contains("COUNTED ON THE EMULATOR") && !text.contains("skipped"), "{text}");
    let counted = json["memory"]["transactions"].as_array().unwrap();
    let papers = counted.iter().filter_map(|row| row["paper"].as_f64());
    assert_eq!(papers.collect::<Vec<_>>(), [3.25, 3.16, 1.0]);
    assert_eq!(json["memory"]["comparisons"].as_array().unwrap().len(), 4);
}

#[test]
fn the_ladder_is_climbed_on_the_emulator() {
    let (text, json) =
        figure(&["--figure", "harmonia-ladder", "--device", "emulated", "--sizes", "7,8", "--queries", "8"]);
    for part in ["EMULATED", "HB+-style tree", "+ PSA", "+ NTG, by profile", "TITAN V", "3.6 G/s", "3.4 x"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let rows = json["rows"].as_array().unwrap();
    let firsts: Vec<&Value> = rows.iter().filter(|row| row["rung"] == "baseline").collect();
    // A first rung for each size and fanout, and every other measured by it.
    assert_eq!(firsts.len(), 2 * 5);
    assert!(firsts.iter().all(|row| row["ratio_to_baseline"] == 1.0));
    assert!(rows.iter().all(|row| row["ratio_to_baseline"].as_f64().is_some()));
}

#[test]
fn what_cannot_be_measured_is_said() {
    let output = bench(&["--figure", "harmonia-ladder", "--device", "host"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).contains("figure harmonia-ladder: skipped: no GPU"), "{}", stdout(&output));
    assert!(stdout(&output).lines().nth(1).unwrap().contains("nothing is measured"), "{}", stdout(&output));
    let output = bench(&["--figure", "harmonia-memory", "--sizes", "20"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("figure harmonia-memory takes no --sizes"), "{}", stderr(&output));
}

#[test]
fn sorting_is_compared_with_the_paper_and_the_plan_with_the_clock() {
    let arguments = ["--figure", "harmonia-psa", "--device", "emulated", "--sizes", "7,8", "--queries", "8"];
    let (text, json) = figure(&arguments);
    for part in ["EMULATED", "partial", "full", "1.22", "0.93", "1.10", "planned", "predicted ms", "chosen"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 5 * 3);
    assert_eq!(rows.iter().filter(|row| row["psa"]["is_chosen"] == true).count(), 2 * 5);
    assert!(rows.iter().all(|row| row["psa"]["predicted_ms"].as_f64().unwrap() > 0.0));
}

#[test]
fn real_input_is_taken_from_a_folder_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().to_str().unwrap();
    let output = bench(&["--figure", "cuart-real", "--device", "host", "--input", input]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("none of the files geoip6, words and paths"));
    std::fs::write(folder.path().join("words"), "lane\ntree\nradix\n").unwrap();
    let (text, json) = figure(&["--figure", "cuart-real", "--device", "emulated", "--quick", "--input", input]);
    for part in ["EMULATED", "prefix_span_many", "ART", "skipped: figure cuart-real, geoip6: no file"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(json["rows"].as_array().unwrap().iter().all(|row| row["ratio_to_baseline"].as_f64().is_some()));
    let output = bench(&["--figure", "cuart-cpu", "--input", input]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn radix_trees_are_compared_on_the_cpu_without_a_gpu() {
    let (text, json) = figure(&["--figure", "cuart-cpu", "--device", "host", "--quick", "--sizes", "10"]);
    assert!(text.contains("blart") && text.contains("x ART, CPU") && !text.contains("skipped"), "{text}");
    let rows = json["rows"].as_array().unwrap();
    // Batches of the paper's size and large ones, keys of 8 and 32 bytes.
    assert_eq!(rows.len(), 2 * (6 + 5));
    assert!(rows.iter().all(|row| row["threads"].as_u64().is_some() && row["cpu"]["build_ms"].as_f64().is_some()));
}

#[test]
fn the_tree_with_leaves_in_host_memory_is_measured_on_both_sides() {
    let arguments = ["--figure", "hbtree-sizes", "--device", "emulated", "--sizes", "7,8", "--queries", "8"];
    let (text, json) = figure(&arguments);
    for part in ["EMULATED", "x CPU", "the mean over the sizes; paper: 2.4", "paper: 2.1", "hbtree_harmonia"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let rows = json["rows"].as_array().unwrap();
    // Two sizes, two widths, three trees, with and without the device.
    assert_eq!(rows.len(), 2 * 2 * 3 * 2);
    let sides: Vec<&Value> = rows.iter().map(|row| &row["device"]).collect();
    assert_eq!(sides, ["cpu", "emulated"].repeat(12));
    let (text, json) = figure(&["--figure", "hbtree-cpu", "--device", "host", "--sizes", "10", "--queries", "10"]);
    assert!(text.contains("FAST") && text.contains("S+ tree") && !text.contains("skipped"), "{text}");
    // Five gathers, three trees of ours with three numbers of queries in flight and two others with two, and two more.
    assert_eq!(json["rows"].as_array().unwrap().len(), 2 * (5 + 3 * 3 + 2 * 2 + 2));
}

#[test]
fn what_lanetree_takes_at_worst_is_measured_and_checked() {
    let arguments = |name| ["--figure", name, "--device", "emulated", "--quick", "--sizes", "8", "--queries", "8"];
    let (text, json) = figure(&arguments("lanetree-adversaries"));
    for part in ["gaps that double", "128 of one key", "descending", "most bytes", "slowest batches"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    // Uniform keys and nine other sets: look-ups, those that miss, ranks; three calls of a multi-map; five kinds of batches.
    assert_eq!(json["rows"].as_array().unwrap().len(), 10 * 3 + 3 + 5 * 2);
    let (_, json) = figure(&arguments("lanetree-memory"));
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 6);
    assert!(rows.iter().all(|row| row["peak"].as_f64() > Some(0.9) && row["top_bytes_per_key"].as_f64() > Some(0.0)));
}

#[test]
fn the_first_answer_is_that_of_new_processes() {
    let (text, json) = figure(&["--figure", "first-answer", "--device", "emulated", "--quick", "--sizes", "8"]);
    assert!(text.contains("second insert ms") && text.contains("lanetree"), "{text}");
    let rows = json["rows"].as_array().unwrap();
    // An index each, and no cache.
    assert_eq!(rows.len(), 6);
    let ms = |row: &Value, name: &str| row[name].as_f64().unwrap();
    assert!(rows.iter().all(|row| ms(row, "get_ms") > 0.0 && ms(row, "build_ms") < ms(row, "max_ms")));
}

#[test]
fn files_are_measured_beside_plain_ones_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for device in ["host", "emulated"] {
        let (text, json) =
            figure(&["--figure", "files", "--device", device, "--quick", "--sizes", "10", "--input", path]);
        assert!(text.contains("of the slower"), "{text}");
        // Two ceilings, as there is no bus, a save and two loads.
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 5);
        assert!(rows[2..].iter().all(|row| row["of_slower"].as_f64() > Some(0.0)), "{device}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn sets_are_measured_beside_trees_with_values() {
    let arguments = ["--figure", "lanetree-sets", "--device", "emulated", "--quick", "--sizes", "8", "--queries", "8"];
    let (text, json) = figure(&arguments);
    assert!(text.contains("x tree") && text.contains("u64/none"), "{text}");
    // Of two widths and in two orders: look-ups, those that miss, ranks, predecessors, ranges.
    assert_eq!(json["rows"].as_array().unwrap().len(), 2 * 2 * 5);
}

#[test]
fn joins_and_the_multi_map_are_measured_and_checked() {
    let arguments = |name| ["--figure", name, "--device", "emulated", "--quick", "--sizes", "8", "--queries", "8"];
    let (_, json) = figure(&arguments("joins"));
    // A copy; seven calls in two orders; thirteen calls and four steps at each of four sizes of batches.
    assert_eq!(json["rows"].as_array().unwrap().len(), 1 + 2 * 7 + 4 * (13 + 4));
    let (text, json) = figure(&arguments("multimap"));
    assert!(text.contains("64 per key") && text.contains("remove_pairs_many"), "{text}");
    assert!(text.contains("insert_on, in place, after 9"), "{text}");
    // Four shapes: a build, three queries on the device, one from the host, three changes. Inserts in place of as many sizes as there
    // are keys for: three with one value per key, two with four.
    assert_eq!(json["rows"].as_array().unwrap().len(), 4 * 8 + 3 + 2);
}

#[test]
fn intervals_are_measured_and_checked() {
    let arguments = ["--figure", "intervals", "--device", "emulated", "--quick", "--sizes", "8", "--queries", "8"];
    let (text, json) = figure(&arguments);
    assert!(text.contains("most_specific") && text.contains("stab"), "{text}");
    // Three depths: a build and three queries.
    assert_eq!(json["rows"].as_array().unwrap().len(), 3 * 4);
}

#[test]
fn joins_are_measured_beside_writing_their_rows_and_checked() {
    let arguments = |name| ["--figure", name, "--device", "emulated", "--quick", "--sizes", "9", "--queries", "9"];
    for (name, operations) in [("joins-equi", 2 * 4), ("joins-range", 3)] {
        let (text, json) = figure(&arguments(name));
        assert!(text.contains("left") && text.contains("semi"), "{text}");
        // A copy; each kind in two orders, of equi-joins with wide numbers and narrow ones.
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 1 + 2 * operations);
        assert!(rows[1..].iter().all(|row| row["ceiling_giga_per_second"].as_f64().unwrap() > 0.0), "{name}");
    }
}

#[test]
fn shards_are_measured_beside_one_index_and_checked() {
    let (_, json) =
        figure(&["--figure", "sharded", "--device", "emulated", "--quick", "--sizes", "8", "--queries", "8"]);
    // One index, two shards and four on a device, two on two: three queries on devices and four from main memory, in two orders, and
    // two ways to insert. On two devices look-ups in parts, too, and some that the CPU divides.
    assert_eq!(json["rows"].as_array().unwrap().len(), 4 * (7 * 2 + 2) + 2 + 1);
}

#[test]
fn an_index_over_all_devices_is_built_in_pieces_and_checked() {
    let (_, json) =
        figure(&["--figure", "sharded-capacity", "--device", "emulated", "--quick", "--sizes", "8", "--queries", "8"]);
    let rows = json["rows"].as_array().unwrap();
    // The build; look-ups, the same in parts, and ranks, with misses and without.
    assert_eq!(rows.len(), 1 + 2 * 3);
    assert!(rows[0]["card_bytes"].as_u64().unwrap() > 256 * 16, "{}", rows[0]);
    assert_eq!((&rows[0]["n"], &rows[0]["shards"]), (&256.into(), &2.into()));
}

#[test]
fn a_size_that_a_figure_has_no_keys_for_is_refused() {
    let output = bench(&["--figure", "harmonia-ntg", "--sizes", "31"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("takes no --sizes above 30, and 31 was asked for"), "{}", stderr(&output));
}

#[test]
fn all_figures_of_a_paper_are_made_each_with_a_record_that_says_how() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("records");
    let asked = ["--figure", "all", "--paper", "cubpt", "--json", records.to_str().unwrap(), "--quick", "--seed", "3"];
    let output = bench(&[&asked[..], &["--device", "emulated", "--sizes", "8", "--queries", "8"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    for name in ["cubpt-builds", "cubpt-inserts", "cubpt-crossover", "cubpt-orders"] {
        let json: Value =
            serde_json::from_slice(&std::fs::read(records.join(format!("{name}.json"))).unwrap()).unwrap();
        let made = &json["made"][0];
        let arguments: Vec<&str> = made["arguments"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let expected =
            ["--figure", name, "--sizes", "8", "--queries", "8", "--quick", "--device", "emulated", "--seed", "3"];
        assert_eq!(arguments[..expected.len()], expected);
        assert_eq!(made["rows"].as_u64(), Some(json["rows"].as_array().unwrap().len() as u64));
        assert!(
            made["checked"].as_str().unwrap().contains("last run") && made["began"].as_str().unwrap().ends_with('Z')
        );
        let host = &json["machine"]["host"];
        assert!(host["memory_bytes"].as_u64() > Some(1 << 28) && host["kernel"].is_string(), "{host}");
        assert_eq!((json["seed"].as_u64(), &json["failure"]), (Some(3), &Value::Null));
    }
    assert!(!records.join("pieces").exists());
}

#[test]
fn what_does_not_go_with_all_figures_is_refused() {
    for (arguments, why) in [
        (&["--figure", "all", "--device", "host"][..], "name it with --json DIR"),
        (&["--figure", "latency", "--full"], "--paper and --full are for --figure all"),
        (&["--paper", "cuart"], "--paper and --full are for --figure all"),
        (&["--figure", "all", "--json", "x", "--keys", "y"], "figure all takes no --keys"),
    ] {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}
