//! The rivals of `benches/rivals` as a piece of a record: their programs are compiled where they are not, and run.

use lanetree_record::Machine;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs, and what nvcc needs to compile them. Folders that are not there are passed over.
pub(super) const PROGRAMS: [(&str, &[&str]); 3] = [
    ("cuco_static_map", &["--expt-relaxed-constexpr", "-I", "cuCollections/include"]),
    ("sorted_array", &[]),
    ("sorted_search", &["-I", "cccl/nvidia/cu13/include/cccl"]),
];

type Result<T> = core::result::Result<T, (String, u8)>;

/// Runs those programs of a folder that are among `names`, and writes what they say as a record of this machine, made as
/// `made` says.
pub(crate) fn run(
    folder: &Path,
    names: &[String],
    machine: &Machine,
    seed: u64,
    made: &Value,
    file: &Path,
) -> Result<()> {
    let mut rows = Vec::new();
    for (name, options) in PROGRAMS.into_iter().filter(|(name, _)| names.iter().any(|asked| asked == name)) {
        let program = program(folder, name, options)?;
        let output = Command::new(&program).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| (format!("cannot start {}: {error}", program.display()), 2))?;
        if !output.status.success() {
            let code = output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2);
            return Err((format!("{name} ended with {}", output.status), code));
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            rows.push(row(line).map_err(|error| (format!("{name}: {error}: {line}"), 2))?);
        }
    }
    let mut made = made.clone();
    made["rows"] = rows.len().into();
    let date = made["began"].as_str().and_then(|began| began.split('T').next());
    let record = json!({
        "command": "bench", "version": env!("CARGO_PKG_VERSION"), "machine": machine, "date": date,
        "seed": seed, "made": [made], "rows": rows, "skipped": [], "failure": null,
    });
    fs::write(file, record.to_string()).map_err(|error| (format!("cannot write {}: {error}", file.display()), 2))
}

/// The program of this name in a folder; compiled by nvcc, if only its source is there.
fn program(folder: &Path, name: &str, options: &[&str]) -> Result<PathBuf> {
    let program = folder.join(name);
    if program.is_file() {
        return std::path::absolute(program).map_err(|error| (error.to_string(), 2));
    }
    let compiled = std::env::temp_dir().join(format!("lanetree-{name}-{}", std::process::id()));
    let mut nvcc = Command::new("nvcc");
    nvcc.current_dir(folder).args(["-O3", "-std=c++17", "-arch=native", "--extended-lambda", "-cudart", "static"]);
    nvcc.args(options).arg(format!("{name}.cu")).arg("-o").arg(&compiled).args(["-ldl"]);
    match nvcc.status() {
        Ok(status) if status.success() => Ok(compiled),
        Ok(status) => Err((format!("nvcc ended with {status}: see benches/rivals/README.md"), 2)),
        Err(error) => Err((
            format!(
                "{} is not there, and nvcc does not start ({error}): see benches/rivals/README.md",
                program.display()
            ),
            2,
        )),
    }
}

/// A line of a rival as a row of a record has it.
fn row(line: &str) -> core::result::Result<Value, String> {
    let mut row: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if row["right"] != true {
        return Err("an answer is wrong".into());
    }
    let (rival, rate, ms) = (row["rival"].take(), row["g_per_s"].take(), row["ms"].take());
    let members = row.as_object_mut().ok_or("no object")?;
    members.retain(|name, _| !["rival", "g_per_s", "ms", "right", "card", "driver"].contains(&&**name));
    let columns = [
        ("section", "rivals".into()),
        ("index", rival),
        ("device", "cuda".into()),
        ("keys", "".into()),
        ("median_ms", ms),
        ("runs_ms", json!([])),
        ("giga_per_second", rate),
        ("checksum", "compared by the rival".into()),
    ];
    members.extend(columns.map(|(name, value)| (name.to_owned(), value)));
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::machine;
    use lanetree::Device;
    use lanetree_record::Record;
    use std::os::unix::fs::PermissionsExt;

    const LINE: &str = r#"{"rival":"a map","setting":"s","operation":"look-up","key":"u64","value":"u64","n":8,"batch":4,"hit_rate":1.0,"order":"random","ms":2.0,"min_ms":1.0,"max_ms":3.0,"g_per_s":2.5,"of":"queries","bytes_per_pair":32.0,"right":true,"card":"c","driver":"d"}"#;

    #[test]
    fn what_rivals_say_is_a_record() {
        let folder = tempfile::tempdir().unwrap();
        let write = |line: &str| {
            for (name, _) in PROGRAMS {
                let path = folder.path().join(name);
                fs::write(&path, format!("#!/bin/sh\necho '{line}'\n")).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        };
        let made = json!({ "arguments": ["rivals"], "began": "2026-11-26T07:30:00Z", "seconds": 1, "rows": 0, "built": null,
            "checked": "all", "environment": [] });
        let machine = machine::of(&Device::host()).unwrap();
        let file = folder.path().join("r.json");
        write(LINE);
        let names = ["cuco_static_map", "sorted_array", "--max-seconds"].map(String::from);
        run(folder.path(), &names, &machine, 1, &made, &file).unwrap();
        let record = Record::parse(&fs::read_to_string(&file).unwrap()).unwrap();
        assert!(record.machine.is_same_as(&machine) && record.made[0].rows == 2);
        assert_eq!(record.date.as_deref(), Some("2026-11-26"));
        let row = &record.rows[0];
        assert_eq!((&*row.section, &*row.index, row.giga_per_second), ("rivals", "a map", 2.5));
        assert_eq!(
            (row.timing.median_ms, row.text("setting"), row.number("bytes_per_pair")),
            (2.0, Some("s"), Some(32.0))
        );

        write(&LINE.replace("\"right\":true", "\"right\":false"));
        let (why, code) = run(folder.path(), &names, &machine, 1, &made, &file).unwrap_err();
        assert!(why.contains("an answer is wrong") && code == 2, "{why}");
        fs::remove_file(folder.path().join("sorted_array")).unwrap();
        write("");
        fs::remove_file(folder.path().join("cuco_static_map")).unwrap();
        let (why, _) = run(folder.path(), &names, &machine, 1, &made, &file).unwrap_err();
        assert!(why.contains("nvcc"), "{why}");
    }
}
