//! A server that does nothing, as fast as it can: what a load generator costs by itself is measured
//! against it.
//!
//! It answers every NULL, and every GETATTR with the same attributes. Anything else ends the
//! connection.

use std::io;
use std::net::TcpListener;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// The first words of a call: mark, xid, CALL, RPC version, program, version, procedure.
const HEADER: usize = 28;

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
        let results: &[u32] = match word(6) {
            0 => &[],
            1 => &[0, 1, 0o644, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0],
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let mark = (1 << 31) | (24 + 4 * results.len() as u32);
        for word in [mark, word(1), 1, 0, 0, 0, 0].iter().chain(results) {
            output.extend_from_slice(&word.to_be_bytes());
        }
        used += length;
    }
}
