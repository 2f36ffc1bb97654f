//! A small file system in memory, for tests of the layers above a file system.
//!
//! It keeps the contract of `vfs::FileSystem` as far as these tests check, and it is easy to
//! observe and to stall: [`MemoryFileSystem::executed`] counts executed calls, and its [`Gate`]
//! holds every receipt back until the test opens it, or loses it. The tests of the server use it
//! too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::LocalBoxFuture;
use runtime::sync::Signal;
use vfs::{
    Access, Answer, Attributes, CreateHow, Credentials, Depends, Device, DirectoryEntry, Entries,
    FileKind, FileSystem, Found, FsError, FsInfo, FsStat, Ino, Ledger, LoggedReply, Lost, Name,
    ObjectId, PathConf, PostOp, ReadData, Receipt, Requester, Sealed, Sequence, SetAttributes,
    SetTime, Stability, Timestamp, Verifier, Wcc, WccBefore, Written,
};

/// Holds receipts back.
#[derive(Default)]
pub(crate) struct Gate {
    closed: Cell<bool>,
    lost: Cell<bool>,
    changed: Signal,
}

impl Gate {
    /// Stops all changes from becoming durable from now on.
    pub(crate) fn close(&self) {
        self.closed.set(true);
    }

    /// Makes everything durable, until closed again.
    pub(crate) fn open(&self) {
        self.closed.set(false);
        self.changed.notify();
    }

    /// Fails the disk.
    pub(crate) fn lose(&self) {
        self.lost.set(true);
        self.changed.notify();
    }
}

struct Disk(Rc<Gate>);

impl Ledger for Disk {
    fn durable(&self, on: Depends) -> LocalBoxFuture<'static, Result<(), Lost>> {
        let disk = Disk(self.0.clone());
        Box::pin(async move {
            loop {
                let changed = disk.0.changed.wait();
                if disk.is_durable(&on)? {
                    return Ok(());
                }
                changed.await;
            }
        })
    }

    fn is_durable(&self, _: &Depends) -> Result<bool, Lost> {
        if self.0.lost.get() { Err(Lost) } else { Ok(!self.0.closed.get()) }
    }
}

enum Body {
    File(Vec<u8>),
    Directory(Directory),
    Symlink(Bytes),
    Special,
}

#[derive(Default)]
struct Directory {
    parent: u64,
    /// By cookie, which grows with every name and is never reused. "." is 1 and ".." is 2.
    entries: BTreeMap<u64, (Name, u64)>,
    next_cookie: u64,
}

impl Directory {
    fn find(&self, name: &Name) -> Option<(u64, u64)> {
        let mut entries = self.entries.iter();
        entries.find(|(_, (known, _))| known == name).map(|(cookie, (_, ino))| (*cookie, *ino))
    }

    fn add(&mut self, name: &Name, ino: u64) {
        self.next_cookie = self.next_cookie.max(2) + 1;
        self.entries.insert(self.next_cookie, (name.clone(), ino));
    }
}

struct Node {
    attributes: Attributes,
    body: Body,
    exclusive: Option<[u8; 8]>,
}

struct State {
    nodes: BTreeMap<u64, Node>,
    next_ino: u64,
    time: i64,
}

/// See the module.
pub(crate) struct MemoryFileSystem {
    state: RefCell<State>,
    gate: Rc<Gate>,
    disk: Rc<dyn Ledger>,
    executed: Cell<u64>,
    verifier: Cell<u64>,
    stopped: Cell<bool>,
    /// Whether its shutdown never ends.
    pub(crate) hangs: Cell<bool>,
    /// Whether each WRITE reports that it is durable.
    overstates: Cell<bool>,
}

const ROOT: u64 = 2;

/// The largest file, in bytes.
const MAX_SIZE: u64 = 1 << 24;

impl MemoryFileSystem {
    /// An empty volume whose root is writable by all.
    pub(crate) fn new() -> Rc<Self> {
        let gate = Rc::new(Gate::default());
        let mut state = State { nodes: BTreeMap::new(), next_ino: ROOT, time: 1_000 };
        let body = Body::Directory(Directory { parent: ROOT, ..Directory::default() });
        state.make(FileKind::Directory, body, 0o777, &Credentials::root());
        Rc::new(Self {
            state: RefCell::new(state),
            disk: Rc::new(Disk(gate.clone())),
            gate,
            executed: Cell::new(0),
            verifier: Cell::new(0x1122_3344_5566_7788),
            stopped: Cell::new(false),
            hangs: Cell::new(false),
            overstates: Cell::new(false),
        })
    }

    /// The gate that holds the receipts back.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Number of executed verbs that change something.
    pub(crate) fn executed(&self) -> u64 {
        self.executed.get()
    }

    /// Whether it was shut down.
    #[allow(dead_code, reason = "for the tests of the server")]
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Makes each WRITE report more stability than requested from now on.
    pub(crate) fn overstate(&self, overstates: bool) {
        self.overstates.set(overstates);
    }

    fn seal<T>(&self, value: T) -> Sealed<T> {
        Sealed::new(value, self.changes_so_far())
    }

    fn changed<T>(&self, value: T) -> Sealed<T> {
        self.executed.set(self.executed.get() + 1);
        self.seal(value)
    }

    /// Runs `work` on the node with its attributes before and after.
    fn with_wcc<T>(
        &self,
        id: ObjectId,
        work: impl FnOnce(&mut State) -> Result<T, FsError>,
    ) -> Sealed<Answer<T, Wcc>> {
        let mut state = self.state.borrow_mut();
        let before = state.attributes(id).as_ref().map(WccBefore::from);
        let result = work(&mut state);
        let about = Wcc { before, after: state.attributes(id) };
        self.changed(Answer { result, about })
    }

    fn about<T>(
        &self,
        id: ObjectId,
        work: impl FnOnce(&mut State) -> Result<T, FsError>,
    ) -> Sealed<Answer<T>> {
        let mut state = self.state.borrow_mut();
        let result = work(&mut state);
        self.seal(Answer { result, about: state.attributes(id) })
    }

    fn make_at(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        made: (FileKind, Body, SetAttributes),
    ) -> Sealed<Answer<Found, Wcc>> {
        self.with_wcc(directory, |state| {
            let (kind, body, attributes) = made;
            state.free_name(who, directory, name)?;
            let ino = state.make(kind, body, 0o600, who);
            state.apply(ino, attributes);
            state.enter(directory, name, ino)
        })
    }
}

impl State {
    fn now(&mut self) -> Timestamp {
        self.time += 1;
        Timestamp { seconds: self.time, nanoseconds: 5 }
    }

    fn make(&mut self, kind: FileKind, body: Body, mode: u16, who: &Credentials) -> u64 {
        let ino = self.next_ino;
        self.next_ino += 1;
        let now = self.now();
        let attributes = Attributes {
            kind,
            mode,
            nlink: if kind == FileKind::Directory { 2 } else { 1 },
            uid: who.uid,
            gid: who.gid,
            size: if kind == FileKind::Directory { 512 } else { 0 },
            used: 0,
            device: Device::default(),
            ino: Ino(ino),
            generation: 7,
            atime: now,
            mtime: now,
            ctime: now,
        };
        self.nodes.insert(ino, Node { attributes, body, exclusive: None });
        ino
    }

    fn node(&mut self, id: ObjectId) -> Result<&mut Node, FsError> {
        let node = self.nodes.get_mut(&id.ino.0).ok_or(FsError::Stale)?;
        if node.attributes.generation == id.generation { Ok(node) } else { Err(FsError::Stale) }
    }

    fn attributes(&mut self, id: ObjectId) -> PostOp {
        self.node(id).ok().map(|node| node.attributes)
    }

    fn directory(&mut self, id: ObjectId) -> Result<&mut Directory, FsError> {
        match &mut self.node(id)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotDirectory),
        }
    }

    fn file(&mut self, id: ObjectId) -> Result<&mut Vec<u8>, FsError> {
        match &mut self.node(id)?.body {
            Body::File(data) => Ok(data),
            Body::Directory(_) => Err(FsError::IsDirectory),
            _ => Err(FsError::Invalid),
        }
    }

    fn permitted(&mut self, who: &Credentials, id: ObjectId, bits: u16) -> Result<(), FsError> {
        let attributes = self.node(id)?.attributes;
        let shift = match () {
            () if who.uid == attributes.uid => 6,
            () if who.in_group(attributes.gid) => 3,
            () => 0,
        };
        let granted = attributes.mode >> shift & 7;
        if who.is_root() || granted & bits == bits { Ok(()) } else { Err(FsError::Access) }
    }

    fn find(&mut self, directory: ObjectId, name: &Name) -> Result<Found, FsError> {
        let own = directory.ino.0;
        let entries = self.directory(directory)?;
        let ino = match name.as_bytes() {
            b"." => own,
            b".." => entries.parent,
            _ => entries.find(name).ok_or(FsError::NoEntry)?.1,
        };
        Ok(self.found(ino))
    }

    fn found(&self, ino: u64) -> Found {
        let attributes = self.nodes[&ino].attributes;
        Found { id: ObjectId::live(attributes.ino, attributes.generation), attributes }
    }

    fn free_name(
        &mut self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<(), FsError> {
        match self.find(directory, name) {
            Ok(_) => Err(FsError::Exists),
            Err(FsError::NoEntry) => self.permitted(who, directory, 3),
            Err(other) => Err(other),
        }
    }

    fn enter(&mut self, directory: ObjectId, name: &Name, ino: u64) -> Result<Found, FsError> {
        self.directory(directory)?.add(name, ino);
        self.touch(directory)?;
        Ok(self.found(ino))
    }

    fn touch(&mut self, id: ObjectId) -> Result<(), FsError> {
        let now = self.now();
        let attributes = &mut self.node(id)?.attributes;
        attributes.mtime = now;
        attributes.ctime = now;
        Ok(())
    }

    fn apply(&mut self, ino: u64, changes: SetAttributes) {
        let now = self.now();
        let node = self.nodes.get_mut(&ino).expect("the node exists");
        let attributes = &mut node.attributes;
        let time = |set: SetTime| match set {
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        attributes.mode = changes.mode.unwrap_or(attributes.mode);
        attributes.uid = changes.uid.unwrap_or(attributes.uid);
        attributes.gid = changes.gid.unwrap_or(attributes.gid);
        if let (Some(size), Body::File(data)) = (changes.size, &mut node.body) {
            let size = size.min(MAX_SIZE);
            data.resize(size as usize, 0);
            attributes.size = size;
        }
        attributes.atime = changes.atime.map_or(attributes.atime, time);
        attributes.mtime = changes.mtime.map_or(attributes.mtime, time);
        attributes.ctime = now;
    }

    fn drop_link(&mut self, ino: u64) {
        let now = self.now();
        let node = self.nodes.get_mut(&ino).expect("the node exists");
        node.attributes.ctime = now;
        node.attributes.nlink -= 1;
        if node.attributes.nlink == 0 || matches!(node.body, Body::Directory(_)) {
            self.nodes.remove(&ino);
        }
    }

    fn take_name(
        &mut self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        is_directory: bool,
    ) -> Result<(), FsError> {
        if name.is_dot_or_dot_dot() {
            return Err(FsError::Invalid);
        }
        let found = self.find(directory, name)?;
        self.permitted(who, directory, 3)?;
        match (&self.nodes[&found.id.ino.0].body, is_directory) {
            (Body::Directory(_), false) => return Err(FsError::IsDirectory),
            (Body::Directory(inner), true) if !inner.entries.is_empty() => {
                return Err(FsError::NotEmpty);
            }
            (Body::Directory(_), true) | (_, false) => {}
            (_, true) => return Err(FsError::NotDirectory),
        }
        let entries = self.directory(directory)?;
        let (cookie, ino) = entries.find(name).expect("it was found above");
        entries.entries.remove(&cookie);
        self.touch(directory)?;
        self.drop_link(ino);
        Ok(())
    }

    fn rename(
        &mut self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(), FsError> {
        if from.1.is_dot_or_dot_dot() || to.1.is_dot_or_dot_dot() {
            return Err(FsError::Invalid);
        }
        let moved = self.find(from.0, from.1)?;
        let is_directory = moved.attributes.kind == FileKind::Directory;
        match self.find(to.0, to.1) {
            Ok(target) if target.id == moved.id => return Ok(()),
            Ok(_) => self.take_name(who, to.0, to.1, is_directory)?,
            Err(FsError::NoEntry) => {}
            Err(other) => return Err(other),
        }
        self.directory(to.0)?.add(to.1, moved.id.ino.0);
        let source = self.directory(from.0)?;
        let (cookie, _) = source.find(from.1).expect("it was found above");
        source.entries.remove(&cookie);
        if is_directory {
            self.directory(moved.id)?.parent = to.0.ino.0;
        }
        self.touch(from.0)?;
        self.touch(to.0)
    }

    fn write(&mut self, id: ObjectId, offset: u64, data: &[Bytes]) -> Result<u32, FsError> {
        let length: usize = data.iter().map(Bytes::len).sum();
        if offset.saturating_add(length as u64) > MAX_SIZE {
            return Err(FsError::FileTooLarge);
        }
        let file = self.file(id)?;
        let mut at = offset as usize;
        let start = at;
        for piece in data {
            file.resize(file.len().max(at + piece.len()), 0);
            file[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        let size = file.len() as u64;
        let attributes = &mut self.node(id)?.attributes;
        attributes.size = size;
        attributes.used = size.next_multiple_of(512);
        self.touch(id)?;
        Ok((at - start) as u32)
    }

    fn create(
        &mut self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        how: CreateHow,
    ) -> Result<Found, FsError> {
        let existing = self.find(directory, name);
        let (attributes, verifier) = match (how, &existing) {
            (CreateHow::Guarded(_), Ok(_)) => return Err(FsError::Exists),
            (CreateHow::Exclusive(verifier), Ok(found)) => {
                let known = self.node(found.id)?.exclusive;
                return if known == Some(verifier) { existing } else { Err(FsError::Exists) };
            }
            (CreateHow::Unchecked(attributes), Ok(found)) => {
                let size = SetAttributes { size: attributes.size, ..SetAttributes::default() };
                self.apply(found.id.ino.0, size);
                return Ok(self.found(found.id.ino.0));
            }
            (CreateHow::Unchecked(attributes) | CreateHow::Guarded(attributes), Err(_)) => {
                (attributes, None)
            }
            (CreateHow::Exclusive(verifier), Err(_)) => (SetAttributes::default(), Some(verifier)),
        };
        self.free_name(who, directory, name)?;
        let ino = self.make(FileKind::Regular, Body::File(Vec::new()), 0o600, who);
        self.apply(ino, attributes);
        self.nodes.get_mut(&ino).expect("just made").exclusive = verifier;
        self.enter(directory, name, ino)
    }

    fn list(&mut self, id: ObjectId, cookie: u64) -> Result<Vec<DirectoryEntry>, FsError> {
        let own = id.ino.0;
        let directory = self.directory(id)?;
        let mut all = vec![
            (1, Bytes::from_static(b"."), own),
            (2, Bytes::from_static(b".."), directory.parent),
        ];
        let named = directory.entries.iter();
        all.extend(
            named.map(|(cookie, (name, ino))| {
                (*cookie, Bytes::copy_from_slice(name.as_bytes()), *ino)
            }),
        );
        let after = all.into_iter().filter(|(place, ..)| *place > cookie);
        Ok(after
            .map(|(cookie, name, ino)| {
                let Found { id, attributes } = self.found(ino);
                DirectoryEntry { id, name, cookie, attributes: Some(attributes) }
            })
            .collect())
    }
}

#[async_trait(?Send)]
impl FileSystem for MemoryFileSystem {
    fn root(&self) -> ObjectId {
        ObjectId::live(Ino(ROOT), 7)
    }

    fn verifier(&self) -> Verifier {
        Verifier(self.verifier.get().to_be_bytes())
    }

    async fn getattr(&self, id: ObjectId) -> Sealed<Result<Attributes, FsError>> {
        self.seal(self.state.borrow_mut().node(id).map(|node| node.attributes))
    }

    async fn setattr(
        &self,
        who: &Requester,
        id: ObjectId,
        changes: SetAttributes,
        guard: Option<Timestamp>,
    ) -> Sealed<Answer<(), Wcc>> {
        self.with_wcc(id, |state| {
            let attributes = state.node(id)?.attributes;
            if guard.is_some_and(|guard| guard != attributes.ctime) {
                return Err(FsError::NotSync);
            }
            if !who.is_root() && who.uid != attributes.uid {
                return Err(FsError::NotOwner);
            }
            state.apply(id.ino.0, changes);
            Ok(())
        })
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<Found>> {
        self.about(directory, |state| {
            state.directory(directory)?;
            state.permitted(who, directory, 1)?;
            state.find(directory, name)
        })
    }

    async fn access(
        &self,
        who: &Credentials,
        id: ObjectId,
        asked: Access,
    ) -> Sealed<Answer<Access>> {
        self.about(id, |state| {
            let is_directory = state.node(id)?.attributes.kind == FileKind::Directory;
            let mut rights = 0;
            if state.permitted(who, id, 4).is_ok() {
                rights |= Access::READ;
            }
            if state.permitted(who, id, 2).is_ok() {
                rights |= Access::MODIFY | Access::EXTEND;
                rights |= if is_directory { Access::DELETE } else { 0 };
            }
            if state.permitted(who, id, 1).is_ok() {
                rights |= if is_directory { Access::LOOKUP } else { Access::EXECUTE };
            }
            Ok(Access(rights & asked.0))
        })
    }

    async fn readlink(&self, _: &Credentials, id: ObjectId) -> Sealed<Answer<Bytes>> {
        self.about(id, |state| match &state.node(id)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(FsError::Invalid),
        })
    }

    async fn read(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<ReadData>> {
        self.about(id, |state| {
            if state.node(id)?.attributes.uid != who.uid {
                state.permitted(who, id, 4)?;
            }
            let file = state.file(id)?;
            let start = (offset as usize).min(file.len());
            let end = (start + count as usize).min(file.len());
            // Two pieces, as a cache of blocks would return.
            let middle = start + (end - start) / 3;
            let pieces = [&file[start..middle], &file[middle..end]];
            let data = pieces.into_iter().filter(|piece| !piece.is_empty());
            let data = data.map(Bytes::copy_from_slice).collect();
            Ok(ReadData { data, eof: end == file.len() })
        })
    }

    async fn write(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        data: Vec<Bytes>,
        stability: Stability,
    ) -> Sealed<Answer<Written, Wcc>> {
        let verifier = self.verifier();
        self.with_wcc(id, |state| {
            if state.node(id)?.attributes.uid != who.uid {
                state.permitted(who, id, 2)?;
            }
            let count = state.write(id, offset, &data)?;
            let committed = if self.overstates.get() { Stability::FileSync } else { stability };
            Ok(Written { count, committed, verifier })
        })
    }

    async fn create(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        how: CreateHow,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.with_wcc(directory, |state| state.create(who, directory, name, how))
    }

    async fn mkdir(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        let inner = Directory { parent: directory.ino.0, ..Directory::default() };
        let made = (FileKind::Directory, Body::Directory(inner), attributes);
        self.make_at(who, directory, name, made)
    }

    async fn symlink(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        target: &[u8],
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        let body = Body::Symlink(Bytes::copy_from_slice(target));
        self.make_at(who, directory, name, (FileKind::Symlink, body, attributes))
    }

    async fn mknod(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        kind: FileKind,
        device: Device,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        let sealed = self.make_at(who, directory, name, (kind, Body::Special, attributes));
        let mut state = self.state.borrow_mut();
        let made = state.find(directory, name).map(|found| found.id);
        if let Ok(node) = made.and_then(|id| state.node(id)) {
            node.attributes.device = device;
        }
        sealed
    }

    async fn remove(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        self.with_wcc(directory, |state| state.take_name(who, directory, name, false))
    }

    async fn rmdir(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        self.with_wcc(directory, |state| state.take_name(who, directory, name, true))
    }

    async fn rename(
        &self,
        who: &Requester,
        from: ObjectId,
        from_name: &Name,
        to: ObjectId,
        to_name: &Name,
    ) -> Sealed<Answer<(), (Wcc, Wcc)>> {
        let mut state = self.state.borrow_mut();
        let before = [from, to].map(|id| state.attributes(id).as_ref().map(WccBefore::from));
        let result = state.rename(who, (from, from_name), (to, to_name));
        let about = (
            Wcc { before: before[0], after: state.attributes(from) },
            Wcc { before: before[1], after: state.attributes(to) },
        );
        self.changed(Answer { result, about })
    }

    async fn link(
        &self,
        who: &Requester,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), (PostOp, Wcc)>> {
        let mut state = self.state.borrow_mut();
        let before = state.attributes(directory).as_ref().map(WccBefore::from);
        let result = state.node(id).map(|_| ()).and_then(|()| {
            state.free_name(who, directory, name)?;
            state.node(id)?.attributes.nlink += 1;
            state.enter(directory, name, id.ino.0).map(|_| ())
        });
        let wcc = Wcc { before, after: state.attributes(directory) };
        let about = (state.attributes(id), wcc);
        self.changed(Answer { result, about })
    }

    async fn readdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        attributes: bool,
        accept: &mut dyn for<'e> FnMut(&'e DirectoryEntry) -> bool,
    ) -> Sealed<Answer<Entries>> {
        self.about(directory, |state| {
            state.directory(directory)?;
            state.permitted(who, directory, 4)?;
            let mut taken = Entries { entries: Vec::new(), eof: true };
            for mut entry in state.list(directory, cookie)? {
                entry.attributes = entry.attributes.filter(|_| attributes);
                if !accept(&entry) {
                    taken.eof = false;
                    break;
                }
                taken.entries.push(entry);
            }
            Ok(taken)
        })
    }

    async fn fsstat(&self, _: &Credentials, id: ObjectId) -> Sealed<Answer<FsStat>> {
        self.about(id, |state| {
            state.node(id)?;
            Ok(FsStat {
                total_bytes: 1 << 30,
                free_bytes: 1 << 29,
                available_bytes: 1 << 28,
                total_files: 5_000,
                free_files: 4_000,
                available_files: 3_000,
            })
        })
    }

    async fn fsinfo(&self, id: ObjectId) -> Sealed<Answer<FsInfo>> {
        self.about(id, |state| {
            state.node(id)?;
            Ok(FsInfo {
                max_file_size: MAX_SIZE,
                block_size: 32_768,
                time_delta: Timestamp { seconds: 0, nanoseconds: 1 },
                read_only: false,
            })
        })
    }

    async fn pathconf(&self, id: ObjectId) -> Sealed<Answer<PathConf>> {
        self.about(id, |state| {
            state.node(id)?;
            Ok(PathConf { link_max: 32_767, name_max: 255 })
        })
    }

    async fn commit(
        &self,
        _: &Credentials,
        id: ObjectId,
        _: u64,
        _: u32,
    ) -> Sealed<Answer<Verifier, Wcc>> {
        let verifier = self.verifier();
        self.with_wcc(id, |state| state.file(id).map(|_| verifier))
    }

    fn changes_so_far(&self) -> Receipt {
        Receipt::new(self.disk.clone(), Depends::through(Sequence(self.executed.get())))
    }

    fn take_remembered(&self) -> Sealed<Vec<LoggedReply>> {
        self.seal(Vec::new())
    }

    fn count_repetition(&self, _over_a_start: bool) {}

    async fn shutdown(&self) -> Result<(), FsError> {
        if self.hangs.get() {
            std::future::pending::<()>().await;
        }
        self.stopped.set(true);
        Ok(())
    }
}
