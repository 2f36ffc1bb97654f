//! `duramen serve`, run as people run it, with an independent NFS client.

mod common;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use common::{Folder, assert_clean, duramen, freebsd_disk, on};
use futures::executor::block_on;
use nfs3_client::io::{AsyncRead, AsyncWrite};
use nfs3_client::{MountClient, Nfs3Client};
use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::{
    CREATE3args, LOOKUP3args, Nfs3Result, READ3args, WRITE3args, createhow3, diropargs3, nfs_fh3,
    nfsstat3, sattr3, stable_how,
};
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::Opaque;

/// A server that says it is ready.
struct Serving {
    process: Child,
    /// The first line that it printed.
    ready: String,
}

impl Serving {
    /// Serves volumes on a port of the system's choice.
    fn start(volumes: &[&Path], more: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_duramen"))
            .arg("serve")
            .args(volumes)
            .args(["--listen", "127.0.0.1:0"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was just built");
        let output = process.stdout.take().expect("it was asked for");
        let mut ready = String::new();
        BufReader::new(output).read_line(&mut ready).expect("text");
        assert!(ready.starts_with("ready: "), "{ready:?}");
        Self { process, ready }
    }

    fn address(&self) -> SocketAddr {
        let first = self.ready.split([' ', '/']).nth(1).expect("an address behind 'ready:'");
        first.parse().expect("an address")
    }

    /// Asks it to end.
    fn stop(mut self) -> ExitStatus {
        let number = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &number]).status();
        assert!(sent.expect("kill is there").success());
        self.process.wait().expect("it is our child")
    }

    /// Ends it without a chance to do anything.
    fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it is our child");
    }

    /// A client, and the handle of the root of a volume.
    fn mount(&self, name: &str) -> (Nfs3Client<Stream>, nfs_fh3) {
        let user = auth_unix { machinename: Opaque::borrowed(b"test"), ..auth_unix::default() };
        let connect = || Stream(TcpStream::connect(self.address()).expect("it accepts"));
        let (credential, none) = (opaque_auth::auth_unix(&user), opaque_auth::default());
        let mut mount = MountClient::new_with_auth(connect(), credential.clone(), none.clone());
        let path = format!("/{name}");
        let mounted = block_on(mount.mnt(dirpath(Opaque::borrowed(path.as_bytes()))));
        let handle = mounted.expect("it is exported").fhandle.0.to_vec();
        let root = nfs_fh3 { data: Opaque::owned(handle) };
        (Nfs3Client::new_with_auth(connect(), credential, none), root)
    }
}

/// A plain socket for the client, which wants to await: nothing else runs in this thread.
struct Stream(TcpStream);

impl AsyncRead for Stream {
    async fn async_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl AsyncWrite for Stream {
    async fn async_write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer)
    }
}

fn good<T, E: std::fmt::Debug>(result: Nfs3Result<T, E>) -> T {
    match result {
        Nfs3Result::Ok(value) => value,
        Nfs3Result::Err((status, _)) => panic!("{status:?}"),
    }
}

/// Makes a file over NFS, with this in it.
fn put(serving: &Serving, volume: &str, name: &str, data: &[u8]) {
    let (mut client, root) = serving.mount(volume);
    let place = diropargs3 { dir: root, name: name.as_bytes().into() };
    let how = createhow3::GUARDED(sattr3::default());
    let made = block_on(client.create(&CREATE3args { where_: place, how })).expect("a reply");
    let write = WRITE3args {
        file: good(made).obj.unwrap(),
        offset: 0,
        count: data.len() as u32,
        stable: stable_how::FILE_SYNC,
        data: Opaque::borrowed(data),
    };
    let written = good(block_on(client.write(&write)).expect("a reply"));
    assert_eq!(written.count as usize, data.len());
}

#[test]
fn what_was_written_over_nfs_is_in_the_volume() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    assert!(serving.stop().success());
    assert_eq!(on("cat", &volume, &["letter"]).good(), "dear friend");
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    serving.kill();
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "answer", b"dear you");
    assert!(serving.stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), "answer\nletter\n");
    assert_eq!(on("cat", &volume, &["letter"]).good(), "dear friend");
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn a_disk_of_the_other_byte_order_is_served_but_not_written() {
    let folder = Folder::new();
    let Some(image) = freebsd_disk("big", &folder) else { return };
    let before = fs::read(&image).expect("it is there");
    let serving = Serving::start(&[&image], &[]);
    let (mut client, root) = serving.mount("freebsd");
    let place = |name: &'static str| diropargs3 { dir: root.clone(), name: name.as_bytes().into() };
    let found = block_on(client.lookup(&LOOKUP3args { what: place("file1") })).expect("a reply");
    let read = READ3args { file: good(found).object, offset: 0, count: 100 };
    let read = good(block_on(client.read(&read)).expect("a reply"));
    assert_eq!(&*read.data, b"This is a simple file.\n");

    let how = createhow3::GUARDED(sattr3::default());
    let new = CREATE3args { where_: place("new"), how };
    match block_on(client.create(&new)).expect("a reply") {
        Nfs3Result::Err((status, _)) => assert_eq!(status, nfsstat3::NFS3ERR_ROFS),
        Nfs3Result::Ok(_) => panic!("it was made"),
    }
    assert!(serving.stop().success());
    assert!(fs::read(&image).expect("it is there") == before, "it has changed");
}

#[test]
fn folders_and_images_are_served_under_their_names() {
    let folder = Folder::new();
    let (one, two) = (folder.path("one"), folder.path("two.img"));
    on("mkfs", &one, &["--size", "16M"]).good();
    on("mkfs", &two, &["--size", "16M", "--bare"]).good();
    let serving = Serving::start(&[&one, &two], &[]);
    put(&serving, "one", "file", b"1");
    put(&serving, "two", "file", b"2");
    assert!(serving.stop().success());
    assert_eq!(on("cat", &one, &["file"]).good(), "1");
    assert_eq!(on("cat", &two, &["file"]).good(), "2");
    assert_clean(&one.join("disk.img"));
    assert_clean(&two);
}

#[test]
fn handles_hold_when_the_server_comes_back() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    let (mut client, root) = serving.mount("data");
    let what = diropargs3 { dir: root, name: b"letter".as_slice().into() };
    let looked_up = nfs3_types::nfs3::LOOKUP3args { what };
    let file = good(block_on(client.lookup(&looked_up)).expect("a reply")).object;
    assert!(serving.stop().success());

    let serving = Serving::start(&[&volume], &[]);
    let (mut client, _) = serving.mount("data");
    let read = READ3args { file, offset: 5, count: 100 };
    let read = good(block_on(client.read(&read)).expect("a reply"));
    assert_eq!(&read.data[..], b"friend");
    assert!(serving.stop().success());
}

#[test]
fn a_server_that_cannot_listen_leaves_its_volumes_clean() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it listens").to_string();
    on("serve", &volume, &["--listen", &address]).failed(1, "cannot listen");
    assert!(on("info", &volume, &["--json"]).good().contains("\"clean\": true"));
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn one_volume_is_not_served_twice() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "16M"]);
    on("serve", &volume, &["--listen", "127.0.0.1:0"]).failed(1, "in use by another program");
    on("ls", &volume, &[]).failed(1, "in use by another program");
    assert!(serving.stop().success());
}

#[test]
fn a_volume_that_is_missing_is_named() {
    let folder = Folder::new();
    on("serve", &folder.path("nothing"), &[]).failed(1, "nothing is no volume");
    assert_eq!(duramen(&["serve"]).code, 2);
    assert_eq!(on("serve", &folder.path("x"), &["--listen", "nowhere"]).code, 2);
}

#[test]
fn a_configuration_that_makes_no_sense_is_named() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let file = folder.path("duramen.toml");
    fs::write(&file, "listen = 7\n").expect("there is room");
    let file = file.to_str().expect("a plain name");
    let run = on("serve", &volume, &["--config", file]);
    assert_eq!(run.code, 1);
    assert!(run.errors.contains("duramen.toml"), "{}", run.errors);
    on("serve", &volume, &["--config", "/nothing.toml"]).failed(1, "/nothing.toml");
}
