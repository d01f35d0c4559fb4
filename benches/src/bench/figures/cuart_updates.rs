//! Updates compared with look-ups of the same batches (the paper's figures 15 to 17).

use crate::bench::cuart::data::Data;
use crate::bench::cuart::engines::{Engine, measured};
use crate::bench::cuart::grt;
use crate::bench::cuart::subject::{Subject, len, queries};
use crate::bench::error::Result;
use crate::bench::figure::{Measurement, Request, Run};
use crate::bench::session::Session;
use lanetree::Word;
use lanetree::cuart::UpdateEngine;

pub(crate) const FIGURE: Measurement = Measurement::new("cuart-updates", Run::Alone(updates));

/// Sizes of the batches, as powers of two.
const BATCHES: [u32; 6] = [14, 16, 18, 20, 22, 24];

/// The engines.
const ENGINES: [Engine; 5] = [
    Engine::new(UpdateEngine::Auto, "update"),
    Engine::new(UpdateEngine::HashTable, "update, hash table (the paper's)"),
    Engine::new(UpdateEngine::Stamps, "update, stamps"),
    Engine::new(UpdateEngine::Sequence, "update, sequence"),
    Engine::new(UpdateEngine::Sort, "update, sort"),
];

/// By batch and engine, of keys of 8 and 32 bytes.
fn updates(session: &mut Session, request: &Request) -> Result<()> {
    let len = len(session, &request.sizes);
    for width in [8, 32] {
        let data = Data::new(width, len, session.seed);
        of_words::<u32>(session, data)?;
        of_words::<u64>(session, data)?;
        grt::beside_updates(session, &data, queries(session), FIGURE.name)?;
    }
    Ok(())
}

fn of_words<V: Word>(session: &mut Session, data: Data) -> Result<()> {
    let mut subject = Subject::<V>::build(session, data)?;
    let most = session.plan.queries;
    for batch in BATCHES.into_iter().filter(|&batch| batch <= most) {
        let what = format!("updates, {} keys of {} bytes, batch 2^{batch}", data.len, data.width);
        if session.has_time(&what) {
            of_batch(session, &mut subject, 1 << batch)?;
        }
    }
    Ok(())
}

fn of_batch<V: Word>(session: &mut Session, subject: &mut Subject<V>, count: usize) -> Result<()> {
    measured(session, subject, (FIGURE.name, &ENGINES), count, |_, tree, stream, (batch, values), scratch| {
        Ok(tree.update_on(stream, batch, values, None, scratch)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cuart::data::keys;
    use crate::bench::error::Error;
    use crate::bench::session::tests::session;
    use lanetree::cuart::ChangeScratch;
    use lanetree::{Buffer, Cuart, Device, DeviceKeys, Stream};

    /// What comes of measuring with an engine that does its work in `update`, the third one.
    fn with_third<V: Word>(
        update: impl Fn(&mut Cuart<V>, &Stream, (&DeviceKeys, &Buffer<V>), &mut ChangeScratch) -> Result<()>,
    ) -> Result<()> {
        let mut session = session(Device::emulated());
        let data = Data::new(8, 300, session.seed);
        let mut subject = Subject::<V>::build(&mut session, data)?;
        measured(
            &mut session,
            &mut subject,
            (FIGURE.name, &ENGINES),
            1 << 8,
            |number, tree, stream, (batch, values), scratch| match number {
                2 => update(tree, stream, (batch, values), scratch),
                _ => Ok(tree.update_on(stream, batch, values, None, scratch)?),
            },
        )
    }

    fn is_found(outcome: Result<()>, what: &str) {
        match outcome {
            Err(Error::Wrong { row, what: found, .. }) => assert_eq!((&*row, found), ("update, stamps", what)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_engine_is_checked_by_what_it_alone_writes() {
        with_third::<u64>(|tree, stream, (batch, values), scratch| {
            Ok(tree.update_on(stream, batch, values, None, scratch)?)
        })
        .unwrap();
        is_found(with_third::<u32>(|_, _, _, _| Ok(())), "values");
        is_found(with_third::<u64>(|_, _, _, _| Ok(())), "values");
    }

    #[test]
    fn an_engine_that_changes_other_keys_is_found() {
        let outcome = with_third::<u32>(|tree, stream, (batch, values), scratch| {
            tree.update_on(stream, batch, values, None, scratch)?;
            // Every key of the tree, which includes the batch's keys but its first few, and then the batch again.
            let data = Data::new(8, 300, 1);
            let all = DeviceKeys::upload(tree.device(), keys(8, &data.all()))?;
            let sevens = tree.device().upload(&[7_u32; 300])?;
            let mut more = ChangeScratch::for_updates(tree.device(), 300, UpdateEngine::Auto)?;
            tree.update_on(stream, &all, &sevens, None, &mut more)?;
            Ok(tree.update_on(stream, batch, values, None, scratch)?)
        });
        is_found(outcome, "values of other keys");
    }
}
