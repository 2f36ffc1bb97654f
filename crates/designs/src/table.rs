//! Entries, and how one is found by the words of a command line or a settings file.

use std::fmt;

use block::{BlockDevice, IoError};
use ufs2::mark::PolicyKind;

use crate::design::{Design, DiskRole, Work};
use crate::found::Found;

/// Designs in their order. The first is the default of a command line that names none; the first of
/// an engine is the default of one that names only the engine.
#[derive(Clone, Copy, Debug)]
pub struct Table(&'static [&'static Design]);

/// A name that no design has. Each message lists the known names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// No engine has the name.
    Engine {
        /// The name.
        name: String,
        /// Names of the engines.
        engines: Vec<&'static str>,
    },
    /// No policy of the engine has the name.
    Policy {
        /// The name.
        name: String,
        /// Name of the engine.
        engine: &'static str,
        /// Names of its policies.
        policies: Vec<&'static str>,
    },
}

impl Table {
    /// A table of these designs, at least one.
    pub const fn new(designs: &'static [&'static Design]) -> Self {
        assert!(!designs.is_empty(), "a command line that names no design means one");
        Self(designs)
    }

    /// All designs.
    pub fn all(self) -> &'static [&'static Design] {
        self.0
    }

    /// Names of the engines, each once.
    pub fn engines(self) -> Vec<&'static str> {
        let mut engines = Vec::new();
        for design in self.0 {
            if !engines.contains(&design.engine) {
                engines.push(design.engine);
            }
        }
        engines
    }

    /// All designs of an engine.
    pub fn of_engine(self, engine: &str) -> impl Iterator<Item = &'static Design> {
        self.0.iter().copied().filter(move |design| design.engine == engine)
    }

    /// Finds a design by its names. The table's order decides for a missing one.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn find(
        self,
        engine: Option<&str>,
        policy: Option<&str>,
    ) -> Result<&'static Design, Unknown> {
        let engine = engine.unwrap_or(self.0[0].engine);
        let Some(first) = self.of_engine(engine).next() else {
            return Err(Unknown::Engine { name: engine.to_owned(), engines: self.engines() });
        };
        let Some(policy) = policy else { return Ok(first) };
        let named = self.of_engine(engine).find(|design| design.policy == Some(policy));
        named.ok_or_else(|| {
            let policies = self.of_engine(engine).filter_map(|design| design.policy).collect();
            Unknown::Policy { name: policy.to_owned(), engine: first.engine, policies }
        })
    }

    /// Finds the design whose volumes bear this mark while they are in use.
    pub fn marked(self, mark: PolicyKind) -> Option<&'static Design> {
        self.0.iter().copied().find(|design| design.mark == Some(mark))
    }

    /// Operations on disks, once for each engine that has any.
    fn works(self) -> impl Iterator<Item = (&'static Design, &'static Work)> {
        let engines = self.engines().into_iter();
        engines.filter_map(move |engine| {
            let mut designs = self.of_engine(engine);
            designs.find_map(|design| Some((design, design.work.as_ref()?)))
        })
    }

    /// Identifies a disk by its first bytes, if an engine recognises a volume.
    pub fn recognise(self, head: &[u8]) -> Option<&'static str> {
        self.works().find_map(|(_, work)| (work.recognise)(head))
    }

    /// Whether a disk with these first bytes has a volume whose creation was interrupted.
    pub fn is_begun(self, head: &[u8]) -> bool {
        self.works().any(|(_, work)| (work.is_begun)(head))
    }

    /// Inspects an unknown disk, and finds its design: the one of its engine that it names, or else
    /// one that needs no other disk.
    pub async fn look(self, device: &dyn BlockDevice) -> Option<(&'static Design, Found)> {
        for (first, work) in self.works() {
            let Ok(found) = (work.look)(device).await else { continue };
            let named = self.of_engine(first.engine).find(|one| one.policy == found.policy);
            let named = named.filter(|_| found.policy.is_some());
            let alone = || self.with_disks(first.engine, &[DiskRole::Volume]);
            return Some((named.or_else(alone).unwrap_or(first), found));
        }
        None
    }

    /// Identifies a disk whose first bytes are lost, if an engine recognises other bytes. It may
    /// read much: some hundred MiB.
    ///
    /// # Errors
    /// Errors of the disk: an unreadable part may be the one that identifies it.
    pub async fn find_lost(
        self,
        device: &dyn BlockDevice,
    ) -> Result<Option<&'static str>, IoError> {
        for (_, work) in self.works() {
            if let Some(what) = (work.find_lost)(device).await? {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }

    /// Finds the design of an engine that needs exactly these disks.
    pub fn with_disks(self, engine: &str, disks: &[DiskRole]) -> Option<&'static Design> {
        self.of_engine(engine).find(|design| design.disks == disks)
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine { name, engines } => {
                write!(f, "there is no engine '{name}'; there are these: {}", engines.join(", "))
            }
            Self::Policy { name, engine, policies } if policies.is_empty() => {
                write!(f, "engine {engine} has no policies, so it has no policy '{name}' either")
            }
            Self::Policy { name, engine, policies } => write!(
                f,
                "engine {engine} has no policy '{name}'; it has these: {}",
                policies.join(", ")
            ),
        }
    }
}

impl std::error::Error for Unknown {}
