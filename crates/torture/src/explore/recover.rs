//! What becomes of an image that a cut has left: the volume comes back, is looked at, used, emptied
//! and stopped, and the checker finds nothing.

use std::rc::Rc;

use ffs::check::{CheckOptions, check};
use ffs::{OpenOptions, open};
use namespace::Namespace;
use sim::{Executor, Image};

use super::driver::Driver;
use super::model::View;
use super::ram::Ram;

/// The world in which images are looked at: the same for all, so that equal images have equal
/// outcomes.
const SEED: u64 = 1;

/// Memory for a volume of a workload.
pub const CACHE_BYTES: usize = 4 << 20;

/// How volumes are opened here.
pub fn options() -> OpenOptions {
    OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::default() }
}

/// Brings a volume back and gives what can be seen.
///
/// # Errors
/// What went wrong, on the way or afterwards.
pub fn recover(image: Image) -> Result<View, String> {
    let executor = Executor::new(SEED);
    let disk = Rc::new(Ram::new(image));
    let view = executor.block_on(async {
        let device = disk.clone();
        let opened = open(device, executor.runtime(), &options(), &mut |_| ()).await;
        let opened = opened.map_err(|error| format!("it does not come back: {error}"))?;
        let driver = Driver::new(Rc::new(Namespace::new(opened.engine)));
        let view = driver.view().await.map_err(|error| format!("it cannot be read: {error}"))?;
        driver.use_and_empty(&view).await?;
        driver.stop().await.map_err(|error| format!("it does not stop: {error}"))?;
        Ok::<_, String>(view)
    })?;
    let report = executor.block_on(async {
        check(&*disk, &executor.runtime(), &CheckOptions::default(), &mut |_| ()).await
    });
    let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
    match report.findings.list.first() {
        None => Ok(view),
        Some(finding) => Err(format!("emptied and stopped, it is not well: {finding}")),
    }
}
