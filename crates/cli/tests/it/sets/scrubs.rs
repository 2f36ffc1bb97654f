//! Losses that a scrub has found, while another one is under way.

use std::time::Duration;

use super::Place;
use crate::common::{on, pause};
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
