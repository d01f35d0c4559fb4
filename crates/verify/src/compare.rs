//! Outputs that are poisoned beforehand, and the comparison of what came back with what should have.

use bytemuck::Pod;
use core::fmt::Debug;
use lanetree::{Buffer, Device};
use lanetree_base::parallel::*;

/// A deliberate fault, to show that it is found: `verify` is itself put to the test with these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sabotage {
    /// The tree lacks the smallest key
    Tree,
    /// The first element of every output is wrong
    Output,
    /// The element past the promised part of every output is overwritten
    Guard,
}

impl Sabotage {
    /// The value of `--sabotage`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Output => "output",
            Self::Guard => "guard",
        }
    }
}

/// The first place at which an answer is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// Of which output.
    pub(crate) what: &'static str,
    pub(crate) index: usize,
    /// The query there.
    pub(crate) query: String,
    pub(crate) expected: String,
    pub(crate) actual: String,
}

/// What should stand at each index. Not generic, as closures are: there are hundreds of comparisons, and
/// each would be compiled by itself.
pub(crate) type Expected<'a, T> = dyn Fn(usize) -> T + Sync + 'a;

/// The query at each index, in words.
pub(crate) type Query<'a> = dyn Fn(usize) -> String + 'a;

/// The byte of which outputs are full before a call.
const POISON: u8 = 0xa5;

/// Elements past the promised part of an output.
const GUARD: usize = 5;

/// An output on the device: `promised` elements and a few more, all of them poison.
pub(crate) struct Output<T> {
    pub(crate) buffer: Buffer<T>,
    what: &'static str,
    promised: usize,
}

impl<T: Pod + PartialEq + Debug + Send + Sync> Output<T> {
    pub(crate) fn new(device: &Device, what: &'static str, promised: usize) -> lanetree::Result<Self> {
        Self::with_guard(device, what, promised, GUARD)
    }

    pub(crate) fn with_guard(
        device: &Device,
        what: &'static str,
        promised: usize,
        guard: usize,
    ) -> lanetree::Result<Self> {
        Ok(Self { buffer: device.upload(&vec![poison::<T>(); promised + guard])?, what, promised })
    }

    /// Reads the output, of which the first `promised` elements should have been written. The stream must
    /// be done.
    pub(crate) fn read(self, sabotage: Option<Sabotage>) -> lanetree::Result<Written<T>> {
        Written::read(&self.buffer, self.what, self.promised, sabotage)
    }
}

/// One element of an output that was not written.
fn poison<T: Pod>() -> T {
    let mut element = T::zeroed();
    bytemuck::bytes_of_mut(&mut element).fill(POISON);
    element
}

/// An output that was read back.
pub(crate) struct Written<T> {
    pub(crate) elements: Vec<T>,
    what: &'static str,
    promised: usize,
}

impl<T: Pod + PartialEq + Debug + Send + Sync> Written<T> {
    /// Reads a poisoned buffer of which the first `promised` elements should have been written.
    pub(crate) fn read(
        buffer: &Buffer<T>,
        what: &'static str,
        promised: usize,
        sabotage: Option<Sabotage>,
    ) -> lanetree::Result<Self> {
        let mut elements = buffer.to_vec()?;
        let victim = match sabotage {
            Some(Sabotage::Output) => elements[..promised].first_mut(),
            Some(Sabotage::Guard) => elements[promised..].first_mut(),
            Some(Sabotage::Tree) | None => None,
        };
        if let Some(element) = victim {
            bytemuck::bytes_of_mut(element).iter_mut().for_each(|byte| *byte ^= 0xff);
        }
        Ok(Self { elements, what, promised })
    }

    /// Compares the promised elements; `None` where anything may stand. Then the ones past them, which
    /// must be as they were.
    pub(crate) fn differs(&self, expected: &Expected<'_, Option<T>>, query: &Query<'_>) -> Option<Difference> {
        let wrong = |i: &usize| expected(*i).is_some_and(|expected| expected != self.elements[*i]);
        // Not rayon's for a small batch: trees themselves are verified in parallel.
        let first = if self.promised < 1 << 15 {
            (0..self.promised).find(wrong)
        } else {
            (0..self.promised).into_par_iter().find_first(|i| wrong(i))
        };
        if let Some(index) = first {
            return Some(Difference {
                what: self.what,
                index,
                query: query(index),
                expected: format!("{:?}", expected(index).expect("a difference has an expectation")),
                actual: format!("{:?}", self.elements[index]),
            });
        }
        self.touched()
    }

    /// The first element past the promised part that was written.
    pub(crate) fn touched(&self) -> Option<Difference> {
        let poison = poison::<T>();
        let past = self.elements[self.promised..].iter().position(|element| *element != poison)?;
        Some(Difference {
            what: self.what,
            index: self.promised + past,
            query: format!("none: the output ends at {}", self.promised),
            expected: "an element that is not touched".into(),
            actual: format!("{:?}", self.elements[self.promised + past]),
        })
    }
}

/// Compares a hit mask: a bit for each of `count` queries, and zeros after them in the last word.
pub(crate) fn bits_differ(
    words: &Written<u32>,
    count: usize,
    expected: &Expected<'_, bool>,
    query: &Query<'_>,
) -> Option<Difference> {
    let bit = |i: usize| i < count && expected(i);
    let word = |w: usize| (0..32).fold(0, |word, lane| word | u32::from(bit(w * 32 + lane)) << lane);
    let difference = words.differs(&|w| Some(word(w)), &|w| w.to_string())?;
    if difference.index >= words.promised {
        return Some(difference);
    }
    let wrong = word(difference.index) ^ words.elements[difference.index];
    let index = difference.index * 32 + wrong.trailing_zeros() as usize;
    let query = if index < count { query(index) } else { "none: past the last".into() };
    let (expected, actual) = (bit(index).to_string(), (!bit(index)).to_string());
    Some(Difference { index, query, expected, actual, ..difference })
}

/// Compares results of a host call.
pub(crate) fn items_differ<T: PartialEq + Debug + Sync>(
    what: &'static str,
    actual: &[T],
    count: usize,
    expected: &Expected<'_, T>,
    query: &Query<'_>,
) -> Option<Difference> {
    if actual.len() != count {
        let (expected, actual) = (format!("{count} elements"), format!("{} elements", actual.len()));
        return Some(Difference { what, index: count, query: "all".into(), expected, actual });
    }
    let index = (0..count).into_par_iter().with_min_len(1 << 14).find_first(|&i| actual[i] != expected(i))?;
    let (query, expected, actual) = (query(index), format!("{:?}", expected(index)), format!("{:?}", actual[index]));
    Some(Difference { what, index, query, expected, actual })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(promised: usize, write: impl FnOnce(&mut [u32]), sabotage: Option<Sabotage>) -> Written<u32> {
        let mut output = Output::<u32>::new(&Device::host(), "values", promised).unwrap();
        write(output.buffer.as_mut_slice().unwrap());
        output.read(sabotage).unwrap()
    }

    #[test]
    fn the_first_wrong_element_is_named() {
        let right = |elements: &mut [u32]| (0..10).for_each(|i| elements[i] = i as u32);
        let expected = |i| Some(i as u32);
        assert_eq!(written(10, right, None).differs(&expected, &|i| i.to_string()), None);
        let wrong = |elements: &mut [u32]| {
            right(elements);
            (elements[7], elements[8]) = (70, 80);
        };
        let difference = written(10, wrong, None).differs(&expected, &|i| (i * 100).to_string()).unwrap();
        assert_eq!((difference.index, &*difference.query), (7, "700"));
        assert_eq!((&*difference.expected, &*difference.actual), ("7", "70"));
        assert_eq!(written(10, right, Some(Sabotage::Output)).differs(&expected, &|i| i.to_string()).unwrap().index, 0);
    }

    #[test]
    fn an_element_that_was_left_out_is_wrong() {
        assert!(written(3, |_| {}, None).differs(&|_| Some(1), &|i| i.to_string()).is_some());
        assert!(
            written(3, |_| {}, None).differs(&|_| None, &|i| i.to_string()).is_none(),
            "unless anything may stand there"
        );
    }

    #[test]
    fn writing_past_the_promised_part_is_found() {
        let difference = written(10, |elements| elements[11] = 0, None).differs(&|_| None, &|i| i.to_string()).unwrap();
        assert_eq!(difference.index, 11);
        assert!(written(10, |_| {}, Some(Sabotage::Guard)).touched().is_some());
    }

    #[test]
    fn hit_masks_are_compared_one_by_one() {
        let write = |elements: &mut [u32]| (elements[0], elements[1]) = (0b101, 0b10);
        let bits = written(2, write, None);
        let found = |i: usize| [0, 2, 33].contains(&i);
        assert_eq!(bits_differ(&bits, 40, &found, &|i| i.to_string()), None);
        let difference = bits_differ(&bits, 40, &|i| found(i) || i == 5, &|i| i.to_string()).unwrap();
        assert_eq!((difference.index, &*difference.expected), (5, "true"));
        let difference = bits_differ(&bits, 33, &found, &|i| i.to_string()).unwrap();
        assert_eq!((difference.index, &*difference.actual), (33, "true"), "a bit past the last query");
    }

    #[test]
    fn host_results_are_compared_with_their_length() {
        assert_eq!(items_differ("results", &[1, 2], 2, &|i| i + 1, &|i| i.to_string()), None);
        assert_eq!(items_differ("results", &[1, 3], 2, &|i| i + 1, &|i| i.to_string()).unwrap().index, 1);
        assert_eq!(items_differ("results", &[1], 2, &|i| i + 1, &|i| i.to_string()).unwrap().actual, "1 elements");
    }
}
