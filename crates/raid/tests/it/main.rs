//! Tests of sets as a whole.

mod costs;
mod losses;
