//! A scene and its steps as a line of text that `duramen-torture replay` reproduces.
//!
//! ```text
//! used: stop cut 12 0 1 / 1; repair killed 7; serve
//! ```
//!
//! The scene, and then each way: to its end, or cut or killed after this many events; for a cut,
//! the fate of each pending write, with a stroke between disks.

use std::fmt;
use std::str::FromStr;

use super::super::catching;
use super::super::design::Design;
use super::look::look;
use super::scene::Scene;
use super::way::{Way, go};
use super::{End, Step};

/// A scene and its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The policy of the scene.
    pub design: Design,
    /// The name of the scene.
    pub scene: String,
    /// The steps after it.
    pub steps: Vec<Step>,
}

impl Case {
    /// Replays the case.
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

/// A line that is not such a case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no way: '{0}'")]
pub struct NoCase(String);

impl Case {
    /// The line without its design.
    pub fn details(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(Step::to_string).collect();
        format!("{}: {}", self.scene, steps.join("; "))
    }

    /// The case of a design and a line without it.
    ///
    /// # Errors
    /// The line is not a case.
    pub fn of(design: Design, details: &str) -> Result<Self, NoCase> {
        let no = || NoCase(details.to_owned());
        let (scene, steps) = details.split_once(':').ok_or_else(no)?;
        let steps = steps.split(';').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { design, scene: scene.trim().to_owned(), steps })
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
        let line = "used: stop cut 12 0 1 / [10]; repair killed 7; tune-sync; serve cut 3  / 1";
        let case = Case::of(Design::LOG, line).expect("a case");
        assert_eq!(case.details(), line);
        assert_eq!(case.steps.len(), 4);
    }

    #[test]
    fn what_is_no_case_is_refused() {
        for line in ["used stop", "used: stay", "used: stop cut", "used: stop killed"] {
            assert!(Case::of(Design::LOG, line).is_err(), "{line}");
        }
    }
}
