//! One life of the server: it starts on some disks, is called, and is recorded.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use designs::{OpenEngine, Opened};
use futures::future::join_all;
use nfs3_types::nfs3::{
    COMMIT3args, LOOKUP3resok, Nfs3Option, Nfs3Result, nfs_fh3, nfsstat3, stable_how,
};
use runtime::Runtime;
use sim::Executor;
use vfs::FileSystem;

use super::model::{Model, Seen, Told};
use super::story::{Act, End, FILES, LARGEST, Life, Stable, Step, payload};
use crate::calls;
use crate::explore::design::{Design, Shape};
use crate::explore::disks::{Disks, Images, Recording};
use crate::explore::server::{Server, handle};

/// Longest virtual time of any request.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The recording of a life.
pub(super) struct Lived {
    pub recording: Recording,
    /// Events of the model, by the numbers of their marks in the recording.
    pub told: Vec<Told>,
    /// Contents of the disks at the end, all writes included.
    pub images: Images,
    /// At the end.
    pub model: Model,
    /// The verifier of this boot, if a client received it.
    pub verifier: Option<[u8; 8]>,
}

/// Runs a life on `images`, as `model` describes them.
///
/// # Errors
/// An answer that is wrong or missing.
pub(super) fn live(
    (design, shape): (Design, &Shape),
    seed: u64,
    (images, model): (&Images, &Model),
    life: &Life,
) -> Result<Lived, String> {
    let executor = Executor::new(seed);
    let disks = Rc::new(Disks::cut(&executor, images, shape.stripe));
    disks.start_recording();
    let stage = within(&executor, "to come back", async {
        let opened = design.open_as(disks.devices(), executor.runtime(), shape).await;
        let opened = opened.map_err(|error| format!("it does not come back: {error}"))?;
        Stage::begin(executor.runtime(), disks.clone(), opened, model.clone()).await
    })?;
    for step in &life.steps {
        let done = within(&executor, "a step", stage.perform(step));
        done.map_err(|reason| format!("step {step}: {reason}"))?;
    }
    if life.end == End::Stop {
        within(&executor, "to stop", async {
            let stopped = stage.server.witness.shutdown().await;
            stopped.map_err(|error| format!("it does not stop: {error}"))
        })?;
    }
    Ok(Lived {
        recording: disks.recording(),
        images: disks.contents(),
        told: stage.told.into_inner(),
        model: stage.model.into_inner(),
        verifier: stage.verifier.into_inner(),
    })
}

/// Does something that must end in time.
pub(super) fn within<T>(
    executor: &Executor,
    what: &str,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let done = executor.block_on_for(PATIENCE, work);
    done.unwrap_or_else(|| Err(format!("it takes more than {PATIENCE:?}: {what}")))
}

/// A running server and its client's state.
struct Stage {
    runtime: Runtime,
    disks: Rc<Disks>,
    engine: Rc<dyn OpenEngine>,
    server: Rc<Server>,
    handles: RefCell<Vec<Option<nfs_fh3>>>,
    model: RefCell<Model>,
    told: RefCell<Vec<Told>>,
    verifier: RefCell<Option<[u8; 8]>>,
}

impl Stage {
    /// Reads everything that has been recovered.
    async fn begin(
        runtime: Runtime,
        disks: Rc<Disks>,
        opened: Opened,
        model: Model,
    ) -> Result<Self, String> {
        let Opened { files, engine, .. } = opened;
        let server = Rc::new(Server::new(runtime.clone(), files));
        let (handles, seen) = look(&server).await?;
        model.allows(&seen)?;
        let (handles, model) = (RefCell::new(handles), RefCell::new(model));
        let (told, verifier) = (RefCell::default(), RefCell::default());
        let stage = Self { runtime, disks, engine, server, handles, model, told, verifier };
        stage.note(Told::Saw(Rc::new(seen)));
        Ok(stage)
    }

    /// Gives an event to the model, and marks it in the recording.
    fn note(&self, told: Told) {
        self.model.borrow_mut().hear(&told);
        let mut all = self.told.borrow_mut();
        self.disks.volume().mark(all.len() as u64);
        all.push(told);
    }

    /// Carries out the acts of a step that still make sense; earlier steps may have been left out.
    async fn perform(&self, step: &Step) -> Result<(), String> {
        let makes_sense = |act: &Act| match (act, act.file()) {
            (Act::Create(file), _) => !self.model.borrow().has(*file),
            (_, Some(file)) => self.model.borrow().has(file),
            (_, None) => true,
        };
        if !step.acts.iter().all(makes_sense) {
            return Ok(());
        }
        self.note(Told::Begins(step.clone()));
        let calls = step.acts.iter().enumerate().map(|(index, act)| self.call(step, index, act));
        join_all(calls).await.into_iter().collect()
    }

    async fn call(&self, step: &Step, index: usize, act: &Act) -> Result<(), String> {
        let stable = self.carry_out(step, index, act).await?;
        self.note(Told::Answered { step: step.number, act: index, stable });
        Ok(())
    }

    fn handle(&self, file: usize) -> nfs_fh3 {
        self.handles.borrow()[file].clone().expect("there is the file")
    }

    /// Makes a call; returns whether its data was promised to be stable.
    async fn carry_out(&self, step: &Step, index: usize, act: &Act) -> Result<bool, String> {
        let root = handle(self.server.witness.root());
        match *act {
            Act::Create(file) => {
                let made = ok(self.server.ask(&calls::create(&root, &name(file))).await?)?;
                let Nfs3Option::Some(handle) = made.obj else {
                    return Err("a file without a handle".to_owned());
                };
                self.handles.borrow_mut()[file] = Some(handle);
            }
            Act::Remove(file) => {
                ok(self.server.ask(&calls::remove(&root, &name(file))).await?)?;
                self.handles.borrow_mut()[file] = None;
            }
            Act::Write { file, offset, length, fill, stable } => {
                let seed = self.model.borrow().seed();
                let bytes = payload(seed, (step.number, index), fill, length);
                return self.write(file, offset, bytes, stable).await;
            }
            Act::Commit { file, offset, count } => {
                let file = self.handle(file);
                let done = self.server.ask(&COMMIT3args { file, offset, count }).await?;
                self.verify(ok(done)?.verf.0)?;
            }
            Act::Resize { file, size } => {
                let set = calls::setattr(&self.handle(file), calls::size(size));
                ok(self.server.ask(&set).await?)?;
            }
            Act::Read { file, offset, count } => self.read(file, offset, count).await?,
            Act::Settle => {
                let settled = self.engine.quiesce().await;
                settled.map_err(|error| format!("it does not settle: {error}"))?;
            }
            Act::Wait(time) => self.runtime.clock.sleep(time).await,
        }
        Ok(false)
    }

    async fn write(
        &self,
        file: usize,
        offset: u64,
        bytes: Vec<u8>,
        stable: Stable,
    ) -> Result<bool, String> {
        let length = bytes.len();
        let asked = match stable {
            Stable::Unstable => stable_how::UNSTABLE,
            Stable::DataSync => stable_how::DATA_SYNC,
            Stable::FileSync => stable_how::FILE_SYNC,
        };
        let write = calls::write(&self.handle(file), offset, bytes, asked);
        let done = ok(self.server.ask(&write).await?)?;
        if done.count as usize != length {
            return Err(format!("{} bytes were written of {length}", done.count));
        }
        self.verify(done.verf.0)?;
        if (done.committed as u32) < asked as u32 {
            return Err(format!("it was made {:?} only", done.committed));
        }
        Ok(done.committed != stable_how::UNSTABLE)
    }

    async fn read(&self, file: usize, offset: u64, count: u32) -> Result<(), String> {
        let read = calls::read(&self.handle(file), offset, count);
        let done = ok(self.server.ask(&read).await?)?;
        let model = self.model.borrow();
        let expected = model.read(file, offset, count);
        compare(&done.data, &expected).map_err(|reason| format!("a READ: {reason}"))?;
        let is_end = offset + expected.len() as u64 >= model.size(file);
        if done.eof != is_end {
            return Err(format!("a READ says {} of the end", done.eof));
        }
        Ok(())
    }

    /// Nothing fails here, so a boot has one verifier.
    fn verify(&self, verifier: [u8; 8]) -> Result<(), String> {
        if *self.verifier.borrow_mut().get_or_insert(verifier) == verifier {
            Ok(())
        } else {
            Err("another verifier, and nothing was lost".to_owned())
        }
    }
}

/// The name of a file.
fn name(file: usize) -> String {
    format!("file-{file}")
}

/// The result of a call, or its refusal.
fn ok<T, E>(result: Nfs3Result<T, E>) -> Result<T, String> {
    match result {
        Nfs3Result::Ok(ok) => Ok(ok),
        Nfs3Result::Err((status, _)) => Err(format!("it was refused: {status:?}")),
    }
}

/// The first difference between bytes.
pub(super) fn compare(found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).position(|(one, other)| one != other);
    Err(match at {
        Some(at) => format!("byte {at} is {:#04x}, not {:#04x}", found[at], expected[at]),
        None => format!("{} bytes, not {}", found.len(), expected.len()),
    })
}

/// Reads everything.
///
/// # Errors
/// Why something cannot be read.
pub(super) async fn look(server: &Server) -> Result<(Vec<Option<nfs_fh3>>, Seen), String> {
    let root = handle(server.witness.root());
    let (mut handles, mut seen) = (Vec::new(), Vec::new());
    for file in 0..FILES {
        let found = match server.ask(&calls::lookup(&root, &name(file))).await? {
            Nfs3Result::Ok(LOOKUP3resok { object, .. }) => Some(object),
            Nfs3Result::Err((nfsstat3::NFS3ERR_NOENT, _)) => None,
            Nfs3Result::Err((status, _)) => return Err(format!("LOOKUP says {status:?}")),
        };
        seen.push(match &found {
            Some(file) => Some(contents(server, file).await?),
            None => None,
        });
        handles.push(found);
    }
    Ok((handles, seen))
}

/// All bytes of a file, as many as its attributes say. After a start, a truncation that a cut has
/// interrupted continues in the background: if the file has become shorter since its attributes
/// were read, it is read anew.
///
/// # Errors
/// Why the file cannot be read.
pub(super) async fn contents(server: &Server, file: &nfs_fh3) -> Result<Vec<u8>, String> {
    let mut size = size_of(server, file).await?;
    loop {
        let wrong = match contents_of(server, file, size).await {
            Ok(bytes) => return Ok(bytes),
            Err(wrong) => wrong,
        };
        let now = size_of(server, file).await?;
        if now >= size {
            return Err(wrong);
        }
        size = now;
    }
}

async fn size_of(server: &Server, file: &nfs_fh3) -> Result<u64, String> {
    Ok(ok(server.ask(&calls::getattr(file)).await?)?.obj_attributes.size)
}

async fn contents_of(server: &Server, file: &nfs_fh3, size: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < size {
        let read = calls::read(file, bytes.len() as u64, LARGEST as u32);
        let done = ok(server.ask(&read).await?)?;
        if done.data.is_empty() {
            return Err(format!("a READ ends at {} of {size} bytes", bytes.len()));
        }
        bytes.extend_from_slice(&done.data);
    }
    if bytes.len() as u64 != size {
        return Err(format!("{} bytes, and attributes say {size}", bytes.len()));
    }
    Ok(bytes)
}

/// Grows a file; the new bytes must be zeros, whatever the disk holds.
///
/// # Errors
/// Other bytes than zeros.
pub(super) async fn grow(
    server: &Server,
    file: &nfs_fh3,
    old: &[u8],
    by: u64,
) -> Result<(), String> {
    let mut expected = old.to_vec();
    expected.resize(old.len() + by as usize, 0);
    let set = calls::setattr(file, calls::size(expected.len() as u64));
    ok(server.ask(&set).await?)?;
    compare(&contents(server, file).await?, &expected)
}
