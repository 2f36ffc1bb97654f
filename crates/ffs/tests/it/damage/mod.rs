//! Disks with something wrong on them, and the judges of what the checker makes of those.
//!
//! * `base`: the disks that are damaged, with everything that is known of their files.
//! * `map`: what each byte of such a disk belongs to.
//! * `mutation`: one damage, and sealing it, so that no check hash gives it away.
//! * `cases`: all damages of a table, in a fixed order.
//! * `composed`: damages of several places that agree with each other.
//! * `invariants`: for each rule a damage that it alone sees.
//! * `reason`: why a damage cannot be seen. As narrow as can be.
//! * `judge`: look, repair, look again, read all files that were not damaged.
//! * `oracle`: the independent checker, many disks in one process.
//! * `table`: what came out.

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
