//! Losses that a scrub has found, and those that a rebuild has met.

use super::*;
use crate::metrics::{get, post};

/// Begins a scrub of a set with lost data, and cancels it: neither makes the set well.
pub(super) fn keeps_its_losses_while_scrubbed_again(place: &Place) {
    let is_lost = || {
        let said = on("status", &place.volume, &[]);
        let why = "scrubs have found 1 places of which no right copy is left";
        assert!(said.code == 2 && said.output.contains(why), "{said:?}");
        let status = place.status();
        assert_eq!(status["losses"]["bytes"], 4096);
        status["scrub"].clone()
    };
    assert_eq!(is_lost()["done_bytes"], is_lost()["total_bytes"]);
    place.raid(&["pause"]).good();
    let (status, begun) = post(&place.volume, "/v1/raid/scrub");
    assert!(status == 200 && begun.contains("\"job\""), "{begun}");
    let scrub = is_lost();
    assert!(scrub.is_null() || scrub["done_bytes"] != scrub["total_bytes"], "{scrub}");
    place.raid(&["cancel"]).good();
    place.raid(&["resume"]).good();
    while !get(&place.volume, "/v1/jobs").1.contains("\"cancelled\"") {
        pause(Duration::from_millis(20));
    }
    is_lost();
}

/// A set of four, with one bad block, whose next member is filled although no disk has that block's
/// neighbour.
fn with_a_loss() -> (Place, usize) {
    let place = Place::made("--raid5", 4, &["--policy", "sync"]);
    // Several stripes, so that no member has zeros beside the bad block.
    let one: Vec<u8> = (0..600_u32 << 10)
        .map(|at| b'a' + ((at.wrapping_mul(2_654_435_761) >> 24) % 23) as u8)
        .collect();
    let serving = Serving::start(&[&place.volume], &[]);
    put(&serving, "data", "one", &one);
    assert!(serving.stop().success());
    let (disk, at, parity) = place_of(&place, &one[60 << 12..][..4096]);
    let gone = (0..4).find(|&slot| slot != disk && slot != parity).expect("there are four");
    place.raid(&["fail", &gone.to_string(), "--force"]).good();
    wipe(&place.disks[gone]);
    flip(&place.disks[disk], at);
    (place, gone)
}

#[test]
fn a_rebuild_that_lacks_blocks_says_so_and_a_later_status_as_well() {
    for is_served in [false, true] {
        let (place, gone) = with_a_loss();
        let serving = is_served.then(|| Serving::start(&[&place.volume], &[]));
        let told = place.raid(&["replace", &gone.to_string(), text(&place.disks[gone])]);
        let why = format!("the member of slot {gone} is in, but 1 blocks of 4 KiB are on no disk");
        assert!(told.code == 1 && told.errors.contains(&why), "{is_served}: {told:?}");
        place.wait(|place| place.status()["losses"]["bytes"].as_u64() > Some(0));
        if let Some(serving) = serving {
            place.wait(|place| place.volume.join("losses").exists());
            assert!(serving.stop().success());
        }
        assert_eq!(place.status()["state"], "clean", "all members are in");
        let told = place.raid(&["status"]);
        let why = "lost, as an earlier scrub found";
        assert!(told.code == 2 && told.output.contains(why), "{is_served}: {told:?}");
        let told = on("fsck", &place.volume, &[]);
        assert!(told.code == 4 && told.output.contains("known loss: /one"), "{told:?}");
        let serving = Serving::start(&[&place.volume], &[]);
        let told = place.raid(&["status"]);
        assert!(told.code == 2 && told.output.contains(why), "{is_served}: {told:?}");
        assert!(serving.stop().success());
    }
}
