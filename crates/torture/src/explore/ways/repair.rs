//! `duramen fsck --repair`, as the program does it: the log is replayed and its contents are
//! durable in place, then the volume is checked.

use std::rc::Rc;

use block::BlockDevice;
use designs::{CheckOptions, Disks, LogUse, Work};
use runtime::Runtime;

use super::super::design::Design;

/// Repairs the volume on these devices. The last one is its log, or its ring of intents, if it has
/// one.
///
/// # Errors
/// When the repair fails.
pub async fn repair(
    design: Design,
    devices: &[Rc<dyn BlockDevice>],
    runtime: &Runtime,
) -> Result<(), String> {
    let Work { prepare, check, .. } = *design.work();
    let stack = design.stack(devices.to_vec(), runtime).await;
    let Disks { volume, log, intents } = stack.map_err(|error| format!("the disks: {error}"))?;
    let prepared = prepare(&volume, log.as_ref(), runtime, LogUse::Replay).await;
    let prepared = prepared.map_err(|error| format!("its log does not come home: {error}"))?;
    let options = CheckOptions { repair: true, log: prepared.state, ..CheckOptions::default() };
    let done = check(&volume, intents.as_ref(), runtime, &options, &mut |_| ()).await;
    done.map(drop).map_err(|error| format!("it cannot be repaired: {error}"))
}
