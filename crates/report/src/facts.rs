//! What a row says, by name: the common form of rows, counts and rivals' lines, and filters over it.

use lanetree_record::{Extra, Row};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What is said, by name. An object's members have names with a dot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts(BTreeMap<String, Extra>);

impl Facts {
    /// All columns and extras of a row, and as `timed_runs` how many times it has.
    pub(crate) fn of_row(row: &Row) -> Self {
        let facts = Self(row.fields().map(|(name, value)| (name.to_owned(), value)).collect());
        facts.with("timed_runs", Extra::Integer(row.timing.runs_ms.len() as u64))
    }

    /// From the least to the most of a time or rate that follows from the times of several runs; `None` for other fields,
    /// and for rows without these times.
    pub(crate) fn spread(&self, name: &str) -> Option<(f64, f64)> {
        if self.number("timed_runs")? < 2.0 {
            return None;
        }
        let [median, fastest, slowest] = ["median_ms", "min_ms", "max_ms"].map(|name| self.number(name));
        let (median, fastest, slowest) = (median?, fastest?, slowest?);
        match name {
            "median_ms" => Some((fastest, slowest)),
            "giga_per_second" if fastest > 0.0 => {
                let rate = self.number(name)?;
                Some((rate * median / slowest, rate * median / fastest))
            }
            _ => None,
        }
    }

    /// The numbers, words and truth values of an object, and of the objects in it. Lists are left out.
    pub(crate) fn of_json(value: &Value) -> Self {
        let mut facts = Self::default();
        facts.add(value, "");
        facts
    }

    fn add(&mut self, value: &Value, name: &str) {
        let extra = match value {
            Value::Object(members) => {
                for (member, value) in members {
                    let name = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                    self.add(value, &name);
                }
                return;
            }
            Value::Null | Value::Array(_) => return,
            Value::Bool(value) => Extra::Bool(*value),
            Value::String(value) => Extra::Text(value.clone()),
            Value::Number(value) => match value.as_u64() {
                Some(value) => Extra::Integer(value),
                None => Extra::Number(value.as_f64().unwrap_or(f64::NAN)),
            },
        };
        self.0.insert(name.to_owned(), extra);
    }

    /// Says one thing more.
    pub(crate) fn with(mut self, name: &str, value: Extra) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Extra> {
        self.0.get(name)
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.number()
    }

    /// As text; empty for what is not said.
    pub(crate) fn words(&self, name: &str) -> String {
        self.get(name).map_or_else(String::new, written)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Extra)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

/// A value as it stands.
pub(crate) fn written(value: &Extra) -> String {
    match value {
        Extra::Integer(value) => value.to_string(),
        Extra::Number(value) => value.to_string(),
        Extra::Text(value) => value.clone(),
        Extra::Bool(value) => value.to_string(),
    }
}

/// What a field must be for a row to be chosen.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub(crate) enum Want {
    Bool(bool),
    Number(f64),
    Text(String),
    /// One of these.
    Any(Vec<Want>),
}

impl Want {
    fn is_met(&self, value: Option<&Extra>) -> bool {
        match self {
            Self::Any(wants) => wants.iter().any(|want| want.is_met(value)),
            // An empty text asks for a row that does not say it.
            Self::Text(want) if want.is_empty() => value.is_none_or(|value| written(value).is_empty()),
            Self::Text(want) => matches!(value, Some(Extra::Text(value)) if value == want),
            Self::Bool(want) => value == Some(&Extra::Bool(*want)),
            Self::Number(want) => value.and_then(Extra::number) == Some(*want),
        }
    }

    fn describe(&self, out: &mut String) {
        let written = match self {
            Self::Bool(want) => write!(out, "{want}"),
            Self::Number(want) => write!(out, "{want}"),
            Self::Text(want) => write!(out, "{want:?}"),
            Self::Any(wants) => {
                for (i, want) in wants.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { " or " });
                    want.describe(out);
                }
                Ok(())
            }
        };
        written.expect("a string takes all");
    }
}

/// Fields and what they must be: chooses rows.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(transparent)]
pub(crate) struct Filter(BTreeMap<String, Want>);

impl Filter {
    pub(crate) fn takes(&self, facts: &Facts) -> bool {
        self.0.iter().all(|(name, want)| want.is_met(facts.get(name)))
    }

    /// This one, and for what it does not name the other.
    pub(crate) fn or(&self, other: &Self) -> Self {
        let mut all = other.0.clone();
        all.extend(self.0.clone());
        Self(all)
    }

    /// `index = "cuart", n = 4`.
    pub(crate) fn describe(&self) -> String {
        let mut out = String::new();
        for (name, want) in &self.0 {
            if !out.is_empty() {
                out.push_str(", ");
            }
            out.push_str(name);
            out.push_str(" = ");
            want.describe(&mut out);
        }
        out
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    pub(crate) fn filter(toml: &str) -> Filter {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn a_filter_takes_rows_that_say_all_of_it() {
        let facts =
            Facts::of_json(&json!({ "index": "cuart", "n": 16, "cpu": { "ns": 1.5 }, "is_chosen": true, "x": [1] }));
        for (takes, text) in [
            (true, ""),
            (true, "index = \"cuart\"\nn = 16\nis_chosen = true"),
            (true, "\"cpu.ns\" = 1.5\nindex = [\"grt\", \"cuart\"]"),
            (true, "order = \"\""),
            (false, "index = \"\""),
            (false, "n = 8"),
            (false, "is_chosen = false"),
            (false, "order = \"random\""),
            (false, "x = 1"),
            // Text is no number.
            (false, "n = \"16\""),
        ] {
            assert_eq!(filter(text).takes(&facts), takes, "{text}");
        }
    }

    #[test]
    fn a_filter_has_the_rest_of_another() {
        let both = filter("n = 4").or(&filter("n = 8\nindex = [\"a\", \"b\"]"));
        assert_eq!(both.describe(), "index = \"a\" or \"b\", n = 4");
    }
}
