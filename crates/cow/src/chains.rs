//! Open chains: multi-step changes of large files that take several updates.

use std::cell::RefCell;
use std::collections::BTreeMap;

use vnode::chain::{Chain, ChainLink};

use crate::planted::{Bug, is_planted};

/// Open chains at most.
pub const CHAINS: usize = 64;

/// Open chains by the numbers of their files, each with an update before which it had not begun.
pub struct Chains(RefCell<BTreeMap<u64, (Chain, u64)>>);

impl Chains {
    /// The chains that an opening found. When they began is unknown.
    pub fn found(chains: &[Chain]) -> Self {
        Self(RefCell::new(chains.iter().map(|chain| (chain.ino, (*chain, 1))).collect()))
    }

    /// Whether there is no place for one more chain: chains that cannot continue keep theirs.
    pub(crate) fn has_no_place_for(&self, link: Option<ChainLink>) -> bool {
        let chains = self.0.borrow();
        match link {
            Some(ChainLink::Begins(chain)) => {
                chains.len() >= CHAINS && !chains.contains_key(&chain.ino)
            }
            _ => false,
        }
    }

    /// Notes that a chain begins or ends with an update.
    pub fn note(&self, link: ChainLink, update: u64) {
        match link {
            ChainLink::Begins(chain) => self.0.borrow_mut().insert(chain.ino, (chain, update)),
            ChainLink::Ends(ino) => self.0.borrow_mut().remove(&ino),
        };
    }

    /// Replaces all chains by those of files that are being freed, all of which lost their names by
    /// update `since` or after it.
    pub fn replace(&self, orphans: Vec<Chain>, since: u64) {
        let chains = orphans.into_iter().map(|chain| (chain.ino, (chain, since)));
        self.0.replace(chains.collect());
    }

    /// The update before which no file that is being freed had lost its name; 0 if there is none.
    pub fn orphans_since(&self) -> u64 {
        let chains = self.0.borrow();
        let orphans = chains.values().filter(|(chain, _)| chain.size.is_none());
        orphans.map(|&(_, since)| since).min().unwrap_or(0)
    }

    /// All of them, to be written.
    pub fn all(&self) -> Vec<Chain> {
        let chains = self.0.borrow();
        let written = |_: &Chain| !is_planted(Bug::UnwrittenChains);
        chains.values().map(|&(chain, _)| chain).filter(written).collect()
    }
}
