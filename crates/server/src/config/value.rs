//! Configuration values with a notation of their own.

use std::fmt::{Display, Formatter, Result as FormatResult};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};
use serde::{Serialize, Serializer};

/// A number of bytes: an integer, or text such as "64 MiB".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ByteSize(pub u64);

/// A time: a number of seconds, or text such as `"500 ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

/// Addresses to listen on: one, or a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listen(pub Vec<SocketAddr>);

/// An address or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

impl Network {
    /// The network without the bits of an address behind its prefix: rules know it so.
    pub fn trunc(self) -> Self {
        Self(self.0.trunc())
    }
}

const UNITS: [(&str, u32); 5] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("", 0)];

fn parse_size(text: &str) -> Option<u64> {
    let (unit, shift) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
    number.checked_mul(1 << shift)
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = ByteSize;

    fn expecting(&self, to: &mut Formatter<'_>) -> FormatResult {
        to.write_str("a number of bytes, or text such as \"64 MiB\" (KiB, MiB, GiB or TiB)")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<ByteSize, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(value), &self);
        u64::try_from(value).map(ByteSize).map_err(wrong)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<ByteSize, E> {
        Ok(ByteSize(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<ByteSize, E> {
        let wrong = || E::invalid_value(Unexpected::Str(value), &self);
        parse_size(value).map(ByteSize).ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TimeVisitor)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{} ms", self.0.as_millis()))
    }
}

/// Units of times, and their milliseconds.
const TIME_UNITS: [(&str, u64); 3] = [("ms", 1), ("min", 60_000), ("s", 1_000)];

/// The longest time: a day.
const MAX_TIME_MS: u64 = 86_400_000;

fn parse_time(text: &str) -> Option<Duration> {
    let (unit, ms) = TIME_UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
    time_of(number.checked_mul(ms)?)
}

fn time_of(ms: u64) -> Option<Duration> {
    (1..=MAX_TIME_MS).contains(&ms).then(|| Duration::from_millis(ms))
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Time;

    fn expecting(&self, to: &mut Formatter<'_>) -> FormatResult {
        to.write_str("a number of seconds, or text such as \"500 ms\", \"10 s\" or \"2 min\"")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Time, E> {
        let wrong = || E::invalid_value(Unexpected::Signed(value), &self);
        let ms = u64::try_from(value).ok().and_then(|seconds| seconds.checked_mul(1_000));
        ms.and_then(time_of).map(Time).ok_or_else(wrong)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Time, E> {
        let wrong = || E::invalid_value(Unexpected::Str(value), &self);
        parse_time(value).map(Time).ok_or_else(wrong)
    }
}

/// Parses a listening address in the notations that people use: `127.0.0.1:2049`, `[::1]:2049`,
/// `localhost:2049`, or a port alone, `2049` or `:2049`, which listens only for this machine.
///
/// # Errors
/// A sentence that describes the notations.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let local = |port: &str| port.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':'));
    let address = match port.unwrap_or(text) {
        port if port.bytes().all(|byte| byte.is_ascii_digit()) => local(port).ok(),
        _ => text.parse().ok(),
    };
    address.ok_or_else(|| {
        "write an address and a port, such as 127.0.0.1:2049, [::1]:2049 or 0.0.0.0:2049 for all \
         addresses, or a port alone"
            .to_owned()
    })
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ListenVisitor)
    }
}

#[derive(Clone, Copy)]
struct ListenVisitor;

impl<'de> Visitor<'de> for ListenVisitor {
    type Value = Listen;

    fn expecting(&self, to: &mut Formatter<'_>) -> FormatResult {
        to.write_str("an address such as \"127.0.0.1:2049\" or \"[::1]:2049\", or a list of them")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Listen, E> {
        let wrong = |_| E::invalid_value(Unexpected::Str(value), &self);
        parse_address(value).map(|address| Listen(vec![address])).map_err(wrong)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Listen, A::Error> {
        let mut addresses = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            let Listen(one) = self.visit_str(&text)?;
            addresses.extend(one);
        }
        Ok(Listen(addresses))
    }
}

/// A text that is neither an address nor a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write an address such as 10.0.0.5 or a network such as 10.0.0.0/8")]
pub struct BadNetwork;

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        let network = text.parse().or_else(|_| address()).ok().and_then(plain);
        network.map(Self).ok_or(BadNetwork)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A network of one address is printed as that address.
impl Display for Network {
    fn fmt(&self, f: &mut Formatter<'_>) -> FormatResult {
        let network = self.0;
        let is_one = network.prefix_len() == network.max_prefix_len();
        if is_one { network.addr().fmt(f) } else { network.fmt(f) }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(NetworkVisitor)
    }
}

struct NetworkVisitor;

impl Visitor<'_> for NetworkVisitor {
    type Value = Network;

    fn expecting(&self, to: &mut Formatter<'_>) -> FormatResult {
        to.write_str("an address such as \"10.0.0.5\" or a network such as \"10.0.0.0/8\"")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Network, E> {
        value.parse().map_err(|BadNetwork| E::invalid_value(Unexpected::Str(value), &self))
    }
}

/// Converts a network of mapped addresses, `::ffff:a.b.c.d/n`, to IPv4: clients of IPv4 are matched
/// by their IPv4 addresses, even if they connect by IPv6. A wider network that includes mapped
/// addresses is refused: its author meant something else.
fn plain(network: IpNet) -> Option<IpNet> {
    let IpNet::V6(mapped) = network else { return Some(network) };
    match mapped.addr().to_ipv4_mapped() {
        None => Some(network),
        Some(address) => {
            let length = mapped.prefix_len().checked_sub(96)?;
            Ipv4Net::new(address, length).ok().map(IpNet::V4)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_mapped_addresses_is_one_of_ipv4() {
        let network = |text: &str| text.parse().ok().map(|Network(network)| network.to_string());
        for (text, meant) in [
            ("::ffff:10.1.2.3", Some("10.1.2.3/32")),
            ("::ffff:10.1.0.0/112", Some("10.1.0.0/16")),
            ("::ffff:0:0/96", Some("0.0.0.0/0")),
            ("::ffff:10.0.0.0/95", None),
            ("fe80::/10", Some("fe80::/10")),
            ("::/0", Some("::/0")),
            ("10.0.0.0/8", Some("10.0.0.0/8")),
        ] {
            assert_eq!(network(text).as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, address) in [
            ("127.0.0.1:2049", "127.0.0.1:2049"),
            ("[::1]:2049", "[::1]:2049"),
            ("localhost:12049", "127.0.0.1:12049"),
            (":2049", "127.0.0.1:2049"),
            ("2049", "127.0.0.1:2049"),
        ] {
            assert_eq!(parse_address(text), Ok(address.parse().expect("an address")), "{text}");
        }
        for text in ["", ":", "localhost", "127.0.0.1", "::1", "host:1", "65536", ":x", "1.2.3:4"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_binary_units_and_no_others() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("4KiB", 4096), ("64 MiB", 64 << 20), ("1TiB", 1 << 40)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "1.5 GiB", "64MB", "-1", "99999999999 TiB", "64 MiB "] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
