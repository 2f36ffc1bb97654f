//! A call of each procedure that changes something.

use nfs3_types::nfs3::{
    CREATE3args, LINK3args, MKDIR3args, MKNOD3args, NFS_PROGRAM, Nfs3Option, REMOVE3args,
    RENAME3args, RMDIR3args, SETATTR3args, SYMLINK3args, WRITE3args, createhow3, mknoddata3,
    nfs_fh3, sattr3, stable_how, symlinkdata3,
};
use nfs3_types::xdr_codec::{Opaque, Pack};

use crate::fixture::{Client, Fixture, at};

/// Arguments that are encoded already.
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Pack for Raw {
    fn packed_size(&self) -> usize {
        self.0.len()
    }

    fn pack(&self, out: &mut impl std::io::Write) -> nfs3_types::xdr_codec::Result<usize> {
        out.write_all(&self.0).expect("memory takes everything");
        Ok(self.0.len())
    }
}

pub(crate) fn bytes_of(args: &impl Pack) -> Vec<u8> {
    let mut bytes = Vec::new();
    args.pack(&mut bytes).expect("memory takes everything");
    bytes
}

/// The files that the calls of [`changes`] are about.
pub(crate) struct Scene {
    root: nfs_fh3,
    inner: nfs_fh3,
    file: nfs_fh3,
}

impl Scene {
    /// Makes the files below a directory.
    pub(crate) fn furnish(fixture: &mut Fixture, client: &Client, root: &nfs_fh3) -> Self {
        let inner = fixture.mkdir(client, root, "inner");
        fixture.mkdir(client, root, "empty");
        fixture.create(client, root, "doomed");
        fixture.create(client, root, "old");
        let file = fixture.create(client, root, "file");
        Self { root: root.clone(), inner, file }
    }

    /// One call of each procedure that changes something. All succeed, in this order, once.
    pub(crate) fn changes(&self) -> Vec<(NFS_PROGRAM, Raw)> {
        use NFS_PROGRAM as P;
        let Self { root, inner, file } = self;
        let none = sattr3::default;
        let symlink =
            symlinkdata3 { symlink_attributes: none(), symlink_data: b"x".as_slice().into() };
        let set = SETATTR3args {
            object: file.clone(),
            new_attributes: sattr3 { mode: Nfs3Option::Some(0o751), ..none() },
            guard: Nfs3Option::None,
        };
        let write = WRITE3args {
            file: file.clone(),
            offset: 3,
            count: 4,
            stable: stable_how::DATA_SYNC,
            data: Opaque::borrowed(b"data"),
        };
        let how = createhow3::GUARDED(none());
        let create = CREATE3args { where_: at(root, "created"), how };
        let mkdir = MKDIR3args { where_: at(inner, "made"), attributes: none() };
        let mknod = MKNOD3args { where_: at(root, "pipe"), what: mknoddata3::NF3FIFO(none()) };
        let rename = RENAME3args { from: at(root, "old"), to: at(inner, "new") };
        let link = LINK3args { file: file.clone(), link: at(inner, "other") };
        [
            (P::NFSPROC3_SETATTR, bytes_of(&set)),
            (P::NFSPROC3_WRITE, bytes_of(&write)),
            (P::NFSPROC3_CREATE, bytes_of(&create)),
            (P::NFSPROC3_MKDIR, bytes_of(&mkdir)),
            (P::NFSPROC3_SYMLINK, bytes_of(&SYMLINK3args { where_: at(root, "link"), symlink })),
            (P::NFSPROC3_MKNOD, bytes_of(&mknod)),
            (P::NFSPROC3_REMOVE, bytes_of(&REMOVE3args { object: at(root, "doomed") })),
            (P::NFSPROC3_RMDIR, bytes_of(&RMDIR3args { object: at(root, "empty") })),
            (P::NFSPROC3_RENAME, bytes_of(&rename)),
            (P::NFSPROC3_LINK, bytes_of(&link)),
        ]
        .map(|(procedure, bytes)| (procedure, Raw(bytes)))
        .into()
    }
}
