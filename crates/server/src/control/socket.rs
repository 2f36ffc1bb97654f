//! The socket of a volume: a path, and the listener on it.
//!
//! The mode is set before the socket has a name, so that other users can never connect. A socket
//! that a killed server left behind refuses connections, and is replaced; a socket on which a
//! server listens is left alone. A path that is too long for a socket address is reached through
//! its folder.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Access for the server's user only.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Maximum number of connections that wait in the kernel.
const BACKLOG: i32 = 64;
/// Maximum length of a path in a socket address.
const LONGEST: usize = 107;

/// A socket that we own. Dropping it removes it, unless another socket has its path.
pub struct Socket {
    path: PathBuf,
    listener: UnixListener,
    /// Device and inode number of the file.
    file: (u64, u64),
}

/// Reason why a socket cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another server listens on it.
    #[error("another server listens on {}", .0.display())]
    Taken(PathBuf),
    /// The path is no socket.
    #[error("{} is there, and is no socket: remove it, or name another path", .0.display())]
    NoSocket(PathBuf),
    /// The operating system's reason.
    #[error("cannot listen on {}: {source}", path.display())]
    Listen {
        /// Path of the socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl Socket {
    /// Starts to listen on a path.
    ///
    /// # Errors
    /// [`ClaimError`].
    pub fn claim(path: &Path) -> Result<Self, ClaimError> {
        let failed = |source| ClaimError::Listen { path: path.to_owned(), source };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(ClaimError::NoSocket(path.to_owned()));
            }
            Ok(_) if is_alive(path).map_err(failed)? => {
                return Err(ClaimError::Taken(path.to_owned()));
            }
            Ok(_) => fs::remove_file(path).map_err(failed)?, // a killed server left it
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let listener = bind(path).map_err(failed)?;
        let found = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), listener, file: (found.dev(), found.ino()) })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A non-blocking listener.
    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.set_nonblocking(true)?;
        self.listener.try_clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.file) {
            let _ = fs::remove_file(&self.path); // the next server replaces it
        }
    }
}

/// Connects to a listener without waiting: a server with a full queue gives `WouldBlock`. The
/// stream is non-blocking, too.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_folder, path) = reachable(path)?;
    let socket = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let kind = SocketType::STREAM;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// Whether a server listens on a socket.
fn is_alive(path: &Path) -> io::Result<bool> {
    match connect(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false), // it was removed meanwhile
        // A full queue shows that a server listens.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let (_folder, path) = reachable(path)?;
    let socket = socket(SocketFlags::CLOEXEC)?;
    fchmod(&socket, MODE)?; // the bound path gets this mode
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Returns a path that fits into a socket address, with the folder that has to stay open while it
/// is used.
fn reachable(path: &Path) -> io::Result<(Option<File>, PathBuf)> {
    if path.as_os_str().len() <= LONGEST {
        return Ok((None, path.to_owned()));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let folder = File::open(folder)?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((Some(folder), short))
}
