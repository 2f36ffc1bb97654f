//! Answers that may be sent, by the rules of the volume.
//!
//! Invariants:
//! 1. A [`Told`] is made from a durable answer, or from one that was accepted because an
//!    administrator has declared the volume delayed. Nothing else can be encoded.
//! 2. Data that a client asks to be made durable is durable before the reply, declared or not, with
//!    its names and those above it.
//! 3. Since a declaration was withdrawn no reply comes before everything acknowledged under it is
//!    durable.
//!
//! Not asserted: 1, which the private field of the type keeps; 2 and 3, which are about the order
//! of waits: the tests of `delayed` hold the disk up at each.

use vfs::{Accepted, Durable, FsError, Lost, ObjectId, Sealed};

use crate::planted::{Bug, is_planted};
use crate::refused::{Refused, status};
use crate::volume::Served;

/// An answer that may be encoded.
pub(crate) struct Told<T> {
    value: T,
    /// Whether all of it is durable.
    is_durable: bool,
}

impl<T> Told<T> {
    /// Takes the value out, to be encoded.
    pub(crate) fn into_inner(self) -> T {
        self.value
    }

    /// Changes the value, which may still be sent.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Told<U> {
        Told { value: change(self.value), is_durable: self.is_durable }
    }

    /// Whether all of it is durable.
    pub(crate) fn is_durable(&self) -> bool {
        self.is_durable
    }
}

impl<T> From<Durable<T>> for Told<T> {
    fn from(answer: Durable<T>) -> Self {
        Self { value: answer.into_inner(), is_durable: true }
    }
}

impl<T> From<Accepted<T>> for Told<T> {
    fn from(answer: Accepted<T>) -> Self {
        Self { value: answer.into_inner(), is_durable: false }
    }
}

impl Served {
    /// Opens an answer as soon as the rules of the volume allow.
    ///
    /// # Errors
    /// [`Lost`] when the changes that it shows will never be durable.
    pub(crate) async fn open<T>(&self, sealed: Sealed<T>) -> Result<Told<T>, Lost> {
        if let Some(declared) = self.delayed() {
            return self.heard(sealed.accept(declared)).map(Told::from);
        }
        self.open_durable(sealed).await
    }

    async fn open_durable<T>(&self, sealed: Sealed<T>) -> Result<Told<T>, Lost> {
        if self.owes() {
            Box::pin(self.settle()).await?; // its future makes those of all replies no larger
        }
        self.heard(sealed.open().await).map(Told::from)
    }

    /// Opens an answer that claims durability to a client.
    ///
    /// # Errors
    /// As [`Served::open`].
    pub(crate) async fn open_stable<T>(&self, sealed: Sealed<T>) -> Result<Told<T>, Lost> {
        if self.delayed().is_some() && is_planted(Bug::AcceptedCommits) {
            return self.open(sealed).await;
        }
        self.open_durable(sealed).await
    }

    /// Waits until a file is known to have a name, before a client is promised that it stays:
    /// clients of a volume that is declared delayed, or was, know files that a crash took.
    ///
    /// # Errors
    /// As [`vfs::FileSystem::ensure_named`].
    pub(crate) async fn ensure_named(&self, id: ObjectId) -> Result<(), Refused> {
        if self.delayed().is_none() && !self.owes() {
            return Ok(());
        }
        match self.file_system.ensure_named(id).await {
            Err(FsError::Stale) => Ok(()), // the call reports it, and waits for the removal
            named => named.map_err(|error| Refused::Asked(status(error))),
        }
    }

    /// Waits until everything acknowledged while the volume was declared delayed is durable, if it
    /// was.
    ///
    /// # Errors
    /// [`Lost`] when some of it will never be durable.
    pub(crate) async fn settle(&self) -> Result<(), Lost> {
        let owed = self.owed().filter(|_| !is_planted(Bug::UnsettledReturn));
        match owed {
            Some(owed) => self.heard(owed.wait().await),
            None => Ok(()),
        }
    }

    fn heard<T>(&self, answer: Result<T, Lost>) -> Result<T, Lost> {
        answer.inspect_err(|_| self.note_lost())
    }
}
