//! The 6 procedures and their numbers.

/// A procedure of MOUNT version 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Procedure {
    /// Does nothing.
    Null = 0,
    /// Returns the handle of an export, and remembers the client.
    Mnt = 1,
    /// Lists the clients that are remembered.
    Dump = 2,
    /// Forgets one mount of the client.
    Umnt = 3,
    /// Forgets all mounts of the client.
    Umntall = 4,
    /// Lists the exports.
    Export = 5,
}

impl Procedure {
    /// All procedures, by number.
    pub const ALL: [Self; 6] =
        [Self::Null, Self::Mnt, Self::Dump, Self::Umnt, Self::Umntall, Self::Export];

    /// The procedure of this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Its name, as the RFC writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Mnt => "MNT",
            Self::Dump => "DUMP",
            Self::Umnt => "UMNT",
            Self::Umntall => "UMNTALL",
            Self::Export => "EXPORT",
        }
    }
}
