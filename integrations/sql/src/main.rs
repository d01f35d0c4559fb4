//! SQL over CSV and Parquet files, with Lanetree's indexes.

mod files;
mod progress;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParser, Statement};
use lanetree_datafusion::{plan_statement, with_index_lookups};
use progress::Line;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

const HELP: &str = "\
SQL over CSV and Parquet files, with Lanetree's indexes

usage: lanetree-sql [NAME=]FILE... [-c SQL]...

Each file (.csv, .tsv, .parquet) is a table of its name, without folders and ending, or of NAME.
Without -c, statements are read from the standard input; a `;` ends each.

  -c SQL   runs statements; may be given several times
  -q       doesn't print numbers of rows, times, and how far something is
  -h       prints this
  -V       prints the version

Tables that are changed or have an index are in memory alone: COPY writes them to a file.

  CREATE INDEX ON customers (id);   builds an index; joins and conditions go through it
  ... WITH (file = 'by_id');        keeps it in a file, from which it is loaded the next time
  ... WHERE id > 9;                 makes it of some rows
  SHOW INDEXES; SHOW TABLES;        lists the indexes; the tables
  DROP INDEX id;                    drops one
  EXPLAIN SELECT ...;               shows how: IndexedScanExec, IndexLookupExec, and their costs
  COPY customers TO 'c.parquet';    writes a table or a query to a file (.parquet, .csv)";

/// What the command line says.
#[derive(Debug, Default, PartialEq)]
struct Arguments {
    files: Vec<String>,
    commands: Vec<String>,
    is_quiet: bool,
    wants_help: bool,
    wants_version: bool,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut all = Self::default();
        while let Some(word) = words.next() {
            match &*word {
                "-c" => all.commands.push(words.next().ok_or("-c needs statements after it")?),
                "-q" => all.is_quiet = true,
                "-h" | "--help" => all.wants_help = true,
                "-V" | "--version" => all.wants_version = true,
                option if option.starts_with('-') => return Err(format!("no option {option}: see lanetree-sql -h")),
                _ => all.files.push(word),
            }
        }
        Ok(all)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    if arguments.wants_help {
        println!("{HELP}");
        return Ok(());
    }
    if arguments.wants_version {
        println!("lanetree-sql {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    let config = SessionConfig::new().with_information_schema(true);
    let state = with_index_lookups(SessionStateBuilder::new().with_config(config).with_default_features()).build();
    let context = SessionContext::new_with_state(state);
    for file in &arguments.files {
        files::register(&context, file, Line::new(arguments.is_quiet)).await?;
    }
    for statements in &arguments.commands {
        run_all(&context, statements, arguments.is_quiet).await?;
    }
    if !arguments.commands.is_empty() {
        return Ok(());
    }
    if io::stdin().is_terminal() {
        return Ok(converse(&context, arguments.is_quiet).await?);
    }
    let mut statements = String::new();
    io::stdin().read_to_string(&mut statements)?;
    Ok(run_all(&context, &statements, arguments.is_quiet).await?)
}

/// Runs statements as they are typed. An error does not end it.
async fn converse(context: &SessionContext, is_quiet: bool) -> io::Result<()> {
    let mut typed = String::new();
    loop {
        eprint!("{}", if typed.is_empty() { "> " } else { ". " });
        io::stderr().flush()?;
        if io::stdin().lock().read_line(&mut typed)? == 0 {
            return Ok(());
        }
        if typed.trim_end().ends_with(';') || typed.trim().is_empty() {
            if let Err(error) = run_all(context, &typed, is_quiet).await {
                eprintln!("error: {error}");
            }
            typed.clear();
        }
    }
}

/// Runs statements up to the first one that fails, and prints their results.
async fn run_all(context: &SessionContext, statements: &str, is_quiet: bool) -> Result<()> {
    for statement in DFParser::parse_sql(statements)? {
        run_one(context, statement, is_quiet).await?;
    }
    Ok(())
}

async fn run_one(context: &SessionContext, statement: Statement, is_quiet: bool) -> Result<()> {
    let start = Instant::now();
    let frame = plan_statement(context, statement).await?;
    let has_columns = !frame.schema().fields().is_empty();
    let context = Arc::new(frame.task_ctx());
    let batches = progress::rows(frame.create_physical_plan().await?, context, Line::new(is_quiet)).await?;
    if has_columns {
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        if rows > 0 {
            println!("{}", pretty_format_batches(&batches)?);
        }
        if !is_quiet {
            eprint!("{rows} rows, ");
        }
    }
    if !is_quiet {
        eprintln!("{:.3} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_files_and_commands() {
        let parse = |words: &[&str]| Arguments::parse(words.iter().map(|word| (*word).to_owned()));
        let all = parse(&["a.csv", "-c", "SELECT 1", "-q", "b=c.parquet", "-c", "SELECT 2"]).unwrap();
        assert_eq!(all.files, ["a.csv", "b=c.parquet"]);
        assert_eq!(all.commands, ["SELECT 1", "SELECT 2"]);
        assert!(all.is_quiet && !all.wants_help);
        assert_eq!(parse(&["-c"]).unwrap_err(), "-c needs statements after it");
        assert_eq!(parse(&["--fast"]).unwrap_err(), "no option --fast: see lanetree-sql -h");
        assert_eq!(parse(&[]).unwrap(), Arguments::default());
    }
}
