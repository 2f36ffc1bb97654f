//! A repair that fails: the findings are still reported, with the reason.

use std::rc::Rc;

use block::{BlockDevice, Verb};
use designs::{CheckOptions, Disks, LogState, MkfsOptions, OpenOptions, SHADOW};
use runtime::Timestamp;
use sim::{Disk, Executor, Image, Persistence};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const UNIT: u64 = 4096;

#[test]
fn what_was_found_is_told_with_why_nothing_is_repaired() {
    let (executor, work) = (Executor::new(1), SHADOW.work());
    let disk = Disk::new(&executor, Image::zeroed(8 << 20));
    executor.block_on(async {
        let (device, random) = (disk.clone(), executor.runtime().random);
        let made = (work.make)(&*device, &MkfsOptions::default(), &*random, NOW).await;
        made.expect("it has room");
        let (disks, options) = (Disks::alone(device), OpenOptions::default());
        let opened = (work.open)(disks, executor.runtime(), &options, &mut |_| ()).await;
        opened.expect("it is new").files.shutdown().await.expect("nothing fails");
    });
    // Its only block of inodes, in all existing versions.
    let mut rotten = disk.contents();
    for unit in 32..rotten.size() / UNIT {
        let mut bytes = [0; 64];
        rotten.read(unit * UNIT, &mut bytes);
        if bytes.starts_with(b"DuSh") && bytes[6] == cow::format::head::Kind::INODES.byte() {
            rotten.write(unit * UNIT + 1000, &[0x5a; 9]);
        }
    }
    let disk = Disk::new(&executor, rotten.clone());
    disk.fail(Verb::Write, 1, Persistence::Forever);
    let device: Rc<dyn BlockDevice> = disk.clone();
    let options = CheckOptions { repair: true, full: true, log: LogState::Home };
    let (runtime, mut silent) = (executor.runtime(), |_| ());
    let checked = (work.check)(&device, None, &runtime, &options, &mut silent);
    let report = executor.block_on(checked).expect("it can be looked at");
    let told: Vec<&str> = report.findings.list.iter().map(|it| it.rule.name).collect();
    assert!(told.contains(&"tree.block") && told.contains(&"tree.root"), "{told:?}");
    assert!(report.findings.list.iter().all(|it| it.repair.is_none()), "nothing was repaired");
    assert!(!report.repaired && report.findings.unrepairable);
    let why = report.unrepaired.expect("it says why");
    assert!(why.contains("Input/output error"), "{why}");
    assert!(disk.contents() == rotten, "nothing is written");
    disk.heal();
    let checked = (work.check)(&device, None, &runtime, &options, &mut silent);
    let report = executor.block_on(checked).expect("it can be looked at");
    assert!(
        report.repaired && report.unrepaired.is_none(),
        "a disk that is well again is repaired"
    );
}
