//! Moves blocks of files to other places, where an engine wants them elsewhere.
//!
//! Nothing that callers see changes, so no reply waits for such a change. It is planned under the
//! lock of the file, which is lent while the device writes, as in write-back: callers that read or
//! write UNSTABLE data go on meanwhile, and when the change is applied no reader is on its way to
//! the old places any more.

use std::pin::pin;

use futures::future::{Either, select};
use runtime::sync::Lock;
use vfs::{FsError, Sequence};

use crate::engine::{Engine, File, Plan, Space};
use crate::files::Files;

impl<E: Engine> Files<E> {
    /// Moves blocks of a file to the places that `plan` finds for them, unless `is_ended` completes
    /// before the file's lock is there.
    ///
    /// # Errors
    /// [`FsError::Stale`] when the file has gone, [`FsError::Jukebox`] when `is_ended` completed;
    /// those of `plan`, of [`Engine::write_blocks`] and of [`Engine::reserve`].
    pub async fn relocate(
        &self,
        ino: u64,
        is_ended: impl Future<Output = ()>,
        plan: impl AsyncFnOnce(&mut E::Update, &File<E>) -> Result<E::Payload, FsError>,
    ) -> Result<Sequence, FsError> {
        let node = self.node_of(ino).await?;
        let alone = match select(pin!(node.lock.exclusive()), pin!(is_ended)).await {
            Either::Left((alone, _)) => alone,
            Either::Right(_) => return Err(FsError::Jukebox),
        };
        if node.is_dead() {
            return Err(FsError::Stale);
        }
        // The space that it takes comes back: tasks that find no room wait for that.
        let _writing = self.begin_write_back();
        let mut change = self.plan(Space::Superuser);
        let manner = change.update.manner();
        (manner.is_unasked, manner.may_wait_for_batch) = (true, true);
        let payload = plan(&mut change.update, &node).await?;
        let lent = Lock::lend(alone);
        let written = self.engine.write_blocks(&mut change.update, payload).await;
        let written = written.map(|_| change); // if it failed, its space is given back at once
        let _alone = lent.reclaim().await;
        Ok(self.apply(self.reserve(written?).await?, &mut ()))
    }
}
