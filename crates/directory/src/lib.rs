//! Directories as arrays of chunks, and the positions of names in them. No I/O.
//!
//! Layers, from the bottom:
//!
//! * [`mod@entry`] alone knows bytes: the header of an entry, and the length of entries.
//! * [`mod@chunk`]: the entries of one chunk of 512 bytes, room for another, and the changes that
//!   an update should make.
//! * `buckets` and [`mod@index`]: the positions of a directory's names, by their hash.
//!
//! Architecture invariant: it returns the bytes of a change; it writes nothing. It knows no engine
//! and no block of a file.

mod buckets;
pub mod chunk;
pub mod entry;
pub mod index;
