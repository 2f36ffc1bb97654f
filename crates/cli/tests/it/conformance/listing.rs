//! READDIR and READDIRPLUS.

use std::collections::BTreeMap;

use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;

use crate::conformance::disk::Request;
use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::{User, assert_same, owner};

const START: (u64, cookieverf3) = (0, cookieverf3([0; 8]));

/// Lists a directory in pieces; `between` runs after each piece. Returns how often each name was
/// listed.
async fn list(
    user: &mut User,
    directory: &nfs_fh3,
    plus: bool,
    mut between: impl AsyncFnMut(&mut User),
) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    let mut place = START;
    loop {
        let (entries, eof): (Vec<(String, u64)>, bool) = if plus {
            let listed = user.readdirplus(directory, place, (700, 2800)).await.expect("it lists");
            place.1 = listed.cookieverf;
            let entries = listed.reply.entries.0.iter();
            let pair = |entry: &entryplus3<'_>| (text(&entry.name), entry.cookie);
            (entries.map(pair).collect(), listed.reply.eof)
        } else {
            let listed = user.readdir(directory, place, 700).await.expect("it lists");
            place.1 = listed.cookieverf;
            let entries = listed.reply.entries.0.iter();
            let pair = |entry: &entry3<'_>| (text(&entry.name), entry.cookie);
            (entries.map(pair).collect(), listed.reply.eof)
        };
        assert!(eof || !entries.is_empty(), "a listing goes on");
        for (name, cookie) in entries {
            *seen.entry(name).or_default() += 1;
            place.0 = cookie;
        }
        if eof {
            return seen;
        }
        between(user).await;
    }
}

fn text(name: &filename3<'_>) -> String {
    String::from_utf8_lossy(name.as_ref()).into_owned()
}

/// Permanent entries are listed once, entries that come or go meanwhile at most once.
async fn churn(fixture: Fixture, plus: bool) {
    let mut user = fixture.superuser().await;
    let top = user.root.clone();
    let directory = user.mkdir(&top, "directory", 0o755).await.unwrap();
    for number in 0..3000 {
        let kind = if number % 3 == 0 { "stays" } else { "goes" };
        user.file(&directory, &format!("{kind}-{number}"), 0o644).await.unwrap();
    }
    let mut round = 0;
    let seen = list(&mut user, &directory, plus, async |user: &mut User| {
        // From both ends, so that entries are removed before and behind the position of the
        // listing.
        for number in [round * 7, 2999 - round * 5, round * 7 + 1] {
            if number < 3000 && number % 3 != 0 {
                let _ = user.remove(&directory, &format!("goes-{number}")).await;
            }
        }
        for copy in 0..3 {
            let name = format!("comes-{round}-{}", "x".repeat(copy * 40));
            user.file(&directory, &name, 0o644).await.unwrap();
        }
        round += 1;
    })
    .await;
    assert!(round > 50, "{round} pieces");
    for number in (0..3000).step_by(3) {
        assert_eq!(seen.get(&format!("stays-{number}")), Some(&1), "stays-{number}");
    }
    assert!(seen.values().all(|&count| count == 1), "no name comes twice");
    let expected: Vec<String> = user.names(&directory).await;
    let anew = list(&mut user, &directory, plus, async |_: &mut User| ()).await;
    let anew: Vec<String> = anew.into_keys().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(anew, expected);
    fixture.judge().await;
}

#[test]
fn a_listing_in_pieces_survives_changes_between_them() {
    with_volume(async |fixture: Fixture| churn(fixture, false).await);
}

#[test]
fn a_listing_with_attributes_survives_changes_between_its_pieces() {
    with_volume(async |fixture: Fixture| churn(fixture, true).await);
}

#[test]
fn a_listing_tells_what_lookup_and_getattr_tell() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let directory = user.mkdir(&top, "directory", 0o755).await.unwrap();
        user.file(&directory, "file", 0o640).await.unwrap();
        user.mkdir(&directory, "inner", 0o750).await.unwrap();
        user.symlink(&directory, "link", b"target").await.unwrap();
        let listed = user.readdirplus(&directory, START, (8192, 8192)).await.unwrap();
        assert!(listed.reply.eof);
        let attributes = user.getattr(&directory).await.unwrap();
        assert_same(&listed.dir_attributes.unwrap(), &attributes);
        let names: Vec<String> =
            listed.reply.entries.0.iter().map(|entry| text(&entry.name)).collect();
        assert_eq!(names, [".", "..", "file", "inner", "link"]);
        for entry in listed.reply.entries.0 {
            let handle = user.lookup(&directory, &text(&entry.name)).await.unwrap();
            assert_eq!(entry.name_handle.unwrap(), handle);
            let found = user.getattr(&handle).await.unwrap();
            assert_eq!(entry.fileid, found.fileid);
            assert_same(&entry.name_attributes.unwrap(), &found);
        }
        let short = user.readdir(&directory, START, 8192).await.unwrap();
        assert_same(&short.dir_attributes.unwrap(), &attributes);
        assert_eq!(short.reply.entries.0.len(), 5);
    });
}

#[test]
fn an_empty_directory_has_two_entries_and_nothing_behind_them() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let listed = user.readdir(&top, START, 4096).await.unwrap();
        assert!(listed.reply.eof);
        let last = listed.reply.entries.0.last().expect("two entries").cookie;
        let behind = user.readdir(&top, (last, listed.cookieverf), 4096).await.unwrap();
        assert!(behind.reply.eof && behind.reply.entries.0.is_empty());
    });
}

#[test]
fn a_cookie_of_another_verifier_is_bad() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let wrong = (12, cookieverf3(*b"whatever"));
        assert_eq!(user.readdir(&top, wrong, 4096).await.err(), Some(NFS3ERR_BAD_COOKIE));
        let listed = user.readdirplus(&top, wrong, (4096, 4096)).await;
        assert_eq!(listed.err(), Some(NFS3ERR_BAD_COOKIE));
    });
}

#[test]
fn a_cookie_that_nobody_gave_does_no_harm() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        for name in ["one", "two", "three"] {
            user.file(&top, name, 0o644).await.unwrap();
        }
        for cookie in (1..600).chain([1 << 31, 1 << 32, 1 << 63, u64::MAX]) {
            let listed = user.readdir(&top, (cookie, START.1), 4096).await.expect("it lists");
            assert!(listed.reply.eof && listed.reply.entries.0.len() < 5);
        }
    });
}

#[test]
fn a_reply_that_could_not_hold_one_entry_is_too_small() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        for count in [0, 1, 50, 120] {
            let listed = user.readdir(&top, START, count).await;
            assert_eq!(listed.err(), Some(NFS3ERR_TOOSMALL), "{count}");
            let listed = user.readdirplus(&top, START, (4096, count)).await;
            assert_eq!(listed.err(), Some(NFS3ERR_TOOSMALL), "{count}");
        }
    });
}

#[test]
fn cookies_hold_when_the_server_comes_back() {
    with_volume(async |mut fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        for number in 0..100 {
            user.file(&top, &format!("file-{number:03}"), 0o644).await.unwrap();
        }
        let first = user.readdir(&top, START, 1000).await.unwrap();
        let mut names: Vec<String> =
            first.reply.entries.0.iter().map(|entry| text(&entry.name)).collect();
        let place = (first.reply.entries.0.last().unwrap().cookie, first.cookieverf);
        assert!(!first.reply.eof);
        fixture.restart().await;
        let mut user = fixture.superuser().await;
        let rest = user.readdir(&top, place, 100_000).await.unwrap();
        assert!(rest.reply.eof);
        names.extend(rest.reply.entries.0.iter().map(|entry| text(&entry.name)));
        assert_eq!(names.len(), 102);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 102);
    });
}

/// A handle without a generation would be stale for ever, and clients keep their handles.
#[test]
fn a_file_that_cannot_be_read_is_listed_by_its_name_alone() {
    with_volume(async |mut fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        user.file(&top, "good", 0o644).await.unwrap();
        let directory = user.mkdir(&top, "scratched", 0o755).await.unwrap();
        user.setattr(&directory, owner(0xfeed_beef, 0)).await.unwrap();
        fixture.restart().await; // drops everything of it from memory
        let place = fixture.disk.find(&0xfeed_beef_u32.to_le_bytes());
        fixture.disk.fail_when(move |request| match request {
            Request::Read(offset, length) => (*offset..offset + *length as u64).contains(&place),
            _ => false,
        });
        let mut user = fixture.superuser().await;
        let listed = user.readdirplus(&top, START, (8192, 8192)).await.expect("it lists");
        for entry in &listed.reply.entries.0 {
            let known = text(&entry.name) != "scratched";
            assert_eq!(entry.name_attributes.is_some(), known, "{entry:?}");
            assert_eq!(entry.name_handle.is_some(), known, "{entry:?}");
        }
        assert_eq!(listed.reply.entries.0.len(), 4);
        fixture.disk.heal();
        let listed = user.readdirplus(&top, START, (8192, 8192)).await.expect("it lists");
        assert!(listed.reply.entries.0.iter().all(|entry| entry.name_handle.is_some()));
    });
}
