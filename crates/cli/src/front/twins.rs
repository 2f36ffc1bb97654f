//! Two NVRAMs of one volume: how each stands, and how one comes back under a running server.

use std::cell::RefCell;
use std::fmt::Display;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use nvram::meeting::{Assembly, Role};
use nvram::pairing::Meeting;
use nvram::{Nvram, TwinState};
use serde::{Deserialize, Serialize};
use server::reactor::elsewhere;

use raid::label::Label;

use super::lower::parts;
use super::{Found, Front, memory_of};
use crate::words;

/// Opens the device of a file.
pub(super) type Device = Rc<dyn Fn(DiskFile) -> Rc<dyn BlockDevice>>;

/// Interval at which one that is not used is looked for. Each fill doubles it, so many times at
/// most, as long as it does not last.
const INTERVAL: Duration = Duration::from_secs(2);
const MAX_DOUBLINGS: u32 = 6;

/// Facts about each of two, in the order of the settings.
pub(super) struct Twins {
    /// Why each could not be used when it was last looked for.
    why: RefCell<[Option<String>; 2]>,
    /// The number that each has.
    numbers: RefCell<[usize; 2]>,
}

/// State of one of two. The names are those of the JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopyStatus {
    path: PathBuf,
    pub(super) state: CopyState,
    /// Why it is out.
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CopyState {
    /// It has everything.
    In,
    /// It has come back, and does not have everything yet.
    Filling,
    /// It lacks something, and is not used.
    Out,
}

impl Twins {
    /// Those that were found, and why others were not.
    pub(super) fn found(found: Vec<Found>, label: &Label) -> (Self, nvram::Memories) {
        let mut why = [(); 2].map(|()| Some("volume.toml does not name it".to_owned()));
        let mut memories = [None, None];
        for (at, found) in found.into_iter().enumerate() {
            match found {
                Ok((memory, _)) => (memories[at], why[at]) = (Some(parts(memory, label)), None),
                Err(error) => why[at] = Some(error),
            }
        }
        (Self { why: RefCell::new(why), numbers: RefCell::new([0, 1]) }, memories)
    }

    /// Takes note of their roles.
    pub(super) fn judged(&self, assembly: Assembly) -> Meeting {
        *self.numbers.borrow_mut() = assembly.numbers;
        for (why, role) in self.why.borrow_mut().iter_mut().zip(assembly.roles) {
            let of_role = match role {
                Role::In => None,
                Role::Behind => Some("it lacks the latest data".to_owned()),
                Role::Absent(error) => Some(error.to_string()),
            };
            *why = why.take().or(of_role);
        }
        assembly.meeting
    }
}

impl Front {
    /// Opens devices that come back in this way.
    pub(crate) fn return_with(&self, device: Device) {
        let _ = self.device.set(device); // a volume is opened once
    }

    /// State of each of two.
    pub(super) fn copies(&self) -> Vec<CopyStatus> {
        let states = self.nvram().and_then(|nvram| nvram.status().twins);
        let (Some(twins), Some(states)) = (&self.twins, states) else { return Vec::new() };
        let (numbers, mut whys) = (*twins.numbers.borrow(), twins.why.borrow_mut());
        let each = self.paths.iter().zip(numbers).zip(whys.iter_mut());
        let copy = |((path, number), why): ((&PathBuf, usize), &mut Option<String>)| {
            let (state, error) = match &states[number] {
                TwinState::In => {
                    *why = None; // it does not say why it will be called out
                    (CopyState::In, None)
                }
                TwinState::Filling => (CopyState::Filling, None),
                TwinState::Out(error) => {
                    let of_call_out = error.as_ref().map(ToString::to_string);
                    (CopyState::Out, why.clone().or(of_call_out))
                }
            };
            CopyStatus { path: path.clone(), state, error }
        };
        each.map(copy).collect()
    }

    /// Says at a start which of two is not used.
    pub(super) fn announce_twins(&self, volume: &impl Display) {
        let copies = self.copies();
        copies.iter().filter(|copy| copy.state == CopyState::Out).for_each(|copy| copy.say(volume));
    }

    /// Looks for one that is not used, again and again.
    pub(super) fn watch_twins(self: &Rc<Self>) {
        if self.twins.is_none() {
            return;
        }
        let (front, clock) = (Rc::downgrade(self), self.runtime.clock.clone());
        self.runtime.tasks.spawn(Box::pin(async move {
            let mut fills: u32 = 0;
            loop {
                clock.sleep(INTERVAL * (1 << fills)).await;
                let Some(front) = front.upgrade() else { return };
                let Some(nvram) = front.nvram().cloned() else { return };
                match front.look_for_twin(&nvram).await {
                    Some(true) => fills = (fills + 1).min(MAX_DOUBLINGS),
                    Some(false) => {}
                    None => fills = fills.saturating_sub(1),
                }
            }
        }));
    }

    /// Looks for one that is not used, and has it filled. Returns whether it was there, or nothing
    /// if both are used. It is opened on another thread: it may hang.
    async fn look_for_twin(&self, nvram: &Nvram) -> Option<bool> {
        let (twins, device) = self.twins.as_ref().zip(self.device.get())?;
        let states = nvram.status().twins?;
        let numbers = *twins.numbers.borrow();
        let is_out = |at: &usize| matches!(states[numbers[*at]], TwinState::Out(_));
        let at = (0..self.paths.len()).find(is_out)?;
        let path = self.paths[at].clone();
        let opened = elsewhere(move || DiskFile::open(&path, Access::ReadWrite)).await;
        let is_there = opened.is_ok();
        let why = match opened {
            Ok(disk) => {
                let (memory, _) = memory_of(disk, &|disk| device(disk));
                let found = match &self.lower {
                    Some(lower) => lower.parts_of(memory),
                    None => memory.into(),
                };
                nvram.fill(found).await.err().map(|error| error.to_string())
            }
            Err(error) => Some(error.to_string()),
        };
        if why.is_some() {
            twins.why.borrow_mut()[at] = why;
        }
        Some(is_there)
    }
}

impl CopyStatus {
    /// The state for people, behind the path.
    pub(super) fn describe(&self) -> String {
        let why = self.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        match self.state {
            CopyState::In => ", in use".to_owned(),
            CopyState::Filling => ", being filled".to_owned(),
            CopyState::Out => format!(", not used{why}"),
        }
    }

    /// A line for the server's log.
    pub(super) fn say(&self, volume: &impl Display) {
        let path = self.path.display();
        let text = match self.state {
            CopyState::In => "it has everything again, and is used".to_owned(),
            CopyState::Filling => "it is back, and is being filled".to_owned(),
            CopyState::Out => {
                let why = self.error.as_deref().unwrap_or("it lacks the latest data");
                format!("it is not used: {why}; only the other one has the newest data")
            }
        };
        words::say(format_args!("{volume}: NVRAM {path}: {text}"));
    }
}
