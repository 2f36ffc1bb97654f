//! Several clients at once.

use futures::future::{join, join_all};
use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;

use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::{User, size};

async fn users(fixture: &Fixture, count: usize) -> Vec<User> {
    join_all((0..count).map(|_| fixture.superuser())).await
}

#[test]
fn one_of_many_makes_a_name_and_one_removes_it() {
    with_volume(async |fixture: Fixture| {
        let mut all = users(&fixture, 8).await;
        let top = all[0].root.clone();
        for round in 0..10 {
            let name = format!("name-{round}");
            let made = all.iter_mut().map(|user| user.file(&top, &name, 0o644));
            let made = join_all(made).await;
            assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
            assert_eq!(made.iter().filter(|made| **made == Err(NFS3ERR_EXIST)).count(), 7);
            let removed = join_all(all.iter_mut().map(|user| user.remove(&top, &name))).await;
            assert_eq!(removed.iter().filter(|removed| removed.is_ok()).count(), 1);
        }
        assert_eq!(all[0].names(&top).await, [""; 0]);
    });
}

/// A client that repeats an exclusive create with its own verifier finds its own file or none.
#[test]
fn one_of_many_wins_an_exclusive_create() {
    with_volume(async |fixture: Fixture| {
        let mut all = users(&fixture, 8).await;
        let top = all[0].root.clone();
        let how = |number: usize| createhow3::EXCLUSIVE(createverf3([number as u8; 8]));
        for _ in 0..2 {
            let made = all.iter_mut().enumerate();
            let made = made.map(|(number, user)| user.create(&top, "lock", how(number / 2)));
            let made = join_all(made).await;
            let winners: Vec<_> = (0..8).filter(|&number| made[number].is_ok()).collect();
            assert_eq!(winners.len(), 2, "{made:?}");
            assert_eq!(winners[0] / 2, winners[1] / 2);
            assert_eq!(made[winners[0]], made[winners[1]]);
        }
    });
}

/// Two directories that move into each other would leave a cycle without a root.
#[test]
fn two_directories_never_move_into_each_other() {
    with_volume(async |fixture: Fixture| {
        let mut all = users(&fixture, 2).await;
        let [one, two] = &mut all[..] else { unreachable!("two users") };
        let top = one.root.clone();
        for round in 0..20 {
            let names = [format!("a-{round}"), format!("b-{round}")];
            let a = one.mkdir(&top, &names[0], 0o755).await.unwrap();
            let b = one.mkdir(&top, &names[1], 0o755).await.unwrap();
            let moved = join(
                one.rename((&top, &names[0]), (&b, "inner")),
                two.rename((&top, &names[1]), (&a, "inner")),
            )
            .await;
            match (moved.0, moved.1) {
                (Ok(_), Err(status)) | (Err(status), Ok(_)) => assert_eq!(status, NFS3ERR_INVAL),
                (one, two) => panic!("{:?} and {:?}", one.err(), two.err()),
            }
        }
        assert_eq!(one.names(&top).await.len(), 20);
    });
}

/// Names change places, directories change parents, and files are replaced, in all directions at
/// once: there is no deadlock, and the counts are right afterwards.
#[test]
fn renames_in_all_directions_end_and_lose_nothing() {
    with_volume(async |mut fixture: Fixture| {
        let mut all = users(&fixture, 6).await;
        let top = all[0].root.clone();
        let mut directories = Vec::new();
        for number in 0..3 {
            let directory = all[0].mkdir(&top, &format!("d{number}"), 0o755).await.unwrap();
            for file in 0..4 {
                all[0].file(&directory, &format!("f{file}"), 0o644).await.unwrap();
            }
            all[0].mkdir(&directory, &format!("inner{number}"), 0o755).await.unwrap();
            directories.push(directory);
        }
        let walks = all.iter_mut().enumerate().map(async |(seed, user)| {
            for step in 0..40 {
                let (from, to) = ((seed + step) % 3, (seed * 2 + step / 3) % 3);
                let (from, to) = (&directories[from], &directories[to]);
                let inner = format!("inner{}", (seed + step) % 3);
                let (old, new) = (format!("f{}", step % 4), format!("f{}", (seed + step / 2) % 4));
                let moves = [(old.as_str(), new.as_str()), (inner.as_str(), inner.as_str())];
                for (old, new) in moves {
                    match user.rename((from, old), (to, new)).await {
                        Ok(_) | Err(NFS3ERR_NOENT) => {}
                        Err(status) => panic!("{old} to {new}: {status:?}"),
                    }
                }
            }
        });
        join_all(walks).await;
        for _ in 0..2 {
            let mut user = fixture.superuser().await;
            let mut inner = 0;
            for directory in &directories {
                let names = user.names(directory).await;
                let below = names.iter().filter(|name| name.starts_with("inner")).count();
                let links = user.getattr(directory).await.unwrap().nlink as usize;
                assert_eq!(links, 2 + below);
                for name in &names {
                    let found = user.lookup(directory, name).await.expect("it is listed");
                    let kind = user.getattr(&found).await.unwrap();
                    assert_eq!(kind.nlink, if name.starts_with("inner") { 2 } else { 1 });
                }
                inner += below;
            }
            assert_eq!(inner, 3);
            fixture.cut().await;
        }
        fixture.judge().await;
    });
}

#[test]
fn who_writes_side_by_side_does_not_lose_the_others_bytes() {
    with_volume(async |fixture: Fixture| {
        let mut all = users(&fixture, 6).await;
        let top = all[0].root.clone();
        let file = all[0].file(&top, "file", 0o644).await.unwrap();
        let how = [stable_how::UNSTABLE, stable_how::FILE_SYNC, stable_how::DATA_SYNC];
        let file = &file;
        let writes = all.iter_mut().enumerate().map(async |(number, user)| {
            for step in 0..30 {
                let offset = ((step * 6 + number) * 1000) as u64;
                let data = vec![b'A' + number as u8; 1000];
                user.write(file, offset, &data, how[(step + number) % 3]).await.unwrap();
            }
            user.commit(file).await.unwrap();
        });
        join_all(writes).await;
        let (found, eof) = all[0].read(file, 0, 1 << 20).await.unwrap();
        let expected: Vec<u8> = (0..180_000).map(|i| b'A' + (i / 1000 % 6) as u8).collect();
        assert!(found == expected && eof);
        fixture.judge().await;
    });
}

/// An open with O_CREAT and O_TRUNC succeeds, whatever other clients remove meanwhile.
#[test]
fn an_unchecked_create_and_a_remove_side_by_side_both_find_what_they_need() {
    with_volume(async |fixture: Fixture| {
        let mut all = users(&fixture, 6).await;
        let top = all[0].root.clone();
        let (top, name) = (&top, "name");
        let walks = all.iter_mut().enumerate().map(async |(number, user)| {
            for step in 0..100 {
                if number % 3 == 2 {
                    let removed = user.remove(top, name).await.err();
                    assert!(matches!(removed, None | Some(NFS3ERR_NOENT)), "{removed:?}");
                } else {
                    let how = createhow3::UNCHECKED(size(step % 2 * 1000));
                    let file = user.create(top, name, how).await.expect("it is made or cut");
                    // Holds the file's lock for a while, so that others have to wait for it.
                    let _ = user.put(&file, 0, &[7; 20_000]).await;
                }
            }
        });
        join_all(walks).await;
        fixture.judge().await;
    });
}
