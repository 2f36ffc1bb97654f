//! A server that does nothing, as fast as it can: what a load generator costs by itself is measured
//! against it.
//!
//! It answers every NULL, and every GETATTR with the same attributes. What a stage needs besides
//! (MOUNT, FSINFO, a directory that can be made, listed and removed) it answers, too, with the same
//! handle for everything. Anything else ends the connection.

use std::io::{self, ErrorKind};
use std::net::TcpListener;

use nfs::mount::{self, MntOk, MntResult};
use nfs::nfs3::results::{CreateOk, FsinfoOk, Properties, ReaddirplusOk};
use nfs::nfs3::{Handle, Outcome, Procedure, Time, Verifier, Wcc};
use nfs::rpc::{self, PROGRAM_MOUNT, PROGRAM_NFS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// The first words of a call: mark, xid, CALL, RPC version, program, version, procedure.
const HEADER: usize = 28;

/// NFS3_OK, and the attributes of a file.
const ATTRIBUTES: [u32; 22] =
    [0, 1, 0o644, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0];

/// A server that can do everything.
const INFORMATION: FsinfoOk = FsinfoOk {
    attributes: None,
    read_max: 1 << 20,
    read_preferred: 1 << 20,
    read_multiple: 1,
    write_max: 1 << 20,
    write_preferred: 1 << 20,
    write_multiple: 1,
    readdir_preferred: 1 << 16,
    max_file_size: 1 << 40,
    time_delta: Time { seconds: 0, nanoseconds: 1 },
    properties: Properties {
        hard_links: true,
        symbolic_links: true,
        homogeneous: true,
        can_set_time: true,
    },
};

/// Answers on a thread of its own until the process ends.
///
/// # Errors
/// The operating system's.
pub fn start(listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        LocalSet::new().block_on(&reactor, async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            while let Ok((stream, _)) = listener.accept().await {
                tokio::task::spawn_local(answer_all(stream));
            }
        });
    });
    Ok(())
}

async fn answer_all(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut filled, mut output) = (vec![0; 64 << 10], 0, Vec::new());
    loop {
        let length = stream.read(&mut input[filled..]).await?;
        if length == 0 {
            return Ok(());
        }
        filled += length;
        let used = answer(&input[..filled], &mut output)?;
        input.copy_within(used..filled, 0);
        filled -= used;
        stream.write_all(&output).await?;
        output.clear();
    }
}

/// Answers the whole calls at the start of `input`; says how many bytes they were.
fn answer(input: &[u8], output: &mut Vec<u8>) -> io::Result<usize> {
    let mut used = 0;
    loop {
        let rest = &input[used..];
        let Some(header) = rest.first_chunk::<HEADER>() else { return Ok(used) };
        let word = |index: usize| {
            let bytes = header[4 * index..][..4].try_into().expect("four bytes of the header");
            u32::from_be_bytes(bytes)
        };
        let length = 4 + (word(0) & !(1 << 31)) as usize;
        if rest.len() < length {
            return Ok(used);
        }
        match (word(4), word(6)) {
            (PROGRAM_NFS, 0) => say(output, word(1), &[]),
            (PROGRAM_NFS, 1) => say(output, word(1), &ATTRIBUTES),
            rare => output.extend(answer_rare(word(1), rare).ok_or(ErrorKind::Unsupported)?),
        }
        used += length;
    }
}

/// A reply of these words.
fn say(output: &mut Vec<u8>, xid: u32, results: &[u32]) {
    let mark = (1 << 31) | (24 + 4 * results.len() as u32);
    for word in [mark, xid, 1, 0, 0, 0, 0].iter().chain(results) {
        output.extend_from_slice(&word.to_be_bytes());
    }
}

/// A reply to what is not measured, if it is to be answered at all.
fn answer_rare(xid: u32, (program, procedure): (u32, u32)) -> Option<Vec<u8>> {
    let handle = Handle::new(b"everything")?;
    let mut to = rpc::success(xid);
    if program == PROGRAM_MOUNT {
        match mount::Procedure::from_number(procedure)? {
            mount::Procedure::Null => {}
            mount::Procedure::Mnt => to.value(&MntResult::Ok(MntOk { handle, flavors: vec![1] })),
            _ => return None,
        }
        return Some(to.finish().concat());
    }
    match Procedure::from_number(procedure)? {
        Procedure::Fsinfo => to.value(&Outcome::<_, ()>::Ok(INFORMATION)),
        Procedure::Create | Procedure::Mkdir => {
            let (object, directory) = (Some(handle), Wcc::default());
            let made = CreateOk { object, attributes: None, directory };
            to.value(&Outcome::<_, ()>::Ok(made));
        }
        Procedure::Readdirplus => {
            let cookie_verifier = Verifier::default();
            let (directory, entries, eof) = (None, Vec::new(), true);
            let listing = ReaddirplusOk { directory, cookie_verifier, entries, eof };
            to.value(&Outcome::<_, ()>::Ok(listing));
        }
        Procedure::Remove | Procedure::Rmdir => to.value(&Outcome::<_, ()>::Ok(Wcc::default())),
        _ => return None,
    }
    Some(to.finish().concat())
}
