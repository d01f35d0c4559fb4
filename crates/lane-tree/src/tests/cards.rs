//! Launches on cards of every size.

use crate::shape_for_rows;
use lanetree_frame::Device;

#[test]
fn a_shape_is_had_for_any_number_of_rows() {
    for device in [Device::host(), Device::emulated()] {
        let stream = device.stream().unwrap();
        let multiprocessors = device.properties().unwrap().multiprocessors;
        for rows in [u64::MAX, u64::MAX - 31, 1 << 63] {
            let shape = shape_for_rows(&stream, rows, 1024, |threads| threads).unwrap();
            assert_eq!((shape.blocks, shape.threads, shape.dynamic_shared), (multiprocessors, 1024, 1024));
        }
        for (rows, blocks, threads) in [(0, 1, 32), (1, 1, 32), (33, 1, 64), (512, 1, 512)] {
            let shape = shape_for_rows(&stream, rows, 1024, |threads| threads).unwrap();
            assert_eq!((shape.blocks, shape.threads), (blocks, threads), "{rows} rows");
        }
    }
}
