//! The instances that are compiled: a module of their own, which no look-up needs.

use super::boundaries::{Boundaries, Level};
use super::fill::Fill;
use super::intervals::Intervals;
use super::leaves::{Leaves, Numbers};
use super::number::{Number, Place};
use super::table::Table;
use lanetree_simt::instance;

instance!(cuart_build__boundaries, cuart_build, Boundaries);
instance!(cuart_build__level, cuart_build, Level);
instance!(cuart_build__intervals, cuart_build, Intervals);
instance!(cuart_build__count_nodes, cuart_build, Number<false>);
instance!(cuart_build__number_nodes, cuart_build, Number<true>);
instance!(cuart_build__count_kinds, cuart_build, Place<false>);
instance!(cuart_build__place_nodes, cuart_build, Place<true>);
instance!(cuart_build__fill_n4, cuart_build, Fill<1>);
instance!(cuart_build__fill_n16, cuart_build, Fill<2>);
instance!(cuart_build__fill_n48, cuart_build, Fill<3>);
instance!(cuart_build__fill_n256, cuart_build, Fill<4>);
instance!(cuart_build__table, cuart_build, Table);
instance!(cuart_build__numbers, cuart_build, Numbers);

macro_rules! leaves {
    ($($words:literal),*) => { pastey::paste! { $(
        instance!([<cuart_build__leaves_w $words _u32>], cuart_build, Leaves<u32, $words>);
        instance!([<cuart_build__leaves_w $words _u64>], cuart_build, Leaves<u64, $words>);
    )* } };
}
leaves!(1, 2, 4);
