//! Replies that wait for the disk: sequences, receipts, sealed and durable values. And replies that
//! do not wait, of volumes that an administrator has declared *delayed*.
//!
//! Invariants:
//! 1. A [`Durable`] is made by [`Sealed::open`] alone, after its receipt came through, or from a
//!    part of another one. An [`Accepted`] is made by [`Sealed::accept`] alone, which takes the
//!    declaration.
//! 2. No change that a reply depends on is ever dropped: a set that is full becomes everything up
//!    to its largest sequence.
//!
//! Not asserted: 1, which the private fields of the types keep.

use std::rc::Rc;

use futures::future::LocalBoxFuture;

/// The place of an Update in the order of a volume. 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// The changes that a reply depends on: all up to a sequence, and a few single ones.
///
/// Where changes become durable in their order, all up to the largest is as good as each, and
/// nothing else is noted. Where they do not, a reply that waited for all would wait for changes
/// that it does not show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depends {
    through: Sequence,
    /// The first `count` are the single changes, all above `through`.
    each: [Sequence; MOST_EACH],
    count: u8,
}

/// Changes that are noted singly.
const MOST_EACH: usize = 4;

impl Depends {
    /// No changes.
    pub const NOTHING: Self =
        Self { through: Sequence(0), each: [Sequence(0); MOST_EACH], count: 0 };

    /// All changes up to `sequence`.
    pub const fn through(sequence: Sequence) -> Self {
        Self { through: sequence, ..Self::NOTHING }
    }

    /// A single change.
    pub fn on(sequence: Sequence) -> Self {
        let mut on = Self::NOTHING;
        on.add(sequence);
        on
    }

    /// Adds a change.
    pub fn add(&mut self, sequence: Sequence) {
        let each = &self.each[..usize::from(self.count)];
        if sequence <= self.through || each.contains(&sequence) {
            return;
        }
        if each.len() == MOST_EACH {
            *self = Self::through(self.newest().max(sequence));
            return;
        }
        self.each[usize::from(self.count)] = sequence;
        self.count += 1;
    }

    /// Adds all changes that another reply depends on.
    pub fn join(&mut self, other: &Self) {
        self.through = self.through.max(other.through);
        if self.count == 0 && other.count == 0 {
            return; // the usual case
        }
        let through = self.through;
        self.retain(|sequence| sequence > through);
        for &sequence in &other.each[..usize::from(other.count)] {
            self.add(sequence);
        }
        let (newest, through) = (self.newest() >= other.newest(), self.through >= through);
        debug_assert!(newest && through, "invariant 2: nothing is dropped of what is joined");
    }

    /// Keeps only the single changes for which `keeps` holds.
    pub fn retain(&mut self, keeps: impl Fn(Sequence) -> bool) {
        let mut left = Self::through(self.through);
        for &sequence in self.each() {
            if keeps(sequence) {
                left.add(sequence);
            }
        }
        *self = left;
    }

    /// The sequence up to which it depends on all changes.
    pub fn all_through(&self) -> Sequence {
        self.through
    }

    /// The single changes.
    pub fn each(&self) -> &[Sequence] {
        &self.each[..usize::from(self.count)]
    }

    /// The newest change.
    pub fn newest(&self) -> Sequence {
        self.each().iter().copied().fold(self.through, Sequence::max)
    }
}

/// Staged changes do not become durable. Either the volume has stopped, and answers nothing until
/// it is reopened; or there is no room below its disk, and earlier replies can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a change does not become durable: a write to the volume's disk failed or was refused")]
pub struct Lost;

/// Knows which changes are durable: the policy of an engine.
pub trait Ledger {
    /// Completes when each of these changes is on stable storage, or one never will be.
    fn durable(&self, on: Depends) -> LocalBoxFuture<'static, Result<(), Lost>>;

    /// Whether they are durable already, without waiting.
    fn is_durable(&self, on: &Depends) -> Result<bool, Lost>;
}

/// The right to learn when changes are durable.
#[derive(Clone)]
pub struct Receipt {
    ledger: Rc<dyn Ledger>,
    on: Depends,
}

impl Receipt {
    /// A receipt of `ledger` for these changes.
    pub fn new(ledger: Rc<dyn Ledger>, on: Depends) -> Self {
        Self { ledger, on }
    }

    /// Whether the changes are durable, so that there is nothing to wait for.
    pub fn has_come(&self) -> bool {
        self.ledger.is_durable(&self.on) == Ok(true)
    }

    /// Waits until the changes are durable.
    pub async fn wait(self) -> Result<(), Lost> {
        if self.ledger.is_durable(&self.on)? {
            return Ok(());
        }
        self.ledger.durable(self.on).await
    }
}

/// A reply that is fixed and must not be seen yet.
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

    /// Changes the value inside without revealing it.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Sealed<U> {
        Sealed { value: change(self.value), receipt: self.receipt }
    }

    /// Waits until the receipt comes through, or never will. The value stays sealed.
    pub async fn settled(&self) {
        let _ = self.receipt.clone().wait().await; // `open` reports the result
    }

    /// Takes the reply as it is, without waiting.
    ///
    /// # Errors
    /// [`Lost`] when it is known that the changes that it shows will never be durable.
    pub fn accept(self, _declared: Delayed) -> Result<Accepted<T>, Lost> {
        self.receipt.ledger.is_durable(&self.receipt.on)?;
        Ok(Accepted(self.value)) // invariant 1
    }

    /// Waits for the receipt.
    ///
    /// # Errors
    /// [`Lost`] when the volume stopped; the value is gone, since it may show changes that never
    /// were.
    pub async fn open(self) -> Result<Durable<T>, Lost> {
        self.receipt.wait().await?;
        Ok(Durable(self.value)) // invariant 1
    }
}

/// The declaration of an administrator that a crash may lose acknowledged changes of a volume,
/// except those that a client asks to be made durable. Architecture invariant: only the rules of
/// exports make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delayed(());

impl Delayed {
    /// The declaration, made by the rules of an export.
    pub fn declared() -> Self {
        Self(())
    }
}

/// A reply that was given without waiting for the disk: a crash may take back the changes it shows.
#[derive(Debug)]
pub struct Accepted<T>(T);

impl<T> Accepted<T> {
    /// Takes the value out, to be encoded.
    pub fn into_inner(self) -> T {
        self.0
    }
}

/// A reply of which every part is on stable storage.
#[derive(Debug)]
pub struct Durable<T>(T);

impl<T> Durable<T> {
    /// Takes the value out, to be encoded.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// Changes the value; a durable value stays durable.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Durable<U> {
        Durable(change(self.0))
    }
}

impl<T> Durable<Vec<T>> {
    /// The elements, each durable by itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn on(sequences: &[u64]) -> Depends {
        let mut depends = Depends::NOTHING;
        sequences.iter().for_each(|&sequence| depends.add(Sequence(sequence)));
        depends
    }

    fn shown(depends: &Depends) -> (u64, Vec<u64>) {
        let mut each: Vec<u64> = depends.each().iter().map(|sequence| sequence.0).collect();
        each.sort_unstable();
        (depends.all_through().0, each)
    }

    #[test]
    fn a_few_changes_are_noted_by_themselves_and_each_once() {
        assert_eq!(shown(&on(&[7, 3, 7, 9, 3])), (0, vec![3, 7, 9]));
        assert_eq!(on(&[7, 3, 9]).newest(), Sequence(9));
        assert_eq!(shown(&Depends::on(Sequence(0))), (0, vec![]), "before the first is nothing");
    }

    #[test]
    fn more_than_a_few_become_all_up_to_the_largest() {
        assert_eq!(shown(&on(&[5, 2, 9, 4])), (0, vec![2, 4, 5, 9]));
        assert_eq!(shown(&on(&[5, 2, 9, 4, 7])), (9, vec![]));
        assert_eq!(shown(&on(&[5, 2, 9, 4, 7, 8, 11])), (9, vec![11]));
    }

    #[test]
    fn joined_they_depend_on_all_that_each_did() {
        let mut both = on(&[3, 8]);
        both.join(&Depends::through(Sequence(5)));
        assert_eq!(shown(&both), (5, vec![8]), "what is below is covered");
        both.join(&on(&[4, 6, 8]));
        assert_eq!(shown(&both), (5, vec![6, 8]));
        both.join(&on(&[10, 12, 14]));
        assert_eq!(shown(&both), (14, vec![]), "nothing is dropped");
        let mut in_order = Depends::through(Sequence(3));
        in_order.join(&Depends::through(Sequence(2)));
        assert_eq!(shown(&in_order), (3, vec![]));
    }

    #[test]
    fn what_is_durable_need_not_be_kept() {
        let mut depends = on(&[3, 8, 9]);
        depends.retain(|sequence| sequence > Sequence(3));
        assert_eq!(shown(&depends), (0, vec![8, 9]));
    }
}
