//! `duramen raid scrub`: verifies the whole set, and names the files with lost data.
//!
//! The process that has the set open verifies it, and names the lost data. The set reports lost
//! places as offsets of the volume. The checker ([`fsck`]) finds their files: it reads the volume
//! through a device on which exactly these places are unreadable, and reports the missing parts of
//! each file. A server continues meanwhile. A walk through the directories ([`names`]) finds all
//! names of such a file; if it fails, the one name from the checker is used.

mod names;

use std::collections::BTreeSet;
use std::io::Write;
use std::rc::Rc;

use block::file::Access;
use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb};
use bytes::Bytes;
use designs::{CheckOptions, DataPlace};
use futures::FutureExt;
use raid::ScrubError;
use runtime::Runtime;
use serde_json::json;
use server::control::Refused;
use server::reactor;

use super::{Status, ask, bar, change, follow, print_json};
use crate::failure::Failure;
use crate::losses::ScrubEnd;
use crate::order;
use crate::size::show_size;
use crate::stack::{Lost, Scrub, at_once};
use crate::volume::Volume;
use crate::words;

/// Scrubs the set and prints the findings.
///
/// # Errors
/// [`Failure`], also if data is lost.
pub(super) fn run(volume: &Volume, json: bool, output: &mut dyn Write) -> Result<(), Failure> {
    let scrub = match ask(volume, "scrub", &json!({}))? {
        Some(answer) => {
            follow(volume, &answer, "scrubbing")?;
            let scrub = order::told(volume, "raid").and_then(|status: Status| status.scrub);
            let path = volume.socket().expect("it was asked");
            let why = "it tells nothing of the scrub".to_owned();
            scrub.ok_or(Failure::Control { path, why })?
        }
        None => change(volume, async |orders, _| {
            let bar = bar("scrubbing");
            let shown = bar.clone();
            let scrubbed = orders.scrub(move |done, total| {
                shown.set_length(total);
                shown.set_position(done);
            });
            let scrubbed = scrubbed.await;
            bar.finish_and_clear();
            let scrub = scrubbed.map_err(unscrubbed)?;
            Ok(orders.named(scrub, ScrubEnd::Completed).await)
        })?,
    };
    if json {
        print_json(&scrub, output)?;
    } else {
        describe(&scrub, volume, output)?;
    }
    let bytes = scrub.lost_bytes();
    if bytes > 0 { Err(Failure::Lost { path: volume.path.clone(), bytes }) } else { Ok(()) }
}

/// Refuses a scrub with this reason.
pub(super) fn unscrubbed(why: ScrubError) -> Refused {
    match why {
        ScrubError::Striped => Refused::Senseless(why.to_string()),
        ScrubError::Busy | ScrubError::Stopped | ScrubError::Cancelled => {
            Refused::Conflict(why.to_string())
        }
    }
}

fn describe(scrub: &Scrub, volume: &Volume, output: &mut dyn Write) -> Result<(), Failure> {
    for Lost { path, other_paths, offset, length } in &scrub.lost {
        let whose = path.as_deref().unwrap_or("no file, at this byte of the volume");
        let also = match &other_paths[..] {
            [] => String::new(),
            others => format!(" (also {})", others.join(", ")),
        };
        writeln!(output, "lost: {whose}{also}: {length} bytes at byte {offset}")?;
    }
    let (path, Scrub { done_bytes, mended, .. }) = (volume.path.display(), scrub);
    if scrub.unread_bytes > 0 {
        let bytes = scrub.unread_bytes;
        writeln!(output, "unread, not lost: {bytes} bytes that a disk may give later")?;
    }
    let size = show_size(*done_bytes);
    Ok(writeln!(output, "{path}: looked at {size} of each disk, {mended} blocks mended")?)
}

/// Splits these lost places by the files that own them, as far as the files can be found.
pub(super) fn named(volume: &Volume, lost: Vec<Lost>) -> Vec<Lost> {
    name(volume, lost.clone()).unwrap_or_else(|failure| {
        let path = volume.path.display();
        words::say(format_args!("{path}: whose what is lost is cannot be told: {failure}"));
        lost
    })
}

/// Finds the files that own these lost places.
fn name(volume: &Volume, lost: Vec<Lost>) -> Result<Vec<Lost>, Failure> {
    let named = reactor::block_on(|runtime: Runtime| async move {
        let stack = volume.open(Access::Glance, &at_once, &runtime).await?;
        let (disk, wanting) = (stack.disk.clone(), lost.clone());
        let without: Rc<dyn BlockDevice> = Rc::new(Without { disk, lost: wanting });
        let options = CheckOptions { full: true, ..CheckOptions::default() };
        let check = volume.design().work().check;
        let report =
            check(&without, None, &runtime, &options, &mut |_| ()).await.map_err(|source| {
                let source = std::io::Error::other(source.to_string());
                Failure::File { verb: "check", path: volume.path.clone(), source }
            })?;
        let runs = report.findings.list.into_iter().filter_map(|finding| {
            let DataPlace { offset, at, length } = finding.data?;
            let ino = finding.place.ino.filter(|_| finding.snapshot.is_none());
            let paths = vec![finding.path?];
            Some(Run { paths, ino, at: offset, from: at, length })
        });
        let mut runs: Vec<Run> = runs.collect();
        let wanted: BTreeSet<u64> = runs.iter().filter_map(|run| run.ino).collect();
        let all = names::all_of(volume, without, stack.log, &wanted, &runtime).await;
        for run in &mut runs {
            run.paths = run.ino.and_then(|ino| all.get(&ino)).unwrap_or(&run.paths).clone();
        }
        Ok(merged(lost.iter().flat_map(|lost| whose(lost, &runs)).collect()))
    });
    let named: Result<Result<_, Failure>, _> = named;
    named.map_err(Failure::Start)?
}

/// Unreadable blocks of a file.
struct Run {
    /// Names of the file, at least one.
    paths: Vec<String>,
    /// Inode number of the file, if it is a live file.
    ino: Option<u64>,
    /// Offsets in the file and in the volume, in bytes.
    at: u64,
    from: u64,
    length: u64,
}

/// Splits a lost place into parts, one for each file that owns a part of it.
fn whose(lost: &Lost, runs: &[Run]) -> Vec<Lost> {
    let end = lost.offset + lost.length;
    let (mut parts, mut at): (Vec<Lost>, u64) = (Vec::new(), lost.offset);
    while at < end {
        // One block may hold fragments of several files.
        let those = runs.iter().filter(|run| run.from <= at && at < run.from + run.length);
        let run = those.max_by_key(|run| run.from);
        let next = runs.iter().map(|run| run.from).filter(|&from| from > at).min();
        let until = run.map_or(end, |run| (run.from + run.length).min(end));
        let until = next.map_or(until, |next| next.min(until));
        let mut part = Lost::somewhere(at, until - at);
        if let Some(run) = run {
            let mut paths = run.paths.iter().cloned();
            (part.path, part.offset) = (paths.next(), run.at + at - run.from);
            part.other_paths = paths.collect();
        }
        parts.push(part);
        at = until;
    }
    parts
}

/// Sorts parts by file, and joins those that are adjacent in a file.
fn merged(mut parts: Vec<Lost>) -> Vec<Lost> {
    parts.sort_by(|one, other| {
        let place = |part: &Lost| (part.path.is_none(), part.path.clone(), part.offset);
        place(one).cmp(&place(other))
    });
    let mut merged: Vec<Lost> = Vec::new();
    for part in parts {
        let is_next =
            |last: &&mut Lost| last.path == part.path && last.offset + last.length == part.offset;
        match merged.last_mut().filter(is_next) {
            Some(last) => last.length += part.length,
            None => merged.push(part),
        }
    }
    merged
}

/// A read-only disk on which some places are unreadable.
struct Without {
    disk: Rc<dyn BlockDevice>,
    lost: Vec<Lost>,
}

impl BlockDevice for Without {
    fn geometry(&self) -> Geometry {
        Geometry { read_only: true, ..self.disk.geometry() }
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let end = offset + buffer.len() as u64;
        let mut lost = self.lost.iter();
        if lost.any(|lost| lost.offset < end && offset < lost.offset + lost.length) {
            let error = IoError::new(Verb::Read, offset, end - offset, std::io::ErrorKind::Other);
            return async move { Err(error) }.boxed_local();
        }
        self.disk.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _: Durability) -> Io<()> {
        let length = block::length_of(&data);
        let kind = std::io::ErrorKind::ReadOnlyFilesystem;
        async move { Err(IoError::new(Verb::Write, offset, length, kind)) }.boxed_local()
    }

    fn flush(&self) -> Io<()> {
        async { Ok(()) }.boxed_local()
    }

    fn discard(&self, _: u64, _: u64) -> Io<()> {
        async { Ok(()) }.boxed_local()
    }

    fn close(&self) -> Io<()> {
        self.disk.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(path: Option<&str>, offset: u64, length: u64) -> Lost {
        Lost { path: path.map(str::to_owned), ..Lost::somewhere(offset, length) }
    }

    #[test]
    fn what_lies_side_by_side_in_a_file_is_one_range() {
        let (one, two) = (Some("/one"), Some("/two"));
        let parts = vec![
            part(one, 4096, 4096),
            part(None, 4096, 4096),
            part(two, 8192, 4096), // adjacent in the volume, but of another file
            part(one, 0, 4096),
            part(None, 8192, 512),
            part(one, 12_288, 4096),
        ];
        let expected = [
            part(one, 0, 8192),
            part(one, 12_288, 4096),
            part(two, 8192, 4096),
            part(None, 4096, 4608),
        ];
        assert_eq!(merged(parts), expected);
    }

    #[test]
    fn a_file_has_all_its_names() {
        let paths = ["/one", "/a/two"].map(str::to_owned).to_vec();
        let run = Run { paths, ino: Some(5), at: 32_768, from: 8192, length: 4096 };
        let parts = whose(&Lost::somewhere(8192, 8192), &[run]);
        let named =
            Lost { other_paths: vec!["/a/two".to_owned()], ..part(Some("/one"), 32_768, 4096) };
        assert_eq!(parts, [named, part(None, 12_288, 4096)]);
    }
}
