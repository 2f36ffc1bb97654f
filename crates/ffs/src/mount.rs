//! Opening a volume and stopping it cleanly.
//!
//! # The mark
//! A volume that we write bears our mark in the superblock's last-mount field:
//! `duramen:POLICY:NONCE`, with *clean* 0 and NEEDSFSCK set, all in one write that is flushed
//! before any other write. While the mark is there, no other system has written the disk: any other
//! system's mount overwrites the field. A clean stop undoes all of it, in this order: everything in
//! place, group summaries and totals, a flush; then, again in one write, *clean* 1, NEEDSFSCK off
//! and the old last-mount field.
//!
//! # What tears
//! Both writes change only bytes of the first and of the third sector of the superblock. If only
//! one of the sectors was written, the mark is still there, or *clean* is 1 while NEEDSFSCK is set,
//! which no other system leaves behind. Both mean that the volume is ours and needs recovery. The
//! totals in the second sector are written before, under the mark, and summed anew at every
//! opening.
//!
//! # What opens how
//! Clean disks open for writing unless they use a feature that we could not keep consistent. An
//! unclean disk with our mark is rebuilt first, or, under policy `log`, its log is replayed: the
//! log bears the number of the mark. Under policy `softdep` it is served at once, and leaks of the
//! crash are looked for meanwhile (`reclaim`); under another policy it gets the mark of `sync`
//! before it is checked, since an interrupted check leaves a state that only a check understands.
//! Afterwards a new epoch of the log begins, and only then the volume gets its number. Before any
//! of that, disk and log are flushed: a killed process may have left its writes in a cache, and the
//! following steps rest on them. Any other unclean disk is refused: its own system, or a checker,
//! has to look at it.

use std::rc::Rc;

use block::BlockDevice;
use runtime::Runtime;
use ufs2::mark::{Mark, PolicyKind};

use crate::intents::{self, Forgiving, Intents, Left};
use crate::logged;
use crate::open_error::OpenError;
use crate::planted::{Bug, is_planted};
use crate::policy::Policy;
use crate::policy::softdep::SoftUpdates;
use crate::policy::sync::OrderedWrites;
use crate::recovery::{OpenOptions, Opened, Recovered, Recovery, Unopened};

/// The disks of a volume.
#[derive(Clone)]
pub struct Disks {
    /// The file system's disk.
    pub volume: Rc<dyn BlockDevice>,
    /// The log's disk, if there is a log.
    pub log: Option<Rc<dyn BlockDevice>>,
    /// The disk of the ring of intents, if there is one: see [`crate::intents`].
    pub intents: Option<Rc<dyn BlockDevice>>,
}

impl Disks {
    /// A volume without a log.
    pub fn alone(volume: Rc<dyn BlockDevice>) -> Self {
        Self { volume, log: None, intents: None }
    }

    /// A volume with its log.
    pub fn with_log(volume: Rc<dyn BlockDevice>, log: Rc<dyn BlockDevice>) -> Self {
        Self { log: Some(log), ..Self::alone(volume) }
    }

    /// A volume with a ring of intents.
    pub fn with_intents(volume: Rc<dyn BlockDevice>, intents: Rc<dyn BlockDevice>) -> Self {
        Self { intents: Some(intents), ..Self::alone(volume) }
    }
}

/// Opens a volume under a policy, with the disks that this policy needs. Reports the progress of a
/// check after a crash to `progress`. A volume that is only looked at needs no log.
///
/// # Errors
/// [`OpenError`]; then nothing was written, unless the disk failed during repairs, which the next
/// opening repeats.
pub async fn open(
    policy: PolicyKind,
    disks: Disks,
    runtime: Runtime,
    options: &OpenOptions,
    progress: &mut dyn FnMut(fsck::Progress),
) -> Result<Opened, OpenError> {
    let Disks { volume: device, log, intents } = disks;
    let mut found = Unopened::read(&*device).await?;
    let reason = found.read_only_reason(&*device, options);
    let read_only = options.read_only || reason.is_some();
    let log = log.filter(|_| !read_only);
    let intents = intents.filter(|_| !read_only && !policy.has_log()).map(Forgiving::new);
    let left = match &intents {
        Some(ring) => look_at_intents(ring, &mut found).await?,
        None => Left::default(),
    };
    let back = if read_only {
        found.look()?
    } else {
        found.refuse_misfit(policy, log.is_some())?;
        let once = log.clone().map(journal::ReadOnce::new);
        let once = once.as_ref().map(|once| once as &dyn BlockDevice);
        let is_soft = policy == PolicyKind::SoftUpdates;
        if is_soft && found.may_reclaim() {
            logged::make_certain(&*device, None).await?;
            Recovery { reclaims: true, ..Recovery::default() }
        } else {
            found.bring_back(&*device, once, &runtime, progress).await?
        }
    };
    let mut recovered = Recovered::prepare(device, found, back, &runtime, options).await?;
    let opened = match policy {
        PolicyKind::Log if !read_only => {
            let log = log.expect("a volume that lacks its log was refused");
            logged::open_alone(recovered, log, &runtime, options).await?
        }
        // A reader writes nothing that needs an order.
        _ => {
            let nonce = runtime.random.next_u64();
            let ring = match intents {
                Some(ring) => {
                    let named = (nonce, recovered.id);
                    let begun =
                        Intents::begin(ring, named, left.live.as_ref(), &left.survivors).await;
                    Some(begun.map_err(OpenError::Intents)?)
                }
                None => None,
            };
            if !read_only {
                recovered.mark(policy, nonce, &runtime).await?;
            }
            if let Some(ring) = &ring {
                ring.bear(recovered.superblock_time());
                recovered.back.intents = Some((ring.clone(), left.survivors));
            }
            let (home, with) = (recovered.home.clone(), runtime.clone());
            let policy: Rc<dyn Policy> = match policy {
                PolicyKind::SoftUpdates => SoftUpdates::new(home, with, options.softdep, ring),
                PolicyKind::Sync | PolicyKind::Log => OrderedWrites::new(home, with, ring),
            };
            recovered.open(policy, &runtime, options, read_only).await?
        }
    };
    let lost: Vec<String> = left.damage.into_iter().chain(opened.lost_intents).collect();
    let lost_intents = (!lost.is_empty()).then(|| lost.join("; "));
    Ok(Opened { read_only: reason.filter(|_| !options.read_only), lost_intents, ..opened })
}

/// Reads the intents that an earlier boot has left in the ring, after making them durable.
async fn look_at_intents(ring: &Forgiving, found: &mut Unopened) -> Result<Left, OpenError> {
    ring.flush().await?;
    intents::look(ring, &mut found.superblock).await.map_err(OpenError::Intents)
}

impl Unopened {
    /// Refuses disks that do not match a policy. If the volume itself cannot be used, or needs the
    /// missing log, that error takes precedence: see [`Self::bring_back`].
    fn refuse_misfit(&mut self, policy: PolicyKind, has_log: bool) -> Result<(), OpenError> {
        let mark = Mark::of(self.superblock.superblock());
        match (policy, has_log, mark) {
            (policy, true, _) if !policy.has_log() => Err(OpenError::LogUnwanted),
            (PolicyKind::Log, false, Mark::Clean | Mark::Torn) => Err(OpenError::LogAbsent),
            (PolicyKind::Log, false, Mark::Policy(left)) if !left.has_log() => {
                Err(OpenError::LogAbsent)
            }
            _ => Ok(()),
        }
    }

    /// Whether all possible leaks of a crash may be looked for while the volume is served.
    fn may_reclaim(&mut self) -> bool {
        matches!(
            Mark::of(self.superblock.superblock()),
            Mark::Policy(PolicyKind::SoftUpdates) | Mark::Torn
        )
    }

    /// Recovers a volume, in whatever state it was left; or refuses it.
    pub(crate) async fn bring_back(
        &mut self,
        device: &dyn BlockDevice,
        log: Option<&dyn BlockDevice>,
        runtime: &Runtime,
        progress: &mut dyn FnMut(fsck::Progress),
    ) -> Result<Recovery, OpenError> {
        logged::make_certain(device, log).await?;
        match Mark::of(self.superblock.superblock()) {
            Mark::Clean => {
                self.check_clean()?;
                match log {
                    Some(log) => logged::look_at_rest(log, self.id()).await,
                    None => Ok(Recovery::default()),
                }
            }
            Mark::Foreign => Err(OpenError::UncleanForeign),
            Mark::Check => Err(OpenError::UnfinishedCheck),
            Mark::Policy(PolicyKind::Log) => {
                let log = log.ok_or(OpenError::LogMissing)?;
                let back = logged::replay_back(self, device, log, runtime.clock.wall()).await?;
                back.ok_or(OpenError::LogForeign)
            }
            Mark::UnknownPolicy(policy) => Err(OpenError::UncleanPolicy(policy)),
            mark @ (Mark::Policy(PolicyKind::Sync | PolicyKind::SoftUpdates) | Mark::Torn) => {
                if mark == Mark::Policy(PolicyKind::SoftUpdates) {
                    let nonce = self.nonce(); // its intents stay valid
                    self.superblock.mark(PolicyKind::Sync, nonce, runtime.clock.wall());
                    self.superblock.write(device, &self.geometry).await?;
                }
                let (geometry, block) = (&self.geometry, &self.superblock.block);
                let report = fsck::recover(device, geometry, runtime, block, progress).await?;
                // Under policy `log` the mark is set and cleared while the log is at rest.
                let log = log.filter(|_| mark == Mark::Torn && !is_planted(Bug::TornMemory));
                let rest = match log {
                    Some(log) => logged::look_at_rest(log, self.id()).await?,
                    None => Recovery::default(),
                };
                Ok(Recovery { rebuilt: Some(report), ..rest })
            }
        }
    }
}
