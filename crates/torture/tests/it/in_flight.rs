//! A call that was carried out, with a reply lost in a crash: docs/durability.md, "A retry across a
//! crash".

use std::time::Duration;

use nfs3_types::nfs3::{Nfs3Option, Nfs3Result, nfs_fh3, nfsstat3, stable_how};
use torture::calls;
use torture::client::{Client, ClientOptions};
use torture::history::Call;
use torture::protocol::Procedure;
use torture::world::{SERVER, Status, VOLUME, World, WorldOptions, client_address};

/// The moment of the power cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Before the call has reached the server.
    Before,
    /// After its effect is on the disk.
    After,
}

struct Scene {
    world: World,
    client: Client,
    root: nfs_fh3,
    file: nfs_fh3,
}

impl Scene {
    fn new() -> Self {
        let world = World::new(5, WorldOptions::default());
        world.start();
        assert_eq!(world.run(world.serving()), Status::Serving);
        let client = world.client(1, ClientOptions::default());
        let (root, file) = world.run(async {
            let root = client.mount(VOLUME).await.expect("the volume is exported");
            client.call(&calls::mkdir(&root, "directory")).await.expect("a call").unwrap();
            let made = client.call(&calls::create(&root, "file")).await.expect("a call").unwrap();
            (root, made.obj.unwrap())
        });
        Self { world, client, root, file }
    }

    fn split(&self, split: bool) {
        let network = self.world.network();
        let change = if split { sim::Network::split } else { sim::Network::heal };
        change(network, client_address(1), SERVER.ip());
    }

    /// Makes a call whose reply is lost, cuts the power, and lets the client repeat it to the next
    /// boot.
    fn over_a_crash<P, T, E>(&self, cut: Cut, arguments: P) -> (Result<T, nfsstat3>, Call)
    where
        P: Procedure<Results = Nfs3Result<T, E>> + 'static,
        T: 'static,
        E: 'static,
    {
        let executed = || {
            let dispatcher = self.world.dispatcher().expect("it runs");
            dispatcher.reply_cache_counters().misses
        };
        let before = executed();
        if cut == Cut::Before {
            self.split(true);
        }
        let mut call = Box::pin(self.client.noted_call(&arguments));
        if cut == Cut::After {
            while executed() == before {
                let time = Duration::from_micros(1);
                assert!(self.world.run_for(time, &mut call).is_none(), "it takes longer");
            }
            self.split(true);
        }
        let time = Duration::from_millis(50);
        assert!(self.world.run_for(time, &mut call).is_none(), "no reply gets through");
        assert_eq!(executed() - before, u64::from(cut == Cut::After));
        self.world.crash();
        self.split(false);
        self.world.start();
        let (id, results) = self.world.run(call);
        let results = match results.expect("it is not refused") {
            Nfs3Result::Ok(ok) => Ok(ok),
            Nfs3Result::Err((status, _)) => Err(status),
        };
        (results, self.world.history().call(id))
    }

    fn check<P, T, E>(&self, cut: Cut, arguments: P, expected: nfsstat3) -> Option<T>
    where
        P: Procedure<Results = Nfs3Result<T, E>> + 'static,
        T: 'static,
        E: 'static,
    {
        let boot = self.world.boot();
        let (results, call) = self.over_a_crash(cut, arguments);
        let status = results.as_ref().err().copied().unwrap_or(nfsstat3::NFS3_OK);
        let wanted = if cut == Cut::After { expected } else { nfsstat3::NFS3_OK };
        assert_eq!(status, wanted, "{:?}", call.request());
        assert_eq!(call.status(), Some(status));
        assert!(call.crossed_a_crash(), "{:?}", call.sent);
        assert_eq!(call.sent.first().map(|sent| sent.boot), Some(boot));
        assert_eq!(call.answered.as_ref().map(|answered| answered.boot), Some(boot + 1));
        let xids = call.sent.windows(2).all(|two| two[0].xid == two[1].xid);
        assert!(xids, "a repetition has the number of the call: {:?}", call.sent);
        results.ok()
    }

    fn attributes(&self) -> nfs3_types::nfs3::fattr3 {
        let args = calls::getattr(&self.file);
        self.world.run(self.client.call(&args)).expect("a call").unwrap().obj_attributes
    }
}

fn both(check: impl Fn(&Scene, Cut)) {
    for cut in [Cut::Before, Cut::After] {
        check(&Scene::new(), cut);
    }
}

#[test]
fn what_makes_a_name_says_that_it_exists() {
    let exists = nfsstat3::NFS3ERR_EXIST;
    both(|scene, cut| {
        scene.check(cut, calls::mkdir(&scene.root, "new"), exists);
    });
    both(|scene, cut| {
        scene.check(cut, calls::create(&scene.root, "new"), exists);
    });
    both(|scene, cut| {
        scene.check(cut, calls::symlink(&scene.root, "new", "target"), exists);
    });
    both(|scene, cut| {
        scene.check(cut, calls::mkfifo(&scene.root, "new"), exists);
    });
    both(|scene, cut| {
        scene.check(cut, calls::link(&scene.file, &scene.root, "new"), exists);
        assert_eq!(scene.attributes().nlink, 2, "once");
    });
}

#[test]
fn what_takes_a_name_away_says_that_there_is_none() {
    let none = nfsstat3::NFS3ERR_NOENT;
    both(|scene, cut| {
        scene.check(cut, calls::remove(&scene.root, "file"), none);
    });
    both(|scene, cut| {
        scene.check(cut, calls::rmdir(&scene.root, "directory"), none);
    });
    both(|scene, cut| {
        let args = calls::rename((&scene.root, "file"), (&scene.root, "new"));
        scene.check(cut, args, none);
        let found = scene.world.run(scene.client.call(&calls::lookup(&scene.root, "new")));
        assert_eq!(found.expect("a call").unwrap().object, scene.file, "it was renamed");
    });
}

#[test]
fn an_exclusive_create_knows_its_own_file() {
    both(|scene, cut| {
        let args = calls::create_exclusive(&scene.root, "new", *b"verifier");
        let made = scene.check(cut, args, nfsstat3::NFS3_OK).expect("it succeeds");
        let Nfs3Option::Some(handle) = made.obj else { panic!("our server gives handles") };
        let found = scene.world.run(scene.client.call(&calls::lookup(&scene.root, "new")));
        assert_eq!(found.expect("a call").unwrap().object, handle, "and there is one file");
    });
}

#[test]
fn what_sets_a_state_sets_it_again() {
    both(|scene, cut| {
        let args = calls::write(&scene.file, 3, vec![9; 10_000], stable_how::FILE_SYNC);
        let written = scene.check(cut, args, nfsstat3::NFS3_OK).expect("it succeeds");
        assert_eq!((written.count, scene.attributes().size), (10_000, 10_003));
    });
    both(|scene, cut| {
        scene.check(cut, calls::setattr(&scene.file, calls::size(77)), nfsstat3::NFS3_OK);
        assert_eq!(scene.attributes().size, 77);
    });
}

#[test]
fn an_unstable_write_is_lost_and_its_verifier_says_so() {
    let scene = Scene::new();
    let write = calls::write(&scene.file, 0, vec![1; 100], stable_how::UNSTABLE);
    let written = scene.world.run(scene.client.call(&write)).expect("a call").unwrap();
    scene.world.crash_to(sim::Platter::durable_image);
    scene.world.start();
    let committed = scene.world.run(scene.client.call(&calls::commit(&scene.file)));
    assert_ne!(committed.expect("a call").unwrap().verf, written.verf, "another boot");
    assert_eq!(scene.attributes().size, 0);
}

#[test]
fn handles_outlive_a_server_that_is_killed_and_one_that_is_stopped() {
    let scene = Scene::new();
    let write = calls::write(&scene.file, 0, vec![1; 100], stable_how::FILE_SYNC);
    scene.world.run(scene.client.call(&write)).expect("a call").unwrap();
    scene.world.kill();
    assert_eq!(scene.world.status(), Status::Off);
    scene.world.start();
    assert_eq!(scene.attributes().size, 100);
    scene.world.run(scene.world.stop());
    scene.world.start();
    assert_eq!(scene.attributes().size, 100);
    assert_eq!(scene.world.boot(), 3);
}
