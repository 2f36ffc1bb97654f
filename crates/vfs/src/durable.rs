//! Answers that wait for the disk: sequences, receipts, sealed and durable values.
//!
//! Invariants:
//! 1. A [`Durable`] is made by [`Sealed::open`] alone, after its receipt came through, or of what
//!    another one holds.
//! 2. Sequences grow; a receipt for a sequence covers every lower one too.

use std::rc::Rc;

use futures::future::LocalBoxFuture;

/// The place of an Update in the order of a volume. 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// What was staged does not become durable. The volume has stopped, and answers nothing until it is
/// reopened; or there is no room below its disk, and what was answered before can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a change does not become durable: a write to the volume's disk failed or was refused")]
pub struct Lost;

/// Who knows what is durable: the policy of an engine.
pub trait Ledger {
    /// Completes when every Update up to `sequence` is on stable storage, or never will be.
    fn durable(&self, sequence: Sequence) -> LocalBoxFuture<'static, Result<(), Lost>>;

    /// Whether that is so already, without waiting.
    fn is_durable(&self, sequence: Sequence) -> Result<bool, Lost>;
}

/// The right to know when all up to a sequence is durable.
#[derive(Clone)]
pub struct Receipt {
    ledger: Rc<dyn Ledger>,
    sequence: Sequence,
}

impl Receipt {
    /// A receipt of `ledger` for everything up to `sequence`.
    pub fn new(ledger: Rc<dyn Ledger>, sequence: Sequence) -> Self {
        Self { ledger, sequence }
    }

    /// Waits until it is so.
    pub async fn wait(self) -> Result<(), Lost> {
        if self.ledger.is_durable(self.sequence)? {
            return Ok(());
        }
        self.ledger.durable(self.sequence).await
    }
}

/// An answer that is fixed and must not be seen yet.
#[must_use = "a sealed answer does nothing until it is opened"]
pub struct Sealed<T> {
    value: T,
    receipt: Receipt,
}

impl<T> Sealed<T> {
    /// Seals `value` until `receipt` comes through.
    pub fn new(value: T, receipt: Receipt) -> Self {
        Self { value, receipt }
    }

    /// Changes what is inside without looking at it from outside.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Sealed<U> {
        Sealed { value: change(self.value), receipt: self.receipt }
    }

    /// Waits until the receipt comes through, or never will. What is inside stays sealed.
    pub async fn settled(&self) {
        let _ = self.receipt.clone().wait().await; // who opens it hears how it went
    }

    /// Waits for the receipt.
    ///
    /// # Errors
    /// [`Lost`] when the volume stopped; the value is gone, since it may show what never was.
    pub async fn open(self) -> Result<Durable<T>, Lost> {
        self.receipt.wait().await?;
        Ok(Durable(self.value)) // invariant 1
    }
}

/// An answer of which every part is on stable storage.
#[derive(Debug)]
pub struct Durable<T>(T);

impl<T> Durable<T> {
    /// Takes the value out, to be encoded.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// Changes the value; what is durable stays durable.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Durable<U> {
        Durable(change(self.0))
    }
}

impl<T> Durable<Vec<T>> {
    /// Each for itself.
    pub fn each(self) -> impl Iterator<Item = Durable<T>> {
        self.0.into_iter().map(Durable)
    }
}

impl<T> std::ops::Deref for Durable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
