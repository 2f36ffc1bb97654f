//! The whole caller is part of the identity of a call.

use nfs3_types::nfs3::{NFS_PROGRAM, Nfs3Option, SETATTR3args, sattr3};
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::Opaque;

use crate::fixture::{Client, Fixture, local};

fn client(machine: &'static [u8], uid: u32, gid: u32, gids: &[u32]) -> Client {
    let machinename = Opaque::borrowed(machine);
    let user = auth_unix { stamp: 1, machinename, uid, gid, gids: gids.to_vec() };
    Client::with_credential("127.0.0.1", opaque_auth::auth_unix(&user))
}

#[test]
fn another_machine_user_group_or_further_group_makes_another_call() {
    let callers = [
        (&b"machine"[..], 7, 8, &[9, 10][..]),
        (b"machine2", 7, 8, &[9, 10]),
        (b"Machine", 7, 8, &[9, 10]),
        (b"machine", 6, 8, &[9, 10]),
        (b"machine", 7, 6, &[9, 10]),
        (b"machine", 7, 8, &[9, 11]),
        (b"machine", 7, 8, &[6, 10]),
        (b"machine", 7, 8, &[9]),
        (b"machine", 7, 8, &[]),
    ];
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let new_attributes = sattr3 { mode: Nfs3Option::Some(0o666), ..sattr3::default() };
    let args = SETATTR3args { object: file, new_attributes, guard: Nfs3Option::None };
    for (round, expected) in [(1, 1), (2, 0)] {
        for (machine, uid, gid, gids) in callers {
            let before = fixture.data.executed();
            let caller = client(machine, uid, gid, gids);
            fixture.send(&caller, 50, NFS_PROGRAM::NFSPROC3_SETATTR, &args);
            let executed = fixture.data.executed() - before;
            let who = format!("{} {uid} {gid} {gids:?}", machine.escape_ascii());
            assert_eq!(executed, expected, "round {round}, {who}");
        }
    }
}
