//! The next epoch of a volume that has its log alone.

use std::rc::Rc;

use block::BlockDevice;
use journal::Journal;
use journal::format::Slot;
use runtime::Runtime;
use ufs2::mark::PolicyKind;
use vfs::FsError;

use super::back::refuse_left;
use crate::open_error::OpenError;
use crate::planted::{Bug, is_planted};
use crate::policy::log::{RedoLog, SharedLog, Survived};
use crate::recovery::{OpenOptions, Opened, Recovered};
use crate::replay::ReplayError;

/// Opens a volume that has its log alone. Nothing of the old epoch may be overwritten before the
/// volume bears the number of the new one.
pub(crate) async fn open_alone(
    mut recovered: Recovered,
    log: Rc<dyn BlockDevice>,
    runtime: &Runtime,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let nonce = runtime.random.next_u64();
    let epochs = journal::epochs(&*log).await.map_err(ReplayError::from)?;
    if epochs.first().is_some_and(Slot::is_shared) {
        return Err(OpenError::LogShared);
    }
    if recovered.back.live.is_none() {
        refuse_left(&*log, recovered.id).await?;
    }
    let journal = Journal::begin(log, nonce, recovered.id, recovered.back.live.as_ref()).await;
    let shared = SharedLog::new(
        journal.map_err(ReplayError::from)?,
        vec![recovered.id],
        None,
        runtime.clone(),
        &options.log,
    );
    let log = RedoLog::new(recovered.home.clone(), shared, recovered.rows.clone(), options.log);
    let back = &recovered.back;
    let is_left = is_planted(Bug::LateInheritance) || is_planted(Bug::UninheritedAnswers);
    let nothing = Survived::default();
    let inherited = if is_left { &nothing } else { &back.survived };
    log.adopt(&back.chains, inherited).await.map_err(|_| FsError::Io)?;
    recovered.mark(PolicyKind::Log, nonce, runtime).await?;
    log.shared().bear();
    if is_planted(Bug::LateInheritance) {
        log.adopt(&[], &recovered.back.survived).await.map_err(|_| FsError::Io)?;
    }
    recovered.open(log, runtime, options, false).await
}
