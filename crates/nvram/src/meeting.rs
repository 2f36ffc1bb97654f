//! Which of two NVRAMs are believed.
//!
//! A pure function of the volume's pairing and of two labels. An NVRAM is believed if it goes with
//! the volume as a single one would, and the volume does not call it out. One that is this
//! volume's and is not believed lacks something. Any other is left alone: whatever is on it may be
//! needed elsewhere.
//!
//! Invariants:
//! 1. One that is called out is not believed while the volume is dirty.
//! 2. Where an NVRAM comes from a later start than the volume, none is believed.
//!
//! Not asserted: 1 and 2, which the tests at the end and `tests/it/twins.rs` break.

use crate::errors::OpenError;
use crate::format::{BadLabel, Label};
use crate::pairing::{Meeting, Pairing, Unpaired};
use crate::planted::{Bug, is_planted};

/// The part of one of two NVRAMs in a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is believed.
    In,
    /// It lacks something: it is filled before it counts.
    Behind,
    /// It cannot be used, and is left alone.
    Absent(OpenError),
}

/// Two NVRAMs that were judged, in the order in which they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// How those go with the volume that are believed.
    pub meeting: Meeting,
    /// The part of each.
    pub roles: [Role; 2],
    /// The number of each, 0 or 1.
    pub numbers: [usize; 2],
}

impl Pairing {
    /// Judges the labels of two NVRAMs, or why there is none.
    ///
    /// # Errors
    /// Why the volume must not be used with either.
    pub fn meet_two(&self, found: &[Result<Label, OpenError>; 2]) -> Result<Assembly, OpenError> {
        let judged = found.each_ref().map(|label| self.judge(label));
        let is_later = |it: &Result<_, OpenError>| {
            matches!(it, Err(OpenError::Unpaired(Unpaired::OlderVolume { .. })))
        };
        let later = judged.iter().find(|it| is_later(it)).and_then(|it| it.as_ref().err());
        if let Some(later) = later {
            return Err(later.clone());
        }
        let numbers = match found.each_ref().map(|label| self.number_of(label)) {
            [Some(one), Some(other)] if one == other => return Err(Unpaired::Copied.into()),
            [Some(one), _] => [one, 1 - one],
            [None, Some(other)] => [1 - other, other],
            [None, None] => [0, 1],
        };
        let is_out = |at: usize| self.out.is_some_and(|out| out[numbers[at]]);
        let is_older =
            |at: usize| matches!(judged[at], Err(OpenError::Unpaired(Unpaired::Older { .. })));
        let may_be_own = |at: usize| match judged[at] {
            Ok(Meeting::Own) => !is_out(at) || is_planted(Bug::BelievedTwin),
            _ => is_older(at) && is_planted(Bug::BelievedTwin),
        };
        // A start on one alone that was cut off has judged what it holds, without the other one.
        let generation = |at: usize| found[at].as_ref().map_or(0, |label| label.generation);
        let is_behind = |at: usize| may_be_own(1 - at) && generation(at) < generation(1 - at);
        let is_own =
            |at: usize| may_be_own(at) && (!is_behind(at) || is_planted(Bug::BelievedTwin));
        let meeting = match [is_own(0), is_own(1)] {
            [false, false] if self.is_dirty => {
                let is_left = |at: usize| judged[at] == Ok(Meeting::Own) || is_older(at);
                let called_out = (0..2).any(|at| is_out(at) && is_left(at));
                return Err(if called_out { Unpaired::CalledOut.into() } else { worst(judged) });
            }
            [false, false] if judged.iter().all(Result::is_err) => return Err(worst(judged)),
            [false, false] => Meeting::Void,
            _ => Meeting::Own,
        };
        let role = |at: usize| match &judged[at] {
            _ if is_own(at) => Role::In,
            Ok(_) if meeting == Meeting::Void => Role::In,
            Ok(_) => Role::Behind,
            // It is this volume's, by its number or by its place.
            Err(_) if is_older(at) => Role::Behind,
            Err(OpenError::Label(BadLabel::Checksum)) if meeting == Meeting::Own => Role::Behind,
            Err(error) => Role::Absent(error.clone()),
        };
        Ok(Assembly { meeting, roles: [role(0), role(1)], numbers })
    }

    fn judge(&self, label: &Result<Label, OpenError>) -> Result<Meeting, OpenError> {
        let label = label.as_ref().map_err(Clone::clone)?;
        if label.twin == 0 || label.twin > 2 {
            return Err(Unpaired::Foreign.into());
        }
        Ok(self.meet(label)?)
    }

    fn number_of(&self, label: &Result<Label, OpenError>) -> Option<usize> {
        let label = label.as_ref().ok().filter(|label| label.id == self.id)?;
        [1, 2].iter().position(|twin| *twin == label.twin)
    }
}

/// Why neither of two can be used: what is wrong with one that is there says more than that the
/// other is missing.
fn worst(judged: [Result<Meeting, OpenError>; 2]) -> OpenError {
    let missing = OpenError::Unpaired(Unpaired::Missing);
    let [one, other] = judged.map(|it| it.err().unwrap_or_else(|| missing.clone()));
    if one == missing { other } else { one }
}
