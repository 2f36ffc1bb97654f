//! `.snapshot`: directories that no disk has, by which clients find the contents of snapshots.
//!
//! Each directory of a volume with snapshots has one, found by its name and listed only where that
//! is configured. It lists the names of the snapshots that hold the directory, and each names the
//! directory as it was then: `D/.snapshot/NAME` is D, under its own number and generation, in
//! another tree. Where D did not exist yet, its `.snapshot` has no such name.
//!
//! A directory in a snapshot has no `.snapshot`. There ".." names the parent in the same snapshot;
//! the ".." of its root, which has no parent, names the `.snapshot` of the live root, through which
//! a client came that goes up. ".." of D's `.snapshot` names D.
//!
//! Nothing in a snapshot changes, nor does a `.snapshot`: the verbs that would change anything are
//! refused with [`FsError::ReadOnly`], a RENAME or a LINK also when only one side is in a snapshot.
//! On a volume that may have snapshots no file is made with the name `.snapshot`
//! ([`FsError::Exists`]), whether clients find it or not. While they do, none loses it
//! ([`FsError::ReadOnly`]), and one that has had it since before there were snapshots is shadowed.
//!
//! Where snapshots are not shown at all, objects in one are stale.
//!
//! The verbs for live objects test a number and go on; they call the verbs of this module in a
//! future of its own, so that theirs are no larger.
//!
//! Invariants:
//! 1. The cookies of a `.snapshot` are those of ".", of "..", and of the numbers of snapshots, in
//!    this order, so that a listing goes on behind one that was deleted.
//! 2. The cookie of the entry `.snapshot` is larger than any that a Store gives.
//!
//! Not asserted: 2, which `list` asserts.

use bytes::Bytes;
use runtime::sync::Steps;
use vfs::{
    Access, Answer, Attributes, Device, DirectoryEntry, Entries, FileKind, Found, FsError, Name,
    ObjectId, Sealed, SnapshotNumber, SnapshotsShown,
};

use crate::call::Call;
use crate::planted::{Bug, is_planted};
use crate::{Namespace, Object, ReadySnapshots, SNAPSHOTS_NAME, Store};

/// The cookie of the entry `.snapshot` (invariant 2).
pub(crate) const SNAPSHOTS_COOKIE: u64 = 1 << 62;

/// The cookies of "." and "..": those of snapshots follow (invariant 1).
const DOT_COOKIE: u64 = 1;
const DOT_DOT_COOKIE: u64 = 2;

/// An open `.snapshot`.
pub(crate) struct Listing<N> {
    /// The directory that it belongs to.
    directory: N,
    /// Its identity.
    id: ObjectId,
    ready: ReadySnapshots,
}

impl<N: Object> Listing<N> {
    pub(crate) fn attributes(&self) -> Attributes {
        let changed = self.ready.changed;
        let within = u32::try_from(self.ready.count).unwrap_or(u32::MAX);
        Attributes {
            kind: FileKind::Directory,
            mode: 0o555,
            nlink: within.saturating_add(2),
            uid: 0,
            gid: 0,
            size: 512,
            used: 0,
            device: Device::default(),
            ino: self.id.file_id(),
            generation: self.id.generation,
            atime: changed,
            mtime: changed,
            ctime: changed,
        }
    }

    pub(crate) fn found(&self) -> Found {
        Found { id: self.id, attributes: self.attributes() }
    }

    /// The same facts, as a directory entry.
    pub(crate) fn entry(&self, name: &[u8], cookie: u64) -> DirectoryEntry {
        let name = Bytes::copy_from_slice(name);
        DirectoryEntry { id: self.id, name, cookie, attributes: Some(self.attributes()) }
    }
}

impl<S: Store> Namespace<S> {
    /// Sets where clients find snapshots from now on.
    pub(crate) fn set_shown(&self, shown: SnapshotsShown) {
        self.shown.set(shown);
    }

    /// Whether no file may be made with this name, whatever clients find: one would be in the way
    /// as soon as they find `.snapshot`.
    pub(crate) fn is_reserved_name(&self, name: &[u8]) -> bool {
        name == SNAPSHOTS_NAME && self.store.snapshots().is_some()
    }

    /// Whether clients find `.snapshot`.
    pub(crate) fn finds_snapshots(&self) -> bool {
        self.shown.get() != SnapshotsShown::Off && self.store.snapshots().is_some()
    }

    /// Whether a listing of this directory includes it.
    pub(crate) fn lists_snapshots(&self, directory: &S::Node) -> bool {
        let is_visible = self.shown.get() == SnapshotsShown::Visible;
        is_visible && directory.id().is_live() && self.finds_snapshots()
    }

    /// Whether this is the name of `.snapshot`, where clients find it.
    pub(crate) fn is_snapshots_name(&self, name: &[u8]) -> bool {
        name == SNAPSHOTS_NAME && self.finds_snapshots()
    }

    /// The directory `.snapshot` that `id` names.
    pub(crate) async fn open_listing(
        &self,
        call: &mut Call<S::Node>,
        id: ObjectId,
    ) -> Result<Listing<S::Node>, FsError> {
        self.store.check_running()?;
        if !self.finds_snapshots() {
            return Err(FsError::Stale);
        }
        let live = id.within(SnapshotNumber::LIVE);
        let node = self.store.node(live).await;
        let directory = node.inspect_err(|_| call.saw_changes(&self.store.removal(live)))?;
        self.listing_of(call, directory)
    }

    /// The `.snapshot` of a directory.
    pub(crate) fn listing_of(
        &self,
        call: &mut Call<S::Node>,
        directory: S::Node,
    ) -> Result<Listing<S::Node>, FsError> {
        call.saw(&directory);
        if directory.kind() != FileKind::Directory || directory.is_dead() {
            return Err(FsError::Stale);
        }
        let ready = self.store.ready_snapshots();
        call.saw_changes(&ready.depends);
        let id = directory.id().within(SnapshotNumber::LISTING);
        Ok(Listing { directory, id, ready })
    }

    /// The `.snapshot` of the root, which is ".." of the root in each snapshot.
    pub(crate) async fn above_root(
        &self,
        call: &mut Call<S::Node>,
    ) -> Result<Listing<S::Node>, FsError> {
        self.open_listing(call, self.store.root().within(SnapshotNumber::LISTING)).await
    }

    /// Whether this is a lookup of the parent of a snapshot's root.
    pub(crate) fn is_above_root(&self, directory: &S::Node, name: &[u8]) -> bool {
        let id = directory.id();
        name == b".." && !id.is_live() && id.ino == self.store.root().ino
    }

    /// LOOKUP of `.snapshot` in a directory.
    pub(crate) async fn find_listing(
        &self,
        call: &mut Call<S::Node>,
        directory: &S::Node,
    ) -> Result<Found, FsError> {
        let _shared = directory.lock().shared().await;
        self.see_alive(call, directory)?;
        Ok(self.listing_of(call, directory.clone())?.found())
    }

    /// LOOKUP in a `.snapshot`.
    async fn find_in_listing(
        &self,
        call: &mut Call<S::Node>,
        listing: &Listing<S::Node>,
        name: &Name,
    ) -> Result<Found, FsError> {
        match name.as_bytes() {
            b"." => return Ok(listing.found()),
            b".." => {
                let (id, attributes) = (listing.directory.id(), listing.directory.attributes());
                return Ok(Found { id, attributes });
            }
            _ => {}
        }
        let number = self.store.snapshot_named(name).ok_or(FsError::NoEntry)?;
        let id = listing.directory.id().within(number);
        let attributes = self.held(call, id).await?.ok_or(FsError::NoEntry)?;
        Ok(Found { id, attributes })
    }

    /// The attributes of a directory in a snapshot. `None` if it did not exist yet, or the snapshot
    /// is deleted.
    async fn held(
        &self,
        call: &mut Call<S::Node>,
        id: ObjectId,
    ) -> Result<Option<Attributes>, FsError> {
        match self.store.node(id).await {
            Ok(node) => {
                call.saw(&node);
                Ok(Some(node.attributes()))
            }
            Err(FsError::Stale) => {
                call.saw_changes(&self.store.removal(id));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The next entry of a `.snapshot` behind `cookie`. Each snapshot that it checks is a step.
    async fn next_listed(
        &self,
        call: &mut Call<S::Node>,
        listing: &Listing<S::Node>,
        cookie: u64,
        steps: &mut Steps<'_>,
    ) -> Result<Option<DirectoryEntry>, FsError> {
        if cookie < DOT_COOKIE {
            return Ok(Some(listing.entry(b".", DOT_COOKIE)));
        }
        if cookie < DOT_DOT_COOKIE {
            let directory = &listing.directory;
            let (id, attributes) = (directory.id(), Some(directory.attributes()));
            let (name, cookie) = (Bytes::from_static(b".."), DOT_DOT_COOKIE);
            return Ok(Some(DirectoryEntry { id, name, cookie, attributes }));
        }
        let mut last = SnapshotNumber(cookie - DOT_DOT_COOKIE);
        while let Some((number, name)) = self.store.snapshot_behind(last) {
            last = number;
            steps.step().await;
            let id = listing.directory.id().within(number);
            let attributes = match self.held(call, id).await {
                Ok(None) => continue,
                Ok(attributes) => attributes,
                Err(_) => None, // this one is damaged, and the others are not
            };
            let name = Bytes::copy_from_slice(name.as_bytes());
            let cookie = DOT_DOT_COOKIE + number.0;
            return Ok(Some(DirectoryEntry { id, name, cookie, attributes }));
        }
        Ok(None)
    }

    async fn list_listing(
        &self,
        call: &mut Call<S::Node>,
        listing: &Listing<S::Node>,
        mut cookie: u64,
        accept: &mut dyn FnMut(&DirectoryEntry) -> bool,
    ) -> Result<Entries, FsError> {
        let (mut found, mut steps) = (Entries::default(), self.store.walks().begin());
        found.eof = loop {
            let next = self.next_listed(call, listing, cookie, &mut steps).await?;
            let Some(entry) = next else { break true };
            assert!(entry.cookie > cookie, "invariant 1: a listing goes on");
            cookie = entry.cookie;
            if !accept(&entry) {
                break false;
            }
            found.entries.push(entry);
        };
        call.saw_changes(&self.store.ready_snapshots().depends); // some may have gone meanwhile
        Ok(found)
    }

    /// GETATTR of a `.snapshot`.
    pub(crate) async fn listing_getattr(
        &self,
        id: ObjectId,
    ) -> Sealed<Result<Attributes, FsError>> {
        let mut call = Call::new();
        let listing = self.open_listing(&mut call, id).await;
        self.seal_bare(call, listing.map(|listing| listing.attributes()))
    }

    /// LOOKUP in a `.snapshot`.
    pub(crate) async fn listing_lookup(&self, id: ObjectId, name: &Name) -> Sealed<Answer<Found>> {
        let mut call = Call::new();
        let (result, about) = match self.open_listing(&mut call, id).await {
            Ok(listing) => {
                let about = Some(listing.attributes());
                (self.find_in_listing(&mut call, &listing, name).await, about)
            }
            Err(error) => (Err(error), None),
        };
        self.seal(call, result).map(|answer| Answer { about, ..answer })
    }

    /// ACCESS of a `.snapshot`: every caller may read, and none may change anything.
    pub(crate) async fn listing_access(
        &self,
        id: ObjectId,
        asked: Access,
    ) -> Sealed<Answer<Access>> {
        let mut call = Call::new();
        let listing = self.open_listing(&mut call, id).await;
        let about = listing.as_ref().ok().map(Listing::attributes);
        let may = Access((Access::READ | Access::LOOKUP) & asked.0);
        self.seal(call, listing.map(|_| may)).map(|answer| Answer { about, ..answer })
    }

    /// READDIR of a `.snapshot`. The same facts are known with and without attributes.
    pub(crate) async fn listing_readdir(
        &self,
        id: ObjectId,
        cookie: u64,
        accept: &mut dyn FnMut(&DirectoryEntry) -> bool,
    ) -> Sealed<Answer<Entries>> {
        let mut call = Call::new();
        let (result, about) = match self.open_listing(&mut call, id).await {
            Ok(listing) => {
                let about = Some(listing.attributes());
                (self.list_listing(&mut call, &listing, cookie, accept).await, about)
            }
            Err(error) => (Err(error), None),
        };
        self.seal(call, result).map(|answer| Answer { about, ..answer })
    }

    /// [`FsError::ReadOnly`] on a read-only volume, and for objects of a snapshot.
    pub(crate) fn check_writable(&self, nodes: &[&S::Node]) -> Result<(), FsError> {
        let is_held = nodes.iter().any(|node| !node.id().is_live());
        let is_held = is_held && !is_planted(Bug::WritableSnapshots);
        if is_held || self.store.is_read_only() { Err(FsError::ReadOnly) } else { Ok(()) }
    }
}
