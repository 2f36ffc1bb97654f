//! The well-behaved client.

use std::net::{IpAddr, Ipv4Addr};

use nfs::nfs3::{Procedure, Status};
use nfs::rpc::PROGRAM_NFS;
use nfs::xdr::Encoder;
use nfs3_types::mount::mountres3;
use nfs3_types::nfs3::{CREATE3res, GETATTR3res, MKDIR3res, Nfs3Result, READ3res, WRITE3res};

use super::connection::{Answer, Connection, marked};
use super::host::Server;
use super::results::whole;
use crate::wire;

/// The address of the well-behaved client.
const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The well-behaved client: it has a file that no other client may touch.
pub(super) struct Neighbour {
    connection: Connection,
    folder: Vec<u8>,
    file: Vec<u8>,
    content: Vec<u8>,
    /// Its last call that must not be carried out twice, and the answer.
    last: (Vec<u8>, Vec<u8>),
    looks: u32,
}

impl Neighbour {
    /// Mounts the volume, makes a directory for itself and one for every user.
    pub(super) async fn settle(server: &Server) -> Self {
        let mut connection = Connection::new(server, HOME);
        let path = wire::bytes_of(|to| to.opaque(b"/data"));
        let root = match whole(&connection.mount(1, &path).await) {
            mountres3::Ok(ok) => ok.fhandle.0.to_vec(),
            mountres3::Err(status) => panic!("{status:?}"),
        };
        for (name, mode) in [("playground", 0o777), ("good", 0o700)] {
            let made = connection.nfs(Procedure::Mkdir, |to| new(to, &root, name, mode)).await;
            let made: MKDIR3res = whole(&made);
            made.unwrap();
        }
        let good = connection.lookup(&root, "good").await;
        let made = |to: &mut Encoder| {
            to.opaque(&good);
            to.opaque(b"file");
            to.u32(1);
            mode_alone(to, 0o600);
        };
        let made: CREATE3res = whole(&connection.nfs(Procedure::Create, made).await);
        let file = made.unwrap().obj.unwrap().data.to_vec();
        let (content, last) = (vec![1; 40_000], (Vec::new(), Vec::new()));
        let mut neighbour = Self { connection, folder: good, file, content, last, looks: 0 };
        neighbour.write().await;
        neighbour.make_link().await;
        neighbour
    }

    /// Gives the file another name.
    async fn make_link(&mut self) {
        self.looks += 1;
        let name = format!("link-{}", self.looks);
        let arguments = wire::bytes_of(|to| {
            to.opaque(&self.file);
            to.opaque(&self.folder);
            to.opaque(name.as_bytes());
        });
        let xid = self.connection.xid();
        let target = [PROGRAM_NFS, 3, Procedure::Link as u32];
        let record = marked(&self.connection.call_bytes(xid, target, &arguments));
        let results = self.results(&record).await;
        // The disk may be full.
        let known = [0, Status::NoSpace as u32].map(u32::to_be_bytes);
        assert!(known.iter().any(|status| results.starts_with(status)), "{results:?}");
        self.last = (record, results);
    }

    /// Sends an encoded call; returns its results.
    async fn results(&mut self, record: &[u8]) -> Vec<u8> {
        let answers = self.connection.send(record).await.expect("a whole record");
        match answers.into_iter().next() {
            Some(Answer::Results(results)) => results,
            other => panic!("a call that was not damaged: {other:?}"),
        }
    }

    async fn write(&mut self) {
        let Self { connection, file, content, .. } = self;
        let written = connection.nfs(Procedure::Write, |to| {
            to.opaque(file);
            to.u64(0);
            to.u32(content.len() as u32);
            to.u32(2);
            to.opaque(content);
        });
        let written: WRITE3res = whole(&written.await);
        assert_eq!(written.unwrap().count as usize, content.len(), "all of it was written");
    }

    /// Reads all of its file, and overwrites it with other bytes.
    pub(super) async fn look(&mut self) {
        let attributes = self.connection.nfs(Procedure::Getattr, |to| to.opaque(&self.file)).await;
        let Nfs3Result::Ok(attributes) = whole::<GETATTR3res>(&attributes) else {
            panic!("a good client's file is there");
        };
        assert_eq!(attributes.obj_attributes.size as usize, self.content.len());
        let read = self.connection.nfs(Procedure::Read, |to| {
            to.opaque(&self.file);
            to.u64(0);
            to.u32(1 << 20);
        });
        let read = read.await;
        match whole::<READ3res<'_>>(&read) {
            Nfs3Result::Ok(ok) => assert!(ok.data.as_ref() == self.content, "foreign bytes"),
            Nfs3Result::Err((status, _)) => panic!("a good client cannot read: {status:?}"),
        }
        self.content.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        self.write().await;
        let (record, before) = self.last.clone();
        assert!(self.results(&record).await == before, "a repeated call is answered as before");
        self.make_link().await;
    }
}

fn new(to: &mut Encoder, directory: &[u8], name: &str, mode: u32) {
    to.opaque(directory);
    to.opaque(name.as_bytes());
    mode_alone(to, mode);
}

fn mode_alone(to: &mut Encoder, mode: u32) {
    let attributes = nfs::nfs3::SetAttributes { mode: Some(mode), ..Default::default() };
    wire::set_attributes(to, &attributes);
}
