//! Snapshot operations, which an administrator makes without a client's call.

use vfs::{FileSystem, FsError, Name, SnapshotNumber, SnapshotState, Snapshots};

use super::op::Op;

fn of(files: &dyn FileSystem) -> Result<&dyn Snapshots, String> {
    files.snapshots().ok_or_else(|| "the engine has no snapshots".to_owned())
}

/// Carries out an operation on snapshots. Calls `done` when it is done, and returns the answer when
/// that is durable.
///
/// # Errors
/// When the change will never be durable.
pub async fn carry_out(
    files: &dyn FileSystem,
    op: &Op,
    done: impl FnOnce(),
) -> Result<Result<(), FsError>, String> {
    let (of, name) = (of(files)?, Name::parse(op.last_name().as_bytes()).expect("a legal name"));
    let sealed = match op {
        Op::Pin(_) => of.pin(&name).await.map(|made| made.map(drop)),
        Op::Unpin(_) => of.delete(&name).await.map(|gone| gone.map(drop)),
        Op::RollBack(_) => of.roll_back(&name).await,
        _ => unreachable!("{op} is a client's"),
    };
    done();
    Ok(sealed.open().await.map_err(|lost| lost.to_string())?.into_inner())
}

/// Completes all pending deletions of snapshots.
///
/// # Errors
/// Why they do not complete.
pub async fn end_deletions(files: &dyn FileSystem) -> Result<(), String> {
    if files.snapshots().is_none() {
        return Ok(());
    }
    for number in deleting(files).await? {
        while !step(files, number).await? {}
    }
    Ok(())
}

/// The numbers of snapshots that are being deleted.
///
/// # Errors
/// When they cannot be listed.
pub async fn deleting(files: &dyn FileSystem) -> Result<Vec<SnapshotNumber>, String> {
    let all = of(files)?.list().open().await.map_err(|lost| lost.to_string())?.into_inner();
    let deleting = all.iter().filter(|(one, _)| one.state == SnapshotState::Deleting);
    Ok(deleting.map(|(one, _)| one.number).collect())
}

/// Takes a step of a deletion; returns whether it was the last.
///
/// # Errors
/// Why the step fails.
pub async fn step(files: &dyn FileSystem, number: SnapshotNumber) -> Result<bool, String> {
    let step = of(files)?.delete_step(number).await.open().await;
    let step = step.map_err(|lost| lost.to_string())?.into_inner();
    step.map_err(|error| format!("a deletion does not go on: {error}"))
}

/// Deletes all snapshots completely.
///
/// # Errors
/// Why one remains.
pub async fn delete_all(files: &dyn FileSystem) -> Result<(), String> {
    let Some(snapshots) = files.snapshots() else { return Ok(()) };
    let all = snapshots.list().open().await.map_err(|lost| lost.to_string())?.into_inner();
    for (snapshot, _) in all.iter().filter(|(one, _)| one.state == SnapshotState::Ready) {
        let gone = snapshots.delete(&snapshot.name).await.open().await;
        let gone = gone.map_err(|lost| lost.to_string())?.into_inner();
        gone.map_err(|error| format!("a snapshot stays: {error}"))?;
    }
    end_deletions(files).await?;
    let left = snapshots.list().open().await.map_err(|lost| lost.to_string())?.into_inner();
    if left.is_empty() { Ok(()) } else { Err(format!("all were deleted, and there is {left:?}")) }
}

/// The name of the newest snapshot, if there is one.
///
/// # Errors
/// When they cannot be listed.
pub async fn newest(files: &dyn FileSystem) -> Result<Option<Name>, String> {
    let all = of(files)?.list().open().await.map_err(|lost| lost.to_string())?.into_inner();
    let ready = all.into_iter().filter(|(one, _)| one.state == SnapshotState::Ready);
    Ok(ready.map(|(one, _)| one.name).next_back())
}
