//! The table of designs, as its users have it.

mod aged;
mod anchors;
mod entries;
mod lost_starts;
mod second;
mod stripes;
mod table;
mod unrepaired;
