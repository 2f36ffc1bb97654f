//! `nfs://HOST[:PORT]/EXPORT`: address of an export.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use nfs::nfs3;

/// The export to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host name or address.
    pub host: String,
    /// Port of the NFS service.
    pub port: u16,
    /// Path of the export, with a leading slash.
    pub export: String,
}

/// Reason why a text is not a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// The scheme is not `nfs`.
    #[error("'{0}' does not begin with nfs://; a target is nfs://HOST[:PORT]/EXPORT")]
    Scheme(String),
    /// The host is missing.
    #[error("'{0}' names no host; a target is nfs://HOST[:PORT]/EXPORT")]
    Host(String),
    /// The port is not a valid number.
    #[error("'{0}' is no port; ports are 1 to 65535")]
    Port(String),
    /// The path is missing.
    #[error("'{0}' names no export; a target is nfs://HOST[:PORT]/EXPORT")]
    Export(String),
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let rest = text.strip_prefix("nfs://").ok_or_else(|| BadTarget::Scheme(text.to_owned()))?;
        let (place, export) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => return Err(BadTarget::Export(text.to_owned())),
        };
        let no_host = || BadTarget::Host(text.to_owned());
        let (host, port) = match place.strip_prefix('[') {
            Some(bracketed) => {
                let (host, rest) = bracketed.split_once(']').ok_or_else(no_host)?;
                (host, rest.strip_prefix(':'))
            }
            None => match place.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        if host.is_empty() {
            return Err(no_host());
        }
        let number = |port: &str| port.parse().ok().filter(|&port| port != 0);
        let port = match port {
            None => nfs3::PORT,
            Some(port) => number(port).ok_or_else(|| BadTarget::Port(port.to_owned()))?,
        };
        Ok(Self { host: host.to_owned(), port, export: export.to_owned() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, export } = self;
        if host.contains(':') {
            write!(formatter, "nfs://[{host}]:{port}{export}")
        } else {
            write!(formatter, "nfs://{host}:{port}{export}")
        }
    }
}

impl Target {
    /// The first address of the host.
    ///
    /// # Errors
    /// The resolver's.
    pub async fn address(&self) -> std::io::Result<SocketAddr> {
        let mut found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        let none = || std::io::Error::new(std::io::ErrorKind::NotFound, "it has no address");
        found.next().ok_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, port: u16, export: &str) -> Result<Target, BadTarget> {
        Ok(Target { host: host.into(), port, export: export.into() })
    }

    #[test]
    fn hosts_ports_and_exports_are_read() {
        assert_eq!("nfs://server/data".parse(), target("server", 2049, "/data"));
        assert_eq!("nfs://10.0.0.1:20490/a/b".parse(), target("10.0.0.1", 20490, "/a/b"));
        assert_eq!("nfs://[::1]:12/".parse(), target("::1", 12, "/"));
        assert_eq!("nfs://[::1]/x".parse(), target("::1", 2049, "/x"));
    }

    #[test]
    fn what_is_no_target_is_told_by_what_it_lacks() {
        let refused = |text: &str| text.parse::<Target>().expect_err("no target");
        assert!(matches!(refused("server:/data"), BadTarget::Scheme(_)));
        assert!(matches!(refused("nfs:///data"), BadTarget::Host(_)));
        assert!(matches!(refused("nfs://server"), BadTarget::Export(_)));
        for port in ["", "0", "65536", "-1", "x"] {
            assert_eq!(refused(&format!("nfs://s:{port}/d")), BadTarget::Port(port.into()));
        }
    }
}
