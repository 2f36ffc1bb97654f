//! The clients that may use a volume, and the users that they act as.

use crate::fixture::{Client, Fixture, at, refusal};
use dispatch::{Anonymous, Export, Exports, Limits, Rule, Squash};
use nfs3_types::mount::mountstat3;
use nfs3_types::nfs3::{
    ACCESS3args, ACCESS3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, Nfs3Result, nfsstat3, sattr3,
};
use nfs3_types::rpc::opaque_auth;

fn exports(rules: &[(&str, bool, Squash)]) -> Exports {
    let rule = |&(network, writable, squash): &(&str, bool, Squash)| Rule {
        network: network.parse().expect("a network"),
        writable,
        squash,
        anonymous: Anonymous { uid: 1234, gid: 5678 },
    };
    let mut exports = Exports::default();
    exports.insert("data", Export::new(rules.iter().map(rule).collect()).expect("rules"));
    exports
}

fn fixture(rules: &[(&str, bool, Squash)]) -> Fixture {
    Fixture::with(exports(rules), Limits::default())
}

fn mkdir(fixture: &mut Fixture, client: &Client, root: &nfs3_types::nfs3::nfs_fh3) -> MKDIR3res {
    let args = MKDIR3args { where_: at(root, "made"), attributes: sattr3::default() };
    fixture.call(client, NFS_PROGRAM::NFSPROC3_MKDIR, &args)
}

#[test]
fn a_client_outside_the_rules_is_refused_at_the_mount_and_with_a_handle() {
    let mut fixture = fixture(&[("10.0.0.0/8", true, Squash::None)]);
    let inside = Client::root("10.1.1.1");
    let outside = Client::root("11.1.1.1");
    let root = fixture.mount(&inside, "/data").expect("a mount");
    let refused = fixture.mount(&outside, "/data").expect_err("outside");
    assert!(matches!(refused, mountstat3::MNT3ERR_ACCES));
    assert_eq!(refusal(fixture.getattr(&outside, &root)), nfsstat3::NFS3ERR_ACCES);
    assert_eq!(refusal(fixture.getattr(&inside, &root)), nfsstat3::NFS3_OK);
}

#[test]
fn a_client_of_an_ipv6_socket_is_known_by_its_ipv4_address() {
    let mut fixture = fixture(&[("10.0.0.0/8", true, Squash::None)]);
    assert!(fixture.mount(&Client::root("::ffff:10.1.1.1"), "/data").is_ok());
    assert!(fixture.mount(&Client::root("::ffff:11.1.1.1"), "/data").is_err());
}

#[test]
fn new_rules_hold_for_the_next_call_with_an_old_handle() {
    let mut fixture = fixture(&[("10.0.0.0/8", true, Squash::None)]);
    let client = Client::root("10.1.1.1");
    let root = fixture.mount(&client, "/data").expect("a mount");
    fixture.dispatcher.set_exports(exports(&[]));
    assert_eq!(refusal(fixture.getattr(&client, &root)), nfsstat3::NFS3ERR_ACCES);
    fixture.dispatcher.set_exports(exports(&[("10.0.0.0/8", false, Squash::None)]));
    assert_eq!(refusal(fixture.getattr(&client, &root)), nfsstat3::NFS3_OK);
    assert_eq!(refusal(mkdir(&mut fixture, &client, &root)), nfsstat3::NFS3ERR_ROFS);
}

#[test]
fn a_read_only_export_refuses_changes_and_denies_the_rights_to_them() {
    let mut fixture = fixture(&[("10.0.0.0/8", false, Squash::None)]);
    let client = Client::root("10.1.1.1");
    let root = fixture.mount(&client, "/data").expect("a mount");
    assert_eq!(refusal(mkdir(&mut fixture, &client, &root)), nfsstat3::NFS3ERR_ROFS);
    assert_eq!(fixture.data.executed(), 0);
    let args = ACCESS3args { object: root, access: 0xffff_ffff };
    let result: ACCESS3res = fixture.call(&client, NFS_PROGRAM::NFSPROC3_ACCESS, &args);
    assert_eq!(result.unwrap().access, 0x01 | 0x02); // read and lookup
}

#[test]
fn what_a_squashed_root_makes_belongs_to_nobody() {
    let mut fixture = fixture(&[("10.0.0.0/8", true, Squash::Root)]);
    let client = Client::root("10.1.1.1");
    let root = fixture.mount(&client, "/data").expect("a mount");
    let Nfs3Result::Ok(made) = mkdir(&mut fixture, &client, &root) else { panic!("not refused") };
    let attributes = made.obj_attributes.unwrap();
    assert_eq!((attributes.uid, attributes.gid), (1234, 5678));
}

#[test]
fn a_caller_without_credentials_is_nobody() {
    let mut fixture = fixture(&[("10.0.0.0/8", true, Squash::None)]);
    let client = Client::with_credential("10.1.1.1", opaque_auth::default());
    let root = fixture.mount(&client, "/data").expect("a mount");
    let Nfs3Result::Ok(made) = mkdir(&mut fixture, &client, &root) else { panic!("not refused") };
    assert_eq!(made.obj_attributes.unwrap().uid, 1234);
}

#[test]
fn a_user_reaches_what_any_of_his_groups_may() {
    let mut fixture = fixture(&[("10.0.0.0/8", true, Squash::None)]);
    let root = fixture.mount(&Client::root("10.1.1.1"), "/data").expect("a mount");
    let owner = Client::user("10.1.1.1", 7, 42, &[]);
    let args = MKDIR3args {
        where_: at(&root, "shared"),
        attributes: sattr3 {
            mode: nfs3_types::nfs3::Nfs3Option::Some(0o070),
            ..Default::default()
        },
    };
    let made: MKDIR3res = fixture.call(&owner, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
    let shared = made.unwrap().obj.unwrap();
    let sixteen: Vec<u32> = (27..43).collect();
    let member = Client::user("10.1.1.1", 8, 8, &sixteen);
    let stranger = Client::user("10.1.1.1", 8, 8, &sixteen[..15]);
    for (who, expected) in [(&member, 0x3f & !0x20), (&stranger, 0)] {
        let args = ACCESS3args { object: shared.clone(), access: 0x3f };
        let result: ACCESS3res = fixture.call(who, NFS_PROGRAM::NFSPROC3_ACCESS, &args);
        assert_eq!(result.unwrap().access, expected);
    }
}
