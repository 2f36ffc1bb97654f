//! Answers stay true: a name in an answered listing survives a cut.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join;
use runtime::Random;
use sim::Executor;
use vfs::{CreateHow, FileSystem, ObjectId, Requester, SetAttributes};
use vnode::Engine;

use crate::bench::Bench;
use crate::random::Seeded;
use crate::volume::{Volume, name};

const FILES: u64 = 60;
const LISTINGS: usize = 40;
/// The longest wait between two files, or two listings, in microseconds.
const PAUSE: u64 = 4_000;
const CUTS: u64 = 60;

/// Names are made without waiting for the answers; meanwhile another client lists them. Each name
/// in an answered listing is there after a cut.
///
/// # Errors
/// A listed name that is gone.
pub fn told_names_stay(bench: &impl Bench, seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let told = RefCell::new(vec![BTreeSet::new()]);
    let (recording, directory) = executor.block_on(async {
        let disks = bench.make(&executor).await;
        let volume = bench.open(executor.runtime(), &disks).await?;
        let directory = volume.mkdir(volume.files.root(), "d").await.expect("new");
        volume.settle().await;
        bench.record(&disks);
        let (clock, chance) = (executor.runtime().clock, Seeded::new(seed));
        let pause = || clock.sleep(Duration::from_micros(chance.next_u64() % PAUSE));
        let makes = async {
            for number in 0..FILES {
                make(&volume, directory, &format!("name-{number}")).await;
                pause().await;
            }
        };
        let lists = async {
            for step in 1..=LISTINGS {
                let names = names_of(&volume, directory).await;
                told.borrow_mut().push(names);
                bench.acknowledge(&disks, 0, step);
                pause().await;
            }
        };
        join(makes, lists).await;
        Ok::<_, String>((bench.recording(&disks), directory))
    })?;
    for cut in bench.cuts(&recording, seed, CUTS) {
        let told = &told.borrow()[bench.acknowledged(&recording, &cut, 0)];
        let (executor, disks) = bench.left(&cut)?;
        executor.block_on(async {
            let volume = bench.open(executor.runtime(), &disks).await?;
            let there = names_of(&volume, directory).await;
            volume.files.shutdown().await.map_err(|error| error.to_string())?;
            match told.difference(&there).next() {
                Some(name) => Err(format!("{}: {name:?} was told, and is gone", bench.label(&cut))),
                None => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// The names of a directory, without their files: each file would wait for its own durability.
async fn names_of(volume: &Volume<impl Engine>, directory: ObjectId) -> BTreeSet<Bytes> {
    let entries = volume.entries(directory, false).await;
    entries.into_iter().map(|entry| entry.name).collect()
}

/// Makes a file without waiting for the answer.
async fn make(volume: &Volume<impl Engine>, directory: ObjectId, text: &str) {
    let (who, how) = (Requester::root(), CreateHow::Guarded(SetAttributes::default()));
    drop(volume.files.create(&who, directory, &name(text), how).await);
}
