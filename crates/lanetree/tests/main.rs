//! The library as its users see it, on the host and on the emulator. One program: every test that names an index would
//! compile it again.

mod common;

mod aggregates;
mod asof;
mod bounds;
mod combine;
mod cuart;
mod cuart_errors;
mod cuart_failures;
mod cuart_free_leaves;
mod cuart_lengths;
mod cuart_lost;
mod device_nodes;
mod errors;
mod harmonia_failures;
mod iteration;
mod many_rows;
mod pool;
mod readers;
mod serialised;
mod slices;
mod streams;
