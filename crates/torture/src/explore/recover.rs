//! What becomes of images that a cut has left: the volume comes back, is looked at, used, emptied
//! and stopped, and the checker finds nothing.

use std::rc::Rc;

use ffs::check::{CheckOptions, check};
use namespace::Namespace;
use sim::Executor;
use vfs::ObjectId;

use super::Before;
use super::disks::{Disks, Images, Recording};
use super::driver::Driver;
use super::law::only_leaks;
use super::model::View;
use super::policy::Policy;
use super::ram::Ram;
use super::server::{Server, handle};
use crate::calls;

/// The world in which images are looked at: the same for all, so that equal images have equal
/// outcomes.
pub const SEED: u64 = 1;

/// What a client sees that comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// All names.
    pub view: View,
    /// What handles name, by the numbers of files in the view.
    pub ids: Vec<ObjectId>,
    /// The verifier of this boot.
    pub verifier: [u8; 8],
}

/// Brings a volume back and gives what can be seen. `before` are files that were there before the
/// workload: their handles are still around.
///
/// # Errors
/// What went wrong, on the way or afterwards.
pub fn recover(policy: Policy, images: &Images, before: &Before) -> Result<Recovered, String> {
    let executor = Executor::new(SEED);
    let rams: Vec<Rc<Ram>> =
        images.0.iter().map(|image| Rc::new(Ram::new(image.clone()))).collect();
    let recovered = executor.block_on(async {
        let devices = rams.iter().map(|ram| ram.clone() as _).collect();
        let opened = policy.open(devices, executor.runtime()).await;
        let opened = opened.map_err(|error| format!("it does not come back: {error}"))?;
        if let Some(report) = &opened.rebuilt {
            let geometry = opened.engine.geometry();
            only_leaks(geometry, images.volume(), &rams[0].image(), report)?;
        }
        let server = Server::new(executor.runtime(), Rc::new(Namespace::new(opened.engine)));
        let driver = Driver::new(server.witness.clone());
        let seen = driver.view().await.map_err(|error| format!("it cannot be read: {error}"))?;
        let (view, ids) = seen;
        let probe = driver.probe().await.map_err(|error| format!("nothing is made: {error}"))?;
        let committed = server.ask(&calls::commit(&handle(probe))).await?;
        let verifier = committed.unwrap().verf.0;
        driver.use_and_empty(&view, &ids, before, probe).await?;
        driver.stop().await.map_err(|error| format!("it does not stop: {error}"))?;
        Ok::<_, String>(Recovered { view, ids, verifier })
    })?;
    let report = executor.block_on(async {
        check(&*rams[0], &executor.runtime(), &CheckOptions::default(), &mut |_| ()).await
    });
    let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
    match report.findings.list.first() {
        None => Ok(recovered),
        Some(finding) => Err(format!("emptied and stopped, it is not well: {finding}")),
    }
}

/// What a return writes: to be cut again.
///
/// # Errors
/// When the volume does not come back.
pub fn record(policy: Policy, images: &Images) -> Result<Recording, String> {
    let executor = Executor::new(SEED);
    let disks = Disks::new(&executor, images);
    disks.start_recording();
    let opened = executor.block_on(policy.open(disks.devices(), executor.runtime()));
    opened.map_err(|error| format!("it does not come back: {error}"))?;
    Ok(disks.recording())
}
