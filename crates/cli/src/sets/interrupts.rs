//! `duramen raid cancel`, `pause` and `resume`: control the background jobs of a server.

use std::io::Write;

use serde_json::json;

use super::ask;
use super::orders::{Cancelled, WorkName};
use crate::failure::Failure;
use crate::volume::Volume;

/// Reason why nothing can be interrupted on a volume without a server.
const UNSERVED: &str = "nobody serves it, so nothing is under way";

/// Cancels a rebuild or a scrub.
///
/// # Errors
/// [`Failure`], also if none is under way.
pub(super) fn cancel(
    volume: &Volume,
    work: Option<WorkName>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let order = serde_json::to_value(Cancelled { work });
    let order = order.map_err(|error| Failure::Usage(error.to_string()))?;
    ask(volume, "cancel", &order)?.ok_or_else(|| unserved(volume))?;
    Ok(writeln!(output, "{}: it is cancelled", volume.path.display())?)
}

/// Pauses or resumes rebuilds and scrubs.
///
/// # Errors
/// [`Failure`], also if they are paused or running already.
pub(super) fn pause(
    volume: &Volume,
    is_paused: bool,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let order = if is_paused { "pause" } else { "resume" };
    ask(volume, order, &json!({}))?.ok_or_else(|| unserved(volume))?;
    let what = if is_paused { "rebuilds and scrubs wait" } else { "rebuilds and scrubs go on" };
    Ok(writeln!(output, "{}: {what}", volume.path.display())?)
}

fn unserved(volume: &Volume) -> Failure {
    Failure::NotDone { path: volume.path.clone(), why: UNSERVED.to_owned() }
}
