//! A run that creates a set of disks, and may be interrupted.
//!
//! Each creation is recorded in the same step, so that an interruption can remove all created
//! files. Data on existing disks stays until the run begins to write.
//!
//! Invariants:
//! 1. An interrupted run creates nothing more, and does not begin to write.
//! 2. A run that is about to end is no longer interrupted.
//!
//! Not asserted: 1 and 2, which [`Making::create`] and [`Making::go_on`] compute.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::failure::Failure;

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Existing data on the disks is unchanged.
    #[default]
    Looking,
    /// The disks are being written.
    Writing,
    /// The settings of the volume are written next.
    Ending,
    /// The run was interrupted and ends.
    Interrupted,
}

impl Stage {
    /// The failure of a run that was interrupted at this stage.
    pub(crate) fn interrupted(self) -> Failure {
        Failure::Interrupted(match self {
            Self::Looking | Self::Interrupted => "nothing on the disks has changed",
            Self::Writing | Self::Ending => {
                "what stood on the disks is lost; to make one of them after all, say --force"
            }
        })
    }
}

/// A run that may be interrupted. See the module's documentation.
#[derive(Default)]
pub(crate) struct Making(Mutex<State>);

#[derive(Default)]
struct State {
    stage: Stage,
    /// Created files and folders, in the order of their creation.
    created: Vec<PathBuf>,
}

impl Making {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    /// Creates a file or a folder.
    ///
    /// # Errors
    /// The failure of `create`; [`Failure::Interrupted`].
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

    /// Proceeds to the next stage.
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

    /// Interrupts the run, removes the files it has created, and returns the stage it had reached;
    /// returns nothing and leaves the run alone if it is about to end.
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

    /// Removes the created files and folders, and the files `inside` such a folder.
    pub(crate) fn take_away(&self, inside: &[PathBuf]) {
        for path in self.state().created.drain(..).rev() {
            if path.is_dir() {
                let its = inside.iter().filter(|file| file.starts_with(&path));
                its.for_each(|file| drop(fs::remove_file(file))); // the file may not exist
                let _ = fs::remove_dir(&path);
            } else {
                let _ = fs::remove_file(&path); // the file is empty
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
