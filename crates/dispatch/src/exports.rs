//! The clients that may use each volume, and the users that they act as.
//!
//! Rules are looked up for every call by the client's address, so that new rules apply to the next
//! call of a client that has been connected for days, and no connection is dropped. The rule of a
//! volume with the longest matching network counts; their order means nothing.
//!
//! # Without a configuration
//! A volume without rules is exported read-write to this machine alone (127.0.0.0/8 and ::1), and
//! no user is squashed. This is for trying the server on one's own machine, as root, and it stays
//! safe when the server listens on every address, because it follows the client's address and not
//! ours. AUTH_SYS believes the client's claim: a local user who can open a socket can claim to be
//! root of such a volume. Where local users are not trusted, write a rule that squashes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use vfs::{Credentials, Delayed, SnapshotsShown};

/// The user and group that a squashed caller becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anonymous {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Default for Anonymous {
    /// 65534, which most systems call nobody.
    fn default() -> Self {
        Self { uid: 65_534, gid: 65_534 }
    }
}

/// The users whose claim of identity is not believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Every user is believed.
    None,
    /// User 0 and group 0 become the anonymous ones.
    #[default]
    Root,
    /// Every user becomes anonymous.
    All,
}

/// The rights of the clients of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The network of the clients.
    pub network: IpNet,
    /// Whether they may change files.
    pub writable: bool,
    /// The users whose claim is not believed.
    pub squash: Squash,
    /// The user that squashed callers, and those without credentials, act as.
    pub anonymous: Anonymous,
}

impl Rule {
    /// The user that a caller with this claim acts as; `None` for a caller without credentials.
    pub fn credentials(&self, claim: Option<Credentials>) -> Credentials {
        let Anonymous { uid, gid } = self.anonymous;
        let nobody = Credentials { uid, gid, groups: Vec::new() };
        let Some(claim) = claim else { return nobody };
        let group = |claimed: u32| if claimed == 0 { gid } else { claimed };
        match self.squash {
            Squash::None => claim,
            Squash::Root => Credentials {
                uid: if claim.uid == 0 { uid } else { claim.uid },
                gid: group(claim.gid),
                groups: claim.groups.into_iter().map(group).collect(),
            },
            Squash::All => nobody,
        }
    }
}

/// The rules of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    rules: Vec<Rule>,
    /// Whether the rules were configured, and are not the default ones.
    is_written: bool,
    delayed: Option<Delayed>,
    snapshots: SnapshotsShown,
}

/// Two rules of a volume have the same network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two rules for the network {network}")]
pub struct AmbiguousRules {
    /// The network.
    pub network: IpNet,
}

impl Export {
    /// An export with these rules; without any, no client may use the volume.
    ///
    /// # Errors
    /// [`AmbiguousRules`] when two rules have the same network.
    pub fn new(rules: Vec<Rule>) -> Result<Self, AmbiguousRules> {
        let mut rules: Vec<Rule> =
            rules.into_iter().map(|rule| Rule { network: rule.network.trunc(), ..rule }).collect();
        rules.sort_by_key(|rule| rule.network);
        match rules.windows(2).find(|pair| pair[0].network == pair[1].network) {
            Some(pair) => Err(AmbiguousRules { network: pair[0].network }),
            None => {
                Ok(Self { rules, is_written: true, delayed: None, snapshots: Default::default() })
            }
        }
    }

    /// Read-write for this machine, for every user without squashing. See the module's text.
    pub fn loopback() -> Self {
        let loopback = |network| Rule {
            network,
            writable: true,
            squash: Squash::None,
            anonymous: Anonymous::default(),
        };
        let version_4 = Ipv4Net::new(Ipv4Addr::new(127, 0, 0, 0), 8).expect("8 is at most 32");
        let version_6 = Ipv6Net::from(Ipv6Addr::LOCALHOST);
        let rules = vec![loopback(version_4.into()), loopback(version_6.into())];
        Self { rules, is_written: false, delayed: None, snapshots: SnapshotsShown::default() }
    }

    /// Whether the rules were configured: [`Export::loopback`] has none that were.
    pub fn has_written_rules(&self) -> bool {
        self.is_written
    }

    /// The same export, with replies that do not wait for the disk, except to COMMIT and to WRITEs
    /// that ask for it.
    pub fn declared_delayed(self) -> Self {
        Self { delayed: Some(Delayed::declared()), ..self }
    }

    /// Whether replies do not wait for the disk.
    pub fn delayed(&self) -> Option<Delayed> {
        self.delayed
    }

    /// The same export, with the place where clients find snapshots.
    pub fn with_snapshots(self, shown: SnapshotsShown) -> Self {
        Self { snapshots: shown, ..self }
    }

    /// Where clients find snapshots.
    pub fn snapshots(&self) -> SnapshotsShown {
        self.snapshots
    }

    /// The rules, by network.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule that counts for `client`.
    pub fn rule(&self, client: IpAddr) -> Option<&Rule> {
        let client = client.to_canonical();
        let matching = self.rules.iter().filter(|rule| rule.network.contains(&client));
        matching.max_by_key(|rule| rule.network.prefix_len())
    }
}

/// The way to admit a client to a volume, as part of a sentence. Without configured rules, the line
/// keeps the access that this machine has.
pub(crate) fn admission(export: &Export, volume: &str, client: IpAddr) -> String {
    let rule = format!("{{ network = \"{client}\", access = \"ro\" }}");
    let section = format!("[exports.{}]", toml_key(volume));
    if export.has_written_rules() {
        return format!("to admit it, add {rule} to the clients of {section} in the configuration");
    }
    let own = |rule: &Rule| {
        format!("{{ network = \"{}\", access = \"rw\", squash = \"none\" }}", rule.network)
    };
    let rules: Vec<String> = export.rules.iter().map(own).chain([rule]).collect();
    let clients = format!("clients = [{}]", rules.join(", "));
    format!("to admit it, write this line below {section} in the configuration: {clients}")
}

/// The name of a volume as a key of the configuration, quoted if necessary. It has no control
/// characters.
pub fn toml_key(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if !name.is_empty() && name.chars().all(is_bare) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The rules of all volumes, by the volume's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exports {
    volumes: BTreeMap<String, Export>,
    unnamed: Export,
}

impl Default for Exports {
    /// No rules at all: every volume is exported to this machine.
    fn default() -> Self {
        Self { volumes: BTreeMap::new(), unnamed: Export::loopback() }
    }
}

impl Exports {
    /// Sets the rules of `volume`.
    pub fn insert(&mut self, volume: impl Into<String>, export: Export) {
        self.volumes.insert(volume.into(), export);
    }

    /// The rules of `volume`.
    pub fn of(&self, volume: &str) -> &Export {
        self.volumes.get(volume).unwrap_or(&self.unnamed)
    }

    /// The volumes with configured rules.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.volumes.keys().map(String::as_str)
    }

    /// The rule of `volume` that counts for `client`; none: it may not use the volume.
    pub fn rule(&self, volume: &str, client: IpAddr) -> Option<Rule> {
        self.of(volume).rule(client).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(network: &str, writable: bool, squash: Squash) -> Rule {
        let network = network.parse().expect("a network");
        Rule { network, writable, squash, anonymous: Anonymous { uid: 1000, gid: 2000 } }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_longest_network_counts_in_either_order() {
        let wide = rule("10.0.0.0/8", false, Squash::Root);
        let narrow = rule("10.1.0.0/16", true, Squash::Root);
        for rules in [vec![wide, narrow], vec![narrow, wide]] {
            let export = Export::new(rules).expect("two networks");
            assert_eq!(export.rule(address("10.1.2.3")).map(|rule| rule.writable), Some(true));
            assert_eq!(export.rule(address("10.2.2.3")).map(|rule| rule.writable), Some(false));
            assert_eq!(export.rule(address("11.2.2.3")), None);
        }
    }

    #[test]
    fn two_rules_for_one_network_are_refused() {
        let one = rule("10.1.2.3/8", false, Squash::Root);
        let two = rule("10.0.0.0/8", true, Squash::Root);
        assert!(Export::new(vec![one, two]).is_err());
    }

    #[test]
    fn without_rules_this_machine_may_write_and_nobody_else_may_read() {
        let exports = Exports::default();
        for local in ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"] {
            let rule = exports.rule("data", address(local)).expect(local);
            assert!(rule.writable);
            assert_eq!(rule.credentials(Some(Credentials::root())), Credentials::root());
        }
        for remote in ["10.0.0.1", "::2", "::ffff:10.0.0.1", "fe80::1"] {
            assert_eq!(exports.rule("data", address(remote)), None, "{remote}");
        }
    }

    #[test]
    fn an_export_without_rules_admits_nobody() {
        let mut exports = Exports::default();
        exports.insert("data", Export::new(Vec::new()).expect("no rules"));
        assert_eq!(exports.rule("data", address("127.0.0.1")), None);
        assert!(exports.rule("other", address("127.0.0.1")).is_some());
    }

    #[test]
    fn the_volumes_with_rules_of_their_own_are_named() {
        let mut exports = Exports::default();
        assert_eq!(exports.named().count(), 0);
        for volume in ["scratch", "data"] {
            exports.insert(volume, Export::loopback());
        }
        assert_eq!(exports.named().collect::<Vec<_>>(), ["data", "scratch"]);
    }

    #[test]
    fn rules_are_told_by_their_networks_whatever_address_they_were_written_with() {
        let written = ["10.1.2.3/16", "10.0.0.0/8", "::5/64"];
        let rules = written.map(|network| rule(network, true, Squash::None)).to_vec();
        let export = Export::new(rules).expect("three networks");
        let told = export.rules().iter().map(|rule| rule.network.to_string());
        assert_eq!(told.collect::<Vec<_>>(), ["10.0.0.0/8", "10.1.0.0/16", "::/64"]);
    }

    #[test]
    fn squashing_root_takes_user_0_and_every_group_0() {
        let rule = rule("10.0.0.0/8", true, Squash::Root);
        let claim = Credentials { uid: 0, gid: 0, groups: vec![5, 0] };
        let squashed = Credentials { uid: 1000, gid: 2000, groups: vec![5, 2000] };
        assert_eq!(rule.credentials(Some(claim)), squashed);
        let claim = Credentials { uid: 7, gid: 0, groups: vec![0] };
        let squashed = Credentials { uid: 7, gid: 2000, groups: vec![2000] };
        assert_eq!(rule.credentials(Some(claim)), squashed);
    }

    #[test]
    fn squashing_all_leaves_no_group() {
        let rule = rule("10.0.0.0/8", true, Squash::All);
        let claim = Credentials { uid: 7, gid: 8, groups: vec![9] };
        let nobody = Credentials { uid: 1000, gid: 2000, groups: Vec::new() };
        assert_eq!(rule.credentials(Some(claim)), nobody);
    }

    #[test]
    fn a_name_is_quoted_as_a_key_if_it_has_to_be() {
        for (name, key) in [
            ("data-1_x", "data-1_x"),
            ("my data", "\"my data\""),
            ("", "\"\""),
            ("a.b", "\"a.b\""),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            ("\u{e9}", "\"\u{e9}\""),
        ] {
            assert_eq!(toml_key(name), key);
        }
    }

    #[test]
    fn a_caller_without_credentials_is_anonymous_even_where_nobody_is_squashed() {
        let rule = rule("10.0.0.0/8", true, Squash::None);
        assert_eq!(rule.credentials(None).uid, 1000);
    }
}
