//! Health and metrics of a served volume, made of the copy of its counters.

use designs::LogStatistics;
use serde_json::Value;
use server::control::{Health, VolumeCopy, VolumeHealth};
use server::metrics::{Metric, Page};

use super::live::{Live, Shadow, Softdep};
use crate::scrub::Scrub;
use crate::sets::Status;

static SIZE: Metric = Metric::gauge("duramen_volume_size_bytes", "Size of the file system.");
static FREE: Metric =
    Metric::gauge("duramen_volume_free_bytes", "Free space, with the part reserved for root.");
static FILES: Metric = Metric::gauge("duramen_volume_files", "Files and directories.");
static DIRECTORIES: Metric = Metric::gauge("duramen_volume_directories", "Directories.");
static DELAYED: Metric = Metric::gauge(
    "duramen_volume_delayed",
    "1 if replies do not wait for the disk, as the export declares; otherwise 0.",
);
static LOG_SIZE: Metric = Metric::gauge("duramen_log_size_bytes", "Size of the log.");
static LOG_LIVE: Metric = Metric::gauge(
    "duramen_log_live_bytes",
    "Bytes of the log that hold changes which are not in place yet.",
);
static LOG_ENTRIES: Metric = Metric::counter("duramen_log_entries_total", "Entries of the log.");
static LOG_BATCHES: Metric = Metric::counter(
    "duramen_log_batches_total",
    "Writes of the log: the entries of one batch become durable together.",
);
static LOG_BYTES: Metric =
    Metric::counter("duramen_log_written_bytes_total", "Bytes written to the log.");
static LOG_SYNCS: Metric = Metric::counter(
    "duramen_log_syncs_total",
    "Rounds in which logged changes were written in place to free the log.",
);
static LOG_ANSWERS: Metric = Metric::gauge(
    "duramen_log_replies",
    "Replies that the log keeps, so that a repeated call is recognised after a crash.",
);
static LOG_WAITS: Metric = Metric::counter(
    "duramen_log_long_waits_total",
    "Times that a call has waited 10 seconds for room in the log.",
);
static WRITES: Metric = Metric::counter(
    "duramen_softdep_writes_total",
    "Policy softdep: writes that a reply or a stop waited for (sync), and others (async).",
);
static FLUSHES: Metric =
    Metric::counter("duramen_softdep_flushes_total", "Policy softdep: flushes of the disk.");
static PENDING: Metric =
    Metric::gauge("duramen_softdep_pending", "Policy softdep: operations that are not durable.");
static PENDING_BYTES: Metric = Metric::gauge(
    "duramen_softdep_pending_bytes",
    "Policy softdep: memory for undoing changes that are not durable.",
);
static UPDATES: Metric =
    Metric::counter("duramen_shadow_updates_total", "Engine shadow: updates, over all starts.");
static BARRIERS: Metric = Metric::counter(
    "duramen_shadow_barriers_total",
    "Engine shadow: flushes, and writes that reached stable storage by themselves.",
);
static WRITTEN: Metric =
    Metric::counter("duramen_shadow_written_bytes_total", "Engine shadow: bytes written.");
static COMPACTED: Metric = Metric::counter(
    "duramen_shadow_compacted_bytes_total",
    "Engine shadow: bytes that were moved to free whole zones.",
);
static SNAPSHOTS: Metric = Metric::gauge(
    "duramen_shadow_snapshots",
    "Engine shadow: snapshots, with those that are being deleted.",
);
static SPACE_LOG: Metric =
    Metric::gauge("duramen_shadow_space_log_bytes", "Engine shadow: bytes of the space log.");
static SCRUBBED: Metric =
    Metric::gauge("duramen_scrub_done_bytes", "Bytes that the last scrub has compared.");
static TO_SCRUB: Metric =
    Metric::gauge("duramen_scrub_total_bytes", "Bytes that the last scrub has to compare.");
static SCRUB_MENDED: Metric =
    Metric::gauge("duramen_scrub_mended", "Places that the last scrub has rewritten.");
static SCRUB_LOST: Metric =
    Metric::gauge("duramen_scrub_lost", "Places that the last scrub found without a right copy.");

impl VolumeCopy for Live {
    fn json(&self) -> Value {
        serde_json::to_value(self).expect("all keys are names")
    }

    fn health(&self) -> VolumeHealth {
        let mut health = VolumeHealth::default();
        if let Some(raid) = &self.raid {
            raid.judge(&mut health);
        }
        if let Some(nvram) = &self.nvram {
            nvram.judge(&mut health);
        }
        // A scrub that runs may have found more than is known, or may not have come so far.
        let found = self.scrub.as_ref().map_or(0, Scrub::lost);
        let found = found.max(self.raid.as_ref().map_or(0, Status::lost_places));
        let lost = self.losses.places.max(found);
        if lost > 0 {
            let why = format!("scrubs have found {lost} places of which no right copy is left");
            health.add(Health::Losses, why);
        }
        if let Some(error) = &self.losses.failure {
            health.add(Health::Degraded, format!("the last scrub ended early: {error}"));
        }
        if self.reclaim.as_ref().is_some_and(|reclaim| reclaim.state == "failed") {
            health.add(Health::Degraded, "leaked space could not be reclaimed: run duramen fsck");
        }
        health
    }

    fn measure(&self, volume: &str, page: &mut Page) {
        let labels = [("volume", volume)];
        page.add(&SIZE, &labels, self.total_bytes);
        page.add(&FREE, &labels, self.free_bytes);
        page.add(&FILES, &labels, self.files);
        page.add(&DIRECTORIES, &labels, self.directories);
        page.add(&DELAYED, &labels, u64::from(self.durability == "delayed"));
        self.log.iter().for_each(|log| measure_log(log, volume, page));
        self.softdep.iter().for_each(|softdep| measure_softdep(softdep, volume, page));
        self.shadow.iter().for_each(|shadow| measure_shadow(shadow, volume, page));
        self.raid.iter().for_each(|raid| raid.measure(volume, page));
        self.nvram.iter().for_each(|nvram| nvram.measure(volume, page));
        if let Some(scrub) = &self.scrub {
            let (done, total) = scrub.progress();
            page.add(&SCRUBBED, &labels, done);
            page.add(&TO_SCRUB, &labels, total);
            page.add(&SCRUB_MENDED, &labels, scrub.mended());
            page.add(&SCRUB_LOST, &labels, scrub.lost());
        }
    }
}

fn measure_log(log: &LogStatistics, volume: &str, page: &mut Page) {
    let labels = [("volume", volume)];
    page.add(&LOG_SIZE, &labels, log.capacity);
    page.add(&LOG_LIVE, &labels, log.live_bytes);
    page.add(&LOG_ENTRIES, &labels, log.writes.entries);
    page.add(&LOG_BATCHES, &labels, log.writes.batches);
    page.add(&LOG_BYTES, &labels, log.writes.bytes);
    page.add(&LOG_SYNCS, &labels, log.syncs);
    page.add(&LOG_ANSWERS, &labels, log.answers_held);
    page.add(&LOG_WAITS, &labels, log.long_waits);
}

fn measure_softdep(softdep: &Softdep, volume: &str, page: &mut Page) {
    let labels = [("volume", volume)];
    page.add(&WRITES, &[labels[0], ("kind", "sync")], softdep.sync_writes);
    page.add(&WRITES, &[labels[0], ("kind", "async")], softdep.async_writes);
    page.add(&FLUSHES, &labels, softdep.flushes);
    page.add(&PENDING, &labels, softdep.pending);
    page.add(&PENDING_BYTES, &labels, softdep.pending_bytes);
}

fn measure_shadow(shadow: &Shadow, volume: &str, page: &mut Page) {
    let labels = [("volume", volume)];
    page.add(&UPDATES, &labels, shadow.update);
    page.add(&BARRIERS, &labels, shadow.barriers);
    page.add(&WRITTEN, &[labels[0], ("kind", "metadata")], shadow.metadata_bytes);
    page.add(&WRITTEN, &[labels[0], ("kind", "data")], shadow.data_bytes);
    page.add(&COMPACTED, &labels, shadow.compacted_bytes);
    page.add(&SNAPSHOTS, &labels, shadow.snapshots);
    page.add(&SPACE_LOG, &labels, shadow.space_log_bytes);
}
