// SPDX-License-Identifier: Apache-2.0
//! The certificate of a disk: the acknowledged writes that it kept in real power cuts.

use plimsoll_core::ledger::{LedgerCertificate, LedgerCut};
use plimsoll_stats::events::bound_of_none;

use crate::model::{
    ReportAnswer, ReportDocument, ReportItem, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell,
};

/// Confidence of the bound on losses that were not seen.
const CONFIDENCE: f64 = 0.95;

/// The cuts of one storage as a report.
pub fn certificate(certificate: &LedgerCertificate) -> ReportDocument {
    let lossy = certificate.cuts_with_losses();
    ReportDocument {
        title: "Power-cut certificate".into(),
        subtitle: certificate
            .checks
            .first()
            .map(LedgerCut::disks_in_words)
            .unwrap_or_default(),
        answer: ReportAnswer {
            text: sentence(certificate, lossy),
            tone: match lossy {
                0 => ReportSeverity::Plain,
                _ => ReportSeverity::Bad,
            },
            ..ReportAnswer::default()
        },
        headline: Vec::new(),
        sections: vec![cuts_section(certificate)],
        data: serde_json::to_string(&certificate.checks).unwrap_or_default(),
    }
}

fn sentence(certificate: &LedgerCertificate, lossy: usize) -> String {
    let cuts = certificate.cuts();
    let noun = if cuts == 1 { "power cut" } else { "power cuts" };
    let bound = 100.0 * bound_of_none(cuts, CONFIDENCE);
    match lossy {
        0 => format!(
            "Every acknowledged write was there after {cuts} {noun}: at most {bound:.0} % of such cuts lose some (95 % \
             confidence)."
        ),
        lossy => format!("Acknowledged writes were lost or wrong after {lossy} of {cuts} {noun}."),
    }
}

fn cuts_section(certificate: &LedgerCertificate) -> ReportSection {
    let columns = [
        "checked",
        "target",
        "durable by",
        "disk cache",
        "#blocks read",
        "#bad",
        "finding",
    ];
    let mut table = ReportTable::new("Checks, a row each", &columns);
    for cut in &certificate.checks {
        let data = &cut.check.data;
        let caches: Vec<&str> = cut
            .disks
            .iter()
            .map(|disk| disk.write_cache.as_str())
            .collect();
        let bad = ReportTableCell::new(data.bad.total().to_string()).value(data.bad.total() as f64);
        let tone = match data.bad.total() {
            0 => ReportSeverity::Good,
            _ => ReportSeverity::Bad,
        };
        table.rows.push(vec![
            ReportTableCell::new(cut.checked_at.clone()),
            ReportTableCell::new(cut.target.clone()),
            ReportTableCell::new(cut.durability.clone()),
            ReportTableCell::new(caches.join(", ")),
            ReportTableCell::new(data.checked.to_string()).value(data.checked as f64),
            bad.tone(tone),
            ReportTableCell::new(data.bad.to_string()),
        ]);
    }
    table.notes = vec![
        "plimsoll noted each write in a ledger on other storage before it was submitted, and its acknowledgement \
         before it counted. After the cut every block was read and compared with the ledger."
            .into(),
        "Each cut has a ledger of its own. A write that a later one of the same block replaced is not examined."
            .into(),
    ];
    ReportSection {
        is_answer: true,
        items: vec![ReportItem::Table(table)],
        ..ReportSection::new("Power cuts", "").at("cuts")
    }
}
