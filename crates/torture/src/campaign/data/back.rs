//! Recovers images that a cut has left: the volume is opened and read, its files grow, it is
//! stopped, and the checker finds nothing.

use std::rc::Rc;

use block::BlockDevice;
use designs::CheckOptions;
use sim::Executor;
use vfs::FileSystem;

use super::life::{compare, grow, look, within};
use super::model::Seen;
use crate::explore::design::{Design, Shape};
use crate::explore::disks::Images;
use crate::explore::law::only_leaks;
use crate::explore::ram::Ram;
use crate::explore::server::Server;

/// One image in this many is served once more after its clean stop.
const AGAIN: u128 = 4;

/// The files of a recovered image, and any later error.
pub(super) struct Back {
    pub seen: Seen,
    pub afterwards: Result<(), String>,
}

impl Back {
    /// Bytes of the files that were seen.
    pub(super) fn bytes(&self) -> usize {
        self.seen.iter().flatten().map(Vec::len).sum()
    }
}

/// Recovers an image. Equal images have equal outcomes: the world follows from them.
///
/// # Errors
/// When the volume cannot be read.
pub(super) fn bring_back(
    (design, shape): (Design, &Shape),
    images: &Images,
    fingerprint: u128,
) -> Result<Back, String> {
    let executor = Executor::new(fingerprint as u64);
    let rams: Vec<Rc<Ram>> =
        images.0.iter().map(|image| Rc::new(Ram::new(image.clone()))).collect();
    let (server, seen) = open(&executor, (design, shape), &rams, Some(images))?;
    let again = fingerprint.is_multiple_of(AGAIN);
    let afterwards = use_and_stop(&executor, shape, (server, &seen)).and_then(|grown| {
        is_well(&executor, design, &rams[0])?;
        if again { once_more(&executor, (design, shape), &rams, &grown) } else { Ok(()) }
    });
    Ok(Back { seen, afterwards })
}

fn open(
    executor: &Executor,
    (design, shape): (Design, &Shape),
    rams: &[Rc<Ram>],
    before: Option<&Images>,
) -> Result<(Server, Seen), String> {
    within(executor, "to come back", async {
        let devices = rams.iter().map(|ram| ram.clone() as _).collect();
        let opened = design.open_as(devices, executor.runtime(), shape).await;
        let opened = opened.map_err(|error| format!("it does not come back: {error}"))?;
        if let (Some(report), Some(before)) = (&opened.rebuilt, before) {
            only_leaks(design, before.volume(), &rams[0].image(), report)?;
        }
        let server = Server::new(executor.runtime(), opened.files);
        let (_, seen) = look(&server).await?;
        Ok((server, seen))
    })
}

/// Grows every file by more than its last block; returns the files as they are then.
fn use_and_stop(
    executor: &Executor,
    shape: &Shape,
    (server, seen): (Server, &Seen),
) -> Result<Seen, String> {
    within(executor, "to be used and stopped", async {
        let (handles, _) = look(&server).await?;
        let mut grown = seen.clone();
        for (number, (handle, bytes)) in handles.iter().zip(&mut grown).enumerate() {
            let (Some(handle), Some(bytes)) = (handle, bytes) else { continue };
            let by = shape.block_size + shape.fragment_size + 100;
            let longer = grow(&server, handle, bytes, by).await;
            longer.map_err(|reason| format!("file {number}, made longer: {reason}"))?;
            bytes.resize(bytes.len() + by as usize, 0);
        }
        let stopped = server.witness.shutdown().await;
        stopped.map_err(|error| format!("it does not stop: {error}"))?;
        Ok(grown)
    })
}

fn is_well(executor: &Executor, design: Design, volume: &Rc<Ram>) -> Result<(), String> {
    let report = executor.block_on(async {
        let volume: Rc<dyn BlockDevice> = volume.clone();
        design.check(&volume, &executor.runtime(), &CheckOptions::default()).await
    });
    let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
    match report.findings.list.first() {
        None => Ok(()),
        Some(finding) => Err(format!("stopped, it is not well: {finding}")),
    }
}

/// After the clean stop the files are as before.
fn once_more(
    executor: &Executor,
    with: (Design, &Shape),
    rams: &[Rc<Ram>],
    expected: &Seen,
) -> Result<(), String> {
    let (_, seen) = open(executor, with, rams, None)?;
    for (number, (found, expected)) in seen.iter().zip(expected).enumerate() {
        let same = match (found, expected) {
            (Some(found), Some(expected)) => compare(found, expected),
            (None, None) => Ok(()),
            _ => Err("it is there, or is not".to_owned()),
        };
        same.map_err(|reason| format!("stopped and served again, file {number}: {reason}"))?;
    }
    Ok(())
}
