//! The access that clients have to a volume, in words: the line that a start and a reload print for
//! each volume.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use dispatch::{Anonymous, Export, Exports, Rule, Squash, Volume, Volumes, toml_key};
use futures::FutureExt;
use futures::future::{Either, join_all, select};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use runtime::Clock;
use vfs::{FileSystem, RootDirectory};

use crate::config::Network;

/// Permission to change a directory: to write it and to search it.
const CHANGE: u16 = 0o3;

/// A served volume, and who may do what with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Name of the volume.
    pub volume: String,
    /// Its rules.
    pub export: Export,
    /// Whether the volume itself refuses all writes.
    pub is_read_only: bool,
    /// Its root directory; none if its attributes cannot be read.
    pub root: Option<RootDirectory>,
}

/// Time that the disk of a volume may take to answer for its line.
pub const SHARE_TIMEOUT: Duration = Duration::from_secs(2);

/// The volumes, and who may do what with them. All are asked at once, and a disk that does not
/// answer delays the others by [`SHARE_TIMEOUT`] at most.
pub(crate) async fn shares(clock: &dyn Clock, exports: &Exports, volumes: &Volumes) -> Vec<Share> {
    let share = async |volume: &Volume| {
        let asked = ask(&*volume.file_system).boxed_local();
        let (root, is_read_only) = match select(asked, clock.sleep(SHARE_TIMEOUT)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                let volume = &volume.name;
                tracing::warn!(volume, "its disk does not answer: its root directory is unknown");
                (None, false)
            }
        };
        let (volume, export) = (volume.name.clone(), exports.of(&volume.name).clone());
        Share { volume, export, is_read_only, root }
    };
    join_all(volumes.iter().map(share)).await
}

/// The root directory of a volume, and whether the volume refuses all writes.
async fn ask(file_system: &dyn FileSystem) -> (Option<RootDirectory>, bool) {
    let id = file_system.root();
    let root = file_system.getattr(id).await.open().await;
    let root = root.ok().and_then(|root| root.into_inner().ok()).map(RootDirectory::from);
    let limits = file_system.fsinfo(id).await.open().await;
    let limits = limits.ok().and_then(|limits| limits.into_inner().result.ok());
    (root, limits.is_some_and(|limits| limits.read_only))
}

/// Whether a class of users (6 the owner, 3 the group, 0 all others) may create files in a root
/// directory.
fn is_open(root: RootDirectory, class: u16) -> bool {
    root.mode >> class & CHANGE == CHANGE
}

/// Whether a user without further groups may create files in a root directory.
fn admits(root: RootDirectory, Anonymous { uid, gid }: Anonymous) -> bool {
    match (uid, gid) {
        (0, _) => true,
        (uid, _) if uid == root.uid => is_open(root, 6),
        (_, gid) if gid == root.gid => is_open(root, 3),
        _ => is_open(root, 0),
    }
}

/// The users of a rule's clients who may create files in a root directory.
fn writers(root: RootDirectory, rule: &Rule) -> String {
    let is_squashed_admitted = admits(root, rule.anonymous);
    if rule.squash == Squash::All {
        return if is_squashed_admitted { "every user" } else { "no user" }.to_owned();
    }
    if is_open(root, 0) {
        return "every user".to_owned();
    }
    let trusts_root = rule.squash == Squash::None;
    let superuser = (trusts_root || is_squashed_admitted).then(|| "root".to_owned());
    let owner = is_open(root, 6) && root.uid != 0;
    let owner = owner.then(|| format!("user {}", root.uid));
    let group = is_open(root, 3) && (trusts_root || root.gid != 0);
    let group = group.then(|| format!("group {}", root.gid));
    let writers: Vec<String> = [superuser, owner, group].into_iter().flatten().collect();
    if writers.is_empty() { "no user".to_owned() } else { writers.join(" and ") }
}

impl Share {
    /// The rights of the clients of one rule.
    fn rights(&self, rule: &Rule) -> String {
        let Anonymous { uid, gid } = rule.anonymous;
        let squash = match rule.squash {
            Squash::None => "no user squashed".to_owned(),
            Squash::Root => format!("root squashed to {uid}:{gid}"),
            Squash::All => format!("all users squashed to {uid}:{gid}"),
        };
        if self.is_read_only || !rule.writable {
            return format!("read-only, {squash}");
        }
        let writers = self.root.map(|root| writers(root, rule));
        let writers = writers.map(|who| format!(", {who} can write to the root directory"));
        format!("read-write, {squash}{}", writers.unwrap_or_default())
    }
}

/// One line: `/data: 10.0.0.0/8 may mount it read-only, root squashed to 65534:65534`.
impl Display for Share {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let section = format!("[exports.{}]", toml_key(&self.volume));
        write!(f, "/{}: ", self.volume)?;
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for rule in self.export.rules() {
            let (rights, network) = (self.rights(rule), Network(rule.network).to_string());
            match groups.iter_mut().find(|(same, _)| *same == rights) {
                Some((_, networks)) => networks.push(network),
                None => groups.push((rights, vec![network])),
            }
        }
        if groups.is_empty() {
            return write!(f, "no client may mount it; {section} in the configuration lists none");
        }
        let all = groups
            .iter()
            .map(|(rights, networks)| format!("{} may mount it {rights}", networks.join(" and ")));
        f.write_str(&all.collect::<Vec<_>>().join("; "))?;
        if !self.export.has_written_rules() {
            write!(f, "; {section} in the configuration admits others")?;
        }
        Ok(())
    }
}

/// A class of clients that reach a listening address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientClass {
    /// Whether they use IPv6.
    pub(crate) is_ipv6: bool,
    /// Whether they are on this machine and use its loopback addresses.
    pub(crate) is_local: bool,
}

impl ClientClass {
    /// Whether a rule admits at least one client of the class.
    pub(crate) fn is_admitted(self, export: &Export) -> bool {
        let loopback: IpNet = if self.is_ipv6 {
            Ipv6Net::from(Ipv6Addr::LOCALHOST).into()
        } else {
            Ipv4Net::new(Ipv4Addr::new(127, 0, 0, 0), 8).expect("8 is at most 32").into()
        };
        let admits = |network: IpNet| {
            let is_within = loopback.contains(&network);
            if self.is_local { is_within || network.contains(&loopback) } else { !is_within }
        };
        let networks = export.rules().iter().map(|rule| rule.network);
        networks.filter(|network| network.addr().is_ipv6() == self.is_ipv6).any(admits)
    }

    /// The loopback address of the class.
    pub(crate) fn loopback(self) -> IpAddr {
        if self.is_ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() }
    }
}

#[cfg(test)]
#[path = "../../dispatch/tests/dispatch/memory.rs"]
#[allow(dead_code)]
pub(crate) mod memory;

#[cfg(test)]
mod tests {
    use dispatch::Fsid;
    use sim::Executor;

    use super::memory::MemoryFileSystem;
    use super::*;

    #[test]
    fn a_disk_that_does_not_answer_costs_its_own_line_the_root_directory_and_nothing_else() {
        let executor = Executor::new(1);
        let [stuck, other] = [(); 2].map(|()| MemoryFileSystem::new());
        stuck.gate().close();
        let all = [("other", other), ("stuck", stuck)].into_iter().zip(7..);
        let volumes = all.map(|((name, file_system), number)| {
            let (name, fsid) = (name.to_owned(), Fsid(number));
            Volume { name, fsid, file_system }
        });
        let volumes = Volumes::new(volumes.collect()).expect("different names");
        let (clock, exports) = (executor.runtime().clock, Exports::default());
        let shares = shares(&*clock, &exports, &volumes);
        let shares = executor.block_on_for(SHARE_TIMEOUT, shares).expect("it ends");
        let known = shares.iter().map(|share| (share.volume.as_str(), share.root.is_some()));
        assert_eq!(known.collect::<Vec<_>>(), [("other", true), ("stuck", false)]);
    }

    fn rule(network: &str, writable: bool, squash: Squash) -> Rule {
        let network = network.parse().expect("a network");
        Rule { network, writable, squash, anonymous: Anonymous::default() }
    }

    fn share(rules: Vec<Rule>, (uid, gid, mode): (u32, u32, u16)) -> String {
        let export = Export::new(rules).expect("different networks");
        let root = Some(RootDirectory { uid, gid, mode });
        let volume = "data".to_owned();
        Share { volume, export, is_read_only: false, root }.to_string()
    }

    #[test]
    fn a_volume_without_rules_says_how_others_are_admitted() {
        let root = Some(RootDirectory { uid: 0, gid: 0, mode: 0o755 });
        let (volume, export) = ("my data".to_owned(), Export::loopback());
        let share = Share { volume, export, is_read_only: false, root };
        assert_eq!(
            share.to_string(),
            "/my data: 127.0.0.0/8 and ::1 may mount it read-write, no user squashed, root can \
             write to the root directory; [exports.\"my data\"] in the configuration admits others"
        );
        let read_only = Share { is_read_only: true, ..share }.to_string();
        assert!(read_only.contains("may mount it read-only, no user squashed; "), "{read_only}");
    }

    #[test]
    fn each_network_has_its_rights() {
        let rules = vec![
            rule("10.0.0.0/8", false, Squash::Root),
            rule("10.1.0.0/16", true, Squash::All),
            rule("10.2.0.0/16", false, Squash::Root),
        ];
        assert_eq!(
            share(rules, (0, 0, 0o755)),
            "/data: 10.0.0.0/8 and 10.2.0.0/16 may mount it read-only, root squashed to \
             65534:65534; 10.1.0.0/16 may mount it read-write, all users squashed to 65534:65534, \
             no user can write to the root directory"
        );
        let none = "/data: no client may mount it; [exports.data] in the configuration lists none";
        assert_eq!(share(Vec::new(), (0, 0, 0o755)), none);
    }

    #[test]
    fn who_can_write_to_the_root_directory_depends_on_its_owner_and_on_squashing() {
        for (squash, root, writers) in [
            (Squash::None, (0, 0, 0o755), "root"),
            (Squash::None, (1000, 100, 0o755), "root and user 1000"),
            (Squash::None, (0, 0, 0o775), "root and group 0"),
            (Squash::Root, (0, 0, 0o755), "no user"),
            (Squash::Root, (0, 0, 0o775), "no user"),
            (Squash::Root, (1000, 100, 0o755), "user 1000"),
            (Squash::Root, (1000, 100, 0o575), "group 100"),
            (Squash::Root, (1000, 100, 0o775), "user 1000 and group 100"),
            (Squash::Root, (65_534, 100, 0o755), "root and user 65534"),
            (Squash::Root, (0, 0, 0o1777), "every user"),
            (Squash::Root, (0, 0, 0o756), "no user"),
            (Squash::All, (0, 0, 0o755), "no user"),
            (Squash::All, (1000, 100, 0o755), "no user"),
            (Squash::All, (65_534, 100, 0o755), "every user"),
            (Squash::All, (0, 0, 0o1777), "every user"),
            (Squash::All, (0, 65_534, 0o770), "every user"),
        ] {
            let line = share(vec![rule("10.0.0.0/8", true, squash)], root);
            let said = format!(", {writers} can write to the root directory");
            assert!(line.ends_with(&said), "{squash:?} {root:?}: {line}");
        }
    }

    #[test]
    fn a_class_is_admitted_when_one_of_its_clients_is() {
        let classes = [(false, true), (false, false), (true, true), (true, false)];
        let classes = classes.map(|(is_ipv6, is_local)| ClientClass { is_ipv6, is_local });
        for (network, admitted) in [
            ("127.0.0.0/8", [true, false, false, false]),
            ("127.0.0.2/32", [true, false, false, false]),
            ("10.0.0.0/8", [false, true, false, false]),
            ("0.0.0.0/0", [true, true, false, false]),
            ("::1/128", [false, false, true, false]),
            ("fe80::/10", [false, false, false, true]),
            ("::/0", [false, false, true, true]),
        ] {
            let export = Export::new(vec![rule(network, false, Squash::Root)]).expect("one");
            assert_eq!(classes.map(|class| class.is_admitted(&export)), admitted, "{network}");
        }
    }
}
