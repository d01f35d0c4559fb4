//! Numbers of nodes.

use lanetree_frame::Result;
use lanetree_frame::room::make_room;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// Which numbers of an array of nodes are taken. The array may be longer than the numbers so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pool {
    /// Numbers below this are taken, unless they are free.
    pub(super) end: u32,
    /// The numbers of removed nodes.
    pub(super) free: Vec<u32>,
}

impl Pool {
    /// The first `count` numbers are taken.
    pub(super) fn of(count: u32) -> Self {
        Self { end: count, free: Vec::new() }
    }

    /// Numbers that are taken.
    pub(super) fn len(&self) -> u64 {
        u64::from(self.end) - self.free.len() as u64
    }

    /// Nodes of an array that is to hold `nodes`, but at most `most`: with a sixteenth of them to spare, which the system
    /// commits only when it is used.
    pub(super) fn room(nodes: u64, most: u64) -> u64 {
        (nodes + nodes / 16 + 1).min(most.max(nodes))
    }
}

/// Numbers that a plan takes from a pool and returns to it. The pool has changed when the plan is carried out.
#[derive(Debug)]
pub(super) struct Taking<'a> {
    pool: &'a Pool,
    /// Free numbers that are taken.
    taken: usize,
    end: u64,
    freed: Vec<u32>,
}

impl<'a> Taking<'a> {
    pub(super) fn from(pool: &'a Pool) -> Self {
        Self { pool, taken: 0, end: u64::from(pool.end), freed: Vec::new() }
    }

    /// A number. Past 32 bits it is wrong, and [`Taking::end`] says so.
    pub(super) fn take(&mut self) -> u32 {
        let free = &self.pool.free;
        if self.taken < free.len() {
            self.taken += 1;
            return free[free.len() - self.taken];
        }
        self.end += 1;
        (self.end - 1) as u32
    }

    /// Returns a number. It is not taken again by the same plan, unless by [`Taking::take_back`].
    pub(super) fn free(&mut self, number: u32) {
        self.freed.push(number);
    }

    /// A number that this plan has returned, or another one.
    pub(super) fn take_back(&mut self) -> u32 {
        self.freed.pop().unwrap_or_else(|| self.take())
    }

    /// Takes `count` numbers, the numbers of `members` first. Returns the members that are left over.
    pub(super) fn replace(&mut self, members: impl IntoIterator<Item = u32>, count: usize) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(count);
        for member in members {
            if numbers.len() < count {
                numbers.push(member);
            } else {
                self.free(member);
            }
        }
        while numbers.len() < count {
            numbers.push(self.take());
        }
        numbers
    }

    /// What the plan has taken and returned.
    pub(super) fn finish(self) -> Taken {
        Taken { taken: self.taken, end: self.end, freed: self.freed }
    }
}

/// What a plan takes from a pool and returns to it.
#[derive(Debug)]
pub(super) struct Taken {
    taken: usize,
    /// One more than the largest number, afterwards.
    pub(super) end: u64,
    freed: Vec<u32>,
}

impl Pool {
    /// Makes room for what a plan returns.
    ///
    /// # Errors
    /// [`Error::Runtime`](lanetree_frame::Error::Runtime) if main memory has none.
    pub(super) fn make_room(&mut self, plan: &Taken) -> Result<()> {
        make_room(&mut self.free, plan.freed.len())
    }

    /// Carries a plan out.
    pub(super) fn change(&mut self, Taken { taken, end, freed }: &Taken) {
        self.free.truncate(self.free.len() - taken);
        self.free.extend(freed);
        self.end = *end as u32;
    }
}
