//! Every index of the suite's list, by the trait that all of them have: an index is here without a line of its own.

use crate::bench::data::mix;
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::plan::main_of;
use crate::bench::row::Row;
use crate::bench::session::Session;
use lanetree::{Domain, IndexBuilder, KeyOf, KeyWord, OrderedIndex};
use lanetree_base::parallel::*;
use lanetree_suite::{Numbered, for_each_index};
use std::time::Instant;

pub(crate) const FIGURE: Measurement = Measurement::new("indexes", Run::Alone(measure));

/// At the main size.
fn measure(session: &mut Session, request: &Request) -> Result<()> {
    let len = 1_usize << main_of(&request.sizes);
    macro_rules! each {
        ($($name:ident = $family:expr, $cases:literal;)*) => {
            $(of_index(session, stringify!($name), &$family.builders()[0], len)?;)*
        };
    }
    for_each_index!(each);
    Ok(())
}

fn of_index<B>(session: &mut Session, name: &'static str, builder: &B, len: usize) -> Result<()>
where
    B: IndexBuilder<Index: OrderedIndex<Domain: Domain<Key: Numbered>>>,
{
    type DomainOf<B> = <<B as IndexBuilder>::Index as OrderedIndex>::Domain;
    type ValueOf<B> = <<B as IndexBuilder>::Index as OrderedIndex>::Value;
    let what = format!("{name}, n = {len}");
    if !session.has_time(&what) {
        return Ok(());
    }
    let key = |place: usize| KeyOf::<B::Index>::distinct(place as u64);
    let keys = (0..len).map(key).collect();
    let value = |place: usize| ValueOf::<B>::truncate(place as u64);
    let values: Vec<ValueOf<B>> = (0..len).into_par_iter().map(value).collect();
    let start = Instant::now();
    let index = builder.build(&session.device, DomainOf::<B>::batch(&keys), &values)?;
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    drop((keys, values));
    let (batch, seed) = (1_usize << session.plan.queries, session.seed);
    let place = move |query: usize| (mix(seed ^ query as u64) % len as u64) as usize;
    let queries = (0..batch).map(|query| key(place(query))).collect();
    let queries = DomainOf::<B>::batch(&queries);
    let miss = ValueOf::<B>::MAX;
    let (operation, timing, checksum) = if let Some(form) = index.device_form() {
        let queries = DomainOf::<B>::upload(&session.device, queries)?;
        let mut out = session.device.alloc(batch)?;
        let timing = session.time_call(&mut out, |out| form.get(&session.stream, &queries, out, None, miss))?;
        ("get", timing, session.check(&what, "values", &out, batch, miss, |query| value(place(query)))?)
    } else {
        let (timing, found) = session.time_making(|| index.get_many(queries))?;
        let checksum = session.check_found(&what, &found, batch, miss, |query| value(place(query)))?;
        ("get_many", timing, checksum)
    };
    let words = (core::any::type_name::<KeyOf<B::Index>>(), ValueOf::<B>::NAME);
    let row = Row::new(FIGURE.name, name, operation, batch, timing, checksum).on(session.device_name());
    let bytes = (index.bytes() + index.host_bytes()) as f64 / len as f64;
    session
        .push(row.over(len, words.0, words.1, "spread evenly").with("bytes_per_key", bytes).with("build_ms", build_ms));
    Ok(())
}
