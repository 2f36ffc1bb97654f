//! A server and the reference beside it: each step is applied to both.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use bytes::Bytes;
use designs::{CheckOptions, Severity};
use nfs3_types::nfs3::{Nfs3Option, Nfs3Result, ftype3, nfs_fh3, nfsstat3, sattr3};
use nfs3_types::xdr_codec::Pack;
use sim::{Disk, Executor};

use super::judge::Verdict;
use super::reference::Reference;
use super::stamp::{Stamp, Time};
use super::step::{Act, From, Object, Step, Text};
use super::tree::{Body, ROOT};
use crate::calls;
use crate::client::{Client, ClientOptions};
use crate::explore::design::Design;
use crate::protocol::{Answer, Request, Response, Target, User};
use crate::world::{Status, VOLUME, World, WorldOptions};

/// More virtual time than any step may take.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Bytes of a file to read when all files are checked.
const LOOK: u32 = 128 << 10;

/// The users of a world: the superuser first.
pub(crate) fn users() -> Vec<User> {
    let user = |uid, gid, groups: &[u32]| {
        let machine = format!("machine of {uid}");
        User { machine, uid, gid, groups: groups.to_vec() }
    };
    vec![
        user(0, 0, &[]),
        user(1000, 100, &[200, 300]),
        user(1001, 100, &[]),
        user(1002, 400, &[200]),
    ]
}

/// A world with one server, its clients, and the reference.
pub(crate) struct Session {
    pub world: World,
    pub clients: Vec<Client>,
    pub reference: Reference,
    /// Free bytes and bytes of files, together.
    bytes: Option<u64>,
    /// How often each procedure returned each status.
    pub statuses: Statuses,
}

/// Counts by procedure and status.
pub(crate) type Statuses = BTreeMap<(u32, u32), u64>;

/// A reply to a step.
pub(crate) struct Reply {
    pub target: Target,
    pub answer: Answer,
    pub response: Response,
    /// When the call was under way.
    pub window: (Time, Time),
}

impl Reply {
    /// The status of the reply. NULL has none.
    pub(crate) fn status(&self) -> Option<nfsstat3> {
        self.answer.status(self.target)
    }
}

impl Session {
    /// Starts a server.
    ///
    /// # Errors
    /// The server's message instead of a handle of its root.
    pub(crate) fn new(seed: u64, options: WorldOptions, users: Vec<User>) -> Result<Self, String> {
        // The link count of UFS2 is unsigned, as in FreeBSD.
        let max_links = if options.design.is_ufs2() { 65_500 } else { 32_767 };
        let world = World::new(seed, options);
        world.start();
        if world.run(world.serving()) != Status::Serving {
            return Err(format!("the server does not start: {:?}", world.failure()));
        }
        let client = |(number, user): (usize, &User)| {
            // The network loses nothing, and a READ that is sent again would set the access time
            // again.
            let (user, timeout) = (user.clone(), PATIENCE);
            let options = ClientOptions { user, timeout, ..ClientOptions::default() };
            world.client(number as u32 + 1, options)
        };
        let clients: Vec<Client> = users.iter().enumerate().map(client).collect();
        let root = world.run(clients[0].mount(VOLUME)).map_err(|error| error.to_string())?;
        let info = world.run(clients[0].call(&calls::fsinfo(&root)));
        let max_file_size = info.map_err(|error| error.to_string())?.unwrap().maxfilesize;
        let reference = Reference::new(&root, (max_file_size, max_links), users);
        let mut session =
            Self { world, clients, reference, bytes: None, statuses: Statuses::new() };
        session.open_root()?;
        Ok(session)
    }

    /// Lets every user use the root directory.
    fn open_root(&mut self) -> Verdict {
        let root = self.reference.tree.nodes[0].told.handle.clone().expect("it was mounted");
        let root = nfs_fh3 { data: root.into() };
        let mode = Nfs3Option::Some(0o777);
        let open = sattr3 { mode, ..Default::default() };
        let from = self.now();
        let set = self.world.run(self.clients[0].call(&calls::setattr(&root, open)));
        set.map_err(|error| error.to_string())?.unwrap();
        let to = self.now();
        let node = &mut self.reference.tree.nodes[0];
        // The other times are those of mkfs, which no client saw.
        for stamp in [&mut node.atime, &mut node.mtime] {
            *stamp = Stamp::Within((0, 0), to);
        }
        self.reference.tree.settle(from, to);
        Ok(())
    }

    /// The time of the server's clock.
    pub(crate) fn now(&self) -> Time {
        let now = self.world.runtime().clock.wall();
        (u32::try_from(now.seconds).unwrap_or(u32::MAX), now.nanoseconds)
    }

    /// Makes the call of a step; `None` when there is none to make.
    ///
    /// # Errors
    /// When the call is never answered, refused as a call, or answered with a malformed reply.
    pub(crate) fn ask(&mut self, step: &Step) -> Result<Option<Reply>, String> {
        let request = self.reference.request(step);
        self.ask_for(step, request)
    }

    /// The same, if the caller has built the call of the step.
    ///
    /// # Errors
    /// As [`Session::ask`].
    pub(crate) fn ask_for(
        &mut self,
        step: &Step,
        request: Option<Request>,
    ) -> Result<Option<Reply>, String> {
        let Some(request) = request else { return Ok(None) };
        let target = request.target();
        let reply = self.send(step.user, target, encode(step, &request))?;
        let status = reply.status().map_or(0, |status| status as u32);
        *self.statuses.entry((target.procedure, status)).or_default() += 1;
        Ok(Some(reply))
    }

    fn send(&self, user: usize, target: Target, arguments: Bytes) -> Result<Reply, String> {
        let from = self.now();
        let call = self.clients[user].raw_call(target, arguments);
        let answer = self.world.run_for(PATIENCE, call).ok_or("it is never answered")?;
        let window = (from, self.now());
        let Answer::Results(results) = &answer else { return Err(format!("{answer:?}")) };
        let response = Response::decode(target, results);
        let response = response.ok_or_else(|| format!("no results: {results:?}"))?;
        Ok(Reply { target, answer, response, window })
    }

    /// Applies a step to both sides.
    ///
    /// # Errors
    /// Where they differ.
    pub(crate) fn perform(&mut self, step: &Step) -> Verdict {
        if step.act == Act::Restart {
            return self.restart();
        }
        match self.ask(step)? {
            Some(reply) => self.reference.judge(step, &reply.response, reply.window),
            None => Ok(()),
        }
    }

    /// Stops the server cleanly, starts it, and checks every file.
    fn restart(&mut self) -> Verdict {
        let stopped = self.world.run_for(PATIENCE, self.world.stop());
        stopped.ok_or("the server does not stop")?;
        self.world.start();
        if self.world.run_for(PATIENCE, self.world.serving()) != Some(Status::Serving) {
            return Err(format!("the server does not come back: {:?}", self.world.failure()));
        }
        self.reference.restarted();
        let held = self.look()?;
        let before = *self.bytes.get_or_insert(held);
        let most = if self.world.design().counts_all() { 0 } else { before / 100 };
        if before.abs_diff(held) <= most {
            Ok(())
        } else {
            Err(format!("{held} bytes are free or held, and there were {before}"))
        }
    }

    /// Checks every file by its handle and by its names. Returns free bytes and bytes of files,
    /// together; the sum is constant while no data waits in memory.
    ///
    /// # Errors
    /// Where the two sides differ.
    pub(crate) fn look(&mut self) -> Result<u64, String> {
        let mut held = 0;
        for act in self.looks() {
            let step = Step { number: usize::MAX, user: 0, act };
            let reply = self.ask(&step)?.ok_or_else(|| format!("no handle for {step}"))?;
            let verdict = self.reference.judge(&step, &reply.response, reply.window);
            verdict.map_err(|reason| format!("looking at everything, {step}: {reason}"))?;
            match &reply.response {
                Response::Getattr(Nfs3Result::Ok(ok)) => held += ok.obj_attributes.used,
                Response::Fsstat(Nfs3Result::Ok(ok)) => held += ok.fbytes,
                _ => {}
            }
        }
        Ok(held)
    }

    /// The checks, from the root on, so that a handle is known before it is needed.
    fn looks(&self) -> Vec<Act> {
        let tree = &self.reference.tree;
        let mut acts = vec![Act::Fsstat(Object::Of(0))];
        let (mut files, mut waiting) = (BTreeSet::from([ROOT]), vec![ROOT]);
        while let Some(directory) = waiting.pop() {
            let object = Object::Of(self.reference.at(directory).slot);
            for (name, &node) in self.reference.at(directory).entries().into_iter().flatten() {
                acts.push(Act::Lookup(object, Text(name.clone())));
                if files.insert(node) && tree.nodes[node].is_directory() {
                    waiting.push(node);
                }
            }
            acts.push(Act::Lookup(object, Text(b"..".to_vec())));
            acts.push(Act::Readdirplus(object, From::Start, 1 << 16, 1 << 18));
        }
        for node in files {
            let object = Object::Of(self.reference.at(node).slot);
            acts.push(Act::Getattr(object));
            match &self.reference.at(node).body {
                Body::Regular(content) => {
                    let end = content.size().saturating_sub(LOOK.into());
                    acts.extend([Act::Read(object, 0, LOOK), Act::Read(object, end, LOOK)]);
                }
                Body::Symlink(_) => acts.push(Act::Readlink(object)),
                Body::Directory(_) | Body::Special(..) => {}
            }
        }
        acts
    }

    /// Stops the server, and runs the checker on the disk.
    ///
    /// # Errors
    /// The checker's finding.
    pub(crate) fn finish(&self) -> Verdict {
        let stopped = self.world.run_for(PATIENCE, self.world.stop());
        stopped.ok_or("the server does not stop")?;
        match self.world.ram() {
            Some(ram) => ram.platter().check(true),
            None => {
                let design = self.world.design();
                is_well(design, design.plain_image(&self.world.contents())?)
            }
        }
    }
}

/// Whether the checker finds nothing wrong on a disk.
///
/// # Errors
/// Its first finding.
pub(crate) fn is_well(design: Design, image: sim::Image) -> Verdict {
    let executor = Executor::new(0);
    let disk: Rc<dyn BlockDevice> = Disk::new(&executor, image);
    let options = CheckOptions { full: true, ..CheckOptions::default() };
    let report = executor.block_on(design.check(&disk, &executor.runtime(), &options));
    let report = report.map_err(|error| format!("the disk cannot be checked: {error}"))?;
    match report.findings.list.iter().find(|finding| finding.severity > Severity::Note) {
        Some(finding) => Err(format!("the disk is not well: {finding}")),
        None => Ok(()),
    }
}

/// The arguments of a call. Files that MKNOD cannot make have no variant in the types.
fn encode(step: &Step, request: &Request) -> Bytes {
    match (&step.act, request) {
        (Act::Mknod(_, _, kind, ..), Request::Mknod(arguments))
            if matches!(kind, ftype3::NF3REG | ftype3::NF3DIR | ftype3::NF3LNK) =>
        {
            let mut bytes = Vec::new();
            arguments.where_.pack(&mut bytes).expect("memory takes everything");
            kind.pack(&mut bytes).expect("memory takes everything");
            bytes.into()
        }
        _ => request.encode(),
    }
}
