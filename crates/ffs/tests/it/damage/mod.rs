//! Damaged disks, and judges of the checker's results on them.
//!
//! * `base`: the disks to be damaged, with the known state of their files.
//! * `map`: the owner of each byte of such a disk.
//! * `mutation`: one damage, and sealing it, so that no check hash reveals it.
//! * `cases`: all damages of the table, in a fixed order.
//! * `composed`: damages of several places that agree with each other.
//! * `invariants`: for each rule a damage that it alone detects.
//! * `reason`: reasons why a damage cannot be detected. As narrow as possible.
//! * `judge`: look, repair, look again, read all undamaged files.
//! * `oracle`: the independent checker, many disks in one process.
//! * `table`: the results.

pub(crate) mod base;
pub(crate) mod cases;
pub(crate) mod composed;
pub(crate) mod invariants;
pub(crate) mod judge;
pub(crate) mod map;
pub(crate) mod mutation;
pub(crate) mod oracle;
pub(crate) mod reason;
pub(crate) mod table;
