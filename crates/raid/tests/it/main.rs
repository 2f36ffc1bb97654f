//! Tests of sets as a whole.

mod copies;
mod costs;
mod losses;
mod rot;
