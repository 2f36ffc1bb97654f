//! LOOKUP and READDIR.

use vfs::{Credentials, DirectoryEntry, Entries, FileKind, Found, FsError, Ino, Name, ObjectId};

use crate::access::{self, EXECUTE, READ};
use crate::call::{Call, FIRST};
use crate::locks::without_file;
use crate::planted::{Bug, is_planted};
use crate::snapshots::SNAPSHOTS_COOKIE;
use crate::{Listed, Namespace, Object, SNAPSHOTS_NAME, Store};

impl<S: Store> Namespace<S> {
    pub(crate) async fn do_lookup(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Found, FsError> {
        let parent = self.open_directory(call, directory).await?;
        call.about(FIRST, &parent);
        access::check(who, &parent.attributes(), EXECUTE)?;
        if self.is_snapshots_name(name.as_bytes()) && directory.is_live() {
            return Box::pin(self.find_listing(call, &parent)).await;
        }
        if self.is_above_root(&parent, name.as_bytes()) {
            return Ok(Box::pin(self.above_root(call)).await?.found());
        }
        let _shared = parent.lock().shared().await;
        let found = self.number_under_lock(call, &parent, name).await;
        self.see_held(call, &parent)?;
        let ino = found?.ok_or(FsError::NoEntry)?;
        let peek = self.store.peek(&parent, ino).await;
        self.see_held(call, &parent)?;
        let peek = peek.map_err(without_file)?;
        call.peeked(&peek);
        let is_directory = peek.attributes.kind == FileKind::Directory;
        if name.is_dot_or_dot_dot() && !is_directory && !is_planted(Bug::AnyParent) {
            return Err(FsError::Corrupt);
        }
        Ok(Found { id: peek.id, attributes: peek.attributes })
    }

    pub(crate) async fn do_readdir(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        (attributes, accept): (bool, &mut dyn FnMut(&DirectoryEntry) -> bool),
    ) -> Result<Entries, FsError> {
        let parent = self.open_directory(call, directory).await?;
        call.about(FIRST, &parent);
        access::check(who, &parent.attributes(), READ)?;
        let _shared = parent.lock().shared().await;
        self.see_alive(call, &parent)?;
        let mut found = Entries::default();
        let (mut cookie, mut steps) = (cookie, self.store.walks().begin());
        loop {
            let listed = self.store.list(&parent, cookie, &mut steps).await;
            self.see_held(call, &parent)?;
            let listed = listed?;
            if listed.is_empty() {
                found.eof = true;
                if self.lists_snapshots(&parent) && cookie < SNAPSHOTS_COOKIE {
                    let listing = self.listing_of(call, parent.clone())?;
                    let entry = listing.entry(SNAPSHOTS_NAME, SNAPSHOTS_COOKIE);
                    found.eof = accept(&entry);
                    found.entries.extend(found.eof.then_some(entry));
                }
                return Ok(found);
            }
            for entry in listed {
                assert!(
                    entry.cookie < SNAPSHOTS_COOKIE,
                    "invariant 2 of .snapshot: its cookie is larger"
                );
                cookie = entry.cookie;
                if self.is_snapshots_name(&entry.name) && directory.is_live() {
                    continue; // shadowed by the virtual directory
                }
                let entry = self.entry(call, &parent, entry, attributes).await?;
                if !accept(&entry) {
                    return Ok(found);
                }
                found.entries.push(entry);
            }
        }
    }

    /// An entry with its attributes; without them if its file cannot be read, so that the other
    /// entries can be listed.
    async fn entry(
        &self,
        call: &mut Call<S::Node>,
        parent: &S::Node,
        listed: Listed,
        attributes: bool,
    ) -> Result<DirectoryEntry, FsError> {
        let Listed { ino, name, cookie } = listed;
        if self.is_above_root(parent, &name) {
            return Ok(Box::pin(self.above_root(call)).await?.entry(&name, cookie));
        }
        let peek = if attributes { self.store.peek(parent, ino).await.ok() } else { None };
        if let Some(peek) = &peek {
            call.peeked(peek);
        }
        let unknown = ObjectId::live(Ino(ino), 0).within(parent.id().snapshot);
        Ok(DirectoryEntry {
            id: peek.map_or(unknown, |peek| peek.id),
            name,
            cookie,
            attributes: peek.map(|peek| peek.attributes),
        })
    }
}
