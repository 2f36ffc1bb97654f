//! `duramen fsck --repair`, as the program does it: the log is replayed and its contents are
//! durable in place, then the volume is checked.

use std::rc::Rc;

use block::BlockDevice;
use designs::{CheckOptions, LogUse, Work};
use runtime::Runtime;

use super::super::design::Design;

/// Repairs the volume on the first of these devices; the second is its log, if it has one.
///
/// # Errors
/// When the repair fails.
pub async fn repair(
    design: Design,
    devices: &[Rc<dyn BlockDevice>],
    runtime: &Runtime,
) -> Result<(), String> {
    let Work { prepare, check, .. } = *design.work();
    let prepared = prepare(&devices[0], devices.get(1), runtime, LogUse::Replay).await;
    let prepared = prepared.map_err(|error| format!("its log does not come home: {error}"))?;
    let options = CheckOptions { repair: true, log: prepared.state, ..CheckOptions::default() };
    let done = check(&devices[0], runtime, &options, &mut |_| ()).await;
    done.map(drop).map_err(|error| format!("it cannot be repaired: {error}"))
}
