// SPDX-License-Identifier: Apache-2.0
//! Shares of what is scarce: one limit for all of them together, and one for each requester.

use crate::sync::locked;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Who has how many.
#[derive(Debug)]
pub(crate) struct ShareBoard<K> {
    all: usize,
    each: usize,
    taken: Mutex<BTreeMap<K, usize>>,
    freed: Notify,
}

/// One of them; dropped, it is free for others.
#[derive(Debug)]
pub(crate) struct TakenShare<K: Ord> {
    board: Arc<ShareBoard<K>>,
    key: K,
}

impl<K: Ord + Clone> ShareBoard<K> {
    pub(crate) fn of(all: usize, each: usize) -> Arc<ShareBoard<K>> {
        Arc::new(ShareBoard {
            all,
            each,
            taken: Mutex::default(),
            freed: Notify::new(),
        })
    }

    pub(crate) fn try_take(self: &Arc<Self>, key: &K) -> Option<TakenShare<K>> {
        let mut taken = locked(&self.taken);
        let own = taken.get(key).copied().unwrap_or(0);
        if own >= self.each || taken.values().sum::<usize>() >= self.all {
            return None;
        }
        taken.insert(key.clone(), own + 1);
        Some(TakenShare {
            board: Arc::clone(self),
            key: key.clone(),
        })
    }

    /// Waits for one.
    pub(crate) async fn take(self: &Arc<Self>, key: &K) -> TakenShare<K> {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            if let Some(share) = self.try_take(key) {
                return share;
            }
            freed.await;
        }
    }
}

impl<K: Ord> Drop for TakenShare<K> {
    fn drop(&mut self) {
        let mut taken = locked(&self.board.taken);
        if let Some(own) = taken.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.key);
            }
        }
        drop(taken);
        self.board.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_shares_of_others() {
        let board = ShareBoard::of(3, 2);
        let first: Vec<_> = (0..3).map(|_| board.try_take(&"ada")).collect();
        assert_eq!(first.iter().flatten().count(), 2);
        let other = board.try_take(&"bob");
        assert!(other.is_some() && board.try_take(&"eve").is_none());
        drop(first);
        assert!(board.try_take(&"eve").is_some());
    }
}
