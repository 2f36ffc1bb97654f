//! A disk of engine `shadow` that has lost the anchors, which locate its superblocks.

use std::rc::Rc;

use block::BlockDevice;
use designs::{CheckOptions, LogState, MkfsOptions, Report, SHADOW, Severity};
use runtime::Timestamp;
use sim::{Disk, Executor, Image};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

#[test]
fn lost_anchors_are_told_and_repaired() {
    let (executor, work) = (Executor::new(1), SHADOW.work());
    let disk = Disk::new(&executor, Image::zeroed(8 << 20));
    let options = MkfsOptions { label: "apples".to_owned(), ..MkfsOptions::default() };
    let random = executor.runtime().random;
    executor.block_on((work.make)(&*disk, &options, &*random, NOW)).expect("it has room");
    let mut image = disk.contents();
    for end in [0, image.size() - 8192] {
        image.write(end, &[0; 8192]);
    }
    let disk = Disk::new(&executor, image.clone());
    let device: Rc<dyn BlockDevice> = disk.clone();
    let checked = |repair| -> Report {
        let options = CheckOptions { repair, full: true, log: LogState::Home };
        let (runtime, mut silent) = (executor.runtime(), |_| ());
        let checked = (work.check)(&device, None, &runtime, &options, &mut silent);
        executor.block_on(checked).expect("it can be looked at")
    };
    let told = |report: &Report| -> Vec<(&'static str, Severity)> {
        report.findings.list.iter().map(|it| (it.rule.name, it.severity)).collect()
    };
    let lost = vec![("volume.rest", Severity::Note), ("volume.anchor", Severity::Repairable)];
    assert_eq!(told(&checked(false)), lost);
    assert!(disk.contents() == image, "a look writes nothing");
    let found = executor.block_on((work.look)(&*disk)).expect("it is found");
    assert_eq!((found.label.as_str(), found.is_clean), ("apples", false));
    assert_eq!(found.has_anchors, Some(false));
    let report = checked(true);
    assert_eq!((told(&report), report.repaired), (lost, true));
    assert!(!report.findings.unrepairable, "{:?}", report.findings);
    assert_eq!(told(&checked(false)), []);
    let found = executor.block_on((work.look)(&*disk)).expect("it is there");
    assert_eq!((found.label.as_str(), found.is_clean), ("apples", true));
    assert_eq!(found.has_anchors, Some(true));
}
