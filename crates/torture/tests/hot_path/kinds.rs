//! The counted calls, and the files that they need.

use bytes::Bytes;
use dispatch::{Reply, Window};
use nfs3_types::nfs3::{Nfs3Result, nfs_fh3, stable_how};
use sim::Executor;
use torture::calls;
use torture::explore::server::record;
use torture::protocol::Procedure;

use crate::fixture::{Fixture, client};

/// Number of calls.
pub(crate) const COUNT: u32 = if cfg!(debug_assertions) { 100 } else { 1000 };

/// Bytes of the file for READ and WRITE.
const FILE: u64 = 4 << 20;
const MEBIBYTE: u32 = 1 << 20;
/// Bytes of a block; each block gets its data after a hole.
const BLOCK: u32 = 32 << 10;

/// A kind of counted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// GETATTR of one file.
    Getattr,
    /// LOOKUP of one name among some.
    Lookup,
    /// CREATE of a file, in a directory that fills.
    Create,
    /// REMOVE of a file.
    Remove,
    /// WRITE of 8 KiB over existing data, FILE_SYNC.
    Write8k,
    /// WRITE of 8 KiB at the end of a growing file, FILE_SYNC.
    Append8k,
    /// WRITE of 8 KiB into a hole, FILE_SYNC.
    Hole8k,
    /// WRITE of 64 KiB UNSTABLE, and a COMMIT of it: two calls.
    Write64k,
    /// READ of 1 MiB.
    Read1m,
}

/// Prepared calls, to be made one after the other.
pub(crate) struct Calls {
    pub(crate) fixture: Fixture,
    pub(crate) records: Vec<Bytes>,
}

impl Calls {
    pub(crate) async fn prepare(executor: &Executor, kind: Kind) -> Self {
        // A log of the default size of a volume.
        let fixture = Fixture::new(executor, 256 << 20, 257 << 20, Window::default()).await;
        let mut maker = Maker { fixture, next: 0 };
        let file = maker.file("file").await;
        maker.fill(&file).await;
        if kind == Kind::Hole8k {
            maker.lengthen(&file, FILE + u64::from(COUNT * BLOCK)).await;
        }
        if matches!(kind, Kind::Lookup | Kind::Remove) {
            for number in 0..COUNT {
                maker.file(&format!("file-{number}")).await;
            }
        }
        let records = (0..COUNT).flat_map(|number| maker.records(kind, &file, number)).collect();
        Self { fixture: maker.fixture, records }
    }
}

/// Whether a call succeeded, with status 0.
pub(crate) fn is_good(reply: &Reply) -> bool {
    /// The record mark and the reply header.
    const BEFORE_STATUS: usize = 28;
    reply.segments()[0].get(BEFORE_STATUS..BEFORE_STATUS + 4) == Some(&[0; 4])
}

struct Maker {
    fixture: Fixture,
    next: u32,
}

impl Maker {
    fn xid(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Makes a file.
    async fn file(&mut self, name: &str) -> nfs_fh3 {
        let (xid, call) = (self.xid(), calls::create(&self.fixture.root, name));
        match self.fixture.call(client(1), xid, &call).await {
            Nfs3Result::Ok(made) => made.obj.unwrap(),
            Nfs3Result::Err((status, _)) => panic!("a new file: {status}"),
        }
    }

    /// Fills a file.
    async fn fill(&mut self, file: &nfs_fh3) {
        for offset in (0..FILE).step_by(MEBIBYTE as usize) {
            let data = vec![1; MEBIBYTE as usize / 2];
            for (half, data) in [(0, data.clone()), (data.len() as u64, data)] {
                let call = calls::write(file, offset + half, data, stable_how::FILE_SYNC);
                let xid = self.xid();
                self.fixture.call(client(1), xid, &call).await.unwrap();
            }
        }
    }

    /// Adds a hole at the end of a file.
    async fn lengthen(&mut self, file: &nfs_fh3, size: u64) {
        let (xid, call) = (self.xid(), calls::setattr(file, calls::size(size)));
        self.fixture.call(client(1), xid, &call).await.unwrap();
    }

    fn records(&mut self, kind: Kind, file: &nfs_fh3, number: u32) -> Vec<Bytes> {
        let root = self.fixture.root.clone();
        let name = format!("file-{number}");
        let new = format!("new-{number}");
        let place = |step: u32| u64::from(number) * u64::from(step) % FILE;
        let byte = number as u8;
        match kind {
            Kind::Getattr => vec![self.record(&calls::getattr(file))],
            Kind::Lookup => vec![self.record(&calls::lookup(&root, &name))],
            Kind::Create => vec![self.record(&calls::create(&root, &new))],
            Kind::Remove => vec![self.record(&calls::remove(&root, &name))],
            Kind::Write8k => {
                let (place, data) = (place(5 * 8192), vec![byte; 8192]);
                vec![self.record(&calls::write(file, place, data, stable_how::FILE_SYNC))]
            }
            Kind::Append8k | Kind::Hole8k => {
                let step = if kind == Kind::Hole8k { BLOCK } else { 8192 };
                let place = FILE + u64::from(number) * u64::from(step);
                let data = vec![byte; 8192];
                vec![self.record(&calls::write(file, place, data, stable_how::FILE_SYNC))]
            }
            Kind::Write64k => {
                let (place, data) = (place(65_536), vec![byte; 65_536]);
                let write = calls::write(file, place, data, stable_how::UNSTABLE);
                vec![self.record(&write), self.record(&calls::commit(file))]
            }
            Kind::Read1m => vec![self.record(&calls::read(file, place(MEBIBYTE), MEBIBYTE))],
        }
    }

    fn record<P: Procedure>(&mut self, call: &P) -> Bytes {
        record(self.xid(), call)
    }
}
