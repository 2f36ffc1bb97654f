//! Two callers who differ in a group alone never get each other's answers, neither from the memory
//! of the server that carried out the call, nor from the log after a start.

use bytes::Bytes;
use nfs3_types::nfs3::{MKDIR3args, MKDIR3res, Nfs3Result, nfsstat3};
use torture::calls;
use torture::campaign::retry::stage::exchange;
use torture::client::ClientOptions;
use torture::explore::design::Design;
use torture::explore::server::{record_of, results};
use torture::protocol::User;
use torture::world::{SERVER, Status, VOLUME, World, WorldOptions, client_address};

/// How a server ends before it starts again.
#[derive(Clone, Copy, Debug)]
enum End {
    Crash,
    Kill,
    Stop,
    /// The server keeps running.
    None,
}

fn superuser(gid: u32, groups: &[u32]) -> User {
    User { machine: "client".into(), uid: 0, gid, groups: groups.to_vec() }
}

/// The first call of a caller; then, perhaps after a restart, the same call by others, and by the
/// first caller again. Returns the first caller's answers, and those of the others.
fn answers(end: End, others: &[User]) -> ([Bytes; 2], Vec<Bytes>) {
    let options =
        WorldOptions { design: Design::LOG, log_size: 4 << 20, ..WorldOptions::default() };
    let world = World::new(11, options);
    world.start();
    assert_eq!(world.run(world.serving()), Status::Serving);
    let client = world.client(2, ClientOptions::default());
    let root = world.run(client.mount(VOLUME)).expect("the volume is exported");
    let call = |user: &User| {
        let record = record_of(user, 77, &calls::mkdir(&root, "directory"));
        let host = world.network().host(client_address(1), None);
        world.run(async {
            let stream = host.connect(0, SERVER).await.expect("it listens");
            exchange(&stream, &record).await.expect("a reply")
        })
    };
    let first = superuser(1, &[2]);
    let made = call(&first);
    match end {
        End::Crash => world.crash(),
        End::Kill => world.kill(),
        End::Stop => world.run(world.stop()),
        End::None => {}
    }
    if !matches!(end, End::None) {
        world.start();
        assert_eq!(world.run(world.serving()), Status::Serving);
    }
    let theirs = others.iter().map(call).collect();
    ([made, call(&first)], theirs)
}

fn status(reply: &Bytes) -> nfsstat3 {
    let results: MKDIR3res = results::<MKDIR3args>(reply).expect("results");
    match results {
        Nfs3Result::Ok(_) => nfsstat3::NFS3_OK,
        Nfs3Result::Err((status, _)) => status,
    }
}

fn others() -> [User; 4] {
    [superuser(3, &[2]), superuser(1, &[3]), superuser(1, &[]), superuser(1, &[2, 3])]
}

#[test]
fn a_caller_who_differs_in_a_group_alone_is_not_told_the_answer_of_another() {
    for end in [End::None, End::Crash, End::Kill, End::Stop] {
        let (own, theirs) = answers(end, &others());
        assert_eq!(status(&own[0]), nfsstat3::NFS3_OK);
        assert_eq!(own[0], own[1], "{end:?}: the answer of the first is told again");
        for (reply, user) in theirs.iter().zip(others()) {
            let (gid, groups) = (user.gid, user.groups);
            assert_eq!(status(reply), nfsstat3::NFS3ERR_EXIST, "{end:?}: {gid} {groups:?}");
        }
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn answers_that_are_told_to_other_groups_are_noticed() {
    for (bug, told) in [("UserAlone", 4), ("FirstGroupAlone", 3)] {
        for end in [End::None, End::Crash, End::Stop] {
            torture::planted::plant(Some(bug.parse().expect("a bug")));
            let (_, theirs) = answers(end, &others());
            torture::planted::plant(None);
            let same = theirs.iter().filter(|reply| status(reply) == nfsstat3::NFS3_OK).count();
            assert_eq!(same, told, "{bug} {end:?}");
        }
    }
}
