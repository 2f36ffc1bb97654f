//! The identity of a call for the reply cache, and its encoding.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};

use crc_fast::{CrcAlgorithm, Digest};
use nfs::rpc::{AuthSys, Call, Credential};
use vfs::CallKey;

use crate::planted::{Bug, is_planted};

/// The identity of a call. Never the port: it changes when the client reconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The client's address.
    pub client: IpAddr,
    /// CRC-64/NVME of the caller's claim: machine, user and groups, but not the stamp, which a
    /// client may renew. 0 without credentials.
    pub caller: u64,
    /// The client's transaction number (xid) of the call.
    pub xid: u32,
    /// The procedure.
    pub procedure: u32,
    /// Bytes of arguments.
    pub length: u64,
    /// CRC-64/NVME of the arguments, all of them: xids wrap and start anew, and a file that is
    /// rewritten may differ in one byte.
    pub checksum: u64,
}

/// Hashes all fields as one run of bytes, which is faster than one after the other.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.bytes());
    }
}

/// Bytes of a name: 16 of the address, IPv4 as mapped to IPv6, and the other fields, big-endian, in
/// their order.
const NAME: usize = 48;

impl Key {
    pub(crate) fn of(client: IpAddr, call: &Call<'_>) -> Self {
        let (checksum, length) = call.checksum();
        let caller = match call.credential {
            Credential::Sys(user) => checksum_of(&user),
            Credential::None | Credential::Other { .. } => 0,
        };
        let key = Self {
            client,
            caller,
            xid: call.xid,
            procedure: call.procedure,
            length: length as u64,
            checksum,
        };
        match key {
            _ if is_planted(Bug::XidAlone) => Self { procedure: 0, length: 0, checksum: 0, ..key },
            _ if is_planted(Bug::AnyArguments) => Self { length: 0, checksum: 0, ..key },
            _ => key,
        }
    }

    /// The name under which a file system keeps the reply to the call.
    pub fn name(&self) -> CallKey {
        CallKey::new(&self.bytes()).expect("a name is shorter than the longest")
    }

    fn bytes(&self) -> [u8; NAME] {
        let address = match self.client {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let fields: [&[u8]; 6] = [
            &address.octets(),
            &self.caller.to_be_bytes(),
            &self.xid.to_be_bytes(),
            &self.procedure.to_be_bytes(),
            &self.length.to_be_bytes(),
            &self.checksum.to_be_bytes(),
        ];
        let (mut name, mut end) = ([0; NAME], 0);
        for field in fields {
            name[end..end + field.len()].copy_from_slice(field);
            end += field.len();
        }
        name
    }

    /// The call that has this name; none if it is no name of ours.
    pub fn named(name: &CallKey) -> Option<Self> {
        let bytes: &[u8; NAME] = name.as_bytes().try_into().ok()?;
        let (address, rest) = bytes.split_first_chunk::<16>()?;
        let (caller, rest) = rest.split_first_chunk::<8>()?;
        let (xid, rest) = rest.split_first_chunk::<4>()?;
        let (procedure, rest) = rest.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let checksum = rest.first_chunk::<8>()?;
        Some(Self {
            client: IpAddr::V6(Ipv6Addr::from(*address)).to_canonical(),
            caller: u64::from_be_bytes(*caller),
            xid: u32::from_be_bytes(*xid),
            procedure: u32::from_be_bytes(*procedure),
            length: u64::from_be_bytes(*length),
            checksum: u64::from_be_bytes(*checksum),
        })
    }
}

fn checksum_of(user: &AuthSys<'_>) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(&(user.machine_name.len() as u32).to_be_bytes());
    digest.update(user.machine_name);
    let numbers = [user.uid, user.gid];
    let known = match () {
        () if is_planted(Bug::UserAlone) => 1,
        () if is_planted(Bug::FirstGroupAlone) => 2,
        () => usize::MAX,
    };
    for number in numbers.iter().chain(user.gids.as_slice()).take(known) {
        digest.update(&number.to_be_bytes());
    }
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    #[test]
    fn a_name_names_one_call() {
        for client in ["10.0.0.7", "2001:db8::7"] {
            let client = client.parse().expect("an address");
            let key = Key { client, caller: 1 << 63, xid: 2, procedure: 3, length: 4, checksum: 5 };
            assert_eq!(Key::named(&key.name()), Some(key));
        }
    }

    #[test]
    fn other_bytes_name_none() {
        for length in [0, NAME - 1, NAME + 1] {
            let name = CallKey::new(&vec![1; length]).expect("short");
            assert_eq!(Key::named(&name), None);
        }
    }

    #[test]
    fn a_field_makes_another_hash() {
        let client = "10.0.0.7".parse().expect("an address");
        let key = Key { client, caller: 1, xid: 2, procedure: 3, length: 4, checksum: 5 };
        let keys = [
            key,
            Key { client: "10.0.0.8".parse().expect("an address"), ..key },
            Key { caller: 0, ..key },
            Key { xid: 0, ..key },
            Key { procedure: 0, ..key },
            Key { length: 0, ..key },
            Key { checksum: 0, ..key },
        ];
        let state = RandomState::new();
        let hashes: HashSet<u64> = keys.iter().map(|key| state.hash_one(key)).collect();
        assert_eq!(hashes.len(), keys.len());
    }
}
