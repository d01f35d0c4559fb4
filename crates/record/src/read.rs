//! Reading records. By hand, so that an error names the field: serde does not know it where structs are flattened.

use crate::extra::Extras;
use crate::{Machine, Record, Row, Timing};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Why some text is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no JSON.
    #[error("no JSON: {0}")]
    Json(String),
    /// A field that is not there.
    #[error("{0}: missing")]
    Missing(String),
    /// A field that is something else than it should be.
    #[error("{field}: {found} is not {expected}")]
    Type {
        /// Its path, such as `rows[3].n`.
        field: String,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
}

type Result<T> = core::result::Result<T, Error>;

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// If it is no JSON, or if a field is missing or of another type: the error names it.
    pub fn parse(json: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(json).map_err(|error| Error::Json(error.to_string()))?;
        let mut fields = Fields::of(String::new(), value)?;
        let record = Self {
            command: fields.text("command")?,
            version: fields.text("version")?,
            machine: Machine::read(Fields::of("machine".into(), fields.take("machine")?)?)?,
            date: fields.optional("date", text)?,
            seed: fields.count("seed")?,
            made: fields.of_optional("made")?.unwrap_or_default(),
            rows: fields.list("rows")?.map(|(path, row)| Row::read(Fields::of(path, row)?)).collect::<Result<_>>()?,
            skipped: fields.list("skipped")?.map(|(path, line)| text(path, line)).collect::<Result<_>>()?,
            failure: fields.optional("failure", text)?,
            counts: fields.members,
        };
        Ok(record)
    }
}

impl Machine {
    fn read(mut fields: Fields) -> Result<Self> {
        Ok(Self {
            device: fields.text("device")?,
            cuda: fields.optional("cuda", text)?,
            driver: fields.optional("driver", text)?,
            compute_capability: fields.optional("compute_capability", text)?,
            multiprocessors: fields.optional("multiprocessors", count)?,
            l2_bytes: fields.optional("l2_bytes", count)?,
            memory_bytes: fields.optional("memory_bytes", count)?,
            cpu: fields.text("cpu")?,
            cpu_threads: fields.count("cpu_threads")?,
            host: fields.of_optional("host")?,
            gpu: fields.of_optional("gpu")?,
        })
    }
}

impl Row {
    fn read(mut fields: Fields) -> Result<Self> {
        let runs = fields.list("runs_ms")?.map(|(path, run)| number(path, run)).collect::<Result<_>>()?;
        let mut row = Self {
            section: fields.text("section")?,
            index: fields.text("index")?,
            operation: fields.text("operation")?,
            device: fields.text("device")?,
            keys: fields.text("keys")?,
            key: fields.text("key")?,
            value: fields.text("value")?,
            n: fields.count("n")?,
            batch: fields.count("batch")?,
            timing: Timing {
                median_ms: number(fields.path("median_ms"), fields.take("median_ms")?)?,
                min_ms: number(fields.path("min_ms"), fields.take("min_ms")?)?,
                max_ms: number(fields.path("max_ms"), fields.take("max_ms")?)?,
                runs_ms: runs,
            },
            giga_per_second: number(fields.path("giga_per_second"), fields.take("giga_per_second")?)?,
            checksum: fields.text("checksum")?,
            extras: Extras::default(),
        };
        let Fields { path, members } = fields;
        row.extras.read(members, "").map_err(|name| Error::Type {
            field: format!("{path}.{name}"),
            found: "a list or an object of objects".into(),
            expected: "a number, text, a truth value, or an object of these",
        })?;
        Ok(row)
    }
}

/// The members of an object that were not taken yet, and its path.
struct Fields {
    path: String,
    members: Map<String, Value>,
}

impl Fields {
    fn of(path: String, value: Value) -> Result<Self> {
        match value {
            Value::Object(members) => Ok(Self { path, members }),
            other => Err(wrong(if path.is_empty() { "the file".into() } else { path }, &other, "an object")),
        }
    }

    fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    fn take(&mut self, name: &str) -> Result<Value> {
        self.members.remove(name).ok_or_else(|| Error::Missing(self.path(name)))
    }

    fn text(&mut self, name: &str) -> Result<String> {
        text(self.path(name), self.take(name)?)
    }

    fn count(&mut self, name: &str) -> Result<u64> {
        count(self.path(name), self.take(name)?)
    }

    /// A field that may be missing or `null`.
    fn optional<T>(&mut self, name: &str, read: fn(String, Value) -> Result<T>) -> Result<Option<T>> {
        match self.members.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(self.path(name), value).map(Some),
        }
    }

    /// A field that may be missing or `null`, and is read as serde does it.
    fn of_optional<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        match self.members.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value).map(Some).map_err(|error| Error::Type {
                field: self.path(name),
                found: error.to_string(),
                expected: "what it should be",
            }),
        }
    }

    /// The elements of a list, each with its path.
    fn list(&mut self, name: &str) -> Result<impl Iterator<Item = (String, Value)> + use<>> {
        let path = self.path(name);
        match self.take(name)? {
            Value::Array(list) => {
                Ok(list.into_iter().enumerate().map(move |(i, value)| (format!("{path}[{i}]"), value)))
            }
            other => Err(wrong(path, &other, "a list")),
        }
    }
}

fn text(path: String, value: Value) -> Result<String> {
    if let Value::String(text) = value { Ok(text) } else { Err(wrong(path, &value, "text")) }
}

fn count(path: String, value: Value) -> Result<u64> {
    value.as_u64().ok_or_else(|| wrong(path, &value, "a whole number"))
}

fn number(path: String, value: Value) -> Result<f64> {
    value.as_f64().ok_or_else(|| wrong(path, &value, "a number"))
}

fn wrong(field: String, found: &Value, expected: &'static str) -> Error {
    let found = match found {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "a list".into(),
        other => other.to_string(),
    };
    Error::Type { field, found, expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extra;
    use serde_json::json;

    fn json() -> Value {
        json!({
            "command": "bench", "version": "0.1.0", "seed": 7,
            "machine": { "device": "NVIDIA H200 (cuda:0)", "driver": "580.1", "multiprocessors": 132, "cpu": "x",
                "cpu_threads": 16 },
            "rows": [{
                "section": "s", "index": "harmonia", "operation": "get", "device": "cuda", "keys": "uniform",
                "key": "u64", "value": "u64", "n": 4, "batch": 8, "median_ms": 1.0, "min_ms": 1, "max_ms": 1.0,
                "runs_ms": [1.0], "giga_per_second": 0.5, "checksum": "0-0-0",
                "fanout": 16, "group": null, "psa": { "sort": "full" }
            }],
            "made": [{
                "arguments": ["--figure", "x"], "began": "2026-11-26T07:30:00Z", "seconds": 3, "rows": 1, "built": null,
                "checked": "all", "environment": []
            }],
            "memory": { "fanout": 8 }, "skipped": ["ranges: no time"], "failure": null
        })
    }

    fn error(change: impl FnOnce(&mut Value)) -> String {
        let mut json = json();
        change(&mut json);
        Record::parse(&json.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn a_record_is_what_was_written() {
        let record = Record::parse(&json().to_string()).unwrap();
        assert_eq!((record.seed, record.machine.multiprocessors, record.machine.cuda.clone()), (7, Some(132), None));
        let row = &record.rows[0];
        assert_eq!((row.n, row.integer("fanout"), row.text("psa.sort")), (4, Some(16), Some("full")));
        assert_eq!(row.extra("group"), None);
        let fields: Vec<_> = row.fields().filter(|(name, _)| ["giga_per_second", "psa.sort"].contains(name)).collect();
        assert_eq!(fields, [("giga_per_second", Extra::Number(0.5)), ("psa.sort", Extra::Text("full".into()))]);
        assert_eq!((record.counts["memory"]["fanout"].as_u64(), record.skipped.len()), (Some(8), 1));
        assert_eq!((&*record.made[0].arguments[1], record.made[0].seconds, record.made.len()), ("x", 3, 1));
        // Written and read again, it is the same.
        let again = Record::parse(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(again, record);
    }

    #[test]
    fn an_error_names_the_field() {
        assert_eq!(error(|json| _ = json["rows"][0].as_object_mut().unwrap().remove("n")), "rows[0].n: missing");
        assert_eq!(
            error(|json| json["rows"][0]["batch"] = json!("many")),
            "rows[0].batch: \"many\" is not a whole number"
        );
        assert_eq!(error(|json| json["rows"] = json!({})), "rows: an object is not a list");
        assert_eq!(error(|json| json["machine"]["cpu"] = json!(3)), "machine.cpu: 3 is not text");
        assert_eq!(error(|json| json["skipped"] = json!([1])), "skipped[0]: 1 is not text");
        assert!(error(|json| json["rows"][0]["psa"]["sort"] = json!([])).starts_with("rows[0].psa.sort: a list"));
        assert_eq!(Record::parse("[]").unwrap_err().to_string(), "the file: a list is not an object");
        assert!(Record::parse("{").unwrap_err().to_string().starts_with("no JSON"));
    }
}
