//! Disks that are plugged in but are not members: former members, and disks that were replaced.
//!
//! The members ask them for blocks that they lack ([`crate::sources`]). Every wait for such a disk
//! is bounded, because it may be out for hanging. A disk that did not answer is not asked again for
//! a while, and one that does not close is abandoned.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, IoError};
use futures::future::{Either, select};

use crate::label::Label;
use crate::labels::{Read, read_labels};
use crate::members::Members;
use crate::sources::SOURCE_PATIENCE;
use crate::watch::address_of;

/// Time before a source that did not answer is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(300);
/// Time to wait for a disk that is not a member to close.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

impl Members {
    /// Adds a present disk that used to be a member of this slot, as a source of blocks that the
    /// members cannot give.
    pub(crate) fn has_stranger(&self, slot: usize, device: Rc<dyn BlockDevice>) {
        self.strangers.borrow_mut().push((slot, device));
    }

    /// Closes such a disk so that it can be used for something else.
    pub(crate) async fn release(&self, device: &Rc<dyn BlockDevice>) {
        let is_it = |(_, it): &(usize, Rc<dyn BlockDevice>)| Rc::ptr_eq(it, device);
        self.strangers.borrow_mut().retain(|it| !is_it(it));
        self.close_outsider(device).await;
    }

    /// Reads from a disk that may not be a member. `None` if it does not answer: it is not asked
    /// again for a while, since each block would take as long.
    pub(crate) async fn ask(
        &self,
        device: &Rc<dyn BlockDevice>,
        at: u64,
        room: Buffer,
    ) -> Option<Result<Buffer, IoError>> {
        self.in_time(device, device.read(at, room)).await
    }

    /// The label of a disk that may not be a member, if it has one and nothing has overwritten it.
    pub(crate) async fn ask_label(&self, device: &Rc<dyn BlockDevice>) -> Option<Label> {
        match self.in_time(device, read_labels(&**device)).await? {
            Ok(Read { label, is_overwritten: false, .. }) => Some(label),
            _ => None,
        }
    }

    /// The answer of a disk that may not be a member. `None` if it does not answer.
    async fn in_time<T>(
        &self,
        device: &Rc<dyn BlockDevice>,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let since = self.given_up.borrow().get(&address_of(device)).copied();
        if since.is_some_and(|since| self.clock.now().since(since) < ASK_AGAIN_AFTER) {
            return None;
        }
        match select(pin!(answer), pin!(self.clock.sleep(SOURCE_PATIENCE))).await {
            Either::Left((answer, _)) => Some(answer),
            Either::Right(_) => {
                self.given_up.borrow_mut().insert(address_of(device), self.clock.now());
                None
            }
        }
    }

    /// The present disks of a slot that are not members.
    pub(crate) fn strangers(&self, slot: usize) -> Vec<Rc<dyn BlockDevice>> {
        let strangers = self.strangers.borrow();
        let of_slot = strangers.iter().filter(|(of, _)| *of == slot);
        of_slot.map(|(_, device)| device.clone()).collect()
    }

    /// Closes the device of a slot whose member is out, if it has one.
    pub(crate) async fn let_go(&self, slot: usize) {
        let is_out = !self.has(slot) && self.coming() != Some(slot);
        let device = is_out.then(|| self.devices.borrow_mut()[slot].take()).flatten();
        if let Some(device) = device {
            self.close_outsider(&device).await;
        }
    }

    /// Closes a disk that is no longer used, with a bounded wait in case it hangs.
    pub(crate) async fn close_outsider(&self, device: &Rc<dyn BlockDevice>) {
        select(device.close(), pin!(self.clock.sleep(CLOSE_PATIENCE))).await;
    }
}
