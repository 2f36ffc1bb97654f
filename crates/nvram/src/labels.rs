//! The two copies of a label, of which a cut leaves one whole.

use block::{BlockDevice, Buffer as Memory, Durability, IoError};

use crate::format::{LABEL, Label, Layout};
use crate::planted::{Bug, is_planted};

/// The label of one of the two.
pub(crate) fn label_of(label: &Label, number: usize) -> Label {
    Label { twin: number as u8 + 1, ..*label }
}

/// The places of both copies of a label, in the order in which they are written: if the second one
/// is damaged it comes first, so that a cut leaves a whole one.
async fn places_of_labels(memory: &dyn BlockDevice, layout: &Layout) -> [u64; 2] {
    let [first, second] = layout.labels();
    let read = memory.read(second, Memory::unfilled(LABEL as usize)).await;
    let is_whole = read.is_ok_and(|bytes| Label::decode(&bytes).is_ok());
    let is_usual = is_whole || is_planted(Bug::FirstLabelFirst);
    if is_usual { [first, second] } else { [second, first] }
}

/// Writes both copies of a label, the second when the first is durable.
pub(crate) async fn write_labels(
    memory: &dyn BlockDevice,
    layout: &Layout,
    label: &Label,
) -> Result<(), IoError> {
    let labels = places_of_labels(memory, layout).await;
    for at in labels {
        let bytes = vec![Memory::copied(&label.encode()).freeze()];
        memory.write(at, bytes, Durability::Plain).await?;
        memory.flush().await?;
    }
    Ok(())
}
