//! One target for each decoder that meets bytes of others.
//!
//! | target | the bytes are |
//! |---|---|
//! | `record` | a TCP connection, and how it is cut into reads |
//! | `rpc-call` | a record: header, credential, and the arguments of whatever it calls |
//! | `nfs-arguments`, `mount-arguments` | a procedure's number and its arguments |
//! | `nfs-replies` | a procedure's number, and what a server answers to it |
//! | `portmap` | what a port mapper answers |
//! | `raid-label`, `raid-record` | what a disk of a set says of itself, and what its log has |
//! | `trace` | the file of a recorded load |
//! | `handle` | a file handle that a client sends back |
//! | `superblock`, `group-block` | the shape of a disk, and one of its groups |
//! | `inode`, `indirect-block`, `directory-chunk` | the metadata of files |
//! | `volume-toml`, `duramen-toml` | what a person wrote |
//! | `disk` | damage of a whole disk, which is opened and used |
//! | `log` | damage of the log of a volume that was cut, which is replayed and used |
//! | `shadow-anchor`, `shadow-superblock`, `shadow-block` | blocks of a volume of engine `shadow` |
//! | `shadow` | damage of a whole volume of it, which is opened, used, scrubbed and repaired |
//! | `server` | what a client does to the whole server |
//!
//! Disks are of both byte orders where the decoder is.

mod directory;
mod disk;
mod group;
mod handle;
mod indirect;
mod inode;
mod log;
mod mount;
mod nfs3;
mod portmap;
mod raid;
mod record;
mod replies;
mod rpc;
pub mod server;
mod settings;
mod shadow;
mod superblock;
mod trace;
mod volume;

use sim::Prng;

/// A decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called on the command line and in the folders of inputs.
    pub name: &'static str,
    /// Feeds the bytes to the decoder, and panics when it does not keep a promise.
    pub check: fn(&[u8]),
    /// Makes an input that is valid, or nearly so.
    pub generate: fn(&mut Prng) -> Vec<u8>,
    /// The longest input that damage makes, in bytes.
    pub longest: usize,
    /// What a case may allocate at once, beyond a multiple of its input, in bytes.
    pub memory: usize,
}

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// What a case with an input of this length may allocate at once, in bytes.
    pub fn allowance(&self, length: usize) -> usize {
        /// Decoding, encoding and comparing hold several copies of what was put in.
        const COPIES: usize = 64;
        self.memory + COPIES * length
    }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    record::TARGET,
    rpc::TARGET,
    nfs3::TARGET,
    replies::TARGET,
    mount::TARGET,
    portmap::TARGET,
    trace::TARGET,
    handle::TARGET,
    superblock::TARGET,
    group::TARGET,
    inode::TARGET,
    indirect::TARGET,
    directory::TARGET,
    raid::LABEL,
    raid::RECORD,
    settings::VOLUME,
    settings::SERVER,
    disk::TARGET,
    log::TARGET,
    shadow::blocks::ANCHOR,
    shadow::blocks::SUPERBLOCK,
    shadow::blocks::BLOCK,
    shadow::TARGET,
    server::TARGET,
];

/// Some bytes, mostly few.
fn some_bytes(prng: &mut Prng, most: usize) -> Vec<u8> {
    let most = 1 + prng.index(most);
    let mut bytes = vec![0; prng.index(most + 1)];
    prng.fill(&mut bytes);
    bytes
}
