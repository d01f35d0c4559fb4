//! Optional arguments of device-form queries: said once, for the views of all indexes.

use lanetree_base::join_steps::DeviceValidity;
use lanetree_base::{Error, JoinKind, Result};
use lanetree_layout::Value;
use lanetree_runtime::Buffer;

/// Optional arguments of a device-form query.
#[derive(Debug)]
pub struct QueryOptions<'a, V> {
    /// Where the hit mask goes.
    pub hits: Option<&'a mut Buffer<u32>>,
    /// The value of what is absent, if one was named.
    pub miss: Option<V>,
    /// At most this number of pairs of each range.
    pub limit: u64,
    /// The most pairs of each range by itself.
    pub limits: Option<&'a Buffer<u64>>,
    /// Which rows a join has.
    pub kind: JoinKind,
    /// Which probes of a join are there.
    pub valid: Option<DeviceValidity<'a>>,
}

impl<V: Value> Default for QueryOptions<'_, V> {
    /// No hit mask, no limits, inner joins, no nulls, and no value of what is absent.
    fn default() -> Self {
        Self { hits: None, miss: None, limit: u64::MAX, limits: None, kind: JoinKind::Inner, valid: None }
    }
}

/// What a query uses of its [`QueryOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    /// The hit mask, and the value of what is absent.
    Hits,
    /// That value alone.
    Miss,
    /// The limits of ranges.
    Limits,
    /// The kind of a join, and the validity of its probes.
    Join,
    /// The same, and of a left join the value of what is absent.
    JoinOfValues,
    /// Nothing.
    Nothing,
}

impl<V: Value> QueryOptions<'_, V> {
    /// The value that absent queries get: the one that was named, or else the value with all bits set.
    pub fn miss(&self) -> V {
        self.miss.unwrap_or_else(|| {
            let mut miss = V::default();
            bytemuck::bytes_of_mut(&mut miss).fill(u8::MAX);
            miss
        })
    }

    /// Checks that nothing was named that a query would not use.
    ///
    /// # Errors
    /// [`Error::UnusedOption`].
    pub fn check(&self, call: &'static str, uses: Uses) -> Result<()> {
        let hits = ("hits", self.hits.is_some() && uses != Uses::Hits);
        let (is_join, is_left) = (matches!(uses, Uses::Join | Uses::JoinOfValues), self.kind == JoinKind::Left);
        let has_miss = matches!(uses, Uses::Hits | Uses::Miss) || uses == Uses::JoinOfValues && is_left;
        let miss = ("miss", self.miss.is_some() && !has_miss);
        let limit = ("limit", self.limit != u64::MAX && uses != Uses::Limits);
        let limits = ("limits", self.limits.is_some() && uses != Uses::Limits);
        let kind = ("kind", self.kind != JoinKind::Inner && !is_join);
        let valid = ("valid", self.valid.is_some() && !is_join);
        match [hits, miss, limit, limits, kind, valid].into_iter().find(|&(_, is_unused)| is_unused) {
            Some((option, _)) => Err(Error::UnusedOption { option, call }),
            None => Ok(()),
        }
    }
}

/// The methods of a view by which its queries' optional arguments are named: those of a list. `|view| ...` is where a view has its
/// [`QueryOptions`].
#[doc(hidden)]
#[macro_export]
macro_rules! query_options {
    (impl[$($generics:tt)*] $View:ty, |$view:ident| $options:expr => $($option:ident $(($($value:tt)*))?),*) => {
        impl<$($generics)*> $View {
            $($crate::query_options! { @$option |$view| $options $(, $($value)*)? })*
        }
    };
    (@hits |$view:ident| $options:expr) => {
        /// Asks a query for its hit mask: bit `i % 32` of `hits[i / 32]` becomes whether something was found for query `i`, even if
        /// a stored value equals that of a miss. `hits` must have at least one element per 32 queries. Elements past these are not
        /// touched; bits past the last query in its word become zero.
        #[must_use]
        pub fn hits(mut self, hits: impl Into<Option<&'a mut $crate::Buffer<u32>>>) -> Self {
            let $view = &mut self;
            $options.hits = hits.into();
            self
        }
    };
    (@miss |$view:ident| $options:expr, $value:ty) => {
        /// The value that queries get for which nothing is found; by default the value with all bits set (`u32::MAX`, `u64::MAX`).
        #[must_use]
        pub fn miss(mut self, miss: $value) -> Self {
            let $view = &mut self;
            $options.miss = Some(miss);
            self
        }
    };
    (@limit |$view:ident| $options:expr) => {
        /// At most the first `limit` pairs of each range are found.
        #[must_use]
        pub fn limit(mut self, limit: u64) -> Self {
            let $view = &mut self;
            $options.limit = limit;
            self
        }
    };
    (@limits |$view:ident| $options:expr) => {
        /// At most the first `limits[i]` pairs of range `i` are found. There is one limit per range, in a buffer of the device of
        /// the queries.
        #[must_use]
        pub fn limits(mut self, limits: impl Into<Option<&'a $crate::Buffer<u64>>>) -> Self {
            let $view = &mut self;
            $options.limits = limits.into();
            self
        }
    };
    (@joins |$view:ident| $options:expr) => {
        /// Which rows a join has. The default is [`JoinKind::Inner`](lanetree_frame::JoinKind::Inner).
        #[must_use]
        pub fn kind(mut self, kind: $crate::JoinKind) -> Self {
            let $view = &mut self;
            $options.kind = kind;
            self
        }

        /// Which probes of a join are there: those whose bit is set, of which the first one is bit `offset`, the lowest bit of a
        /// word first. All others are null, and match nothing.
        #[must_use]
        pub fn valid(mut self, valid: &'a $crate::Buffer<u32>, offset: usize) -> Self {
            let $view = &mut self;
            $options.valid = Some($crate::join_steps::DeviceValidity { bitmap: valid, offset });
            self
        }
    };
}
