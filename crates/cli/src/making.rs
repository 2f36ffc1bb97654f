//! A run that makes a set of disks, and may be interrupted.
//!
//! What it creates is noted in the same step, so that whoever interrupts it can take all of that
//! away again. What stood on disks that were there before stays until the run begins to write.
//!
//! Invariants:
//! 1. A run that was interrupted creates nothing more, and does not begin to write.
//! 2. One that is about to end is not interrupted any more.
//!
//! Not asserted: 1 and 2, which are what [`Making::create`] and [`Making::go_on`] compute.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::failure::Failure;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// What stood on the disks stands there.
    #[default]
    Looking,
    /// The disks are written.
    Writing,
    /// What has the volume is named next.
    Ending,
    /// It goes no further.
    Interrupted,
}

impl Stage {
    /// A run has come so far, and no further.
    pub(crate) fn interrupted(self) -> Failure {
        Failure::Interrupted(match self {
            Self::Looking | Self::Interrupted => "nothing on the disks has changed",
            Self::Writing | Self::Ending => {
                "what stood on the disks is lost; to make one of them after all, say --force"
            }
        })
    }
}

/// See the module's prose.
#[derive(Default)]
pub(crate) struct Making(Mutex<State>);

#[derive(Default)]
struct State {
    stage: Stage,
    /// In the order in which that was.
    created: Vec<PathBuf>,
}

impl Making {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    /// Creates a file or a folder.
    ///
    /// # Errors
    /// That of `create`; [`Failure::Interrupted`].
    pub(crate) fn create<T>(
        &self,
        path: &Path,
        create: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut state = self.state();
        if state.stage == Stage::Interrupted {
            return Err(state.stage.interrupted());
        }
        let created = create()?;
        state.created.push(path.to_owned());
        Ok(created)
    }

    /// Comes to the next stage.
    ///
    /// # Errors
    /// [`Failure::Interrupted`].
    pub(crate) fn go_on(&self, next: Stage) -> Result<(), Failure> {
        let mut state = self.state();
        if state.stage == Stage::Interrupted {
            return Err(state.stage.interrupted());
        }
        state.stage = next;
        Ok(())
    }

    /// Interrupts the run, and takes away what it has created. How far it was; nothing if it is
    /// about to end.
    pub(crate) fn interrupt(&self, inside: &[PathBuf]) -> Option<Stage> {
        let stage = {
            let mut state = self.state();
            if state.stage == Stage::Ending {
                return None;
            }
            std::mem::replace(&mut state.stage, Stage::Interrupted)
        };
        self.take_away(inside);
        Some(stage)
    }

    /// Takes away what was created, and what may be `inside` of a folder that was.
    pub(crate) fn take_away(&self, inside: &[PathBuf]) {
        for path in self.state().created.drain(..).rev() {
            if path.is_dir() {
                let its = inside.iter().filter(|file| file.starts_with(&path));
                its.for_each(|file| drop(fs::remove_file(file))); // it may not be there
                let _ = fs::remove_dir(&path);
            } else {
                let _ = fs::remove_file(&path); // it holds nothing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_interrupted_leaves_nothing_and_goes_no_further() {
        let folder = std::env::temp_dir().join(format!("duramen-making-{}", std::process::id()));
        for stage in [Stage::Looking, Stage::Writing] {
            let making = Making::default();
            let file = folder.join("settings");
            let create = || fs::create_dir(&folder).map_err(|error| Failure::look(&folder, error));
            making.create(&folder, create).expect("it is new");
            fs::write(&file, "x").expect("there is room");
            making.go_on(stage).expect("nobody interrupts");
            assert_eq!(making.interrupt(std::slice::from_ref(&file)), Some(stage));
            assert!(!folder.exists());
            assert!(making.create(&folder, create).is_err() && making.go_on(stage).is_err());
            assert!(!folder.exists());
        }
        let making = Making::default();
        making.go_on(Stage::Ending).expect("nobody interrupts");
        assert_eq!(making.interrupt(&[]), None);
    }
}
