//! Loops that must be unrolled.

/// Runs a block for an index from 0 up to a constant, at most 32, unrolled: `unroll!(N, i => { ... })`.
///
/// An array that a loop indexes is kept in registers only if the loop is unrolled completely, and LLVM does not do that
/// if the body is long. [`unroll`](fn@crate::unroll) does the same with a closure.
#[cfg(target_os = "cuda")]
#[macro_export]
macro_rules! unroll {
    ($count:expr, $index:ident => $body:block) => {
        $crate::unroll!(@each $count, $index, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
    (@each $count:expr, $index:ident, $body:block, $($number:literal)*) => {{
        const { assert!($count <= 32, "more rounds than are written out") };
        $(
            #[allow(unused_assignments, reason = "what the last round leaves for a next one is not read")]
            {
                if $number < $count {
                    let $index: usize = $number;
                    $body
                }
            };
        )*
    }};
}

/// On the host, a loop: what is written out would be most of the code that a program compiles.
#[cfg(not(target_os = "cuda"))]
#[macro_export]
macro_rules! unroll {
    ($count:expr, $index:ident => $body:block) => {{
        const { assert!($count <= 32, "more rounds than are written out") };
        let mut round: usize = 0;
        while round < $count {
            let $index: usize = round;
            $body
            round += 1;
        }
    }};
}

/// Calls a closure with 0 up to `N - 1`, at most 31, unrolled.
///
/// [`unroll!`](macro@crate::unroll) copies a body; this one calls it, and LLVM decides whether to inline the calls. If
/// it does, the order of the resulting instructions differs, and so does the use of registers: for each of the two
/// there are kernels that spill with the other.
#[inline(always)]
pub fn unroll<const N: usize>(mut body: impl FnMut(usize)) {
    unroll!(N, index => {
        body(index);
    });
}
