//! The records of a page: files, read and told apart.

use crate::facts::Facts;
use lanetree_record::{Extra, Gpu, Machine, Record};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Why records cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file or folder that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The system's.
        source: std::io::Error,
    },
    /// A record with a field that is missing or wrong.
    #[error("{}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Names the field.
        source: lanetree_record::Error,
    },
    /// Two files of one name for one card.
    #[error("{}: there is another record `{name}` of {card}; rename one of them", path.display())]
    Twice {
        /// The second file.
        path: PathBuf,
        /// What both are called.
        name: String,
        /// The card of both.
        card: String,
    },
    /// A folder without records.
    #[error("{}: no record, that is no file that ends in .json, in any folder of it", .0.display())]
    None(PathBuf),
}

/// What a file holds.
#[derive(Debug)]
pub(crate) enum Held {
    /// A run of `bench`.
    Bench { record: Box<Record>, rows: Vec<Facts> },
    /// A run of `verify`, of which the page says only whether it passed.
    Verify { mode: String, passed: u64, failed: u64 },
    /// What other programs measured, a line each.
    Rivals(Vec<Facts>),
}

/// What stands for a card in records of the emulator, which counts and has no time.
pub(crate) const EMULATOR: &str = "emulated";

/// Records by card and name; a record's name is its file's, without `.json`.
#[derive(Debug, Default)]
pub(crate) struct Store {
    cards: BTreeMap<String, BTreeMap<String, Held>>,
    /// The files, by card and name.
    paths: BTreeMap<(String, String), PathBuf>,
}

impl Store {
    /// All files that end in `.json`, in the folders of a folder.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self, Error> {
        let mut files = Vec::new();
        for card in list(folder)? {
            if card.is_dir() {
                files.extend(list(&card)?.into_iter().filter(|file| file.extension().is_some_and(|ext| ext == "json")));
            }
        }
        if files.is_empty() { Err(Error::None(folder.into())) } else { Self::of_files(&files) }
    }

    /// These files.
    pub(crate) fn of_files(files: &[PathBuf]) -> Result<Self, Error> {
        let mut store = Self::default();
        for path in files {
            let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.clone(), source })?;
            let (card, held) = read(&text).map_err(|source| Error::Record { path: path.clone(), source })?;
            let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
            if store.cards.entry(card.clone()).or_default().insert(name.clone(), held).is_some() {
                return Err(Error::Twice { path: path.clone(), name, card });
            }
            store.paths.insert((card, name), path.clone());
        }
        Ok(store)
    }

    pub(crate) fn cards(&self) -> impl Iterator<Item = &str> {
        self.cards.keys().map(|card| &**card)
    }

    /// The records of a card, by name.
    pub(crate) fn records(&self, card: &str) -> impl Iterator<Item = (&str, &Held)> {
        self.cards.get(card).into_iter().flatten().map(|(name, held)| (&**name, held))
    }

    pub(crate) fn get(&self, card: &str, name: &str) -> Option<&Held> {
        self.cards.get(card)?.get(name)
    }

    /// The file of a record.
    pub(crate) fn path(&self, card: &str, name: &str) -> Option<&Path> {
        self.paths.get(&(card.to_owned(), name.to_owned())).map(PathBuf::as_path)
    }

    /// The rows of a record, also of records of rivals.
    pub(crate) fn rows(&self, card: &str, name: &str) -> Option<&[Facts]> {
        match self.get(card, name)? {
            Held::Bench { rows, .. } | Held::Rivals(rows) => Some(rows),
            Held::Verify { .. } => None,
        }
    }

    /// The rows of several records, each of which says in `record` which one it is from.
    pub(crate) fn rows_of(&self, card: &str, names: &[&str]) -> Vec<Facts> {
        let rows = names.iter().flat_map(|&name| {
            let rows = self.rows(card, name).unwrap_or_default();
            rows.iter().map(move |facts| facts.clone().with("record", Extra::Text(name.into())))
        });
        rows.collect()
    }

    /// The elements of a list of a record's counts, by its path, each with its number; `None` without such a record.
    pub(crate) fn counted(&self, card: &str, name: &str, list: &str) -> Option<Vec<Facts>> {
        let Held::Bench { record, .. } = self.get(card, name)? else { return None };
        let mut path = list.split('.');
        let first = path.next().and_then(|name| record.counts.get(name));
        let found = path.fold(first, |value, name| value?.get(name));
        let elements = found.and_then(Value::as_array).into_iter().flatten().enumerate();
        Some(elements.map(|(i, value)| Facts::of_json(value).with("number", Extra::Integer(i as u64))).collect())
    }
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let error = |source| Error::Read { path: folder.into(), source };
    let entries = fs::read_dir(folder).map_err(error)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry.map_err(error)?.path())).collect::<Result<_, Error>>()?;
    paths.sort();
    Ok(paths)
}

/// What a text holds, and of which card.
fn read(text: &str) -> Result<(String, Held), lanetree_record::Error> {
    match serde_json::from_str::<Value>(text) {
        Ok(json) if json["command"] == "verify" => {
            let card = text_of(&json["devices"][0], "devices[0].device", "device")?;
            let count =
                |name: &str| json[name].as_u64().ok_or_else(|| lanetree_record::Error::Missing(name.to_owned()));
            let verify = Held::Verify {
                mode: text_of(&json, "mode", "mode")?,
                passed: count("passed")?,
                failed: count("failed")?,
            };
            Ok((card_of(&card), verify))
        }
        // Rivals' programs write a line for each measurement.
        Ok(json) if json.get("rival").is_some() => rivals(text),
        Err(_) if text.starts_with("{\"rival\"") => rivals(text),
        _ => {
            let record = Box::new(Record::parse(text)?);
            let rows = record.rows.iter().map(Facts::of_row).collect();
            Ok((card_of(&record.machine.device), Held::Bench { record, rows }))
        }
    }
}

fn rivals(text: &str) -> Result<(String, Held), lanetree_record::Error> {
    let mut rows = Vec::new();
    let mut card = String::new();
    for (i, line) in text.lines().enumerate() {
        let named = |error: String| lanetree_record::Error::Json(format!("line {}: {error}", i + 1));
        let json: Value = serde_json::from_str(line).map_err(|error| named(error.to_string()))?;
        let missing = |name: &str| lanetree_record::Error::Missing(format!("line {}: {name}", i + 1));
        card = card_of(json["card"].as_str().ok_or_else(|| missing("card"))?);
        let rival = json["rival"].as_str().ok_or_else(|| missing("rival"))?;
        let rate = json["g_per_s"].as_f64().ok_or_else(|| missing("g_per_s"))?;
        // Under the names that rows of records have.
        let facts = Facts::of_json(&json).with("index", Extra::Text(rival.into()));
        rows.push(facts.with("giga_per_second", Extra::Number(rate)));
    }
    Ok((card, Held::Rivals(rows)))
}

fn text_of(json: &Value, path: &str, name: &str) -> Result<String, lanetree_record::Error> {
    json[name].as_str().map(Into::into).ok_or_else(|| lanetree_record::Error::Missing(path.to_owned()))
}

/// `NVIDIA H200 (cuda:0)` as folders have it: `nvidia-h200`.
fn card_of(device: &str) -> String {
    let name = device.split(" (").next().unwrap_or(device).to_lowercase();
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// A machine, as the page's head has it: pairs of what and which.
pub(crate) fn described(machine: &Machine) -> Vec<(&'static str, String)> {
    let mut all = vec![("Card", machine.device.clone())];
    all.extend(machine.driver.as_ref().map(|driver| ("Driver", driver.clone())));
    all.extend(machine.cuda.as_ref().map(|cuda| ("CUDA of the driver", cuda.clone())));
    all.extend(machine.compute_capability.as_ref().map(|of| ("Compute capability", of.clone())));
    all.extend(machine.multiprocessors.map(|sms| ("Multiprocessors", sms.to_string())));
    all.extend(machine.l2_bytes.map(|bytes| ("L2", format!("{} MiB", bytes >> 20))));
    all.extend(machine.memory_bytes.map(|bytes| ("Device memory", format!("{:.0} GB", bytes as f64 / 1e9))));
    all.push(("CPU", format!("{}, {} threads", machine.cpu, machine.cpu_threads)));
    if let Some(host) = &machine.host {
        let gibibytes = |bytes: u64| format!("{:.0} GiB", bytes as f64 / (1_u64 << 30) as f64);
        let number = |number: &Option<u64>| number.map(|number| number.to_string());
        let of_host = [
            ("CPU's family, model, stepping", host.cpu_model.clone()),
            ("Sockets", number(&host.sockets)),
            ("NUMA nodes", number(&host.numa_nodes)),
            ("Last cache", host.last_cache_bytes.map(|bytes| format!("{} MiB", bytes >> 20))),
            ("Main memory", host.memory_bytes.map(gibibytes)),
            ("Kernel", host.kernel.clone()),
            ("Transparent huge pages", host.huge_pages.clone()),
        ];
        all.extend(of_host.into_iter().filter_map(|(what, which)| Some((what, which?))));
    }
    if let Some(gpu) = &machine.gpu {
        let lasting = gpu.settings.iter().filter(|(name, _)| !Gpu::OF_THE_MOMENT.contains(&&**name) && name != "name");
        let settings: Vec<String> = lasting.map(|(name, value)| format!("{name} {value}")).collect();
        all.push(("Card's settings", settings.join(", ")));
    }
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;
    use std::slice::from_ref;

    /// A record with these rows; what a row does not name is filled in.
    pub(crate) fn record(rows: &[Value]) -> String {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                let mut all = json!({
                    "section": "s", "index": "cuart", "operation": "get", "device": "cuda", "keys": "uniform",
                    "key": "u64", "value": "u64", "n": 1024, "batch": 8, "median_ms": 1.0, "min_ms": 1.0, "max_ms": 1.0,
                    "runs_ms": [1.0], "giga_per_second": 1.0, "checksum": "0-0-0",
                });
                all.as_object_mut().unwrap().extend(row.as_object().unwrap().clone());
                all
            })
            .collect();
        json!({
            "command": "bench", "version": "0.1.0", "seed": 1, "rows": rows, "skipped": [], "failure": null,
            "machine": { "device": "NVIDIA H200 (cuda:0)", "driver": "580.1", "l2_bytes": 62_914_560, "cpu": "Xeon",
                "cpu_threads": 16 },
        })
        .to_string()
    }

    /// A store of one record.
    pub(crate) fn store(name: &str, rows: &[Value]) -> Store {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name).with_extension("json");
        fs::write(&path, record(rows)).unwrap();
        Store::of_files(&[path]).unwrap()
    }

    #[test]
    fn a_folder_is_read_by_card() {
        let folder = tempfile::tempdir().unwrap();
        let card = folder.path().join("nvidia-h200");
        fs::create_dir(&card).unwrap();
        assert!(matches!(Store::of_folder(folder.path()), Err(Error::None(_))));
        fs::write(card.join("one.json"), record(&[json!({ "n": 4 })])).unwrap();
        let verified = json!({ "command": "verify", "mode": "full", "passed": 3, "failed": 0,
            "devices": [{ "device": "NVIDIA H200 (cuda:0)" }] });
        fs::write(card.join("verify.json"), verified.to_string()).unwrap();
        let line = r#"{"rival":"a map","operation":"look-up","g_per_s":2.5,"card":"NVIDIA H200"}"#;
        fs::write(card.join("rivals.json"), format!("{line}\n{line}\n")).unwrap();
        fs::write(card.join("notes.txt"), "not a record").unwrap();
        let store = Store::of_folder(folder.path()).unwrap();
        assert_eq!(store.cards().collect::<Vec<_>>(), ["nvidia-h200"]);
        let names: Vec<&str> = store.records("nvidia-h200").map(|(name, _)| name).collect();
        assert_eq!(names, ["one", "rivals", "verify"]);
        assert_eq!(store.rows("nvidia-h200", "one").unwrap()[0].number("n"), Some(4.0));
        assert_eq!(store.rows("nvidia-h200", "rivals").unwrap()[1].number("giga_per_second"), Some(2.5));
        assert!(matches!(store.get("nvidia-h200", "verify"), Some(Held::Verify { passed: 3, failed: 0, .. })));
        assert!(store.rows("nvidia-h200", "verify").is_none() && store.rows("other", "one").is_none());
    }

    #[test]
    fn an_error_names_file_and_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broken.json");
        assert!(Store::of_files(from_ref(&path)).unwrap_err().to_string().contains("broken.json: No such file"));
        fs::write(&path, record(&[json!({ "n": "many" })])).unwrap();
        let error = Store::of_files(from_ref(&path)).unwrap_err().to_string();
        assert!(error.ends_with("broken.json: rows[0].n: \"many\" is not a whole number"), "{error}");
        fs::write(&path, "{\"rival\":\"x\",\"card\":\"y\"}\n{").unwrap();
        let error = Store::of_files(from_ref(&path)).unwrap_err().to_string();
        assert!(error.ends_with("broken.json: line 1: g_per_s: missing"), "{error}");
        fs::write(&path, record(&[])).unwrap();
        let error = Store::of_files(&[path.clone(), path]).unwrap_err().to_string();
        assert!(error.ends_with("there is another record `broken` of nvidia-h200; rename one of them"), "{error}");
    }
}
