//! Health and metrics of a set.

use server::control::{Health, VolumeHealth};
use server::metrics::{Metric, Page};

use super::{Losses, State, Status};

static IN_SYNC: Metric = Metric::gauge(
    "duramen_raid_slot_in_sync",
    "Whether the disk of a slot is up to date: 1, or 0 if it is missing, stale or being rebuilt.",
);
static ERRORS: Metric = Metric::counter(
    "duramen_raid_slot_errors_total",
    "Errors of the disk in a slot over all starts: read, write or checksum.",
);
static MENDED: Metric = Metric::counter(
    "duramen_raid_slot_mended_total",
    "Places of the disk in a slot that were wrong or unreadable and were rewritten.",
);
static SILENT: Metric = Metric::gauge(
    "duramen_raid_slot_silent_seconds",
    "Time for which the disk in a slot has not answered; 0 if it answers.",
);
static REBUILT: Metric =
    Metric::gauge("duramen_raid_rebuild_done_bytes", "Bytes of the running rebuild that are done.");
static TO_REBUILD: Metric =
    Metric::gauge("duramen_raid_rebuild_total_bytes", "Size of the running rebuild in bytes.");
static SPARES: Metric = Metric::gauge("duramen_raid_spares", "Hot spares.");
static LOST: Metric = Metric::counter(
    "duramen_raid_lost_reads_total",
    "Reads that failed because no disk has the data any more.",
);
static IO: Metric = Metric::counter(
    "duramen_raid_requests_total",
    "Requests to the set, and what they became: read, write, log_write, full_stripe or \
     partial_stripe.",
);

impl Status {
    /// Number of lost places that the last scrub has found, or has found so far.
    pub(crate) fn lost_places(&self) -> usize {
        self.scrub.as_ref().map_or(0, |scrub| scrub.lost.len())
    }

    /// Adds the troubles of the set.
    pub(crate) fn judge(&self, health: &mut VolumeHealth) {
        let state = match self.state {
            State::Clean => Health::Ok,
            State::Rebuilding => Health::Rebuilding,
            State::Failed => Health::Stopped,
            _ => Health::Degraded,
        };
        if state != Health::Ok {
            health.add(state, format!("the set of disks is {}", self.state.word()));
        }
        // The losses that scrubs have found are those of the volume, and are judged there.
        let Losses { reads, blocks, .. } = self.losses.unwrap_or_default();
        if reads + blocks > 0 {
            health.add(Health::Losses, "the set of disks has lost data");
        }
    }

    /// Adds the metrics of the set.
    pub(crate) fn measure(&self, volume: &str, page: &mut Page) {
        for slot in &self.slots {
            let number = slot.slot.to_string();
            let labels = [("volume", volume), ("slot", number.as_str())];
            page.add(&IN_SYNC, &labels, u64::from(slot.state == "in_sync"));
            page.add(&MENDED, &labels, slot.mended);
            page.add(&SILENT, &labels, slot.silent_seconds);
            for (kind, count) in [
                ("read", slot.read_errors),
                ("write", slot.write_errors),
                ("checksum", slot.checksum_errors),
            ] {
                page.add(&ERRORS, &[labels[0], labels[1], ("kind", kind)], count);
            }
        }
        let labels = [("volume", volume)];
        if let Some(rebuild) = &self.rebuild {
            page.add(&REBUILT, &labels, rebuild.done_bytes);
            page.add(&TO_REBUILD, &labels, rebuild.total_bytes);
        }
        page.add(&SPARES, &labels, self.spares.len());
        page.add(&LOST, &labels, self.losses.map_or(0, |losses| losses.reads));
        for (kind, count) in [
            ("read", self.io.reads),
            ("write", self.io.writes),
            ("log_write", self.io.log_writes),
            ("full_stripe", self.io.full_stripes),
            ("partial_stripe", self.io.partial_stripes),
        ] {
            page.add(&IO, &[labels[0], ("kind", kind)], count);
        }
    }
}
