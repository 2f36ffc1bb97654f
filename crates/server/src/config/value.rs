//! Values of the configuration that have a notation of their own.

use std::fmt::{Formatter, Result as FormatResult};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};

/// A number of bytes: a number, or text such as "64 MiB".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// Addresses to listen on: one, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen(pub Vec<SocketAddr>);

/// An address or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

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
        value.parse().map(|address| Listen(vec![address])).map_err(wrong)
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
        let address = || value.parse::<IpAddr>().map(IpNet::from);
        let network = value.parse().or_else(|_| address());
        network.map(Network).map_err(|_| E::invalid_value(Unexpected::Str(value), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
