//! Cost of overwrites for the members of a set with parity, compared with a log on the same set.

use std::rc::Rc;

use block::BlockDevice;
use block::slice::split;
use bytes::Bytes;
use designs::{Design, Disks, FFS_LOG, MkfsOptions, OpenOptions, SHADOW};
use futures::future::join_all;
use raid::layout::Level;
use raid::{MakeOptions, make, open};
use runtime::Timestamp;
use sim::{Disk, Executor, Image, Options, Prng, presets};
use vfs::{CreateHow, Name, Requester, SetAttributes, Stability};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const MEMBERS: usize = 4;
const BLOCK: u64 = 8 << 10;
/// Size of the log of a design that has one, in bytes.
const LOG: u64 = 16 << 20;
/// Number of stripes of the set.
const ROWS: u64 = 683;
/// Size of the file, in bytes.
const FILE: u64 = 32 << 20;
const CALLERS: u64 = 32;

/// Reads and writes of members for each overwrite of 8 KiB, over `calls` overwrites, 32 at once, on
/// an old volume; and before that, bytes that members write for each byte of a sequential write.
fn cost(design: &Design, calls: u64) -> (f64, f64) {
    let executor = Executor::new(1);
    let options = MakeOptions::new(Level::Parity);
    let size = options.member_size(MEMBERS, ROWS);
    let members: Vec<Rc<Disk>> = (0..MEMBERS)
        .map(|_| {
            let options = Options { timing: presets::SATA_7200, ..Options::default() };
            Disk::with_options(&executor, Image::zeroed(size), options)
        })
        .collect();
    executor.block_on(async {
        let devices: Vec<Rc<dyn BlockDevice>> =
            members.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect();
        make(&devices, &options, &executor.runtime()).await.expect("there is room");
        let set = open(devices, &executor.runtime(), Default::default()).await.expect("it is new");
        let set: Rc<dyn BlockDevice> = Rc::new(set);
        let disks = if design.disks.len() > 1 {
            let [log, volume] =
                split(set, LOG).map(|part| -> Rc<dyn BlockDevice> { Rc::new(part) });
            Disks { volume, log: Some(log), intents: None }
        } else {
            Disks::alone(set)
        };
        let zone_size = Some(2 << 20).filter(|_| design.disks.len() == 1);
        let made = MkfsOptions { zone_size, ..MkfsOptions::default() };
        let random = executor.runtime().random;
        (design.work().make)(&*disks.volume, &made, &*random, NOW).await.expect("it has room");
        let options = OpenOptions::default();
        let opened = (design.work().open)(disks, executor.runtime(), &options, &mut |_| ()).await;
        let opened = opened.expect("it is new");
        let files = &opened.files;
        let (name, how) = (Name::parse(b"f"), CreateHow::Guarded(SetAttributes::default()));
        let name = name.expect("a name");
        let root = Requester::root();
        let made = files.create(&root, files.root(), &name, how).await.open().await;
        let file = made.expect("running").into_inner().result.expect("it is new").id;
        let write = async |at: u64, length: u64| {
            let data = vec![Bytes::from(vec![3; length as usize])];
            let written = files.write(&root, file, at, data, Stability::FileSync).await;
            written.open().await.expect("running").into_inner().result.expect("there is room");
        };
        let all = || members.iter().map(|disk| disk.counters());
        let mut streamed = 0;
        for _ in 0..6 {
            let before: u64 = all().map(|it| it.bytes_written).sum();
            for at in (0..FILE).step_by(1 << 20) {
                write(at, 1 << 20).await;
            }
            streamed = all().map(|it| it.bytes_written).sum::<u64>() - before;
        }
        let overwrite = async |seed: u64, calls: u64| {
            let work = (0..CALLERS).map(async |caller| {
                let mut prng = Prng::new(seed << 8 | caller);
                for _ in 0..calls / CALLERS {
                    write(prng.index((FILE / BLOCK) as usize) as u64 * BLOCK, BLOCK).await;
                }
            });
            join_all(work).await;
        };
        overwrite(1, 8 * calls).await;
        let before: u64 = all().map(|it| it.reads + it.writes).sum();
        overwrite(2, calls).await;
        let after: u64 = all().map(|it| it.reads + it.writes).sum();
        let a_call = (after - before) as f64 / (calls / CALLERS * CALLERS) as f64;
        (a_call, streamed as f64 / FILE as f64)
    })
}

#[test]
fn overwrites_and_streams_cost_members_less_than_with_a_log() {
    let [(ours, streamed), (log, _)] = [&SHADOW, &FFS_LOG].map(|design| cost(design, 640));
    println!("{ours:.2} calls of members for each overwrite, {log:.2} with a log");
    println!("{streamed:.2} bytes written for each that streams in");
    assert!(ours < 1.5 && ours < log / 2.0, "{ours}, {log}");
    assert!(streamed < 2.5, "{streamed}");
}
