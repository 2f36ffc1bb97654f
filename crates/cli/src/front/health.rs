//! The file that says how an NVRAM's battery is.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::LocalBoxFuture;
use nvram::Nvram;
use nvram::health::{Health, HealthSource, INTERVAL, MAX_BYTES, Monitor};
use runtime::Runtime;

use super::lower::Lower;

/// A monitor of this file.
pub(super) fn monitor_of(path: &Path, runtime: &Runtime) -> Monitor {
    Monitor::new(Rc::new(HealthFile(path.to_owned())), runtime.clone())
}

/// Starts a task that reports each reading to an NVRAM, until that is dropped. The set has its log
/// device no more before anything else rests on a bad one.
pub(super) fn watch(
    mut monitor: Monitor,
    nvram: &Rc<Nvram>,
    lower: Option<&Rc<Lower>>,
    runtime: &Runtime,
) {
    let (nvram, lower, runtime) = (Rc::downgrade(nvram), lower.cloned(), runtime.clone());
    let tasks = runtime.tasks.clone();
    let work = async move {
        loop {
            runtime.clock.sleep(INTERVAL).await;
            let health = monitor.next().await;
            let Some(nvram) = nvram.upgrade() else { return };
            if let Some(lower) = lower.as_ref().filter(|_| health != Health::Good) {
                lower.distrust();
            }
            nvram.heed(health);
            if let Some(lower) = &lower {
                lower.follow_beside(&nvram, &runtime); // no reading waits for that
            }
        }
    };
    tasks.spawn(work.boxed_local());
}

/// Reads the file on a thread of its own for each reading: a driver may hang. The process ends
/// without such a thread.
struct HealthFile(PathBuf);

impl HealthSource for HealthFile {
    fn read(&self) -> LocalBoxFuture<'static, Health> {
        let path = self.0.clone();
        let (answer, answered) = oneshot::channel();
        let work = move || drop(answer.send(read(&path))); // the caller may be gone
        let started = thread::Builder::new().name("nvram-health".to_owned()).spawn(work);
        async move {
            match started {
                Ok(_) => answered.await.unwrap_or_else(|_| Health::Bad("unreadable".to_owned())),
                Err(error) => Health::Bad(error.to_string()),
            }
        }
        .boxed_local()
    }
}

fn read(path: &Path) -> Health {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    read.map_or_else(|error| Health::Bad(error.to_string()), |_| Health::parse(&bytes))
}
