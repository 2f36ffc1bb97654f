//! Scrubs that end early, and the findings that are kept.

use std::io::ErrorKind;
use std::path::PathBuf;

use block::file::FileDevice;
use block::{Buffer, Durability, Geometry, Io, IoError, Verb};
use bytes::Bytes;
use designs::{LogStatistics, Reclaimed, ShadowStatus, SoftUpdatesCounts, Told, Watch};
use futures::future::{LocalBoxFuture, ready};
use vfs::{FsError, FsStat};

use super::*;
use crate::losses::KnownLosses;
use crate::mkfs;
use crate::mkfs_arguments::MkfsArguments;

/// A bare disk whose file is removed on drop.
struct Bare(PathBuf);

impl Bare {
    fn new(name: &str) -> Self {
        let process = std::process::id();
        let path = std::env::temp_dir().join(format!("duramen-scrub-{name}-{process}.img"));
        let _ = std::fs::remove_file(&path);
        let engine = Some("shadow".to_owned());
        let usual = MkfsArguments::usual(&path, 8 << 20);
        let made = mkfs::run(&MkfsArguments { engine, bare: true, ..usual }, &mut Vec::new());
        made.expect("there is room");
        Self(path)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A disk that fails to close.
struct Kept(FileDevice);

impl BlockDevice for Kept {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.0.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.0.discard(offset, length)
    }

    fn close(&self) -> Io<()> {
        let failed = IoError::new(Verb::Flush, 0, 0, ErrorKind::BrokenPipe);
        ready(Err(failed)).boxed_local()
    }
}

#[test]
fn what_was_found_is_kept_if_the_volume_does_not_close() {
    let bare = Bare::new("kept");
    let volume = Volume::find(&bare.0).expect("it was made");
    let disk = DiskFile::open(&bare.0, Access::ReadWrite).expect("nobody has it");
    let stack =
        Stack { disk: Rc::new(Kept(FileDevice::new(disk))), log: None, intents: None, set: None };
    let scrubbed = reactor::block_on(|_| async { scrub_all(&volume, stack).await });
    let (scrub, done) = scrubbed.expect("a reactor");
    assert!(scrub.done_bytes > 0 && scrub.done_bytes == scrub.total_bytes, "{scrub:?}");
    assert!(matches!(done, Err(Failure::Device { .. })), "{done:?}");
}

#[test]
fn what_was_found_is_told_before_the_failure() {
    let bare = Bare::new("told");
    let volume = Volume::find(&bare.0).expect("it was made");
    let lost = vec![Lost { path: Some("/bad".to_owned()), snapshot: None, offset: 512 }];
    let scrub = Scrub { done_bytes: 4096, total_bytes: 8192, lost, ..Scrub::default() };
    for is_json in [false, true] {
        let mut output = Vec::new();
        let failed = Err(not_scrubbed(&volume, "it is torn".to_owned()));
        let told = tell((scrub.clone(), failed), &volume, is_json, &mut output);
        assert!(told.is_err_and(|failure| failure.to_string().ends_with("it is torn")));
        let output = String::from_utf8(output).expect("text");
        assert!(output.contains("/bad"), "{output}");
        let said = if is_json { "it is torn\"" } else { "4 KiB of 8 KiB compared" };
        assert!(output.contains(said), "{output}");
    }
}

/// An engine whose scrub finds a loss and ends early. Nothing else of it is called.
struct Stops(ScrubError);

impl Told for Stops {
    fn scrub<'a>(&'a self, watch: Watch<'a>) -> Option<designs::Scrubbing<'a>> {
        let stops = async move {
            let lost = designs::Lost { path: Some("/bad".to_owned()), snapshot: None, offset: 0 };
            let (done_bytes, total_bytes, lost) = (1, 2, vec![lost]);
            watch(&Scrubbed { done_bytes, total_bytes, lost, ..Scrubbed::default() });
            Err(self.0)
        };
        Some(stops.boxed_local())
    }

    fn directories(&self) -> u64 {
        unreachable!()
    }

    fn log_statistics(&self) -> Option<LogStatistics> {
        unreachable!()
    }

    fn soft_updates(&self) -> Option<SoftUpdatesCounts> {
        unreachable!()
    }

    fn shadow(&self) -> Option<ShadowStatus> {
        unreachable!()
    }

    fn reclaimed(&self) -> Option<Reclaimed> {
        unreachable!()
    }

    fn wait_for_reclaim(&self) -> LocalBoxFuture<'_, bool> {
        unreachable!()
    }
}

impl OpenEngine for Stops {
    fn space(&self) -> FsStat {
        unreachable!()
    }

    fn refusals(&self) -> u64 {
        unreachable!()
    }

    fn quiesce(&self) -> LocalBoxFuture<'_, Result<(), FsError>> {
        unreachable!()
    }
}

/// The jobs, the last scrub and the known losses after a scrub that ends early.
fn scrubbed(error: ScrubError) -> (Jobs, Scrub, KnownLosses) {
    let engine: Rc<dyn OpenEngine> = Rc::new(Stops(error));
    let (jobs, book) = (Jobs::default(), LossBook::open(None));
    let seen = reactor::block_on(|runtime| async {
        let (engine, jobs, clock) = (Rc::downgrade(&engine), jobs.clone(), runtime.clock.clone());
        let (is_under_way, seen) = (Rc::default(), Rc::default());
        let losses = book.clone();
        let scrubs = Scrubs { losses, engine, jobs, runtime, is_under_way, seen };
        scrubs.begin_one().expect("none is under way");
        while scrubs.is_under_way.get() {
            clock.sleep(std::time::Duration::from_millis(1)).await;
        }
        scrubs.seen().take().expect("there was one")
    });
    (jobs, seen.expect("a reactor"), book.known())
}

#[test]
fn a_server_tells_why_its_scrub_failed() {
    let (jobs, seen, known) = scrubbed(ScrubError::Stopped);
    assert_eq!((seen.done_bytes, seen.error.as_deref()), (1, Some("the volume has stopped")));
    assert_eq!(jobs.told()[0]["state"], "failed");
    let failure = Some("the volume has stopped".to_owned());
    assert_eq!(known, KnownLosses { places: 1, failure });
}

#[test]
fn a_cancelled_scrub_is_no_fault_and_its_findings_count() {
    let (jobs, _, known) = scrubbed(ScrubError::Ended);
    assert_eq!(jobs.told()[0]["state"], "cancelled");
    assert_eq!(known, KnownLosses { places: 1, failure: None });
}
