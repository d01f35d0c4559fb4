//! What a record says of the run that made it.

use lanetree_record::{Built, Made};
use std::time::{Instant, SystemTime};

/// Begins as the run does.
pub(crate) struct Making {
    began: SystemTime,
    start: Instant,
    built: Option<Built>,
    /// The program's arguments, but for the file of the record.
    pub(crate) arguments: Vec<String>,
}

impl Making {
    pub(crate) fn begin(built: Option<Built>) -> Self {
        let arguments = without_file(std::env::args().skip(1));
        Self { began: SystemTime::now(), start: Instant::now(), built, arguments }
    }

    /// The record's facts at the end of a run that gave `rows` rows.
    pub(crate) fn end(self, rows: usize) -> Made {
        Made {
            arguments: self.arguments,
            began: humantime::format_rfc3339_seconds(self.began).to_string(),
            seconds: self.start.elapsed().as_secs_f64().round() as u64,
            rows: rows as u64,
            built: self.built,
            checked: CHECKED.into(),
            environment: environment(),
        }
    }
}

/// What all figures do.
const CHECKED: &str = "of each row the output of its last run, each element; outputs of the runs before it were not";

/// Variables that decide on threads and caches.
const VARIABLES: [&str; 5] =
    ["RAYON_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUDA_CACHE_DISABLE", "CUDA_MODULE_LOADING", "GLIBC_TUNABLES"];

fn environment() -> Vec<String> {
    let value = |&name: &&str| Some(format!("{name}={}", std::env::var(name).ok()?));
    VARIABLES.iter().filter_map(value).collect()
}

/// Arguments, but for the file that is written.
pub(crate) fn without_file(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--json" {
            arguments.next();
        } else if !argument.starts_with("--json=") {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_record_is_no_part_of_how_it_was_made() {
        let of = |line: &str| without_file(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(of("--figure latency --json a.json --seed 2"), "--figure latency --seed 2");
        assert_eq!(of("--json=a.json --figure latency"), "--figure latency");
    }
}
