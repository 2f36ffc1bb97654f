//! Common parts of races: loop devices, cleanup, the machine, and the display of figures.
//!
//! [`janitor`] frees a race's resources, also after an interrupt. [`disk`] makes devices of one
//! kind, [`machine`] describes the machine, [`statistics`] has medians, [`table`] displays them,
//! and [`page`] keeps the results of several races on one page.

pub(crate) mod disk;
pub(crate) mod janitor;
pub(crate) mod machine;
pub(crate) mod page;
pub(crate) mod statistics;
pub(crate) mod table;
