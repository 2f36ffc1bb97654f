//! Directories as arrays of chunks, and where names stand in them. No I/O.
//!
//! Layers, from the bottom:
//!
//! * [`mod@entry`] alone knows bytes: the header of an entry, and how long entries are.
//! * [`mod@chunk`]: the entries of one chunk of 512 bytes, room for another, and what an update
//!   should change.
//! * `buckets` and [`mod@index`]: where the names of a directory stand, by their hash.
//!
//! Architecture invariant: what a change is to write, it says; it writes nothing. It knows no
//! engine and no block of a file.

mod buckets;
pub mod chunk;
pub mod entry;
pub mod index;
