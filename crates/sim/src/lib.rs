//! A small world in which every event follows from a seed: tasks, time, random numbers, disks, a
//! network.
//!
//! Engines are written against [`runtime::Runtime`] and [`block::BlockDevice`]; here are both,
//! without an operating system below. A thousand runs take a second, and the seed of a failing run
//! repeats it to the last event.
//!
//! # Layers
//! * [`Prng`] and [`Digest`]: random numbers, and the running hash by which two runs are compared.
//! * [`Executor`]: one thread, a clock that counts nanoseconds and moves only when no task can run,
//!   and tasks that are picked at random. [`Machine`]: a part of it that loses its power alone.
//! * [`Image`]: the bytes of a disk, cheap to copy. [`Platter`]: the durable contents, and the
//!   writes that may be lost in a power cut. [`Choice`]: one combination of losses.
//! * [`Disk`]: a block device with a volatile cache. [`Timing`]: its latencies, random or by a
//!   model of its hardware; [`presets`] has particular disks. [`Fault`]: an injected failure of
//!   certain calls. [`Counters`]: its calls, and the writes that a caller waited for. [`Trace`]:
//!   all its events, so that the power can be cut afterwards at every one.
//! * [`Network`]: connections between hosts, with delay, loss and death, and a trace of their
//!   traffic.
//!
//! # The fault model
//! The network's is described at [`Network`]. A disk's is the contract of [`block`], in its worst
//! case. In a power cut each completed plain write that no later flush covers, and each write still
//! in flight, independently survives, is lost, or is torn at sectors of 512 bytes. When a process
//! is killed and the power stays on, its calls in flight take effect, and reads see them; but its
//! writes are plain from then on, whatever durability was requested. A failed write leaves any
//! mixture of old and new. A failed flush leaves the writes that it should have covered uncertain
//! for good: a later flush that succeeds says nothing about them, as in the kernels that we have to
//! live with.
//!
//! A test may inject worse, call by call: errors, calls that report success without effect, that go
//! to the wrong address, that corrupt data, that are late or never answered ([`Effect`]). Each has
//! exactly its described effect, in the trace and at a cut as well.
//!
//! # Time
//! The default disk draws latencies at random and queues nothing, so that overlapping calls end in
//! any order: for finding mistakes. A disk with a [`Mechanical`], [`Flash`] or [`Nvram`] timing
//! takes the time that its parts need, and is for measuring: the same calls at the same times get
//! the same answers at the same times, except for the angle at which the spindle starts. The losses
//! of a cut are the same for all of them, except that every answered write of [`Nvram`] is durable.
//! A real disk is kinder: its destaged data is safe, and here it is not until a flush.
//!
//! Architecture invariant: this crate knows `block` and `runtime` alone, so that every crate above
//! can be tested with it. It is not a file system's test suite; those are beside the engines.
//!
//! # An example
//! Run some calls, cut the power, and inspect the remaining contents:
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
pub mod sparse;
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
