//! The ways in and out of a volume, and their recordings.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use designs::OpenError;
use futures::future::{join, join_all};
use sim::{Executor, Fate, Image};
use vfs::{Credentials, FsError, Name, ObjectId, Requester, SetAttributes, Stability};

use super::super::design::Design;
use super::super::disks::{Cut, Disks, Recording};
use super::super::recover::seed;
use super::End;
use super::known::{AFTER, Act, Known, LONG, Progress, WORK, key};
use super::look::Served;
use super::place::Place;
use super::repair::repair;

/// An operation on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is served without clients.
    Serve,
    /// It is served to several concurrent clients; then one overwrites a little, and more.
    Work,
    /// The same with one client, followed by a stop.
    Stop,
    /// It is served and stopped at once.
    Close,
    /// It is served; a file is truncated in steps, and others are written for a while.
    Shorten,
    /// `duramen fsck --repair`.
    Repair,
    /// `duramen tune --policy sync`.
    TuneSync,
    /// `duramen tune --policy log`.
    TuneLog,
    /// Its log grows, as it does behind a server.
    Grow,
}

/// Number of concurrent makers of directories,
const AT_ONCE: usize = 6;
/// and directories that each makes, one after the other,
const EACH: usize = 2;
/// or that each makes while an interrupted chain continues.
const MORE: usize = 5;
/// Growth of a log in bytes, at some moments.
const GROWS: [u64; 3] = [4 << 10, 100 << 10, 1 << 20];
/// Writes after a truncation: enough for its answer to be logged again.
const WRITES: usize = 48;

impl Way {
    /// All ways.
    pub const ALL: &[Self] = &[
        Self::Serve,
        Self::Work,
        Self::Stop,
        Self::Close,
        Self::Shorten,
        Self::Repair,
        Self::TuneSync,
        Self::TuneLog,
        Self::Grow,
    ];

    /// The name of the way in a line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Work => "work",
            Self::Stop => "stop",
            Self::Close => "close",
            Self::Shorten => "shorten",
            Self::Repair => "repair",
            Self::TuneSync => "tune-sync",
            Self::TuneLog => "tune-log",
            Self::Grow => "grow",
        }
    }

    /// The ways that follow another one.
    pub fn following(design: Design) -> &'static [Self] {
        if !design.has_disks() {
            &[]
        } else if design.has_log() {
            &[Self::Serve, Self::Repair, Self::Stop, Self::Close, Self::TuneSync]
        } else if design.with_log().is_some() {
            &[Self::Serve, Self::Repair, Self::Stop, Self::Close, Self::TuneLog]
        } else {
            &[Self::Serve, Self::Repair, Self::Stop, Self::Close]
        }
    }
}

/// The recording of a way.
pub enum Went {
    /// The events of disks, and the acts.
    OnDisks(Way, Recording, Vec<Act>),
    /// The states of files after each step.
    WithFiles(Vec<(Place, bool)>),
}

impl Went {
    /// The number of events.
    pub fn events(&self) -> usize {
        match self {
            Self::OnDisks(_, recording, _) => recording.events(),
            Self::WithFiles(places) => places.len(),
        }
    }

    /// The cut at a position, if the way is on disks.
    pub fn cut(&self, position: usize) -> Option<Cut> {
        match self {
            Self::OnDisks(_, recording, _) => recording.cuts().nth(position),
            Self::WithFiles(_) => None,
        }
    }

    /// The state after an end.
    ///
    /// # Errors
    /// When the way cannot end like that.
    pub fn end(&self, end: &End, from: &Place, known: &Known) -> Result<(Place, Known), String> {
        let position = match end {
            End::Done => self.events(),
            End::Cut(position, _) | End::Killed(position) => *position,
        };
        let none = || "there is no such end: is it the same engine?".to_owned();
        match self {
            Self::WithFiles(places) => {
                let Some(index) = position.checked_sub(1) else {
                    return Ok((from.clone(), known.clone()));
                };
                let (place, remembers) = places.get(index).ok_or_else(none)?.clone();
                Ok((place, Known { remembers: known.remembers && remembers, ..known.clone() }))
            }
            Self::OnDisks(way, recording, acts) => {
                let cut = self.cut(position).ok_or_else(none)?;
                let mut place = from.clone();
                match end {
                    End::Cut(_, loss) => {
                        let images = cut.images(loss).ok_or_else(none)?;
                        place.disks = Place::new(from.design, &images).disks;
                    }
                    End::Done | End::Killed(_) => place.disks = cut.killed(),
                }
                let mut known = known.after(acts, recording.marks_before(position));
                // Files without a name are freed, unless a repair was in progress: it gives them
                // one.
                known.reconnects |= *way == Way::Repair && *end != End::Done;
                Ok((place, known))
            }
        }
    }
}

/// Runs a way from a place, after `boot` others; `None` when it is not possible from there.
///
/// # Errors
/// When it fails.
pub fn go(way: Way, place: &Place, known: &Known, boot: usize) -> Result<Option<Went>, String> {
    match way {
        Way::Grow => Ok(grow(place)),
        Way::TuneSync => Ok(to_sync(place)),
        Way::TuneLog => Ok(to_log(place)),
        _ => on_disks(way, place, known, boot),
    }
}

fn on_disks(way: Way, place: &Place, known: &Known, boot: usize) -> Result<Option<Went>, String> {
    let executor = Executor::new(seed(place.design, &place.contents()));
    let disks = Rc::new(Disks::resumed(&executor, &place.disks));
    disks.start_recording();
    let runtime = executor.runtime();
    let acts = executor.block_on(async {
        if way == Way::Repair {
            return repair(place.design, &disks.devices(), &runtime)
                .await
                .map(|()| Some(Vec::new()));
        }
        let opened = place.design.open(disks.devices(), runtime.clone()).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(OpenError::UnfinishedCheck(_)) => return Ok(None),
            Err(error) => return Err(format!("it does not come back: {error}")),
        };
        let served = Rc::new(Served::new(opened).await?);
        let mut hand =
            Hand { disks: disks.clone(), served, acts: Vec::new(), boot, callers: Vec::new() };
        match way {
            Way::Work => hand.work(AT_ONCE, if known.long.is_some() { MORE } else { EACH }).await?,
            Way::Stop => hand.work(1, EACH).await?,
            Way::Shorten if known.long == Some(Progress::default()) => {
                hand.shorten().await?;
            }
            _ => {}
        }
        if matches!(way, Way::Stop | Way::Close) {
            // Operations may still be in progress.
            hand.served.stop().await?;
            return Ok(Some(hand.acts));
        }
        hand.served.long().await;
        let settled = hand.served.engine.quiesce().await;
        settled.map_err(|error| format!("it does not settle: {error}"))?;
        Ok(Some(hand.acts))
    })?;
    Ok(acts.map(|acts| Went::OnDisks(way, disks.recording(), acts)))
}

/// A client of a volume in service.
struct Hand {
    disks: Rc<Disks>,
    served: Rc<Served>,
    acts: Vec<Act>,
    boot: usize,
    callers: Vec<Requester>,
}

/// A user whose call is remembered.
pub fn caller(name: &str) -> Requester {
    Requester { who: Credentials::root(), call: Some(key(name)) }
}

impl Hand {
    fn begin(&mut self, act: Act) -> u64 {
        begin(&self.disks, &mut self.acts, act)
    }

    fn end<T>(&self, mark: u64, result: Result<T, String>) -> Result<T, String> {
        let done = result?;
        self.disks.volume().mark(mark + 1);
        Ok(done)
    }

    /// Several makers make directories concurrently; then a little is overwritten, and more over
    /// that.
    async fn work(&mut self, makers: usize, each: usize) -> Result<(), String> {
        self.make(makers, each, async { Ok(()) }).await?;
        let boot = self.boot;
        let first = format!("d{boot}-0-0");
        let mark = self.begin(Act::Remove(first.clone()));
        let gone = remove(&self.served, &first).await;
        self.end(mark, gone)?;
        let byte = 0x20 + 2 * boot as u8;
        self.put(0..8, byte).await?;
        self.put(0..48, byte + 1).await?;
        Ok(())
    }

    /// Several makers make directories concurrently, beside another future.
    async fn make(
        &mut self,
        makers: usize,
        each: usize,
        beside: impl Future<Output = Result<(), String>>,
    ) -> Result<(), String> {
        let boot = self.boot;
        // Keys that the cache remembers as long as the log does.
        let name = |maker, number| format!("d{boot}-{maker}-{number}");
        let mine = |maker| (0..each).map(move |number| name(maker, number));
        let names: Vec<Vec<String>> = (0..makers).map(|maker| mine(maker).collect()).collect();
        let callers: Vec<Vec<Requester>> =
            names.iter().map(|mine| mine.iter().map(|name| caller(name)).collect()).collect();
        let acts = RefCell::new(std::mem::take(&mut self.acts));
        let calls = names.iter().zip(&callers).map(async |(names, callers)| {
            for (name, who) in names.iter().zip(callers) {
                let mark = begin(&self.disks, &mut acts.borrow_mut(), Act::Make(name.clone()));
                self.end(mark, make(&self.served, who, name).await)?;
            }
            Ok::<_, String>(())
        });
        let (made, done) = join(join_all(calls), beside).await;
        made.into_iter().collect::<Result<Vec<()>, String>>()?;
        self.acts = acts.into_inner();
        self.callers.extend(callers.into_iter().flatten());
        done
    }

    async fn put(&mut self, sectors: std::ops::Range<usize>, byte: u8) -> Result<(), String> {
        let mark = self.begin(Act::Put(sectors.clone(), byte));
        let file = self.served.driver.find(WORK).await.map_err(|error| error.to_string())?;
        let data = vec![byte; sectors.len() * 512];
        let done = put(&self.served, file, sectors.start as u64 * 512, data).await;
        self.end(mark, done)
    }

    async fn shorten(&mut self) -> Result<(), String> {
        let (mark, who) = (self.begin(Act::Shorten), caller(LONG));
        let (served, disks) = (self.served.clone(), self.disks.clone());
        // Other calls run between the steps of the truncation.
        let shorter = async {
            shorten(&served, &who).await?;
            disks.volume().mark(mark + 1);
            Ok(())
        };
        self.make(2, 3, shorter).await?;
        for index in 0..WRITES {
            self.put(64..67, 0x40 + index as u8).await?;
            if index % 8 == 0 {
                // Changes written in place hold no answer back.
                let settled = self.served.engine.quiesce().await;
                settled.map_err(|error| format!("it does not settle: {error}"))?;
            }
        }
        self.callers.push(who);
        Ok(())
    }
}

/// Marks the start of an act; the next number marks its end.
fn begin(disks: &Disks, acts: &mut Vec<Act>, act: Act) -> u64 {
    acts.push(act);
    let mark = (acts.len() as u64 - 1) * 2;
    disks.volume().mark(mark);
    mark
}

async fn make(served: &Served, who: &Requester, name: &str) -> Result<(), String> {
    let parsed = Name::parse(name.as_bytes()).expect("a legal name");
    let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    let made = served.files.mkdir(who, served.files.root(), &parsed, attributes).await;
    let made = made.open().await.map_err(|_| "it has stopped")?.into_inner().result;
    made.map(drop).map_err(|error| format!("{name} is not made: {error}"))
}

async fn remove(served: &Served, name: &str) -> Result<(), String> {
    let parsed = Name::parse(name.as_bytes()).expect("a legal name");
    let gone = served.files.rmdir(&Requester::root(), served.files.root(), &parsed).await;
    let gone = gone.open().await.map_err(|_| "it has stopped")?.into_inner().result;
    gone.map_err(|error| format!("{name} is not removed: {error}"))
}

async fn put(served: &Served, file: ObjectId, at: u64, data: Vec<u8>) -> Result<(), String> {
    let (who, data) = (Requester::root(), vec![Bytes::from(data)]);
    let written = served.files.write(&who, file, at, data, Stability::FileSync).await;
    let written = written.open().await.map_err(|_| "it has stopped")?.into_inner().result;
    written.map(drop).map_err(|error: FsError| format!("{WORK} is not written: {error}"))
}

/// Truncates the long file.
///
/// # Errors
/// When it fails.
pub async fn shorten(served: &Served, who: &Requester) -> Result<(), String> {
    let file = served.driver.find(LONG).await.map_err(|error| error.to_string())?;
    let size = SetAttributes { size: Some(AFTER), ..SetAttributes::default() };
    let done = served.files.setattr(who, file, size, None).await;
    let done = done.open().await.map_err(|_| "it has stopped")?.into_inner().result;
    done.map_err(|error| format!("{LONG} does not become shorter: {error}"))
}

/// Writes the settings, and then removes the log.
fn to_sync(place: &Place) -> Option<Went> {
    let without = place.design.without_log()?;
    if !place.design.has_log() || !place.is_clean() {
        return None;
    }
    let log = place.disks[1].image_with(|_| Fate::Whole);
    let disks = vec![place.disks[0].clone()];
    let written = Place { design: without, disks: disks.clone(), beside: Some(log) };
    let gone = Place { beside: None, ..written.clone() };
    Some(Went::WithFiles(vec![(written, false), (gone, false)]))
}

/// Makes a log unless there is one, and then writes the settings.
fn to_log(place: &Place) -> Option<Went> {
    let with = place.design.with_log()?;
    if place.design.has_log() || !place.is_clean() {
        return None;
    }
    let log = place.beside.clone();
    let log = log.unwrap_or_else(|| Image::zeroed(journal::format::SMALLEST));
    let beside = Place { beside: Some(log.clone()), ..place.clone() };
    let images = super::super::disks::Images(vec![log]);
    let mut disks = place.disks.clone();
    disks.extend(Place::new(with, &images).disks);
    let written = Place { design: with, disks, beside: None };
    Some(Went::WithFiles(vec![(beside, true), (written, true)]))
}

/// Writes zeros behind the log.
fn grow(place: &Place) -> Option<Went> {
    if !place.design.has_log() {
        return None;
    }
    let log = place.disks[1].image_with(|_| Fate::Whole);
    let longer = GROWS.iter().map(|more| {
        let mut bytes = log.bytes();
        bytes.resize(bytes.len() + *more as usize, 0);
        let images = super::super::disks::Images(vec![Image::from_bytes(&bytes)]);
        let mut disks = vec![place.disks[0].clone()];
        disks.extend(Place::new(place.design, &images).disks);
        (Place { disks, ..place.clone() }, true)
    });
    Some(Went::WithFiles(longer.collect()))
}
