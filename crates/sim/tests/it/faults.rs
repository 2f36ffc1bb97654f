//! Each fault, and its exact effect.

use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, IoError, Verb};
use sim::{Disk, Effect, Executor, Fate, Fault, Image, Options, Timing, presets};

const SIZE: u64 = 1 << 16;
const OLD: u8 = 1;
const NEW: u8 = 2;

/// A disk full of old, durable data.
fn world() -> (Executor, Rc<Disk>) {
    let executor = Executor::new(8);
    let disk = Disk::new(&executor, Image::from_bytes(&[OLD; SIZE as usize]));
    (executor, disk)
}

fn write(executor: &Executor, disk: &Disk, offset: u64, length: usize) -> Result<(), IoError> {
    executor.block_on(disk.write(offset, vec![vec![NEW; length].into()], Durability::Plain))
}

fn read(executor: &Executor, disk: &Disk, offset: u64, length: usize) -> Result<Buffer, IoError> {
    executor.block_on(disk.read(offset, Buffer::zeroed(length)))
}

/// The sectors with new data, each of which is entirely new.
fn changed(image: &Image) -> Vec<usize> {
    let bytes = image.bytes();
    let sectors = bytes.chunks(512).enumerate();
    let new: Vec<_> = sectors.filter(|(_, sector)| sector.contains(&NEW)).collect();
    assert!(new.iter().all(|(_, sector)| *sector == [NEW; 512]));
    new.into_iter().map(|(index, _)| index).collect()
}

#[test]
fn an_eio_strikes_the_range_it_was_ordered_for_and_no_other() {
    let (executor, disk) = world();
    disk.inject(Fault::on(Verb::Read, Effect::Eio).within(4096..8192).forever());
    assert!(read(&executor, &disk, 0, 4096).is_ok());
    let error = read(&executor, &disk, 7680, 1024).expect_err("its first sector is bad");
    assert_eq!((error.verb, error.offset, error.length), (Verb::Read, 7680, 1024));
    assert_eq!(error.code, Some(5));
    assert!(error.to_string().contains("Input/output error"), "{error}");
    assert!(read(&executor, &disk, 8192, 512).is_ok());
    assert!(write(&executor, &disk, 4096, 512).is_ok(), "it is for reads");
    assert!(read(&executor, &disk, 4096, 512).is_err(), "and for ever");
}

#[test]
fn a_disk_without_space_refuses_and_changes_nothing() {
    let (executor, disk) = world();
    disk.inject(Fault::on(Verb::Write, Effect::NoSpace).nth(2));
    assert!(write(&executor, &disk, 0, 512).is_ok());
    let error = write(&executor, &disk, 512, 2048).expect_err("the second one");
    assert_eq!((error.kind, error.code), (ErrorKind::StorageFull, Some(28)));
    assert_eq!(changed(&disk.contents()), [0]);
    assert!(write(&executor, &disk, 512, 512).is_ok(), "once");
    executor.block_on(disk.flush()).expect("a flush");
    assert_eq!(changed(&disk.platter().durable_image()), [0, 1]);
}

#[test]
fn a_cut_finds_no_more_of_a_faulty_write_than_the_fault_lets_through() {
    let effects = [
        (Effect::NoSpace, vec![]),
        (Effect::Dead, vec![]),
        (Effect::Lost, vec![]),
        (Effect::Short { sectors: 1 }, vec![0]),
        (Effect::Misdirected { to: 2048 }, vec![4, 5]),
    ];
    for (effect, expected) in effects {
        let (_executor, disk) = world();
        disk.inject(Fault::on(Verb::Write, effect));
        drop(disk.write(0, vec![vec![NEW; 1024].into()], Durability::Plain));
        let most = disk.platter().image_with(|_| Fate::Whole);
        assert_eq!(changed(&most), expected, "{effect:?}");
    }
}

#[test]
fn a_short_write_leaves_its_beginning_and_a_short_read_is_an_error() {
    let (executor, disk) = world();
    disk.inject(Fault::on_any(Effect::Short { sectors: 3 }).forever());
    let error = write(&executor, &disk, 1024, 4096).expect_err("it is short");
    assert_eq!(error.kind, ErrorKind::WriteZero);
    assert_eq!(changed(&disk.contents()), [2, 3, 4]);
    let error = read(&executor, &disk, 0, 4096).expect_err("so is this");
    assert_eq!(error.kind, ErrorKind::UnexpectedEof);
    executor.block_on(disk.flush()).expect("a flush has no bytes");
    assert!(changed(&disk.platter().durable_image()).is_empty(), "and nothing is promised");
}

#[test]
fn a_lost_write_is_answered_and_never_was() {
    let (executor, disk) = world();
    disk.inject(Fault::on(Verb::Write, Effect::Lost));
    write(&executor, &disk, 0, 1024).expect("so it says");
    assert_eq!(read(&executor, &disk, 0, 512).expect("a read")[..], [OLD; 512]);
    executor.block_on(disk.flush()).expect("a flush");
    assert!(changed(&disk.platter().durable_image()).is_empty());
    write(&executor, &disk, 0, 1024).expect("the next one is");
    assert_eq!(changed(&disk.contents()), [0, 1]);
}

#[test]
fn a_lost_flush_covers_nothing_and_the_next_one_does() {
    let (executor, disk) = world();
    write(&executor, &disk, 0, 512).expect("a write");
    disk.inject(Fault::on(Verb::Flush, Effect::Lost));
    executor.block_on(disk.flush()).expect("so it says");
    assert!(changed(&disk.platter().durable_image()).is_empty());
    executor.block_on(disk.flush()).expect("a flush");
    assert_eq!(changed(&disk.platter().durable_image()), [0]);
}

#[test]
fn a_lost_read_gives_back_the_buffer_as_it_was() {
    let (executor, disk) = world();
    disk.inject(Fault::on(Verb::Read, Effect::Lost));
    assert_eq!(read(&executor, &disk, 0, 512).expect("so it says")[..], [0; 512]);
    assert_eq!(read(&executor, &disk, 0, 512).expect("a read")[..], [OLD; 512]);
}

#[test]
fn a_misdirected_write_lands_elsewhere_and_leaves_the_right_place_as_it_was() {
    let (executor, disk) = world();
    disk.inject(Fault::on(Verb::Write, Effect::Misdirected { to: 8192 }));
    write(&executor, &disk, 0, 1024).expect("so it says");
    assert_eq!(changed(&disk.contents()), [16, 17]);
    executor.block_on(disk.flush()).expect("a flush");
    assert_eq!(changed(&disk.platter().durable_image()), [16, 17]);
    disk.inject(Fault::on(Verb::Write, Effect::Misdirected { to: SIZE }));
    write(&executor, &disk, 0, 512).expect("beyond the end is brought back");
    assert_eq!(changed(&disk.contents()), [16, 17, 127]);
    disk.inject(Fault::on(Verb::Read, Effect::Misdirected { to: 8192 }));
    assert_eq!(read(&executor, &disk, 0, 512).expect("a read")[..], [NEW; 512]);
    assert_eq!(read(&executor, &disk, 0, 512).expect("a read")[..], [OLD; 512]);
}

#[test]
fn a_rotten_read_harms_nothing_and_a_rotten_write_stays() {
    let (executor, disk) = world();
    let rot = Effect::Rot { bit: 8 * 3 + 7 };
    disk.inject(Fault::on(Verb::Read, rot));
    let spoiled = read(&executor, &disk, 512, 512).expect("so it says");
    assert_eq!(spoiled[..5], [OLD, OLD, OLD, OLD | 0x80, OLD]);
    assert_eq!(read(&executor, &disk, 512, 512).expect("a read")[..], [OLD; 512]);
    disk.inject(Fault::on(Verb::Write, rot));
    write(&executor, &disk, 512, 512).expect("so it says");
    for _ in 0..2 {
        let stays = read(&executor, &disk, 512, 512).expect("a read");
        assert_eq!(stays[..5], [NEW, NEW, NEW, NEW | 0x80, NEW]);
    }
}

#[test]
fn rot_at_rest_spares_what_is_in_the_cache_until_that_is_lost() {
    let (executor, disk) = world();
    disk.start_trace();
    let first = |image: &Image| image.bytes()[0];
    disk.rot(0, 6);
    assert_eq!(read(&executor, &disk, 0, 512).expect("a read")[0], OLD | 0x40);
    write(&executor, &disk, 0, 512).expect("a write");
    disk.rot(0, 7);
    assert_eq!(read(&executor, &disk, 0, 512).expect("a read")[0], NEW, "it is in the cache");
    assert_eq!(first(&disk.platter().durable_image()), OLD | 0xc0, "and the medium is not");
    executor.block_on(disk.flush()).expect("a flush");
    assert_eq!(first(&disk.platter().durable_image()), NEW, "writing it anew mends it");
    disk.rot(0, 5);
    assert_eq!(first(&disk.contents()), NEW | 0x20);
    let trace = disk.trace();
    let end = trace.platter_at(trace.events().len());
    assert_eq!(end.durable_image(), disk.contents(), "the trace knows of it");
}

#[test]
fn rot_reaches_a_durable_write_that_lies_behind_a_pending_one() {
    let (executor, disk) = world();
    write(&executor, &disk, 4096, 512).expect("a write that stays pending");
    let through = disk.write(0, vec![vec![NEW; 512].into()], Durability::Through);
    executor.block_on(through).expect("a write");
    disk.rot(1, 0);
    assert_eq!(disk.contents().bytes()[..3], [NEW, NEW | 1, NEW]);
    assert_eq!(disk.platter().durable_image().bytes()[..3], [NEW, NEW | 1, NEW]);
}

#[test]
fn a_slow_call_takes_longer_by_what_was_ordered() {
    let times = |timing, slow| {
        let executor = Executor::new(8);
        let options = Options { timing, ..Options::default() };
        let disk = Disk::with_options(&executor, Image::zeroed(SIZE), options);
        if slow {
            let effect = Effect::Slow(Duration::from_secs(30));
            disk.inject(Fault::on(Verb::Read, effect).nth(2));
        }
        [0; 3].map(|_| {
            let start = executor.now().0;
            read(&executor, &disk, 0, 512).expect("a read");
            executor.now().0 - start
        })
    };
    for timing in [Timing::default(), presets::NVME] {
        let (usual, slow) = (times(timing, false), times(timing, true));
        assert_eq!(slow, [usual[0], usual[1] + 30_000_000_000, usual[2]]);
    }
}

#[test]
fn a_dead_disk_refuses_everything_and_changes_nothing_more() {
    let (executor, disk) = world();
    write(&executor, &disk, 0, 512).expect("a write");
    disk.inject(Fault::on_any(Effect::Dead).forever());
    let error = write(&executor, &disk, 512, 512).expect_err("it is gone");
    assert_eq!(error.code, Some(6));
    assert!(read(&executor, &disk, 0, 512).is_err());
    assert!(executor.block_on(disk.flush()).is_err());
    assert!(executor.block_on(disk.discard(0, 512)).is_err());
    assert_eq!(changed(&disk.contents()), [0]);
    disk.heal();
    executor.block_on(disk.flush()).expect("it is back");
    assert!(changed(&disk.platter().durable_image()).is_empty(), "its failed flush strands");
}

#[test]
fn a_silent_call_is_under_way_for_ever() {
    let (executor, disk) = world();
    disk.inject(Fault::on(Verb::Write, Effect::Silent));
    let mut lost = disk.write(0, vec![vec![NEW; 512].into()], Durability::Plain);
    let hour = Duration::from_secs(3600);
    assert!(executor.block_on_for(hour, &mut lost).is_none());
    assert!(read(&executor, &disk, 0, 512).is_ok(), "others go on");
    assert!(changed(&disk.contents()).is_empty());
    assert_eq!(changed(&disk.platter().image_with(|_| Fate::Whole)), [0], "a cut may find it");
    assert!(executor.block_on_for(hour, disk.close()).is_none(), "a close waits for it");
}

#[test]
fn faults_are_the_same_on_every_kind_of_disk() {
    for timing in [presets::IBM_0661, presets::SATA_7200, presets::SATA_SSD, presets::NVRAM] {
        let executor = Executor::new(8);
        let options = Options { timing, ..Options::default() };
        let image = Image::from_bytes(&[OLD; SIZE as usize]);
        let disk = Disk::with_options(&executor, image, options);
        disk.inject(Fault::on(Verb::Write, Effect::Eio).nth(2));
        disk.inject(Fault::on(Verb::Write, Effect::Lost).nth(3));
        let answers: Vec<bool> =
            (0..4).map(|index| write(&executor, &disk, index * 512, 512).is_ok()).collect();
        assert_eq!(answers, [true, false, true, true]);
        let changed = changed(&disk.contents());
        assert!(changed == [0, 3] || changed == [0, 1, 3], "{changed:?}");
    }
}
