//! How two NVRAMs of one volume are made and opened, and how one of them comes back.

use std::rc::Rc;

use block::slice::split;
use block::{BlockDevice, Durability, Io, IoError, Verb};
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{join, join_all};
use runtime::Runtime;

use crate::Nvram;
use crate::cache::Cache;
use crate::errors::OpenError;
use crate::flushes::Flushed;
use crate::format::{BLOCK, BadLabel, Id, Label, Layout};
use crate::labels::{label_of, write_labels};
use crate::meeting::{Assembly, Role};
use crate::opening::{begin, begin_with, check_size, first_label, layout_of, look, make_with};
use crate::pairing::{Meeting, Pairing, Record, Unpaired};
use crate::planted::{Bug, is_planted};
use crate::recovery::{Recovered, Repair, recover, write_again};
use crate::timed::Timed;
use crate::twin::{Copy, Fitted, Joined, Twin};

/// One of two memories as a volume finds it.
#[derive(Clone)]
pub struct Found {
    /// The memory.
    pub memory: Rc<dyn BlockDevice>,
    /// The rest of its device, if that is for the log of the volume behind it. A flush of one makes
    /// both durable.
    pub log: Option<Rc<dyn BlockDevice>>,
}

impl From<Rc<dyn BlockDevice>> for Found {
    fn from(memory: Rc<dyn BlockDevice>) -> Self {
        Self { memory, log: None }
    }
}

impl Found {
    /// Bytes for a log, in whole blocks.
    fn log_size(&self) -> u64 {
        let size = self.log.as_ref().map_or(0, |log| log.geometry().size);
        size - size % BLOCK
    }

    /// Closes it for nobody who waits: it may hang.
    fn close_behind(self, runtime: &Runtime) {
        let parts = self.log.into_iter().chain([self.memory]);
        let closing: Vec<Io<()>> = parts.map(|part| part.close()).collect();
        runtime.tasks.spawn(async move { drop(join_all(closing).await) }.boxed_local());
    }
}

/// Memories as a volume finds them, in any order. `None` for one that is not there.
pub type Memories = [Option<Found>; 2];

/// The layout of each of two memories.
fn layout_with(buffers: u64) -> Layout {
    Layout { size: Layout::size_for(buffers), buffers }
}

fn fitted(memory: &Rc<dyn BlockDevice>, layout: &Layout) -> Result<Copy, OpenError> {
    let size = memory.geometry().size;
    Fitted::fit(memory.clone(), layout.size).ok_or(OpenError::TooSmall(size))
}

/// A memory with so many bytes for a log behind it.
fn with_log(found: &Found, layout: &Layout, log_size: u64) -> Result<Copy, OpenError> {
    let memory = fitted(&found.memory, layout)?;
    let whole: Copy = match &found.log {
        _ if log_size == 0 => memory,
        Some(log) if log.geometry().size >= log_size => {
            Rc::new(Joined { memory, log: log.clone(), size: layout.size + log_size })
        }
        _ => return Err(OpenError::TooSmall(layout.size + found.log_size())),
    };
    Ok(Rc::new(Flushed::new(whole)))
}

/// Makes two devices the NVRAMs of a volume, whatever they held. The smaller one counts.
///
/// # Errors
/// [`OpenError`].
pub async fn make_two(
    memories: [&Rc<dyn BlockDevice>; 2],
    id: Id,
    volume_size: u64,
) -> Result<Label, OpenError> {
    let [one, other] = memories.map(|memory| layout_of(&**memory));
    let layout = layout_with(one?.buffers.min(other?.buffers));
    let label = first_label(&layout, id, volume_size);
    for (number, memory) in memories.into_iter().enumerate() {
        make_with(&fitted(memory, &layout)?, &layout, label_of(&label, number)).await?;
    }
    Ok(label)
}

/// The label of one of two memories, which may hang.
async fn look_in_time(memory: &Copy, runtime: &Runtime) -> Result<Label, OpenError> {
    look(&(Rc::new(Timed::new(memory.clone(), runtime)) as Copy)).await
}

impl Assembly {
    /// The parts for a log of those memories that are believed, to be read in a start. One of two
    /// may hang.
    pub fn logs(&self, memories: &Memories, runtime: &Runtime) -> Vec<Rc<dyn BlockDevice>> {
        let believed = memories.iter().zip(&self.roles).filter(|(_, role)| **role == Role::In);
        let logs = believed.filter_map(|(found, _)| found.as_ref()?.log.clone());
        let mut logs: Vec<Rc<dyn BlockDevice>> = logs.collect();
        if logs.len() > 1 {
            logs.iter_mut().for_each(|log| *log = Rc::new(Timed::new(log.clone(), runtime)));
        }
        logs
    }
}

/// Judges two NVRAMs, and writes nothing. Gives their labels, too.
///
/// # Errors
/// Why the volume must not be used with either.
pub async fn judge_two(
    memories: &Memories,
    pairing: &Pairing,
    runtime: &Runtime,
) -> Result<(Assembly, [Result<Label, OpenError>; 2]), OpenError> {
    let look_at = async |found: &Option<Found>| match found {
        Some(found) => look_in_time(&found.memory, runtime).await,
        None => Err(Unpaired::Missing.into()),
    };
    let (one, other) = join(look_at(&memories[0]), look_at(&memories[1])).await;
    let labels = [one, other];
    Ok((pairing.meet_two(&labels)?, labels))
}

/// Opens the two NVRAMs of a volume with this pairing in front of its device, or the one of them
/// that is believed, and begins a new generation. The other one is called out by that; if it is
/// there, it is filled beside the calls. Without a `record`, nothing is recorded, and nothing comes
/// back.
///
/// # Errors
/// [`OpenError`]. Then the next start finds what this one found.
pub async fn open_two(
    below: Rc<dyn BlockDevice>,
    memories: Memories,
    runtime: Runtime,
    pairing: Pairing,
    record: Option<Record>,
) -> Result<(Nvram, Recovered), OpenError> {
    let (Assembly { meeting, roles, numbers }, labels) =
        judge_two(&memories, &pairing, &runtime).await?;
    let mut believed: Vec<(usize, Found, Label)> = Vec::new();
    let mut behind = None;
    for (((found, label), role), number) in memories.into_iter().zip(labels).zip(roles).zip(numbers)
    {
        match (found, label, role) {
            (Some(found), Ok(label), Role::In) => believed.push((number, found, label)),
            (Some(found), _, Role::Behind) => behind = Some(found),
            (Some(found), ..) => found.close_behind(&runtime), // it is not of this volume
            (None, ..) => {}
        }
    }
    let generation = pairing.generation + 1;
    let mut label = merged(believed.iter().map(|(.., label)| *label));
    check_size(&*below, &label)?;
    let layout = layout_with(label.buffers);
    let log_size = believed.iter().map(|(_, found, _)| found.log_size()).min().unwrap_or(0);
    let (mut copies, mut timed) = ([None, None], Vec::new());
    for (number, found, _) in &believed {
        let copy = Timed::new(with_log(found, &layout, log_size)?, &runtime);
        timed.push(copy.clone());
        copies[*number] = Some(Rc::new(copy) as Copy);
    }
    if timed.len() == 1 {
        timed[0].has_time(); // there is no other one
    }
    if meeting == Meeting::Void {
        let fresh = first_label(&layout, pairing.id, below.geometry().size);
        label = Label { generation, is_down: label.is_down, ..fresh };
        make_void(&mut copies, &layout, &label, &runtime).await?;
    }
    let twin = Twin::new(&layout, log_size, copies, runtime.clone());
    let all: Vec<Copy> = twin.copies().into_iter().map(|(_, copy)| copy).collect();
    let source = behind.as_ref().and_then(|found| fitted(&found.memory, &layout).ok());
    let source = source.map(|source| Timed::new(source, &runtime));
    let elsewhere = source.as_ref().map(|source| source as &dyn BlockDevice);
    let mut recovery = recover(&all, elsewhere, &layout, &label).await?;
    let [memory, log] = split(Rc::new(twin.clone()), layout.size).map(|it| Rc::new(it) as Copy);
    if !is_planted(Bug::UnequalTwins) {
        repair(&twin, std::mem::take(&mut recovery.repairs)).await?;
        write_again(&memory, &layout, &mut recovery).await;
    }
    let mut cache = Cache::new(below, memory, runtime, label, recovery.directory);
    cache.twin = Some(twin.clone());
    cache.log = Some(log);
    let (nvram, recovered) = begin(cache, recovery.rest, generation).await?;
    if let Some(record) = record {
        let is_dirty = !nvram.label().is_down;
        let out = twin.out();
        let pairing = Pairing { generation, is_dirty, out: Some(out), ..pairing };
        begin_with(&nvram, pairing, record).await?;
        record_call_outs(&nvram, &twin, out).await?;
        timed.iter().for_each(Timed::has_time);
        if let Some(found) = behind {
            // It is tried again by whoever looks for it.
            drop(nvram.fill(found));
        }
    }
    Ok((nvram, recovered))
}

/// Makes empty NVRAMs of those that are there. One that fails is left out, if the other does not.
async fn make_void(
    copies: &mut [Option<Copy>; 2],
    layout: &Layout,
    label: &Label,
    runtime: &Runtime,
) -> Result<(), OpenError> {
    let mut failed = None;
    for (number, place) in copies.iter_mut().enumerate() {
        let Some(copy) = place else { continue };
        if let Err(error) = make_with(copy, layout, label_of(label, number)).await {
            let closing = copy.close();
            runtime.tasks.spawn(async move { drop(closing.await) }.boxed_local());
            *place = None;
            failed = Some(error);
        }
    }
    let is_any = copies.iter().any(Option::is_some);
    failed.filter(|_| !is_any).map_or(Ok(()), Err)
}

/// The label that holds of those of two memories: the later one. After a cut in the write of both,
/// what either calls void, or durable, is.
fn merged(labels: impl Iterator<Item = Label> + Clone) -> Label {
    let latest = labels.clone().max_by_key(|label| label.number).expect("one is believed");
    let largest = |of: fn(&Label) -> u64| labels.clone().map(|it| of(&it)).max().unwrap_or(0);
    let (first_sequence, durable) = (largest(|it| it.first_sequence), largest(|it| it.durable));
    Label { first_sequence, durable, ..latest }
}

/// Writes what one memory lacks, one memory after the other: an entry whose parts both have alone
/// survives a cut.
async fn repair(twin: &Twin, repairs: Vec<Repair>) -> Result<(), IoError> {
    for (copy, (number, device)) in twin.copies().into_iter().enumerate() {
        let of = repairs.iter().filter(|repair| repair.copy == copy);
        let mut has_failed = None;
        let is_last = twin.copies().len() == 1;
        for Repair { offset, bytes, is_from_elsewhere, .. } in of {
            let write = device.write(*offset, vec![bytes.clone()], Durability::Plain);
            // Without that, the last one is as it was: the entry has rotted.
            let failed = write.await.err().filter(|_| !(is_last && *is_from_elsewhere));
            has_failed = has_failed.or(failed);
        }
        if has_failed.is_none() {
            has_failed = device.flush().await.err();
        }
        if let Some(error) = has_failed {
            twin.call_out(number, error).await?;
        }
    }
    Ok(())
}

/// From now on a memory that misses a change is called out: that of this start, if one was missed
/// since `known`, and all later ones.
async fn record_call_outs(nvram: &Nvram, twin: &Twin, known: [bool; 2]) -> Result<(), IoError> {
    let cache = Rc::downgrade(&nvram.cache);
    twin.record_with(Rc::new(move |number, other| {
        let cache = cache.upgrade();
        async move {
            let Some(cache) = cache else { return Err(IoError::closed(Verb::Write)) };
            cache.call_out(number, &*other).await
        }
        .boxed_local()
    }));
    let missed = twin.out().iter().zip(known).position(|(is, was)| *is && !was);
    if let (Some(number), Some((_, other))) = (missed, twin.copies().pop()) {
        nvram.cache.call_out(number, &*other).await?;
    }
    Ok(())
}

impl Nvram {
    /// Fills one of two memories that does not count, beside the calls. When it has everything, it
    /// counts. Dropping the future abandons the answer alone.
    pub fn fill(&self, found: Found) -> impl Future<Output = Result<(), OpenError>> + use<> {
        let (answer, answered) = oneshot::channel();
        let cache = self.cache.clone();
        let task = async move {
            let _ = answer.send(cache.fill(found).await); // the caller may have gone
        };
        self.cache.runtime.tasks.spawn(task.boxed_local());
        async move {
            let closed = || Err(OpenError::Device(IoError::closed(Verb::Write)));
            answered.await.unwrap_or_else(|_| closed())
        }
    }
}

impl Cache {
    async fn fill(&self, found: Found) -> Result<(), OpenError> {
        let closed = || OpenError::Device(IoError::closed(Verb::Write));
        let twin = self.twin.as_ref().ok_or_else(closed)?;
        let number = self.number_to_fill(twin, &found.memory).await;
        let copy = with_log(&found, &self.layout, twin.log_size());
        let (number, copy) = match number.and_then(|number| Ok((number, copy?))) {
            Ok((number, copy)) => (number, Timed::new(copy, &self.runtime)),
            Err(error) => {
                found.close_behind(&self.runtime);
                return Err(error);
            }
        };
        let finish = async |copy: &Copy| {
            self.check(Verb::Write)?;
            let partner = self.partner.get().filter(|_| self.retired().is_none());
            let partner = partner.ok_or_else(|| IoError::closed(Verb::Write))?;
            let label = twin.latest_label(1 - number, self.label.get());
            let label = label_of(&label, number);
            write_labels(&**copy, &self.layout, &label).await?;
            // Some labels of the set may say so, or say so later: nothing may rest on the others.
            let called = partner.call(number, false, label.generation).await;
            called.inspect_err(|error| self.fail(error))
        };
        twin.fill(number, Rc::new(copy.clone()), finish).await?;
        copy.has_time();
        Ok(())
    }

    /// The number of a memory that comes back.
    async fn number_to_fill(
        &self,
        twin: &Twin,
        memory: &Rc<dyn BlockDevice>,
    ) -> Result<usize, OpenError> {
        let missing = twin.out().iter().position(|is_out| *is_out);
        let missing = missing.ok_or(OpenError::Unpaired(Unpaired::Copied))?;
        match look_in_time(memory, &self.runtime).await {
            Ok(label) if label.id != self.id => Err(Unpaired::Foreign.into()),
            Ok(label) if usize::from(label.twin) != missing + 1 => Err(Unpaired::Copied.into()),
            Ok(label) if label.generation > self.label.get().generation + 1 => {
                let (found, known) = (label.generation, self.label.get().generation);
                Err(Unpaired::OlderVolume { found, known }.into())
            }
            Ok(_) | Err(OpenError::Label(BadLabel::Checksum)) => Ok(missing),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::ErrorKind;
    use std::task::Poll;
    use std::time::Duration;

    use futures::future::ready;
    use sim::{Disk, Executor, Image};

    use super::*;
    use crate::format::{LABEL, LEAST_BUFFERS};

    const ID: Id = [7; 16];
    const VOLUME: u64 = 1 << 20;
    /// Time in which all writes of a label end.
    const WHILE: Duration = Duration::from_secs(1);

    /// Two memories in use.
    fn in_use(executor: &Executor) -> ([Rc<Disk>; 2], Nvram) {
        let disk = |size| Disk::new(executor, Image::zeroed(size));
        let memories = [0; 2].map(|_| disk(Layout::size_for(LEAST_BUFFERS)));
        let devices = memories.clone().map(|memory| memory as Copy);
        let label = executor.block_on(make_two(devices.each_ref(), ID, VOLUME));
        let generation = label.expect("they are large enough").generation;
        let pairing = Pairing { id: ID, generation, is_dirty: false, out: Some([false; 2]) };
        let record = Record::new(|_| ready(Ok(())).boxed_local());
        let found = devices.map(|memory| Some(Found::from(memory)));
        let opened = open_two(disk(VOLUME), found, executor.runtime(), pairing, Some(record));
        (memories, executor.block_on(opened).expect("both are its own").0)
    }

    /// The label that a start would believe after a cut.
    fn believed(memory: &Disk) -> Option<Label> {
        let image = memory.platter().durable_image();
        let labels = layout_with(LEAST_BUFFERS).labels().map(|at| {
            let mut bytes = [0; LABEL as usize];
            image.read(at, &mut bytes);
            Label::decode(&bytes).ok()
        });
        labels.into_iter().flatten().max_by_key(|label| label.number)
    }

    /// Calls out a memory after, or fills it before, the other one's label says that the NVRAM is
    /// down, while the task that wrote this has not heard of it. Gives whether from then on each
    /// cut leaves a memory that counts with that word.
    fn stays_down(is_filled: bool) -> bool {
        let executor = Executor::new(1);
        let (memories, nvram) = in_use(&executor);
        let twin = nvram.cache.twin.clone().expect("there are two");
        let call_out = || twin.call_out(1, IoError::new(Verb::Flush, 0, 0, ErrorKind::Other));
        if is_filled {
            executor.block_on(call_out()).expect("the other one counts");
            executor.run_for(WHILE);
        }
        let label = Label { is_down: true, ..nvram.label() };
        let mut writing = nvram.cache.write_label(label).boxed_local();
        executor.block_on(poll_fn(|context| {
            assert!(writing.poll_unpin(context).is_pending());
            Poll::Ready(())
        }));
        executor.run_for(WHILE);
        let is_down = |number: usize| believed(&memories[number]).is_some_and(|it| it.is_down);
        assert!(is_down(0) && !nvram.label().is_down, "it has not heard of its label");
        let mut stays = true;
        if is_filled {
            let again = Disk::resumed(&executor, memories[1].platter().killed());
            executor.block_on(nvram.fill((again.clone() as Copy).into())).expect("nothing fails");
            stays &= believed(&again).is_some_and(|it| it.is_down);
        } else {
            executor.block_on(call_out()).expect("the other one counts");
            while executor.step() {
                stays &= is_down(0);
            }
        }
        executor.block_on(writing).expect("a memory counts");
        let (last, known) = (believed(&memories[0]), nvram.label());
        assert_eq!(last.map(|it| (it.number, it.is_down)), Some((known.number, true)));
        assert!(known.is_begun && known.generation == label.generation + u64::from(!is_filled));
        stays
    }

    #[test]
    fn a_label_that_was_just_written_is_not_taken_back_by_a_call_out_or_a_fill() {
        assert_eq!([false, true].map(stays_down), [true; 2]);
        #[cfg(feature = "planted-bugs")]
        for is_filled in [false, true] {
            crate::planted::plant(Some(Bug::StaleLabels));
            let stays = stays_down(is_filled);
            crate::planted::plant(None);
            assert!(!stays, "filled: {is_filled}");
        }
    }
}
