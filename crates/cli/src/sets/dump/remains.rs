//! `duramen raid dump --accept-loss`: recovers the remains of a volume whose set has lost too many
//! disks.
//!
//! The set is opened in memory, and nothing is written to its disks. Unreadable data becomes zeros
//! in the image, and is listed. The image includes the contents of the set's log. If the volume has
//! its own log in the set, as under policy `log`, that log is replayed into the image, too: an
//! image has no log beside it.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use block::file::{Access, DiskFile};
use block::{BlockDevice, Buffer};
use designs::{Disks, LogUse, OpenOptions, Prepared};
use runtime::Runtime;
use server::reactor;

use super::{STEP, new_image, remove, tell_size};
use crate::failure::Failure;
use crate::found::found_on;
use crate::stack::at_once;
use crate::volume::Volume;

/// Smallest unit of data that is given up, in bytes.
const BLOCK: u64 = 4096;

/// Result of a dump.
struct Dumped {
    size: u64,
    /// Unreadable ranges in ascending order, none adjacent to another.
    lost: Vec<Range<u64>>,
    /// Further notes for the user, one sentence each.
    notes: Vec<String>,
    /// Whether a log could not provide all of its contents: the image lacks them, and no list names
    /// them.
    is_short: bool,
}

/// Writes the image, with holes for zeros and for lost ranges.
///
/// # Errors
/// [`Failure::NotInImage`] and [`Failure::ShortImage`] if something is lost: the image is kept.
/// After any other [`Failure`] it is removed.
pub(in crate::sets) fn run(
    volume: Volume,
    file: &Path,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let volume = &Volume { is_loss_accepted: true, is_degraded_meant: true, ..volume };
    let image = new_image(file)?;
    let dumped = reactor::block_on(async |runtime| dump(volume, &image, file, &runtime).await);
    let dumped = dumped.map_err(Failure::Start).flatten();
    let dumped = dumped.inspect_err(|_| remove(file))?;
    for Range { start, end } in &dumped.lost {
        writeln!(output, "lost: {} bytes at byte {start}", end - start)?;
    }
    tell_size(volume, file, dumped.size, output)?;
    for note in &dumped.notes {
        writeln!(output, "note: {note}")?;
    }
    dumped.verdict(&volume.path)
}

impl Dumped {
    /// Whether the image has all acknowledged data, as far as the disks show.
    fn verdict(&self, path: &Path) -> Result<(), Failure> {
        let path = path.to_owned();
        match self.lost.iter().map(|range| range.end - range.start).sum() {
            0 if self.is_short => Err(Failure::ShortImage { path }),
            0 => Ok(()),
            bytes => Err(Failure::NotInImage { path, bytes }),
        }
    }
}

async fn dump(
    volume: &Volume,
    image: &File,
    file: &Path,
    runtime: &Runtime,
) -> Result<Dumped, Failure> {
    let written = |source| Failure::File { verb: "write", path: file.to_owned(), source };
    let stack = volume.open(Access::ReadOnly, &at_once, runtime).await?;
    let size = stack.disk.geometry().size;
    let mut lost: Vec<Range<u64>> = Vec::new();
    // Ranges yet to be read, the next one last.
    let mut ahead: Vec<Range<u64>> = Vec::new();
    for from in (0..size).step_by(STEP as usize) {
        ahead.push(from..(from + STEP).min(size));
        while let Some(range) = ahead.pop() {
            let length = range.end - range.start;
            let read = stack.disk.read(range.start, Buffer::unfilled(length as usize)).await;
            match read {
                Ok(bytes) if bytes.iter().all(|&byte| byte == 0) => {} // left as a hole
                Ok(bytes) => image.write_all_at(&bytes, range.start).map_err(written)?,
                Err(_) if length > BLOCK => {
                    let middle = range.start + (length / 2).next_multiple_of(BLOCK);
                    ahead.extend([middle..range.end, range.start..middle]);
                }
                Err(_) => lose(&mut lost, range),
            }
        }
    }
    image.set_len(size).and_then(|()| image.sync_all()).map_err(written)?;
    let set = &stack.set.as_ref().expect("it stands on one").set;
    let mut dumped = Dumped { size, lost, notes: Vec::new(), is_short: false };
    if set.label().forced > 0 {
        dumped.notes.push("the disks that are missing may have had newer data".to_owned());
    }
    if let lacked @ 1.. = set.status().done.lacked_records {
        dumped.is_short = true;
        dumped.notes.push(format!(
            "the log of the set lacks {lacked} records: what was written last may be as it was \
             before, and is not listed"
        ));
    }
    if set.status().done.may_lack_the_last {
        dumped.is_short = true;
        let note = "the last record of the log of the set may be on disks that are missing or \
                    cannot read it: what was written last may be as it was before, and is not \
                    listed";
        dumped.notes.push(note.to_owned());
    }
    let front = stack.front();
    if let Some(why) = front.as_ref().and_then(|front| front.lacked()) {
        dumped.is_short = true;
        dumped.notes.push(format!(
            "without the NVRAM ({why}): what was written last may be as it was before, and is not \
             listed"
        ));
    }
    bring_home(volume, stack.log.as_ref(), file, runtime, &mut dumped).await?;
    Ok(dumped)
}

/// Appends a lost range, which lies behind all earlier ones.
fn lose(lost: &mut Vec<Range<u64>>, range: Range<u64>) {
    match lost.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => lost.push(range),
    }
}

/// Replays the log of the volume into the image, and adds notes about the result.
async fn bring_home(
    volume: &Volume,
    log: Option<&Rc<dyn BlockDevice>>,
    file: &Path,
    runtime: &Runtime,
    dumped: &mut Dumped,
) -> Result<(), Failure> {
    if let Some(log) = log {
        let image = at_once(DiskFile::open(file, Access::ReadWrite)?);
        let prepare = volume.design().work().prepare;
        let prepared = prepare(&image, Some(log), runtime, LogUse::Replay).await;
        let advice = "'duramen fsck --repair --without-log' makes a volume of the image";
        match prepared {
            Err(why) => {
                let note = format!("what its log holds is not in the image: {why}; {advice}");
                dumped.notes.push(note);
                dumped.is_short = true;
                return Ok(());
            }
            // All entries are written in place, and the image is still marked as needing the log.
            Ok(Prepared { replayed: Some(replayed), .. }) => {
                let entries = format!("{} entries of its log are in the image", replayed.entries);
                let is_stopped = stop(volume, image, log, runtime).await.is_ok();
                let entries = if is_stopped { entries } else { format!("{entries}; {advice}") };
                dumped.notes.push(entries);
                return Ok(());
            }
            Ok(_) => {}
        }
    }
    let image = at_once(DiskFile::open(file, Access::ReadOnly)?);
    dumped.notes.extend(match found_on(volume.design(), &*image, file).await {
        Ok(found) if found.is_clean => None,
        Ok(_) => Some("it was not stopped cleanly: 'duramen fsck --repair' comes first".to_owned()),
        Err(why) => Some(format!("what is left does not say what the volume is: {why}")),
    });
    Ok(())
}

/// Opens the volume in an image whose log has been replayed, and stops it: then the image no longer
/// needs the log.
async fn stop(
    volume: &Volume,
    image: Rc<dyn BlockDevice>,
    log: &Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<(), String> {
    let disks = Disks { log: Some(log.clone()), ..Disks::alone(image) };
    let open = volume.design().work().open;
    let opened = open(disks, runtime.clone(), &OpenOptions::default(), &mut |_| ()).await;
    let files = opened.map_err(|error| error.to_string())?.files;
    files.shutdown().await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_side_by_side_is_one_range() {
        let mut lost = Vec::new();
        for range in [0..4096, 4096..8192, 12_288..16_384, 16_384..20_480, 40_960..45_056] {
            lose(&mut lost, range);
        }
        assert_eq!(lost, [0..8192, 12_288..20_480, 40_960..45_056]);
    }

    #[test]
    fn an_image_that_lacks_what_a_log_held_is_no_success() {
        let of = |lost: &[Range<u64>], is_short| {
            let dumped = Dumped { size: 1 << 20, lost: lost.to_vec(), notes: Vec::new(), is_short };
            dumped.verdict(Path::new("data")).map_err(|failure| failure.to_string())
        };
        assert_eq!(of(&[], false), Ok(()));
        let short = of(&[], true).expect_err("what a log held is not there");
        assert!(short.contains("the image lacks"), "{short}");
        let lost = of(&[0..4096, 8192..12_288], true).expect_err("two ranges are zeros");
        assert!(lost.contains("8192 bytes are lost"), "{lost}");
    }
}
