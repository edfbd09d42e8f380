// SPDX-License-Identifier: Apache-2.0
//! Several searches at a time: one trial of each in turn, in an order drawn anew for each round, so that a
//! drift of the surroundings meets all systems alike.

use plimsoll_core::load_line::LoadLineRequest;
use plimsoll_core::rng::{Rng, Seed};

use super::search::LoadLineSearch;
use super::trial::{LoadLineStep, LoadLineTrial};

/// Searches that take turns.
#[derive(Debug, Clone)]
pub struct LoadLineRounds {
    searches: Vec<LoadLineSearch>,
    rng: Rng,
    /// Who is still to come in this round, the next one last.
    order: Vec<usize>,
    /// Who had the last turn.
    last: Option<usize>,
}

/// The trial to run now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLineTurn {
    /// Number of the search, in the order they were given.
    pub search: usize,
    /// The trial to run on its system.
    pub request: LoadLineRequest,
}

impl LoadLineRounds {
    /// The order of all rounds follows from the seed.
    pub fn new(searches: Vec<LoadLineSearch>, seed: Seed) -> LoadLineRounds {
        LoadLineRounds {
            searches,
            rng: Rng::new(seed.derive("load line rounds", 0)),
            order: Vec::new(),
            last: None,
        }
    }

    /// The search whose turn it is, with its next trial; `None` when all searches are done.
    pub fn turn(&mut self) -> Option<LoadLineTurn> {
        // A stay that is played in parts is not left in between.
        let staying = self.last.and_then(|last| self.request_of(last));
        if let Some(turn) = staying.filter(|turn| turn.request.is_continued) {
            return Some(turn);
        }
        loop {
            if self.order.is_empty() {
                self.begin_round();
            }
            let next = self.order.pop()?;
            if let Some(turn) = self.request_of(next) {
                self.last = Some(next);
                return Some(turn);
            }
        }
    }

    fn begin_round(&mut self) {
        let all = 0..self.searches.len();
        self.order = all.filter(|i| self.request_of(*i).is_some()).collect();
        self.rng.shuffle(&mut self.order);
    }

    fn request_of(&self, search: usize) -> Option<LoadLineTurn> {
        match self.searches.get(search)?.next() {
            LoadLineStep::Try(request) => Some(LoadLineTurn { search, request }),
            LoadLineStep::Done(_) => None,
        }
    }

    /// Takes what came of a turn.
    ///
    /// # Panics
    /// When there is no such search.
    pub fn observe(&mut self, search: usize, trial: &LoadLineTrial) {
        self.searches[search].observe(trial);
    }

    /// All searches, in the order they were given.
    pub fn searches(&self) -> &[LoadLineSearch] {
        &self.searches
    }
}
