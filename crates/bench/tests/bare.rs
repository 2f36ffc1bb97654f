//! The bare server does honest work: data that was written and committed is on the medium, once,
//! and is what READs return; and a change is answered after a flush behind its write has ended, not
//! before. Media that make mistakes show that these tests notice.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::bare::{self, Manner, Medium, Store};
use bytes::Bytes;
use nfs::nfs3::arguments::{CommitArgs, CreateArgs, CreateHow, DirectoryName, MkdirArgs, ReadArgs};
use nfs::nfs3::arguments::{RemoveArgs, RmdirArgs, WriteArgs};
use nfs::nfs3::{Handle, Outcome, Request, SetAttributes, Stability, VERSION};
use nfs::rpc::{self, Caller, PROGRAM_NFS, Reply};
use nfs::xdr::Decoder;

const BLOCK: usize = 64 << 10;
const PIECE: u64 = 1 << 20;

/// Eight pieces for files, and one for the journal.
const SIZE: u64 = 9 * PIECE;

#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    None,
    /// A COMMIT does not flush.
    NoFlush,
    /// Every write goes to the place of the first.
    OnePlace,
    /// The last write to a piece is forgotten.
    Short,
}

/// Memory in which writes are lost until a flush.
struct Memory {
    written: Mutex<Vec<u8>>,
    durable: Mutex<Vec<u8>>,
    mistake: Mistake,
}

struct Shared(Arc<Memory>);

impl Medium for Shared {
    fn size(&self) -> u64 {
        SIZE
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(
            &self.0.written.lock().expect("memory")[offset as usize..][..bytes.len()],
        );
        Ok(())
    }

    fn write(&self, offset: u64, blocks: &[Bytes]) -> io::Result<()> {
        let mut bytes = blocks.concat();
        if self.0.mistake == Mistake::Short {
            bytes.truncate(bytes.len().saturating_sub(BLOCK));
        }
        let start = if self.0.mistake == Mistake::OnePlace { 0 } else { offset as usize };
        self.0.written.lock().expect("memory")[start..][..bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        if self.0.mistake != Mistake::NoFlush {
            let written = self.0.written.lock().expect("memory");
            self.0.durable.lock().expect("memory").copy_from_slice(&written);
        }
        Ok(())
    }
}

/// Starts a server on a medium.
fn start(medium: impl Medium + 'static, manner: Manner, keeps: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens");
    let store = Store::new(Box::new(medium), keeps);
    bare::start(listener, manner, Some(store)).expect("it starts");
    address
}

struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Client {
        Client(TcpStream::connect(address).expect("it listens"))
    }

    fn call<R: Request>(&mut self, arguments: &R) -> Outcome<R::Ok, R::About> {
        self.send(arguments);
        self.receive::<R>()
    }

    fn send<R: Request>(&mut self, arguments: &R) {
        let (procedure, caller) = (R::PROCEDURE as u32, Caller::none());
        let mut to = rpc::call(1, PROGRAM_NFS, VERSION, procedure, &caller);
        to.value(arguments);
        self.0.write_all(&to.finish().concat()).expect("it listens");
    }

    fn receive<R: Request>(&mut self) -> Outcome<R::Ok, R::About> {
        let mut mark = [0; 4];
        self.0.read_exact(&mut mark).expect("it answers");
        let mut record = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
        self.0.read_exact(&mut record).expect("it answers");
        let record = Bytes::from(record);
        let reply = Reply::decode(Decoder::new(&record)).expect("a reply");
        R::results(reply.results.expect("it is not refused")).expect("results")
    }

    fn create(&mut self, name: &[u8]) -> Handle {
        let location = DirectoryName { directory: b"home", name };
        let how = CreateHow::Unchecked(SetAttributes::default());
        let made = self.call(&CreateArgs { location, how }).expect("it is made");
        made.object.expect("a handle")
    }

    /// Whether there is an answer, now or in a moment.
    fn is_answered(&mut self) -> bool {
        self.0.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
        let found = self.0.peek(&mut [0]);
        self.0.set_read_timeout(None).expect("a socket");
        match found {
            Ok(length) => length > 0,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn write(&mut self, file: &Handle, offset: u64, data: Bytes) {
        let (count, stable) = (data.len() as u32, Stability::Unstable);
        let arguments =
            WriteArgs { file: file.as_bytes(), offset, count, stable, data: vec![data] };
        assert!(self.call(&arguments).is_ok_and(|written| written.count == count));
    }

    fn commit(&mut self, file: &Handle) {
        let arguments = CommitArgs { file: file.as_bytes(), offset: 0, count: 0 };
        assert!(self.call(&arguments).is_ok());
    }

    fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Vec<u8> {
        let arguments = ReadArgs { file: file.as_bytes(), offset, count };
        self.call(&arguments).expect("it is read").data.concat()
    }
}

/// Blocks that each have unique contents.
fn blocks(numbers: impl IntoIterator<Item = u64>) -> Bytes {
    let block = |number: u64| number.to_le_bytes().repeat(BLOCK / 8);
    numbers.into_iter().map(block).collect::<Vec<_>>().concat().into()
}

/// Writes, overwrites, commits and reads two files. Returns the numbers of the blocks that are not
/// on stable storage exactly once, and whether the data read is the data written.
fn lost(mistake: Mistake, manner: Manner, keeps: bool) -> (BTreeSet<u64>, bool) {
    let memory = || Mutex::new(vec![0; SIZE as usize]);
    let memory = Arc::new(Memory { written: memory(), durable: memory(), mistake });
    let address = start(Shared(memory.clone()), manner, keeps);
    let mut client = Client::connect(address);
    let (one, other) = (client.create(b"one"), client.create(b"other"));
    // A piece in blocks, a piece at once, and parts of two pieces.
    for number in 0..16 {
        client.write(&one, number * BLOCK as u64, blocks([100 + number]));
        if number == 7 {
            client.write(&other, 0, blocks(200..216));
        }
    }
    for block in [0, 1, 2, 9, 15] {
        client.write(&one, PIECE + block * BLOCK as u64, blocks([116 + block]));
    }
    client.write(&other, PIECE, blocks(216..220));
    client.commit(&one);
    client.commit(&other);
    client.write(&other, 3 * BLOCK as u64, blocks([303]));
    client.commit(&other);
    let expected = (100..119).chain([125, 131]).chain(200..220).chain([303]).filter(|&n| n != 203);
    let durable = memory.durable.lock().expect("memory").clone();
    let times = |number| {
        let expected = blocks([number]);
        durable.chunks(BLOCK).filter(|&block| block == expected).count()
    };
    let lost = expected.filter(|&number| times(number) != 1).collect();
    let changed: Vec<u64> = (200..203).chain([303]).chain(204..216).collect();
    let is_right = client.read(&one, 0, PIECE as u32) == blocks(100..116)
        && client.read(&other, 0, PIECE as u32) == blocks(changed)
        && client.read(&one, PIECE + 9 * BLOCK as u64, BLOCK as u32) == blocks([125])
        && client.read(&other, PIECE, 4 * BLOCK as u32) == blocks(216..220);
    (lost, is_right)
}

#[test]
fn what_was_committed_is_on_the_medium_and_is_what_is_read() {
    for manner in [Manner::Apart, Manner::Together] {
        for keeps in [false, true] {
            let found = lost(Mistake::None, manner, keeps);
            assert_eq!(found, (BTreeSet::new(), true), "{manner:?}, keeps {keeps}");
        }
    }
}

#[test]
fn a_mistake_is_noticed() {
    let everything = lost(Mistake::NoFlush, Manner::Apart, false).0.len();
    assert_eq!(everything, 41, "nothing is on stable storage");
    let (missing, is_right) = lost(Mistake::OnePlace, Manner::Apart, false);
    assert!(missing.contains(&100) && !is_right, "{missing:?}");
    let (missing, is_right) = lost(Mistake::Short, Manner::Together, true);
    assert!(missing.contains(&115) && is_right, "what is kept is right: {missing:?}");
}

#[test]
fn what_no_load_of_the_race_asks_for_is_refused() {
    let memory = || Mutex::new(vec![0; SIZE as usize]);
    let memory = Memory { written: memory(), durable: memory(), mistake: Mistake::None };
    let address = start(Shared(Arc::new(memory)), Manner::Apart, false);
    let mut client = Client::connect(address);
    let file = client.create(b"file");
    let mut write = |offset, data: Bytes| {
        let (count, stable) = (data.len() as u32, Stability::Unstable);
        let arguments =
            WriteArgs { file: file.as_bytes(), offset, count, stable, data: vec![data] };
        client.call(&arguments).is_ok()
    };
    assert!(!write(0, blocks([1]).slice(..BLOCK / 4)), "part of a block");
    assert!(!write(BLOCK as u64 / 4, blocks([1])), "parts of two blocks");
    assert!(!write(PIECE - BLOCK as u64, blocks([1, 2])), "parts of two pieces");
    assert!(write(7 * PIECE, blocks([1])), "the first place");
    for piece in 0..7 {
        assert!(write(piece * PIECE, blocks([1])), "places that are left");
    }
    assert!(!write(9 * PIECE, blocks([1])), "it is full");
}

/// A medium that reports each request, and ends a flush when the test allows it.
struct Gate {
    told: Sender<Told>,
    /// Whether a flush succeeds; no message until it may end.
    opened: Mutex<Receiver<bool>>,
}

#[derive(Debug, PartialEq)]
enum Told {
    Write(u64, Bytes),
    Flush,
}

impl Medium for Gate {
    fn size(&self) -> u64 {
        SIZE
    }

    fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn write(&self, offset: u64, blocks: &[Bytes]) -> io::Result<()> {
        self.told.send(Told::Write(offset, blocks.concat().into())).map_err(io::Error::other)
    }

    fn flush(&self) -> io::Result<()> {
        self.told.send(Told::Flush).map_err(io::Error::other)?;
        match self.opened.lock().expect("one at a time").recv() {
            Ok(true) => Ok(()),
            _ => Err(io::Error::other("planted")),
        }
    }
}

/// A server on a gate, the gate's reports, and the sender that lets a flush end.
fn gated(manner: Manner) -> (SocketAddr, Receiver<Told>, Sender<bool>) {
    let ((told, hears), (opens, opened)) = (channel(), channel());
    (start(Gate { told, opened: Mutex::new(opened) }, manner, false), hears, opens)
}

fn next(hears: &Receiver<Told>) -> Told {
    hears.recv_timeout(Duration::from_secs(10)).expect("the medium is asked for something")
}

/// A call that changes something durably.
#[derive(Clone, Copy, Debug)]
enum Change {
    Create,
    Mkdir,
    Remove,
    Rmdir,
    Write(Stability),
}

const CHANGES: [Change; 6] = [
    Change::Create,
    Change::Mkdir,
    Change::Remove,
    Change::Rmdir,
    Change::Write(Stability::DataSync),
    Change::Write(Stability::FileSync),
];

const PAYLOAD: &[u8] = &[0x5a; 1000];

impl Change {
    fn send(self, client: &mut Client) {
        let object = DirectoryName { directory: b"home", name: b"name" };
        match self {
            Change::Create => {
                let how = CreateHow::Unchecked(SetAttributes::default());
                client.send(&CreateArgs { location: object, how });
            }
            Change::Mkdir => {
                let attributes = SetAttributes::default();
                client.send(&MkdirArgs { location: object, attributes });
            }
            Change::Remove => client.send(&RemoveArgs { object }),
            Change::Rmdir => client.send(&RmdirArgs { object }),
            Change::Write(stable) => {
                let (count, data) = (PAYLOAD.len() as u32, Bytes::from_static(PAYLOAD));
                client.send(&WriteArgs {
                    file: b"name",
                    offset: 3,
                    count,
                    stable,
                    data: vec![data],
                });
            }
        }
    }

    /// Whether the change succeeded, once it is answered.
    fn outcome(self, client: &mut Client) -> bool {
        match self {
            Change::Create => client.receive::<CreateArgs<'_>>().is_ok(),
            Change::Mkdir => client.receive::<MkdirArgs<'_>>().is_ok(),
            Change::Remove => client.receive::<RemoveArgs<'_>>().is_ok(),
            Change::Rmdir => client.receive::<RmdirArgs<'_>>().is_ok(),
            Change::Write(stable) => client.receive::<WriteArgs<'_>>().is_ok_and(|written| {
                (written.count as usize, written.committed) == (PAYLOAD.len(), stable)
            }),
        }
    }
}

#[test]
fn a_change_is_answered_when_a_flush_behind_its_write_has_ended() {
    for manner in [Manner::Apart, Manner::Together] {
        let (address, hears, opens) = gated(manner);
        let mut client = Client::connect(address);
        for (number, change) in CHANGES.into_iter().enumerate() {
            change.send(&mut client);
            let Told::Write(offset, blocks) = next(&hears) else { panic!("a write is first") };
            assert_eq!(offset, 8 * PIECE + number as u64 * 4096, "behind the files, in turn");
            assert_eq!(blocks.len(), 4096);
            let has_payload = blocks.windows(PAYLOAD.len()).any(|part| part == PAYLOAD);
            assert_eq!(has_payload, matches!(change, Change::Write(_)), "{change:?}");
            assert_eq!(next(&hears), Told::Flush);
            assert!(!client.is_answered(), "{change:?} {manner:?}");
            opens.send(true).expect("it waits");
            assert!(change.outcome(&mut client), "{change:?} {manner:?}");
        }
    }
}

#[test]
fn what_comes_during_a_flush_shares_the_next() {
    for manner in [Manner::Apart, Manner::Together] {
        let (address, hears, opens) = gated(manner);
        let mut clients = CHANGES.map(|_| Client::connect(address));
        CHANGES[0].send(&mut clients[0]);
        assert!(matches!(next(&hears), Told::Write(..)));
        CHANGES.iter().zip(&mut clients).skip(1).for_each(|(change, client)| change.send(client));
        assert!(!clients.iter_mut().any(Client::is_answered), "{manner:?}");
        CHANGES.iter().for_each(|_| opens.send(true).expect("it waits"));
        let mut pairs = CHANGES.iter().zip(&mut clients);
        assert!(pairs.all(|(change, client)| change.outcome(client)), "{manner:?}");
        let flushes = hears.try_iter().filter(|told| *told == Told::Flush).count();
        assert!((2..CHANGES.len()).contains(&flushes), "{manner:?}: {flushes} flushes");
    }
}

#[test]
fn when_a_flush_has_failed_no_change_succeeds() {
    for manner in [Manner::Apart, Manner::Together] {
        for change in CHANGES {
            let (address, hears, opens) = gated(manner);
            opens.send(false).expect("it waits");
            let mut client = Client::connect(address);
            for later in [change].into_iter().chain(CHANGES) {
                later.send(&mut client);
                assert!(!later.outcome(&mut client), "{later:?} after {change:?} {manner:?}");
            }
            assert_eq!(hears.try_iter().count(), 2, "one write and one flush");
        }
    }
}
