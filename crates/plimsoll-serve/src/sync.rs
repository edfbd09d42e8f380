// SPDX-License-Identifier: Apache-2.0
//! Locks, and rows of news that several connections listen to.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The value behind a lock. What a thread that panicked left is whole: no change here is made in two parts.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last news of something, each with a number, for any number of listeners, until it is closed.
#[derive(Debug)]
pub(crate) struct NewsRing<T> {
    kept: Mutex<KeptNews<T>>,
    changed: watch::Sender<u64>,
    most: usize,
}

#[derive(Debug)]
struct KeptNews<T> {
    /// Number of the first that is kept.
    first: u64,
    news: VecDeque<T>,
    is_closed: bool,
}

/// News for a listener.
#[derive(Debug)]
pub(crate) struct HeardNews<T> {
    pub(crate) news: Vec<T>,
    /// Number of what comes next.
    pub(crate) next: u64,
    pub(crate) is_closed: bool,
}

impl<T: Clone> NewsRing<T> {
    /// Keeps the latest `most` entries.
    pub(crate) fn keeping(most: usize) -> NewsRing<T> {
        NewsRing {
            kept: Mutex::new(KeptNews {
                first: 0,
                news: VecDeque::new(),
                is_closed: false,
            }),
            changed: watch::Sender::new(0),
            most,
        }
    }

    pub(crate) fn push(&self, one: T) {
        let mut kept = locked(&self.kept);
        if kept.news.len() >= self.most {
            kept.news.pop_front();
            kept.first += 1;
        }
        kept.news.push_back(one);
        drop(kept);
        self.changed.send_modify(|version| *version += 1);
    }

    /// Nothing follows.
    pub(crate) fn close(&self) {
        locked(&self.kept).is_closed = true;
        self.changed.send_modify(|version| *version += 1);
    }

    /// News since number `from`, as far as they are kept.
    pub(crate) fn since(&self, from: u64) -> HeardNews<T> {
        let kept = locked(&self.kept);
        let skip = usize::try_from(from.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        HeardNews {
            news: kept.news.iter().skip(skip).cloned().collect(),
            next: kept.first + kept.news.len() as u64,
            is_closed: kept.is_closed,
        }
    }

    /// Tells when something has come.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_news_are_kept_and_numbers_go_on() {
        let ring = NewsRing::keeping(3);
        (0..5).for_each(|n| ring.push(n));
        let heard = ring.since(0);
        assert_eq!((heard.news, heard.next), (vec![2, 3, 4], 5));
        ring.push(5);
        ring.close();
        let heard = ring.since(heard.next);
        assert_eq!(
            (heard.news, heard.next, heard.is_closed),
            (vec![5], 6, true)
        );
    }
}
