//! Members that have failed or were taken out, and return on a user's order.

use std::process::{Command, Stdio};

use super::*;

/// Long enough for a server to look for disks several times.
const LOOKS: Duration = Duration::from_secs(3);

fn listed(place: &Place) -> String {
    fs::read_to_string(place.volume.join("volume.toml")).expect("it is there")
}

#[test]
fn a_member_that_failed_comes_back_when_a_person_says_so() {
    let place = Place::made("--raid1", 3, &[]);
    // Only on this disk is the second label where writes will fail.
    let large = place.folder.path("large");
    let file = File::create(&large).expect("a new file");
    file.set_len(SIZE + (8 << 20)).expect("it is sparse");
    place.raid(&["replace", "1", text(&large), "--force"]).good();
    let serving = Serving::start_limited(&[&place.volume]);
    put(&serving, "data", "one", &letter(1));
    serving.limit_files(Some(SIZE));
    place.raid(&["fail", "0", "--force"]).good(); // its result is written to all labels
    assert_eq!([0, 1, 2].map(|slot| place.state_of(slot)), ["offline", "stale", "in_sync"]);
    serving.limit_files(None);
    put(&serving, "data", "two", &letter(2));
    pause(LOOKS);
    assert_eq!(place.state_of(1), "stale", "its disk may fail again");
    place.raid(&["online", "1"]).good();
    assert_eq!([0, 1, 2].map(|slot| place.state_of(slot)), ["offline", "in_sync", "in_sync"]);
    let told = place.raid(&["online", "0", "--background"]).good();
    assert!(told.contains("the member of slot 0 comes back"), "{told}");
    place.wait(|place| place.status()["state"] == "clean");
    assert!(serving.stop().success());
    place.assert_whole(&[("one", &letter(1)), ("two", &letter(2))]);
    wipe(&place.disks[0]);
    wipe(&place.disks[2]);
    place.assert_whole(&[("one", &letter(1)), ("two", &letter(2))]);
}

#[test]
fn a_member_that_was_taken_out_comes_back_when_a_person_says_so() {
    for is_served in [false, true] {
        let place = Place::made("--raid5", 3, &[]);
        let serving = Serving::start(&[&place.volume], &[]);
        put(&serving, "data", "one", &letter(1));
        place.raid(&["fail", "1", "--force"]).good();
        put(&serving, "data", "two", &letter(2));
        pause(LOOKS);
        assert_eq!(place.state_of(1), "offline", "it does not come by itself");
        assert!(serving.stop().success());
        let serving = Serving::start(&[&place.volume], &[]);
        put(&serving, "data", "three", &letter(3));
        pause(LOOKS);
        let status = place.status();
        assert_eq!(place.state_of(1), "offline", "nor at a start");
        assert_eq!(status["slots"][1]["path"], text(&place.disks[1]), "{status}");
        assert!(listed(&place).contains("disk-1"), "{}", listed(&place));
        let serving = if is_served {
            place.raid(&["online", "1"]).good();
            serving
        } else {
            assert!(serving.stop().success());
            let told = place.raid(&["online", "1"]).good();
            assert!(told.contains("the member of slot 1 is in again"), "{told}");
            Serving::start(&[&place.volume], &[])
        };
        assert_eq!(place.status()["state"], "clean");
        serving.kill();
        wipe(&place.disks[0]);
        assert!(Serving::start(&[&place.volume], &[]).stop().success());
        let files = [("one", &letter(1)[..]), ("two", &letter(2)), ("three", &letter(3))];
        place.assert_whole(&files);
    }
}

#[test]
fn a_member_that_was_taken_out_is_not_one_that_is_late() {
    let place = Place::made("--raid5", 3, &[]);
    place.raid(&["fail", "1", "--force"]).good();
    let drawer = place.folder.path("drawer");
    fs::create_dir(&drawer).expect("a new folder");
    let away = drawer.join("disk");
    fs::rename(&place.disks[1], &away).expect("it is ours");
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    fs::rename(&away, &place.disks[1]).expect("it is ours");
    pause(LOOKS);
    assert_eq!(place.state_of(1), "offline");
    place.raid(&["online", "1"]).good();
    assert!(serving.stop().success());
    wipe(&place.disks[0]);
    place.assert_whole(&[("one", &letter(1))]);
}

#[test]
fn a_member_whose_disk_has_moved_comes_back_by_its_path() {
    for is_served in [false, true] {
        let place = Place::made("--raid5", 3, &[]);
        let serving = is_served.then(|| Serving::start(&[&place.volume], &[]));
        place.raid(&["fail", "1", "--force"]).good();
        let drawer = place.folder.path("drawer");
        fs::create_dir(&drawer).expect("a new folder");
        let moved = drawer.join("disk");
        fs::rename(&place.disks[1], &moved).expect("it is ours");
        let refused = place.raid(&["online", "1"]);
        let why = "no disk with the member of slot 1 was found; looked at ";
        assert!(refused.code == 1 && refused.errors.contains(why), "{}", refused.errors);
        let all = place.disks.iter().all(|disk| refused.errors.contains(text(disk)));
        assert!(all, "{}", refused.errors);
        let refused = place.raid(&["online", "1", text(&place.disks[2])]);
        assert!(refused.code == 1 && refused.errors.contains(why), "{}", refused.errors);
        assert!(!refused.errors.contains("disk-0"), "{}", refused.errors);
        assert_eq!(place.state_of(1), "offline");
        let told = place.raid(&["online", "1", text(&moved)]);
        assert_eq!(told.code, 0, "{}", told.errors);
        assert_eq!(place.status()["state"], "clean");
        let list = listed(&place);
        // A run that has never seen the disk at its old path cannot know that the path was its own.
        let is_moved = !list.contains("disk-1") || !is_served;
        assert!(list.contains(text(&moved)) && is_moved, "{list}");
        serving.into_iter().for_each(|serving| assert!(serving.stop().success()));
        assert_eq!(place.status()["state"], "clean");
    }
}

#[test]
fn what_cannot_come_back_is_refused_in_a_sentence() {
    let place = Place::made("--raid5", 3, &[]);
    for is_served in [false, true] {
        let serving = is_served.then(|| Serving::start(&[&place.volume], &[]));
        place.raid(&["online", "7"]).failed(2, "there is no slot 7: there are 0 to 2");
        place.raid(&["online", "1"]).failed(1, "the member of slot 1 is in already");
        serving.into_iter().for_each(|serving| assert!(serving.stop().success()));
    }
    // A partly overwritten disk is not trusted.
    place.raid(&["fail", "1", "--force"]).good();
    let disk = File::options().write(true).open(&place.disks[1]).expect("it is there");
    disk.write_all_at(&[b'?'; 4096], 0).expect("there is room");
    let refused = place.raid(&["online", "1"]);
    let why = "no disk with the member of slot 1 was found";
    assert!(refused.code == 1 && refused.errors.contains(why), "{}", refused.errors);
    let striped = Place::made("--raid0", 2, &[]);
    striped.raid(&["online", "1"]).failed(2, "raid0 has nothing to make a member of");
}

#[test]
fn a_program_that_takes_a_member_out_says_that_it_is_meant() {
    let place = Place::made("--raid5", 3, &[]);
    let told = Command::new(env!("CARGO_BIN_EXE_duramen"))
        .args(["raid", "fail", text(&place.volume), "1"])
        .stdin(Stdio::null())
        .output()
        .expect("the program was just built");
    let errors = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.code() == Some(1) && errors.contains("say --force"), "{errors}");
    assert_eq!(place.status()["state"], "clean");
}

#[test]
fn the_disk_of_a_member_that_was_taken_out_is_let_go_of_when_a_spare_has_its_place() {
    let place = Place::made("--raid5", 3, &[]);
    place.raid(&["fail", "1", "--force"]).good();
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    let bare = || duramen(&["mkfs", "--bare", "--force", text(&place.disks[1])]);
    bare().failed(1, "in use"); // the set reads from it what the others lack
    let spare = place.folder.path("spare");
    wipe(&spare);
    place.raid(&["spare", text(&spare)]).good();
    place.wait(|place| place.status()["state"] == "clean");
    assert!(!listed(&place).contains("disk-1"), "{}", listed(&place));
    bare().good();
    assert!(serving.stop().success());
    wipe(&place.disks[0]);
    place.assert_whole(&[("one", &letter(1))]);
}

/// An order about its slot is refused, or does not complete: the set reads from it what the others
/// lack, as before.
#[test]
fn the_disk_of_a_member_that_was_taken_out_is_kept_when_an_order_does_not_complete() {
    let place = Place::made("--raid5", 3, &[]);
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &letter(1));
    place.raid(&["fail", "1", "--force"]).good();
    put(&serving, "data", "two", &letter(2));
    let disk = text(&place.disks[1]);
    let assert_kept = || duramen(&["mkfs", "--bare", "--force", disk]).failed(1, "in use");
    assert_kept();
    place.raid(&["replace", "1", disk]).failed(1, "say --force");
    assert_kept();
    place.raid(&["pause"]).good();
    place.raid(&["online", "1", "--background"]).good();
    place.wait(|place| place.raid(&["cancel"]).code == 0);
    place.wait(|place| place.state_of(1) == "stale");
    pause(LOOKS);
    assert_kept();
    place.raid(&["resume"]).good();
    place.raid(&["online", "1"]).good();
    assert!(serving.stop().success());
    wipe(&place.disks[0]);
    place.assert_whole(&[("one", &letter(1)), ("two", &letter(2))]);
}
