//! Loops that must not remain loops.

/// Runs `$body` for `$index` in `0..$count`, at most 24, written out: an array that a loop indexes
/// lies in registers only where no loop is left, and LLVM leaves one where the body is long.
macro_rules! unroll {
    ($count:expr, $index:ident => $body:block) => {
        unroll!(@each $count, $index, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23)
    };
    (@each $count:expr, $index:ident, $body:block, $($number:literal)*) => {{
        const { assert!($count <= 24, "more rounds than are written out") };
        $(
            if $number < $count {
                let $index: usize = $number;
                $body
            }
        )*
    }};
}
