//! What is done with the snapshots of a volume that is open, and what is told of them. The command
//! uses it on a volume that it has opened itself, the server on one that it serves: so both have
//! the same words.
//!
//! Each verb waits until what it has done is durable.

use serde::{Deserialize, Serialize};
use vfs::{
    FileSystem, FsError, MAX_NAME, Name, Sealed, Snapshot, SnapshotNumber, SnapshotState,
    SnapshotUsage, Snapshots,
};

use crate::shown::show_name;

/// So many snapshots are named in a sentence.
const MOST_NAMED: usize = 10;

/// What is told of a snapshot. The names are those of the JSON object.
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

/// The words for how a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ready,
    Deleting,
}

/// Why something is not done, as a sentence without its stop.
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

/// Names, and of many how many there are and the last of them.
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
    /// Whether it goes.
    pub(super) fn is_deleting(&self) -> bool {
        self.state == State::Deleting
    }

    /// Bytes that are free again, and all that will be, as far as is known.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.freed_bytes, self.freed_bytes.saturating_add(self.unique_bytes))
    }
}

/// Why a volume does not do something. `later` says what comes of it if its disk only waits for
/// room.
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

/// A name that a snapshot may have.
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

/// All snapshots, in the order in which they were made.
///
/// # Errors
/// [`Wrong`].
pub(super) async fn list(files: &dyn FileSystem) -> Result<Vec<Told>, Wrong> {
    const LATER: &str = "which snapshots there are is told when there is some";
    let of = of(files)?;
    let all = of.list().open().await.map_err(|lost| because(lost.into(), of, LATER))?;
    Ok(all.into_inner().into_iter().map(Told::from).collect())
}

/// Makes a snapshot.
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
    Ok(told.unwrap_or_else(|| (made, SnapshotUsage::default()).into())) // it may be deleted again
}

/// Has a snapshot found no more, and says what is known of it. One that is on its way out already
/// is told again.
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

/// Takes one step of a deletion; says whether it was the last.
///
/// # Errors
/// [`Wrong`].
pub(super) async fn delete_step(files: &dyn FileSystem, number: u64) -> Result<bool, Wrong> {
    const LATER: &str = "its deletion goes on when there is some";
    let of = of(files)?;
    let step = opened(of.delete_step(SnapshotNumber(number)).await).await;
    step.map_err(|error| because(error, of, LATER))
}

/// The snapshots that are newer than one, which is found.
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

/// Makes the volume what a snapshot holds, once it is opened anew.
///
/// # Errors
/// [`Wrong`].
pub(super) async fn roll_back(files: &dyn FileSystem, name: &str) -> Result<(), Wrong> {
    let (of, name) = (of(files)?, parse(name)?);
    Ok(opened(of.roll_back(&name).await).await?)
}
