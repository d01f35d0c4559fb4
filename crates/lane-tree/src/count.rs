use crate::LaneTree;
use lanetree_frame::{Device, Op};

fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[test]
#[ignore]
fn counts() {
    let device = Device::emulated();
    let bits: u32 = std::env::var("BITS").ok().and_then(|v| v.parse().ok()).unwrap_or(17);
    let n = 1_u64 << bits;
    let most = u64::MAX / 16 * 15;
    let key = |i: u64| ((mix(i) as u128 * most as u128) >> 64) as u64;
    let mut keys: Vec<u64> = (0..n).map(key).collect();
    keys.sort_unstable();
    let only = std::env::var("ONLY").unwrap_or_default();
    for fill in [0.7, 1.0] {
        for by in [16, 64, 1024] {
            for spread in ["uniform", "skewed", "appended", "removed", "churn"] {
                if !only.is_empty() && !only.split(',').any(|o| o == spread) {
                    continue;
                }
                let mut tree = LaneTree::<u64, u64>::builder().fill(fill).build(&device, &keys, &keys).unwrap();
                let count = n / by;
                let mut out = String::new();
                let mut moved = 0;
                for batch in 0..10_u64 {
                    let from = batch * count;
                    let rest = &keys[keys.partition_point(|&k| k <= most / 25)..];
                    let gap = rest.windows(2).max_by_key(|p| p[1] - p[0]).unwrap();
                    let ops: Vec<Op<u64, u64>> = (from..from + count)
                        .map(|i| match spread {
                            "uniform" => Op::Insert(key((1 << 40) + i), 1),
                            "skewed" if i % 5 == 0 => Op::Insert(key((1 << 40) + i) / 25, 1),
                            "skewed" => Op::Insert(gap[0] + 1 + (mix(i) % (gap[1] - gap[0] - 2)), 1),
                            "appended" => Op::Insert(most + (1 << 20) + i, 1),
                            "removed" => Op::Remove(keys[(mix(i) % n) as usize]),
                            _ if i % 2 == 0 => Op::Remove(keys[(mix(i) % n) as usize]),
                            _ => Op::Insert(key((1 << 40) + i), 1),
                        })
                        .collect();
                    let stream = device.stream().unwrap();
                    let at =
                        |tree: &LaneTree<u64, u64>| tree.parts.get().unwrap().lines.read_on(&stream).unwrap().as_ptr();
                    let before = at(&tree);
                    let report = tree.apply(&ops).unwrap();
                    let is = at(&tree) != before;
                    moved += u32::from(is);
                    out += &format!(
                        "{}{} ",
                        match report.path {
                            lanetree_frame::UpdatePath::InPlace => "i",
                            _ =>
                                if is {
                                    "M"
                                } else {
                                    "d"
                                },
                        },
                        crate::update::probe()
                    );
                }
                let stats = tree.stats();
                println!(
                    "fill {fill} 1/{by} {spread}: moved {moved}: {out} nodes {} lines {} bytes/pair {:.1}",
                    stats.leaf_nodes,
                    stats.lines,
                    stats.bytes() as f64 / stats.len as f64
                );
            }
        }
    }
}
