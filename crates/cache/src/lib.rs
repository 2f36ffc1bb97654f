//! Memory: what an engine keeps of its disk, and how it is counted.
//!
//! Layers, from the bottom:
//!
//! * [`hash`]: maps by numbers of the disk. [`memory`]: counts bytes.
//! * [`coalesce`]: neighbours on the disk, to be written at once.
//! * [`data`]: data of files that may be read again.
//!
//! Architecture invariant: it knows devices by their bytes alone: no format, no file and no engine.
//! **Absent:** what waits to be written, and when that may be.

pub mod coalesce;
pub mod data;
pub mod hash;
pub mod memory;

pub use data::DataCache;
pub use memory::Meter;
