//! One target for each decoder of untrusted bytes.
//!
//! | target | the bytes are |
//! |---|---|
//! | `record` | a TCP connection, and how it is cut into reads |
//! | `rpc-call` | a record: header, credential, and arguments of the procedure that it calls |
//! | `nfs-arguments`, `mount-arguments` | a procedure's number and its arguments |
//! | `nfs-replies` | a procedure's number, and a server's answer to it |
//! | `portmap` | a port mapper's answer |
//! | `raid-label`, `raid-record` | the label of a disk of a set, and records of its log |
//! | `trace` | the file of a recorded load |
//! | `handle` | a file handle that a client sends back |
//! | `superblock`, `group-block` | the shape of a disk, and one of its groups |
//! | `inode`, `indirect-block`, `directory-chunk` | the metadata of files |
//! | `volume-toml`, `duramen-toml` | a configuration file |
//! | `disk` | damage of a whole disk, which is opened and used |
//! | `log` | damage of the log of a volume that was cut, which is replayed and used |
//! | `shadow-anchor`, `shadow-superblock`, `shadow-block` | blocks of a volume of engine `shadow` |
//! | `shadow` | damage of a whole volume of it, which is opened, used, scrubbed and repaired |
//! | `lfs-contents`, `lfs-block` | summaries, regions and the table of a volume of engine `lfs` |
//! | `server` | a client's actions on the whole server |
//!
//! Disks are of both byte orders where the decoder is.

mod directory;
mod disk;
mod group;
mod handle;
mod indirect;
mod inode;
mod lfs;
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
    /// The name on the command line and of the input folders.
    pub name: &'static str,
    /// Feeds the bytes to the decoder, and panics when it breaks a promise.
    pub check: fn(&[u8]),
    /// Generates an input that is valid, or nearly so.
    pub generate: fn(&mut Prng) -> Vec<u8>,
    /// The longest input that mutation produces, in bytes.
    pub longest: usize,
    /// Peak allocation of a case, beyond a multiple of its input, in bytes.
    pub memory: usize,
}

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Peak allocation allowed for a case with an input of this length, in bytes.
    pub fn allowance(&self, length: usize) -> usize {
        /// Decoding, encoding and comparing hold several copies of the input.
        const COPIES: usize = 64;
        self.memory + COPIES * length
    }
}

/// All targets.
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
    lfs::CONTENTS,
    lfs::BLOCK,
    server::TARGET,
];

/// Random bytes, mostly few.
fn some_bytes(prng: &mut Prng, most: usize) -> Vec<u8> {
    let most = 1 + prng.index(most);
    let mut bytes = vec![0; prng.index(most + 1)];
    prng.fill(&mut bytes);
    bytes
}
