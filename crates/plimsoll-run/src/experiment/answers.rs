// SPDX-License-Identifier: Apache-2.0
//! Questions answered by figures: the first answer whose condition holds.

use plimsoll_core::experiment::{
    ExperimentAnswered, ExperimentClause, ExperimentCondition, ExperimentEvidence,
    ExperimentEvidenceResult, ExperimentFinding, ExperimentQuestion, ExperimentTest,
    ExperimentUnit, ExperimentValue, placeholders,
};

use super::find::{ExperimentMaterials, found};

/// A question with its answer.
pub(super) fn answered(
    question: &ExperimentQuestion,
    parts: &ExperimentMaterials,
) -> ExperimentAnswered {
    let evidence: Vec<ExperimentEvidenceResult> = (question.evidence.iter())
        .map(|evidence| looked_up(evidence, parts))
        .collect();
    let mut told = ExperimentAnswered {
        asks: question.asks.clone(),
        published: question.published.clone(),
        is_answered: false,
        says: String::new(),
        because: String::new(),
        evidence,
    };
    if let Some(why) = &question.cannot_tell {
        told.says = format!("Cannot be told here, because {why}");
        return told;
    }
    for answer in &question.answer {
        let condition = answer.when.as_deref().unwrap_or_default();
        let read = match condition.is_empty() {
            true => Ok(ExperimentCondition::default()),
            false => ExperimentCondition::parse(condition),
        };
        let Ok(read) = read else { continue };
        if !read
            .clauses
            .iter()
            .all(|clause| holds(clause, &told.evidence))
        {
            continue;
        }
        // The last answer is for other figures, not for none.
        if condition.is_empty() && is_any_missing(question, &told.evidence) {
            continue;
        }
        if let Some(says) = filled(&answer.says, &told.evidence) {
            told.is_answered = true;
            told.says = says;
            told.because = condition.into();
            return told;
        }
    }
    let mut why: Vec<String> = Vec::new();
    for evidence in &told.evidence {
        if let ExperimentFinding::Missing(reason) = &evidence.found
            && !why.contains(reason)
        {
            why.push(reason.clone());
        }
    }
    told.says = format!("Cannot be told here, because {}.", why.join("; "));
    told
}

fn looked_up(
    evidence: &ExperimentEvidence,
    parts: &ExperimentMaterials,
) -> ExperimentEvidenceResult {
    let found = found(parts, &evidence.ours);
    let is_ratio = evidence.ours.over.is_some();
    let unit = evidence.unit.or(match is_ratio {
        true => Some(ExperimentUnit::Times),
        false => evidence.ours.metric.and_then(|metric| metric.unit()),
    });
    ExperimentEvidenceResult {
        name: evidence.name.clone(),
        what: evidence.what.clone(),
        shown: shown(&found, unit.unwrap_or_default()),
        found,
    }
}

/// A finding in words.
pub(super) fn shown(found: &ExperimentFinding, unit: ExperimentUnit) -> String {
    match found {
        ExperimentFinding::Number(value) => shown_value(value, unit),
        ExperimentFinding::Text(text) | ExperimentFinding::Found(text) => text.clone(),
        ExperimentFinding::Excluded => "looked for and not found".into(),
        ExperimentFinding::Missing(why) => format!("not known: {why}"),
    }
}

fn shown_value(value: &ExperimentValue, unit: ExperimentUnit) -> String {
    match value.interval {
        Some((low, high)) => format!(
            "{} (95 %: {} to {})",
            unit.show(value.value),
            unit.number(low),
            unit.number(high)
        ),
        None => unit.show(value.value),
    }
}

fn find<'a>(
    name: &str,
    evidence: &'a [ExperimentEvidenceResult],
) -> Option<&'a ExperimentEvidenceResult> {
    evidence.iter().find(|one| one.name == name)
}

/// Whether a clause holds: of a figure with an interval, for all of it.
fn holds(clause: &ExperimentClause, evidence: &[ExperimentEvidenceResult]) -> bool {
    let Some(one) = find(&clause.name, evidence) else {
        return false;
    };
    let ends = match &one.found {
        ExperimentFinding::Number(value) => {
            Some(value.interval.unwrap_or((value.value, value.value)))
        }
        _ => None,
    };
    match clause.test {
        ExperimentTest::Above(limit) => ends.is_some_and(|(low, _)| low > limit),
        ExperimentTest::Below(limit) => ends.is_some_and(|(_, high)| high < limit),
        ExperimentTest::Found => matches!(one.found, ExperimentFinding::Found(_)),
        ExperimentTest::Excluded => one.found == ExperimentFinding::Excluded,
        ExperimentTest::Missing => matches!(one.found, ExperimentFinding::Missing(_)),
        ExperimentTest::Present => !matches!(one.found, ExperimentFinding::Missing(_)),
    }
}

/// Whether a figure that some answer depends on is missing, unless an answer asks for just that.
fn is_any_missing(question: &ExperimentQuestion, evidence: &[ExperimentEvidenceResult]) -> bool {
    let conditions = question
        .answer
        .iter()
        .filter_map(|answer| answer.when.as_deref());
    let read = conditions.filter_map(|when| ExperimentCondition::parse(when).ok());
    let mut clauses = read.flat_map(|condition| condition.clauses);
    clauses.any(|clause| {
        let one = find(&clause.name, evidence);
        let is_missing = one.is_none_or(|one| matches!(one.found, ExperimentFinding::Missing(_)));
        is_missing
            && !matches!(
                clause.test,
                ExperimentTest::Missing | ExperimentTest::Present
            )
    })
}

/// The text with figures in it; `None` where one of them is missing.
fn filled(text: &str, evidence: &[ExperimentEvidenceResult]) -> Option<String> {
    let mut whole = text.to_owned();
    for name in placeholders(text).ok()? {
        let one = find(name, evidence)?;
        if matches!(one.found, ExperimentFinding::Missing(_)) {
            return None;
        }
        whole = whole.replace(&format!("{{{name}}}"), &one.shown);
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ExperimentMaterial;

    fn question(text: &str) -> ExperimentQuestion {
        toml::from_str(text).unwrap()
    }

    fn parts(printed: serde_json::Value) -> ExperimentMaterials {
        let part = ExperimentMaterial {
            printed: Some(printed),
            ..ExperimentMaterial::default()
        };
        [("p".to_owned(), part)].into()
    }

    const ASKED: &str = "asks = \"Why?\"\nevidence = [{ name = \"r\", what = \"x\", unit = \"times\", \
        ours = { part = \"p\", json = \"/r\" } }]\nanswer = [{ when = \"r > 2\", says = \"Much: {r}.\" }, \
        { says = \"Little.\" }]";

    #[test]
    fn the_figure_chooses_the_answer() {
        let question = question(ASKED);
        for (value, says, because) in [(3.0, "Much: 3.00×.", "r > 2"), (1.5, "Little.", "")] {
            let told = answered(&question, &parts(serde_json::json!({ "r": value })));
            assert_eq!((told.says.as_str(), told.because.as_str()), (says, because));
            assert!(told.is_answered);
        }
    }

    #[test]
    fn what_is_missing_is_said_instead_of_an_answer() {
        let told = answered(&question(ASKED), &parts(serde_json::json!({})));
        assert!(!told.is_answered);
        let expect = "Cannot be told here, because part p: its results have no /r.";
        assert_eq!(told.says, expect);
        let never = question("asks = \"Why?\"\ncannot_tell = \"nobody wrote it down.\"");
        let told = answered(&never, &ExperimentMaterials::new());
        assert_eq!(
            told.says,
            "Cannot be told here, because nobody wrote it down."
        );
    }

    #[test]
    fn a_condition_holds_for_the_whole_interval() {
        let one = |low, high| ExperimentEvidenceResult {
            name: "r".into(),
            what: String::new(),
            shown: String::new(),
            found: ExperimentFinding::Number(ExperimentValue {
                value: (low + high) / 2.0,
                interval: Some((low, high)),
                blocks: Vec::new(),
            }),
        };
        let clause = &ExperimentCondition::parse("r > 1").unwrap().clauses[0];
        assert!(holds(clause, &[one(1.1, 2.0)]) && !holds(clause, &[one(0.9, 2.0)]));
        let clause = &ExperimentCondition::parse("r < 1").unwrap().clauses[0];
        assert!(holds(clause, &[one(0.1, 0.9)]) && !holds(clause, &[one(0.9, 2.0)]));
    }
}
