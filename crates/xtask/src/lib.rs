//! The project's own chores, as one program: `cargo xtask`.
//!
//! * [`setup`] installs the tests' requirements on the machine.
//! * [`test`] is everything that a change must pass, as run by continuous integration.
//! * [`guest`] boots a Linux kernel as an ordinary process and runs a script in it. That kernel's
//!   NFS client and UFS driver are the two judges that we did not write.
//! * [`client_test`] serves a volume to such a guest, injects failures, and compares the guest's
//!   view with the findings of four independent readers of the disk.
//! * [`bench_test`] measures our server, another one and one that does nothing, to check that
//!   measuring works.
//! * [`lab`] compares the page with the papers' figures with the lab's results.
//! * [`race`] measures our server against another on devices of the same kind, and writes
//!   docs/benchmarks.md; [`raid_race`] compares a set of disks with its bare disks, and with btrfs.
//! * [`scale`] compares a volume of 1 TiB with many files, and a large directory, with small ones.
//! * [`flame`] draws profiles of the server's processor time.
//! * [`mutants`] breaks the sources, one small change at a time, and asks which tests notice.
//! * [`program`] runs the programs that feed damaged bytes to decoders, and break the disk, the
//!   power and the network under a server.
//! * [`tidy`] checks the repository itself, and is a test of this crate too.
//!
//! A chore prints its progress and ends with an exit status; an error outside of our own logic is a
//! [`Failure`], one sentence for a person.
//!
//! Architecture invariant: no other crate depends on this one, and it depends on none of them. It
//! uses the product as a stranger would: as a binary, a socket and a disk image.

pub mod bench_test;
mod budgets;
pub mod client_test;
mod clock;
mod command;
mod failure;
pub mod flame;
pub mod guest;
pub mod lab;
pub mod mutants;
pub mod program;
pub mod race;
pub mod raid_race;
mod repository;
pub mod scale;
mod servers;
pub mod setup;
mod temporary;
pub mod test;
pub mod tidy;
mod totals;
mod track;

pub use failure::{Failure, Result};
pub use repository::Repository;
pub use totals::Totals;
