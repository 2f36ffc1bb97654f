//! The interface between an engine and the kit.

use runtime::Runtime;
use sim::Executor;
use vnode::Engine;

use crate::volume::Volume;

/// An engine with its disks.
pub trait Bench {
    /// The engine.
    type Engine: Engine;
    /// Running disks.
    type Disks;
    /// The recorded events of the disks, for cuts.
    type Recording;
    /// A moment for a power cut, with a loss of pending writes.
    type Cut;

    /// Bytes of a block of a file.
    fn block_size(&self) -> u64;

    /// Disks with a new volume.
    async fn make(&self, executor: &Executor) -> Self::Disks;

    /// Opens the volume.
    ///
    /// # Errors
    /// Why it does not open.
    async fn open(
        &self,
        runtime: Runtime,
        disks: &Self::Disks,
    ) -> Result<Volume<Self::Engine>, String>;

    /// Starts recording the events of the disks.
    fn record(&self, disks: &Self::Disks);

    /// Notes that an actor has received the answer to its step of this number, from 1.
    fn acknowledge(&self, disks: &Self::Disks, actor: u64, step: usize);

    /// The recording so far.
    fn recording(&self, disks: &Self::Disks) -> Self::Recording;

    /// Random cuts, in the order of their moments.
    fn cuts(&self, recording: &Self::Recording, seed: u64, count: u64) -> Vec<Self::Cut>;

    /// Describes a cut in reports.
    fn label(&self, cut: &Self::Cut) -> String;

    /// Number of steps of an actor that were acknowledged before a cut.
    fn acknowledged(&self, recording: &Self::Recording, cut: &Self::Cut, actor: u64) -> usize;

    /// The disks after a cut, under an executor of their own.
    ///
    /// # Errors
    /// The failure, if the recovery was cut as well.
    fn left(&self, cut: &Self::Cut) -> Result<(Executor, Self::Disks), String>;

    /// The disks of a stopped volume, under an executor of their own.
    fn stopped(&self, disks: &Self::Disks) -> (Executor, Self::Disks);

    /// Judges the disks of a stopped volume. `name` is for files beside it.
    ///
    /// # Errors
    /// The violation.
    fn judge(&self, disks: &Self::Disks, name: &str) -> Result<(), String>;
}
