//! The measurements. Several devices are used at once, each with its share of the requests.
//!
//! Requests are made without waiting for earlier ones, up to the allowed number under way. Writes
//! use the same memory each time, so that preparing data takes no time.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, IoError};
use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream;
use futures::{StreamExt, TryStreamExt};
use raid::label::new_id;
use runtime::{Instant, Runtime};

use crate::failure::Failure;
use crate::places::Places;

type Devices = [Rc<dyn BlockDevice>];

/// Amount of data, and sizes of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    /// Bytes on all devices together; for a copy, on each.
    pub(crate) bytes: u64,
    /// Bytes of a request.
    pub(crate) request: u64,
    /// Concurrent requests, on all devices together.
    pub(crate) depth: usize,
    /// Duration of overwrites.
    pub(crate) seconds: f64,
}

/// Result of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
}

impl Measured {
    fn since(begun: Instant, requests: u64, request: u64, runtime: &Runtime) -> Measured {
        let seconds = runtime.clock.now().since(begun).as_secs_f64();
        Measured { bytes: requests * request, requests, seconds }
    }
}

/// Writes each device from its beginning, and flushes all.
///
/// # Errors
/// [`Failure`] when there is no room, or a request fails.
pub(crate) async fn write(
    devices: &Devices,
    amount: &Amount,
    runtime: &Runtime,
) -> Result<Measured, Failure> {
    let each = requests_of_each(devices, amount, devices.len())?;
    let (payload, depth) = (payload(amount.request), amount.depth.div_ceil(devices.len()));
    let begun = runtime.clock.now();
    let streams = devices.iter().map(|device| {
        let write = |number| {
            let data = vec![payload.clone()];
            device.write(number * amount.request, data, Durability::Plain)
        };
        all_at_once(each, depth, write)
    });
    try_join_all(streams).await?;
    try_join_all(devices.iter().map(|device| device.flush())).await?;
    Ok(Measured::since(begun, each * devices.len() as u64, amount.request, runtime))
}

/// Reads each device from its beginning.
///
/// # Errors
/// [`Failure`] when the devices are too small, or a request fails.
pub(crate) async fn read(
    devices: &Devices,
    amount: &Amount,
    runtime: &Runtime,
) -> Result<Measured, Failure> {
    let each = requests_of_each(devices, amount, devices.len())?;
    let depth = amount.depth.div_ceil(devices.len());
    let begun = runtime.clock.now();
    let streams = devices.iter().map(|device| {
        let read = async |number| {
            let room = Buffer::unfilled(amount.request as usize);
            device.read(number * amount.request, room).await.map(drop)
        };
        all_at_once(each, depth, read)
    });
    try_join_all(streams).await?;
    Ok(Measured::since(begun, each * devices.len() as u64, amount.request, runtime))
}

/// Reads all devices but the last, at once, writes the last, and flushes it: the upper bound of any
/// rebuild from the others.
///
/// # Errors
/// [`Failure`] when there is no room, or a request fails.
pub(crate) async fn copy(
    devices: &Devices,
    amount: &Amount,
    runtime: &Runtime,
) -> Result<Measured, Failure> {
    let pieces = requests_of_each(devices, amount, 1)?;
    let (last, others) = devices.split_last().expect("there are two or more");
    let begun = runtime.clock.now();
    let copy = async |number: u64| {
        let at = number * amount.request;
        let reads = others.iter().map(|other| {
            let room = Buffer::unfilled(amount.request as usize);
            other.read(at, room)
        });
        let read = try_join_all(reads).await?.swap_remove(0);
        last.write(at, vec![read.freeze()], Durability::Plain).await
    };
    all_at_once(pieces, amount.depth, copy).await?;
    last.flush().await?;
    Ok(Measured::since(begun, pieces, amount.request, runtime))
}

/// Rebuilds the member of the set that is out on a disk, and counts the units that it got.
///
/// # Errors
/// [`Failure`] when no member is out, or it fails.
pub(crate) async fn rebuild(
    places: &Places,
    path: &Path,
    runtime: &Runtime,
) -> Result<Measured, Failure> {
    let set = places.set.as_ref().expect("who calls this has a set");
    let slots = set.label().slots;
    let out = slots.iter().position(|slot| slot.standing.is_out());
    let slot = out.ok_or_else(|| Failure::Usage("no member of the set is out".to_owned()))?;
    let device = places.further(path)?;
    let layout = set.layout();
    let units = (0..layout.rows).filter(|&stripe| set.was_written(stripe)).count() as u64;
    let begun = runtime.clock.now();
    set.rebuild(slot, device, new_id(&*runtime.random), |_, _| {}).await?;
    set.flush().await?;
    Ok(Measured::since(begun, units, layout.unit, runtime))
}

/// Overwrites random blocks, each request durable before it counts. No two writers share a block.
///
/// # Errors
/// [`Failure`] when there is too little data, or a request fails.
pub(crate) async fn overwrite(
    devices: &Devices,
    amount: &Amount,
    runtime: &Runtime,
) -> Result<Measured, Failure> {
    let each = requests_of_each(devices, amount, devices.len())?;
    let writers = amount.depth as u64;
    let of_writer = each / writers;
    if of_writer == 0 {
        let sentence = format!("{} bytes are too few for {writers} who write", amount.bytes);
        return Err(Failure::Usage(sentence));
    }
    let payload = payload(amount.request);
    let begun = runtime.clock.now();
    let end = begun.after(Duration::from_secs_f64(amount.seconds));
    let write = async |writer: u64| {
        let device = &devices[(writer % devices.len() as u64) as usize];
        let mut written = 0;
        while written == 0 || runtime.clock.now() < end {
            let number = runtime.random.next_u64() % of_writer * writers + writer;
            let data = vec![payload.clone()];
            device.write(number * amount.request, data, Durability::Through).await?;
            written += 1;
        }
        Ok::<u64, IoError>(written)
    };
    let written = try_join_all((0..writers).map(write)).await?;
    Ok(Measured::since(begun, written.iter().sum(), amount.request, runtime))
}

/// Requests for each device, if `shares` of them share the bytes.
fn requests_of_each(devices: &Devices, amount: &Amount, shares: usize) -> Result<u64, Failure> {
    let each = amount.bytes / shares as u64 / amount.request;
    let sizes = devices.iter().map(|device| device.geometry().size);
    let least = sizes.min().unwrap_or_default();
    if each == 0 || each * amount.request > least {
        let (bytes, request) = (amount.bytes, amount.request);
        let sentence = format!(
            "{bytes} bytes in requests of {request} are too few or too many for {shares} of {least}"
        );
        return Err(Failure::Usage(sentence));
    }
    Ok(each)
}

/// Makes `count` requests in order, with up to `depth` under way at once.
async fn all_at_once<F>(count: u64, depth: usize, request: impl Fn(u64) -> F) -> Result<(), IoError>
where
    F: Future<Output = Result<(), IoError>>,
{
    stream::iter(0..count).map(request).buffer_unordered(depth).try_collect::<()>().await
}

/// Bytes that are not zeros: a set need not keep zeros in its log.
fn payload(length: u64) -> Bytes {
    let mut payload = Buffer::unfilled(length as usize);
    payload.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
    payload.freeze()
}
