//! Information about a server that is ready: its addresses, and how to mount.

use std::net::{IpAddr, SocketAddr};

/// A server that accepts connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyInfo {
    /// Listening addresses. A port that was given as 0 is replaced by the chosen one.
    pub addresses: Vec<SocketAddr>,
    /// The volumes, by name.
    pub volumes: Vec<String>,
    /// Whether the ports are registered with rpcbind.
    pub registered: bool,
}

impl ReadyInfo {
    /// Mount commands for each volume on common systems, and a hint about locks; one line each, to
    /// be shown to the user unchanged.
    pub fn mount_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for address in &self.addresses {
            for volume in &self.volumes {
                lines.push(linux(*address, volume));
                lines.push(macos(*address, volume));
                if self.registered && address.is_ipv4() {
                    lines.push(freebsd(*address, volume));
                }
            }
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

fn linux(address: SocketAddr, volume: &str) -> String {
    let (port, host) = (address.port(), host(address.ip()));
    let protocol = protocol(address);
    format!(
        "Linux:   mount -t nfs -o vers=3,proto={protocol},port={port},mountport={port},\
         mountproto={protocol},nolock {host}:/{volume} /mnt"
    )
}

fn macos(address: SocketAddr, volume: &str) -> String {
    let (port, host) = (address.port(), host(address.ip()));
    let protocol = if address.is_ipv6() { "proto=tcp6" } else { "tcp" };
    format!(
        "macOS:   mount -t nfs -o vers=3,{protocol},port={port},mountport={port},\
         nolocks,locallocks {host}:/{volume} /mnt"
    )
}

/// FreeBSD's mount asks rpcbind for the port of MOUNT and has no option for it.
fn freebsd(address: SocketAddr, volume: &str) -> String {
    let (port, host) = (address.port(), host(address.ip()));
    format!("FreeBSD: mount -t nfs -o nfsv3,tcp,port={port},nolockd {host}:/{volume} /mnt")
}

fn protocol(address: SocketAddr) -> &'static str {
    if address.is_ipv6() { "tcp6" } else { "tcp" }
}

/// The host in front of the colon. A server that listens on all addresses is called by its own
/// name.
fn host(address: IpAddr) -> String {
    match address {
        any if any.is_unspecified() => own_name().unwrap_or_else(|| "HOST".to_owned()),
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

    fn ready(address: &str, registered: bool) -> Vec<String> {
        let addresses = vec![address.parse().expect("an address")];
        ReadyInfo { addresses, volumes: vec!["data".into()], registered }.mount_lines()
    }

    #[test]
    fn the_lines_can_be_pasted_into_a_shell() {
        let lines = ready("127.0.0.1:12049", false);
        assert_eq!(
            lines[0],
            "Linux:   mount -t nfs -o vers=3,proto=tcp,port=12049,mountport=12049,mountproto=tcp,\
             nolock 127.0.0.1:/data /mnt"
        );
        assert_eq!(
            lines[1],
            "macOS:   mount -t nfs -o vers=3,tcp,port=12049,mountport=12049,nolocks,locallocks \
             127.0.0.1:/data /mnt"
        );
        assert!(lines.iter().any(|line| line.contains("locks are local")));
    }

    #[test]
    fn an_ipv6_address_stands_in_brackets() {
        let lines = ready("[::1]:2049", false);
        assert!(lines[0].contains("proto=tcp6") && lines[0].contains(" [::1]:/data "));
    }

    #[test]
    fn freebsd_is_told_how_to_mount_only_when_it_can() {
        let names = |lines: Vec<String>| lines.iter().any(|line| line.starts_with("FreeBSD: "));
        assert!(names(ready("127.0.0.1:2049", true)));
        assert!(!names(ready("127.0.0.1:2049", false)));
    }
}
