//! The independent client in short form: every procedure as a verb, its status as the error.

use nfs3_client::Nfs3Client;
use nfs3_client::tokio::TokioIo;
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::Opaque;
use tokio::net::TcpStream;

pub(crate) type Outcome<T> = Result<T, nfsstat3>;

/// A user with a connection.
pub(crate) struct User {
    pub(crate) client: Nfs3Client<TokioIo<TcpStream>>,
    /// Handle of the volume's root.
    pub(crate) root: nfs_fh3,
}

fn outcome<T, E, R: std::fmt::Debug>(answer: Result<Nfs3Result<T, E>, R>) -> Outcome<T> {
    match answer.expect("a reply") {
        Nfs3Result::Ok(value) => Ok(value),
        Nfs3Result::Err((status, _)) => Err(status),
    }
}

pub(crate) fn at<'a>(directory: &nfs_fh3, name: impl Into<&'a [u8]>) -> diropargs3<'a> {
    diropargs3 { dir: directory.clone(), name: name.into().into() }
}

pub(crate) fn mode(mode: u32) -> sattr3 {
    sattr3 { mode: Nfs3Option::Some(mode), ..sattr3::default() }
}

pub(crate) fn size(size: u64) -> sattr3 {
    sattr3 { size: Nfs3Option::Some(size), ..sattr3::default() }
}

pub(crate) fn owner(uid: u32, gid: u32) -> sattr3 {
    let (uid, gid) = (Nfs3Option::Some(uid), Nfs3Option::Some(gid));
    sattr3 { uid, gid, ..sattr3::default() }
}

/// Asserts that two replies have the same attributes of a file.
#[track_caller]
pub(crate) fn assert_same(one: &fattr3, other: &fattr3) {
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

/// Procedures on a file by its handle alone, or by a name in it.
impl User {
    pub(crate) async fn getattr(&mut self, file: &nfs_fh3) -> Outcome<fattr3> {
        let args = GETATTR3args { object: file.clone() };
        outcome(self.client.getattr(&args).await).map(|found| found.obj_attributes)
    }

    pub(crate) async fn setattr(&mut self, file: &nfs_fh3, new: sattr3) -> Outcome<wcc_data> {
        self.setattr_if(file, new, Nfs3Option::None).await
    }

    pub(crate) async fn setattr_if(
        &mut self,
        file: &nfs_fh3,
        new_attributes: sattr3,
        guard: sattrguard3,
    ) -> Outcome<wcc_data> {
        let args = SETATTR3args { object: file.clone(), new_attributes, guard };
        outcome(self.client.setattr(&args).await).map(|set| set.obj_wcc)
    }

    pub(crate) async fn lookup(&mut self, directory: &nfs_fh3, name: &str) -> Outcome<nfs_fh3> {
        let args = LOOKUP3args { what: at(directory, name.as_bytes()) };
        outcome(self.client.lookup(&args).await).map(|found| found.object)
    }

    pub(crate) async fn access(&mut self, file: &nfs_fh3, access: u32) -> Outcome<u32> {
        let args = ACCESS3args { object: file.clone(), access };
        outcome(self.client.access(&args).await).map(|granted| granted.access)
    }

    pub(crate) async fn readlink(&mut self, link: &nfs_fh3) -> Outcome<Vec<u8>> {
        let args = READLINK3args { symlink: link.clone() };
        outcome(self.client.readlink(&args).await).map(|read| read.data.as_ref().to_vec())
    }

    /// The bytes, and whether the file ends with them.
    pub(crate) async fn read(
        &mut self,
        file: &nfs_fh3,
        offset: u64,
        count: u32,
    ) -> Outcome<(Vec<u8>, bool)> {
        let args = READ3args { file: file.clone(), offset, count };
        let read = outcome(self.client.read(&args).await)?;
        assert_eq!(read.count as usize, read.data.len());
        Ok((read.data.to_vec(), read.eof))
    }

    pub(crate) async fn write(
        &mut self,
        file: &nfs_fh3,
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Outcome<WRITE3resok> {
        let (count, data) = (data.len() as u32, Opaque::borrowed(data));
        let args = WRITE3args { file: file.clone(), offset, count, stable, data };
        let written = outcome(self.client.write(&args).await)?;
        assert_eq!(written.count, count);
        Ok(written)
    }

    /// Writes data that is on stable storage when this returns.
    pub(crate) async fn put(&mut self, file: &nfs_fh3, offset: u64, data: &[u8]) -> Outcome<()> {
        self.write(file, offset, data, stable_how::FILE_SYNC).await.map(|_| ())
    }

    pub(crate) async fn commit(&mut self, file: &nfs_fh3) -> Outcome<writeverf3> {
        let args = COMMIT3args { file: file.clone(), offset: 0, count: 0 };
        outcome(self.client.commit(&args).await).map(|done| done.verf)
    }

    pub(crate) async fn fsstat(&mut self, file: &nfs_fh3) -> Outcome<FSSTAT3resok> {
        outcome(self.client.fsstat(&FSSTAT3args { fsroot: file.clone() }).await)
    }

    pub(crate) async fn fsinfo(&mut self, file: &nfs_fh3) -> Outcome<FSINFO3resok> {
        outcome(self.client.fsinfo(&FSINFO3args { fsroot: file.clone() }).await)
    }

    pub(crate) async fn pathconf(&mut self, file: &nfs_fh3) -> Outcome<PATHCONF3resok> {
        outcome(self.client.pathconf(&PATHCONF3args { object: file.clone() }).await)
    }
}

/// Procedures that change directories.
impl User {
    pub(crate) async fn create(
        &mut self,
        directory: &nfs_fh3,
        name: &str,
        how: createhow3,
    ) -> Outcome<nfs_fh3> {
        let args = CREATE3args { where_: at(directory, name.as_bytes()), how };
        outcome(self.client.create(&args).await).map(|made| made.obj.unwrap())
    }

    /// Creates a file with this mode.
    pub(crate) async fn file(
        &mut self,
        directory: &nfs_fh3,
        name: &str,
        bits: u32,
    ) -> Outcome<nfs_fh3> {
        self.create(directory, name, createhow3::GUARDED(mode(bits))).await
    }

    pub(crate) async fn mkdir(
        &mut self,
        directory: &nfs_fh3,
        name: &str,
        bits: u32,
    ) -> Outcome<nfs_fh3> {
        let where_ = at(directory, name.as_bytes());
        let args = MKDIR3args { where_, attributes: mode(bits) };
        outcome(self.client.mkdir(&args).await).map(|made| made.obj.unwrap())
    }

    pub(crate) async fn symlink(
        &mut self,
        directory: &nfs_fh3,
        name: &str,
        target: &[u8],
    ) -> Outcome<nfs_fh3> {
        let symlink_data = target.into();
        let symlink = symlinkdata3 { symlink_attributes: sattr3::default(), symlink_data };
        let args = SYMLINK3args { where_: at(directory, name.as_bytes()), symlink };
        outcome(self.client.symlink(&args).await).map(|made| made.obj.unwrap())
    }

    pub(crate) async fn mknod(
        &mut self,
        directory: &nfs_fh3,
        name: &str,
        what: mknoddata3,
    ) -> Outcome<nfs_fh3> {
        let args = MKNOD3args { where_: at(directory, name.as_bytes()), what };
        outcome(self.client.mknod(&args).await).map(|made| made.obj.unwrap())
    }

    pub(crate) async fn remove(&mut self, directory: &nfs_fh3, name: &str) -> Outcome<wcc_data> {
        let args = REMOVE3args { object: at(directory, name.as_bytes()) };
        outcome(self.client.remove(&args).await).map(|done| done.dir_wcc)
    }

    pub(crate) async fn rmdir(&mut self, directory: &nfs_fh3, name: &str) -> Outcome<wcc_data> {
        let args = RMDIR3args { object: at(directory, name.as_bytes()) };
        outcome(self.client.rmdir(&args).await).map(|done| done.dir_wcc)
    }

    pub(crate) async fn rename(
        &mut self,
        from: (&nfs_fh3, &str),
        to: (&nfs_fh3, &str),
    ) -> Outcome<RENAME3resok> {
        let args =
            RENAME3args { from: at(from.0, from.1.as_bytes()), to: at(to.0, to.1.as_bytes()) };
        outcome(self.client.rename(&args).await)
    }

    pub(crate) async fn link(
        &mut self,
        file: &nfs_fh3,
        directory: &nfs_fh3,
        name: &str,
    ) -> Outcome<LINK3resok> {
        let args = LINK3args { file: file.clone(), link: at(directory, name.as_bytes()) };
        outcome(self.client.link(&args).await)
    }
}

/// Listings.
impl User {
    pub(crate) async fn readdir(
        &mut self,
        directory: &nfs_fh3,
        (cookie, cookieverf): (u64, cookieverf3),
        count: u32,
    ) -> Outcome<READDIR3resok<'static>> {
        let args = READDIR3args { dir: directory.clone(), cookie, cookieverf, count };
        outcome(self.client.readdir(&args).await)
    }

    pub(crate) async fn readdirplus(
        &mut self,
        directory: &nfs_fh3,
        (cookie, cookieverf): (u64, cookieverf3),
        (dircount, maxcount): (u32, u32),
    ) -> Outcome<READDIRPLUS3resok<'static>> {
        let dir = directory.clone();
        let args = READDIRPLUS3args { dir, cookie, cookieverf, dircount, maxcount };
        outcome(self.client.readdirplus(&args).await)
    }

    /// All names but "." and "..", sorted.
    pub(crate) async fn names(&mut self, directory: &nfs_fh3) -> Vec<String> {
        let mut names = Vec::new();
        let mut place = (0, cookieverf3::default());
        loop {
            let listed = self.readdir(directory, place, 8192).await.expect("it lists");
            for entry in &listed.reply.entries.0 {
                place.0 = entry.cookie;
                names.push(String::from_utf8_lossy(entry.name.as_ref()).into_owned());
            }
            place.1 = listed.cookieverf;
            if listed.reply.eof {
                names.retain(|name| name != "." && name != "..");
                names.sort();
                return names;
            }
        }
    }
}
