//! Disks that begin with zeros: volumes that are recognised by other bytes.

use std::ops::Range;

use block::{BlockDevice, IoError, Verb};
use designs::{DESIGNS, Design, FFS_LOG, MkfsOptions, SHADOW};
use runtime::Timestamp;
use sim::{Disk, Effect, Executor, Fault, Image};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const SIZE: u64 = 16 << 20;
const SHADOW_IS_THERE: &str = "a volume of engine shadow that has lost anchors";

/// Creates a volume and returns its image.
fn made(design: &Design) -> Image {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, Image::zeroed(SIZE));
    let (options, random) = (MkfsOptions::default(), executor.runtime().random);
    let made = (design.work().make)(&*disk, &options, &*random, NOW);
    executor.block_on(made).expect("it has room");
    disk.contents()
}

fn wiped(mut image: Image, ranges: &[Range<u64>]) -> Image {
    for range in ranges {
        image.write(range.start, &vec![0; (range.end - range.start) as usize]);
    }
    image
}

fn lost(image: &Image, fault: Option<Fault>) -> Result<Option<&'static str>, IoError> {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image.clone());
    fault.into_iter().for_each(|fault| disk.inject(fault));
    let found = executor.block_on(DESIGNS.find_lost(&*disk));
    assert!(disk.contents() == *image && disk.geometry().size == SIZE, "nothing is written");
    found
}

#[test]
fn what_has_lost_its_start_is_known_by_what_is_left() {
    let ends = [0..8192, SIZE - 8192..SIZE];
    assert_eq!(lost(&wiped(made(&SHADOW), &ends[..1]), None), Ok(Some(SHADOW_IS_THERE)));
    assert_eq!(lost(&wiped(made(&SHADOW), &ends), None), Ok(Some(SHADOW_IS_THERE)));
    let ffs = wiped(made(&FFS_LOG), std::slice::from_ref(&(0..1 << 20)));
    let expected = "a UFS2 file system that has lost its superblock";
    assert_eq!(lost(&ffs, None), Ok(Some(expected)));
}

#[test]
fn what_is_damaged_is_something_and_zeros_are_nothing() {
    assert_eq!(lost(&Image::zeroed(SIZE), None), Ok(None));
    // All superblocks are lost, and an anchor at the end is left.
    let most = wiped(made(&SHADOW), std::slice::from_ref(&(0..SIZE - 8192)));
    let expected = "what is left of a damaged volume of engine shadow";
    assert_eq!(lost(&most, None), Ok(Some(expected)));
}

#[test]
fn a_disk_that_cannot_be_read_may_hold_something() {
    let image = wiped(made(&SHADOW), &[0..8192, SIZE - 8192..SIZE]);
    for range in [0..4096, 128 << 10..SIZE] {
        let fault = Fault::on(Verb::Read, Effect::Eio).within(range.clone()).forever();
        assert!(lost(&image, Some(fault)).is_err(), "{range:?}");
    }
}
