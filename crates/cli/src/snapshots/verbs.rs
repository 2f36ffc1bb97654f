//! Operations on the snapshots of an open volume, and their descriptions. The command uses them on
//! a volume that it has opened itself, the server on a volume that it serves: so both give the same
//! messages.
//!
//! Each operation waits until its changes are durable.

use serde::{Deserialize, Serialize};
use vfs::{
    FileSystem, FsError, MAX_NAME, Name, Sealed, Snapshot, SnapshotNumber, SnapshotState,
    SnapshotUsage, Snapshots,
};

use crate::shown::show_name;

/// Maximum number of snapshots named in a sentence.
const MOST_NAMED: usize = 10;

/// Description of a snapshot. The names are those of the JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) name: String,
    pub(super) number: u64,
    /// Seconds since 1970.
    pub(super) created: i64,
    pub(super) referenced_bytes: u64,
    pub(super) unique_bytes: u64,
    pub(super) state: State,
    pub(super) freed_bytes: u64,
}

/// State of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ready,
    Deleting,
}

/// Reason for a failed operation, as a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Wrong {
    #[error("its engine has no snapshots")]
    HasNone,
    #[error("'{}' cannot be the name of a snapshot: {why}", show_name(name.as_bytes()))]
    Name { name: String, why: &'static str },
    #[error("there is a snapshot '{}' already", show_name(.0.as_bytes()))]
    Taken(String),
    #[error("there is no snapshot '{}'; {}", show_name(name.as_bytes()), those(known))]
    Absent { name: String, known: Vec<String> },
    #[error(
        "{} newer than '{}' and would be lost: {}; if that is meant, say --delete-newer",
        if newer.len() == 1 { "a snapshot is" } else { "snapshots are" },
        show_name(name.as_bytes()),
        listed(newer)
    )]
    Newer { name: String, newer: Vec<String> },
    #[error("it can only be read")]
    ReadOnly,
    #[error("there is no room for what that needs")]
    NoRoom,
    #[error("no space is left where its disk lies; {0}")]
    NoRoomBelow(&'static str),
    #[error("its disk has failed, or it is being stopped")]
    Failed,
    #[error("{0}")]
    Other(FsError),
}

/// Lists names; of many, only their number and the last ones.
fn listed(names: &[String]) -> String {
    let last = &names[names.len().saturating_sub(MOST_NAMED)..];
    let shown = last.iter().map(|name| show_name(name.as_bytes())).collect::<Vec<_>>().join(", ");
    if last.len() == names.len() {
        return shown;
    }
    format!("{}, the last of which are {shown}", names.len())
}

fn those(known: &[String]) -> String {
    match known {
        [] => "there is none".to_owned(),
        known if known.len() > MOST_NAMED => format!("there are {}", listed(known)),
        known => format!("there are these: {}", listed(known)),
    }
}

impl From<FsError> for Wrong {
    fn from(error: FsError) -> Self {
        match error {
            FsError::ReadOnly => Self::ReadOnly,
            FsError::NoSpace => Self::NoRoom,
            FsError::Io => Self::Failed,
            other => Self::Other(other),
        }
    }
}

impl From<(Snapshot, SnapshotUsage)> for Told {
    fn from((snapshot, usage): (Snapshot, SnapshotUsage)) -> Self {
        let Snapshot { number, name, created, state } = snapshot;
        let SnapshotUsage { referenced_bytes, unique_bytes, freed_bytes } = usage;
        Self {
            name: String::from_utf8_lossy(name.as_bytes()).into_owned(),
            number: number.0,
            created: created.seconds,
            referenced_bytes,
            unique_bytes,
            state: match state {
                SnapshotState::Ready => State::Ready,
                SnapshotState::Deleting => State::Deleting,
            },
            freed_bytes,
        }
    }
}

impl Told {
    /// Whether the snapshot is being deleted.
    pub(super) fn is_deleting(&self) -> bool {
        self.state == State::Deleting
    }

    /// Bytes freed so far, and bytes that will be freed in all, as far as is known.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.freed_bytes, self.freed_bytes.saturating_add(self.unique_bytes))
    }
}

/// Explains an error of a volume. `later` says what may still happen if the volume only waits for
/// room on its host.
fn because(error: FsError, of: &dyn Snapshots, later: &'static str) -> Wrong {
    match error {
        FsError::Io if of.has_no_room_below() => Wrong::NoRoomBelow(later),
        FsError::NoSpace if of.has_no_room_below() => {
            Wrong::NoRoomBelow("nothing is changed before there is some")
        }
        error => error.into(),
    }
}

fn of(files: &dyn FileSystem) -> Result<&dyn Snapshots, Wrong> {
    files.snapshots().ok_or(Wrong::HasNone)
}

/// Parses the name of a snapshot.
pub(super) fn parse(text: &str) -> Result<Name, Wrong> {
    let why = match text.as_bytes() {
        [] => "it is empty",
        b"." | b".." => "that is a directory in each directory",
        namespace::SNAPSHOTS_NAME => "that is where snapshots are found",
        bytes if bytes.contains(&b'/') => "it has a '/'",
        bytes if bytes.contains(&0) => "it has a byte 0",
        bytes if bytes.len() > MAX_NAME => "it has more than 255 bytes",
        bytes => return Name::parse(bytes).map_err(Wrong::from),
    };
    Err(Wrong::Name { name: text.to_owned(), why })
}

async fn opened<T>(sealed: Sealed<Result<T, FsError>>) -> Result<T, FsError> {
    sealed.open().await.map_err(FsError::from)?.into_inner()
}

/// Lists all snapshots in the order of their creation.
///
/// # Errors
/// [`Wrong`].
pub(super) async fn list(files: &dyn FileSystem) -> Result<Vec<Told>, Wrong> {
    const LATER: &str = "which snapshots there are is told when there is some";
    let of = of(files)?;
    let all = of.list().open().await.map_err(|lost| because(lost.into(), of, LATER))?;
    Ok(all.into_inner().into_iter().map(Told::from).collect())
}

/// Creates a snapshot.
///
/// # Errors
/// [`Wrong`].
pub(super) async fn create(files: &dyn FileSystem, name: &str) -> Result<Told, Wrong> {
    const LATER: &str = "the snapshot may come to be when there is some";
    let (of, parsed) = (of(files)?, parse(name)?);
    let made = opened(of.pin(&parsed).await).await.map_err(|error| match error {
        FsError::Exists => Wrong::Taken(name.to_owned()),
        error => because(error, of, LATER),
    })?;
    let told = list(files).await?.into_iter().find(|told| told.number == made.number.0);
    Ok(told.unwrap_or_else(|| (made, SnapshotUsage::default()).into())) // it may be deleted already
}

/// Hides a snapshot, starts its deletion, and describes it. A snapshot that is already being
/// deleted is described again.
///
/// # Errors
/// [`Wrong`].
pub(super) async fn delete(files: &dyn FileSystem, name: &str) -> Result<Told, Wrong> {
    const LATER: &str = "the snapshot may be deleted when there is some";
    let (of, parsed) = (of(files)?, parse(name)?);
    let gone = opened(of.delete(&parsed).await).await;
    if let Err(error @ (FsError::Io | FsError::NoSpace)) = gone {
        return Err(because(error, of, LATER));
    }
    let all = list(files).await?;
    match gone {
        Ok(gone) => {
            let told = all.into_iter().find(|told| told.number == gone.number.0);
            Ok(told.unwrap_or_else(|| (gone, SnapshotUsage::default()).into()))
        }
        Err(FsError::NoEntry) => {
            let is_it = |told: &&Told| told.is_deleting() && told.name == name;
            all.iter().find(is_it).cloned().ok_or_else(|| absent(name, &all))
        }
        Err(error) => Err(error.into()),
    }
}

fn absent(name: &str, all: &[Told]) -> Wrong {
    let known = all.iter().filter(|told| !told.is_deleting()).map(|told| told.name.clone());
    Wrong::Absent { name: name.to_owned(), known: known.collect() }
}

/// Takes one step of a deletion; returns whether it was the last.
///
/// # Errors
/// [`Wrong`].
pub(super) async fn delete_step(files: &dyn FileSystem, number: u64) -> Result<bool, Wrong> {
    const LATER: &str = "its deletion goes on when there is some";
    let of = of(files)?;
    let step = opened(of.delete_step(SnapshotNumber(number)).await).await;
    step.map_err(|error| because(error, of, LATER))
}

/// Lists the snapshots that are newer than the named one, which must exist and not be in deletion.
///
/// # Errors
/// [`Wrong`].
pub(super) async fn newer(files: &dyn FileSystem, name: &str) -> Result<Vec<Told>, Wrong> {
    parse(name)?;
    let mut all = list(files).await?;
    let is_it = |told: &&Told| !told.is_deleting() && told.name == name;
    let number = all.iter().find(is_it).ok_or_else(|| absent(name, &all))?.number;
    all.retain(|told| told.number > number);
    Ok(all)
}

/// Rolls the volume back to a snapshot; it takes effect when the volume is opened again.
///
/// # Errors
/// [`Wrong`].
pub(super) async fn roll_back(files: &dyn FileSystem, name: &str) -> Result<(), Wrong> {
    let (of, name) = (of(files)?, parse(name)?);
    Ok(opened(of.roll_back(&name).await).await?)
}
