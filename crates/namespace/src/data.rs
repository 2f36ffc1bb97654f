//! READ, WRITE, COMMIT and READLINK.

use bytes::Bytes;
use vfs::{Credentials, FileKind, FsError, ObjectId, ReadData, Stability, Verifier, Written};

use crate::access::{self, READ, SET_GID, SET_UID, WRITE};
use crate::call::{Call, FIRST};
use crate::planted::{Bug, is_planted};
use crate::{AttributeChange, Namespace, Object, Store, Witness};

impl<S: Store> Namespace<S> {
    pub(crate) async fn do_read(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData, FsError> {
        let node = self.open(call, id).await?;
        call.about(FIRST, &node);
        check_regular(&node)?;
        let _shared = node.lock().shared().await;
        self.see_alive(call, &node)?;
        access::check_data(who, &node.attributes(), READ)?;
        let (data, eof) = self.store.read(&node, offset, count.into()).await?;
        Ok(ReadData { data, eof })
    }

    pub(crate) async fn do_write(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        id: ObjectId,
        (offset, data): (u64, Vec<Bytes>),
        stability: Stability,
    ) -> Result<Written, FsError> {
        let node = self.open_to_change(call, FIRST, id).await?;
        self.check_writable(&[&node])?;
        check_regular(&node)?;
        let length: usize = data.iter().map(Bytes::len).sum();
        let written = |committed, verifier| Written { count: length as u32, committed, verifier };
        if stability == Stability::Unstable {
            let borrowed = node.lock().borrowed().await;
            let _borrowed = (!is_planted(Bug::UnlockedWrites)).then_some(borrowed);
            let verifier = self.check_write(call, who, &node, offset, length as u64)?;
            if self.keep(call, who, &node, offset, &data).await? {
                return Ok(written(stability, verifier));
            }
        }
        let alone = self.lock_all(call, &[&node]).await?;
        let _alone = (!is_planted(Bug::UnlockedWrites)).then_some(alone);
        let verifier = self.check_write(call, who, &node, offset, length as u64)?;
        if length == 0 {
            return Ok(written(stability, verifier));
        }
        let data = (offset, &data[..]);
        let committed = self.write_alone(call, who, &node, data, stability).await?;
        if stability != Stability::Unstable {
            call.saw_changes(&self.moves());
        }
        Ok(written(committed, verifier))
    }

    /// The checks of every write, made under the lock. Returns the verifier for its reply: the one
    /// from before the write, so that a loss of data meanwhile shows.
    fn check_write(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        node: &S::Node,
        offset: u64,
        length: u64,
    ) -> Result<Verifier, FsError> {
        self.see_alive(call, node)?;
        let now = node.attributes();
        node.protection().check_write(offset, now.size)?;
        access::check_data(who, &now, WRITE)?;
        let end = offset.checked_add(length).ok_or(FsError::FileTooLarge)?;
        if end <= self.store.fsinfo().max_file_size {
            Ok(self.store.verifier())
        } else {
            Err(FsError::FileTooLarge)
        }
    }

    /// Keeps UNSTABLE data in memory, if nothing else has to be done; returns whether it was. The
    /// lock is borrowed.
    async fn keep(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        node: &S::Node,
        offset: u64,
        data: &[Bytes],
    ) -> Result<bool, FsError> {
        if loses_bits(who, node).is_some() || data.iter().all(Bytes::is_empty) {
            return Ok(false);
        }
        self.store.buffer_write(who, node, offset, data, call).await
    }

    /// Writes under the exclusive lock.
    async fn write_alone(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        node: &S::Node,
        data: (u64, &[Bytes]),
        stability: Stability,
    ) -> Result<Stability, FsError> {
        let change = AttributeChange { mode: loses_bits(who, node), ..Default::default() };
        let write = async || self.store.write(who, node, data, stability, &change, call).await;
        self.as_space_comes(write).await
    }

    pub(crate) async fn do_commit(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<Verifier, FsError> {
        let node = self.open(call, id).await?;
        call.about(FIRST, &node);
        check_regular(&node)?;
        if !id.is_live() {
            return Ok(self.store.verifier()); // everything in a snapshot is durable with it
        }
        let _alone = self.lock_all(call, &[&node]).await?;
        let now = node.attributes();
        if access::check_data(who, &now, WRITE).is_err() {
            access::check_data(who, &now, READ)?;
        }
        call.before();
        let result = self.store.write_back(&node, offset, count.into()).await;
        call.after(node.depends());
        call.saw_changes(&self.moves());
        result?;
        if is_planted(Bug::UnreceiptedCommits) {
            *call = Call::new();
        }
        Ok(self.store.verifier())
    }

    pub(crate) async fn do_readlink(
        &self,
        call: &mut Call<S::Node>,
        id: ObjectId,
    ) -> Result<Bytes, FsError> {
        let node = match self.open(call, id).await {
            Err(FsError::IsDirectory) => return Err(FsError::Invalid), // a `.snapshot`
            node => node?,
        };
        call.about(FIRST, &node);
        if node.kind() != FileKind::Symlink {
            return Err(FsError::Invalid);
        }
        let _shared = node.lock().shared().await;
        self.see_alive(call, &node)?;
        self.store.link_target(&node).await
    }
}

/// The mode without the bits that a write clears, if there are any: a caller that rewrites a
/// program must not run it as another user.
fn loses_bits<N: Object>(who: &Credentials, node: &N) -> Option<u16> {
    let mode = node.attributes().mode;
    let left = mode & !(SET_UID | SET_GID);
    (left != mode && !who.is_root()).then_some(left)
}

/// Only regular files have data.
fn check_regular<N: Object>(node: &N) -> Result<(), FsError> {
    match node.kind() {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid),
    }
}
