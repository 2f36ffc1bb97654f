//! A client at work in a directory of its own, and the errors that it may get.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use nfs3_types::nfs3::{
    Nfs3Option, Nfs3Result, READDIR3resok, cookieverf3, ftype3, nfs_fh3, nfsstat3, stable_how,
};
use sim::Prng;

use super::shown::{Shown, Tree};
use crate::calls;
use crate::campaign::data::model::File;
use crate::client::Client;
use crate::protocol::Procedure;

/// Directories of a client: its own, and those in it.
const DIRECTORIES: usize = 4;
/// Names of a directory. Every third is long, so that a directory grows.
const NAMES: u64 = 12;
const LONG: usize = 200;
/// Bytes of a READ.
const LOOK: u32 = 64 << 10;
/// Most bytes of a file.
const LONGEST: u64 = 1 << 20;

pub(super) type Verdict<T = ()> = Result<T, String>;

/// Allocation units of a file.
#[derive(Clone, Copy)]
pub(super) struct Places {
    /// Bytes of a unit that is overwritten in place.
    pub grain: u64,
    /// Most bytes of a block beside the end of a file that another file may use.
    pub beside: u64,
}

/// State that all clients of a world share.
#[derive(Default)]
pub(super) struct Shared {
    /// Bytes of the volume, and free bytes, by the last FSSTAT.
    pub level: Cell<(u64, u64)>,
    /// Most bytes that are free beside the end of a file, in a block that is partly in use.
    pub scattered: Cell<u64>,
    /// How often the server ended other than by a stop.
    pub cuts: Cell<u64>,
    /// Operations in all, and those of them above 95 % full.
    pub done: Cell<u64>,
    pub above: Cell<u64>,
    /// Number of snapshots requested, and whether one may exist.
    pub pins: Cell<u64>,
    pub is_held: Cell<bool>,
}

impl Shared {
    /// Whether less than one part in `part` is free.
    pub(super) fn is_full(&self, part: u64) -> bool {
        let (total, free) = self.level.get();
        free * part < total
    }

    /// Whether a call may find no room although it takes little: less than a twentieth of the
    /// volume is free. Data takes whole blocks before it has a place, so free space beside the ends
    /// of files does not count for it.
    fn may_refuse(&self, room: Room) -> bool {
        let (total, free) = self.level.get();
        match room {
            Room::Whole(_) => free.saturating_sub(self.scattered.get()) * 20 < total,
            Room::For(_) | Room::Held(_) | Room::Never => self.is_full(20),
        }
    }
}

/// A file and its contents.
struct Held {
    handle: nfs_fh3,
    file: File,
    /// Grains that are allocated on the disk.
    there: BTreeSet<u64>,
}

enum Item {
    File(Held),
    Symlink(nfs_fh3, String),
}

struct Directory {
    handle: nfs_fh3,
    names: BTreeMap<String, Item>,
}

/// The client: see the module.
pub(super) struct Hand {
    client: Client,
    shared: Rc<Shared>,
    prng: Prng,
    number: usize,
    places: Places,
    root: nfs_fh3,
    directories: Vec<Option<Directory>>,
    /// Number of cuts after which the files were inspected.
    cuts: u64,
    step: u64,
}

/// Whether a call may find no room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// It takes this many bytes more.
    For(u64),
    /// It takes this many bytes more, in whole blocks.
    Whole(u64),
    /// Its space is allocated already; it takes this many new bytes if a snapshot holds the old
    /// ones.
    Held(u64),
    /// It takes none, or its space is allocated already.
    Never,
}

/// The result of an answer; `None` if it is that there is no room.
fn given<T, E>(result: Nfs3Result<T, E>, room: Room) -> Verdict<Option<T>> {
    match result {
        Nfs3Result::Ok(ok) => Ok(Some(ok)),
        Nfs3Result::Err((nfsstat3::NFS3ERR_NOSPC, _)) if room != Room::Never => Ok(None),
        Nfs3Result::Err((status, _)) => Err(format!("it was refused: {status:?}")),
    }
}

impl Hand {
    pub(super) fn new(
        (client, number): (Client, usize),
        shared: Rc<Shared>,
        prng: Prng,
        (places, root): (Places, nfs_fh3),
    ) -> Self {
        let directories = (0..DIRECTORIES).map(|_| None).collect();
        Self { client, shared, prng, number, places, root, directories, cuts: 0, step: 0 }
    }

    /// Does this many operations, and inspects the files if there was a cut before the end.
    pub(super) async fn live(&mut self, steps: u64) -> Verdict {
        for _ in 0..steps {
            self.step += 1;
            if self.step.is_multiple_of(8) || self.step == 1 {
                self.ask_for_space().await?;
            }
            self.look_over().await?;
            let shared = self.shared.clone();
            let counts = shared.is_full(20);
            self.operate().await?;
            shared.done.set(shared.done.get() + 1);
            shared.above.set(shared.above.get() + u64::from(counts));
        }
        self.look_over().await
    }

    /// Adds client, step and free space to an error.
    fn at<T>(&self, what: &str, verdict: Verdict<T>) -> Verdict<T> {
        let (total, free) = self.shared.level.get();
        verdict.map_err(|reason| {
            let (number, step) = (self.number, self.step);
            format!("client {number}, step {step}, {free} of {total} bytes free, {what}: {reason}")
        })
    }

    async fn ask<P: Procedure>(&self, arguments: &P) -> Verdict<P::Results> {
        self.client.call(arguments).await.map_err(|error| error.to_string())
    }

    /// Makes a call. It may find no room only if it takes some; and if it takes little, only with
    /// less than a twentieth of the volume free to it, before it or after it.
    async fn make<P, T, E>(&self, what: &str, arguments: &P, room: Room) -> Verdict<Option<T>>
    where
        P: Procedure<Results = Nfs3Result<T, E>>,
    {
        let could_refuse = self.shared.may_refuse(room);
        let (was_held, pins) = (self.shared.is_held.get(), self.shared.pins.get());
        let answer = self.ask(arguments).await?;
        let room = match room {
            Room::Held(bytes) if was_held || self.shared.pins.get() != pins => Room::For(bytes),
            Room::Held(_) => Room::Never,
            room => room,
        };
        let given = self.at(what, given(answer, room))?;
        if given.is_none() {
            self.ask_for_space().await?;
            let (total, _) = self.shared.level.get();
            let is_little =
                matches!(room, Room::For(bytes) | Room::Whole(bytes) if bytes < total / 100);
            if is_little && !could_refuse && !self.shared.may_refuse(room) {
                return self.at(what, Err("there is room, and it was refused".to_owned()));
            }
        }
        Ok(given)
    }

    pub(super) async fn ask_for_space(&self) -> Verdict {
        let told = self.ask(&calls::fsstat(&self.root)).await?;
        let told = self.at("FSSTAT", given(told, Room::Never))?.expect("it was answered");
        let (total, _) = self.shared.level.get();
        let is_odd = told.fbytes > told.tbytes || total > 0 && total != told.tbytes;
        self.shared.level.set((told.tbytes, told.fbytes));
        let files = told.tfiles - told.ffiles;
        self.shared.scattered.set(files * self.places.beside);
        if is_odd { self.at("FSSTAT", Err(format!("{told:?}"))) } else { Ok(()) }
    }

    async fn operate(&mut self) -> Verdict {
        if self.directories[0].is_none() {
            let (root, name) = (self.root.clone(), self.own());
            return self.mkdir(0, &root, &name).await;
        }
        // Most operations keep the volume full, whether it is growing or shrinking.
        let growing = match () {
            () if !self.shared.is_full(20) => 85,
            () if !self.shared.is_full(100) => 65,
            () => 45,
        };
        if self.prng.chance(growing, 100) {
            match self.prng.below(16) {
                0..=4 => self.create().await,
                5 => self.make_directory().await,
                6 => self.symlink().await,
                7 => self.lengthen().await,
                8 => self.write_far().await,
                _ => self.append().await,
            }
        } else {
            match self.prng.below(20) {
                0..=3 => self.remove().await,
                4 | 5 => self.shorten().await,
                6 => self.remove_directory().await,
                7 | 8 => self.rename().await,
                9 | 10 => self.commit().await,
                11 | 12 => self.read().await,
                _ => self.overwrite().await,
            }
        }
    }

    /// The name of the client's own directory.
    fn own(&self) -> String {
        format!("client-{}", self.number)
    }

    fn some_directory(&mut self) -> usize {
        let there: Vec<usize> =
            (0..DIRECTORIES).filter(|&slot| self.directories[slot].is_some()).collect();
        there[self.prng.index(there.len())]
    }

    fn directory(&self, slot: usize) -> &Directory {
        self.directories[slot].as_ref().expect("a directory that is there")
    }

    fn names(&mut self, slot: usize) -> &mut BTreeMap<String, Item> {
        &mut self.directories[slot].as_mut().expect("a directory that is there").names
    }

    fn some_name(&mut self) -> String {
        let number = self.prng.below(NAMES);
        let tail = if number.is_multiple_of(3) { LONG } else { 0 };
        format!("{number}{}", "x".repeat(tail))
    }

    /// A random file: its directory slot and its name.
    fn some_file(&mut self) -> Option<(usize, String)> {
        let slot = self.some_directory();
        let is_file = |(_, item): &(&String, &Item)| matches!(item, Item::File(_));
        let all: Vec<String> = self
            .directory(slot)
            .names
            .iter()
            .filter(is_file)
            .map(|(name, _)| name.clone())
            .collect();
        if all.is_empty() { None } else { Some((slot, all[self.prng.index(all.len())].clone())) }
    }

    fn held(&mut self, (slot, name): &(usize, String)) -> &mut Held {
        match self.names(*slot).get_mut(name) {
            Some(Item::File(held)) => held,
            _ => panic!("a file that is there"),
        }
    }

    /// Makes the directory of a slot.
    async fn mkdir(&mut self, slot: usize, parent: &nfs_fh3, name: &str) -> Verdict {
        let make = calls::mkdir(parent, name);
        let made = self.make("MKDIR", &make, Room::For(self.places.grain)).await?;
        if let Some(Nfs3Option::Some(handle)) = made.map(|made| made.obj) {
            self.directories[slot] = Some(Directory { handle, names: BTreeMap::new() });
        }
        Ok(())
    }

    async fn make_directory(&mut self) -> Verdict {
        let slot = 1 + self.prng.index(DIRECTORIES - 1);
        if self.directories[slot].is_some() {
            return self.append().await;
        }
        let parent = self.directory(0).handle.clone();
        self.mkdir(slot, &parent, &format!("d{slot}")).await
    }

    async fn create(&mut self) -> Verdict {
        let (slot, name) = (self.some_directory(), self.some_name());
        if self.directory(slot).names.contains_key(&name) {
            return self.append().await;
        }
        let create = calls::create(&self.directory(slot).handle, &name);
        let made = self.make("CREATE", &create, Room::For(self.places.grain)).await?;
        if let Some(Nfs3Option::Some(handle)) = made.map(|made| made.obj) {
            let held = Held { handle, file: File::holding(&[]), there: BTreeSet::new() };
            self.names(slot).insert(name, Item::File(held));
        }
        Ok(())
    }

    async fn symlink(&mut self) -> Verdict {
        let (slot, name) = (self.some_directory(), self.some_name());
        if self.directory(slot).names.contains_key(&name) {
            return self.append().await;
        }
        let target = "t".repeat(1 + self.prng.index(900));
        let make = calls::symlink(&self.directory(slot).handle, &name, &target);
        let made = self.make("SYMLINK", &make, Room::For(2 * self.places.grain)).await?;
        if let Some(Nfs3Option::Some(handle)) = made.map(|made| made.obj) {
            self.names(slot).insert(name, Item::Symlink(handle, target));
        }
        Ok(())
    }

    /// Writes behind the end.
    async fn append(&mut self) -> Verdict {
        let Some(file) = self.some_file() else { return Ok(()) };
        let (offset, is_large) = (self.held(&file).file.size(), self.prng.chance(1, 8));
        let length = self.prng.between(1, if is_large { 192 << 10 } else { 24 << 10 });
        self.write("append", &file, offset, length, Room::Whole(length)).await
    }

    /// Writes at any offset, perhaps with a hole before it, and perhaps into one.
    async fn write_far(&mut self) -> Verdict {
        let Some(file) = self.some_file() else { return Ok(()) };
        let size = self.held(&file).file.size();
        let offset = self.prng.below(size + (512 << 10));
        let length = self.prng.between(1, 16 << 10);
        self.write("write far", &file, offset, length, Room::Whole(length)).await
    }

    /// Overwrites allocated data.
    async fn overwrite(&mut self) -> Verdict {
        let Some(file) = self.some_file() else { return Ok(()) };
        let grain = self.places.grain;
        let (most, pick) = (self.prng.between(1, 8), self.prng.next_u64());
        let held = self.held(&file);
        let there: Vec<u64> = held.there.iter().copied().collect();
        let size = held.file.size();
        let Some(&first) = there.get(pick as usize % there.len().max(1)) else { return Ok(()) };
        let last = (first..first + most).take_while(|grain| held.there.contains(grain)).last();
        let end = ((last.unwrap_or(first) + 1) * grain).min(size);
        let start = first * grain + self.prng.below((end - first * grain).min(grain));
        let length = self.prng.between(1, end - start);
        self.write("overwrite", &file, start, length, Room::Held(length)).await
    }

    async fn write(
        &mut self,
        what: &str,
        file: &(usize, String),
        offset: u64,
        length: u64,
        room: Room,
    ) -> Verdict {
        let length = length.min(LONGEST.saturating_sub(offset));
        if length == 0 {
            return self.shorten_to(file, 0).await;
        }
        let mut bytes = vec![0; length as usize];
        self.prng.fill(&mut bytes);
        let stable = match self.prng.below(4) {
            0 => stable_how::FILE_SYNC,
            1 => stable_how::DATA_SYNC,
            _ => stable_how::UNSTABLE,
        };
        let write = calls::write(&self.held(file).handle, offset, bytes.clone(), stable);
        let what = format!("{what} of {length} bytes at {offset}, {stable:?}");
        let (cuts, grain) = (self.shared.cuts.get(), self.places.grain);
        let (was_held, pins) = (self.shared.is_held.get(), self.shared.pins.get());
        let Some(done) = self.make(&what, &write, room).await? else {
            if self.shared.cuts.get() != cuts {
                // An earlier boot may have carried it out.
                self.held(file).file.write_over_any(offset, &bytes);
            }
            return Ok(());
        };
        let is_over_cut = self.shared.cuts.get() != cuts;
        let is_short = done.count == 0 || u64::from(done.count) > length;
        let is_stable = done.committed as u32 >= stable as u32;
        let has_all = match room {
            Room::For(_) | Room::Whole(_) => false,
            Room::Held(_) => !was_held && self.shared.pins.get() == pins,
            Room::Never => true,
        };
        if is_short || !is_stable || has_all && u64::from(done.count) < length {
            return self.at(&what, Err(format!("{done:?}")));
        }
        bytes.truncate(done.count as usize);
        let held = self.held(file);
        if is_over_cut {
            held.file.write_over_any(offset, &bytes);
        } else {
            held.file.write(offset, &bytes);
        }
        if done.committed != stable_how::UNSTABLE {
            held.file.make_sure(offset, &bytes);
        }
        held.there.extend(offset / grain..(offset + bytes.len() as u64).div_ceil(grain));
        Ok(())
    }

    /// Grows a file without writing.
    async fn lengthen(&mut self) -> Verdict {
        let Some(file) = self.some_file() else { return Ok(()) };
        let size = self.held(&file).file.size() + self.prng.below(100_000);
        let set = calls::setattr(&self.held(&file).handle, calls::size(size.min(LONGEST)));
        let room = Room::Whole(self.places.grain);
        if self.make("SETATTR of a longer end", &set, room).await?.is_some() {
            self.held(&file).file.resize(size.min(LONGEST));
        }
        Ok(())
    }

    async fn shorten(&mut self) -> Verdict {
        let Some(file) = self.some_file() else { return Ok(()) };
        let (size, is_all) = (self.held(&file).file.size(), self.prng.chance(1, 3));
        let size = if is_all { 0 } else { self.prng.between(0, size) };
        self.shorten_to(&file, size).await
    }

    async fn shorten_to(&mut self, file: &(usize, String), size: u64) -> Verdict {
        let set = calls::setattr(&self.held(file).handle, calls::size(size));
        self.make(&format!("SETATTR of size {size}"), &set, Room::Never).await?;
        let grain = self.places.grain;
        let held = self.held(file);
        held.file.resize(size);
        held.there.retain(|place| place * grain < size);
        Ok(())
    }

    async fn remove(&mut self) -> Verdict {
        let slot = self.some_directory();
        let all: Vec<String> = self.directory(slot).names.keys().cloned().collect();
        let Some(name) = all.get(self.prng.index(all.len().max(1))) else { return Ok(()) };
        self.remove_name(slot, name).await
    }

    async fn remove_name(&mut self, slot: usize, name: &str) -> Verdict {
        let remove = calls::remove(&self.directory(slot).handle, name);
        self.make("REMOVE", &remove, Room::Never).await?;
        self.names(slot).remove(name);
        Ok(())
    }

    async fn remove_directory(&mut self) -> Verdict {
        let slot = 1 + self.prng.index(DIRECTORIES - 1);
        if self.directories[slot].is_some() { self.empty(slot).await } else { Ok(()) }
    }

    /// Removes a directory with all its contents.
    async fn empty(&mut self, slot: usize) -> Verdict {
        let names: Vec<String> = self.directory(slot).names.keys().cloned().collect();
        for name in names {
            self.remove_name(slot, &name).await?;
        }
        let (parent, name) = match slot {
            0 => (self.root.clone(), self.own()),
            _ => (self.directory(0).handle.clone(), format!("d{slot}")),
        };
        self.make("RMDIR", &calls::rmdir(&parent, &name), Room::Never).await?;
        self.directories[slot] = None;
        Ok(())
    }

    /// Removes all files of the client.
    pub(super) async fn leave(&mut self) -> Verdict {
        for slot in (0..DIRECTORIES).rev() {
            if self.directories[slot].is_some() {
                self.empty(slot).await?;
            }
        }
        Ok(())
    }

    /// Renames a file, perhaps over another one.
    async fn rename(&mut self) -> Verdict {
        let Some((slot, name)) = self.some_file() else { return Ok(()) };
        let (to, other) = (self.some_directory(), self.some_name());
        if (slot, &name) == (to, &other) {
            return Ok(());
        }
        let from = self.directory(slot).handle.clone();
        let rename = calls::rename((&from, &name), (&self.directory(to).handle, &other));
        if self.make("RENAME", &rename, Room::For(self.places.grain)).await?.is_some() {
            let item = self.names(slot).remove(&name).expect("it is there");
            self.names(to).insert(other, item);
        }
        Ok(())
    }

    async fn commit(&mut self) -> Verdict {
        let Some(file) = self.some_file() else { return Ok(()) };
        let (cuts, held) = (self.shared.cuts.get(), self.held(&file));
        let (commit, covered) = (calls::commit(&held.handle), held.file.cover(0, 0));
        self.make("COMMIT", &commit, Room::Never).await?;
        // A new boot knows nothing of writes to the one before.
        if let Some(covered) = covered.filter(|_| self.shared.cuts.get() == cuts) {
            self.held(&file).file.commit(&covered);
        }
        Ok(())
    }

    async fn read(&mut self) -> Verdict {
        let Some(file) = self.some_file() else { return Ok(()) };
        let size = self.held(&file).file.size();
        let offset = self.prng.below(size + 1);
        let cuts = self.shared.cuts.get();
        let read = calls::read(&self.held(&file).handle, offset, LOOK);
        let done = self.make("READ", &read, Room::Never).await?.expect("it was answered");
        let expected = self.held(&file).file.read(offset, LOOK.into());
        let is_it = self.shared.cuts.get() != cuts || expected == done.data[..];
        self.at("READ", if is_it { Ok(()) } else { Err("it shows other bytes".to_owned()) })
    }

    /// All bytes of a file.
    async fn contents(&self, handle: &nfs_fh3) -> Verdict<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let read = calls::read(handle, bytes.len() as u64, LOOK);
            let done = self.make("READ", &read, Room::Never).await?.expect("it was answered");
            bytes.extend_from_slice(&done.data);
            if done.eof {
                return Ok(bytes);
            }
            if done.data.is_empty() {
                return self.at("READ", Err(format!("it ends at {}", bytes.len())));
            }
        }
    }

    fn files(&self) -> Vec<(usize, String)> {
        let of = |(slot, directory): (usize, &Option<Directory>)| {
            let names = directory.iter().flat_map(|directory| &directory.names);
            let files = names.filter(|(_, item)| matches!(item, Item::File(_)));
            files.map(|(name, _)| (slot, name.clone())).collect::<Vec<_>>()
        };
        self.directories.iter().enumerate().flat_map(of).collect()
    }

    /// After a cut, inspects data that need not have survived. It is committed first, so that it
    /// stays as it is seen.
    async fn look_over(&mut self) -> Verdict {
        while self.cuts != self.shared.cuts.get() {
            let cuts = self.shared.cuts.get();
            for file in self.files() {
                let handle = self.held(&file).handle.clone();
                self.make("COMMIT", &calls::commit(&handle), Room::Never).await?;
                let bytes = self.contents(&handle).await?;
                if self.shared.cuts.get() != cuts {
                    break;
                }
                let allowed = self.held(&file).file.allows(&bytes);
                self.at(&format!("after a cut, {}", file.1), allowed)?;
                let grain = self.places.grain;
                let held = self.held(&file);
                held.file = File::holding(&bytes);
                let grains = bytes.chunks(grain as usize).enumerate();
                let there = grains.filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0));
                held.there = there.map(|(place, _)| place as u64).collect();
            }
            if self.shared.cuts.get() == cuts {
                self.cuts = cuts;
            }
        }
        Ok(())
    }

    /// Checks that everything is as it was answered. Returns the number of files.
    pub(super) async fn verify(&self) -> Verdict<u64> {
        let mut count = 0;
        for (slot, directory) in self.directories.iter().enumerate() {
            let Some(directory) = directory else { continue };
            count += 1 + directory.names.len() as u64;
            let expected = self.names_in(slot);
            let found = self.list(&directory.handle).await?;
            if found != expected {
                let reason = format!("{found:?}, and not {expected:?}");
                return self.at("all names", Err(reason));
            }
            for (name, item) in &directory.names {
                let verdict = self.verify_item(item).await;
                self.at(&format!("all bytes, {name}"), verdict)?;
            }
        }
        Ok(count)
    }

    /// All names of a directory.
    fn names_in(&self, slot: usize) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.directory(slot).names.keys().cloned().collect();
        if slot == 0 {
            let inside = (1..DIRECTORIES).filter(|&slot| self.directories[slot].is_some());
            names.extend(inside.map(|slot| format!("d{slot}")));
        }
        names
    }

    /// Adds all files of the client to a tree.
    pub(super) fn show_all(&self, tree: &mut Tree) {
        let Some(Shown::Directory(root)) = tree.get_mut(&Vec::new()) else {
            panic!("a tree has a root");
        };
        root.extend(self.directories[0].is_some().then(|| self.own()));
        for (slot, directory) in self.directories.iter().enumerate() {
            let Some(directory) = directory else { continue };
            let inside = (slot > 0).then(|| format!("d{slot}"));
            let way: Vec<String> = [self.own()].into_iter().chain(inside).collect();
            for (name, item) in &directory.names {
                let shown = match item {
                    Item::File(held) => Shown::file(&held.file.read(0, u64::MAX)),
                    Item::Symlink(_, target) => Shown::Symlink(target.clone()),
                };
                tree.insert([&way[..], std::slice::from_ref(name)].concat(), shown);
            }
            tree.insert(way, Shown::Directory(self.names_in(slot)));
        }
    }

    /// The file at a path from the root.
    pub(super) async fn show(&self, way: &[String]) -> Verdict<Shown> {
        let mut handle = self.root.clone();
        for name in way {
            let found = self.make("LOOKUP", &calls::lookup(&handle, name), Room::Never).await;
            let found = found.map_err(|reason| format!("{}: {reason}", way.join("/")))?;
            handle = found.expect("it was answered").object;
        }
        let told = self.make("GETATTR", &calls::getattr(&handle), Room::Never).await?;
        Ok(match told.expect("it was answered").obj_attributes.type_ {
            ftype3::NF3DIR => Shown::Directory(self.list(&handle).await?),
            ftype3::NF3LNK => {
                let read = self.make("READLINK", &calls::readlink(&handle), Room::Never).await?;
                let target = read.expect("it was answered").data;
                Shown::Symlink(String::from_utf8_lossy(target.0.as_ref()).into_owned())
            }
            _ => Shown::file(&self.contents(&handle).await?),
        })
    }

    async fn verify_item(&self, item: &Item) -> Verdict {
        match item {
            Item::File(held) => {
                let found = self.contents(&held.handle).await?;
                let expected = held.file.read(0, u64::MAX);
                let differs = found.iter().zip(&expected).position(|(one, other)| one != other);
                match differs {
                    Some(at) => Err(format!("byte {at} of {} is another", expected.len())),
                    None if found.len() == expected.len() => Ok(()),
                    None => Err(format!("{} bytes, and not {}", found.len(), expected.len())),
                }
            }
            Item::Symlink(handle, target) => {
                let read = calls::readlink(handle);
                let found = self.make("READLINK", &read, Room::Never).await?;
                let is_it = found.is_some_and(|found| found.data.0.as_ref() == target.as_bytes());
                if is_it { Ok(()) } else { Err("it leads elsewhere".to_owned()) }
            }
        }
    }

    async fn list(&self, directory: &nfs_fh3) -> Verdict<BTreeSet<String>> {
        let (mut found, mut cookie, mut verifier) = (BTreeSet::new(), 0, cookieverf3::default());
        loop {
            let list = calls::readdir(directory, cookie, verifier);
            let part = self.make("READDIR", &list, Room::Never).await?.expect("it was answered");
            let READDIR3resok { cookieverf, reply, .. } = part;
            verifier = cookieverf;
            for entry in reply.entries.0 {
                cookie = entry.cookie;
                found.insert(String::from_utf8_lossy(entry.name.as_ref()).into_owned());
            }
            if reply.eof {
                found.retain(|name| name != "." && name != "..");
                return Ok(found);
            }
        }
    }
}
