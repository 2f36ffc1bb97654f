//! The memory and the turns that each client holds, over all of its connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

use runtime::pool::{Account, WeakAccount};

use crate::reply_cache::in_bounds;

/// The account of one client in each pool of the dispatcher.
pub(crate) struct Holdings {
    /// Request memory; any account of the client keeps all of them.
    pub(crate) requests: Account,
    pub(crate) arriving: Account,
    pub(crate) replies: Account,
    pub(crate) turns: Account,
}

impl Holdings {
    /// Number of pools.
    const POOLS: usize = 4;

    fn new(requests: Account) -> Self {
        let [arriving, replies, turns] = [1, 2, 3].map(|number| requests.in_pool(number));
        Self { requests, arriving, replies, turns }
    }
}

/// The accounts of all clients that are connected, or still hold memory.
#[derive(Default)]
pub(crate) struct Accounts(RefCell<BTreeMap<IpAddr, WeakAccount>>);

impl Accounts {
    /// The accounts of a client, where there are this many parties. An IPv6 network of 64 bits is
    /// one client.
    pub(crate) fn of(&self, client: IpAddr, parties: usize) -> Holdings {
        let (client, mut accounts) = (in_bounds(client), self.0.borrow_mut());
        if let Some(account) = accounts.get(&client).and_then(WeakAccount::upgrade) {
            return Holdings::new(account);
        }
        accounts.retain(|_, account| account.upgrade().is_some());
        let account = Account::new(Holdings::POOLS, parties);
        accounts.insert(client, account.downgrade());
        Holdings::new(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::pool::{Pool, Share};

    #[test]
    fn a_client_has_one_account_for_as_long_as_it_is_connected_or_holds_something() {
        let share = Share { least: 0, may_exceed: true };
        let (accounts, pool) = (Accounts::default(), Pool::new(10, &[share], u64::MAX));
        let [client, other] = ["::1:2", "::2:2"].map(|text| text.parse().expect("an address"));
        let held = {
            let first = accounts.of(client, 2);
            futures::executor::block_on(pool.acquire_for(0, &first.replies, 3))
        };
        let held_by = |client| {
            let Holdings { requests, replies, .. } = accounts.of(client, 2);
            [requests.held(0), replies.held(0), replies.held(1)]
        };
        assert_eq!([client, other].map(held_by), [[0, 3, 0]; 2], "a network");
        let elsewhere = "10.0.0.1".parse().expect("an address");
        assert_eq!(held_by(elsewhere), [0; 3]);
        assert_eq!(accounts.0.borrow().len(), 2);
        drop(held);
        drop(accounts.of("10.0.0.2".parse().expect("an address"), 2));
        assert_eq!(accounts.0.borrow().len(), 1, "what nobody has is forgotten");
    }
}
