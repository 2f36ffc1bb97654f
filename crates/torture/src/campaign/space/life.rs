//! The life of a full volume: how the server ends each time, and the checks after it.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use block::BlockDevice;
use designs::{CheckOptions, MkfsOptions, OpenOptions};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all, poll_fn};
use nfs3_types::nfs3::{Nfs3Result, nfs_fh3};
use sim::{Disk, Executor, Prng};

use super::hand::{Hand, Places, Shared, Verdict};
use super::keeper::Keeper;
use super::shown::{Shown, Tree};
use crate::calls;
use crate::client::{Client, ClientOptions};
use crate::explore::Counts;
use crate::explore::design::Design;
use crate::world::{Status, VOLUME, World, WorldOptions};

/// Clients at work.
const CLIENTS: usize = 4;
/// Longest virtual time of any step.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Most operations of a client between two ends of the server.
const STRETCH: u64 = 60;
/// Most stretches: a volume that does not become full tests nothing.
const STRETCHES: u64 = 1000;

/// A world and its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub design: Design,
    pub seed: u64,
    /// Operations above 95 % full.
    pub operations: u64,
}

/// How a server ends.
enum End {
    Stop,
    Cut,
    /// Only durable data is left.
    LastCut,
    Kill,
}

impl End {
    fn draw(prng: &mut Prng) -> Self {
        match prng.below(8) {
            0 | 1 => Self::Cut,
            2 => Self::LastCut,
            3 => Self::Kill,
            _ => Self::Stop,
        }
    }
}

/// A running world.
struct Life {
    setting: Setting,
    world: World,
    prng: Prng,
    shared: Rc<Shared>,
    /// The keeper of the volume's snapshots, if the design has some.
    keeper: Option<Keeper>,
    /// One more client, for checks.
    looker: Client,
    root: nfs_fh3,
    /// Most files, and current files.
    files: u64,
    counts: Counts,
}

/// Space and files of a volume at rest.
#[derive(Debug, PartialEq, Eq)]
struct Space {
    bytes: u64,
    free_bytes: u64,
    files: u64,
    free_files: u64,
}

/// Runs until `operations` operations were done on a full volume, and then empties it.
///
/// # Errors
/// A violation.
pub(super) fn live(setting: Setting, counts: &mut Counts) -> Verdict {
    let mut life = Life::begin(setting)?;
    let lived = life.all();
    counts.states += life.shared.above.get();
    counts.images += life.counts.images;
    lived
}

fn options(design: Design, prng: &mut Prng) -> WorldOptions {
    let block = 4096 << prng.below(3);
    let mkfs = MkfsOptions {
        block_size: Some(block),
        fragment_size: Some(block / 8),
        ..MkfsOptions::default()
    };
    let open = OpenOptions { cache_bytes: 2 << 20 << prng.below(2), ..OpenOptions::default() };
    let size = prng.between(6, 16) << 20;
    WorldOptions { design, size, mkfs, open, ..WorldOptions::default() }
}

/// The files of all clients.
fn all_of(hands: &[Hand]) -> Tree {
    let mut tree = Tree::from([(Vec::new(), Shown::Directory(BTreeSet::new()))]);
    hands.iter().for_each(|hand| hand.show_all(&mut tree));
    tree
}

/// Runs `work` beside another future, until the first is done; or returns the error of the other
/// one.
async fn both<T>(
    work: &mut LocalBoxFuture<'_, T>,
    beside: &mut Option<LocalBoxFuture<'_, Verdict>>,
) -> Verdict<T> {
    poll_fn(|context| {
        if let Some(other) = beside
            && let Poll::Ready(done) = other.poll_unpin(context)
        {
            *beside = None;
            if let Err(reason) = done {
                return Poll::Ready(Err(reason));
            }
        }
        work.poll_unpin(context).map(Ok)
    })
    .await
}

impl Life {
    fn begin(setting: Setting) -> Verdict<Self> {
        let mut prng = Prng::new(setting.seed ^ 0x5face);
        let world = World::new(setting.seed, options(setting.design, &mut prng));
        let looker = world.client(CLIENTS as u32 + 1, ClientOptions::default());
        let shared = Rc::new(Shared::default());
        let (root, counts) = (nfs_fh3::default(), Counts::default());
        let mut life =
            Self { setting, world, prng, shared, keeper: None, looker, root, files: 0, counts };
        life.start()?;
        life.root = life.within(life.looker.mount(VOLUME))?.map_err(|error| error.to_string())?;
        Ok(life)
    }

    /// Runs something that must end in time.
    fn within<F: Future>(&self, work: F) -> Verdict<F::Output> {
        self.world.run_for(PATIENCE, work).ok_or_else(|| "somebody waits for ever".to_owned())
    }

    fn start(&self) -> Verdict {
        self.world.start();
        match self.within(self.world.serving())? {
            Status::Serving => Ok(()),
            _ => Err(format!("the volume does not come back: {:?}", self.world.failure())),
        }
    }

    fn all(&mut self) -> Verdict {
        self.rest()?; // includes the space that a first opening takes
        let fresh = self.space()?;
        self.files = fresh.free_files;
        let places = self.places();
        let hand = |number: usize| {
            let client = self.world.client(number as u32, ClientOptions::default());
            let with = (self.shared.clone(), self.world.fork_prng());
            Hand::new((client, number), with.0, with.1, (places, self.root.clone()))
        };
        let mut hands: Vec<Hand> = (1..=CLIENTS).map(hand).collect();
        if self.setting.design.has_snapshots() {
            let (eyes, prng) = (hand(CLIENTS + 2), self.world.fork_prng());
            self.keeper = Some(Keeper::new(eyes, self.shared.clone(), prng));
        }
        let mut stretches = 0;
        while self.shared.above.get() < self.setting.operations {
            self.stretch(&mut hands)?;
            stretches += 1;
            if stretches == STRETCHES {
                return Err("the volume does not become full".to_owned());
            }
        }
        let left = self.within(join_all(hands.iter_mut().map(Hand::leave)))?;
        left.into_iter().collect::<Verdict>()?;
        self.rest()?;
        if let Some(mut keeper) = self.keeper.take() {
            // The snapshots have kept their contents.
            self.within(keeper.look(true))??;
            self.within(keeper.leave(&self.world))??;
            self.rest()?;
        }
        let emptied = self.space()?;
        if emptied == fresh {
            Ok(())
        } else {
            Err(format!("emptied there is {emptied:?}, and at first there was {fresh:?}"))
        }
    }

    /// The allocation units of the volume's files.
    fn places(&self) -> Places {
        let MkfsOptions { block_size, fragment_size, .. } = self.world.options().mkfs.clone();
        let block = block_size.expect("it is drawn");
        let has_fragments = self.setting.design.is_ufs2();
        let grain = if has_fragments { fragment_size.expect("it is drawn") } else { block };
        Places { grain, beside: block - grain }
    }

    /// All clients work, while the server ends and recovers; then everything is checked, the server
    /// stopped, and the volume checked.
    fn stretch(&mut self, hands: &mut [Hand]) -> Verdict {
        let steps = self.prng.between(10, STRETCH);
        let mut keeper = self.keeper.take();
        self.work(hands, steps, &mut keeper)?;
        // Files must still be inspected after a cut behind the last operation.
        let seen = self.within(join_all(hands.iter_mut().map(|hand| hand.live(0))))?;
        seen.into_iter().collect::<Verdict>()?;
        if let Some(keeper) = &mut keeper {
            self.within(keeper.count(&self.world))??;
            self.within(keeper.rest(&self.world, || all_of(hands)))??;
        }
        self.rest()?;
        let mut there = 0;
        for hand in hands {
            there += self.within(hand.verify())??;
            self.world.history().forget_bytes();
        }
        if let Some(keeper) = &mut keeper {
            self.within(keeper.count(&self.world))??;
            self.within(keeper.look(false))??;
            self.world.history().forget_bytes();
        }
        self.keeper = keeper;
        let Space { free_files, .. } = self.space()?;
        if free_files + there != self.files {
            let most = self.files;
            return Err(format!("{free_files} files may be made, and there are {there} of {most}"));
        }
        Ok(())
    }

    /// All clients work, and an administrator beside them, while the server ends and recovers.
    fn work(&mut self, hands: &mut [Hand], steps: u64, keeper: &mut Option<Keeper>) -> Verdict {
        let end = End::draw(&mut self.prng);
        let at = self.shared.done.get() + self.prng.below(steps * CLIENTS as u64);
        let mut work = join_all(hands.iter_mut().map(|hand| hand.live(steps))).boxed_local();
        let mut beside = keeper.as_mut().map(|keeper| keeper.work(&self.world).boxed_local());
        let mut done = None;
        if !matches!(end, End::Stop) {
            let deadline = self.world.now();
            while done.is_none() && self.shared.done.get() < at {
                let moment = Duration::from_micros(self.prng.between(20, 400));
                done = self.world.run_for(moment, both(&mut work, &mut beside)).transpose()?;
                if self.world.now().since(deadline) > PATIENCE {
                    return Err("somebody waits for ever".to_owned());
                }
            }
            drop(beside.take()); // it uses the server that ends now
            self.shared.cuts.set(self.shared.cuts.get() + 1);
            self.end(&end);
            self.start()?;
        }
        let done = match done {
            Some(done) => done,
            None => self.within(both(&mut work, &mut beside))??,
        };
        done.into_iter().collect::<Verdict>()?;
        if let Some(beside) = beside {
            self.within(beside)??;
        }
        Ok(())
    }

    fn end(&self, end: &End) {
        match end {
            End::Cut => self.world.crash(),
            End::LastCut => self.world.crash_to_durable(),
            End::Kill => self.world.kill(),
            End::Stop => {}
        }
    }

    /// Stops the server, runs the checker on the disk, and starts the server again.
    fn rest(&mut self) -> Verdict {
        self.within(self.world.stop())?;
        self.counts.images += 1;
        let image = self.setting.design.plain_image(&self.world.contents())?;
        let executor = Executor::new(0);
        let disk: Rc<dyn BlockDevice> = Disk::new(&executor, image);
        let options = CheckOptions { full: true, ..CheckOptions::default() };
        let runtime = executor.runtime();
        let report = executor.block_on(self.setting.design.check(&disk, &runtime, &options));
        let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
        if let Some(finding) = report.findings.list.first() {
            return Err(format!("stopped, it is not well: {finding}"));
        }
        self.start()
    }

    fn space(&self) -> Verdict<Space> {
        let told = self.within(self.looker.call(&calls::fsstat(&self.root)))?;
        match told.map_err(|error| error.to_string())? {
            Nfs3Result::Ok(ok) => Ok(Space {
                bytes: ok.tbytes,
                free_bytes: ok.fbytes,
                files: ok.tfiles,
                free_files: ok.ffiles,
            }),
            Nfs3Result::Err((status, _)) => Err(format!("FSSTAT says {status:?}")),
        }
    }
}
