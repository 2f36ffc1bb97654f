//! A volume that is not open: probing it, its label, its stop, and openings that write nothing.

use std::rc::Rc;

use block::{BlockDevice, Buffer};
use enginekit::random::Seeded;
use shadow::{
    Law, MkfsError, MkfsOptions, OpenError, OpenOptions, Seen, check, look, mkfs, open, plan,
    set_label,
};
use sim::{Choice, Disk, Executor, Image, Prng};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{NOW, Setting, findings, made, opened};

fn setting() -> Setting {
    Setting::of(4, 64, 2 << 20)
}

fn seen(image: &Image) -> Result<Seen, OpenError> {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(look(&*disk))
}

/// The disk after this many files, and one directory, were made, and the volume was stopped or not.
fn used(files: u64, stops: bool) -> Image {
    let executor = Executor::new(2);
    let disk = executor.block_on(made(&executor, &setting()));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let root = volume.files.root();
        let directory = volume.mkdir(root, "d").await.expect("there is room");
        for number in 0..files {
            let file = volume.create(directory, &format!("f{number}")).await;
            let data = vec![1; 5000];
            let written = volume.write(file.expect("room"), 0, data, Stability::FileSync).await;
            written.expect("there is room");
        }
        if stops {
            volume.files.shutdown().await.expect("nothing fails");
            let read = disk.read(0, Buffer::unfilled(512)).await;
            assert!(read.is_err(), "a stop closes what the volume stood on");
        }
    });
    disk.contents()
}

#[test]
fn a_look_tells_what_there_is() {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &setting()));
    let fresh = executor.block_on(look(&*disk)).expect("it was made");
    assert!(fresh.is_at_rest && fresh.is_fresh, "{fresh:?}");
    assert_eq!((fresh.files, fresh.directories, fresh.seconds), (1, 1, NOW.seconds));
    let image = used(7, true);
    let told = seen(&image).expect("it is a volume");
    assert!(told.is_at_rest && !told.is_fresh, "{told:?}");
    assert_eq!((told.files, told.directories), (9, 2));
    assert_eq!((told.number, told.size), (fresh.number, 2 << 20));
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image);
    let space = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        volume.space().await
    });
    assert!(space.free_bytes.abs_diff(told.free) <= 8 * 4096, "{told:?}, {space:?}");
    let in_use = seen(&used(7, false)).expect("it is a volume");
    assert!(!in_use.is_at_rest && !in_use.is_fresh, "{in_use:?}");
}

#[test]
fn a_label_is_changed_at_rest_and_a_cut_leaves_one_or_the_other() {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, used(2, true));
    disk.start_trace();
    for label in ["one", "two", "three"] {
        executor.block_on(set_label(&*disk, label)).expect("it is at rest");
        assert_eq!(executor.block_on(look(&*disk)).map(|seen| seen.label), Ok(label.to_owned()));
    }
    let trace = disk.trace();
    for position in 0..=trace.events().len() {
        let platter = trace.platter_at(position);
        let image = platter.image(&Choice::random(&platter, &mut Prng::new(position as u64)));
        let told = seen(&image).expect("it is a volume");
        assert!(told.is_at_rest && ["", "one", "two", "three"].contains(&&*told.label), "{told:?}");
        assert_eq!(findings(&image), Ok(()), "event {position}");
    }
    let disk = Disk::new(&executor, used(2, false));
    assert_eq!(executor.block_on(set_label(&*disk, "one")), Err(OpenError::NotAtRest));
    let disk = Disk::new(&executor, used(2, true));
    assert_eq!(executor.block_on(set_label(&*disk, &"x".repeat(65))), Err(OpenError::Label));
}

#[test]
fn what_is_opened_read_only_is_not_written() {
    let image = used(3, true);
    let executor = Executor::new(4);
    let disk = Disk::new(&executor, image.clone());
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    executor.block_on(async {
        let files = open(disk.clone(), executor.runtime(), &options).await.expect("it is at rest");
        let volume = enginekit::Volume::new(files);
        let root = volume.files.root();
        let directory = volume.lookup(root, "d").await.expect("it is there");
        let file = volume.lookup(directory, "f1").await.expect("it is there");
        assert_eq!(volume.read(file).await, Ok(vec![1; 5000]));
        assert_eq!(volume.create(root, "new").await, Err(FsError::ReadOnly));
        volume.files.shutdown().await.expect("there is nothing to stop");
    });
    assert_eq!(disk.counters().writes, 0);
    assert!(disk.contents() == image, "nothing is written");
    let disk = Disk::new(&executor, used(3, false));
    let refused = executor.block_on(open(disk.clone(), executor.runtime(), &options));
    assert_eq!(refused.err(), Some(OpenError::NotAtRest));
}

#[test]
fn a_volume_that_is_being_made_is_none_until_it_is_whole() {
    let executor = Executor::new(5);
    let disk = Disk::new(&executor, used(3, true)); // of another volume
    disk.start_trace();
    let (mut wrong, mut begun) = (Vec::new(), 0);
    executor.block_on(async {
        let options = MkfsOptions { label: "new".to_owned(), ..setting().options };
        mkfs(&*disk, &options, &Seeded::new(8), NOW).await.expect("there is room");
    });
    let trace = disk.trace();
    for position in 0..=trace.events().len() {
        for seed in 0..8 {
            let platter = trace.platter_at(position);
            let mut prng = Prng::new(position as u64 * 8 + seed);
            let image = platter.image(&Choice::random(&platter, &mut prng));
            let mut head = vec![0; 8192];
            image.read(0, &mut head);
            let anchors = shadow::format::anchor::Anchor::begins(&head);
            let is_begun = shadow::format::anchor::is_begun(&head);
            begun += u32::from(is_begun);
            match seen(&image) {
                // The old volume, as long as none of it is overwritten, or the new one.
                Ok(told) => {
                    let is_whole = findings(&image).is_ok() && told.is_at_rest;
                    let is_known = ["", "new"].contains(&&*told.label) && !is_begun;
                    if !is_whole || !is_known {
                        wrong.push((position, seed, format!("{told:?}")));
                    }
                }
                Err(OpenError::Unfinished) if is_begun && !anchors => {}
                Err(error) => wrong.push((position, seed, error.to_string())),
            }
        }
    }
    assert_eq!(wrong, []);
    assert!(begun > 10, "{begun} were cut in between");
}

#[test]
fn what_cannot_be_made_is_refused_with_a_sentence() {
    let of = |size: u64, block: u64, zone: u64| {
        let (block_size, zone_size) = (block, Some(zone));
        plan(size, &MkfsOptions { block_size, zone_size, ..MkfsOptions::default() })
    };
    assert!(of(1 << 20, 4096, 64 << 10).is_ok());
    for (block, zone) in [(3000, 64 << 10), (4096, 4096), (128 << 10, 1 << 20), (4096, 100_000)] {
        assert!(matches!(of(1 << 30, block, zone), Err(MkfsError::Shape { .. })), "{block} {zone}");
    }
    for zone in [(256 << 20) + 4096, 768 << 20, (64 << 30) - 4096, 128 << 30] {
        assert!(matches!(of(1 << 40, 4096, zone), Err(MkfsError::Shape { .. })), "{zone}");
    }
    for zone in [(256 << 20) - 4096, 256 << 20, 512 << 20, 64 << 30] {
        assert!(of(1 << 40, 4096, zone).is_ok(), "{zone}");
    }
    for size in [0, 8192, 512 << 10, 700 << 10] {
        assert!(matches!(of(size, 4096, 64 << 10), Err(MkfsError::Small { .. })), "{size}");
    }
    for (size, usual) in [(64 << 20, 4 << 20), (1 << 20, 64 << 10)] {
        let refused = of(size, 8192, 64 << 20).expect_err("all is one zone");
        let said = matches!(refused, MkfsError::Zone { usual: said, .. } if said == usual);
        assert!(said, "{refused:?}");
    }
    assert!(matches!(of(u64::MAX, 4096, 64 << 10), Err(MkfsError::Large { .. })));
    for size in [2 << 20, 5 << 20, 64 << 20, 1 << 40] {
        let shape = plan(size, &MkfsOptions::default()).expect("it is large enough");
        assert!(shape.zones() > 10 && shape.zone <= 16_384, "{size}: {shape:?}");
    }
}

/// The findings of a check of the stopped volume after a change.
fn told(change: impl FnOnce(&mut Image)) -> Vec<(Law, Option<String>)> {
    let mut image = used(3, true);
    change(&mut image);
    let executor = Executor::new(1);
    let disk: Rc<dyn BlockDevice> = Disk::new(&executor, image);
    let found = executor.block_on(check(disk, true, &mut |_, _| ())).expect("there is a volume");
    let total: u64 = found.counts.values().sum();
    assert_eq!(total, found.wrong.len() as u64);
    found.wrong.into_iter().map(|wrong| (wrong.law, wrong.path)).collect()
}

#[test]
fn every_law_stands_in_the_page_on_checks() {
    let page = include_str!("../../../../docs/fsck.md");
    let line = |law: &Law| format!("| `{}` | {} |\n", law.name(), law.sentence());
    let table: String = Law::ALL.iter().map(line).collect();
    assert!(page.contains(&table), "docs/fsck.md should have this:\n{table}");
}

#[test]
fn a_check_names_the_file_whose_data_has_rotted() {
    assert_eq!(told(|_| ()), []);
    let rots = |image: &mut Image| {
        for unit in 0..image.size() / 4096 {
            let mut bytes = [0; 4096];
            image.read(unit * 4096, &mut bytes);
            if bytes == [1; 4096] {
                image.write(unit * 4096, &[2]);
                return;
            }
        }
    };
    let wrong = told(rots);
    assert!(
        matches!(&wrong[..], [(Law::Data, Some(path))] if path.starts_with("/d/f")),
        "{wrong:?}"
    );
}
