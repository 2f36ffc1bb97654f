//! Lost blocks of names: the files get other names, and the directory continues.

use enginekit::Volume;
use shadow::Shadow;
use sim::Image;
use vfs::{FileKind, FileSystem, FsError, ObjectId, Stability};

use crate::judged::found;
use crate::repair::{repaired, stopped};
use crate::scrub::{UNIT, filled, unit_of};

/// Kind of a block of names.
const NAMES: u8 = 6;

/// The contents of all regular files, in order, whatever their names; a new file is made in each
/// directory and removed again.
async fn all_contents(volume: &Volume<Shadow>) -> Result<Vec<Vec<u8>>, FsError> {
    let (mut contents, mut waiting) = (Vec::new(), vec![volume.files.root()]);
    while let Some(directory) = waiting.pop() {
        volume.create(directory, "a new one").await?;
        volume.remove(directory, "a new one").await?;
        for text in volume.list(directory).await? {
            if matches!(&text[..], "." | "..") {
                continue;
            }
            let id: ObjectId = volume.lookup(directory, &text).await?;
            match volume.attributes(id).await.kind {
                FileKind::Directory => waiting.push(id),
                FileKind::Regular => contents.push(volume.read(id).await?),
                _ => {}
            }
        }
    }
    contents.sort();
    Ok(contents)
}

/// Units in use with names.
fn blocks(image: &Image) -> Vec<u64> {
    let units = 32..image.size() / UNIT - 2;
    let is_one = |unit: &u64| {
        let bytes = unit_of(image, *unit);
        bytes.starts_with(b"DuSh") && bytes[6] == NAMES
    };
    units.filter(is_one).collect()
}

/// Loses a block of names, and repairs the volume: all files are there, and a check finds nothing.
/// Returns the image after it was served.
fn lose(image: &Image, unit: u64, is_whole: bool) -> Result<Option<Image>, String> {
    let (_, right) = stopped(image, all_contents).map_err(|error| format!("before: {error}"))?;
    let right = right.map_err(|error| format!("before: {error}"))?;
    let mut rotten = image.clone();
    let spoilt = if is_whole { vec![7; UNIT as usize] } else { vec![unit_of(image, unit)[99] ^ 8] };
    rotten.write(unit * UNIT + if is_whole { 0 } else { 99 }, &spoilt);
    if found(&rotten)?.wrong.is_empty() {
        return Ok(None); // it is not in use any more
    }
    let (mended, _) = repaired(&rotten)?;
    let left = found(&mended)?.wrong;
    if let Some(wrong) = left.first() {
        return Err(format!("unit {unit}: {wrong}"));
    }
    let (after, all) = stopped(&mended, all_contents)?;
    let all = all.map_err(|error| format!("unit {unit}: {error}"))?;
    if all != right {
        return Err(format!("unit {unit}: {} files of {}", all.len(), right.len()));
    }
    match found(&after)?.wrong.first() {
        Some(wrong) => Err(format!("unit {unit}, served: {wrong}")),
        None => Ok(Some(after)),
    }
}

/// Any block of names is lost, and then another one, when some files are in `lost+found`.
pub(crate) fn names_are_given() -> Result<(), String> {
    let image = filled();
    let mut count = 0;
    for (turn, unit) in blocks(&image).into_iter().enumerate() {
        let Some(after) = lose(&image, unit, turn % 2 == 0)? else { continue };
        count += 1;
        for (turn, unit) in blocks(&after).into_iter().enumerate().step_by(3) {
            lose(&after, unit, turn % 2 == 1)?;
        }
    }
    if count > 3 { Ok(()) } else { Err(format!("only {count} blocks were lost")) }
}

#[test]
fn files_whose_names_are_lost_get_others_and_directories_go_on() {
    assert_eq!(names_are_given(), Ok(()));
}

#[test]
fn a_directory_of_several_blocks_goes_on_without_some_of_them() {
    let (image, ()) = stopped(&filled(), async |volume: &Volume<Shadow>| {
        let root = volume.files.root();
        let wide = volume.mkdir(root, "wide").await.expect("there is room");
        for number in 0..60_u8 {
            let file = volume.create(wide, &format!("{number:0200}")).await.expect("there is room");
            let data = vec![number + 1; 100];
            volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
        }
    })
    .expect("it is well");
    let is_wide = |unit: &u64| {
        let bytes = unit_of(&image, *unit);
        bytes.windows(150).any(|window| window.iter().all(|&byte| byte == b'0'))
    };
    let wide: Vec<u64> = blocks(&image).into_iter().filter(is_wide).collect();
    let lost = wide.iter().filter(|&&unit| {
        lose(&image, unit, false).unwrap_or_else(|wrong| panic!("{wrong}")).is_some()
    });
    assert!(lost.count() > 2, "it has several");
}
