//! What every race is run on: loop devices, who tidies up, the machine, and how figures are told.
//!
//! [`janitor`] frees what a race has taken, also after an interrupt. [`disk`] makes devices of one
//! kind, [`machine`] says where it all was, [`statistics`] are medians, [`table`] shows them, and
//! [`page`] keeps the results of several races on one page.

pub(crate) mod disk;
pub(crate) mod janitor;
pub(crate) mod machine;
pub(crate) mod page;
pub(crate) mod statistics;
pub(crate) mod table;
