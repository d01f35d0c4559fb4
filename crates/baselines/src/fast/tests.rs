use super::*;
use crate::lines::battery;

macro_rules! battery {
    ($($name:ident: $key:ty => $value:ty, $page:ident,)*) => {$(
        #[test]
        fn $name() {
            battery::run(|keys: &[$key], values: &[$value], in_flight, simd| {
                let tree = Fast::with_options(keys, values, Options { page: Page::$page, in_flight, simd });
                move |queries: &[$key], out: &mut [Option<$value>]| tree.get_into(queries, out)
            });
        }
    )*};
}

battery! {
    u32_keys_are_found: u32 => u32, Huge,
    u64_keys_are_found: u64 => u64, Huge,
    i32_keys_are_found: i32 => u64, Small,
    i64_keys_are_found: i64 => u32, Small,
    f64_keys_are_found: lanetree_layout::F64 => u64, Small,
}

fn found_in_huge_pages<K: Key>() {
    let keys: Vec<K> = (0..600_001_u64).map(|i| K::decode(KeyWord::truncate(i * 7))).collect();
    let values: Vec<u32> = (0..600_001).collect();
    let tree = Fast::new(&keys, &values);
    assert_eq!(tree.bands.len(), 2, "{tree:?}");
    let mut out = vec![None; keys.len()];
    tree.get_into(&keys, &mut out);
    assert!(out.iter().zip(0..).all(|(&value, i)| value == Some(i)));
}

#[test]
fn look_ups_cross_huge_pages() {
    found_in_huge_pages::<u32>();
    found_in_huge_pages::<u64>();
}

#[test]
fn no_block_crosses_a_page() {
    for page in [Page::Small, Page::Huge] {
        for fanout in [8, 16] {
            for levels in (1..).take_while(|&levels| lines_of(levels, fanout) <= page.lines()) {
                let band = Band::new(levels, fanout, usize::MAX, page.lines(), 3 * page.lines());
                for block in (0..5000).chain((1 << 40) - 1000..1 << 40) {
                    let line = band.line(block) - band.start;
                    let expected = block / band.per_page * page.lines() + block % band.per_page * band.lines;
                    assert_eq!(line, expected, "block {block} of {band:?}");
                }
                assert!(band.per_page * band.lines <= page.lines());
            }
        }
    }
}

#[test]
fn pages_are_aligned() {
    let keys: Vec<u64> = (0..5000).collect();
    for page in [Page::Small, Page::Huge] {
        let tree = Fast::with_options(&keys, &keys, Options { page, ..Options::default() });
        assert_eq!(tree.inner.as_ptr().addr() % (page.lines() * Line::BYTES), 0);
    }
}

#[test]
fn bands_have_the_levels_that_fit() {
    let keys: Vec<u64> = (0..4 * 513).collect();
    let options = Options { page: Page::Small, ..Options::default() };
    let tree = Fast::with_options(&keys, &keys, options);
    // 513 leaves: four levels, of which the upper two are one block of 9 lines, in a page of 64, and the lower two are
    // nine blocks, seven in a page.
    assert_eq!(format!("{tree:?}"), "Fast(2052 pairs, levels of lines by page block: [2, 2])");
    assert_eq!(tree.bytes(), (64 + 64 + 2 * 9 + 513) * Line::BYTES);
}

#[test]
fn threads_may_share_a_tree() {
    fn shared<T: Send + Sync>() {}
    shared::<Fast<u64, u64>>();
}

#[test]
#[should_panic(expected = "not strictly ascending")]
fn descending_keys_are_refused() {
    Fast::new(&[2_u32, 1], &[0_u32, 0]);
}

#[test]
#[should_panic(expected = "each key needs one value")]
fn missing_values_are_refused() {
    Fast::new(&[1_u32, 2], &[0_u32]);
}
