//! SETATTR: the rules of chmod, chown, truncate and utimes.

use vfs::{
    Attributes, Credentials, FileKind, FsError, ObjectId, SetAttributes, SetTime, Timestamp,
};

use crate::access::{self, SET_GID, SET_UID, WRITE};
use crate::call::{Call, FIRST};
use crate::planted::{Bug, is_planted};
use crate::{AttributeChange, Namespace, Object, Store};

impl<S: Store> Namespace<S> {
    pub(crate) async fn do_setattr(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        id: ObjectId,
        changes: SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<(), FsError> {
        let node = self.open_to_change(call, FIRST, id).await?;
        self.check_writable(&[&node])?;
        self.change_attributes(call, who, &node, changes, guard).await
    }

    /// Sets attributes of a file; takes its lock.
    pub(crate) async fn change_attributes(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        node: &S::Node,
        changes: SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<(), FsError> {
        let held = self.lock_all(call, &[node]).await?;
        let _held = (!is_planted(Bug::DroppedLock)).then_some(held);
        let now = node.attributes();
        if guard.is_some_and(|time| time != now.ctime) {
            return Err(FsError::NotSync);
        }
        if changes != SetAttributes::default() {
            node.protection().check_attributes()?;
        }
        let change = self.resolve(who, &now, &changes)?;
        if let Some(size) = changes.size {
            check_size(who, &now, size, self.store.fsinfo().max_file_size)?;
            return self.resize(call, who, node, size, &change).await;
        }
        if changes != SetAttributes::default() {
            let mut update = self.store.begin(who);
            self.store.set_attributes(&mut update, node, &change);
            self.apply(call, update).await?;
        }
        Ok(())
    }

    async fn resize(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        node: &S::Node,
        size: u64,
        change: &AttributeChange,
    ) -> Result<(), FsError> {
        self.as_space_comes(async || self.store.resize(who, node, size, change, call).await).await
    }

    /// The changes that `who` may make among those requested, with their consequences.
    pub(crate) fn resolve(
        &self,
        who: &Credentials,
        now: &Attributes,
        changes: &SetAttributes,
    ) -> Result<AttributeChange, FsError> {
        let time = self.store.now();
        let mut change = AttributeChange { ctime: Some(time), ..Default::default() };
        let mut mode = now.mode;
        if let Some(new) = changes.mode {
            access::check_owner(who, now)?;
            mode = new & 0o7777;
            let gid = changes.gid.unwrap_or(now.gid);
            if !who.is_root() && !who.in_group(gid) {
                mode &= !SET_GID;
            }
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            check_chown(who, now, changes)?;
            change.uid = changes.uid;
            change.gid = changes.gid;
            if !who.is_root() && now.kind != FileKind::Directory {
                mode &= !(SET_UID | SET_GID);
            }
        }
        if changes.size.is_some() && !who.is_root() {
            mode &= !(SET_UID | SET_GID);
        }
        change.mode = (mode != now.mode || changes.mode.is_some()).then_some(mode);
        change.atime = set_time(who, now, changes.atime, time)?;
        change.mtime = set_time(who, now, changes.mtime, time)?;
        Ok(change)
    }
}

/// Only the superuser gives files away; owners may give them to a group of theirs.
fn check_chown(
    who: &Credentials,
    now: &Attributes,
    changes: &SetAttributes,
) -> Result<(), FsError> {
    if who.is_root() {
        return Ok(());
    }
    let keeps_owner = changes.uid.is_none_or(|uid| uid == now.uid);
    let own_group = changes.gid.is_none_or(|gid| gid == now.gid || who.in_group(gid));
    if who.uid == now.uid && keeps_owner && own_group { Ok(()) } else { Err(FsError::NotOwner) }
}

/// The owner sets any time; a caller that may write sets the time to now.
fn set_time(
    who: &Credentials,
    now: &Attributes,
    wish: Option<SetTime>,
    time: Timestamp,
) -> Result<Option<Timestamp>, FsError> {
    match wish {
        None => Ok(None),
        Some(SetTime::To(to)) => {
            access::check_owner(who, now)?;
            Ok(Some(to))
        }
        Some(SetTime::Now) => {
            if access::check_owner(who, now).is_err() {
                access::check(who, now, WRITE)?;
            }
            Ok(Some(time))
        }
    }
}

fn check_size(who: &Credentials, now: &Attributes, size: u64, largest: u64) -> Result<(), FsError> {
    match now.kind {
        FileKind::Regular => {}
        FileKind::Directory => return Err(FsError::IsDirectory),
        _ => return Err(FsError::Invalid),
    }
    access::check_data(who, now, WRITE)?;
    if size > largest { Err(FsError::FileTooLarge) } else { Ok(()) }
}
