// SPDX-License-Identifier: Apache-2.0
//! What a test program said, and what all of them said together.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

/// What one run of a test program came to.
#[derive(Clone, Debug, Default)]
pub(super) struct TestOutcome {
    program: String,
    pub(super) passed: usize,
    ignored: usize,
    pub(super) failed: Vec<String>,
    /// Lines that say which test could not run here, and why.
    skipped: Vec<String>,
    /// How the program ended, unless by itself.
    end: Option<String>,
    took: Duration,
    /// What is shown of a run that failed.
    text: String,
}

impl TestOutcome {
    /// Reads what libtest printed.
    pub(super) fn read(program: &str, text: &str, end: Option<String>, took: Duration) -> Self {
        let mut outcome = Self {
            program: program.to_owned(),
            end,
            took,
            ..Self::default()
        };
        let mut begun = BTreeSet::new();
        for line in text.lines() {
            if let Some(at) = line.find("SKIPPED") {
                outcome
                    .skipped
                    .push(line[at..].trim_end_matches([' ', '*']).to_owned());
            }
            outcome.read_line(line, &mut begun);
        }
        // A program that was ended, or that crashed, says nothing of the tests that were running.
        if outcome.end.is_some() {
            outcome.failed.extend(begun);
        }
        if !outcome.passed() {
            outcome.text = text.to_owned();
        }
        outcome
    }

    fn read_line(&mut self, line: &str, begun: &mut BTreeSet<String>) {
        let Some(rest) = line.strip_prefix("test ") else {
            return;
        };
        if let Some((name, _)) = rest.split_once(" has been running for over") {
            begun.insert(name.to_owned());
            return;
        }
        let Some((name, result)) = rest.rsplit_once(" ... ") else {
            return;
        };
        let name = name.trim_end_matches(" - should panic");
        begun.remove(name);
        match result {
            "ok" => self.passed += 1,
            "FAILED" => self.failed.push(name.to_owned()),
            other if other.starts_with("ignored") => self.ignored += 1,
            // With one thread a test's name is printed before its result.
            _ => {
                begun.insert(name.to_owned());
            }
        }
    }

    pub(super) fn passed(&self) -> bool {
        self.failed.is_empty() && self.end.is_none()
    }

    /// One line for the person who waits; the whole output where something failed.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "{:<28} {:>4} passed {:>2} failed {:>2} ignored {:>7.1} s\n",
            self.program,
            self.passed,
            self.failed.len(),
            self.ignored,
            self.took.as_secs_f64()
        );
        for skipped in &self.skipped {
            let _ = writeln!(line, "  {skipped}");
        }
        if let Some(end) = &self.end {
            let _ = writeln!(line, "  {} did not end by itself: {end}", self.program);
        }
        line.push_str(&self.text);
        line
    }
}

/// What all test programs came to.
#[derive(Debug, Default)]
pub(super) struct SuiteSummary {
    outcomes: Vec<TestOutcome>,
    flaky: Vec<String>,
}

impl SuiteSummary {
    pub(super) fn add(&mut self, outcome: TestOutcome) {
        self.outcomes.push(outcome);
    }

    /// Every failed test with its program.
    pub(super) fn failures(&self) -> Vec<(String, String)> {
        let of = |outcome: &TestOutcome| {
            let program = outcome.program.clone();
            let pair = move |test: &String| (program.clone(), test.clone());
            outcome.failed.iter().map(pair).collect::<Vec<_>>()
        };
        self.outcomes.iter().flat_map(of).collect()
    }

    /// Counts a test as passed that passed when it was repeated alone, and remembers its name.
    pub(super) fn forgive(&mut self, program: &str, test: &str) {
        for outcome in &mut self.outcomes {
            if outcome.program == program && outcome.failed.iter().any(|name| name == test) {
                outcome.failed.retain(|name| name != test);
                outcome.passed += 1;
                self.flaky.push(format!("{program} {test}"));
                return;
            }
        }
    }

    /// Whether nothing failed for good. A program that did not end by itself failed, whatever
    /// its tests say when they are repeated: what it had not begun was never run.
    pub(super) fn passed(&self) -> bool {
        self.outcomes.iter().all(TestOutcome::passed)
    }

    /// The last lines: what failed, what was flaky, the counts.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("\n");
        for (program, test) in self.failures() {
            let _ = writeln!(text, "failed: {program} {test}");
        }
        for outcome in self.outcomes.iter().filter(|outcome| outcome.end.is_some()) {
            let _ = writeln!(text, "failed: {} as a whole", outcome.program);
        }
        for name in &self.flaky {
            let _ = writeln!(text, "flaky: {name} (failed, then passed alone)");
        }
        let sum = |of: fn(&TestOutcome) -> usize| self.outcomes.iter().map(of).sum::<usize>();
        let skipped = sum(|outcome| outcome.skipped.len());
        let ends = sum(|outcome| usize::from(outcome.end.is_some()));
        let _ = writeln!(
            text,
            "{} passed, {} failed, {} skipped",
            sum(|outcome| outcome.passed).saturating_sub(skipped),
            sum(|outcome| outcome.failed.len()) + ends,
            skipped + sum(|outcome| outcome.ignored)
        );
        text
    }
}
