//! How an NVRAM is made and opened, or two.

use std::rc::Rc;

use block::{BlockDevice, Buffer as Memory, Durability};
use runtime::Runtime;

use crate::Nvram;
use crate::cache::Cache;
use crate::destage;
use crate::errors::OpenError;
use crate::flushes::Flushed;
use crate::format::{BadLabel, Id, LABEL, Label, Layout, SECTOR};
use crate::labels::write_labels;
use crate::pairing::{Meeting, Pairing, Partner, Record};
use crate::planted::{Bug, is_planted};
use crate::recovery::{Recovered, recover, write_again};

pub(crate) fn layout_of(memory: &dyn BlockDevice) -> Result<Layout, OpenError> {
    let block::Geometry { size, logical_sector_size, .. } = memory.geometry();
    if u64::from(logical_sector_size) > SECTOR {
        return Err(OpenError::Sectors(logical_sector_size));
    }
    Layout::of(size).ok_or(OpenError::TooSmall(size))
}

/// Makes a device the NVRAM of a volume, whatever it held.
///
/// # Errors
/// [`OpenError`].
pub async fn make(
    memory: &Rc<dyn BlockDevice>,
    id: Id,
    volume_size: u64,
) -> Result<Label, OpenError> {
    let layout = layout_of(&**memory)?;
    make_with(memory, &layout, first_label(&layout, id, volume_size)).await
}

/// The label of a new NVRAM.
pub(crate) fn first_label(layout: &Layout, id: Id, volume_size: u64) -> Label {
    Label {
        id,
        generation: 1,
        number: 1,
        buffers: layout.buffers,
        volume_size,
        first_sequence: 1,
        durable: 0,
        is_down: false,
        is_begun: false,
        twin: 0,
    }
}

/// Makes a device an NVRAM with this label.
pub(crate) async fn make_with(
    memory: &Rc<dyn BlockDevice>,
    layout: &Layout,
    label: Label,
) -> Result<Label, OpenError> {
    // An earlier life under the same number must not come back. Its labels stay to the end: a cut
    // leaves one that is as void as before.
    let (zeros, [_, end]) = (1 << 20, layout.labels());
    for at in (LABEL..end).step_by(zeros as usize) {
        let length = zeros.min(end - at);
        memory.write(at, vec![block::zeros(length as usize)], Durability::Plain).await?;
    }
    memory.flush().await?;
    write_labels(&**memory, layout, &label).await?;
    Ok(label)
}

/// What an NVRAM says of itself: the later of its labels.
///
/// # Errors
/// Why neither of them can be read.
pub async fn look(memory: &Rc<dyn BlockDevice>) -> Result<Label, OpenError> {
    let layout = layout_of(&**memory)?;
    let mut found: Result<Label, OpenError> = Err(OpenError::Label(BadLabel::Missing));
    for at in layout.labels() {
        let label = match memory.read(at, Memory::unfilled(LABEL as usize)).await {
            Ok(bytes) => Label::decode(&bytes).map_err(OpenError::Label),
            Err(error) => Err(OpenError::Device(error)),
        };
        let label = label.and_then(|label| {
            // One of two may be larger than the other.
            let is_enough = label.twin != 0 && label.buffers <= layout.buffers;
            let fits = label.buffers == layout.buffers || is_enough;
            if fits { Ok(label) } else { Err(OpenError::Label(BadLabel::Nonsense)) }
        });
        found = match (found, label) {
            (Ok(one), Ok(other)) if one.number >= other.number => Ok(one),
            (Ok(one), Err(_)) => Ok(one),
            // That there is no label says less than what is wrong with one.
            (Err(one), Err(OpenError::Label(BadLabel::Missing))) => Err(one),
            (_, label) => label,
        };
    }
    found
}

/// Opens the NVRAM of this volume in front of its device. Its generation grows.
///
/// # Errors
/// [`OpenError`]; then nothing was written.
pub async fn open(
    below: Rc<dyn BlockDevice>,
    memory: Rc<dyn BlockDevice>,
    runtime: Runtime,
    id: Id,
) -> Result<(Nvram, Recovered), OpenError> {
    let label = look(&memory).await?;
    if label.id != id && !is_planted(Bug::AnyVolume) {
        return Err(OpenError::Foreign);
    }
    open_at(below, memory, runtime, label, label.generation + 1).await
}

/// Opens an NVRAM with this label, which has this generation from then on.
async fn open_at(
    below: Rc<dyn BlockDevice>,
    memory: Rc<dyn BlockDevice>,
    runtime: Runtime,
    label: Label,
    generation: u64,
) -> Result<(Nvram, Recovered), OpenError> {
    check_size(&*below, &label)?;
    let layout = Layout { size: memory.geometry().size, buffers: label.buffers };
    let mut recovery = recover(std::slice::from_ref(&memory), None, &layout, &label).await?;
    write_again(&memory, &layout, &mut recovery).await;
    let memory = Rc::new(Flushed::new(memory));
    begin(Cache::new(below, memory, runtime, label, recovery.directory), recovery.rest, generation)
        .await
}

/// Refuses an NVRAM of a volume of another size.
pub(crate) fn check_size(below: &dyn BlockDevice, label: &Label) -> Result<(), OpenError> {
    let (made, found) = (label.volume_size, below.geometry().size);
    if made == found { Ok(()) } else { Err(OpenError::OtherSize { made, found }) }
}

/// Makes durable what recovery believes, and begins a generation on the memory.
pub(crate) async fn begin(
    cache: Cache,
    (recovered, torn_marks): (Recovered, [Vec<u64>; 2]),
    generation: u64,
) -> Result<(Nvram, Recovered), OpenError> {
    let cache = Rc::new(cache);
    // Entries of a killed process may be in a cache of the host alone: they are durable before
    // anything rests on them. A mark that stands once would not survive a rotten sector, and torn
    // entries would keep later rot from being told from a tear.
    cache.memory.flush().await?;
    let [first, second] = torn_marks;
    cache.write_mark_sectors(&first, [0, 1]).await?;
    cache.write_mark_sectors(&second, [1, 0]).await?;
    let torn = cache.directory.borrow_mut().begin_voiding_torn();
    cache.write_marks(&torn).await?;
    cache.directory.borrow_mut().voided_torn(&torn);
    let durable = cache.directory.borrow().durable();
    let label = Label { generation, durable, is_begun: false, ..cache.label.get() };
    cache.write_label(label).await?;
    destage::start(&cache);
    Ok((Nvram::new(cache), recovered))
}

/// Opens the NVRAM of a volume with this pairing in front of its device, and begins a new
/// generation on both.
///
/// # Errors
/// [`OpenError`]. Then the next start finds what this one found.
pub async fn open_paired(
    below: Rc<dyn BlockDevice>,
    memory: Rc<dyn BlockDevice>,
    runtime: Runtime,
    pairing: Pairing,
    record: Record,
) -> Result<(Nvram, Recovered), OpenError> {
    let mut label = look(&memory).await?;
    let generation = pairing.generation + 1;
    if pairing.meet(&label)? == Meeting::Void {
        let (layout, size) = (layout_of(&*memory)?, below.geometry().size);
        let fresh = first_label(&layout, pairing.id, size);
        let fresh = Label { generation, is_down: label.is_down, ..fresh };
        label = make_with(&memory, &layout, fresh).await?;
    }
    let (nvram, recovered) = open_at(below, memory, runtime, label, generation).await?;
    let pairing = Pairing { generation, is_dirty: !nvram.label().is_down, ..pairing };
    begin_with(&nvram, pairing, record).await?;
    Ok((nvram, recovered))
}

/// Records the pairing of a start with the volume, and calls the start begun.
pub(crate) async fn begin_with(
    nvram: &Nvram,
    pairing: Pairing,
    record: Record,
) -> Result<(), OpenError> {
    if !pairing.is_dirty {
        record.leave().await?;
    }
    if !is_planted(Bug::UnsaidDirt) {
        record.write(pairing).await?;
    }
    nvram.cache.write_label(Label { is_begun: true, ..nvram.label() }).await?;
    let partner = Partner::new(pairing, record);
    assert!(nvram.cache.partner.set(partner).is_ok(), "an NVRAM stands in front of one volume");
    Ok(())
}
