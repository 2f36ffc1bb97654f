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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use block::Verb;
    use sim::{Disk, Effect, Executor, Fault, Image};

    use super::*;
    use crate::format::LEAST_BUFFERS;
    use crate::opening::first_label;

    /// One copy of a label is damaged, and the first write of the next label is not answered. Gives
    /// which copies have the next one.
    fn written_first(damaged: usize) -> [bool; 2] {
        let executor = Executor::new(1);
        let layout = Layout { size: Layout::size_for(LEAST_BUFFERS), buffers: LEAST_BUFFERS };
        let memory = Disk::new(&executor, Image::zeroed(layout.size));
        let label = first_label(&layout, [1; 16], 1 << 20);
        executor.block_on(write_labels(&*memory, &layout, &label)).expect("nothing fails");
        memory.rot(layout.labels()[damaged] + 40, 1);
        memory.inject(Fault::on(Verb::Write, Effect::Silent).nth(2));
        let next = Label { number: 2, ..label };
        let writing = write_labels(&*memory, &layout, &next);
        assert!(executor.block_on_for(Duration::from_secs(1), writing).is_none());
        layout.labels().map(|at| {
            let mut bytes = [0; LABEL as usize];
            memory.contents().read(at, &mut bytes);
            Label::decode(&bytes).is_ok_and(|label| label.number == 2)
        })
    }

    #[test]
    fn a_damaged_copy_of_a_label_is_written_before_the_whole_one() {
        assert_eq!(written_first(0), [true, false]);
        assert_eq!(written_first(1), [false, true]);
    }
}
