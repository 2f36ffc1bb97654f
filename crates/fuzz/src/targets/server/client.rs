//! The hostile client, and its script.
//!
//! A script is a sequence of steps of [`STEP`] bytes: the call, the manner of sending it, two known
//! handles, two names, and two numbers. A damaged call takes some more bytes that locate the
//! damage.

use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use nfs::nfs3::arguments::{
    AccessArgs, CommitArgs, CreateArgs, CreateHow, DirectoryName, FsinfoArgs, FsstatArgs,
    GetattrArgs, LinkArgs, LookupArgs, MkdirArgs, MknodArgs, MknodWhat, PathconfArgs, ReadArgs,
    ReaddirArgs, ReaddirplusArgs, ReadlinkArgs, RemoveArgs, RenameArgs, RmdirArgs, SetattrArgs,
    SymlinkArgs, WriteArgs,
};
use nfs::nfs3::{Arguments, Device, Procedure, SetAttributes, SetTime, Stability, Time, Verifier};
use nfs::rpc::PROGRAM_NFS;
use nfs3_types::mount::mountres3;
use runtime::Runtime;
use sim::Prng;

use super::connection::{Answer, Connection, marked};
use super::host::{ABROAD, Server, stranger};
use super::results::{self, whole};
use crate::input::Input;
use crate::wire;

/// Bytes of a step.
const STEP: usize = 12;
/// Most handles that are remembered.
const MOST_HANDLES: usize = 64;

/// The calls to choose from, frequent ones repeated.
const MENU: [Procedure; 32] = [
    Procedure::Create,
    Procedure::Create,
    Procedure::Write,
    Procedure::Write,
    Procedure::Write,
    Procedure::Read,
    Procedure::Setattr,
    Procedure::Setattr,
    Procedure::Mkdir,
    Procedure::Mkdir,
    Procedure::Remove,
    Procedure::Remove,
    Procedure::Rmdir,
    Procedure::Rename,
    Procedure::Rename,
    Procedure::Link,
    Procedure::Symlink,
    Procedure::Mknod,
    Procedure::Lookup,
    Procedure::Lookup,
    Procedure::Readdir,
    Procedure::Readdirplus,
    Procedure::Commit,
    Procedure::Getattr,
    Procedure::Access,
    Procedure::Readlink,
    Procedure::Fsstat,
    Procedure::Fsinfo,
    Procedure::Pathconf,
    Procedure::Null,
    Procedure::Write,
    Procedure::Create,
];

/// The manner of sending a call.
enum Manner {
    /// Correctly.
    Whole,
    /// Twice, with the same number (xid).
    Twice,
    /// Together with the next ones, in one piece.
    Together,
    /// With some bytes changed.
    Damaged,
    /// With the record's mark changed, or a part of it missing.
    Unmarked,
    /// From many addresses that no export admits.
    Crowd,
    /// Without waiting for the reply.
    Left,
}

fn manner(byte: u8) -> Manner {
    match byte {
        0..130 => Manner::Whole,
        130..150 => Manner::Twice,
        150..180 => Manner::Together,
        180..240 => Manner::Damaged,
        240..245 => Manner::Unmarked,
        245..248 => Manner::Crowd,
        _ => Manner::Left,
    }
}

/// The rest of a step.
struct Draw {
    procedure: Procedure,
    handles: [Vec<u8>; 2],
    names: [Vec<u8>; 2],
    x: u32,
    y: u16,
}

pub(super) struct Hostile<'a> {
    server: &'a Server,
    connection: Connection,
    /// Handles of earlier replies. The first is the directory in which every user may write.
    handles: Vec<Vec<u8>>,
}

impl<'a> Hostile<'a> {
    pub(super) async fn arrive(server: &'a Server) -> Self {
        let mut connection = Connection::new(server, ABROAD);
        let path = wire::bytes_of(|to| to.opaque(b"/data"));
        let root = match whole(&connection.mount(1, &path).await) {
            mountres3::Ok(ok) => ok.fhandle.0.to_vec(),
            mountres3::Err(status) => panic!("{status:?}"),
        };
        let playground = connection.lookup(&root, "playground").await;
        let good = connection.lookup(&root, "good").await;
        Self { server, connection, handles: vec![playground, root, good] }
    }

    /// Performs the next step of the script.
    pub(super) async fn act(&mut self, input: &mut Input<'_>) {
        let (draw, how) = self.draw(input);
        let (xid, call) = self.call(&draw);
        match how {
            Manner::Whole => {
                let answers = self.connection.send(&marked(&call)).await.expect("a whole record");
                self.take(&[draw], answers);
            }
            Manner::Twice => {
                let twice = [marked(&call), marked(&call)].concat();
                let answers = self.connection.send(&twice).await.expect("two whole records");
                if let (true, [Answer::Results(first), Answer::Results(second)]) =
                    (is_once(draw.procedure), &answers[..])
                {
                    assert_eq!(first, second, "call {xid} is answered again and not repeated");
                }
            }
            Manner::Together => self.together(draw, call, input).await,
            Manner::Damaged => {
                let mut call = call;
                damage(&mut call, input);
                self.send_broken(&marked(&call)).await;
            }
            Manner::Unmarked => {
                let mut record = marked(&call);
                let place = usize::from(input.u8() % 4);
                record[place] = input.u8();
                record.truncate(usize::from(input.u16()).max(4));
                self.send_broken(&record).await;
            }
            Manner::Crowd => {
                for number in 0..1 + draw.x % 40 {
                    let mut stranger = Connection::new(self.server, stranger(number));
                    let answers = stranger.send(&marked(&call)).await.expect("a whole record");
                    let is_let_in = |answer: &Answer| match answer {
                        Answer::Results(results) => results.starts_with(&[0; 4]),
                        Answer::Silence | Answer::Refusal => false,
                    };
                    assert!(!answers.iter().any(is_let_in), "a stranger is let in");
                }
            }
            Manner::Left => self.leave(&marked(&call), draw.x).await,
        }
    }

    async fn together(&mut self, draw: Draw, call: Vec<u8>, input: &mut Input<'_>) {
        let mut draws = vec![draw];
        let mut records = marked(&call);
        for _ in 0..1 + input.u8() % 5 {
            let (draw, _) = self.draw(input);
            records.extend(marked(&self.call(&draw).1));
            draws.push(draw);
        }
        let answers = self.connection.send(&records).await.expect("whole records");
        self.take(&draws, answers);
    }

    /// Sends bytes that may not be a whole record. A client that is stuck within one hangs up, as
    /// clients do.
    async fn send_broken(&mut self, bytes: &[u8]) {
        let answers = self.connection.send(bytes).await;
        if answers.is_none() || self.connection.is_within() {
            self.connection.renew(self.server, ABROAD);
        }
    }

    /// Sends a call and hangs up after a time.
    async fn leave(&mut self, record: &[u8], x: u32) {
        let Runtime { clock, .. } = &self.server.runtime;
        let patience = clock.sleep(Duration::from_nanos((x % 2_000_000).into()));
        match select(Box::pin(self.connection.send(record)), patience).await {
            Either::Left((answers, _)) => assert!(answers.is_some(), "a whole record"),
            Either::Right(((), sending)) => drop(sending),
        }
        self.connection.renew(self.server, ABROAD);
    }

    /// Checks the answers to undamaged calls, and remembers handles.
    fn take(&mut self, draws: &[Draw], answers: Vec<Answer>) {
        assert_eq!(draws.len(), answers.len(), "an answer for each call");
        for (draw, answer) in draws.iter().zip(answers) {
            let Answer::Results(results) = answer else {
                panic!("{} was not damaged: {answer:?}", draw.procedure.name());
            };
            let handles = results::read(&draw.arguments(), &results);
            self.handles.extend(handles);
        }
        if self.handles.len() > MOST_HANDLES {
            let surplus = self.handles.len() - MOST_HANDLES;
            self.handles.drain(3..3 + surplus);
        }
    }

    fn draw(&self, input: &mut Input<'_>) -> (Draw, Manner) {
        let procedure = *input.pick(&MENU);
        let manner = manner(input.u8());
        let handles = [(); 2].map(|()| input.pick(&self.handles).clone());
        let names = [(); 2].map(|()| name(input.u8()));
        (Draw { procedure, handles, names, x: input.u32(), y: input.u16() }, manner)
    }

    fn call(&mut self, draw: &Draw) -> (u32, Vec<u8>) {
        let xid = self.connection.xid();
        let arguments = wire::bytes_of(|to| wire::nfs_arguments(to, &draw.arguments()));
        let target = [PROGRAM_NFS, 3, draw.procedure as u32];
        (xid, self.connection.call_bytes(xid, target, &arguments))
    }
}

/// Whether a repeated call gets the first one's answer.
fn is_once(procedure: Procedure) -> bool {
    use Procedure::*;
    matches!(
        procedure,
        Setattr | Write | Create | Mkdir | Symlink | Mknod | Remove | Rmdir | Rename | Link
    )
}

/// Names, some of them invalid.
fn name(index: u8) -> Vec<u8> {
    match index {
        0..180 => format!("n{}", index % 24).into_bytes(),
        180..220 => vec![b'l'; usize::from(index)],
        220..230 => vec![b'm'; 255],
        230 => vec![b'm'; 256],
        231 => Vec::new(),
        232..236 => b".".to_vec(),
        236..240 => b"..".to_vec(),
        240 => b"a/b".to_vec(),
        241 => b"nul\0".to_vec(),
        242 => vec![b'o'; 5000],
        _ => vec![0xff, index],
    }
}

fn damage(call: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..1 + input.u8() % 3 {
        let at = usize::from(input.u16()) % call.len();
        let (kind, value) = (input.u8(), input.u8());
        match kind % 5 {
            0 => call[at] ^= 1 << (value % 8),
            1 => call[at] = value,
            2 => call.truncate(at.max(1)),
            _ => {
                let at = at - at % 4;
                let number = [0, 1, 0x7fff_ffff, u32::MAX, 0x8000_0000, value.into()];
                let number = number[usize::from(value) % number.len()].to_be_bytes();
                if let Some(word) = call.get_mut(at..at + 4) {
                    word.copy_from_slice(&number);
                }
            }
        }
    }
}

impl Draw {
    /// An offset or a size: mostly near the start of a file.
    fn offset(&self) -> u64 {
        let x = u64::from(self.x);
        match self.y % 16 {
            0 => u64::MAX - x % 5,
            1 => x << 20,
            2 => x,
            3 => x % 3_000_000,
            _ => x % 70_000,
        }
    }

    fn attributes(&self) -> SetAttributes {
        let is = |bit: u32| self.x >> bit & 1 == 1;
        let time = |bit: u32| match self.x >> bit & 3 {
            0 | 1 => None,
            2 => Some(SetTime::Now),
            _ => Some(SetTime::To(Time { seconds: self.x, nanoseconds: self.x })),
        };
        SetAttributes {
            mode: is(0).then_some(self.x >> 8),
            uid: is(1).then_some(self.y.into()),
            gid: (self.x & 12 == 12).then_some(65_534),
            size: is(4).then(|| self.offset()),
            atime: time(5),
            mtime: time(6),
        }
    }

    /// Attributes for a new file: mostly ones that let every user use it.
    fn new_attributes(&self) -> SetAttributes {
        if self.y.is_multiple_of(8) {
            return self.attributes();
        }
        SetAttributes { mode: Some(0o777), ..SetAttributes::default() }
    }

    fn arguments(&self) -> Arguments<'_> {
        let [object, other] = [&self.handles[0][..], &self.handles[1][..]];
        let what = DirectoryName { directory: object, name: &self.names[0] };
        let to = DirectoryName { directory: other, name: &self.names[1] };
        let (offset, count) = (self.offset(), u32::from(self.y) * 3);
        let cookie_verifier = Verifier::default();
        let cookie = if self.y.is_multiple_of(4) { self.x.into() } else { 0 };
        match self.procedure {
            Procedure::Null => Arguments::Null,
            Procedure::Getattr => Arguments::Getattr(GetattrArgs { object }),
            Procedure::Setattr => Arguments::Setattr(SetattrArgs {
                object,
                attributes: self.attributes(),
                guard: self.y.is_multiple_of(16).then(Time::default),
            }),
            Procedure::Lookup => Arguments::Lookup(LookupArgs { what }),
            Procedure::Access => Arguments::Access(AccessArgs { object, access: self.x }),
            Procedure::Readlink => Arguments::Readlink(ReadlinkArgs { symlink: object }),
            Procedure::Read => Arguments::Read(ReadArgs { file: object, offset, count }),
            Procedure::Write => self.write(object, offset),
            Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
                self.make(what)
            }
            Procedure::Remove => Arguments::Remove(RemoveArgs { object: what }),
            Procedure::Rmdir => Arguments::Rmdir(RmdirArgs { object: what }),
            Procedure::Rename => Arguments::Rename(RenameArgs { from: what, to }),
            Procedure::Link => Arguments::Link(LinkArgs { file: object, link: to }),
            Procedure::Readdir => Arguments::Readdir(ReaddirArgs {
                directory: object,
                cookie,
                cookie_verifier,
                count,
            }),
            Procedure::Readdirplus => Arguments::Readdirplus(ReaddirplusArgs {
                directory: object,
                cookie,
                cookie_verifier,
                dircount: self.x % 40_000,
                maxcount: count,
            }),
            Procedure::Fsstat => Arguments::Fsstat(FsstatArgs { root: object }),
            Procedure::Fsinfo => Arguments::Fsinfo(FsinfoArgs { root: object }),
            Procedure::Pathconf => Arguments::Pathconf(PathconfArgs { object }),
            Procedure::Commit => Arguments::Commit(CommitArgs { file: object, offset, count }),
        }
    }

    /// WRITE; now and then with a count that differs from the length of the data.
    fn write<'b>(&self, file: &'b [u8], offset: u64) -> Arguments<'b> {
        let length = if self.y.is_multiple_of(8) { self.y } else { self.y % 6000 };
        let count = if self.y % 64 == 63 { self.x } else { length.into() };
        let stable = [Stability::Unstable, Stability::DataSync, Stability::FileSync];
        let stable = stable[self.x as usize % 3];
        let data = Bytes::from(vec![self.x as u8; length.into()]);
        Arguments::Write(WriteArgs { file, offset, count, stable, data: vec![data] })
    }

    fn make<'b>(&'b self, location: DirectoryName<'b>) -> Arguments<'b> {
        let attributes = self.new_attributes();
        let device = Device { major: self.x, minor: self.y.into() };
        match self.procedure {
            Procedure::Create => {
                let verifier = Verifier((u64::from(self.x) << 7).to_be_bytes());
                let how = match self.y % 3 {
                    0 => CreateHow::Unchecked(attributes),
                    1 => CreateHow::Guarded(attributes),
                    _ => CreateHow::Exclusive(verifier),
                };
                Arguments::Create(CreateArgs { location, how })
            }
            Procedure::Mkdir => Arguments::Mkdir(MkdirArgs { location, attributes }),
            Procedure::Symlink => {
                let target = &self.names[1];
                Arguments::Symlink(SymlinkArgs { location, attributes, target })
            }
            _ => {
                let what = match self.x % 4 {
                    0 => MknodWhat::CharacterDevice(attributes, device),
                    1 => MknodWhat::BlockDevice(attributes, device),
                    2 => MknodWhat::Socket(attributes),
                    _ => MknodWhat::Fifo(attributes),
                };
                Arguments::Mknod(MknodArgs { location, what })
            }
        }
    }
}

/// Adds a step to a script: mostly in the directory where every user may write.
pub(super) fn generate(prng: &mut Prng, script: &mut Vec<u8>) {
    let start = script.len();
    let how = if prng.chance(3, 4) { prng.below(150) } else { prng.below(256) };
    let handle = |prng: &mut Prng| if prng.chance(1, 2) { 0 } else { prng.below(64) as u8 };
    let name = |prng: &mut Prng| {
        let names = if prng.chance(9, 10) { 180 } else { 256 };
        prng.below(names) as u8
    };
    script.extend([prng.below(MENU.len() as u64) as u8, how as u8]);
    script.extend([handle(prng), handle(prng), name(prng), name(prng)]);
    script.extend((prng.next_u64() as u32).to_le_bytes());
    script.extend((prng.next_u64() as u16).to_le_bytes());
    debug_assert_eq!(script.len() - start, STEP);
    if matches!(manner(how as u8), Manner::Together | Manner::Damaged | Manner::Unmarked) {
        script.push(prng.next_u64() as u8);
    }
}
