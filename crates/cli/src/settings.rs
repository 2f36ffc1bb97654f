//! `volume.toml`: the settings of a volume that are not on its disk.
//!
//! The file is text that a person may have changed, so its contents are either understood or
//! refused with the place and the reason. An unknown key is refused: it may be a typing error, or
//! belong to a later version. An unknown engine or policy is refused with a list of the known ones.
//! A file without an engine dates from the time when there was only one.
//!
//! A library of its own, although only this program uses it: so a fuzzer can reach it. Architecture
//! invariant: text into types and back; no files, no disks.

#[path = "settings/nvram.rs"]
mod nvram;
#[path = "settings/raid.rs"]
mod raid;
#[path = "settings/snapshots.rs"]
mod snapshots;
#[path = "settings/softdep.rs"]
mod softdep;

use designs::{DESIGNS, Design};
use serde::de::Error;
use serde::{Deserialize, Serialize};
use toml::Spanned;

pub use nvram::NvramSettings;
use raid::RaidKeys;
pub use raid::{RaidSettings, id_of, text_of};
use snapshots::SnapshotsKeys;
pub use snapshots::SnapshotsSettings;
use softdep::SoftdepKeys;
pub use softdep::SoftdepSettings;

/// Minimum size of a log that a user may request, in bytes.
pub const SMALLEST_LOG: u64 = 2 << 20;
/// Engine of a file that names none.
const FIRST_ENGINE: &str = "ffs";

/// Contents of `volume.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Engine and policy.
    pub design: &'static Design,
    /// Size to which the log grows, in bytes; on a set of disks, its fixed size at the set's end.
    pub log_size: Option<u64>,
    /// The underlying set of disks, if there is one.
    pub raid: Option<RaidSettings>,
    /// The NVRAM in front of that set, if there is one.
    pub nvram: Option<NvramSettings>,
    /// Delays of soft updates, for a design that has these. Other designs keep them for later.
    pub softdep: SoftdepSettings,
    /// Snapshots that the server creates by itself.
    pub snapshots: SnapshotsSettings,
}

/// Keys of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    softdep: Option<SoftdepKeys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshots: Option<SnapshotsKeys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raid: Option<RaidKeys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nvram: Option<NvramSettings>,
}

impl Settings {
    /// Default settings of a design.
    pub fn of(design: &'static Design) -> Self {
        let (softdep, snapshots) = (SoftdepSettings::default(), SnapshotsSettings::default());
        Self { design, log_size: None, raid: None, nvram: None, softdep, snapshots }
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    /// Describes the error and its place in the text.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let keys = toml::from_str::<Keys<Spanned<String>>>(text)?;
        let Keys { engine, policy, log_size, softdep, snapshots, raid, nvram } = keys;
        let at = |word: &Option<Spanned<String>>| word.as_ref().map(Spanned::span);
        let [engine_at, policy_at] = [at(&engine), at(&policy)];
        let [engine, policy] = [engine, policy].map(|word| word.map(Spanned::into_inner));
        let engine = engine.as_deref().unwrap_or(FIRST_ENGINE);
        let mut policies = DESIGNS.of_engine(engine).filter_map(|design| design.policy);
        let place = match policies.next() {
            Some(first) if policy.is_none() => {
                let all = [first].into_iter().chain(policies).collect::<Vec<_>>().join(", ");
                return Err(Error::custom(format!(
                    "there is no policy; it is one of these: {all}"
                )));
            }
            Some(_) => policy_at,
            None => engine_at,
        };
        let design = DESIGNS.find(Some(engine), policy.as_deref()).map_err(|unknown| {
            let place = place.map(|place| format!("at line {}", line_of(text, place.start)));
            Error::custom(format!("{}: {unknown}", place.unwrap_or_default()))
        })?;
        if log_size.is_some_and(|size| size < SMALLEST_LOG) {
            return Err(Error::custom(format!(
                "log_size is in bytes, and a log has at least {SMALLEST_LOG}"
            )));
        }
        let softdep = softdep.unwrap_or_default().parse()?;
        let snapshots = snapshots.unwrap_or_default().parse()?;
        let raid = raid.map(RaidKeys::parse).transpose()?;
        if nvram.is_some() && raid.is_none() {
            let why = "an NVRAM stands in front of a set of disks, and there is no [raid]";
            return Err(Error::custom(why));
        }
        Ok(Self { design, log_size, raid, nvram, softdep, snapshots })
    }

    /// Whether a text names an engine and a policy, even if other parts of it are invalid.
    pub fn names_a_design(text: &str) -> bool {
        let Ok(mut keys) = toml::from_str::<toml::Table>(text) else { return false };
        keys.retain(|key, _| matches!(key, "engine" | "policy"));
        Self::parse(&keys.to_string()).is_ok()
    }

    /// Text of a file with these settings. A missing section that the design could have appears as
    /// a comment.
    pub fn to_text(&self) -> String {
        let Design { engine, policy, .. } = *self.design;
        let softdep = Some(self.softdep.keys()).filter(|_| !self.softdep.is_empty());
        let raid = self.raid.as_ref().map(RaidSettings::keys);
        let snapshots = Some(self.snapshots.keys()).filter(|_| !self.snapshots.is_empty());
        let hints = [
            (self.design.waits && softdep.is_none(), softdep::HINT),
            (self.design.has_snapshots && snapshots.is_none(), snapshots::HINT),
        ];
        let hints = hints.into_iter().filter_map(|(is_told, hint)| is_told.then_some(hint));
        let (engine, log_size, nvram) = (Some(engine), self.log_size, self.nvram.clone());
        let keys = Keys { engine, policy, log_size, softdep, snapshots, raid, nvram };
        toml::to_string(&keys).expect("settings are plain values") + &hints.collect::<String>()
    }
}

/// Number of the line that contains a byte.
fn line_of(text: &str, position: usize) -> usize {
    1 + text.bytes().take(position).filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use designs::{FFS_LOG, FFS_SOFTDEP, FFS_SYNC, SoftUpdatesOptions};

    fn refused(text: &str) -> String {
        Settings::parse(text).expect_err(text).to_string()
    }

    fn a_set() -> RaidSettings {
        let members = ["/dev/sdb", "disks/two \"quoted\".img"].map(Into::into).to_vec();
        let spares = vec!["/dev/sdz".into()];
        let set = std::array::from_fn(|index| 17 * index as u8);
        RaidSettings { set, members, spares, ..RaidSettings::default() }
    }

    #[test]
    fn the_number_of_a_set_has_all_its_digits() {
        let text = text_of(&a_set().set);
        assert_eq!(text, "00112233445566778899aabbccddeeff");
        assert_eq!(id_of(&text), Some(a_set().set));
        for wrong in ["", "0011", &format!("{}x", &text[1..]), &format!("+{}", &text[1..])] {
            assert_eq!(id_of(wrong), None, "{wrong}");
            let told =
                refused(&format!("policy = \"log\"\n[raid]\nset = \"{wrong}\"\nmembers = []\n"));
            assert!(told.contains("raid.set is") && told.contains("32 hexadecimal"), "{told}");
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        for &design in DESIGNS.all() {
            for log_size in [None, Some(12 << 20)] {
                for raid in [None, Some(a_set())] {
                    let health = log_size.map(|_| "/sys/battery".into());
                    let path = "/mnt/n0".into();
                    let pin_log = health.is_none();
                    let second = log_size.map(|_| "/mnt/n1".into());
                    let nvram = NvramSettings { path, second, health, pin_log };
                    let nvram = raid.as_ref().map(|_| nvram);
                    let settings = Settings { log_size, raid, nvram, ..Settings::of(design) };
                    assert_eq!(Settings::parse(&settings.to_text()), Ok(settings));
                }
            }
        }
        let text = Settings::of(&FFS_LOG).to_text();
        assert_eq!(text, "engine = \"ffs\"\npolicy = \"log\"\n");
    }

    #[test]
    fn an_nvram_without_a_set_is_refused() {
        let told = refused("policy = \"log\"\n[nvram]\npath = \"/mnt/n0\"\n");
        assert!(told.contains("there is no [raid]"), "{told}");
    }

    #[test]
    fn a_file_without_an_engine_is_of_the_first_one() {
        let of = |design| Ok(Settings::of(design));
        assert_eq!(Settings::parse("policy = \"sync\""), of(&FFS_SYNC));
        assert_eq!(Settings::parse("policy = \"log\""), of(&FFS_LOG));
    }

    #[test]
    fn a_name_that_no_design_has_is_refused_with_its_place_and_with_those_that_there_are() {
        let told = refused("# mine\npolicy = \"luck\"\n");
        assert!(told.contains("line 2"), "{told}");
        assert!(told.contains("no policy 'luck'; it has these: log, sync, softdep"), "{told}");
        let told = refused("policy = \"log\"\n\nengine = \"mirror\"\n");
        assert!(told.contains("line 3"), "{told}");
        assert!(told.contains("no engine 'mirror'; there are these: ffs"), "{told}");
    }

    #[test]
    fn a_file_without_a_policy_is_refused() {
        for text in ["", "engine = \"ffs\"\n", "log_size = 8388608\n"] {
            let told = refused(text);
            assert!(
                told.contains("there is no policy; it is one of these: log, sync, softdep"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_log_that_is_too_short_is_refused() {
        let with = |size: u64| format!("policy = \"log\"\nlog_size = {size}\n");
        for size in [0, 256, SMALLEST_LOG - 1] {
            let told = refused(&with(size));
            assert!(told.contains("log_size is in bytes, and a log has at least"), "{told}");
        }
        let settings = Settings { log_size: Some(SMALLEST_LOG), ..Settings::of(&FFS_LOG) };
        assert_eq!(Settings::parse(&with(SMALLEST_LOG)), Ok(settings));
    }

    #[test]
    fn how_soft_updates_wait_can_be_set_and_is_kept() {
        let usual = Settings::parse("policy = \"softdep\"").expect("a policy").softdep;
        assert_eq!(usual.options(), SoftUpdatesOptions::default());
        let text = "policy = \"softdep\"\n[softdep]\ninode_age = 3\ndirectory_age = \"250 ms\"\n\
                    file_age = \"2min\"\nmemory = \"3 MiB\"\nreclaim_share = 1\n";
        let settings = Settings::parse(text).expect("all of it makes sense");
        let options = settings.softdep.options();
        let ages = [options.ages.inode, options.ages.directory, options.ages.file];
        assert_eq!(ages.map(|age| age.as_millis()), [3000, 250, 120_000]);
        assert_eq!((options.memory, options.reclaim_share), (Some(3 << 20), 1.0));
        assert_eq!(Settings::parse(&settings.to_text()), Ok(settings.clone()));
        // Another policy keeps the section for a return to softdep.
        let other = Settings { design: &FFS_LOG, ..settings };
        assert_eq!(Settings::parse(&other.to_text()), Ok(other));
    }

    #[test]
    fn the_section_that_is_shown_as_a_comment_says_what_holds() {
        let text = Settings::of(&FFS_SOFTDEP).to_text();
        let says = |line: &str| line.starts_with("# ").then(|| line[2..].to_owned());
        let section: Vec<String> = text.lines().filter_map(says).collect();
        let text = format!("policy = \"softdep\"\n{}\n", section.join("\n"));
        let options = Settings::parse(&text).expect("it is a section").softdep.options();
        let memory = Some(64 << 20); // an example: the effective value depends on the cache
        assert_eq!(options, SoftUpdatesOptions { memory, ..SoftUpdatesOptions::default() });
        assert!(!Settings::of(&FFS_SYNC).to_text().contains("softdep"));
    }

    #[test]
    fn snapshots_are_shown_as_a_comment_where_there_may_be_some() {
        let text = Settings::of(&designs::SHADOW).to_text();
        let says = |line: &str| line.starts_with("# ").then(|| line[2..].to_owned());
        let section: Vec<String> = text.lines().filter_map(says).collect();
        let text = format!("engine = \"shadow\"\n{}\n", section.join("\n"));
        let told = Settings::parse(&text).expect("it is a section").snapshots;
        assert_eq!((told.hourly, told.daily), (Some(24), Some(30)));
        assert!(!Settings::of(&FFS_SYNC).to_text().contains("snapshots"));
    }

    #[test]
    fn a_setting_of_soft_updates_that_makes_no_sense_is_named() {
        for (line, key, expected) in [
            ("inode_age = 0", "softdep.inode_age is 0", "longer than 0"),
            ("directory_age = \"0 s\"", "softdep.directory_age is \"0 s\"", "longer than 0"),
            ("file_age = \"soon\"", "softdep.file_age is \"soon\"", "such as \"10 s\""),
            ("file_age = -1", "softdep.file_age is -1", "such as \"10 s\""),
            ("file_age = \"+1 s\"", "softdep.file_age", "such as \"10 s\""),
            ("file_age = 99999999999", "softdep.file_age", "such as \"10 s\""),
            ("memory = 1000", "softdep.memory is 1000", "1 MiB at least"),
            ("memory = true", "softdep.memory is true", "such as \"64 MiB\""),
            ("reclaim_share = 0", "softdep.reclaim_share is 0", "over 0 and up to 1"),
            ("reclaim_share = 1.5", "softdep.reclaim_share is 1.5", "over 0 and up to 1"),
            ("reclaim_share = nan", "softdep.reclaim_share is nan", "over 0 and up to 1"),
            ("inode_eage = 3", "inode_eage", "`inode_age`"),
        ] {
            let told = refused(&format!("policy = \"softdep\"\n[softdep]\n{line}\n"));
            assert!(told.contains(key) && told.contains(expected), "{line}: {told}");
        }
    }

    #[test]
    fn how_many_snapshots_a_server_keeps_is_read_and_kept() {
        let none = Settings::parse("policy = \"log\"").expect("a policy").snapshots;
        assert!(none.is_empty() && (none.hourly, none.daily) == (None, None));
        let text = "engine = \"shadow\"\n[snapshots]\nhourly = 24\ndaily = 30\n";
        let settings = Settings::parse(text).expect("all of it makes sense");
        let SnapshotsSettings { hourly, daily } = settings.snapshots;
        assert_eq!((hourly, daily), (Some(24), Some(30)));
        assert_eq!(Settings::parse(&settings.to_text()), Ok(settings));
        let one = Settings::parse("engine = \"shadow\"\nsnapshots = { daily = 1 }\n");
        let one = one.expect("one of them will do");
        assert_eq!((one.snapshots.hourly, one.snapshots.daily), (None, Some(1)));
        assert_eq!(Settings::parse(&one.to_text()), Ok(one));
    }

    #[test]
    fn the_largest_number_of_snapshots_is_accepted_and_one_more_is_not() {
        for key in ["hourly", "daily"] {
            let with = |count| format!("engine = \"shadow\"\n[snapshots]\n{key} = {count}\n");
            let most = Settings::parse(&with(10_000)).expect("it is allowed").snapshots;
            assert_eq!(most.hourly.or(most.daily), Some(10_000));
            let told = refused(&with(10_001));
            assert!(told.contains("expected: a number from 1 to 10000"), "{told}");
        }
    }

    #[test]
    fn a_number_of_snapshots_that_makes_no_sense_is_named() {
        for (line, expected) in [
            ("hourly = 0", "snapshots.hourly is 0; expected: a number from 1 to 10000"),
            ("daily = 10001", "snapshots.daily is 10001; expected: a number from 1 to 10000"),
            ("daily = -1", "snapshots.daily is -1; expected"),
            ("hourly = \"24\"", "snapshots.hourly is \"24\"; expected"),
            ("hourly = true", "snapshots.hourly is true; expected"),
            ("weekly = 3", "`hourly`"),
        ] {
            let text = format!("engine = \"shadow\"\n[snapshots]\n{line}\n");
            let told = refused(&text);
            assert!(told.contains(expected), "{line}: {told}");
            assert!(Settings::names_a_design(&text), "it is the section that is wrong");
        }
    }

    #[test]
    fn a_text_without_a_design_names_none() {
        for text in ["", "policy = \"luck\"", "engine = \"mirror\"", "policy = \"log", "policy = 7"]
        {
            assert!(!Settings::names_a_design(text), "{text}");
        }
        assert!(Settings::names_a_design("policy = \"log\"\nlog_size = 7\n"));
    }

    #[test]
    fn a_key_that_does_not_exist_is_refused() {
        assert!(refused("policy = \"log\"\nlog_syze = 7\n").contains("log_syze"));
        assert!(refused("policy = 7\n").contains("line 1"));
    }
}
