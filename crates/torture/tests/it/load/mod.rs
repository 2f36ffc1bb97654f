//! The load of a client that is alone in its directory: it knows the correct answer to each call.
//!
//! If a call went to more than one boot of the server, the answer may be that to a repetition that
//! the server does not recognise: docs/durability.md, "A retry across a crash".

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use nfs3_types::nfs3::{
    self, Nfs3Option, Nfs3Result, cookieverf3, nfs_fh3, nfsstat3, post_op_fh3, stable_how,
};
use sim::Prng;
use torture::calls;
use torture::client::Client;
use torture::history::{Call, CallId, History};
use torture::protocol::Procedure;
use torture::world::VOLUME;

/// Wrong answers.
pub(crate) type Complaints = Rc<RefCell<Vec<String>>>;

struct File {
    handle: nfs_fh3,
    data: Vec<u8>,
    /// The verifier of a write that may be lost, and the old bytes.
    unstable: Option<([u8; 8], Vec<u8>)>,
}

pub(crate) struct Load {
    client: Client,
    history: History,
    prng: Prng,
    complaints: Complaints,
    home: nfs_fh3,
    files: BTreeMap<String, File>,
    directories: BTreeMap<String, nfs_fh3>,
    /// Old names of files whose RENAME was repeated after a crash that had left both names: a
    /// RENAME between two names of one file has no effect.
    left_behind: BTreeMap<String, nfs_fh3>,
    next: u64,
}

/// Makes `steps` operations as one client.
pub(crate) async fn work(
    client: Client,
    history: History,
    prng: Prng,
    complaints: Complaints,
    steps: usize,
) {
    let root = client.mount(VOLUME).await.expect("the volume is exported");
    let mut load = Load {
        client,
        history,
        prng,
        complaints,
        home: root.clone(),
        files: BTreeMap::new(),
        directories: BTreeMap::new(),
        left_behind: BTreeMap::new(),
        next: 0,
    };
    let name = format!("home-{}", load.client.id());
    load.home = load.mkdir(&root, &name).await;
    for _ in 0..steps {
        load.step().await;
    }
    load.read_everything().await;
}

impl Load {
    async fn step(&mut self) {
        match self.prng.below(12) {
            0 | 1 => self.create().await,
            2..=4 => self.write().await,
            5 => self.truncate().await,
            6 => self.read().await,
            7 => self.rename().await,
            8 => self.remove().await,
            9 => self.link().await,
            10 => {
                let name = self.new_name("d");
                let home = self.home.clone();
                let handle = self.mkdir(&home, &name).await;
                self.directories.insert(name, handle);
            }
            _ => self.rmdir().await,
        }
    }

    /// Makes a call that must succeed, or may fail with `late` if an earlier boot may have carried
    /// it out.
    async fn call<P, T, E>(&self, arguments: &P, late: Option<nfsstat3>) -> Option<T>
    where
        P: Procedure<Results = Nfs3Result<T, E>>,
    {
        let (id, results) = self.client.noted_call(arguments).await;
        match results.expect("the call is as it should be") {
            Nfs3Result::Ok(ok) => Some(ok),
            Nfs3Result::Err((status, _)) => {
                let call = self.history.call(id);
                if !(Some(status) == late && call.crossed_a_crash()) {
                    self.complain(id, &call, status);
                }
                None
            }
        }
    }

    fn complain(&self, id: CallId, call: &Call, status: nfsstat3) {
        let request = call.request();
        let boots: Vec<_> = call.sent.iter().map(|sent| sent.boot).collect();
        let line = format!("{id:?}: {status} to {request:?}, sent to boots {boots:?}");
        self.complaints.borrow_mut().push(line);
    }

    fn new_name(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}{}", self.next)
    }

    fn any_file(&mut self) -> Option<String> {
        let count = self.files.len();
        let index = (count > 0).then(|| self.prng.index(count))?;
        self.files.keys().nth(index).cloned()
    }

    async fn find(&self, directory: &nfs_fh3, name: &str) -> nfs_fh3 {
        let found = self.call(&calls::lookup(directory, name), None).await;
        found.map_or_else(nfs_fh3::default, |ok| ok.object)
    }

    async fn made(&self, object: Option<post_op_fh3>, directory: &nfs_fh3, name: &str) -> nfs_fh3 {
        match object {
            Some(Nfs3Option::Some(handle)) => handle,
            _ => self.find(directory, name).await,
        }
    }

    async fn mkdir(&self, directory: &nfs_fh3, name: &str) -> nfs_fh3 {
        let made = self.call(&calls::mkdir(directory, name), Some(nfsstat3::NFS3ERR_EXIST)).await;
        self.made(made.map(|ok| ok.obj), directory, name).await
    }

    async fn create(&mut self) {
        let name = self.new_name("f");
        let made = if self.prng.chance(1, 2) {
            let verifier = self.prng.next_u64().to_be_bytes();
            let args = calls::create_exclusive(&self.home, &name, verifier);
            self.call(&args, None).await
        } else {
            let args = calls::create(&self.home, &name);
            self.call(&args, Some(nfsstat3::NFS3ERR_EXIST)).await
        };
        let handle = self.made(made.map(|ok| ok.obj), &self.home, &name).await;
        self.files.insert(name, File { handle, data: Vec::new(), unstable: None });
    }

    async fn write(&mut self) {
        let Some(name) = self.any_file() else { return };
        self.settle(&name).await;
        let (handle, old) = (self.files[&name].handle.clone(), self.files[&name].data.clone());
        let offset = self.prng.index(old.len() + 1);
        let mut part = vec![0; 1 + self.prng.index(20_000)];
        self.prng.fill(&mut part);
        let stable = [stable_how::UNSTABLE, stable_how::DATA_SYNC, stable_how::FILE_SYNC]
            [self.prng.index(3)];
        let args = calls::write(&handle, offset as u64, part.clone(), stable);
        let Some(written) = self.call(&args, None).await else { return };
        let file = self.files.get_mut(&name).expect("it was there");
        let count = written.count as usize;
        file.data.resize(old.len().max(offset + count), 0);
        file.data[offset..offset + count].copy_from_slice(&part[..count]);
        if written.committed == stable_how::UNSTABLE {
            file.unstable = Some((written.verf.0, old));
        }
        if self.prng.chance(1, 2) {
            self.settle(&name).await;
        }
    }

    /// Commits an UNSTABLE write, and writes it again if it may be lost.
    async fn settle(&mut self, name: &str) {
        let file = &self.files[name];
        let Some((verifier, _)) = file.unstable else { return };
        let (handle, data) = (file.handle.clone(), file.data.clone());
        let committed = self.call(&calls::commit(&handle), None).await;
        if committed.is_some_and(|ok| ok.verf.0 != verifier) {
            let args = calls::write(&handle, 0, data, stable_how::FILE_SYNC);
            self.call(&args, None).await;
        }
        self.files.get_mut(name).expect("it was there").unstable = None;
    }

    async fn truncate(&mut self) {
        let Some(name) = self.any_file() else { return };
        self.settle(&name).await;
        let size = self.prng.index(30_000);
        let args = calls::setattr(&self.files[&name].handle, calls::size(size as u64));
        self.call(&args, None).await;
        self.files.get_mut(&name).expect("it was there").data.resize(size, 0);
    }

    async fn read(&mut self) {
        let Some(name) = self.any_file() else { return };
        self.settle(&name).await;
        self.compare(&name).await;
    }

    async fn compare(&self, name: &str) {
        let file = &self.files[name];
        let Some(read) = self.call(&calls::read(&file.handle, 0, 1 << 20), None).await else {
            return;
        };
        if read.data.as_ref() != file.data {
            let line = format!("{name}: {} of {} bytes", read.data.len(), file.data.len());
            self.complaints.borrow_mut().push(format!("other data was read from {line}"));
        }
    }

    async fn rename(&mut self) {
        let Some(from) = self.any_file() else { return };
        let to = self.new_name("r");
        let args = calls::rename((&self.home, &from), (&self.home, &to));
        let renamed = self.call(&args, Some(nfsstat3::NFS3ERR_NOENT)).await;
        let file = self.files.remove(&from).expect("it was there");
        if renamed.is_some() && self.history.calls().iter().any(|call| is_retry(call, &args)) {
            self.left_behind.insert(from, file.handle.clone());
        }
        self.files.insert(to, file);
    }

    async fn remove(&mut self) {
        let Some(name) = self.any_file() else { return };
        let args = calls::remove(&self.home, &name);
        self.call(&args, Some(nfsstat3::NFS3ERR_NOENT)).await;
        self.files.remove(&name);
    }

    /// Makes a second name, and removes it again.
    async fn link(&mut self) {
        let Some(name) = self.any_file() else { return };
        let (handle, second) = (self.files[&name].handle.clone(), self.new_name("l"));
        let args = calls::link(&handle, &self.home, &second);
        self.call(&args, Some(nfsstat3::NFS3ERR_EXIST)).await;
        let args = calls::remove(&self.home, &second);
        self.call(&args, Some(nfsstat3::NFS3ERR_NOENT)).await;
    }

    async fn rmdir(&mut self) {
        let Some(name) = self.directories.keys().next().cloned() else { return };
        let args = calls::rmdir(&self.home, &name);
        self.call(&args, Some(nfsstat3::NFS3ERR_NOENT)).await;
        self.directories.remove(&name);
    }

    /// Checks that exactly the expected names exist, with all data.
    async fn read_everything(&mut self) {
        for name in self.files.keys().cloned().collect::<Vec<_>>() {
            self.settle(&name).await;
            self.compare(&name).await;
            let handle = self.find(&self.home, &name).await;
            assert_eq!(handle, self.files[&name].handle, "a handle is for ever");
        }
        let mut expected: Vec<_> = self.files.keys().chain(self.directories.keys()).collect();
        expected.sort_unstable();
        let args = calls::readdir(&self.home, 0, cookieverf3::default());
        let Some(listed) = self.call(&args, None).await else { return };
        let entries: Vec<nfs3::entry3<'_>> = listed.reply.entries.into_inner();
        let text = |entry: &nfs3::entry3<'_>| String::from_utf8_lossy(entry.name.as_ref()).into();
        let mut names: Vec<String> = entries.iter().map(text).collect();
        names.retain(|name| name != "." && name != "..");
        for (name, handle) in &self.left_behind {
            if names.contains(name) {
                assert_eq!(self.find(&self.home, name).await, *handle, "{name}: another file");
                names.retain(|other| other != name);
            }
        }
        names.sort_unstable();
        if names.iter().ne(expected.iter().copied()) {
            let line = format!("listed are {names:?}, and not {expected:?}");
            self.complaints.borrow_mut().push(line);
        }
    }
}

/// Whether it is this call, and an earlier boot may have started it.
fn is_retry<P: Procedure>(call: &Call, arguments: &P) -> bool {
    let mut bytes = Vec::new();
    arguments.pack(&mut bytes).expect("memory takes everything");
    call.target == P::TARGET && call.arguments == bytes && call.crossed_a_crash()
}
