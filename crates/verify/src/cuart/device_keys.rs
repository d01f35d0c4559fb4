//! Batches of keys on a device: numbers that become strings, offsets that are taken as they are.

use super::Spec;
use super::strings::{Strings, pack};
use super::subject::{Model, Subject, differ};
use crate::answer::Answer;
use crate::compare::Sabotage;
use crate::data::Random;
use lanetree::{Buffer, ByteKeysBuf, Device, DeviceKeys, DeviceNumber, Error, OffsetBuffer, Result, Word};
use rand::{Rng, RngExt};

/// What a batch is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    U32,
    U64,
    I32,
    I64,
    U128,
    Offsets32,
    Offsets64,
    /// A buffer of strings of one width.
    Fixed,
}

impl Form {
    pub(crate) const ALL: [Self; 8] =
        [Self::U32, Self::U64, Self::I32, Self::I64, Self::U128, Self::Offsets32, Self::Offsets64, Self::Fixed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U128 => "u128",
            Self::Offsets32 => "offsets32",
            Self::Offsets64 => "offsets64",
            Self::Fixed => "fixed",
        }
    }
}

/// Builds a tree on the host's strings, and looks up the device's.
pub(crate) fn run<V: Word>(
    spec: &Spec,
    form: Form,
    rng: &mut Random,
    device: &Device,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    match form {
        Form::U32 => encoded::<u32, V>(spec, rng, device, sabotage),
        Form::U64 => encoded::<u64, V>(spec, rng, device, sabotage),
        Form::I32 => encoded::<i32, V>(spec, rng, device, sabotage),
        Form::I64 => encoded::<i64, V>(spec, rng, device, sabotage),
        Form::U128 => encoded::<u128, V>(spec, rng, device, sabotage),
        Form::Offsets32 => offsets::<u32, V>(spec, rng, device, sabotage, OffsetBuffer::U32),
        Form::Offsets64 => offsets::<u64, V>(spec, rng, device, sabotage, OffsetBuffer::U64),
        Form::Fixed => fixed::<V>(spec, rng, device, sabotage),
    }
}

fn encoded<K: DeviceNumber, V: Word>(
    spec: &Spec,
    rng: &mut Random,
    device: &Device,
    sabotage: Option<Sabotage>,
) -> Result<Answer> {
    // The smallest, around zero, the largest, and any others, by their strings.
    let near = |first: u8, others: u8| [vec![first], vec![others; K::WIDTH - 1]].concat();
    let mut numbers = vec![near(0, 0), near(0x80, 0), near(255, 255), near(0x7f, 255)];
    numbers.extend((0..2 * spec.len).map(|_| (0..K::WIDTH).map(|_| rng.random()).collect()));
    let numbers: Vec<K> = numbers.iter().map(|string| K::read(string)).collect();
    let strings: Vec<Vec<u8>> = ByteKeysBuf::encode(&numbers).iter().map(<[u8]>::to_vec).collect();
    // Every second one.
    let model: Model<V> = strings.iter().step_by(2).map(|key| (key.clone(), V::truncate(rng.next_u64()))).collect();
    let mut subject = Subject::new((Strings::Width(K::WIDTH), spec.table), model, device, sabotage)?;
    let stream = device.stream()?;
    let mut keys = DeviceKeys::encode(&stream, &device.upload(&numbers)?)?;
    stream.synchronize()?;
    let mut difference = subject.get_keys(&keys, &strings)?;
    // Fewer, into the same memory.
    let skipped = numbers.len() / 3;
    keys.encode_from(&stream, &device.upload(&numbers[skipped..])?)?;
    stream.synchronize()?;
    difference = difference.or(subject.get_keys(&keys, &strings[skipped..])?);
    Ok(subject.answer(difference))
}

fn offsets<O: Word, V: Word>(
    spec: &Spec,
    rng: &mut Random,
    device: &Device,
    sabotage: Option<Sabotage>,
    buffer: fn(Buffer<O>) -> OffsetBuffer,
) -> Result<Answer> {
    let strings: Vec<Vec<u8>> = (0..2 * spec.len + 3).map(|_| Strings::Long.draw(rng)).collect();
    let model: Model<V> = strings.iter().step_by(2).map(|key| (key.clone(), V::truncate(rng.next_u64()))).collect();
    let mut subject = Subject::new((Strings::Long, spec.table), model, device, sabotage)?;
    let stream = device.stream()?;
    let (bytes, offsets) = pack(&strings);
    let words = words(&bytes);
    let take = |offsets: &[u64]| -> Result<DeviceKeys> {
        let offsets: Vec<O> = offsets.iter().map(|&offset| O::truncate(offset)).collect();
        DeviceKeys::with_offsets(&stream, buffer(device.upload(&offsets)?), device.upload(&words)?)
    };
    let mut difference = subject.get_keys(&take(&offsets)?, &strings)?;
    for what in ["descending offsets", "an offset past the bytes", "no offsets"] {
        let (mut bad, room) = (offsets.clone(), 8 * words.len());
        let index = rng.random_range(1..bad.len());
        let expected = match what {
            "descending offsets" => {
                let previous = room as u64;
                bad[index - 1] = previous;
                bad[index] = rng.random_range(0..previous);
                Error::OffsetOrder { index, previous, offset: bad[index] }
            }
            "no offsets" => {
                bad.clear();
                Error::OutputLength { what: "the offsets' buffer", expected: 1, actual: 0 }
            }
            _ => {
                // None after it is below it, and it is the first that is too large.
                let offset = room as u64 + rng.random_range(1..=u64::from(u32::MAX / 2));
                bad[index..].fill(offset);
                Error::OffsetBounds { index, offset, bytes: room }
            }
        };
        let refused = take(&bad).err().map_or_else(|| "no error".to_owned(), |error| error.to_string());
        difference = difference.or(differ(what, expected.to_string(), refused));
    }
    Ok(subject.answer(difference))
}

fn fixed<V: Word>(spec: &Spec, rng: &mut Random, device: &Device, sabotage: Option<Sabotage>) -> Result<Answer> {
    let width = [1, 3, 8, 13, 32][rng.random_range(0..5)];
    let strings: Vec<Vec<u8>> = (0..2 * spec.len + 3).map(|_| Strings::Width(width).draw(rng)).collect();
    let model: Model<V> = strings.iter().step_by(2).map(|key| (key.clone(), V::truncate(rng.next_u64()))).collect();
    let mut subject = Subject::new((Strings::Width(width), spec.table), model, device, sabotage)?;
    let words = words(&strings.concat());
    let keys = DeviceKeys::fixed(device.upload(&words)?, width, strings.len())?;
    let mut difference = subject.get_keys(&keys, &strings)?;
    // More than there are.
    let len = 8 * words.len() / width + 1;
    let refused = DeviceKeys::fixed(device.upload(&words)?, width, len).err();
    let expected = Error::KeyWidth { width, bytes: 8 * words.len() }.to_string();
    let refused = refused.map_or_else(|| "no error".to_owned(), |error| error.to_string());
    difference = difference.or(differ("too few bytes", expected, refused));
    Ok(subject.answer(difference))
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}
