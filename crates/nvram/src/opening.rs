//! How an NVRAM is made and opened.

use std::rc::Rc;

use block::{BlockDevice, Buffer as Memory, Durability, IoError};
use runtime::Runtime;

use crate::Nvram;
use crate::cache::{Cache, write_labels};
use crate::destage;
use crate::format::{BadLabel, Id, LABEL, LEAST_BUFFERS, Label, Layout, SECTOR};
use crate::pairing::{Meeting, Pairing, Partner, Record, Unpaired};
use crate::planted::{Bug, is_planted};
use crate::recovery::{Recovered, Recovery, recover};

/// The fewest bytes that an NVRAM takes.
const LEAST: u64 = Layout::size_for(LEAST_BUFFERS);

/// Why there is no NVRAM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is too small.
    #[error("it has {0} bytes, and an NVRAM takes {LEAST} at least")]
    TooSmall(u64),
    /// Neither of its labels can be read.
    #[error(transparent)]
    Label(#[from] BadLabel),
    /// It belongs to another volume.
    #[error("it is the NVRAM of another volume")]
    Foreign,
    /// It stood before a device of another size.
    #[error("it was made for a volume of {made} bytes, and this one has {found}")]
    OtherSize {
        /// Bytes of the volume for which it was made.
        made: u64,
        /// Bytes of this one.
        found: u64,
    },
    /// Its sectors are larger than those of a buffer's header.
    #[error("it has sectors of {0} bytes, and an NVRAM takes sectors of 512")]
    Sectors(u32),
    /// It does not belong to the volume as this one is.
    #[error(transparent)]
    Unpaired(#[from] Unpaired),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] IoError),
}

fn layout_of(memory: &dyn BlockDevice) -> Result<Layout, OpenError> {
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
    make_again(memory, id, volume_size, (1, false)).await
}

/// The same for an NVRAM whose volume has come to a later generation without it.
async fn make_again(
    memory: &Rc<dyn BlockDevice>,
    id: Id,
    volume_size: u64,
    (generation, is_down): (u64, bool),
) -> Result<Label, OpenError> {
    let layout = layout_of(&**memory)?;
    let label = Label {
        id,
        generation,
        number: 1,
        buffers: layout.buffers,
        volume_size,
        first_sequence: 1,
        durable: 0,
        is_down,
        is_begun: false,
    };
    // An earlier life under the same number must not come back. Its labels stay to the end: a cut
    // leaves one that is as void as before.
    let (zeros, [_, end]) = (1 << 20, layout.labels());
    for at in (LABEL..end).step_by(zeros as usize) {
        let length = zeros.min(end - at);
        memory.write(at, vec![block::zeros(length as usize)], Durability::Plain).await?;
    }
    memory.flush().await?;
    write_labels(&**memory, &layout, &label).await?;
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
            let fits = label.buffers == layout.buffers;
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
    let found = below.geometry().size;
    if label.volume_size != found {
        return Err(OpenError::OtherSize { made: label.volume_size, found });
    }
    let layout = Layout { size: memory.geometry().size, buffers: label.buffers };
    let Recovery { directory, recovered, torn_marks } = recover(&memory, &layout, &label).await?;
    let cache = Rc::new(Cache::new(below, memory, runtime, label, directory));
    // Entries of a killed process may be in a cache of the host alone: they are durable before
    // anything rests on them. A mark that stands once would not survive a rotten sector, and torn
    // entries would keep later rot from being told from a tear.
    cache.memory.flush().await?;
    cache.write_mark_sectors(&torn_marks).await?;
    if recovered.torn > 0 {
        cache.void_some(None).await;
    }
    let durable = cache.directory.borrow().durable();
    cache.write_label(Label { generation, durable, is_begun: false, ..label }).await?;
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
        let (size, state) = (below.geometry().size, (generation, label.is_down));
        label = make_again(&memory, pairing.id, size, state).await?;
    }
    let (nvram, recovered) = open_at(below, memory, runtime, label, generation).await?;
    let pairing = Pairing { generation, is_dirty: !nvram.label().is_down, ..pairing };
    if !is_planted(Bug::UnsaidDirt) {
        record(pairing).await?;
    }
    nvram.cache.write_label(Label { is_begun: true, ..nvram.label() }).await?;
    let partner = Partner::new(pairing, record);
    assert!(nvram.cache.partner.set(partner).is_ok(), "an NVRAM stands in front of one volume");
    Ok((nvram, recovered))
}
