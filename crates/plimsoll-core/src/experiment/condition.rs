// SPDX-License-Identifier: Apache-2.0
//! Conditions of answers: `ratio > 1.05 and cache found`.

/// Test that a figure has to pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExperimentTest {
    /// Above a number, with its whole interval.
    Above(f64),
    /// Below it, with its whole interval.
    Below(f64),
    /// The cause shows.
    Found,
    /// The cause was looked for and does not show.
    Excluded,
    /// There is a figure.
    Present,
    /// There is none.
    Missing,
}

/// A figure and what it has to be.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentClause {
    /// The figure, by its name.
    pub name: String,
    /// The test.
    pub test: ExperimentTest,
}

/// All clauses of a condition; each has to hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExperimentCondition {
    /// The clauses.
    pub clauses: Vec<ExperimentClause>,
}

impl ExperimentCondition {
    /// Reads a condition.
    ///
    /// # Errors
    /// A sentence that says what was expected.
    pub fn parse(text: &str) -> Result<ExperimentCondition, String> {
        let clauses = text.split(" and ").map(clause);
        let clauses: Result<Vec<ExperimentClause>, String> = clauses.collect();
        clauses.map(|clauses| ExperimentCondition { clauses })
    }
}

fn clause(text: &str) -> Result<ExperimentClause, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wrong = || {
        format!(
            "invalid condition '{}': expected NAME > NUMBER, NAME < NUMBER, or NAME and one of found, \
             excluded, present, missing",
            text.trim()
        )
    };
    let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
    let (name, test) = match words[..] {
        [name, ">", limit] => (name, number(limit).map(ExperimentTest::Above)),
        [name, "<", limit] => (name, number(limit).map(ExperimentTest::Below)),
        [name, "found"] => (name, Some(ExperimentTest::Found)),
        [name, "excluded"] => (name, Some(ExperimentTest::Excluded)),
        [name, "present"] => (name, Some(ExperimentTest::Present)),
        [name, "missing"] => (name, Some(ExperimentTest::Missing)),
        _ => return Err(wrong()),
    };
    Ok(ExperimentClause {
        name: name.into(),
        test: test.ok_or_else(wrong)?,
    })
}

/// The names between braces in a text, in their order; `Err` where a brace is not closed.
///
/// # Errors
/// A sentence.
pub fn placeholders(text: &str) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else {
            return Err("a brace is not closed: expected {NAME}".into());
        };
        names.push(name);
        rest = behind;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_clauses_that_all_hold() {
        let read = ExperimentCondition::parse("ratio > 1.05 and cache found").unwrap();
        let tests: Vec<(&str, ExperimentTest)> = (read.clauses.iter())
            .map(|clause| (clause.name.as_str(), clause.test))
            .collect();
        assert_eq!(
            tests,
            [
                ("ratio", ExperimentTest::Above(1.05)),
                ("cache", ExperimentTest::Found)
            ]
        );
        for wrong in ["", "a", "a > b", "a >= 1", "a > 1 or b found", "a > inf"] {
            let failure = ExperimentCondition::parse(wrong).unwrap_err();
            assert!(failure.contains("expected NAME > NUMBER"), "{failure}");
        }
    }

    #[test]
    fn names_between_braces_are_found() {
        assert_eq!(placeholders("a {b} c {d}").unwrap(), ["b", "d"]);
        assert!(placeholders("none").unwrap().is_empty());
        assert!(placeholders("a {b").is_err());
    }
}
