//! Answers NULL and GETATTR as fast as it can, on the port that is its argument, until its standard
//! input ends: `duramen bench` is measured against it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned()).parse()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = listener.local_addr()?;
    bench::null::start(listener)?;
    println!("ready: {address}");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
