//! Operations on a log, step by step, recorded so that the power can be cut at every event; and the
//! possible states after a cut.
//!
//! The volume is simulated too, as far as the log is concerned: the epoch that it bears, and the
//! entries that it still needs. The entries found in the log must be a prefix of those placed in
//! that epoch, with exactly the same bodies, and contain every entry that was acknowledged and may
//! be needed.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures::future::join;
use futures::poll;
use journal::format::{SEGMENT, SMALLEST, UNIT};
use journal::{Draft, Journal, Live};
use sim::{Choice, Image, Mark, Options, Prng};

use super::{EPOCH, Placed, VOLUME, World, batch_of, draft};

/// The state at a mark of the trace.
#[derive(Clone, Debug)]
struct Moment {
    /// The epoch that the volume bears.
    epoch: u64,
    /// Number of acknowledged entries of that epoch.
    acknowledged: usize,
    /// Recno before which nothing is needed.
    head: u64,
    /// Whether a clean stop was acknowledged.
    closed: bool,
}

/// See the module's prose.
pub(crate) struct Script {
    pub(crate) world: World,
    pub(crate) journal: Journal,
    placed: BTreeMap<u64, Vec<Placed>>,
    moments: Vec<Moment>,
    sequence: u64,
    /// Recno at which the epoch began.
    start: u64,
}

impl Script {
    /// A log whose first epoch the volume bears already.
    pub(crate) fn new() -> Self {
        Self::with(World::with(Image::zeroed(SMALLEST), Options::default()))
    }

    pub(crate) fn with(world: World) -> Self {
        let journal = world.begin(EPOCH);
        world.disk.start_trace();
        let moment = Moment { epoch: EPOCH, acknowledged: 0, head: 0, closed: false };
        let mut script = Self {
            world,
            journal,
            placed: BTreeMap::new(),
            moments: Vec::new(),
            sequence: 0,
            start: 0,
        };
        script.mark(moment);
        script
    }

    fn now(&self) -> Moment {
        self.moments.last().expect("there is always one").clone()
    }

    fn mark(&mut self, moment: Moment) {
        self.world.disk.mark(self.moments.len() as u64);
        self.moments.push(moment);
    }

    fn drafts(&mut self, lengths: &[usize]) -> Vec<Draft> {
        let first = self.sequence + 1;
        self.sequence += lengths.len() as u64;
        (first..).zip(lengths).map(|(sequence, &length)| draft(sequence, length)).collect()
    }

    /// From now on only the last `count` entries are needed.
    pub(crate) fn need_last(&mut self, count: usize) {
        let placed = self.placed.get(&self.now().epoch);
        let oldest = placed.and_then(|placed| placed[placed.len().saturating_sub(count)..].first());
        let head = oldest.map_or(self.journal.tail(), |oldest| oldest.recno);
        let head = head.max(self.now().head); // an entry stays obsolete
        self.mark(Moment { head, ..self.now() });
    }

    /// Places a batch, or as many as are needed, each answered; the caller has made sure that there
    /// is room.
    pub(crate) fn place(&mut self, lengths: &[usize]) {
        let mut drafts = self.drafts(lengths);
        while !drafts.is_empty() {
            let batch = batch_of(&self.journal, &mut drafts);
            self.place_batch(batch);
        }
    }

    fn place_batch(&mut self, drafts: Vec<Draft>) {
        let epoch = self.journal.epoch();
        let head = if self.now().epoch == epoch { self.now().head } else { self.start };
        let head = Some(head).filter(|&head| head < self.journal.tail());
        let (recnos, written) = self.journal.place(drafts.clone(), head);
        let all = self.placed.entry(epoch).or_default();
        all.extend(recnos.into_iter().zip(drafts).map(|(recno, draft)| Placed { recno, draft }));
        let count = all.len();
        self.world.run(written).expect("a healthy disk");
        if self.now().epoch == epoch {
            self.mark(Moment { acknowledged: count, ..self.now() });
        }
    }

    /// Names the head in a slot.
    pub(crate) fn note_head(&mut self) {
        let head = self.now().head.max(self.start);
        self.world.run(self.journal.note_head(head)).expect("a healthy disk");
    }

    /// Names the head in a slot, and places a batch in parallel, as soon as there is room for it.
    pub(crate) fn note_head_and_place(&mut self, lengths: &[usize]) {
        let (head, epoch) = (self.now().head, self.journal.epoch());
        let room: u64 = lengths.iter().map(|&length| self.journal.room_for(length)).sum();
        let drafts = self.drafts(lengths);
        let (journal, placed) = (&self.journal, self.placed.entry(epoch).or_default());
        self.world.run(async {
            let mut noted = pin!(journal.note_head(head));
            let mut is_noted = poll!(noted.as_mut()).is_ready();
            if journal.room() < room {
                noted.as_mut().await.expect("a healthy disk");
                is_noted = true;
            }
            let (recnos, written) = journal.place(drafts.clone(), Some(head));
            let recnos = recnos.into_iter().zip(drafts);
            placed.extend(recnos.map(|(recno, draft)| Placed { recno, draft }));
            written.await.expect("a healthy disk");
            if !is_noted {
                noted.await.expect("a healthy disk");
            }
        });
        let acknowledged = placed.len();
        self.mark(Moment { acknowledged, ..self.now() });
    }

    /// Places a batch that rewrites the records at the head, and names that as the head in a slot
    /// while the batch is written.
    pub(crate) fn move_head_and_note_it(&mut self, lengths: &[usize]) {
        let (head, epoch) = (self.now().head, self.journal.epoch());
        let drafts = self.drafts(lengths);
        let (recnos, written) = self.journal.place(drafts.clone(), Some(head));
        let moved = recnos[0];
        let placed = self.placed.entry(epoch).or_default();
        placed.extend(recnos.into_iter().zip(drafts).map(|(recno, draft)| Placed { recno, draft }));
        let acknowledged = placed.len();
        let (written, noted) =
            self.world.run(async { join(written, self.journal.note_head(moved)).await });
        written.and(noted).expect("a healthy disk");
        self.mark(Moment { acknowledged, head: moved, ..self.now() });
    }

    /// A server recovers after a cut: everything is replayed, a new epoch begins behind the live
    /// part, and the volume does not bear it yet.
    pub(crate) fn return_with(&mut self, epoch: u64) {
        let (live, _) = self.world.entries(self.now().epoch);
        self.begin(epoch, Some(&live));
    }

    fn begin(&mut self, epoch: u64, kept: Option<&Live>) {
        let begun = Journal::begin(self.world.device(), epoch, VOLUME, kept);
        self.journal = self.world.run(begun).expect("it was begun before");
        self.start = self.journal.tail();
    }

    /// The volume bears the number of the epoch.
    pub(crate) fn bear(&mut self) {
        let epoch = self.journal.epoch();
        let acknowledged = self.placed.get(&epoch).map_or(0, Vec::len);
        self.mark(Moment { epoch, acknowledged, head: self.start, closed: false });
        self.journal.bear();
    }

    /// Places large entries as long as the log has room.
    fn place_while_there_is_room(&mut self) {
        while self.journal.room() >= self.journal.room_for(60_000) {
            self.place(&[60_000]);
        }
    }

    /// A clean stop, and another start.
    pub(crate) fn restart_with(&mut self, epoch: u64) {
        self.stop();
        self.world.reopen();
        self.begin(epoch, None);
        self.bear();
    }

    /// A clean stop: nothing is needed any more.
    pub(crate) fn stop(&mut self) {
        self.need_last(0);
        self.world.run(self.journal.close(self.journal.tail())).expect("a healthy disk");
        self.mark(Moment { closed: true, ..self.now() });
    }

    /// Cuts the power at every event, in every interesting way; returns the number of different
    /// disks that resulted.
    pub(crate) fn explore(&self) -> Result<usize, String> {
        let trace = self.world.disk.trace();
        let mut seen = BTreeSet::new();
        let mut prng = Prng::new(11);
        for (position, platter) in trace.cuts() {
            let moment = trace.marks_before(position).last();
            let Some(Mark::Number(moment)) = moment else { continue };
            for choice in Choice::explore(&platter, &mut prng) {
                let image = platter.image(&choice);
                if seen.insert((image.fingerprint(), *moment)) {
                    let judged = self.judge(image, &self.moments[*moment as usize]);
                    judged.map_err(|wrong| {
                        format!("cut after {position} events, {choice}: {wrong}")
                    })?;
                }
            }
        }
        Ok(seen.len())
    }

    /// Judges a disk after a cut.
    fn judge(&self, image: Image, moment: &Moment) -> Result<(), String> {
        let world = World::of(image);
        let read = world.read(moment.epoch).map_err(|error| error.to_string())?;
        let (live, found) = match read {
            None if moment.closed => return Ok(()),
            None => return Err("nothing is there of the epoch that the volume bears".into()),
            Some(read) => read,
        };
        if moment.closed && live.bytes() > 0 {
            return Err(format!("{} bytes are left after a clean stop", live.bytes()));
        }
        if live.head > moment.head.max(live.slot.start.get()) && live.bytes() > 0 {
            return Err(format!("it begins at {}, and {} is needed", live.head, moment.head));
        }
        let none = Vec::new();
        let placed = self.placed.get(&moment.epoch).unwrap_or(&none);
        let from = placed.partition_point(|entry| entry.recno < live.head);
        let expected = &placed[from..];
        if !expected.starts_with(&found) {
            return Err("what is found was not placed so".into());
        }
        let needed = |entry: &Placed| entry.recno >= moment.head;
        let lost =
            placed.iter().take(moment.acknowledged).skip(from + found.len()).find(|e| needed(e));
        match lost {
            Some(lost) => Err(format!("{} was acknowledged, and is gone", lost.recno)),
            None => Ok(()),
        }
    }
}

/// Places large entries until the log has wrapped around `rounds` times; only the last few are
/// needed.
pub(crate) fn go_round(script: &mut Script, rounds: u64) {
    let units = script.journal.capacity() / UNIT;
    let end = script.journal.tail() + rounds * units;
    while script.journal.tail() < end {
        script.place(&[60_000]);
        script.need_last(2);
    }
}

/// Scripts worth cutting: each function returns one that has run.
pub(crate) mod scripts {
    use super::*;

    pub(crate) fn batches() -> Script {
        let mut script = Script::new();
        script.place(&[100]);
        script.place(&[3000, 500, 10]);
        script.need_last(2);
        script.place(&[50_000, 50_000, 30_000]);
        script.place(&[1]);
        script.need_last(1);
        script.place(&[7000]);
        script
    }

    pub(crate) fn closing_circle() -> Script {
        let mut script = Script::new();
        go_round(&mut script, 2);
        script.place(&[60_000, 60_000, 60_000]);
        script.place(&[20, 20]);
        script
    }

    pub(crate) fn noted_heads() -> Script {
        let mut script = Script::new();
        for round in 0..4 {
            script.place(&[60_000; 3]);
            script.place(&[60_000; 3]);
            script.need_last(round);
            script.note_head();
        }
        script.place(&[60_000; 3]);
        script
    }

    pub(crate) fn heads_beside_batches() -> Script {
        let mut script = Script::new();
        for _ in 0..4 {
            while script.journal.room() > 3 << 16 {
                script.place(&[60_000]);
            }
            script.need_last(2);
            script.note_head_and_place(&[60_000; 3]);
        }
        script
    }

    pub(crate) fn changing_epoch() -> Script {
        let mut script = Script::new();
        script.place(&[60_000; 9]);
        script.need_last(3);
        script.place(&[500]);
        script.return_with(EPOCH + 1);
        script.place(&[200]); // the unfinished chains
        script.bear();
        script.place(&[60_000; 5]);
        script
    }

    pub(crate) fn many_returns() -> Script {
        let mut script = Script::new();
        script.place(&[60_000; 9]);
        script.need_last(4);
        script.place(&[500]);
        for epoch in 1..5 {
            script.return_with(EPOCH + epoch);
            script.place(&[200, 40_000]);
        }
        script.bear();
        script.need_last(0);
        go_round(&mut script, 1);
        script
    }

    pub(crate) fn return_at_the_start() -> Script {
        let mut script = Script::new();
        while script.journal.tail() < 15 * 128 {
            script.place(&[60_000]);
            script.need_last(3);
        }
        script.place(&[500]); // in the last segment of the circle
        script.return_with(EPOCH + 1);
        script.place(&[200]); // in the first, where the search for the old tail begins
        script.bear();
        script.place(&[300]);
        script
    }

    pub(crate) fn return_over_the_start() -> Script {
        let mut script = Script::new();
        while script.journal.tail() < 14 * 128 {
            script.place(&[60_000]);
            script.need_last(4);
        }
        script.return_with(EPOCH + 1);
        script.place(&[60_000; 9]); // over the start of the search for the old tail
        script.bear();
        script.place(&[300]);
        script
    }

    pub(crate) fn moved_heads() -> Script {
        let mut script = Script::new();
        for _ in 0..4 {
            script.place(&[30_000, 100]);
            script.need_last(3);
            script.move_head_and_note_it(&[500, 20]);
        }
        script
    }

    pub(crate) fn nothing_needed() -> Script {
        let mut script = Script::new();
        for _ in 0..3 {
            script.place(&[30_000, 100]);
            script.need_last(0);
            script.note_head();
            script.place(&[60_000, 200]);
        }
        script
    }

    pub(crate) fn return_to_a_full_log() -> Script {
        let mut script = Script::new();
        while script.journal.room() > 5 * SEGMENT {
            script.place(&[60_000]);
        }
        script.return_with(EPOCH + 1);
        script.place_while_there_is_room();
        script.note_head(); // into the slot of this epoch, and not of the other
        script.note_head();
        script.bear();
        script.place_while_there_is_room();
        script
    }

    pub(crate) fn clean_stops() -> Script {
        let mut script = Script::new();
        script.place(&[60_000; 4]);
        for epoch in 1..4 {
            script.restart_with(EPOCH + epoch);
            script.place(&[30_000, 500]);
            script.note_head();
            script.place(&[400]);
        }
        script.stop();
        script
    }
}
