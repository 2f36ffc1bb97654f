//! A cut as a line of text that `duramen-torture replay` reproduces.
//!
//! ```text
//! together: create bar guarded, remove foo; 12 0 1 [1100]; 3 1
//! ```
//!
//! The style, the operations, and then each cut: the number of events of the workload, or of the
//! recovery after it, before the power cut, and the fate of the pending writes (lost, whole, or
//! these sectors of it), with a stroke between disks. A case without a cut is about the answers.

use std::fmt;
use std::str::FromStr;

use super::design::Design;
use super::disks::{Images, Loss};
use super::judge::History;
use super::op::Op;
use super::recover::{record, recover};
use super::retry::retry;
use super::run::run;
use super::{Style, base, catching, moment};

/// A cut of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of events before the cut.
    pub position: usize,
    /// The fate of the pending writes.
    pub loss: Loss,
}

/// A workload, and its cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The design of the volume.
    pub design: Design,
    /// The style in which the operations are made.
    pub style: Style,
    /// The operations.
    pub ops: Vec<Op>,
    /// The cut of the workload, and those of the recoveries after it.
    pub steps: Vec<Step>,
}

/// A result that a cut must not leave.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The case that leads to it.
    pub case: Case,
    /// The reason.
    pub reason: String,
}

impl Case {
    /// Replays the case.
    ///
    /// # Errors
    /// The violation, or that there is no such case.
    pub fn replay(&self) -> Result<(), String> {
        let (images, before) = base(self.design);
        let start = (&images, &before);
        let run = catching(|| run(self.design, start, &self.ops, self.style))?;
        let Some((first, rest)) = self.steps.split_first() else { return Ok(()) };
        let run = run.ok_or("there is no such workload in this style")?;
        let mut images = cut(&run.recording, first)?;
        for step in rest {
            images = cut(&catching(|| record(self.design, &images))?, step)?;
        }
        let seen = catching(|| recover(self.design, &images, &before))?;
        let moment = moment(&run, first.position);
        History::allows(&run.history, &seen, moment)?;
        catching(|| retry(self.design, &images, &run.history, moment))
    }

    /// The line without its design.
    pub fn details(&self) -> String {
        let ops: Vec<String> = self.ops.iter().map(Op::to_string).collect();
        let steps: String = self.steps.iter().map(|step| format!("; {step}")).collect();
        format!("{}: {}{steps}", self.style.name(), ops.join(", "))
    }

    /// The case of a design and a line without it.
    ///
    /// # Errors
    /// The error in the line.
    pub fn of(design: Design, details: &str) -> Result<Self, NoCase> {
        let mut parts = details.split(';');
        let workload = parts.next().unwrap_or_default();
        let (style, ops) = workload.split_once(':').ok_or_else(|| no("workload", workload))?;
        let style = style.trim();
        let named = |one: &&Style| one.name() == style;
        let op = |op: &str| op.trim().parse().map_err(|()| no("operation", op.trim()));
        Ok(Self {
            design,
            style: *Style::ALL.iter().find(named).ok_or_else(|| no("style", style))?,
            ops: ops.split(',').map(op).collect::<Result<_, _>>()?,
            steps: parts.map(str::parse).collect::<Result<_, _>>()?,
        })
    }
}

fn cut(recording: &super::Recording, step: &Step) -> Result<Images, String> {
    let cut = recording.cuts().nth(step.position);
    let images = cut.and_then(|cut| cut.images(&step.loss));
    images.ok_or_else(|| format!("there is no such cut as {step}: is it the same engine?"))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.position, self.loss)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.design.case_name(), self.details())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.reason, self.case)
    }
}

impl Style {
    /// Its name in a line.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneByOne => "one by one",
            Self::Together => "together",
            Self::AtOnce => "at once",
            Self::Failing => "failing",
            Self::RolledBack => "rolled back",
        }
    }
}

/// An invalid line, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no case: {0}")]
pub struct NoCase(String);

fn no(what: &str, text: &str) -> NoCase {
    NoCase(format!("'{text}' is no {what}"))
}

impl FromStr for Case {
    type Err = NoCase;

    fn from_str(text: &str) -> Result<Self, NoCase> {
        let (design, details) = text.split_once(':').ok_or_else(|| no("workload", text))?;
        Self::of(Design::named(design).ok_or_else(|| no("design", design))?, details)
    }
}

impl FromStr for Step {
    type Err = NoCase;

    fn from_str(text: &str) -> Result<Self, NoCase> {
        let text = text.trim();
        let (position, loss) = text.split_once(' ').unwrap_or((text, ""));
        Ok(Self {
            position: position.parse().map_err(|_| no("position", position))?,
            loss: loss.parse().map_err(|error| NoCase(format!("{error}")))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::op::operations;
    use super::*;

    #[test]
    fn a_case_is_read_as_it_was_written() {
        let steps = ["12 0 1 [1100]", "3"].map(|step| step.parse().expect("a step")).to_vec();
        for style in Style::ALL {
            for design in [Design::SYNC, Design::LOG.delayed()] {
                let (style, steps) = (*style, steps.clone());
                let case = Case { design, style, ops: operations(Design::RAM), steps };
                assert_eq!(case.to_string().parse(), Ok(case));
            }
        }
    }

    #[test]
    fn what_is_no_case_is_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<Case>().expect_err(text).to_string();
        assert_eq!(refused("sync: together"), "this is no case: ' together' is no workload");
        assert!(refused("luck: together: remove foo").contains("'luck' is no design"));
        assert!(refused("sync: twice: remove foo").contains("'twice' is no style"));
        assert!(refused("sync: together: remove baz").contains("'remove baz' is no operation"));
        assert!(refused("sync: together: remove foo; x").contains("'x' is no position"));
        assert!(refused("sync: together: remove foo; 1 2").contains("not '2'"));
    }
}
