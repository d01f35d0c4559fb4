//! The page's last part: what the records were measured on.

use crate::html::escape;
use crate::provenance::commit;
use crate::store::{EMULATOR, Held, Store, described};
use lanetree_record::Record;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// What the records of a machine say besides it.
#[derive(Default)]
struct Made<'a> {
    records: usize,
    seeds: BTreeSet<String>,
    versions: BTreeSet<&'a str>,
    dates: Vec<&'a str>,
    /// Commits, each with what is to be said of it; and compilers.
    commits: BTreeSet<String>,
    compilers: BTreeSet<&'a str>,
    checked: BTreeSet<&'a str>,
    without_commit: usize,
}

impl<'a> Made<'a> {
    /// Adds what a record says.
    fn add(&mut self, record: &'a Record) {
        self.records += 1;
        self.seeds.insert(record.seed.to_string());
        self.versions.insert(&record.version);
        self.dates.extend(record.date.as_deref());
        let built = || record.made.iter().filter_map(|made| made.built.as_ref());
        self.commits.extend(built().map(commit));
        self.compilers.extend(built().map(|built| &*built.rustc));
        self.checked.extend(record.made.iter().map(|made| &*made.checked));
        self.without_commit += usize::from(built().next().is_none());
    }

    /// The commits, and how many records name none.
    fn commits(&self) -> String {
        let commits = self.commits.iter().cloned().collect::<Vec<_>>().join(", ");
        match self.without_commit {
            0 => commits,
            all if all == self.records => "the records name none; see the history of benches/record".into(),
            some => format!("{commits}; {some} records name none, see the history of benches/record"),
        }
    }
}

/// What the records of each card were measured on.
pub(crate) fn html(store: &Store) -> String {
    let mut out = String::from(
        "<section><h2 id=\"machines\">Machines and records</h2><p>Machines whose records say the same of them are shown as \
         one.</p>",
    );
    let mut cards: Vec<&str> = store.cards().collect();
    cards.sort_by_key(|&card| card == EMULATOR);
    for card in cards {
        let mut machines: Vec<(Vec<(&str, String)>, Made)> = Vec::new();
        let mut others = Vec::new();
        for (name, held) in store.records(card) {
            match held {
                Held::Bench { record, .. } => {
                    let machine = described(&record.machine);
                    let at = machines.iter().position(|(other, _)| *other == machine).unwrap_or_else(|| {
                        machines.push((machine, Made::default()));
                        machines.len() - 1
                    });
                    machines[at].1.add(record);
                }
                Held::Verify { mode, passed, failed } => {
                    others.push(format!("Verified, {mode}: {passed} cases passed, {failed} failed ({name}.json)."));
                }
                Held::Rivals(_) => others.push(format!("Measured by programs other than the bench: {name}.json.")),
            }
        }
        write!(out, "<h3>{}</h3>", escape(card)).expect("a string takes all");
        for (mut machine, made) in machines {
            let listed = |all: &BTreeSet<&str>| all.iter().copied().collect::<Vec<_>>().join("; ");
            machine.push(("Records", made.records.to_string()));
            machine.push(("Commit", made.commits()));
            if !made.checked.is_empty() {
                machine.push(("Compiler", listed(&made.compilers)));
                machine.push(("Outputs that were compared", listed(&made.checked)));
            }
            machine.push(("Seed", made.seeds.into_iter().collect::<Vec<_>>().join(", ")));
            machine.push(("Lanetree", made.versions.into_iter().collect::<Vec<_>>().join(", ")));
            machine.push(("Date", spanned(&made.dates, made.records)));
            let rows: String = machine
                .iter()
                .map(|(what, which)| format!("<div><dt>{what}</dt><dd>{}</dd></div>", escape(which)))
                .collect();
            write!(out, "<dl class=\"machine\">{rows}</dl>").expect("a string takes all");
        }
        out.extend(others.iter().map(|line| format!("<p>{}</p>", escape(line))));
    }
    out + "</section>"
}

/// From the first day of the records to the last.
fn spanned(dates: &[&str], records: usize) -> String {
    let span = match (dates.iter().min(), dates.iter().max()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(day), _) => (*day).to_owned(),
        _ => return "the records have none; see the history of benches/record".into(),
    };
    match records - dates.len() {
        0 => span,
        without => format!("{span}; {without} records have none, see the history of benches/record"),
    }
}
