//! Anchors of which one turn has rotted, at both ends of the disk.

use cow::UNIT;
use enginekit::Volume;
use shadow::format::anchor::Anchor;
use shadow::{Law, Shadow, check, look, set_label};
use sim::{Executor, Image};
use vfs::{FileSystem, FsError};

use crate::bench::{Setting, made, opened};
use crate::lost::{disk_of, newest, writes};
use crate::scrub::unit_of;

/// Wipes all copies of the anchors with this number modulo 2.
fn without_turn(image: &Image, number: u64) -> Image {
    let mut image = image.clone();
    for unit in newest(&image).shape.anchor(number) {
        image.write(unit * UNIT as u64, &[0; UNIT]);
    }
    image
}

/// The value in the file of [`writes`], on a disk that is opened and stopped.
fn last_value(image: &Image) -> Result<(Option<u8>, Image), String> {
    let (executor, disk) = disk_of(image);
    let value = executor.block_on(async {
        let volume: Volume<Shadow> = opened(executor.runtime(), &disk).await?;
        let failed = |error: FsError| error.to_string();
        let file = volume.lookup(volume.files.root(), "one").await.map_err(failed)?;
        let data = volume.read(file).await.map_err(failed)?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(data.first().copied().filter(|first| data == vec![*first; 30_000]))
    })?;
    Ok((value, disk.contents()))
}

/// Whichever turn has rotted, everything durable is there.
pub(crate) fn a_turn_may_rot() -> Result<(), String> {
    let executor = Executor::new(3);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    let images = executor.block_on(writes(&disk, &executor, 25))?;
    for (value, image) in (0..).zip(&images[1..]) {
        let number = newest(image).number;
        for rotten in [number, number - 1] {
            let (found, after) = last_value(&without_turn(image, rotten))?;
            if found != Some(value) {
                return Err(format!("{found:?} is there, and not {value}"));
            }
            let whole = (0..2).map(|turn| newest(&after).shape.anchor(turn));
            let are_whole = whole.flatten().all(|at| Anchor::read(&unit_of(&after, at)).is_ok());
            if !are_whole || newest(&after).number <= number {
                return Err("anchors were not made anew".to_owned());
            }
        }
    }
    Ok(())
}

#[test]
fn nothing_is_lost_with_a_turn_of_anchors() {
    assert_eq!(a_turn_may_rot(), Ok(()));
}

#[test]
fn a_check_tells_of_a_turn_that_is_lost() {
    let executor = Executor::new(3);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    executor.block_on(writes(&disk, &executor, 5)).expect("there is room");
    let (_, image) = last_value(&disk.contents()).expect("it is well");
    let number = newest(&image).number;
    for (rotten, expected) in [(None, vec![]), (Some(number), vec![Law::Anchor])] {
        let image = rotten.map_or(image.clone(), |number| without_turn(&image, number));
        let (executor, disk) = disk_of(&image);
        let found = executor.block_on(check(disk, true, &mut |_, _| ())).expect("it is there");
        let laws: Vec<Law> = found.wrong.into_iter().map(|wrong| wrong.law).collect();
        assert_eq!(laws, expected, "{rotten:?}");
    }
}

/// Only anchors have a label until the next opening.
#[test]
fn a_label_outlives_the_other_turn() {
    let executor = Executor::new(3);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    executor.block_on(writes(&disk, &executor, 5)).expect("there is room");
    let (value, image) = last_value(&disk.contents()).expect("it is well");
    let (executor, disk) = disk_of(&image);
    executor.block_on(set_label(&*disk, "pears")).expect("it is at rest");
    let labelled = disk.contents();
    let number = newest(&labelled).number;
    for (rotten, label, is_at_rest) in [(number - 1, "pears", true), (number, "", true)] {
        let image = without_turn(&labelled, rotten);
        let (executor, disk) = disk_of(&image);
        let seen = executor.block_on(look(&*disk)).expect("it is there");
        assert_eq!((seen.label.as_str(), seen.is_at_rest), (label, is_at_rest), "{rotten}");
        let (found, after) = last_value(&image).expect("it is well");
        assert_eq!((found, newest(&after).label.as_str()), (value, label), "{rotten}");
    }
    // The newest anchor is left, and the volume was killed since.
    let (executor, disk) = disk_of(&labelled);
    executor.block_on(writes(&disk, &executor, 1)).expect("there is room");
    let killed = without_turn(&disk.contents(), newest(&disk.contents()).number - 1);
    let (found, after) = last_value(&killed).expect("it is well");
    assert_eq!((found, newest(&after).label.as_str()), (Some(0), "pears"));
}
