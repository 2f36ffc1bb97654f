//! A scene and its steps as a line of text: what `duramen-torture replay` shows again.
//!
//! ```text
//! ways log used: stop cut 12 0 1 / 1; repair killed 7; serve
//! ```
//!
//! The policy, the scene, and then each way: to its end, or cut or killed after so many events; of
//! a cut, the fate of each pending write, with a stroke between disks.

use std::fmt;
use std::str::FromStr;

use super::super::catching;
use super::super::design::Design;
use super::look::look;
use super::scene::Scene;
use super::way::{Way, go};
use super::{End, Step, Violation};

/// The word with which a line begins.
const WORD: &str = "ways ";

/// A scene and its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The policy of the scene.
    pub design: Design,
    /// Its name.
    pub scene: String,
    /// What follows.
    pub steps: Vec<Step>,
}

impl Case {
    /// Shows it again.
    ///
    /// # Errors
    /// The violation, or that there is no such case.
    pub fn replay(&self) -> Result<(), String> {
        let Scene { mut place, mut known, .. } = Scene::new(self.design, &self.scene)?;
        for (boot, step) in self.steps.iter().enumerate() {
            let went = catching(|| go(step.way, &place, &known, boot))?;
            let went = went.ok_or_else(|| format!("no '{}' leads from there", step.way.name()))?;
            (place, known) = went.end(&step.end, &place, &known)?;
        }
        catching(|| look(&place, &known))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            End::Done => write!(f, "{}", self.way.name()),
            End::Cut(position, loss) => write!(f, "{} cut {position} {loss}", self.way.name()),
            End::Killed(position) => write!(f, "{} killed {position}", self.way.name()),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<String> = self.steps.iter().map(Step::to_string).collect();
        write!(f, "{WORD}{} {}: {}", self.design.name(), self.scene, steps.join("; "))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  cargo xtask torture replay '{}'", self.reason, self.case)
    }
}

/// A line that is no such case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no way: '{0}'")]
pub struct NoCase(String);

impl FromStr for Case {
    type Err = NoCase;

    fn from_str(text: &str) -> Result<Self, NoCase> {
        let no = || NoCase(text.to_owned());
        let (scene, steps) =
            text.strip_prefix(WORD).and_then(|text| text.split_once(':')).ok_or_else(no)?;
        let (design, scene) = scene.split_once(' ').ok_or_else(no)?;
        Ok(Self {
            design: Design::named(design).ok_or_else(no)?,
            scene: scene.to_owned(),
            steps: steps.split(';').map(str::parse).collect::<Result<_, _>>()?,
        })
    }
}

impl FromStr for Step {
    type Err = NoCase;

    fn from_str(text: &str) -> Result<Self, NoCase> {
        let no = || NoCase(text.to_owned());
        let mut words = text.trim().splitn(4, ' ');
        let name = words.next().unwrap_or_default();
        let way = Way::ALL.iter().copied().find(|way| way.name() == name).ok_or_else(no)?;
        let position = |word: Option<&str>| word.and_then(|text| text.parse().ok()).ok_or_else(no);
        let end = match words.next() {
            None => End::Done,
            Some("killed") => End::Killed(position(words.next())?),
            Some("cut") => {
                let position = position(words.next())?;
                End::Cut(position, words.next().unwrap_or_default().parse().map_err(|_| no())?)
            }
            Some(_) => return Err(no()),
        };
        Ok(Self { way, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_it_was_written() {
        let line =
            "ways log used: stop cut 12 0 1 / [10]; repair killed 7; tune-sync; serve cut 3  / 1";
        let case: Case = line.parse().expect("a case");
        assert_eq!(case.to_string(), line);
        assert_eq!(case.steps.len(), 4);
    }

    #[test]
    fn what_is_no_case_is_refused() {
        for line in
            ["log used: stop", "ways lag used: stop", "ways log used: stay", "ways log x: stop cut"]
        {
            assert!(line.parse::<Case>().is_err(), "{line}");
        }
    }
}
