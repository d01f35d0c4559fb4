//! The battery.

use crate::{Case, Family, Form, Place, Subject, Tally, check, check_on, failures};
use lanetree::Device;

/// Puts an index through all that can be written down: the [`directed()`] cases and the contract, and failures at every
/// point. The random sequences are [`bounded`](crate::bounded)'s.
///
/// # Errors
/// The first case that fails, and how.
pub fn conformance<F: Family>(family: &F) -> Result<Tally, String> {
    let mut tally = directed(family)?;
    for (options, form) in [(0, Form::Host), (1 % family.ways(), Form::Device)] {
        let failed = failures::failures(family, options, form);
        tally = tally.plus(failed.map_err(|error| format!("{}, a failing device, {error}", family.name()))?);
    }
    Ok(tally)
}

/// The directed cases and the contract. On the host every way to build the index gets every case; on the emulator, which is
/// slower, the first way gets all, and the others take turns.
///
/// # Errors
/// The first case that fails, and how.
pub fn directed<F: Family>(family: &F) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let cases = crate::directed::cases::<<F::Subject as Subject>::Key>();
    let emulated = Place::Emulated(3);
    for options in 0..family.ways() {
        let of = |what: &str, error| format!("{}, built in way {options}, {what}: {error}", family.name());
        for (number, (what, case)) in cases.iter().enumerate() {
            let its_turn = options == 0 || number % usize::from(family.ways()) == usize::from(options);
            let places = [Place::Host, emulated];
            for &place in if its_turn { &places[..] } else { &places[..1] } {
                let case = Case { place, options, ..case.clone() };
                let of_case = check(family, &case).map_err(|error| of(&format!("{what}, {place:?}"), error))?;
                tally = tally.plus(of_case);
            }
        }
        for device in [Device::host(), Device::emulated_with_seed(3)] {
            family.contract(&device, options).map_err(|error| of(&format!("on {device}"), error))?;
        }
    }
    Ok(tally)
}

/// What the last of the [`parts`] is called.
const CONTRACT: &str = "the contract";

/// The parts of what [`conformance_on`] puts an index through: each directed case, and the contract.
pub fn parts<F: Family>() -> Vec<&'static str> {
    let cases = crate::directed::cases::<<F::Subject as Subject>::Key>();
    cases.into_iter().map(|(what, _)| what).chain([CONTRACT]).collect()
}

/// Puts an index that is built in one way through one of the [`parts`] on a device, a GPU perhaps; how many batches of
/// queries and changes that were.
///
/// # Errors
/// What fails, and how.
pub fn conformance_on<F: Family>(family: &F, device: &Device, options: u8, part: &str) -> Result<u64, String> {
    if part == CONTRACT {
        return family.contract(device, options).map(|()| 0);
    }
    let mut cases = crate::directed::cases::<<F::Subject as Subject>::Key>().into_iter();
    let (_, case) = cases.find(|(what, _)| *what == part).ok_or_else(|| format!("no part is called {part:?}"))?;
    let tally = check_on(family, &Case { options, ..case }, device)?;
    Ok(tally.changed + tally.answered)
}
