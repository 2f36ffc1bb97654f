//! The request memory that each client holds, over all of its connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

use runtime::pool::{Account, WeakAccount};

use crate::reply_cache::in_bounds;

/// The accounts of all clients that are connected, or still hold memory.
#[derive(Default)]
pub(crate) struct Accounts(RefCell<BTreeMap<IpAddr, WeakAccount>>);

impl Accounts {
    /// The account of a client. An IPv6 network of 64 bits is one client.
    pub(crate) fn of(&self, client: IpAddr) -> Account {
        let (client, mut accounts) = (in_bounds(client), self.0.borrow_mut());
        if let Some(account) = accounts.get(&client).and_then(WeakAccount::upgrade) {
            return account;
        }
        accounts.retain(|_, account| account.upgrade().is_some());
        let account = Account::default();
        accounts.insert(client, account.downgrade());
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::pool::{Pool, Share};

    #[test]
    fn a_client_has_one_account_for_as_long_as_it_is_connected_or_holds_something() {
        let (accounts, pool) =
            (Accounts::default(), Pool::new(10, &[Share { least: 0, may_exceed: true }]));
        let [client, other] = ["::1:2", "::2:2"].map(|text| text.parse().expect("an address"));
        let held = {
            let first = accounts.of(client);
            futures::executor::block_on(pool.acquire_for(0, &first, 3))
        };
        assert_eq!([accounts.of(client).held(), accounts.of(other).held()], [3, 3], "a network");
        let elsewhere = "10.0.0.1".parse().expect("an address");
        assert_eq!(accounts.of(elsewhere).held(), 0);
        assert_eq!(accounts.0.borrow().len(), 2);
        drop(held);
        drop(accounts.of("10.0.0.2".parse().expect("an address")));
        assert_eq!(accounts.0.borrow().len(), 1, "what nobody has is forgotten");
    }
}
