//! A small world in which everything that happens follows from a seed: tasks, time, chance, disks,
//! a network.
//!
//! Engines are written against [`runtime::Runtime`] and [`block::BlockDevice`]; here are both,
//! without an operating system below. A thousand runs take a second, and a run that fails is
//! repeated by its seed to the last event.
//!
//! # Layers
//! * [`Prng`] and [`Digest`]: chance, and the running hash by which two runs are compared.
//! * [`Executor`]: one thread, a clock that counts nanoseconds and moves only when nothing else
//!   can, and tasks that are picked at random. [`Machine`]: a part of it that loses its power
//!   alone.
//! * [`Image`]: the bytes of a disk, cheap to copy. [`Platter`]: which of the writes are surely on
//!   it, and which may be lost when the power goes. [`Choice`]: one way for them to be lost.
//! * [`Disk`]: a block device with a volatile cache. [`Timing`]: how long it takes, by chance or as
//!   its making has it; [`presets`] has particular disks. [`Fault`]: what goes wrong with which
//!   call. [`Counters`]: what it was asked for, and which writes a caller waited for.
//!   [`Trace`]: all that happened to it, so that the power can be cut afterwards at every event.
//! * [`Network`]: connections between hosts, with delay, loss and death, and what was sent on
//!   them.
//!
//! # The fault model
//! That of the network is told at [`Network`]. That of a disk is the contract of [`block`], taken
//! at its worst. When the power goes, a completed plain write that no later flush covers, and every
//! write still in flight, may be there, not be there, or be torn at sectors of 512 bytes, each on
//! its own. When a process is killed and the power stays on, what it had in flight takes effect,
//! and reads see it; but it is a plain write from then on, whatever was asked for. A failed write
//! leaves any mixture of old and new. A failed flush leaves the writes that
//! it should have covered uncertain for good: a later flush that succeeds says nothing about them,
//! as in the kernels that we have to live with.
//!
//! A test may order worse, call by call: errors, calls that do nothing and say that they did, that
//! go astray, that rot, that are late or never answered ([`Effect`]). Each is exactly what it says,
//! in the trace and at a cut as well.
//!
//! # Time
//! The default disk draws latencies at random and lets nothing queue, so that overlapping calls
//! end in any order: for finding mistakes. A disk with a [`Mechanical`], [`Flash`] or [`Nvram`]
//! timing takes the time that its parts need, and is for measuring: the same calls at the same
//! times get the same answers at the same times, but for the angle at which the spindle starts.
//! What a cut may leave is the same for all of them, except that what [`Nvram`] has answered is
//! durable. A real disk is kinder: what it has destaged is safe, and here it is not until a flush.
//!
//! Architecture invariant: this crate knows `block` and `runtime` alone, so that every crate above
//! can be tested with it. It is not a file system's test suite; those stand beside the engines.
//!
//! # An example
//! Run something, cut the power, and look at what is left:
//! ```
//! use block::{BlockDevice, Buffer, Durability};
//! use sim::{Disk, Executor, Image, Prng};
//!
//! let executor = Executor::new(42);
//! let disk = Disk::new(&executor, Image::zeroed(1 << 20));
//! executor.block_on(async {
//!     disk.write(0, vec![vec![7; 4096].into()], Durability::Plain).await.unwrap();
//!     disk.flush().await.unwrap();
//!     disk.write(0, vec![vec![8; 4096].into()], Durability::Plain).await.unwrap();
//! });
//! executor.crash(); // drops every task; whatever was in flight stays unfinished
//! let image = disk.crash(&mut Prng::new(1));
//!
//! let reopened = Disk::new(&executor, image);
//! let sector = executor.block_on(reopened.read(0, Buffer::zeroed(512))).unwrap();
//! assert!(sector[0] == 7 || sector[0] == 8);
//! ```

mod choice;
mod controller;
mod counters;
mod digest;
mod disk;
mod engine;
mod event;
mod executor;
mod fate;
mod faults;
mod image;
mod machine;
mod net;
mod options;
mod platter;
mod prng;
mod remains;
mod timing;
mod trace;
mod verbs;
mod world;

pub use counters::Counters;
pub use digest::Digest;
pub use disk::Disk;
pub use event::{Event, Mark};
pub use executor::Executor;
pub use fate::{Choice, Fate, NoChoice, Sectors};
pub use faults::{Effect, Fault, Persistence};
pub use image::{Image, PAGE_SIZE, SECTOR_SIZE};
pub use machine::Machine;
pub use net::{
    Death, Delay, Host, Listener, Mishaps, Network, NetworkCounters, NetworkEvent, NetworkOptions,
    NetworkTraced, Stream,
};
pub use options::{Options, Tells};
pub use platter::{Honesty, Platter, Stage, Written};
pub use prng::Prng;
pub use remains::Remains;
pub use timing::{Flash, Latency, Mechanical, Nvram, Scheduler, Timing, Zone, presets};
pub use trace::{Trace, Traced};
