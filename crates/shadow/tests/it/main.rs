//! Tests of the engine on simulated disks.

mod again;
mod anchors;
mod answers;
mod bench;
mod books;

mod compaction;
mod copies;
mod costs;
mod discards;
mod earlier;
mod faults;
mod filled;
mod flipped;
mod forge;
mod frees;
mod golden;
mod held;
mod homeless;
mod hostile;
mod judged;
mod kit;
mod loads;
mod lost;
mod mended;
mod numbers;
mod orphans;
mod overwrites;
mod pacing;
mod parts;
mod places;
#[cfg(feature = "planted-bugs")]
mod planted;
mod quiet;
mod repair;
mod reserve;
mod rest;
mod rotten;
mod scrub;
mod shorter;
mod snapshots;
#[path = "../../../ffs/tests/it/common/sparse.rs"]
mod sparse;
mod stale;
mod steps;
mod strays;
mod turns;
mod unmade;
mod unread;
mod versions;
