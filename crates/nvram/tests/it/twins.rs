//! A volume with two NVRAMs over many starts: cut and killed, one of the two lost, late, rotten,
//! failing, called out and back. Campaign `contract` of crate `torture` shows that each broken rule
//! is seen.
//!
//! The volume keeps its pairing in a sector of a disk of its own.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::FutureExt;
use futures::future::select;
use nvram::format::{LABEL, Label, Layout, SECTOR, SLOT};
use nvram::pairing::{Pairing, Record, Unpaired};
use nvram::{Found, Nvram, OpenError, TwinState, open_two};
use sim::{Choice, Disk, Effect, Executor, Fault, Honesty, Image, Platter, Prng};

use crate::world::{ID, MEMORY, Model, VOLUME, play};

/// A volume behind two NVRAMs.
#[derive(Clone)]
struct Volume {
    below: Platter,
    memories: [Platter; 2],
    book: Platter,
}

/// The same while it is in use.
struct Running {
    executor: Executor,
    below: Rc<Disk>,
    memories: RefCell<[Rc<Disk>; 2]>,
    book: Rc<Disk>,
}

fn encoded(pairing: &Pairing) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR as usize];
    let out = pairing.out.expect("there are two");
    bytes[..8].copy_from_slice(&pairing.generation.to_le_bytes());
    bytes[8..11].copy_from_slice(&[pairing.is_dirty, out[0], out[1]].map(u8::from));
    bytes
}

fn decoded(bytes: &[u8]) -> Pairing {
    let generation = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let [is_dirty, first, second] = [8, 9, 10].map(|at| bytes[at] == 1);
    Pairing { id: ID, generation, is_dirty, out: Some([first, second]) }
}

fn whole(image: Image) -> Platter {
    Platter::new(image, Honesty::Honest)
}

/// The second memory is larger than the first.
fn new_volume() -> Volume {
    let blank = |size| whole(Image::zeroed(size));
    let mut image = Image::zeroed(SECTOR);
    let pairing = Pairing { id: ID, generation: 1, is_dirty: false, out: Some([false; 2]) };
    image.write(0, &encoded(&pairing));
    let memories = [blank(MEMORY), blank(MEMORY + 7 * SECTOR)];
    let volume = Volume { below: blank(VOLUME), memories, book: whole(image) };
    let running = Running::of(1, &volume);
    let memories = [0, 1].map(|number| running.memory(number) as Rc<dyn BlockDevice>);
    let made = nvram::make_two(memories.each_ref(), ID, VOLUME);
    running.executor.block_on(made).expect("they are large enough");
    running.kill()
}

fn found(memory: Rc<Disk>) -> Found {
    (memory as Rc<dyn BlockDevice>).into()
}

fn layout() -> Layout {
    Layout::of(MEMORY).expect("it is large enough")
}

impl Running {
    fn of(seed: u64, volume: &Volume) -> Self {
        let executor = Executor::new(seed);
        let disk = |platter: &Platter| Disk::resumed(&executor, platter.clone());
        let (below, book) = (disk(&volume.below), disk(&volume.book));
        let memories = RefCell::new(volume.memories.each_ref().map(disk));
        Self { executor, below, memories, book }
    }

    fn memory(&self, number: usize) -> Rc<Disk> {
        self.memories.borrow()[number].clone()
    }

    /// Opens a memory again that was closed when it was called out.
    fn reopened(&self, number: usize) -> Rc<Disk> {
        let again = Disk::resumed(&self.executor, self.memory(number).platter().killed());
        self.memories.borrow_mut()[number] = again.clone();
        again
    }

    fn pairing(&self) -> Pairing {
        let mut bytes = [0; SECTOR as usize];
        self.book.contents().read(0, &mut bytes);
        decoded(&bytes)
    }

    fn out(&self) -> [bool; 2] {
        self.pairing().out.expect("there are two")
    }

    fn record(&self) -> Record {
        let book = self.book.clone();
        Record::new(move |pairing| {
            let bytes = vec![encoded(&pairing).into()];
            book.write(0, bytes, Durability::Through).boxed_local()
        })
    }

    /// Opens it with those memories that are there.
    fn open(&self, are_there: [bool; 2]) -> Result<Nvram, OpenError> {
        let memory = |at: usize| are_there[at].then(|| found(self.memory(at)));
        let runtime = self.executor.runtime();
        // Whichever comes first.
        let memories = [memory(1), memory(0)];
        let record = Some(self.record());
        let opening = open_two(self.below.clone(), memories, runtime, self.pairing(), record);
        self.executor.block_on(opening).map(|(nvram, _)| nvram)
    }

    /// Fills a memory that comes back.
    fn fill(&self, device: &Nvram, number: usize) -> Result<(), OpenError> {
        self.executor.block_on(device.fill(found(self.reopened(number))))
    }

    fn cut(&self, prng: &mut Prng) -> Volume {
        let mut left = |disk: &Rc<Disk>, is_memory: bool| {
            let platter: Platter = disk.platter();
            let mut choose = || match prng.below(3) {
                0 => platter.image(&Choice::mixture(&platter, prng)),
                1 if is_memory => platter.image_with(|_| sim::Fate::Lost),
                _ => platter.image(&Choice::random(&platter, prng)),
            };
            let (one, other) = (choose(), choose());
            whole(if is_memory { one.torn(&other, prng) } else { one })
        };
        let memories = [0, 1].map(|number| left(&self.memory(number), true));
        Volume { below: left(&self.below, false), memories, book: left(&self.book, false) }
    }

    fn kill(&self) -> Volume {
        let killed = |disk: &Rc<Disk>| disk.platter().killed();
        let memories = [0, 1].map(|number| killed(&self.memory(number)));
        Volume { below: killed(&self.below), memories, book: killed(&self.book) }
    }
}

/// Counts of what lives have met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Met {
    /// Starts with one memory.
    alone: u32,
    refused: u32,
    called_out: u32,
    filled: u32,
    rotten: u32,
}

/// Which memories are there: both, or one.
fn any_there(prng: &mut Prng) -> [bool; 2] {
    match prng.below(4) {
        0 => [true, false],
        1 => [false, true],
        _ => [true, true],
    }
}

/// Damages some bytes of one memory.
fn damage(disk: &Rc<Disk>, prng: &mut Prng) {
    let sectors = disk.geometry().size / SECTOR;
    for _ in 0..20 {
        disk.rot(prng.below(sectors) * SECTOR + prng.below(SECTOR), 3);
    }
    if prng.below(4) == 0 {
        [0, disk.geometry().size - LABEL].into_iter().for_each(|at| disk.rot(at + 40, 1));
    }
}

/// A life: plays while one memory fails, or comes back.
fn work(running: &Running, device: &Nvram, model: &Model, prng: &mut Prng) -> Met {
    let (executor, mut met) = (&running.executor, Met::default());
    let before = running.out();
    let failing = prng.below(2) as usize;
    if prng.below(2) == 0 && before == [false; 2] {
        let verb = if prng.below(2) == 0 { Verb::Write } else { Verb::Flush };
        let fault = Fault::on(verb, Effect::Eio).nth(1 + prng.below(80));
        let fault = if prng.below(2) == 0 { fault.forever() } else { fault };
        running.memory(failing).inject(fault);
    }
    let seed = prng.next_u64();
    let mut playing = play(model, device, seed, 25).boxed_local();
    let length = Duration::from_micros(200 * (1 + prng.below(1_000)));
    let mut is_done = executor.block_on_for(length, &mut playing).is_some();
    met.called_out += u32::from(before == [false; 2] && running.out() != before);
    let missing = running.out().iter().position(|is_out| *is_out);
    if let Some(number) = missing.filter(|_| prng.below(3) > 0) {
        let mut filling = device.fill(found(running.reopened(number))).boxed_local();
        let length = Duration::from_micros(200 * (1 + prng.below(3_000)));
        let filled = executor.block_on_for(length, &mut filling);
        met.filled += u32::from(filled.is_some_and(|it| it.is_ok()));
    }
    if !is_done && prng.below(2) == 0 {
        is_done = executor.block_on_for(length, &mut playing).is_some();
    }
    let status = device.status();
    assert!(!status.has_failed && !status.is_retired, "one of two is enough");
    if is_done && prng.below(3) == 0 {
        executor.block_on(device.close()).expect("nothing below fails");
    }
    met
}

fn live(seed: u64) -> Met {
    let (model, mut volume, mut met) = (Model::new(), new_volume(), Met::default());
    let mut prng = Prng::new(seed);
    for life in 0..8 {
        let running = Running::of(seed * 16 + life, &volume);
        let (mut are_there, pairing) = (any_there(&mut prng), running.pairing());
        let out = running.out();
        if are_there == [true; 2] && out == [false; 2] && prng.below(2) == 0 {
            met.rotten += 1;
            damage(&running.memory(prng.below(2) as usize), &mut prng);
        }
        met.alone += u32::from(are_there != [true; 2]);
        let is_enough = (0..2).any(|at| are_there[at] && !out[at]) || !pairing.is_dirty;
        let opened = match running.open(are_there) {
            Err(error) => {
                let unpaired = OpenError::Unpaired(Unpaired::CalledOut);
                assert!(!is_enough && error == unpaired, "seed {seed}, life {life}: {error}");
                met.refused += 1;
                are_there = [true; 2];
                running.open(are_there)
            }
            opened => {
                assert!(is_enough, "seed {seed}: a memory is believed that is called out");
                opened
            }
        };
        let device = opened.expect("one of two is enough");
        running.executor.block_on(model.judge(&device));
        if prng.below(4) == 0 {
            // Bytes that a return has shown stay, flushed or not.
            volume = running.cut(&mut prng);
            continue;
        }
        let more = work(&running, &device, &model, &mut prng);
        met.called_out += more.called_out;
        met.filled += more.filled;
        volume = if prng.below(3) == 0 { running.kill() } else { running.cut(&mut prng) };
        running.executor.crash();
    }
    met
}

#[test]
fn one_of_two_memories_is_enough_whatever_happens_to_the_other() {
    let runs = 60;
    let mut all = Met::default();
    for met in (0..runs).map(live) {
        all.alone += met.alone;
        all.refused += met.refused;
        all.called_out += met.called_out;
        all.filled += met.filled;
        all.rotten += met.rotten;
    }
    println!("{all:?}");
    let least = [all.alone, all.refused, all.called_out, all.filled, all.rotten];
    assert!(least.into_iter().all(|count| count > 8), "{all:?}");
}

fn block(byte: u8) -> Vec<bytes::Bytes> {
    vec![vec![byte; 4096].into()]
}

fn byte(running: &Running, device: &Nvram, at: u64) -> Option<u8> {
    let read = device.read(at, Buffer::unfilled(4096));
    running.executor.block_on(read).ok().map(|bytes| bytes[0])
}

/// A volume whose first block was written, and then others, so that it was durable.
fn written() -> Volume {
    let running = Running::of(1, &new_volume());
    let device = running.open([true; 2]).expect("both are its own");
    running.executor.block_on(async {
        for at in 0..4 {
            let write = device.write(at * 4096, block(at as u8 + 1), Durability::Through);
            write.await.expect("nothing fails");
            device.flush().await.expect("nothing fails");
        }
    });
    running.kill()
}

/// The byte that is read of a block whose data have rotted, alike, in these memories.
fn rotten_in(memories: &[usize]) -> Option<u8> {
    let running = Running::of(2, &written());
    let at = layout().slot(0) + SECTOR;
    memories.iter().for_each(|&number| running.memory(number).rot(at, 3));
    let device = running.open([true; 2]).expect("both are its own");
    byte(&running, &device, 0)
}

#[test]
fn that_both_are_alike_proves_nothing() {
    assert_eq!([rotten_in(&[0]), rotten_in(&[1])], [Some(1); 2]);
    assert_eq!(rotten_in(&[0, 1]), None);
    #[cfg(feature = "planted-bugs")]
    {
        let bug = nvram::planted::Bug::AlikeIsRight;
        let shown = crate::with(bug, || rotten_in(&[0, 1]));
        assert!(shown.is_some_and(|byte| byte != 1), "{shown:?}");
    }
}

/// A cut leaves a write in one memory alone. Gives what the block has in a start with both, and in
/// one with the other memory.
fn shown_after_a_cut(number: usize) -> [Option<u8>; 2] {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    let write = device.write(0, block(9), Durability::Plain);
    running.executor.block_on(write).expect("nothing fails");
    let mut volume = running.kill();
    let old = running.memory(1 - number).platter();
    volume.memories[1 - number] = whole(old.image_with(|_| sim::Fate::Lost));
    let running = Running::of(3, &volume);
    let device = running.open([true; 2]).expect("both are its own");
    let both = byte(&running, &device, 0);
    running.executor.block_on(device.flush()).expect("nothing fails");
    let running = Running::of(4, &running.kill());
    let device = running.open([number == 1, number == 0]).expect("it was not called out");
    [both, byte(&running, &device, 0)]
}

#[test]
fn what_a_cut_left_in_one_memory_is_made_equal_before_it_is_shown() {
    assert_eq!([0, 1].map(shown_after_a_cut), [[Some(9); 2]; 2]);
    #[cfg(feature = "planted-bugs")]
    {
        let bug = nvram::planted::Bug::UnequalTwins;
        assert_eq!(crate::with(bug, || shown_after_a_cut(0)), [Some(9), Some(1)]);
    }
}

#[test]
fn an_entry_that_rots_while_it_is_in_use_is_read_from_the_other_memory_and_mended() {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    let at = layout().slot(0) + SECTOR;
    running.memory(0).rot(at + 100, 3);
    assert_eq!(byte(&running, &device, 0), Some(1));
    let all = at..at + 4096;
    running.memory(1).inject(Fault::on(Verb::Read, Effect::Eio).within(all.clone()).forever());
    assert_eq!(byte(&running, &device, 0), Some(1), "it was mended");
    running.memory(1).heal();
    running.memory(0).inject(Fault::on(Verb::Read, Effect::Eio).within(all).forever());
    assert_eq!(byte(&running, &device, 0), Some(1), "the other one is read");
    assert_eq!(running.out(), [false; 2]);
}

#[test]
fn parts_of_both_make_a_whole_entry() {
    let running = Running::of(2, &written());
    let slot = layout().slot(0);
    running.memory(0).rot(slot + SECTOR + 100, 3);
    [0, SECTOR + 4096].into_iter().for_each(|at| running.memory(1).rot(slot + at + 30, 3));
    let marks = layout().map(0);
    running.memory(0).rot(marks[0] + 100, 1);
    running.memory(0).rot(marks[1] + 100, 1);
    running.memory(1).rot(marks[0] + 100, 1);
    let device = running.open([true; 2]).expect("both are its own");
    assert_eq!(byte(&running, &device, 0), Some(1));
    for there in [[true, false], [false, true]] {
        let running = Running::of(3, &running.kill());
        let device = running.open(there).expect("each has everything");
        assert_eq!(byte(&running, &device, 0), Some(1), "{there:?}");
    }
}

#[test]
fn what_cannot_be_read_in_one_memory_is_taken_from_the_other() {
    for number in [0, 1] {
        for part in [0..LABEL, layout().map(0)[0]..layout().slot(0), layout().slot(0)..MEMORY] {
            let running = Running::of(2, &written());
            let fault = Fault::on(Verb::Read, Effect::Eio).within(part.clone()).forever();
            running.memory(number).inject(fault);
            let device = running.open([true; 2]).expect("the other one is whole");
            for at in 0..4 {
                assert_eq!(byte(&running, &device, at * 4096), Some(at as u8 + 1), "{part:?}");
            }
        }
    }
}

#[test]
fn those_called_out_in_turn_are_never_believed_for_each_other() {
    let running = Running::of(2, &written());
    let device = running.open([true, false]).expect("the first has everything");
    running.executor.block_on(device.write(0, block(9), Durability::Through)).expect("it is up");
    assert_eq!(running.out(), [false, true]);
    let running = Running::of(3, &running.kill());
    let refused = |there| running.open(there).err();
    assert_eq!(refused([false, true]), Some(Unpaired::CalledOut.into()));
    assert_eq!(refused([false, false]), Some(Unpaired::Missing.into()));
    assert_eq!(running.out(), [false, true], "a start that fails changes nothing");
    let device = running.open([true, true]).expect("the first is there");
    running.executor.run_for(Duration::from_secs(2));
    assert_eq!(device.status().twins, Some([TwinState::In, TwinState::In]));
    let running = Running::of(4, &running.kill());
    let device = running.open([false, true]).expect("it was filled");
    assert_eq!(byte(&running, &device, 0), Some(9));
    let refused = Running::of(5, &running.kill()).open([true, false]).err();
    assert_eq!(refused, Some(Unpaired::CalledOut.into()));
}

/// The volume after a start on the second memory alone that was cut off: the label there has the
/// next generation, and the volume has not heard of it.
fn cut_off_alone(volume: &Volume) -> Volume {
    let running = Running::of(2, volume);
    running.book.inject(Fault::on(Verb::Write, Effect::Eio).forever());
    assert!(running.open([false, true]).is_err());
    Volume { book: volume.book.clone(), ..running.kill() }
}

#[test]
fn an_incomplete_start_on_one_memory_is_no_start_of_the_other() {
    // The next start is on the first alone, and is complete.
    let running = Running::of(3, &cut_off_alone(&written()));
    let device = running.open([true, false]).expect("nothing rests on the other one");
    running.executor.block_on(device.write(0, block(9), Durability::Through)).expect("it is up");
    let running = Running::of(4, &running.kill());
    assert_eq!(running.open([false, true]).err(), Some(Unpaired::CalledOut.into()));
    let device = running.open([true, true]).expect("the first has it");
    assert_eq!(byte(&running, &device, 0), Some(9));
}

/// The byte of a block whose last write a cut has torn in one memory, while the other one cannot
/// read all of it.
fn torn_in_one(number: usize) -> Option<u8> {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    let before = running.kill();
    let write = device.write(0, block(9), Durability::Plain);
    running.executor.block_on(write).expect("nothing fails");
    let mut volume = running.kill();
    let mut data = vec![0; 4096];
    let at = layout().slot(4) + SECTOR;
    before.memories[number].image_with(|_| sim::Fate::Whole).read(at, &mut data);
    let mut torn = volume.memories[number].image_with(|_| sim::Fate::Whole);
    torn.write(at, &data);
    volume.memories[number] = whole(torn);
    let running = Running::of(3, &volume);
    let fault = Fault::on(Verb::Read, Effect::Eio).within(at..at + SECTOR).forever();
    running.memory(1 - number).inject(fault);
    let device = running.open([true; 2]).expect("one can be read");
    byte(&running, &device, 0)
}

#[test]
fn a_write_that_is_torn_in_the_memory_that_can_be_read_was_not_answered() {
    assert_eq!([0, 1].map(torn_in_one), [Some(1); 2]);
    #[cfg(feature = "planted-bugs")]
    {
        let bug = nvram::planted::Bug::TornInOne;
        assert_eq!(crate::with(bug, || [0, 1].map(torn_in_one)), [None; 2]);
    }
}

#[test]
fn a_start_on_one_alone_that_was_cut_off_makes_no_tear_of_the_other_a_loss() {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    let before = running.kill();
    running.executor.block_on(async {
        for place in [0, 9] {
            let write = device.write(place * 4096, block(9), Durability::Plain);
            write.await.expect("nothing fails");
        }
    });
    let (after, mut cut) = (running.kill(), before.clone());
    // The first write is torn in the first memory, and never came to the second one, which has the
    // second write.
    let copied = |volume: &mut Volume, number: usize, at: u64, length: u64| {
        let mut bytes = vec![0; length as usize];
        after.memories[number].image_with(|_| sim::Fate::Whole).read(at, &mut bytes);
        let mut image = volume.memories[number].image_with(|_| sim::Fate::Whole);
        image.write(at, &bytes);
        volume.memories[number] = whole(image);
    };
    copied(&mut cut, 0, layout().slot(4), SECTOR);
    copied(&mut cut, 1, layout().slot(5), SLOT);
    let running = Running::of(4, &cut_off_alone(&cut));
    let device = running.open([true; 2]).expect("both are there");
    assert_eq!(byte(&running, &device, 0), Some(1), "it was acknowledged");
}

/// A start on the second memory alone was cut off, and then an entry of it rots. Gives the byte
/// that is read of its block, and that after a kill with the first one missing.
fn rotten_in_the_later_one() -> [Option<u8>; 2] {
    let running = Running::of(3, &cut_off_alone(&written()));
    running.memory(1).rot(layout().slot(0) + SECTOR, 3);
    let device = running.open([true; 2]).expect("both are there");
    let first = byte(&running, &device, 0);
    running.executor.run_for(Duration::from_secs(1));
    let running = Running::of(4, &running.kill());
    let device = running.open([false, true]).expect("it has everything");
    [first, byte(&running, &device, 0)]
}

#[test]
fn one_that_is_behind_gives_what_has_rotted_in_the_other() {
    assert_eq!(rotten_in_the_later_one(), [Some(1); 2]);
    #[cfg(feature = "planted-bugs")]
    {
        let bug = nvram::planted::Bug::UnaskedTwin;
        assert_eq!(crate::with(bug, rotten_in_the_later_one), [None; 2]);
    }
}

const FOREVER: Effect = Effect::Slow(Duration::from_secs(1 << 30));

/// One memory hangs in calls of a verb, at its opening or later. Gives whether a write, a flush and
/// a read are answered within so many seconds, and which memory is out then.
fn answered_beside_one_that_hangs(verb: Verb, is_early: bool, seconds: u64) -> (bool, [bool; 2]) {
    let running = Running::of(2, &written());
    let hang = || running.memory(0).inject(Fault::on(verb, FOREVER).forever());
    if is_early {
        hang();
    }
    let device = running.open([true; 2]).expect("the other one does not hang");
    if !is_early {
        hang();
    }
    let work = async {
        device.write(0, block(9), Durability::Plain).await.expect("the other one has it");
        device.flush().await.expect("the other one has it");
        let read = device.read(4096, Buffer::unfilled(4096)).await;
        assert_eq!(read.expect("the other one has it")[0], 2);
    };
    let is_done = running.executor.block_on_for(Duration::from_secs(seconds), work).is_some();
    running.executor.run_for(Duration::from_millis(100)); // a read does not wait for the record
    (is_done, running.out())
}

#[test]
fn one_that_hangs_is_called_out_when_the_other_one_has_done_the_call() {
    for verb in [Verb::Write, Verb::Flush, Verb::Read] {
        let answered = |seconds| answered_beside_one_that_hangs(verb, false, seconds);
        assert_eq!(answered(29), (false, [false; 2]), "{verb:?}");
        assert_eq!(answered(32), (true, [true, false]), "{verb:?}");
        #[cfg(feature = "planted-bugs")]
        {
            let bug = nvram::planted::Bug::EndlessPatience;
            assert_eq!(crate::with(bug, || answered(1_000)), (false, [false; 2]));
        }
    }
    assert_eq!(answered_beside_one_that_hangs(Verb::Read, true, 1), (true, [true, false]));
}

/// One memory hangs from a stop on. Gives whether that ends.
fn stops_beside_one_that_hangs(verb: Verb) -> bool {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    let write = device.write(0, block(9), Durability::Plain);
    running.executor.block_on(write).expect("nothing fails");
    running.memory(0).inject(Fault::on(verb, FOREVER).forever());
    let stopped = running.executor.block_on_for(Duration::from_secs(100), device.close());
    stopped.is_some_and(|stopped| stopped.is_ok()) && !running.pairing().is_dirty
}

#[test]
fn a_stop_ends_beside_one_that_hangs() {
    let stops = [Verb::Write, Verb::Flush].map(stops_beside_one_that_hangs);
    assert_eq!(stops, [true; 2]);
}

/// One memory hangs after its label was read. Gives whether a start takes the other one.
fn starts_beside_one_that_hangs(verb: Verb) -> bool {
    let running = Running::of(2, &written());
    let at = layout().slot(0);
    let fault = Fault::on(verb, FOREVER);
    let fault = if verb == Verb::Read { fault.within(at..at + SLOT) } else { fault };
    running.memory(0).inject(fault.forever());
    let memory = |at: usize| Some(found(running.memory(at)));
    let (runtime, record) = (running.executor.runtime(), Some(running.record()));
    let memories = [memory(0), memory(1)];
    let opening = open_two(running.below.clone(), memories, runtime, running.pairing(), record);
    let opened = running.executor.block_on_for(Duration::from_secs(60), opening);
    let Some(Ok((device, _))) = opened else { return false };
    byte(&running, &device, 0) == Some(1) && running.out() == [true, false]
}

#[test]
fn a_start_takes_the_other_one_beside_one_that_hangs() {
    let verbs = [Verb::Read, Verb::Write, Verb::Flush];
    assert_eq!(verbs.map(starts_beside_one_that_hangs), [true; 3]);
}

/// One memory fails a write while the volume's record is slow. Gives whether the write is answered
/// before the record calls that memory out.
fn answers_before_the_record() -> bool {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    running.memory(1).inject(Fault::on(Verb::Write, Effect::Eio).nth(1));
    running.book.inject(Fault::on(Verb::Write, Effect::Slow(Duration::from_secs(5))).forever());
    let mut write = device.write(0, block(9), Durability::Through);
    let is_early = running.executor.block_on_for(Duration::from_secs(4), &mut write).is_some();
    assert_eq!(running.out(), [false; 2], "the record is on its way");
    if !is_early {
        running.executor.block_on(write).expect("the other one has it");
        assert_eq!(running.out(), [false, true]);
    }
    is_early
}

#[test]
fn a_write_waits_until_the_memory_that_missed_it_is_called_out() {
    assert!(!answers_before_the_record());
    #[cfg(feature = "planted-bugs")]
    {
        let bug = nvram::planted::Bug::HastyCallOut;
        assert!(crate::with(bug, answers_before_the_record));
    }
}

/// The last memory of two has a flush fail beside another one, and the disk below is slow. Gives
/// whether one of both is answered before everything is below.
fn answers_a_flush_beside_one_that_fails() -> bool {
    let running = Running::of(2, &written());
    let device = running.open([true, false]).expect("it is its own");
    let write = device.write(0, block(9), Durability::Plain);
    running.executor.block_on(write).expect("nothing fails");
    let slow = Effect::Slow(Duration::from_secs(5));
    running.below.inject(Fault::on(Verb::Write, slow).forever());
    running.memory(0).inject(Fault::on(Verb::Flush, Effect::Eio).nth(1));
    let either = select(device.flush(), device.flush());
    running.executor.block_on_for(Duration::from_secs(1), either).is_some()
}

#[test]
fn no_flush_of_the_last_one_succeeds_beside_one_that_fails() {
    assert!(!answers_a_flush_beside_one_that_fails());
    #[cfg(feature = "planted-bugs")]
    {
        let bug = nvram::planted::Bug::FlushesBeside;
        assert!(crate::with(bug, answers_a_flush_beside_one_that_fails));
    }
}

#[test]
fn one_that_hangs_and_is_called_out_holds_nobody_up() {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    let executor = &running.executor;
    running.memory(1).inject(Fault::on(Verb::Write, FOREVER).forever());
    let mut write = device.write(0, block(9), Durability::Through);
    assert!(executor.block_on_for(Duration::from_secs(1), &mut write).is_none());
    running.memory(1).inject(Fault::on(Verb::Flush, Effect::Eio).forever());
    executor.block_on(device.flush()).expect("the other one has it");
    executor.block_on(write).expect("the other one has it");
    assert_eq!(running.out(), [false, true]);
    let again = running.reopened(1);
    again.inject(Fault::on(Verb::Write, FOREVER).forever());
    let mut filled = device.fill(found(again)).boxed_local();
    let written = executor.block_on_for(Duration::from_millis(100), &mut filled);
    assert!(written.is_none());
    executor.block_on(device.write(0, block(8), Durability::Through)).expect("it waits for none");
    assert!(executor.block_on(filled).is_err());
    executor.block_on(device.close()).expect("nothing fails");
}

#[test]
fn a_foreign_or_an_older_one_is_left_alone_or_filled() {
    let older = written();
    let running = Running::of(2, &older);
    let device = running.open([true; 2]).expect("both are its own");
    running.executor.block_on(device.write(0, block(9), Durability::Through)).expect("it is up");
    let mut volume = running.kill();
    volume.memories[1] = older.memories[1].clone();
    let running = Running::of(3, &volume);
    let device = running.open([true; 2]).expect("the first is whole");
    assert_eq!((byte(&running, &device, 0), running.out()), (Some(9), [false, true]));
    running.executor.run_for(Duration::from_secs(2));
    assert_eq!(running.out(), [false; 2], "it was filled");
    // One that is blank may be anything.
    let mut volume = running.kill();
    volume.memories[1] = whole(Image::zeroed(MEMORY));
    let running = Running::of(4, &volume);
    let device = running.open([true; 2]).expect("the first is whole");
    running.executor.run_for(Duration::from_secs(2));
    assert_eq!((byte(&running, &device, 0), running.out()), (Some(9), [false, true]));
    assert!(running.fill(&device, 1).is_err());
    // Both are the same one.
    let mut volume = running.kill();
    volume.memories[1] = volume.memories[0].clone();
    let running = Running::of(5, &volume);
    assert_eq!(running.open([true; 2]).err(), Some(Unpaired::Copied.into()));
}

#[test]
fn where_the_last_one_fails_the_volume_goes_on_without() {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    let executor = &running.executor;
    for number in [1, 0] {
        running.memory(number).inject(Fault::on(Verb::Write, Effect::Eio).forever());
        let write = device.write(0, block(8 + number as u8), Durability::Through);
        executor.block_on(write).expect("the disk has it at the latest");
    }
    assert!(device.status().is_retired && !running.pairing().is_dirty);
    let running = Running::of(3, &running.kill());
    let device = running.open([true; 2]).expect("their content is void");
    assert_eq!(byte(&running, &device, 0), Some(8));
    assert_eq!(running.out(), [false; 2]);
}

/// A memory is called out while the label of the other one is being written. Gives how many of the
/// cuts in that time leave the other one without a whole label.
fn cuts_that_leave_no_label() -> usize {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    let labels = layout().labels();
    for at in labels {
        let slow = Fault::on(Verb::Write, Effect::Slow(Duration::from_secs(1)));
        running.memory(0).inject(slow.within(at..at + LABEL).forever());
    }
    let executor = &running.executor;
    let mut settled = device.settle(false).boxed_local().fuse();
    let mut without = 0;
    for quarter in 0..40 {
        let quarter_of_a_second = Duration::from_millis(250);
        let _ = executor.block_on_for(quarter_of_a_second, &mut settled);
        // From some time on, the other one fails.
        if quarter == 5 {
            running.memory(1).inject(Fault::on(Verb::Flush, Effect::Eio).forever());
            let mut flushed = device.flush();
            assert!(executor.block_on_for(Duration::from_millis(1), &mut flushed).is_none());
        }
        let mut prng = Prng::new(quarter);
        let is_whole = |image: &Image, at: u64| {
            let mut bytes = [0; LABEL as usize];
            image.read(at, &mut bytes);
            Label::decode(&bytes).is_ok()
        };
        for _ in 0..8 {
            let cut = running.cut(&mut prng).memories[0].durable_image();
            without += usize::from(!labels.iter().any(|&at| is_whole(&cut, at)));
        }
    }
    without
}

#[test]
fn one_of_two_labels_is_whole_whoever_writes_them() {
    assert_eq!(cuts_that_leave_no_label(), 0);
    #[cfg(feature = "planted-bugs")]
    {
        let bug = nvram::planted::Bug::CrossedLabels;
        assert_ne!(crate::with(bug, cuts_that_leave_no_label), 0);
    }
}

#[test]
fn what_a_start_on_both_shows_survives_a_cut_whatever_failed_before() {
    let running = Running::of(2, &written());
    let device = running.open([true; 2]).expect("both are its own");
    for number in 0..2 {
        running.memory(number).inject(Fault::on(Verb::Flush, Effect::Eio).forever());
    }
    let write = device.write(0, block(9), Durability::Plain);
    running.executor.block_on(write).expect("both have it in a cache");
    let _ = running.executor.block_on_for(Duration::from_millis(10), device.flush());
    let running = Running::of(3, &running.kill());
    let device = running.open([true; 2]).expect("both are its own");
    let shown = byte(&running, &device, 0);
    let memories = [0, 1].map(|at| whole(running.memory(at).platter().durable_image()));
    let volume = Volume { memories, ..running.kill() };
    let running = Running::of(4, &volume);
    let device = running.open([true; 2]).expect("both are its own");
    assert_eq!((shown, byte(&running, &device, 0)), (Some(9), Some(9)));
}
