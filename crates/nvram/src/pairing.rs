//! Which NVRAM belongs to a volume as it is, and whether its content holds.
//!
//! The volume keeps a [`Pairing`] on disks of its own: the id and the generation of its NVRAM, and
//! whether the NVRAM may hold data that the disks lack (*dirty*). Each start raises the generation,
//! first on the NVRAM, then on the volume, so an interrupted start leaves the NVRAM one ahead; then
//! the NVRAM calls the start *begun*. A start without the NVRAM raises the volume's generation by
//! more than starts ever will: whatever the NVRAM has then is old. A copy that was made since the
//! last start began is not recognised.
//!
//! ```text
//!   the volume says         the NVRAM has          it is
//!   generation g            g                      its own
//!   g                       g + 1, not begun       its own
//!   g                       more, or g + 1, begun  refused: the disks are an older copy
//!   g, dirty                less, or nothing       refused: the newest data are elsewhere
//!   g, nothing dirty        less                   void: the volume was used without it
//! ```
//!
//! A volume may have two NVRAMs, each with everything. Then the volume also says which of them is
//! *called out*: it has missed a write, or a start. Its content is never read; it counts again
//! when it has been filled from the other one.
//!
//! ```text
//!   one of the two is       and the other          the volume
//!   its own, not out        its own, not out       believes both
//!                           anything else          believes the one, and calls the other out
//!   out, older, missing     the same               is refused if dirty, else needs neither
//! ```
//!
//! Invariants:
//! 1. While the NVRAM may hold something that the disks lack, the volume durably says *dirty*.
//! 2. The content of an NVRAM whose volume was used without it is never written below.
//! 3. Before anything is answered that one of two NVRAMs lacks, the volume durably calls it out.
//!
//! Not asserted: 1, 2 and 3, which `tests/it/pairs.rs` and `tests/it/twins.rs`
//! compare with a model, at every cut.
//!
//! Commit point of a start: the volume's pairing, durably of the new generation.

use std::cell::Cell;
use std::rc::Rc;

use block::IoError;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, ready};
use runtime::sync::Lock;

use crate::format::{Id, Label};
use crate::planted::{Bug, is_planted};

/// The durable knowledge that a volume has of its NVRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// The number that both share.
    pub id: Id,
    /// Grows with each start.
    pub generation: u64,
    /// Whether the NVRAM may hold data that the volume's disks lack.
    pub is_dirty: bool,
    /// Which of two NVRAMs are called out. `None` if there is one.
    pub out: Option<[bool; 2]>,
}

/// How far a generation goes ahead where the NVRAM is left behind: further than starts come, also
/// those of an NVRAM whose volume was brought back from a copy. 2^32 times of it have room.
const APART: u64 = 1 << 32;

/// Why an NVRAM does not go with the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpaired {
    /// It is not there, and holds data that the disks lack.
    #[error("it is missing, and it has data that the disks lack")]
    Missing,
    /// It belongs to another volume.
    #[error("it is the NVRAM of another volume")]
    Foreign,
    /// It is an older copy.
    #[error("it is an older copy, of start {found}, and the volume has come to start {known}")]
    Older {
        /// Its generation.
        found: u64,
        /// The generation that the volume knows.
        known: u64,
    },
    /// The other one of two has gone on without it, and is not there.
    #[error("it lacks the latest data, and the other NVRAM, which has them, cannot be used")]
    CalledOut,
    /// Both of two NVRAMs say that they are the same one.
    #[error("it is a copy of the other NVRAM")]
    Copied,
    /// The volume is older than the NVRAM: it was brought back from a copy.
    #[error("the disks are an older copy, of start {known}, and the NVRAM has come to {found}")]
    OlderVolume {
        /// Its generation.
        found: u64,
        /// The generation that the volume knows.
        known: u64,
    },
}

/// How an NVRAM goes with the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// It is the volume's own.
    Own,
    /// The volume was used without it, and needs nothing of it: its content is void.
    Void,
}

impl Pairing {
    /// Judges the label of an NVRAM that was found.
    ///
    /// # Errors
    /// [`Unpaired`].
    pub fn meet(&self, label: &Label) -> Result<Meeting, Unpaired> {
        let (known, found) = (self.generation, label.generation);
        if label.id != self.id {
            Err(Unpaired::Foreign)
        } else if found > known + u64::from(!label.is_begun) {
            Err(Unpaired::OlderVolume { found, known })
        } else if found >= known || is_planted(Bug::AnyGeneration) {
            Ok(Meeting::Own)
        } else if self.is_dirty {
            Err(Unpaired::Older { found, known })
        } else {
            Ok(Meeting::Void)
        }
    }

    /// The pairing of a start without the NVRAM.
    ///
    /// # Errors
    /// [`Unpaired::Missing`] if the NVRAM is needed, unless a person accepts the loss.
    pub fn alone(&self, accepts_loss: bool) -> Result<Self, Unpaired> {
        let is_needed = self.is_dirty && !accepts_loss;
        if is_needed { Err(Unpaired::Missing) } else { Ok(self.given_up()) }
    }

    /// The pairing after everything that only the NVRAM may hold is given up.
    pub(crate) fn given_up(&self) -> Self {
        let out = self.out.map(|_| [false; 2]); // neither has anything that another one lacks
        Self { generation: self.generation + APART, is_dirty: false, out, ..*self }
    }
}

/// An answer of the volume's disks.
type Recorded = LocalBoxFuture<'static, Result<(), IoError>>;

/// How a pairing becomes durable on the disks of the volume.
#[derive(Clone)]
pub struct Record {
    write: Rc<dyn Fn(Pairing) -> Recorded>,
    leave: Rc<dyn Fn() -> Recorded>,
}

impl Record {
    /// A pairing is written in this way.
    pub fn new(write: impl Fn(Pairing) -> Recorded + 'static) -> Self {
        Self { write: Rc::new(write), leave: Rc::new(|| ready(Ok(())).boxed_local()) }
    }

    /// Before one that says that nothing of the NVRAM is needed, this ends what else the volume has
    /// in the NVRAM's devices. Other pairings may be written meanwhile: it may wait for one that
    /// calls a memory out.
    pub fn leaving(self, leave: impl Fn() -> Recorded + 'static) -> Self {
        Self { leave: Rc::new(leave), ..self }
    }

    /// Writes a pairing.
    pub fn write(&self, pairing: Pairing) -> Recorded {
        (self.write)(pairing)
    }

    /// Ends what else the volume has in the NVRAM's devices.
    pub(crate) fn leave(&self) -> Recorded {
        (self.leave)()
    }
}

/// The volume behind an NVRAM: its pairing, and how that is recorded.
pub(crate) struct Partner {
    pairing: Cell<Pairing>,
    record: Record,
    /// Whether the last record failed: the volume may have it or not, or some of its disks.
    is_unsure: Cell<bool>,
    /// Whether the volume stands behind it no more.
    is_parted: Cell<bool>,
    /// Held by the task that records: each changes what the one before it has recorded.
    recording: Lock,
}

impl Partner {
    /// A volume with this pairing.
    pub(crate) fn new(pairing: Pairing, record: Record) -> Self {
        Self {
            pairing: Cell::new(pairing),
            record,
            is_unsure: Cell::new(false),
            is_parted: Cell::new(false),
            recording: Lock::default(),
        }
    }

    async fn leave(&self) -> Result<(), IoError> {
        if self.may_need() { self.record.leave().await } else { Ok(()) }
    }

    /// Whether the volume may say that it needs the NVRAM.
    pub(crate) fn may_need(&self) -> bool {
        self.pairing.get().is_dirty || self.is_unsure()
    }

    /// Records nothing any more.
    pub(crate) fn part(&self) {
        self.is_parted.set(true);
    }

    /// Whether nobody knows what the volume says.
    pub(crate) fn is_unsure(&self) -> bool {
        self.is_unsure.get()
    }

    async fn change(&self, change: impl FnOnce(Pairing) -> Pairing) -> Result<(), IoError> {
        let _alone = self.recording.exclusive().await;
        let pairing = change(self.pairing.get());
        let is_known = pairing == self.pairing.get() && !self.is_unsure.get();
        if is_known || self.is_parted.get() {
            return Ok(());
        }
        self.is_unsure.set(!is_planted(Bug::SureAfterFailure));
        self.record.write(pairing).await?;
        self.pairing.set(pairing);
        self.is_unsure.set(false);
        Ok(())
    }

    /// Records that what the NVRAM holds is void.
    pub(crate) async fn give_up(&self) -> Result<(), IoError> {
        self.leave().await?;
        self.change(|known| known.given_up()).await
    }

    /// Records whether the NVRAM may hold something.
    pub(crate) async fn say(&self, is_dirty: bool) -> Result<(), IoError> {
        if !is_dirty {
            self.leave().await?;
        }
        self.change(|known| Pairing { is_dirty, ..known }).await
    }

    /// Records whether one of two NVRAMs is called out, from this generation on.
    pub(crate) async fn call(
        &self,
        number: usize,
        is_out: bool,
        generation: u64,
    ) -> Result<(), IoError> {
        let call = |known: Pairing| {
            let mut out = known.out.unwrap_or_default();
            out[number] = is_out;
            let generation = known.generation.max(generation);
            Pairing { out: Some(out), generation, ..known }
        };
        self.change(call).await
    }
}
