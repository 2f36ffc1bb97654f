//! The one volume of every server here, and the clients that may use it.

use std::rc::Rc;

use dispatch::{Anonymous, Export, Exports, Fsid, Rule, Squash, Volume, Volumes};
use vfs::FileSystem;

pub(crate) const FSID: Fsid = Fsid(1);
const NAME: &str = "data";

/// A file system as the volume of a server.
pub(crate) fn volumes(file_system: Rc<dyn FileSystem>) -> Volumes {
    let volume = Volume { name: NAME.into(), fsid: FSID, file_system };
    Volumes::new(vec![volume]).expect("one volume has a name of its own")
}

/// Every client may write as any user; the volume is delayed or not.
pub(crate) fn exports(is_delayed: bool) -> Exports {
    let mut exports = Exports::default();
    let export = open_to_all();
    exports.insert(NAME, if is_delayed { export.declared_delayed() } else { export });
    exports
}

/// The same for any volume of a simulated server.
pub fn open_to_all() -> Export {
    let rule = Rule {
        network: "10.0.0.0/8".parse().expect("a network"),
        writable: true,
        squash: Squash::None,
        anonymous: Anonymous { uid: 65_534, gid: 65_534 },
    };
    Export::new(vec![rule]).expect("one network")
}
