//! A volume that is filled and emptied, again and again: the cleaner has to keep up.

use std::time::Duration;

use enginekit::Volume;
use enginekit::random::Seeded;
use lfs::Lfs;
use runtime::Random;
use sim::Executor;
use vfs::{FileSystem, FsError, ObjectId, Stability};

use crate::bench::{Setting, findings, made, opened, opened_with, settings};

/// Bytes of a file.
const FILE: u64 = 64 << 10;

struct Filler<'a> {
    volume: &'a Volume<Lfs>,
    chance: Seeded,
    files: Vec<(String, ObjectId, u8)>,
    next: u64,
}

impl Filler<'_> {
    fn below(&self, limit: u64) -> u64 {
        self.chance.next_u64() % limit
    }

    async fn add(&mut self) -> Result<(), FsError> {
        let (name, byte) = (format!("f{}", self.next), self.next as u8);
        self.next += 1;
        let root = self.volume.files.root();
        let id = self.volume.create(root, &name).await?;
        let data = vec![byte; FILE as usize];
        let stability = [Stability::FileSync, Stability::Unstable][self.next as usize % 2];
        let written = self.volume.write(id, 0, data, stability).await;
        if written.is_err() {
            self.volume.remove(root, &name).await.expect("a full volume lets go");
            return written;
        }
        self.volume.commit(id).await.expect("what was taken has room");
        self.files.push((name, id, byte));
        Ok(())
    }

    async fn fill(&mut self) {
        while self.add().await.is_ok() {}
    }

    /// Overwrites blocks of files, at random places.
    async fn overwrite(&mut self, count: u64) {
        for _ in 0..count {
            let which = self.below(self.files.len() as u64) as usize;
            let (name, id, byte) = self.files[which].clone();
            let at = self.below(FILE / 4096) * 4096;
            let written = self.volume.write(id, at, vec![byte; 4096], Stability::FileSync).await;
            assert_eq!(written, Ok(()), "an overwrite of {name} takes no room");
        }
    }

    async fn remove(&mut self, count: usize) {
        for _ in 0..count {
            let which = self.below(self.files.len() as u64) as usize;
            let (name, ..) = self.files.swap_remove(which);
            let root = self.volume.files.root();
            self.volume.remove(root, &name).await.expect("it is there");
        }
    }

    async fn check(&self) {
        for (name, id, byte) in &self.files {
            let read = self.volume.read(*id).await;
            assert_eq!(read, Ok(vec![*byte; FILE as usize]), "{name}");
        }
    }
}

pub(crate) fn filled_and_emptied(setting: Setting, seed: u64) {
    let executor = Executor::new(seed);
    let disk = executor.block_on(async {
        let disk = made(&executor, &setting).await;
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let empty = volume.space().await;
        let (chance, files) = (Seeded::new(seed), Vec::new());
        let mut filler = Filler { volume: &volume, chance, files, next: 0 };
        for round in 0..4 {
            filler.fill().await;
            let full = volume.space().await;
            println!("{:?}", volume.files.store().engine().status());
            let used = filler.files.len() as u64 * FILE;
            let least = empty.available_bytes * 9 / 10;
            assert!(used >= least, "round {round}: {used} of {}: {full:?}", empty.available_bytes);
            filler.overwrite(400).await;
            filler.check().await;
            let count = filler.files.len() * (round + 1) / 5;
            filler.remove(count).await;
            filler.overwrite(400).await;
        }
        filler.check().await;
        let count = filler.files.len();
        filler.remove(count).await;
        volume.settle().await;
        executor.runtime().clock.sleep(Duration::from_secs(1)).await;
        let totals = volume.files.store().engine().status().totals;
        println!("{setting:?}: {totals:?}");
        assert!(totals.cleaned_segments > 0, "the cleaner has worked");
        let left = volume.space().await;
        assert!(left.free_bytes + empty.total_bytes / 50 >= empty.free_bytes, "{left:?} {empty:?}");
        volume.files.shutdown().await.expect("it stops");
        disk
    });
    assert_eq!(findings(&disk.contents()), Ok(()));
}

#[test]
fn a_volume_takes_as_much_again_and_again() {
    for (seed, setting) in (1..).zip(settings()) {
        filled_and_emptied(setting, seed);
    }
}

/// Data that was taken without being stable has room, whoever fills the rest.
fn taken_data_has_room(setting: Setting) -> Result<(), String> {
    let executor = Executor::new(5);
    executor.block_on(async {
        let disk = made(&executor, &setting).await;
        let volume = opened_with(executor.runtime(), &disk, Duration::from_secs(3600)).await;
        let volume = volume.expect("it is new");
        let root = volume.files.root();
        let [taken, other] =
            [volume.create(root, "taken").await, volume.create(root, "other").await];
        let (taken, other) = (taken.expect("there is room"), other.expect("there is room"));
        let blocks = (2 << 20) / setting.block;
        let mut at = 0;
        while volume.space().await.available_bytes > 3 << 20 {
            let data = vec![9; 32 << 10];
            volume.write(other, at, data, Stability::FileSync).await.expect("there is room");
            at += 32 << 10;
        }
        for block in 0..blocks {
            let data = vec![7; setting.block as usize];
            // Apart, so that they need blocks of pointers as well.
            let at = block * 3 * setting.block;
            volume.write(taken, at, data, Stability::Unstable).await.expect("there is room");
        }
        while volume.write(other, at, vec![9; 32 << 10], Stability::FileSync).await.is_ok() {
            at += 32 << 10;
        }
        let done = volume.commit(taken).await.map(drop);
        done.map_err(|error| format!("what was taken: {error}"))
    })
}

#[test]
fn data_that_was_taken_has_room() {
    for setting in settings() {
        assert_eq!(taken_data_has_room(setting), Ok(()), "{setting:?}");
    }
}

#[test]
fn a_reserve_changes_what_files_may_take_and_no_more_than_they_leave() {
    let executor = Executor::new(3);
    let disk = executor.block_on(made(&executor, &settings()[0]));
    let set = |percent| executor.block_on(lfs::set_reserve(&*disk, percent));
    let usable = |fills: bool| {
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is well");
            let chance = Seeded::new(5);
            let mut filler = Filler { volume: &volume, chance, files: Vec::new(), next: 0 };
            if fills {
                filler.fill().await;
            }
            let total = volume.space().await.total_bytes;
            volume.files.shutdown().await.expect("nothing fails");
            total
        })
    };
    let first = usable(false);
    assert_eq!(set(51), Err(lfs::OpenError::Reserve(51)));
    assert_eq!(set(256), Err(lfs::OpenError::Reserve(256)));
    set(30).expect("it is empty");
    let less = usable(false);
    set(8).expect("it is empty");
    assert!(less < first && usable(true) == first, "{less} of {first}");
    assert_eq!(set(30), Err(lfs::OpenError::Reserve(30)), "files have that");
    assert_eq!((usable(false), findings(&disk.contents())), (first, Ok(())));
}
