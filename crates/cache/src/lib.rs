//! Memory: the caches of an engine, their accounting, and data that waits to be written in place.
//!
//! Layers, from the bottom:
//!
//! * [`hash`]: maps keyed by numbers of the disk. [`memory`]: counts bytes.
//! * [`coalesce`]: merges adjacent writes. [`refusals`]: writes that found no room below.
//! * [`data`]: cached file data. `delayed`: data that a log has already.
//! * [`budget`]: the memory limit for all of it together.
//! * [`blocks`]: blocks of metadata. [`data_path`]: file data between the device, the cache, and
//!   the tasks that read and write.
//!
//! Architecture invariant: it knows devices by their bytes alone: no format, no file and no engine.
//! **Absent:** when a changed block may be written, and the contents of a block.

pub mod blocks;
pub mod budget;
pub mod coalesce;
pub mod data;
pub mod data_path;
mod delayed;
pub mod hash;
pub mod memory;
#[doc(hidden)]
pub mod planted;
pub mod refusals;

pub use blocks::BlockCache;
pub use budget::Budget;
pub use data::DataCache;
pub use data_path::DataPath;
pub use memory::Meter;
