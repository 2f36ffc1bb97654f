//! Disks that are plugged in and are no members: they were, or others have taken their places.
//!
//! The members ask them for what they lack ([`crate::sources`]). Nobody waits for them for long:
//! such a disk may hang, and be out for that. One that gave no answer is not asked again for a
//! while, and one that does not close is left alone.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use futures::future::select;

use crate::members::Members;
use crate::watch::address_of;

/// A source that did not answer is not asked again for so long.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(300);
/// A disk that is no member is waited for so long when it is closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

impl Members {
    /// A disk is there that is no member, and was one of this slot: it is asked for what the
    /// members cannot give.
    pub(crate) fn has_stranger(&self, slot: usize, device: Rc<dyn BlockDevice>) {
        self.strangers.borrow_mut().push((slot, device));
    }

    /// Such a disk is to have another use.
    pub(crate) async fn release(&self, device: &Rc<dyn BlockDevice>) {
        let is_it = |(_, it): &(usize, Rc<dyn BlockDevice>)| Rc::ptr_eq(it, device);
        self.strangers.borrow_mut().retain(|it| !is_it(it));
        self.close_outsider(device).await;
    }

    /// A disk that is no member did not answer: it is not asked again for a while.
    pub(crate) fn give_up(&self, device: &Rc<dyn BlockDevice>) {
        self.given_up.borrow_mut().insert(address_of(device), self.clock.now());
    }

    /// Whether that was not long ago.
    pub(crate) fn is_given_up(&self, device: &Rc<dyn BlockDevice>) -> bool {
        let since = self.given_up.borrow().get(&address_of(device)).copied();
        since.is_some_and(|since| self.clock.now().since(since) < ASK_AGAIN_AFTER)
    }

    /// Such disks of a slot.
    pub(crate) fn strangers(&self, slot: usize) -> Vec<Rc<dyn BlockDevice>> {
        let strangers = self.strangers.borrow();
        let of_slot = strangers.iter().filter(|(of, _)| *of == slot);
        of_slot.map(|(_, device)| device.clone()).collect()
    }

    /// Closes the device of a slot whose member is out, if there is one.
    pub(crate) async fn let_go(&self, slot: usize) {
        let is_out = !self.has(slot) && self.coming() != Some(slot);
        let device = is_out.then(|| self.devices.borrow_mut()[slot].take()).flatten();
        if let Some(device) = device {
            self.close_outsider(&device).await;
        }
    }

    /// Closes a disk that is not used any more. One that hangs is waited for only for a while.
    pub(crate) async fn close_outsider(&self, device: &Rc<dyn BlockDevice>) {
        select(device.close(), pin!(self.clock.sleep(CLOSE_PATIENCE))).await;
    }
}
