//! A server that only moves bytes, until its standard input ends. Its arguments are a port; `apart`
//! or `together`, the way it waits for calls; optionally a device or a file to write to, so that
//! changes are durable before they are answered; and `keep` to answer READs from memory.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use bench::bare::{self, Manner, Store};
use block::file::{Access, DiskFile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().unwrap_or_else(|| "0".to_owned()).parse()?;
    let manner = match arguments.next().as_deref() {
        Some("apart") => Manner::Apart,
        None | Some("together") => Manner::Together,
        Some(other) => return Err(format!("'{other}' is neither apart nor together").into()),
    };
    let disk = arguments.next().map(|path| DiskFile::open(Path::new(&path), Access::ReadWrite));
    let keeps = arguments.next().is_some_and(|word| word == "keep");
    let store = disk.transpose()?.map(|disk| Store::new(Box::new(disk.past_cache()), keeps));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = listener.local_addr()?;
    bare::start(listener, manner, store)?;
    println!("ready: {address}");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
