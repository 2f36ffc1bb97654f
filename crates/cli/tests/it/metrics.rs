//! Metrics and health of a running server, against a client that makes known calls.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use futures::executor::block_on;
use nfs3_types::nfs3::{GETATTR3args, LOOKUP3args, Nfs3Result, READ3args, diropargs3, nfsstat3};
use serde_json::Value;

use crate::common::exposition::Samples;
use crate::common::serving::{Serving, good, put};
use crate::common::{Folder, duramen, make_mirror, on};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.md"));

/// Status and body of the answer to a GET on the socket of a volume.
pub(crate) fn get(volume: &Path, route: &str) -> (u16, String) {
    request(volume, &format!("GET {route} HTTP/1.1\r\nHost: d\r\n\r\n"))
}

/// Status and body of the answer to a POST without arguments on the socket of a volume.
pub(crate) fn post(volume: &Path, route: &str) -> (u16, String) {
    let head = format!("POST {route} HTTP/1.1\r\nHost: d\r\nContent-Length: 2\r\n\r\n{{}}");
    request(volume, &head)
}

fn request(volume: &Path, request: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(volume.join("control.sock")).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a number"), body.to_owned())
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn scrape(volume: &Path) -> Samples {
    let (status, text) = get(volume, "/metrics");
    assert_eq!(status, 200, "{text}");
    Samples::read(&text)
}

fn made(folder: &Folder, name: &str, more: &[&str]) -> PathBuf {
    let volume = folder.path(name);
    on("mkfs", &volume, &[&["--size", "16M"], more].concat()).good();
    volume
}

#[test]
fn metrics_of_two_volumes_agree_with_what_a_client_did() {
    let folder = Folder::new();
    let data = made(&folder, "data", &[]);
    let other = made(&folder, "other", &["--engine", "shadow"]);
    let serving = Serving::start(&[&data, &other], &[]);
    let before = scrape(&data);
    put(&serving, "data", "file", &[7; 5_000]);
    let (mut client, root) = serving.mount("data");
    let lookup = |name: &'static str| LOOKUP3args {
        what: diropargs3 { dir: root.clone(), name: name.as_bytes().into() },
    };
    let file = good(block_on(client.lookup(&lookup("file"))).expect("a reply")).object;
    let missing = block_on(client.lookup(&lookup("missing"))).expect("a reply");
    assert!(matches!(missing, Nfs3Result::Err((nfsstat3::NFS3ERR_NOENT, _))));
    let read = READ3args { file, offset: 0, count: 5_000 };
    good(block_on(client.read(&read)).expect("a reply"));
    good(block_on(client.getattr(&GETATTR3args { object: root.clone() })).expect("a reply"));
    let after = scrape(&other);
    let grown = after.since(&before);
    let calls = |volume: &str, procedure: &str| {
        let labels = format!("{{volume=\"{volume}\",procedure=\"{procedure}\"}}");
        let total = grown.get(format!("duramen_nfs_calls_total{labels}").as_str());
        let timed = grown.get(format!("duramen_nfs_call_duration_seconds_count{labels}").as_str());
        assert_eq!(total, timed, "{labels}");
        total.copied().unwrap_or_default()
    };
    for (procedure, count) in
        [("create", 1.0), ("write", 1.0), ("lookup", 2.0), ("read", 1.0), ("getattr", 1.0)]
    {
        assert_eq!(calls("data", procedure), count, "{procedure}");
        assert_eq!(calls("other", procedure), 0.0, "{procedure}");
    }
    let of = |sample: &str| grown.get(sample).copied().unwrap_or_default();
    assert_eq!(of("duramen_nfs_errors_total{volume=\"data\",status=\"NFS3ERR_NOENT\"}"), 1.0);
    assert_eq!(of("duramen_mount_calls_total{procedure=\"mnt\"}"), 2.0);
    let bytes = ["received", "sent"]
        .map(|way| of(&format!("duramen_nfs_{way}_bytes_total{{volume=\"data\"}}")));
    assert!(bytes.iter().all(|&bytes| (5_000.0..8_000.0).contains(&bytes)), "{bytes:?}");
    assert_eq!(of("duramen_reply_cache_misses_total"), 2.0, "CREATE and WRITE");
    assert_eq!(of("duramen_reply_cache_replies"), 2.0);
    assert!(of("duramen_memory_bytes{use=\"reply_cache\"}") > 0.0);
    assert!(of("duramen_connections_accepted_total") >= 4.0);
    for counter in ["entries", "batches", "written_bytes"] {
        assert!(of(&format!("duramen_log_{counter}_total{{volume=\"data\"}}")) > 0.0, "{counter}");
    }
    assert_eq!(of("duramen_volume_files{volume=\"data\"}"), 1.0);
    assert!(of("duramen_volume_free_bytes{volume=\"data\"}") <= -5_000.0);
    // Each disk and log counts for itself, with the flushes that the engine made.
    let device = |name: &str, metric: &str, kind: &str| {
        let path = folder.path(name);
        of(&format!("duramen_device_{metric}{{device=\"{}\",kind=\"{kind}\"}}", path.display()))
    };
    assert!(device("data/log.img", "bytes_total", "write") >= 5_000.0);
    assert!(device("data/log.img", "call_duration_seconds_count", "write") >= 1.0);
    assert_eq!(device("data/log.img", "errors_total", "write"), 0.0);
    assert_eq!(device("other/disk.img", "bytes_total", "write"), 0.0, "no call was for it");
    let status: Value =
        serde_json::from_str(&on("status", &data, &["--json"]).good()).expect("it is JSON");
    let devices = status["devices"].as_array().expect("a list");
    let log = devices.iter().find(|it| it["device"] == plain(&folder.path("data/log.img")));
    let log = log.expect("it is open");
    assert!(log["write"]["mean_us"].as_f64() > Some(0.0) && log["pending"] == 0, "{log}");
    assert_eq!(devices.len(), 3, "two disks and a log: {status}");
    assert!(after.of("duramen_shadow_barriers_total{volume=\"other\"}") > 0.0);
    assert_eq!(of("duramen_refusals_total{reason=\"rule\"}"), 0.0);
    assert!(serving.stop().success());
}

#[test]
fn refusals_and_bad_peers_are_counted() {
    let folder = Folder::new();
    let data = made(&folder, "data", &[]);
    let serving = Serving::start(&[&data], &[]);
    let before = scrape(&data);
    assert!(serving.refuses("nothing"));
    let mut garbled = TcpStream::connect(serving.address()).expect("it accepts");
    garbled
        .write_all(&[0x80, 0, 0, 24].iter().copied().chain([9; 24]).collect::<Vec<u8>>())
        .expect("it reads");
    assert_eq!(garbled.read(&mut [0; 8]).unwrap_or_default(), 0, "it is hung up");
    let grown = |sample: &str| scrape(&data).since(&before).get(sample).copied();
    assert_eq!(grown("duramen_refusals_total{reason=\"path\"}"), Some(1.0));
    serving.until(|| grown("duramen_connections_closed_total{reason=\"garbled\"}") == Some(1.0));
    assert!(serving.stop().success());
}

#[test]
fn a_killed_server_counts_from_nothing_again() {
    let folder = Folder::new();
    let data = made(&folder, "data", &[]);
    let serving = Serving::start(&[&data], &[]);
    put(&serving, "data", "file", &[7; 100]);
    const CREATES: &str = "duramen_nfs_calls_total{volume=\"data\",procedure=\"create\"}";
    assert_eq!(scrape(&data).of(CREATES), 1.0);
    serving.kill();
    let serving = Serving::start(&[&data], &[]);
    let samples = scrape(&data);
    assert_eq!(samples.of(CREATES), 0.0);
    assert!(samples.of("duramen_reply_cache_replies") >= 1.0, "of before the start");
    assert_eq!(samples.of("duramen_volume_state{volume=\"data\",state=\"ok\"}"), 1.0);
    assert!(serving.stop().success());
}

#[test]
fn the_page_for_administrators_has_every_metric_and_no_other() {
    let folder = Folder::new();
    let data = made(&folder, "data", &[]);
    let soft = made(&folder, "soft", &["--policy", "softdep"]);
    let shadow = made(&folder, "shadow", &["--engine", "shadow"]);
    let serving = Serving::start(&[&data, &soft, &shadow], &[]);
    let (_, text) = get(&data, "/metrics");
    assert!(text.len() < 4 * (64 << 10), "{} bytes for three volumes", text.len());
    let families = Samples::read(&text).families;
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `duramen_"));
    let names = rows.filter_map(|row| Some(format!("duramen_{}", row.split(['`', '{']).next()?)));
    let names: Vec<String> = names.collect();
    for family in &families {
        assert!(names.contains(family), "docs/admin.md lacks {family}");
    }
    // Parts that these volumes do not have.
    let is_absent = |name: &&String| {
        ["duramen_raid_", "duramen_nvram_", "duramen_scrub_"].iter().any(|it| name.starts_with(it))
    };
    for name in names.iter().filter(|name| !is_absent(name)) {
        assert!(families.contains(name), "docs/admin.md has {name}, and the server does not");
    }
    assert!(serving.stop().success());
}

#[test]
fn metrics_of_a_set_have_its_slots() {
    let folder = Folder::new();
    let volume = make_mirror(&folder);
    let serving = Serving::start(&[&volume], &[]);
    let samples = scrape(&volume);
    for slot in 0..2 {
        let labels = format!("{{volume=\"data\",slot=\"{slot}\"}}");
        assert_eq!(samples.of(&format!("duramen_raid_slot_in_sync{labels}")), 1.0);
    }
    let (status, body) = get(&volume, "/healthz");
    assert_eq!(status, 200, "{body}");
    for disk in ["disk-1", "disk-2"] {
        let disk = folder.path(disk);
        let flushes = format!("{{device=\"{}\",kind=\"flush\"}}", disk.display());
        assert!(samples.of(&format!("duramen_device_call_duration_seconds_count{flushes}")) > 0.0);
    }
    duramen(&["raid", "fail", volume.to_str().expect("plain"), "1", "--force"]).good();
    let samples = scrape(&volume);
    assert_eq!(samples.of("duramen_raid_slot_in_sync{volume=\"data\",slot=\"1\"}"), 0.0);
    assert_eq!(samples.of("duramen_volume_state{volume=\"data\",state=\"degraded\"}"), 1.0);
    let (status, body) = get(&volume, "/healthz");
    assert!(status == 200 && body.contains("the set of disks is degraded"), "{status} {body}");
    for family in samples.families.iter().filter(|name| name.starts_with("duramen_raid_")) {
        assert!(PAGE.contains(&format!("| `{family}")), "docs/admin.md lacks {family}");
    }
    assert!(serving.stop().success());
}

#[test]
fn a_volume_without_a_socket_is_in_the_answers_of_the_others() {
    let folder = Folder::new();
    let data = made(&folder, "data", &[]);
    let bare = made(&folder, "bare.img", &["--bare"]);
    let serving = Serving::start(&[&data, &bare], &[]);
    let samples = scrape(&data);
    assert_eq!(samples.of("duramen_volume_state{volume=\"bare\",state=\"ok\"}"), 1.0);
    assert!(samples.of("duramen_volume_size_bytes{volume=\"bare\"}") > 0.0);
    assert!(serving.stop().success());
}
