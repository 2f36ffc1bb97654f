//! Reading and writing the two copies of a disk's label.

use block::{BlockDevice, Buffer, Durability, IoError};

use crate::label::{BadLabel, LABEL_SIZE, Label, MAGIC, places};

/// The labels of a disk.
#[derive(Clone)]
pub struct Read {
    /// The copy that is in force.
    pub label: Label,
    /// Index of that copy.
    pub copy: usize,
    /// Whether the other copy's place holds foreign bytes. No cut leaves that, so other parts of
    /// the disk may have been overwritten as well.
    pub is_overwritten: bool,
    /// Whether there is no such disk, and a void stands in for it.
    pub(crate) is_void: bool,
}

/// Why a disk has no label.
pub(crate) enum NoLabel {
    /// The label cannot be read.
    Unread(IoError),
    /// The bytes there are not a label.
    Bad(BadLabel),
}

/// Reads both copies of the label of a disk.
pub(crate) async fn read_labels(device: &dyn BlockDevice) -> Result<Read, NoLabel> {
    let size = device.geometry().size;
    let (mut copies, mut is_overwritten) = (Vec::new(), false);
    let mut failure = None;
    for at in places(size) {
        if at + LABEL_SIZE > size {
            copies.push(Err(BadLabel::Missing));
            continue;
        }
        copies.push(match device.read(at, Buffer::unfilled(LABEL_SIZE as usize)).await {
            Ok(bytes) => {
                is_overwritten |= !bytes.starts_with(&MAGIC);
                Label::decode(&bytes)
            }
            Err(error) => {
                failure = Some(error);
                Err(BadLabel::Missing)
            }
        });
    }
    let copies: [Result<Label, BadLabel>; 2] = copies.try_into().expect("there are two");
    match (Label::of_copies(copies), failure) {
        (Ok((label, copy)), _) => Ok(Read { label, copy, is_overwritten, is_void: false }),
        (Err(_), Some(error)) => Err(NoLabel::Unread(error)),
        (Err(bad), None) => Err(NoLabel::Bad(bad)),
    }
}

/// Writes one copy of a label, durably.
pub(crate) async fn write_label(
    device: &dyn BlockDevice,
    label: &Label,
    copy: usize,
) -> Result<(), IoError> {
    let at = places(device.geometry().size)[copy];
    device.write(at, vec![label.encode().into()], Durability::Through).await
}
