//! Groups of searches and updates (appendix B.3).

use super::group::Change;
use super::kept;
use crate::regular::Regular;
use crate::request::Request;
use crate::structure::{Leaves, Parts, Place};
use lanetree_frame::parallel::*;
use lanetree_frame::room::{make_room, push};
use lanetree_frame::{NetChange, Result, UpdateReport};
use lanetree_layout::{Key, Word};

/// Requests that one task plays through at a time.
const TASK: usize = 1024;

/// A request's key, and its place in the group.
type Asked<B> = (B, u32);

/// What the requests of some keys find and change.
struct Part<B, V> {
    /// By the place of the get.
    found: Vec<(u32, Option<V>)>,
    changes: Vec<Change<B, V>>,
    places: Vec<Place>,
}

impl<K: Key, V: Word> Parts<K, V, Regular> {
    /// Does a group of requests, and appends what its gets find. After an error neither has happened.
    ///
    /// # Errors
    /// As `change`.
    pub(crate) fn mixed(&mut self, requests: &[Request<K, V>], found: &mut Vec<Option<V>>) -> Result<UpdateReport> {
        let asked = |(i, request): (usize, &Request<K, V>)| (request.key().encode(), i as u32);
        let mut asked = requests.par_iter().with_min_len(TASK).enumerate().map(asked).try_collect()?;
        if requests.iter().all(|request| matches!(request, Request::Get(_))) {
            let places = self.places(&asked)?;
            make_room(found, places.len())?;
            let value = |&place: &Place| self.value_at(place);
            found.extend(places.iter().map(value));
            return Ok(UpdateReport::default());
        }
        // The requests of a key stay in their order.
        sort_by_word(&mut asked, |asked| asked.0)?;
        let is_first = |at: usize| at == 0 || asked[at - 1].0 != asked[at].0;
        let firsts = kept(asked.len(), |at| is_first(at).then_some(at))?;
        let keys = firsts.par_iter().with_min_len(TASK).map(|&first| asked[first]).try_collect()?;
        let places = self.places(&keys)?;
        let of_key = |key: usize| &asked[firsts[key]..firsts.get(key + 1).copied().unwrap_or(asked.len())];
        let of_task = |task: usize| {
            let mut part = Part { found: Vec::new(), changes: Vec::new(), places: Vec::new() };
            for key in task * TASK..keys.len().min((task + 1) * TASK) {
                let change = self.play(requests, of_key(key), places[key], &mut part.found)?;
                if let Some(change) = change {
                    push(&mut part.changes, (keys[key].0, change))?;
                    push(&mut part.places, places[key])?;
                }
            }
            Ok(part)
        };
        let parts: Vec<Part<K::Bits, V>> = (0..keys.len().div_ceil(TASK)).into_par_iter().try_map_collect(of_task)?;
        let (mut changes, mut places, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        make_room(&mut changes, parts.iter().map(|part| part.changes.len()).sum())?;
        make_room(&mut places, parts.iter().map(|part| part.places.len()).sum())?;
        make_room(&mut answers, parts.iter().map(|part| part.found.len()).sum())?;
        make_room(found, answers.capacity())?;
        for part in parts {
            changes.extend(part.changes);
            places.extend(part.places);
            answers.extend(part.found);
        }
        sort_by_first(&mut answers)?;
        let report = self.change_at(&changes, &places)?;
        found.extend(answers.into_iter().map(|(_, value)| value));
        Ok(report)
    }

    /// The value at a key's place, if it is present.
    fn value_at(&self, place: Place) -> Option<V> {
        place.is_hit.then(|| Leaves::<K, V>::value(&self.leaves, place))
    }

    /// Plays the requests of a key through. Returns what they change.
    fn play(
        &self,
        requests: &[Request<K, V>],
        asked: &[Asked<K::Bits>],
        place: Place,
        found: &mut Vec<(u32, Option<V>)>,
    ) -> Result<Option<NetChange<V>>> {
        let (mut value, mut net) = (self.value_at(place), None::<NetChange<V>>);
        for &(_, at) in asked {
            let Some(change) = requests[at as usize].change() else {
                push(found, (at, value))?;
                continue;
            };
            value = match change {
                NetChange::Put(new) => Some(new),
                NetChange::PutIfPresent(new) => value.map(|_| new),
                NetChange::Remove => None,
            };
            net = Some(net.map_or(change, |net| net.then(change)));
        }
        Ok(net)
    }
}
