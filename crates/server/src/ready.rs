//! Information about a server that is ready: its addresses, the access to its volumes, and how to
//! mount them.

use std::net::{IpAddr, SocketAddr};

use dispatch::Export;

use crate::shares::{ClientClass, Share};

/// A server that accepts connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyInfo {
    /// Listening addresses. A port that was given as 0 is replaced by the chosen one.
    pub addresses: Vec<SocketAddr>,
    /// The volumes, and who may do what with them.
    pub shares: Vec<Share>,
    /// Whether the ports are registered with rpcbind.
    pub registered: bool,
}

impl ReadyInfo {
    /// Mount commands for each volume on common systems, and a hint about locks; one line each, to
    /// be shown to the user unchanged. Only clients that the rules admit get a command. `quoted`
    /// quotes a word for a shell.
    pub fn mount_lines(&self, quoted: impl Fn(&str) -> String) -> Vec<String> {
        let mut lines = Vec::new();
        for address in &self.addresses {
            for share in &self.shares {
                let Some(target) = Target::of(*address, &share.export) else { continue };
                let what = quoted(&format!("{}:/{}", target.host, share.volume));
                lines.push(linux(&target, &what));
                lines.push(macos(&target, &what));
                if self.registered && !target.is_ipv6 {
                    lines.push(freebsd(&target, &what));
                }
            }
        }
        if lines.is_empty() {
            let admitted = "No client that reaches this server may mount a volume.";
            return vec![admitted.to_owned()];
        }
        let without_registration = "FreeBSD's mount finds this server only when it is registered \
                                    with rpcbind (rpcbind = true in the configuration).";
        if !self.registered {
            lines.push(without_registration.to_owned());
        }
        lines.push(
            "File locks are local to each client: programs on two machines do not see each \
             other's locks."
                .to_owned(),
        );
        lines
    }
}

/// The address that a mount command names.
struct Target {
    host: String,
    port: u16,
    is_ipv6: bool,
}

impl Target {
    /// The target for clients of a listening address, if the rules admit any of them. A server that
    /// listens on all addresses is called by its own name, but by a loopback address if only
    /// clients on this machine are admitted.
    fn of(address: SocketAddr, export: &Export) -> Option<Self> {
        let (ip, port) = (address.ip(), address.port());
        let classes: Vec<ClientClass> = classes(ip)
            .map(|(is_ipv6, is_local)| ClientClass { is_ipv6, is_local })
            .filter(|class| class.is_admitted(export))
            .collect();
        let class = classes.first()?;
        let host = match ip {
            any if any.is_unspecified() && class.is_local => bracketed(class.loopback()),
            any if any.is_unspecified() => own_name().unwrap_or_else(|| "HOST".to_owned()),
            ip => bracketed(ip),
        };
        Some(Self { host, port, is_ipv6: class.is_ipv6 })
    }

    fn protocol(&self) -> &'static str {
        if self.is_ipv6 { "tcp6" } else { "tcp" }
    }
}

/// The classes of clients that reach a listening address, the most general first: whether they use
/// IPv6, and whether they are local. A listener on all IPv6 addresses also receives IPv4
/// connections.
fn classes(listening: IpAddr) -> impl Iterator<Item = (bool, bool)> {
    let (is_ipv6, is_any) = (listening.is_ipv6(), listening.is_unspecified());
    let has = move |&(other, is_local): &(bool, bool)| {
        let is_family = other == is_ipv6 || is_any && is_ipv6;
        is_family && (is_any || is_local == listening.is_loopback())
    };
    [(true, false), (false, false), (true, true), (false, true)].into_iter().filter(has)
}

fn linux(target: &Target, what: &str) -> String {
    let (port, protocol) = (target.port, target.protocol());
    format!(
        "Linux:   mount -t nfs -o vers=3,proto={protocol},port={port},mountport={port},\
         mountproto={protocol},nolock {what} /mnt"
    )
}

fn macos(target: &Target, what: &str) -> String {
    let port = target.port;
    let protocol = if target.is_ipv6 { "proto=tcp6" } else { "tcp" };
    format!(
        "macOS:   mount -t nfs -o vers=3,{protocol},port={port},mountport={port},\
         nolocks,locallocks {what} /mnt"
    )
}

/// FreeBSD's mount asks rpcbind for the port of MOUNT and has no option for it.
fn freebsd(target: &Target, what: &str) -> String {
    let port = target.port;
    format!("FreeBSD: mount -t nfs -o nfsv3,tcp,port={port},nolockd {what} /mnt")
}

/// An address as the host in front of a colon.
fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn own_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dispatch::{Anonymous, Rule, Squash};

    fn export(networks: &[&str]) -> Export {
        let rule = |network: &&str| Rule {
            network: network.parse().expect("a network"),
            writable: true,
            squash: Squash::Root,
            anonymous: Anonymous::default(),
        };
        Export::new(networks.iter().map(rule).collect()).expect("different networks")
    }

    fn lines(address: &str, export: Export, registered: bool) -> Vec<String> {
        let addresses = vec![address.parse().expect("an address")];
        let volume = "my data".into();
        let shares = vec![Share { volume, export, is_read_only: false, root: None }];
        let quoted = |word: &str| word.replace(' ', "\\ ");
        ReadyInfo { addresses, shares, registered }.mount_lines(quoted)
    }

    fn ready(address: &str, registered: bool) -> Vec<String> {
        lines(address, Export::loopback(), registered)
    }

    #[test]
    fn the_lines_can_be_pasted_into_a_shell() {
        let lines = ready("127.0.0.1:12049", false);
        assert_eq!(
            lines[0],
            "Linux:   mount -t nfs -o vers=3,proto=tcp,port=12049,mountport=12049,mountproto=tcp,\
             nolock 127.0.0.1:/my\\ data /mnt"
        );
        assert_eq!(
            lines[1],
            "macOS:   mount -t nfs -o vers=3,tcp,port=12049,mountport=12049,nolocks,locallocks \
             127.0.0.1:/my\\ data /mnt"
        );
        assert!(lines.iter().any(|line| line.contains("locks are local")));
    }

    #[test]
    fn an_ipv6_address_stands_in_brackets() {
        let lines = ready("[::1]:2049", false);
        assert!(lines[0].contains("proto=tcp6") && lines[0].contains(" [::1]:/my"));
    }

    #[test]
    fn only_clients_that_may_mount_are_told_how() {
        let own = own_name().unwrap_or_else(|| "HOST".to_owned());
        for (listening, networks, host) in [
            ("127.0.0.1:2049", &["10.0.0.0/8"][..], None),
            ("127.0.0.1:2049", &["0.0.0.0/0"], Some("tcp,nolock 127.0.0.1:")),
            ("10.0.0.5:2049", &["127.0.0.0/8", "::1/128"], None),
            ("10.0.0.5:2049", &["10.0.0.0/8"], Some("tcp,nolock 10.0.0.5:")),
            ("0.0.0.0:2049", &["10.0.0.0/8"], Some(&format!("tcp,nolock {own}:"))),
            ("0.0.0.0:2049", &["127.0.0.0/8"], Some("tcp,nolock 127.0.0.1:")),
            ("0.0.0.0:2049", &["::/0"], None),
            ("0.0.0.0:2049", &[], None),
            ("[::]:2049", &["10.0.0.0/8"], Some(&format!("mountproto=tcp,nolock {own}:"))),
            ("[::]:2049", &["fe80::/10"], Some(&format!("mountproto=tcp6,nolock {own}:"))),
            ("[::]:2049", &["::1/128"], Some("mountproto=tcp6,nolock [::1]:")),
            ("[::]:2049", &["127.0.0.1/32"], Some("mountproto=tcp,nolock 127.0.0.1:")),
            ("[::1]:2049", &["127.0.0.1/32"], None),
        ] {
            let lines = lines(listening, export(networks), false);
            let told = lines.iter().find(|line| line.starts_with("Linux: "));
            match host {
                Some(host) => assert!(told.is_some_and(|line| line.contains(host)), "{lines:?}"),
                None => assert_eq!(lines.len(), 1, "{listening} {networks:?}: {lines:?}"),
            }
        }
    }

    #[test]
    fn freebsd_is_told_how_to_mount_only_when_it_can() {
        let names = |lines: Vec<String>| lines.iter().any(|line| line.starts_with("FreeBSD: "));
        assert!(names(ready("127.0.0.1:2049", true)));
        assert!(!names(ready("127.0.0.1:2049", false)));
    }
}
