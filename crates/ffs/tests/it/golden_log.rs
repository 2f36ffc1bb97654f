//! A volume and its log as each version of the format left them at a power failure: every later
//! version must be able to replay them.
//!
//! `golden/log-v1.disks` has both disks of version 1 in a sparse text (see [`sim::sparse`]), and
//! `golden/log-v1.tree` has the expected content of the volume and the expected answers afterwards.
//! Version 3 is that of a shared log, and has the disks of two volumes. The files are never
//! regenerated for a version that has been released: a new version gets files of its own beside
//! these, made with
//!
//! ```console
//! $ DURAMEN_GOLDEN=1 cargo test -p ffs --test it golden_log
//! ```
//!
//! The log has records of every kind; one chain in it has begun and not ended.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::rc::Rc;

use block::BlockDevice;
use ffs::OpenOptions;
use ffs::policy::log::record::{Map, Record, read_records};
use ffs::replay::Replayed;
use futures::future::LocalBoxFuture;
use journal::Walker;
use namespace::Namespace;
use runtime::Timestamp;
use sim::{Choice, Disk, Executor, Image, Prng, Trace, sparse};
use ufs2::layout::{Geometry, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{CallKey, FileSystem, ObjectId, Requester, SetAttributes, Stability};

use crate::common::cutting::{Pair, after_cut, judge, sizes};
use crate::common::volume::{Volume, name, open_with_log};
use crate::common::{Seeded, reuse, sharing};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const HOME: u64 = 1 << 20;
const LOG: u64 = 17 * (64 << 10);

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).join(name)
}

async fn open(
    executor: &Executor,
    disks: &Pair<Rc<Disk>>,
) -> Result<(Volume, Option<Replayed>), String> {
    let Pair { home, log } = disks.clone();
    let log = log.map(|log| log as Rc<dyn BlockDevice>);
    let options = OpenOptions { log: reuse::without_sync(), ..OpenOptions::default() };
    let opened = open_with_log(home, log, executor.runtime(), &options, &mut |_| ()).await;
    let opened = opened.map_err(|error| error.to_string())?;
    let volume = Volume { files: Namespace::new(opened.files), root: Requester::root() };
    Ok((volume, opened.replayed))
}

/// Operations that produce every kind of record.
async fn work(volume: &Volume) {
    let root = volume.files.root();
    let file = |parent: ObjectId, name: &'static str, size: usize, byte: u8| async move {
        let id = volume.create(parent, name).await.expect("new");
        let data = vec![byte; size];
        volume.write(id, 0, data, Stability::FileSync).await.expect("there is room");
        id
    };
    let directory = volume.mkdir(root, "directory").await.expect("new");
    let small = file(root, "small", 1500, 0x11).await;
    file(directory, "large", 40_000, 0x22).await;
    let zeros = file(directory, "zeros", 3000, 0).await;
    // Over logged data: by an entry, and past the log.
    volume.write(small, 100, vec![0x33; 700], Stability::FileSync).await.expect("there is room");
    volume.write(zeros, 0, vec![0x44; 20_000], Stability::FileSync).await.expect("there is room");
    // More inodes than are initialised.
    for index in 0..26 {
        volume.create(directory, &format!("empty-{index}")).await.expect("new");
    }
    for index in 10..15 {
        volume.remove(directory, &format!("empty-{index}")).await.expect("it is there");
    }
    volume.symlink(root, "link", b"directory/large").await.expect("new");
    volume.rename((root, "small"), (directory, "moved")).await.expect("it is there");
    let gone = volume.mkdir(root, "gone").await.expect("new");
    volume.rmdir(root, "gone").await.expect("it is empty");
    assert_ne!(gone, directory);
    // A call that must be remembered, and repetitions of others.
    let key = CallKey::new(b"the key of a call").expect("it is short");
    let requester = Requester { call: Some(Rc::new(key)), ..Requester::root() };
    let mode = SetAttributes { mode: Some(0o750), ..SetAttributes::default() };
    let made = volume.files.mkdir(&requester, root, &name("remembered"), mode).await;
    made.open().await.expect("running").into_inner().result.expect("new");
    std::mem::forget(requester); // its caller holds the key for ever
    volume.files.count_repetition(false);
    volume.files.count_repetition(true);
    // A complete chain.
    file(root, "went", 100_000, 0x55).await;
    volume.remove(root, "went").await.expect("it is there");
    file(root, "goes", 200_000, 0x66).await;
}

fn make() -> Pair<Image> {
    let executor = Executor::new(1);
    let images = Pair { home: Image::zeroed(HOME), log: Some(Image::zeroed(LOG)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    let options = MkfsOptions { bytes_per_inode: Some(16_384), ..sizes(4096, 512) };
    executor.block_on(async {
        mkfs(&*disks.home, &options, &Seeded::new(7), NOW).await.expect("the disk holds it");
        let (volume, _) = open(&executor, &disks).await.expect("it is new");
        work(&volume).await;
        disks.map(|disk| disk.start_trace());
        volume.remove(volume.files.root(), "goes").await.expect("it is there");
    });
    cut_in_chain(&disks.map(|disk| disk.trace()))
}

/// The disks at a power failure while the log records a chain that has not ended: in the middle of
/// a batch, if both its ends are in one.
fn cut_in_chain(traces: &Pair<Trace>) -> Pair<Image> {
    let log = traces.log.as_ref().expect("there is one");
    let mut prng = Prng::new(1);
    let left = log.events().iter().flat_map(|event| {
        let platter = |trace: &Trace| trace.platter_at(trace.position_of(event.serial));
        let (home, log) = (platter(&traces.home).durable_image(), platter(log));
        let choices = Choice::explore(&log, &mut prng).into_iter();
        choices.map(move |choice| Pair { home: home.clone(), log: Some(log.image(&choice)) })
    });
    let in_chain = |images: &Pair<Image>| {
        let (executor, disks) = after_cut(1, images.clone());
        let kinds = executor.block_on(kinds(&disks));
        kinds.get("chain begins") > kinds.get("chain ends")
    };
    left.into_iter().find(in_chain).expect("the file is freed in steps")
}

/// Contents of a volume, a line for each name.
async fn tree(volume: &Volume) -> String {
    let mut text = String::new();
    list(volume, volume.files.root(), String::new(), &mut text).await;
    text
}

fn list<'a>(
    volume: &'a Volume,
    directory: ObjectId,
    path: String,
    text: &'a mut String,
) -> LocalBoxFuture<'a, ()> {
    Box::pin(async move {
        let mut names = volume.list(directory).await.expect("it can be listed");
        names.retain(|name| name != "." && name != "..");
        names.sort();
        for name in names {
            let id = volume.lookup(directory, &name).await.expect("it was listed");
            let attributes = volume.attributes(id).await;
            let path = format!("{path}/{name}");
            write!(text, "{path} {:?} {}", attributes.kind, attributes.nlink).expect("it grows");
            match attributes.kind {
                vfs::FileKind::Regular => {
                    let data = volume.read(id).await.expect("it can be read");
                    writeln!(text, " {}", runs(&data)).expect("it grows");
                }
                vfs::FileKind::Directory => {
                    text.push('\n');
                    list(volume, id, path, text).await;
                }
                _ => writeln!(text, " {}", attributes.size).expect("it grows"),
            }
        }
    })
}

/// The content of a file as runs of equal bytes.
fn runs(data: &[u8]) -> String {
    let stretches = data.chunk_by(|one, next| one == next);
    let words = stretches.map(|run| format!("{}*{:02x}", run.len(), run[0]));
    if data.is_empty() { "empty".to_owned() } else { words.collect::<Vec<_>>().join(" ") }
}

/// Number of records of each kind in the log.
async fn kinds(disks: &Pair<Rc<Disk>>) -> BTreeMap<&'static str, u64> {
    let mut superblock = vec![0; SUPERBLOCK_ROOM as usize];
    disks.home.contents().read(SUPERBLOCK_ADDRESS, &mut superblock);
    Geometry::parse_any_order(&mut superblock).expect("a volume");
    let last_mount = Superblock::of(&superblock).last_mount;
    let end = last_mount.iter().position(|&byte| byte == 0).expect("it ends");
    let mark = str::from_utf8(&last_mount[..end]).expect("text");
    let nonce = mark.rsplit(':').next().expect("three words");
    let epoch = u64::from_str_radix(nonce, 16).expect("a number");
    let log = disks.log.as_ref().expect("there is one");
    let live = journal::find(&**log, epoch).await.expect("whole").expect("of this volume");
    let mut walker = Walker::new(&**log, live.slot, live.head);
    let mut kinds = BTreeMap::new();
    while let Some(entry) = walker.next().await.expect("readable") {
        let records = read_records(entry.header.records.get(), &entry.body).expect("records");
        for record in records {
            *kinds.entry(kind(&record)).or_default() += 1;
        }
    }
    kinds
}

fn kind(record: &Record) -> &'static str {
    match record {
        Record::Bytes { .. } => "bytes",
        Record::Zeros { .. } => "zeros",
        Record::Bits { map: Map::Fragments, .. } => "bits of fragments",
        Record::Bits { map: Map::Inodes, .. } => "bits of inodes",
        Record::Group { .. } => "group bytes",
        Record::Inodes { .. } => "inodes",
        Record::Revoked { .. } => "revoked",
        Record::ChainBegins(_) => "chain begins",
        Record::ChainEnds(_) => "chain ends",
        Record::Answer(_) => "answer",
        Record::Repetitions(_) => "repetitions",
    }
}

/// The images of a version, and the expected result.
struct Golden {
    disks: &'static str,
    told: &'static str,
    /// Number of kinds of records that it has.
    kinds: usize,
}

#[test]
fn version_1_is_replayed() {
    replays(Golden { disks: "log-v1.disks", told: "log-v1.tree", kinds: 9 });
}

#[test]
fn version_2_is_replayed() {
    let golden = Golden { disks: "log-v2.disks", told: "log-v2.tree", kinds: 11 };
    if std::env::var_os("DURAMEN_GOLDEN").is_some() {
        let Pair { home, log } = make();
        let text = sparse::write([("home", &home), ("log", &log.expect("it has one"))]);
        std::fs::write(path(golden.disks), text).expect("the folder is there");
    }
    replays(golden);
}

#[test]
fn version_3_is_replayed() {
    let (disks, told) = (path("log-v3.disks"), path("log-v3.told"));
    if std::env::var_os("DURAMEN_GOLDEN").is_some() {
        let (images, models) = sharing::golden();
        let text = sparse::write(["home", "home", "log"].into_iter().zip(&images));
        std::fs::write(&disks, text).expect("the folder is there");
        std::fs::write(&told, models).expect("the folder is there");
    }
    let text = std::fs::read_to_string(&disks).expect("it was made");
    assert!(text.len() < 100 << 10, "{} bytes", text.len());
    let found = sharing::replayed(&sparse::read(&text));
    assert_eq!(found, std::fs::read_to_string(&told).expect("it was made"));
}

fn replays(golden: Golden) {
    let text = std::fs::read_to_string(path(golden.disks)).expect("it was made");
    assert!(text.len() < 100 << 10, "{} bytes", text.len());
    let [home, log] = sparse::read(&text).try_into().expect("two disks");
    let (executor, disks) = after_cut(1, Pair { home, log: Some(log) });
    let kinds = executor.block_on(kinds(&disks));
    assert_eq!(kinds.len(), golden.kinds, "the log tells of everything: {kinds:?}");
    assert!(kinds["chain begins"] > kinds["chain ends"], "a chain has not ended: {kinds:?}");
    let found = executor.block_on(async {
        let (volume, replayed) = open(&executor, &disks).await.expect("it is replayed");
        let replayed = replayed.expect("it was cut");
        let (entries, chains) = (replayed.entries, replayed.chains);
        assert!(replayed.revoked > 0, "{replayed:?}");
        let tree = tree(&volume).await;
        let remembered = volume.files.take_remembered().open().await.expect("running");
        // Everything that this log records is live, and was written down before there were other
        // trees, or answers of calls that failed later.
        let told = |one: String| {
            one.replace(", snapshot: SnapshotNumber(0)", "").replace(", has_failed: false", "")
        };
        let remembered = remembered.each().map(|one| told(format!("{:?}\n", *one)));
        let remembered: String = remembered.collect();
        volume.files.shutdown().await.expect("a clean stop");
        format!("{entries} entries, {chains} chains\n{tree}{remembered}")
    });
    if std::env::var_os("DURAMEN_GOLDEN").is_some() && golden.disks != "log-v1.disks" {
        std::fs::write(path(golden.told), &found).expect("the folder is there");
    }
    let expected = std::fs::read_to_string(path(golden.told)).expect("it was made");
    assert_eq!(found, expected);
    judge(&disks.home, golden.disks).unwrap_or_else(|wrong| panic!("{wrong}"));
}
