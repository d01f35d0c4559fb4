//! What a forked process can do. A test binary of its own, with one test: no other thread may hold a lock at the fork.
#![cfg(unix)]

use lanetree_base::parallel::*;
use lanetree_base::runtime::{is_forked, threads};
use lanetree_base::{Device, DeviceKeys, Error, OffsetBuffer};
use std::time::{Duration, Instant};

/// Whether the emulator runs a kernel of many blocks, and it finds what it is to find.
fn launches() -> bool {
    let device = Device::emulated();
    let mut offsets = vec![0_u32; 2000];
    offsets[1000] = 1;
    let found = device.stream().and_then(|stream| {
        let (offsets, bytes) = (OffsetBuffer::U32(device.upload(&offsets)?), device.upload(&[0_u64])?);
        Ok(DeviceKeys::with_offsets(&stream, offsets, bytes))
    });
    matches!(found, Ok(Err(Error::OffsetOrder { index: 1001, previous: 1, offset: 0 })))
}

/// What a child that is done ends with.
const DONE: i32 = 42;

#[test]
fn a_child_works_on_one_thread_though_its_parent_has_many() {
    let work = || {
        let mut words = (0..100_000_u64).into_par_iter().map(|i| i ^ 0x5555).collect();
        sort_by_word(&mut words, |&word| word).unwrap();
        sort_unstable_by(&mut words, |a, b| b.cmp(a));
        words.par_windows(2).all(|pair| pair[0] > pair[1]) && join(|| 1, || 2) == (1, 2) && launches()
    };
    rayon::ThreadPoolBuilder::new().num_threads(3).build_global().unwrap();
    assert!(work() && threads() == 3 && !is_forked());

    // SAFETY: the child does nothing but loops, whose memory is this process's; it allocates, which the C library lets a
    // forked child do, and ends without running what the parent has registered.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_right = is_forked()
            && threads() == 1
            && Device::host().properties().is_ok_and(|found| found.multiprocessors == 1)
            && work();
        // SAFETY: ends the process.
        unsafe { libc::_exit(if is_right { DONE } else { 1 }) };
    }
    assert!(child > 0, "no process");
    let (begun, mut status) = (Instant::now(), 0);
    // SAFETY: a child of this process, and a place for its status.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed() > Duration::from_secs(30) {
            // SAFETY: as above.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == DONE, "status {status}");
}
