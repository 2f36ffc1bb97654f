//! Every entry of the table, used through the entry alone: a volume is created, opened, cut off,
//! checked and opened again.

use std::rc::Rc;

use block::BlockDevice;
use designs::{
    CheckOptions, DESIGNS, Design, DiskRole, Disks, Found, LogUse, MkfsOptions, OpenOptions, Opened,
};
use journal::format::SMALLEST;
use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use vfs::{CreateHow, Name, Requester, RootDirectory, SetAttributes};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// The disks that a design needs.
fn disks(executor: &Executor, design: &Design) -> Vec<Rc<Disk>> {
    let size = |role: &DiskRole| match role {
        DiskRole::Volume => 8 << 20,
        DiskRole::Log => SMALLEST,
    };
    design.disks.iter().map(|role| Disk::new(executor, Image::zeroed(size(role)))).collect()
}

fn named(disks: &[Rc<Disk>]) -> Disks {
    Disks {
        volume: disks[0].clone(),
        log: disks.get(1).map(|disk| disk.clone() as _),
        intents: None,
    }
}

async fn open(design: &Design, disks: &[Rc<Disk>], executor: &Executor) -> Opened {
    let (options, runtime) = (OpenOptions::default(), executor.runtime());
    let opened = (design.work().open)(named(disks), runtime, &options, &mut |_| ()).await;
    opened.unwrap_or_else(|error| panic!("{design:?}: {error}"))
}

async fn found(design: &Design, disk: &Disk) -> Found {
    let found = (design.work().look)(disk).await;
    found.unwrap_or_else(|error| panic!("{design:?}: {error}"))
}

async fn make(design: &Design, disks: &[Rc<Disk>], executor: &Executor) {
    let options = MkfsOptions::default();
    let random = executor.runtime().random;
    let made = (design.work().make)(&*disks[0], &options, &*random, NOW).await;
    made.unwrap_or_else(|error| panic!("{design:?}: {error}"));
}

#[test]
fn a_volume_of_each_design_comes_back_from_a_cut_as_its_entry_has_it() {
    for &design in DESIGNS.all() {
        let executor = Executor::new(1);
        let before = disks(&executor, design);
        let name = Name::parse(b"told").expect("a name");
        executor.block_on(async {
            make(design, &before, &executor).await;
            let files = open(design, &before, &executor).await.files;
            let how = CreateHow::Guarded(SetAttributes::default());
            let made =
                files.create(&Requester::root(), files.root(), &name, how).await.open().await;
            made.expect("running").into_inner().result.expect("there is room");
            if let Some(mark) = design.mark {
                let found = found(design, &before[0]).await;
                assert_eq!(found.cut_off_under.as_deref(), Some(mark.name()), "it is in use");
                assert_eq!(found.needs_log, design.has(DiskRole::Log), "{design:?}");
            }
        });
        executor.crash();

        let executor = Executor::new(2);
        let again = |disk: &Rc<Disk>| Disk::new(&executor, disk.contents());
        let after: Vec<_> = before.iter().map(again).collect();
        executor.block_on(async {
            let (runtime, work) = (executor.runtime(), design.work());
            let Disks { volume, log, .. } = named(&after);
            let prepared = (work.prepare)(&volume, log.as_ref(), &runtime, LogUse::Replay).await;
            let prepared = prepared.unwrap_or_else(|error| panic!("{design:?}: {error}"));
            assert_eq!(prepared.replayed.is_some(), design.has(DiskRole::Log), "{design:?}");
            let options =
                CheckOptions { repair: true, log: prepared.state, ..CheckOptions::default() };
            let report = (work.check)(&volume, None, &runtime, &options, &mut |_| ()).await;
            let report = report.expect("it can be checked");
            assert!(report.repaired || !report.was_unclean, "{design:?}");
            let at_rest = found(design, &after[0]).await;
            assert!(at_rest.is_clean && !at_rest.needs_check, "{design:?}: it is at rest");
            (work.set_label)(&*volume, "archive").await.expect("it is not open");
            assert_eq!(found(design, &after[0]).await.label, "archive", "{design:?}");
            let files = open(design, &after, &executor).await.files;
            let found = files.lookup(&Requester::root(), files.root(), &name).await.open().await;
            found.expect("running").into_inner().result.expect("what was answered is there");
            files.shutdown().await.expect("it stops");
        });
    }
}

#[test]
fn the_root_directory_of_a_new_volume_has_the_given_owner_and_mode() {
    let given = RootDirectory { uid: 1000, gid: 100, mode: 0o1777 };
    for &design in DESIGNS.all() {
        for root in [RootDirectory::default(), given] {
            let executor = Executor::new(1);
            let disks = disks(&executor, design);
            executor.block_on(async {
                let options = MkfsOptions { root, ..MkfsOptions::default() };
                let (work, runtime) = (design.work(), executor.runtime());
                let made = (work.make)(&*disks[0], &options, &*runtime.random, NOW).await;
                made.unwrap_or_else(|error| panic!("{design:?}: {error}"));
                let files = open(design, &disks, &executor).await.files;
                let attributes = files.getattr(files.root()).await.open().await;
                let attributes = attributes.expect("running").into_inner().expect("a root");
                assert_eq!(RootDirectory::from(attributes), root, "{design:?}");
                files.shutdown().await.expect("it stops");
                let options = CheckOptions::default();
                let at_rest: Rc<dyn BlockDevice> = Disk::new(&executor, disks[0].contents());
                let report = (work.check)(&at_rest, None, &runtime, &options, &mut |_| ()).await;
                let findings = report.expect("it can be checked").findings;
                assert_eq!(findings.total(), 0, "{design:?}: {findings:?}");
            });
        }
    }
}

#[test]
fn every_design_is_told_of_in_the_page_on_durability() {
    let page = include_str!("../../../../docs/durability.md");
    for &design in DESIGNS.all() {
        let kind = if design.policy.is_some() { "Policy" } else { "Engine" };
        let heading = format!("\n## {kind} `{}`\n", design.name());
        let (_, chapter) = page.split_once(&heading).unwrap_or_else(|| panic!("no {heading:?}"));
        let chapter = chapter.split("\n## ").next().unwrap_or_default();
        for part in ["**The commit point**", "### A retry across a crash"] {
            assert!(chapter.contains(part), "{design:?}: no {part}");
        }
    }
}

#[test]
fn every_entry_says_what_a_person_has_to_know() {
    for &design in DESIGNS.all() {
        for sentence in [design.about, design.after_crash, design.retry] {
            assert!(sentence.len() > 20 && !sentence.ends_with('.'), "{design:?}: {sentence:?}");
        }
        assert_eq!(design.disks.first(), Some(&DiskRole::Volume), "{design:?}");
        let first = DESIGNS.with_disks(design.engine, design.disks).expect("it has them itself");
        assert_eq!(first.disks, design.disks, "a bare disk is served by one that needs as much");
    }
}
