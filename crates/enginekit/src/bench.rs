//! What an engine brings.

use runtime::Runtime;
use sim::Executor;
use vnode::Engine;

use crate::volume::Volume;

/// An engine with its disks.
pub trait Bench {
    /// The engine.
    type Engine: Engine;
    /// Disks that have power.
    type Disks;
    /// What happened to disks, so that it can be cut.
    type Recording;
    /// A moment at which the power goes, and what is left then.
    type Cut;

    /// Bytes of a block of a file.
    fn block_size(&self) -> u64;

    /// Disks with a new volume.
    async fn make(&self, executor: &Executor) -> Self::Disks;

    /// Opens the volume.
    ///
    /// # Errors
    /// Why it cannot be.
    async fn open(
        &self,
        runtime: Runtime,
        disks: &Self::Disks,
    ) -> Result<Volume<Self::Engine>, String>;

    /// What happens to the disks is recorded from now on.
    fn record(&self, disks: &Self::Disks);

    /// An actor has heard that its step of this number, from 1, is done.
    fn acknowledge(&self, disks: &Self::Disks, actor: u64, step: usize);

    /// What has happened so far.
    fn recording(&self, disks: &Self::Disks) -> Self::Recording;

    /// Random cuts, in the order of their moments.
    fn cuts(&self, recording: &Self::Recording, seed: u64, count: u64) -> Vec<Self::Cut>;

    /// How a cut is told.
    fn label(&self, cut: &Self::Cut) -> String;

    /// Steps of an actor that were acknowledged before a cut.
    fn acknowledged(&self, recording: &Self::Recording, cut: &Self::Cut, actor: u64) -> usize;

    /// The disks as a cut left them, under an executor of their own.
    ///
    /// # Errors
    /// What went wrong if the power went again.
    fn left(&self, cut: &Self::Cut) -> Result<(Executor, Self::Disks), String>;

    /// The disks of a volume that was stopped, under an executor of their own.
    fn stopped(&self, disks: &Self::Disks) -> (Executor, Self::Disks);

    /// Looks at the disks of a volume that was stopped. `name` is for files beside it.
    ///
    /// # Errors
    /// What is wrong.
    fn judge(&self, disks: &Self::Disks, name: &str) -> Result<(), String>;
}
