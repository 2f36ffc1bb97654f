//! Configuration files: `volume.toml` and `duramen.toml`.

use std::net::IpAddr;
use std::path::Path;

use duramen_settings::Settings;
use server::Config;
use sim::Prng;

use super::Target;

pub(super) const VOLUME: Target = Target {
    name: "volume-toml",
    check: check_volume,
    generate: generate_volume,
    longest: 2 << 10,
    memory: 256 << 10,
};

pub(super) const SERVER: Target = Target {
    name: "duramen-toml",
    check: check_server,
    generate: generate_server,
    longest: 4 << 10,
    memory: 256 << 10,
};

fn check_volume(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Settings::parse(&text) {
        Ok(settings) => {
            assert_eq!(Settings::parse(&settings.to_text()), Ok(settings.clone()));
            let options = settings.softdep.options();
            let ages = [options.ages.inode, options.ages.directory, options.ages.file];
            assert!(ages.iter().all(|age| !age.is_zero()), "no change is old at once");
            assert!(options.reclaim_share > 0.0 && options.reclaim_share <= 1.0);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn check_server(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let config = match Config::parse(&text, Path::new("duramen.toml")) {
        Ok(config) => config,
        Err(error) => return assert!(error.to_string().len() > 10, "{error}"),
    };
    assert!(!config.listen.0.is_empty(), "a server listens");
    let limits = config.limits();
    let least = u64::from(dispatch::MAX_TRANSFER);
    assert!(limits.calls > 0 && limits.request_memory >= least && limits.reply_memory >= least);
    assert_eq!(config.window().age.as_secs(), config.reply_cache.seconds);
    let exports = config.exports().expect("they were looked at before");
    for (volume, section) in &config.exports {
        for client in section.clients.iter().flatten() {
            let network = client.network.0;
            let rule = exports.rule(volume, network.addr()).expect("who is named has a rule");
            assert!(rule.network.contains(&network.addr()), "and one that is for him");
            assert!(rule.network.prefix_len() >= network.prefix_len(), "the closest one");
        }
        for address in ["127.0.0.1", "::1", "::ffff:10.0.0.1", "255.255.255.255"] {
            let address: IpAddr = address.parse().expect("an address");
            let _ = exports.rule(volume, address);
        }
    }
}

fn generate_volume(prng: &mut Prng) -> Vec<u8> {
    let texts = [
        "policy = \"sync\"\n",
        "# a volume\npolicy = 'sync'\n",
        "engine = \"ffs\"\npolicy = \"log\"\nlog_size = 8388608\n",
        "",
        "policy = \"softdep\"\n[softdep]\ninode_age = \"10 s\"\ndirectory_age = 15\n\
         file_age = \"2 min\"\nmemory = \"64 MiB\"\nreclaim_share = 0.25\n",
    ];
    texts[prng.index(texts.len())].into()
}

/// Some of the lines of a complete file.
fn generate_server(prng: &mut Prng) -> Vec<u8> {
    const LINES: [&str; 24] = [
        "listen = [\"127.0.0.1:2049\", \"[::1]:2049\"]",
        "listen = \"[::]:2049\"",
        "cache = \"256 MiB\"",
        "cache = 4096",
        "rpcbind = false",
        "[exports.data]",
        "clients = [",
        "  { network = \"10.1.0.0/16\", access = \"rw\" },",
        "  { network = \"10.0.0.0/8\", access = \"ro\", squash = \"all\", anonymous_uid = 1000 },",
        "  { network = \"fe80::/10\", access = \"rw\", squash = \"none\" },",
        "]",
        "[exports.other]",
        "clients = []",
        "[limits]",
        "connections = 1024",
        "calls = 4096",
        "calls_per_connection = 256",
        "request_memory = \"64 MiB\"",
        "reply_memory = \"64 MiB\"",
        "[reply_cache]",
        "seconds = 600",
        "memory = \"64 MiB\"",
        "calls_per_client = 32768",
        "memory_per_client = \"16 MiB\"",
    ];
    let keep = 4 + prng.below(8);
    let lines = LINES.iter().filter(|_| prng.chance(keep, 10));
    lines.flat_map(|line| [line, "\n"]).collect::<String>().into()
}
