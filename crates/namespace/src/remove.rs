//! Removing names: REMOVE and RMDIR.

use runtime::sync::Permit;
use vfs::{Credentials, FileKind, FsError, Name, ObjectId};

use crate::access::{self, EXECUTE, WRITE};
use crate::call::{Call, FIRST};
use crate::{Namespace, Object, Store};

impl<S: Store> Namespace<S> {
    pub(crate) async fn do_remove(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<(), FsError> {
        let parent = self.open_directory_to_change(call, FIRST, directory).await?;
        self.check_writable(&[&parent])?;
        if name.is_dot_or_dot_dot() {
            return Err(FsError::Invalid);
        }
        if self.is_snapshots_name(name.as_bytes()) {
            return Err(FsError::ReadOnly);
        }
        access::check(who, &parent.attributes(), EXECUTE)?;
        self.with_place(async |place| self.try_remove(call, who, &parent, name, place).await).await
    }

    /// One attempt of REMOVE. False if the file must be freed in steps and has no place for that.
    async fn try_remove(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        parent: &S::Node,
        name: &Name,
        place: Option<Permit>,
    ) -> Result<bool, FsError> {
        let ([node], _held) = self.lock_names(call, [(parent, name)]).await?;
        let node = node.ok_or(FsError::NoEntry)?;
        self.check_removal(who, parent, &node)?;
        if node.kind() == FileKind::Directory {
            return Err(FsError::IsDirectory);
        }
        let mut update = self.store.begin(who);
        self.store.give_place(&mut update, place);
        self.store.drop_entry(&mut update, parent, name).await?;
        if !self.drop_name(&mut update, &node).await? {
            return Ok(false);
        }
        self.entries_changed(&mut update, parent);
        self.apply(call, update).await?;
        Ok(true)
    }

    /// Repeats an attempt that may need a place for a change in steps, and waits for one between
    /// two attempts, under no lock: other calls in the same directory do not wait for it.
    pub(crate) async fn with_place(
        &self,
        mut attempt: impl AsyncFnMut(Option<Permit>) -> Result<bool, FsError>,
    ) -> Result<(), FsError> {
        let mut place = None;
        while !attempt(place.take()).await? {
            place = Some(self.store.place_for_steps().await?);
        }
        Ok(())
    }

    pub(crate) async fn do_rmdir(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<(), FsError> {
        let parent = self.open_directory_to_change(call, FIRST, directory).await?;
        self.check_writable(&[&parent])?;
        match name.as_bytes() {
            b"." => return Err(FsError::Invalid),
            b".." => return Err(FsError::NotEmpty),
            name if self.is_snapshots_name(name) => return Err(FsError::ReadOnly),
            _ => {}
        }
        access::check(who, &parent.attributes(), EXECUTE)?;
        self.settle_names(call, &parent, name).await?;
        self.with_place(async |place| self.try_rmdir(call, who, &parent, name, place).await).await
    }

    /// RMDIR, as [`Namespace::try_remove`].
    async fn try_rmdir(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        parent: &S::Node,
        name: &Name,
        place: Option<Permit>,
    ) -> Result<bool, FsError> {
        let ([node], _held) = self.lock_names(call, [(parent, name)]).await?;
        let node = node.ok_or(FsError::NoEntry)?;
        self.check_removal(who, parent, &node)?;
        if node.kind() != FileKind::Directory {
            return Err(FsError::NotDirectory);
        }
        if !self.store.is_empty(&node).await? {
            return Err(FsError::NotEmpty);
        }
        let mut update = self.store.begin(who);
        self.store.give_place(&mut update, place);
        self.store.drop_entry(&mut update, parent, name).await?;
        if !self.store.destroy(&mut update, &node).await? {
            return Ok(false);
        }
        self.store.drop_link(&mut update, parent);
        self.entries_changed(&mut update, parent);
        self.apply(call, update).await?;
        Ok(true)
    }

    /// Where a crash may have left a second name of a directory, waits until it has none.
    pub(crate) async fn settle_names(
        &self,
        call: &mut Call<S::Node>,
        parent: &S::Node,
        name: &Name,
    ) -> Result<(), FsError> {
        if !self.store.may_have_second_names() {
            return Ok(());
        }
        match self.peek(call, parent, name).await? {
            Some(node) => self.store.settle_names(&node).await,
            None => Ok(()),
        }
    }

    /// Checks whether `who` may remove the name of `node` from `parent`.
    pub(crate) fn check_removal(
        &self,
        who: &Credentials,
        parent: &S::Node,
        node: &S::Node,
    ) -> Result<(), FsError> {
        let directory = parent.attributes();
        parent.protection().check_entry_taken()?;
        node.protection().check_name_taken()?;
        access::check(who, &directory, WRITE | EXECUTE)?;
        access::check_sticky(who, &directory, &node.attributes())
    }

    /// Drops a name of a file other than a directory. False as [`Store::destroy`].
    pub(crate) async fn drop_name(
        &self,
        update: &mut S::Update,
        node: &S::Node,
    ) -> Result<bool, FsError> {
        if node.attributes().nlink <= 1 {
            return self.store.destroy(update, node).await;
        }
        self.store.drop_link(update, node);
        self.links_changed(update, node);
        Ok(true)
    }
}
