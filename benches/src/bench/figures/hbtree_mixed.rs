//! The paper's figure 21: searches and updates in one stream.

use crate::bench::data::{miss, mix, value_of};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request as Asked, Run};
use crate::bench::hbtree::plan::{at_each, at_most};
use crate::bench::hbtree::regular::{RegularSubject, fresh};
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::Error;
use lanetree::hbtree::{Request, UpdateMethod};
use lanetree_base::parallel::*;

pub(crate) const FIGURE: Measurement = Measurement::new("hbtree-mixed", Run::Alone(measure));

/// Shares of updates, in percent.
const SHARES: [u64; 6] = [0, 10, 25, 50, 75, 100];

/// The library's way, and the paper's synchronized and asynchronous methods.
const METHODS: [(UpdateMethod, &str); 3] =
    [(UpdateMethod::Auto, "ours"), (UpdateMethod::Queue, "queue"), (UpdateMethod::Whole, "whole")];

/// The largest stream, as a power of two.
const STREAM: u32 = 20;

struct State<'a> {
    subject: &'a mut RegularSubject,
    requests: Vec<Request<u64, u64>>,
    found: Vec<Option<u64>>,
    round: u64,
    removed: lanetree::Result<()>,
}

impl State<'_> {
    /// The keys of requests of a kind.
    fn keys(&self, is_get: bool) -> Vec<u64> {
        let is_wanted = |request: &&Request<u64, u64>| matches!(request, Request::Get(_)) == is_get;
        self.requests.iter().filter(is_wanted).map(|request| *request.key()).collect()
    }

    /// Takes out what the last run has inserted, and makes other requests.
    fn next(&mut self, seed: u64, count: usize, share: u64) {
        let inserted = self.keys(false);
        if self.removed.is_ok() {
            self.removed = self.subject.tree.remove_many(&inserted).map(drop);
        }
        self.round += 1;
        let (keys, rank, round) = (self.subject.keys, self.subject.keys.shuffled(seed), self.round);
        let mut new = vec![0; count];
        fresh(seed, round, &mut new);
        let request = |(i, &key): (usize, &u64)| match mix(seed ^ key) % 100 < share {
            true => Request::Insert(key, value_of(key)),
            false => Request::Get(keys.key(rank(round, count, i))),
        };
        new.par_iter().enumerate().map(request).collect_into_vec(&mut self.requests);
    }
}

fn measure(session: &mut Session, request: &Asked) -> Result<()> {
    at_each(session, request, |session, size| {
        let Some(mut subject) = RegularSubject::build(session, size)? else { return Ok(()) };
        let count = at_most(session, STREAM.min(size));
        // Without a device nothing is sent.
        let methods = if session.runs_kernels() { &METHODS[..] } else { &METHODS[..1] };
        for &(method, name) in methods {
            subject.tree.set_update_method(method);
            for share in SHARES {
                let what = format!("{share} % updates, {name}, {}", subject.keys.describe());
                if session.has_time(&what) {
                    let row = of_share(session, &mut subject, count, share, &what)?;
                    session.push(row.with("method", name));
                }
            }
        }
        Ok(())
    })
}

fn of_share(session: &Session, subject: &mut RegularSubject, count: usize, share: u64, what: &str) -> Result<Row> {
    session.doing(what);
    let seed = session.seed ^ share << 8;
    let mut state = State { subject, requests: Vec::new(), found: Vec::new(), round: 0, removed: Ok(()) };
    let timing = session.time_on_cpu(
        &mut state,
        |state| state.next(seed, count, share),
        |state| {
            state.found = state.subject.tree.mixed(&state.requests).map_err(Error::from)?.found;
            Ok(())
        },
    )?;
    let (asked, inserted) = (state.keys(true), state.keys(false));
    let State { subject, found, removed, .. } = state;
    removed?;
    let of_gets = session.check_found(&what, &found, asked.len(), miss(), |i| value_of(asked[i]))?;
    let checksum = of_gets.and(subject.are_there(session, what, &inserted)?);
    subject.tree.remove_many(&inserted)?;
    let row = subject.row(session, FIGURE.name, "mixed", (count, timing, checksum));
    Ok(row.with("threads", rayon::current_num_threads()).with("update_share", share as f64 / 100.0))
}
