//! A table with two engines, whose callers need to know neither.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use bytes::Bytes;
use designs::{
    CheckOptions, Design, DiskRole, Disks, FFS_SOFTDEP, FFS_SYNC, Found, HEAD_SIZE, LogState,
    LogUse, LookError, Made, MkfsError, MkfsOptions, OpenEngine, OpenError, OpenOptions, Opened,
    Prepared, Report, Table, Told, Work,
};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use namespace::{Namespace, Store};
use ram::{Ram, RamOptions};
use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use vfs::{CreateHow, Credentials, FsError, FsStat, Name, Requester, SetAttributes};
use vnode::Files;

use crate::PLAIN;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const SIZE: u64 = 8 << 20;
/// First bytes of the other engine's disk; its label follows.
const MAGIC: &[u8] = b"another engine:";

static BOTH: Table = Table::new(&[&FFS_SYNC, &FFS_SOFTDEP, &OTHER]);

/// The engine over memory, with a disk that holds only a label.
static OTHER: Design = Design {
    engine: "other",
    disks: &[DiskRole::Volume],
    has_snapshots: true,
    work: Some(Work {
        plan: |_, _, _| Ok(()),
        make: |device, options, _, _| make(device, options).boxed_local(),
        recognise: |head| head.starts_with(MAGIC).then_some("a volume of the other engine"),
        is_begun: |_| false,
        look: |device| look(device).boxed_local(),
        find_lost: |_| async { Ok(None) }.boxed_local(),
        open: |disks, runtime, _, _| {
            async move {
                look(&*disks.volume).await.map_err(|error| OpenError::Other(error.into()))?;
                let files = ram::open(ram::Disk::new(SIZE, NOW), runtime, RamOptions::default());
                let files = files.await.map_err(OpenError::new)?;
                Ok(Opened {
                    files: Rc::new(Namespace::new(files.clone())),
                    engine: Rc::new(Beside(files)),
                    read_only: None,
                    rebuilt: None,
                    replayed: None,
                    reclaims: false,
                    lost_intents: None,
                })
            }
            .boxed_local()
        },
        prepare: |_, _, _, _| {
            let (replayed, has_given_up, refused) = (None, false, None);
            let prepared = Prepared { state: LogState::Home, replayed, has_given_up, refused };
            async { Ok(prepared) }.boxed_local()
        },
        check: |_, _, _, _, _| async { Ok(Report { files: 1, ..Report::default() }) }.boxed_local(),
        scrub: None,
        note_policy: |_, _| async { Ok(()) }.boxed_local(),
        set_label: |device, label| label_with(device, label).map(Ok).boxed_local(),
        set_reserve: None,
    }),
    ..PLAIN
};

/// The interface of the other engine beside its files.
struct Beside(Rc<Files<Ram>>);

impl Told for Beside {
    fn directories(&self) -> u64 {
        1
    }
}

impl OpenEngine for Beside {
    fn space(&self) -> FsStat {
        self.0.fsstat(&Credentials::root())
    }

    fn refusals(&self) -> u64 {
        self.0.refusals()
    }

    fn quiesce(&self) -> LocalBoxFuture<'_, Result<(), FsError>> {
        self.0.quiesce().boxed_local()
    }
}

async fn make(device: &dyn BlockDevice, options: &MkfsOptions) -> Result<Made, MkfsError> {
    label_with(device, &options.label).await;
    let (fragment_size, groups, most_files) = (None, None, None);
    Ok(Made { format: "none", size: SIZE, block_size: 512, fragment_size, groups, most_files })
}

async fn label_with(device: &dyn BlockDevice, label: &str) {
    let mut sector = [MAGIC, label.as_bytes()].concat();
    sector.resize(512, 0);
    let written = device.write(0, vec![Bytes::from(sector)], Durability::Through).await;
    written.expect("it works");
}

async fn look(device: &dyn BlockDevice) -> Result<Found, LookError> {
    let sector = device.read(0, Buffer::zeroed(512)).await?;
    let Some(label) = sector.strip_prefix(MAGIC) else {
        return Err(LookError::NoVolume { why: "it is none of ours".into(), has_copies: false });
    };
    let label = label.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte));
    let (is_clean, is_fresh) = (true, true);
    Ok(Found { label: label.collect(), size: SIZE, is_clean, is_fresh, ..Found::default() })
}

async fn head_of(device: &dyn BlockDevice) -> Buffer {
    device.read(0, Buffer::zeroed(HEAD_SIZE)).await.expect("it can be read")
}

#[test]
fn a_disk_is_known_by_what_is_on_it_and_served_by_its_engine() {
    for &design in BOTH.all() {
        let (executor, work) = (Executor::new(1), design.work());
        let (disk, runtime) = (Disk::new(&executor, Image::zeroed(SIZE)), executor.runtime());
        executor.block_on(async {
            assert!(BOTH.look(&*disk).await.is_none(), "there is nothing");
            assert_eq!(BOTH.recognise(&head_of(&*disk).await), None);
            let options = MkfsOptions { label: "one".to_owned(), ..MkfsOptions::default() };
            (work.plan)(SIZE, 512, &options).expect("there is room");
            let made = (work.make)(&*disk, &options, &*runtime.random, NOW).await;
            assert_eq!(made.expect("there is room").size, SIZE);
            (work.note_policy)(&*disk, design).await.expect("it is at rest");
            (work.set_label)(&*disk, "two").await.expect("it is at rest");

            assert!(BOTH.recognise(&head_of(&*disk).await).is_some(), "{design:?}");
            let (served_by, found) = BOTH.look(&*disk).await.expect("there is a volume");
            assert_eq!(served_by, design);
            assert!(found.is_clean && found.is_fresh, "{found:?}");
            assert_eq!((&found.label[..], found.size), ("two", SIZE));
            assert_eq!(found.ufs2.is_some(), design.mark.is_some(), "{design:?}");

            serve(served_by, disk.clone(), &executor).await;
            // A stop closes the devices of the volume.
            let volume: Rc<dyn BlockDevice> = Disk::new(&executor, disk.contents());
            let log_use = LogUse::Replay;
            let prepared = (work.prepare)(&volume, None, &runtime, log_use).await;
            let log = prepared.expect("it needs no log").state;
            let options = CheckOptions { repair: true, log, ..CheckOptions::default() };
            let report = (work.check)(&volume, None, &runtime, &options, &mut |_| ()).await;
            assert_eq!(report.expect("it can be checked").findings.total(), 0, "{design:?}");
        });
    }
}

async fn serve(design: &Design, volume: Rc<dyn BlockDevice>, executor: &Executor) {
    let (disks, options) = (Disks::alone(volume), OpenOptions::default());
    let opened = (design.work().open)(disks, executor.runtime(), &options, &mut |_| ()).await;
    let Opened { files, engine, .. } = opened.unwrap_or_else(|error| panic!("{error}"));
    let before = engine.space();
    let (who, name) = (Requester::root(), Name::parse(b"told").expect("a name"));
    let how = CreateHow::Guarded(SetAttributes::default());
    let made = files.create(&who, files.root(), &name, how).await.open().await;
    made.expect("it runs").into_inner().result.expect("there is room");
    engine.quiesce().await.expect("nothing has failed");
    assert_eq!(engine.space().free_files + 1, before.free_files, "{design:?}");
    assert_eq!(engine.directories(), 1, "the root");
    assert_eq!(engine.soft_updates().is_some(), design.waits, "{design:?}");
    assert_eq!(files.snapshots().is_some(), design.has_snapshots, "{design:?}");
    assert!(engine.log_statistics().is_none() && engine.wait_for_reclaim().await);
    assert_eq!(engine.refusals(), 0);
    files.shutdown().await.expect("it stops");
}
