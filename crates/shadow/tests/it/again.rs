//! Second tries of a scrub: blocks that the disk does not read for a while, and rotten blocks of
//! the books.

use block::Verb;
use cow::Kind;
use shadow::format::kind;
use shadow::scrub;
use sim::{Disk, Effect, Executor, Fault, Image};
use vfs::{FileSystem, Stability};

use crate::bench::{Setting, findings, made, opened_small, told};
use crate::books::{needed, rotten, used};
use crate::forge::versions;
use crate::mended::on;
use crate::scrub::{UNIT, unit_of};

/// A stopped volume with a file of 20 blocks, the last of which has rotted.
fn with_rot() -> Result<Image, String> {
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 8 << 20)));
    let (mut image, ()) = on(&disk.contents(), async |volume| {
        let file = volume.create(volume.files.root(), "f").await.map_err(told)?;
        volume.write(file, 0, vec![7; 20 * 4096], Stability::FileSync).await.map_err(told)
    })?;
    let is_data = |unit: &u64| unit_of(&image, *unit) == [7; 4096];
    let last = (32..image.size() / UNIT - 2).rfind(is_data).ok_or("it has no data")?;
    image.write(last * UNIT, &[0x5a; 9]);
    Ok(image)
}

/// The disk does not read a block of inodes, or of pointers, for a while: what has rotted below it
/// is found, or the block itself is reported.
pub(crate) fn nothing_is_passed_over() -> Result<(), String> {
    let image = with_rot()?;
    for place in [(Kind::INODES, 0, 0, 1), (Kind::POINTERS, 16, 1, 0)] {
        let at = versions(&image, place, |_| true).last().ok_or("it is not there")? * UNIT;
        for times in [1, 2, 3, 4, 6, 20, 21, 22, 25, 40, 41, 42, 60, 200] {
            let executor = Executor::new(1);
            let disk = Disk::new(&executor, image.clone());
            for nth in 1..=times {
                disk.inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + 1).nth(nth));
            }
            let found = executor.block_on(scrub(disk, &mut |_| true));
            let found = found.map_err(|error| error.to_string())?;
            let lost = found.map_err(|error| error.to_string())?.lost;
            if !lost.iter().any(|lost| lost.path.as_deref() == Some("/f")) {
                return Err(format!("{place:?} is not read {times} times: {lost:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_scrub_passes_over_nothing_that_is_not_read_for_a_while() {
    assert_eq!(nothing_is_passed_over(), Ok(()));
}

/// A block of the map or of the records rots under the server, which has little memory: a
/// scrub has it replaced.
pub(crate) fn a_scrub_renews_books() -> Result<(), String> {
    let image = used();
    for kind in [kind::MAP, kind::RECORD] {
        let units = needed(&image, &[kind], &[]);
        let unit = *units.last().ok_or("there is none")?;
        let executor = Executor::new(3);
        let disk = Disk::new(&executor, image.clone());
        executor.block_on(async {
            let volume = opened_small(executor.runtime(), &disk).await?;
            disk.rot(unit * UNIT + 1077, 2);
            let engine = volume.files.store().engine().clone();
            let found = engine.scrub(&mut |_| true).await.map_err(|error| error.to_string())?;
            if !found.lost.is_empty() || found.mended == 0 {
                return Err(format!("{kind:?}: {found:?}"));
            }
            let found = engine.scrub(&mut |_| true).await.map_err(|error| error.to_string())?;
            if found.mended > 0 {
                return Err(format!("{kind:?}, once more: {found:?}"));
            }
            volume.files.shutdown().await.map_err(told)
        })?;
        findings(&disk.contents()).map_err(|error| format!("{kind:?}: {error}"))?;
    }
    Ok(())
}

#[test]
fn a_scrub_has_rotten_books_replaced() {
    assert_eq!(a_scrub_renews_books(), Ok(()));
}

/// A volume that is not open has lost lines of lists: all else is read.
#[test]
fn lost_lines_of_lists_end_no_scrub() {
    let image = used();
    let lines = needed(&image, &[Kind::LISTS], &[]);
    let is_data = |unit: &u64| unit_of(&image, *unit) == [7; 4096];
    let data = (32..image.size() / UNIT - 2).find(is_data).expect("it is there");
    let executor = Executor::new(1);
    let mut wrong = rotten(&image, &lines);
    wrong.write(data * UNIT, &[0x5a; 9]);
    let disk = Disk::new(&executor, wrong);
    let found = executor.block_on(scrub(disk, &mut |_| true)).expect("it is found");
    let lost = found.expect("it comes to its end").lost;
    assert!(lost.len() > lines.len() && !lines.is_empty(), "{lost:?}");
}
