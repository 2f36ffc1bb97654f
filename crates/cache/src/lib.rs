//! Memory: what an engine keeps of its disk, how it is counted, and data on its way to its place.
//!
//! Layers, from the bottom:
//!
//! * [`hash`]: maps by numbers of the disk. [`memory`]: counts bytes.
//! * [`coalesce`]: neighbours on the disk, to be written at once. [`refusals`]: writes that found
//!   no room below.
//! * [`data`]: data of files that may be read again. `delayed`: data that a log has already.
//! * [`budget`]: what all of it together may take.
//! * [`blocks`]: blocks of metadata. [`data_path`]: data of files between the device, what is kept
//!   of it, and the tasks that read and write.
//!
//! Architecture invariant: it knows devices by their bytes alone: no format, no file and no engine.
//! **Absent:** when a changed block may be written, and what is in one.

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
