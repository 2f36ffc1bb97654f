//! Large writes side by side under policy `log`, and cuts of volume and log at one moment: whatever
//! a file is said to hold was on the disk before the log told of it.

use crate::common::together::large_writes_side_by_side;

#[test]
fn large_writes_side_by_side_show_nothing_but_their_data() {
    for seed in 21..24 {
        large_writes_side_by_side(seed).unwrap_or_else(|wrong| panic!("run {seed}: {wrong}"));
    }
}
