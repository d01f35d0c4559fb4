use super::*;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lengths around the lengths of parts.
const LENGTHS: [usize; 8] = [0, 1, 2, 7, 8, 63, 1000, 100_003];

/// In pools of several sizes, and outside of one.
fn in_pools(test: impl Fn() + Sync) {
    test();
    for threads in [1, 3, 8] {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(&test);
    }
}

#[test]
fn a_loop_runs_over_each_number_once() {
    in_pools(|| {
        for len in LENGTHS {
            let times: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
            (0..len).into_par_iter().for_each(|i| _ = times[i].fetch_add(1, Ordering::Relaxed));
            assert!(times.into_iter().all(|times| times.into_inner() == 1), "{len}");
        }
    });
}

#[test]
fn loops_run_in_the_current_pool() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).thread_name(|i| format!("own {i}")).build().unwrap();
    pool.install(|| {
        (0..1000_usize).into_par_iter().for_each(|_| {
            assert!(std::thread::current().name().unwrap().starts_with("own"));
        });
    });
}

#[test]
fn parts_have_the_fewest_items_asked_for() {
    in_pools(|| {
        let lens = (0..10_000_usize).into_par_iter().with_min_len(3000).map(|i| i).parts(|items| items.count());
        assert!(lens.iter().all(|&len| len >= 3000) && lens.iter().sum::<usize>() == 10_000);
        assert_eq!((0..5_usize).into_par_iter().with_min_len(100).parts(|items| items.count()), [5]);
    });
}

#[test]
fn chains_give_what_those_of_the_standard_library_give() {
    in_pools(|| {
        for len in LENGTHS {
            let words: Vec<u64> = (0..len as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect();
            let doubled: Vec<u64> = words.iter().map(|word| 2 * word).collect();
            assert_eq!(words.par_iter().map(|word| 2 * word).collect(), doubled);
            let mut copied = vec![7];
            words.par_iter().copied().collect_into_vec(&mut copied);
            assert_eq!(copied, words);
            let numbered: Vec<(usize, u64)> = words.iter().copied().enumerate().collect();
            assert_eq!(words.par_iter().copied().enumerate().try_unzip().unwrap(), numbered.iter().copied().unzip());
            let mut sums = words.clone();
            sums.par_iter_mut().zip(&doubled).for_each(|(sum, word)| *sum += word);
            assert!(sums.iter().zip(&words).all(|(sum, word)| *sum == 3 * word));
            assert_eq!(words.par_iter().copied().max(), words.iter().copied().max());
            assert_eq!(words.par_iter().copied().sum::<u64>(), words.iter().sum());
            assert_eq!(words.par_iter().copied().reduce(|| 0, |a, b| a ^ b), words.iter().fold(0, |a, b| a ^ b));
            let odd: Vec<u64> = words.iter().copied().filter(|word| word % 2 == 1).collect();
            assert_eq!(words.par_iter().copied().filter_collect(|word| word % 2 == 1).unwrap(), odd);
            assert_eq!(words.par_iter().count_if(|word| *word % 2 == 1), odd.len());
            let runs: Vec<u64> = words.iter().flat_map(|&word| word..word + word % 3).collect();
            assert_eq!(words.par_iter().flat_map_collect(|&word| word..word + word % 3).unwrap(), runs);
            let boxes: Vec<Box<u64>> = words.iter().map(|&word| Box::new(word)).collect();
            assert_eq!(boxes.into_par_iter().map(|boxed| *boxed).collect(), words);
            for wanted in [0, len / 3, len.saturating_sub(1), len] {
                assert_eq!((0..len).into_par_iter().find_first(|&i| i >= wanted), (wanted < len).then_some(wanted));
                assert_eq!(words.par_iter().any(|word| Some(word) == words.get(wanted)), wanted < len);
                let outcome = (0..len).into_par_iter().try_for_each(|i| if i < wanted { Ok(()) } else { Err(i) });
                assert_eq!(outcome, if wanted < len { Err(wanted) } else { Ok(()) });
            }
            let descent = words.windows(2).position(|pair| pair[0] > pair[1]);
            assert_eq!(words.par_windows(2).position_first(|pair| pair[0] > pair[1]), descent);
            for of in [1, 3, 1000] {
                let chunks: Vec<&[u64]> = words.chunks(of).collect();
                assert_eq!(words.par_chunks(of).collect(), chunks);
                assert_eq!(words.clone().par_chunks_mut(of).collect(), chunks);
                assert_eq!(
                    words.clone().par_chunks_exact_mut(of).collect(),
                    words.chunks_exact(of).collect::<Vec<_>>()
                );
            }
        }
    });
}

#[test]
fn a_panic_of_a_part_is_one_of_the_caller() {
    in_pools(|| {
        let at = |bad: usize| (0..1000_usize).into_par_iter().for_each(|i| assert!(i != bad, "{i} is bad"));
        let payload = catch_unwind(AssertUnwindSafe(|| at(700))).unwrap_err();
        assert_eq!(payload.downcast_ref::<String>().unwrap(), "700 is bad");
        let never = (0..1000_usize).into_par_iter().map(|i| if i == 3 { panic!("three") } else { Box::new(i) });
        assert!(catch_unwind(AssertUnwindSafe(|| never.collect())).is_err());
        assert!(catch_unwind(|| join(|| panic!("left"), || 5)).is_err());
        assert_eq!(join(|| 4, || 5), (4, 5));
    });
}

#[test]
fn sorts_are_stable_whatever_the_distribution() {
    let random = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    let sorts = |word: &(dyn Fn(usize) -> u64 + Sync)| {
        for len in [0, 1, 5, 5000, 100_003] {
            let items: Vec<(u64, usize)> = (0..len).map(|i| (word(i), i)).collect();
            let mut sorted = items.clone();
            sort_by_word(&mut sorted, |item| item.0).unwrap();
            let mut expected = items;
            expected.sort_by_key(|item| item.0);
            assert!(sorted == expected, "{len}");
            sort_unstable_by(&mut sorted, |a, b| b.cmp(a));
            assert!(sorted.into_iter().rev().eq(expected), "{len}");
        }
    };
    in_pools(|| {
        sorts(&random);
        sorts(&|i| u64::MAX - i as u64);
        sorts(&|_| 7);
        sorts(&|i| if i % 2 == 0 { 0 } else { u64::MAX });
        sorts(&|i| if i % 100 == 0 { random(i) } else { random(i) >> 40 });
        sorts(&|i| random(i) % 1000);
        sorts(&|i| 1 << (random(i) % 64));
    });
}

#[test]
fn vectors_are_filled_or_there_is_no_room_for_them() {
    for len in [0, 1, 5, 1 << 15, 3 << 15 | 1] {
        assert_eq!(filled(Some(3_u8), len).unwrap(), vec![Some(3); len]);
    }
    for len in [1 << 60, usize::MAX] {
        for error in [filled(Some(7_u64), len).err(), (0..len).into_par_iter().try_collect().err()] {
            assert!(error.is_some_and(|error| error.to_string().contains("has no room for")));
        }
    }
}
