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
        if node.is_dead() {
            call.saw_sequence(self.store.gone_sequence(id.ino.0));
            return Err(FsError::Stale);
        }
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
        let node = self.open(call, id).await?;
        call.about(FIRST, &node);
        self.check_writable()?;
        check_regular(&node)?;
        let alone = self.lock_all(call, &[&node]).await?;
        let _alone = (!is_planted(Bug::UnlockedWrites)).then_some(alone);
        let now = node.attributes();
        access::check_data(who, &now, WRITE)?;
        let length: usize = data.iter().map(Bytes::len).sum();
        let end = offset.checked_add(length as u64).ok_or(FsError::FileTooLarge)?;
        if end > self.store.fsinfo().max_file_size {
            return Err(FsError::FileTooLarge);
        }
        let verifier = self.store.verifier();
        let count = length as u32;
        if length == 0 {
            return Ok(Written { count, committed: stability, verifier });
        }
        call.before();
        let result = self.write_under_lock(who, &node, offset, &data, stability).await;
        call.after(node.sequence());
        let committed = result?;
        Ok(Written { count, committed, verifier })
    }

    async fn write_under_lock(
        &self,
        who: &Credentials,
        node: &S::Node,
        offset: u64,
        data: &[Bytes],
        stability: Stability,
    ) -> Result<Stability, FsError> {
        let mode = node.attributes().mode;
        if mode & (SET_UID | SET_GID) != 0 && !who.is_root() {
            // Who rewrites a program must not run it as somebody else.
            let mut update = self.store.begin(who);
            let change = AttributeChange {
                mode: Some(mode & !(SET_UID | SET_GID)),
                ctime: Some(self.store.now()),
                ..Default::default()
            };
            self.store.set_attributes(&mut update, node, &change);
            self.store.commit(self.store.reserve(update).await?, &mut ());
        }
        loop {
            match self.store.write(who, node, offset, data, stability).await {
                Err(FsError::NoSpace) if self.store.wait_for_space().await => {}
                other => return other,
            }
        }
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
        let _alone = self.lock_all(call, &[&node]).await?;
        let now = node.attributes();
        if access::check_data(who, &now, WRITE).is_err() {
            access::check_data(who, &now, READ)?;
        }
        call.before();
        let result = self.store.land(&node, offset, count.into()).await;
        call.after(node.sequence());
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
        let node = self.open(call, id).await?;
        call.about(FIRST, &node);
        if node.kind() != FileKind::Symlink {
            return Err(FsError::Invalid);
        }
        let _shared = node.lock().shared().await;
        self.store.link_target(&node).await
    }
}

/// Data belongs to regular files.
fn check_regular<N: Object>(node: &N) -> Result<(), FsError> {
    match node.kind() {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid),
    }
}
