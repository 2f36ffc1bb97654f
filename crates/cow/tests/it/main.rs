//! The floor under the smallest engine: it shows that the floor hides no other engine.

mod counter;
mod kit;
mod replay;
