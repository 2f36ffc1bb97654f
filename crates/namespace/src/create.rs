//! Making files: CREATE, MKDIR, SYMLINK, MKNOD, and LINK.
//!
//! A new file belongs to its maker and to the group of its directory, as in UFS.

use vfs::{
    CreateHow, Credentials, Device, FileKind, Found, FsError, Name, ObjectId, SetAttributes,
};

use crate::access::{self, EXECUTE, SET_GID, WRITE};
use crate::call::{Call, FIRST, SECOND};
use crate::{AttributeChange, Namespace, NewFile, Object, Store};

/// The kind of file to make.
#[derive(Clone, Copy)]
pub(crate) enum Making<'a> {
    Directory,
    Symlink(&'a [u8]),
    Special(FileKind, Device),
}

impl<S: Store> Namespace<S> {
    /// [`FsError::Exists`] for a name that every directory has.
    fn check_new_name(&self, name: &Name) -> Result<(), FsError> {
        let is_taken = name.is_dot_or_dot_dot() || self.is_reserved_name(name.as_bytes());
        if is_taken { Err(FsError::Exists) } else { Ok(()) }
    }

    pub(crate) async fn do_create(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        how: CreateHow,
    ) -> Result<Found, FsError> {
        let parent = self.open_directory_to_change(call, FIRST, directory).await?;
        self.check_writable(&[&parent])?;
        self.check_new_name(name)?;
        let attributes = match how {
            CreateHow::Unchecked(attributes) | CreateHow::Guarded(attributes) => attributes,
            CreateHow::Exclusive(_) => SetAttributes { mode: Some(0), ..Default::default() },
        };
        if attributes.size.is_some_and(|size| size > self.store.fsinfo().max_file_size) {
            return Err(FsError::FileTooLarge); // now, since later the file would exist
        }
        loop {
            let held = parent.lock().exclusive().await;
            access::check(who, &parent.attributes(), EXECUTE)?;
            if let Some(existing) = self.find_under_lock(call, &parent, name).await? {
                drop(held);
                match self.create_existing(call, who, existing, how).await {
                    Err(FsError::Stale) => {
                        call.begin_again(); // removed meanwhile: try again
                        continue;
                    }
                    other => return other,
                }
            }
            let mut new = new_file(who, &parent, FileKind::Regular, &attributes);
            if let CreateHow::Exclusive(verifier) = how {
                new.verifier = Some(verifier);
            }
            if attributes.size.is_none_or(|size| size == 0) {
                self.add(call, who, &parent, name, (new, &attributes)).await?;
                return Ok(call.found().expect("a file was made"));
            }
            // The times are set with the size, which would change them.
            call.takes_another_step();
            let node = self.add(call, who, &parent, name, (new, &Default::default())).await?;
            drop(held);
            let later = SetAttributes { mode: None, uid: None, gid: None, ..attributes };
            self.lengthen(call, who, (&parent, name), &node, later).await?;
            return Ok(call.found().expect("a file was made"));
        }
    }

    /// Gives a new file the size that it could not be created with, and its times; or removes it if
    /// there is no space for that.
    async fn lengthen(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        (parent, name): (&S::Node, &Name),
        node: &S::Node,
        later: SetAttributes,
    ) -> Result<(), FsError> {
        call.goes_on_apart();
        match self.change_attributes(call, who, node, later, None).await {
            Err(FsError::Stale) => Ok(()), // it was made, even if it was removed since
            Err(FsError::NoSpace) => {
                call.take_back();
                self.unmake(call, who, parent, name, node).await?;
                Err(FsError::NoSpace)
            }
            other => other,
        }
    }

    /// Removes a new file that cannot be as long as requested, unless another call removed it
    /// already.
    async fn unmake(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        parent: &S::Node,
        name: &Name,
        node: &S::Node,
    ) -> Result<(), FsError> {
        self.with_place(async |place| {
            let ([found], _held) = match self.lock_names(call, [(parent, name)]).await {
                Err(FsError::Stale) => return Ok(true), // the directory is gone, and the name too
                locked => locked?,
            };
            if found.is_some_and(|found| found.id() == node.id()) {
                let mut update = self.store.begin(who);
                self.store.give_place(&mut update, place);
                self.store.drop_entry(&mut update, parent, name).await?;
                if !self.drop_name(&mut update, node).await? {
                    return Ok(false); // another call has made it longer
                }
                self.entries_changed(&mut update, parent);
                self.apply(call, update).await?;
            }
            Ok(true)
        })
        .await
    }

    /// CREATE of an existing name.
    async fn create_existing(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        node: S::Node,
        how: CreateHow,
    ) -> Result<Found, FsError> {
        let size = match how {
            CreateHow::Guarded(_) => return Err(FsError::Exists),
            CreateHow::Exclusive(verifier) => {
                if node.kind() != FileKind::Regular || !node.has_verifier(verifier) {
                    return Err(FsError::Exists);
                }
                None
            }
            CreateHow::Unchecked(attributes) => attributes.size,
        };
        match node.kind() {
            FileKind::Regular => {}
            FileKind::Directory => return Err(FsError::IsDirectory),
            _ => return Err(FsError::Exists),
        }
        call.makes(&node);
        if size.is_some() {
            call.goes_on_apart();
            let changes = SetAttributes { size, ..Default::default() };
            self.change_attributes(call, who, &node, changes, None).await?;
        }
        Ok(call.found().expect("a file was found"))
    }

    pub(crate) async fn do_make(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        making: Making<'_>,
        attributes: SetAttributes,
    ) -> Result<Found, FsError> {
        let parent = self.open_directory_to_change(call, FIRST, directory).await?;
        self.check_writable(&[&parent])?;
        let (kind, device, target) = match making {
            Making::Directory => (FileKind::Directory, Device::default(), &[][..]),
            Making::Symlink(target) => (FileKind::Symlink, Device::default(), target),
            Making::Special(kind, device) => (kind, device, &[][..]),
        };
        match kind {
            FileKind::Symlink if target.is_empty() || target.contains(&0) => {
                return Err(FsError::Invalid);
            }
            FileKind::Symlink if target.len() > self.store.max_target() => {
                return Err(FsError::NameTooLong);
            }
            FileKind::BlockDevice | FileKind::CharacterDevice if !who.is_root() => {
                return Err(FsError::NotOwner);
            }
            FileKind::Regular => return Err(FsError::BadType),
            _ => {}
        }
        self.check_new_name(name)?;
        let _held = parent.lock().exclusive().await;
        access::check(who, &parent.attributes(), EXECUTE)?;
        if self.find_under_lock(call, &parent, name).await?.is_some() {
            return Err(FsError::Exists);
        }
        let mut new = new_file(who, &parent, kind, &attributes);
        new.device = device;
        new.target = target;
        self.add(call, who, &parent, name, (new, &attributes)).await?;
        Ok(call.found().expect("a file was made"))
    }

    /// Makes a file under a new name, with the requested times. Under the parent's lock.
    async fn add(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        parent: &S::Node,
        name: &Name,
        (new, asked): (NewFile<'_>, &SetAttributes),
    ) -> Result<S::Node, FsError> {
        parent.protection().check_entry_added()?;
        access::check(who, &parent.attributes(), WRITE | EXECUTE)?;
        let times = SetAttributes { atime: asked.atime, mtime: asked.mtime, ..Default::default() };
        let attempt = async || self.try_add(call, who, parent, name, (new.clone(), &times)).await;
        self.as_space_comes(attempt).await
    }

    async fn try_add(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        parent: &S::Node,
        name: &Name,
        (new, times): (NewFile<'_>, &SetAttributes),
    ) -> Result<S::Node, FsError> {
        let mut update = self.store.begin(who);
        if new.kind == FileKind::Directory {
            self.store.add_link(&mut update, parent)?;
        }
        let node = self.store.create(&mut update, parent, new).await?;
        if *times != SetAttributes::default() {
            let change = self.resolve(who, &node.attributes(), times)?;
            self.store.set_attributes(&mut update, &node, &change);
        }
        self.store.add_entry(&mut update, parent, name, &node).await?;
        self.entries_changed(&mut update, parent);
        call.makes(&node);
        self.apply(call, update).await?;
        call.saw(&node);
        Ok(node)
    }

    /// Updates the times of a directory whose entries change.
    pub(crate) fn entries_changed(&self, update: &mut S::Update, directory: &S::Node) {
        let now = Some(self.store.now());
        let change = AttributeChange { mtime: now, ctime: now, ..Default::default() };
        self.store.set_attributes(update, directory, &change);
    }

    /// Updates the time of a file whose link count or place changes.
    pub(crate) fn links_changed(&self, update: &mut S::Update, node: &S::Node) {
        let change = AttributeChange { ctime: Some(self.store.now()), ..Default::default() };
        self.store.set_attributes(update, node, &change);
    }

    pub(crate) async fn do_link(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<(), FsError> {
        let node = self.open_to_change(call, FIRST, id).await?;
        let parent = self.open_directory_to_change(call, SECOND, directory).await?;
        self.check_writable(&[&node, &parent])?;
        if node.kind() == FileKind::Directory {
            return Err(FsError::NotOwner);
        }
        self.check_new_name(name)?;
        let _held = self.lock_all(call, &[&node, &parent]).await?;
        access::check(who, &parent.attributes(), EXECUTE)?;
        if self.store.find(&parent, name).await?.is_some() {
            return Err(FsError::Exists);
        }
        node.protection().check_name_added()?;
        parent.protection().check_entry_added()?;
        access::check(who, &parent.attributes(), WRITE)?;
        loop {
            let mut update = self.store.begin(who);
            self.store.add_link(&mut update, &node)?;
            self.links_changed(&mut update, &node);
            match self.store.add_entry(&mut update, &parent, name, &node).await {
                Err(FsError::NoSpace) if self.store.wait_for_space().await => continue,
                other => other?,
            }
            self.entries_changed(&mut update, &parent);
            self.apply(call, update).await?;
            return Ok(());
        }
    }
}

/// A new file of `who` in `parent`, with the mode bits requested that `who` may set.
fn new_file<'a, N: Object>(
    who: &Credentials,
    parent: &N,
    kind: FileKind,
    attributes: &SetAttributes,
) -> NewFile<'a> {
    let parent = parent.attributes();
    let gid = match attributes.gid {
        Some(gid) if who.is_root() || who.in_group(gid) => gid,
        _ => parent.gid,
    };
    let uid = match attributes.uid {
        Some(uid) if who.is_root() => uid,
        _ => who.uid,
    };
    let default = if kind == FileKind::Symlink { 0o777 } else { 0 };
    let mut mode = attributes.mode.unwrap_or(default) & 0o7777;
    if !who.is_root() && !who.in_group(gid) {
        mode &= !SET_GID;
    }
    NewFile { kind, mode, uid, gid, device: Device::default(), target: &[], verifier: None }
}
