// SPDX-License-Identifier: Apache-2.0
//! The page of durability: what each setting gains, and what it loses when the power fails.

mod earlier;
mod maintainers;

pub use maintainers::durability_issue;
use plimsoll_core::durability::{
    DeviceModel, DurabilityFlaw, DurabilityGain, DurabilityLosses, DurabilityResult, DurabilityRow,
};
use plimsoll_core::num::to_usize;
use plimsoll_core::text::enumerated;
use plimsoll_core::units::{self, Nanos};
use plimsoll_stats::events::bound_of_none;

use crate::model::{
    ForestChart, ForestGroup, ForestRow, ForestWords, ReportAnswer, ReportChart, ReportDocument,
    ReportDoubt, ReportFigure, ReportItem, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell,
};

/// Confidence of the bounds on what was not seen.
const CONFIDENCE: f64 = 0.95;
/// Sentences of the answer: the table has the rest.
const SENTENCES_MAX: usize = 2;

/// Durability of a server as a report.
pub fn durability(result: &DurabilityResult) -> ReportDocument {
    let version = match result.version.is_empty() {
        true => String::new(),
        false => format!(" ({})", result.version),
    };
    ReportDocument {
        title: format!("Durability of {}", result.server),
        subtitle: format!(
            "{}{version} · loads of {} with {} · kernel {} · {}",
            result.about,
            units::clock_duration(result.load_time),
            plural(u64::from(result.clients), "writer"),
            result.kernel,
            result.began_at
        ),
        answer: answer(result),
        headline: Vec::new(),
        sections: [
            Some(table_section(result)),
            earlier::earlier_section(result),
            Some(found_section(result)),
            Some(method_section(result)),
        ]
        .into_iter()
        .flatten()
        .collect(),
        data: serde_json::to_string(result).unwrap_or_default(),
    }
}

fn plural(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

fn name(row: &DurabilityRow, result: &DurabilityResult) -> String {
    match row.label.is_empty() {
        true => result.server.clone(),
        false => row.label.clone(),
    }
}

fn losses(row: &DurabilityRow, model: DeviceModel) -> Option<&DurabilityLosses> {
    row.losses.iter().find(|losses| losses.model == model)
}

/// The hardest model that was judged, or the one that lost something first.
fn deciding(row: &DurabilityRow) -> Option<&DurabilityLosses> {
    let mut models = DeviceModel::ALL
        .into_iter()
        .filter_map(|model| losses(row, model));
    let first = models.clone().next();
    models
        .find(|losses| losses.states_with_losses > 0)
        .or(first)
}

fn times(gain: &DurabilityGain) -> Option<String> {
    let ratio = gain.ratio.filter(|ratio| ratio.estimate.is_finite())?;
    let shown = units::three_digits;
    Some(format!(
        "{}× ({} to {})",
        shown(ratio.estimate),
        shown(ratio.low),
        shown(ratio.high)
    ))
}

/// The share of loads that may lose something where none was seen to, as a percentage.
fn bound(losses: &DurabilityLosses) -> String {
    let share = 100.0 * bound_of_none(to_usize(losses.loads.into()), CONFIDENCE);
    format!("{share:.0} %")
}

/// Names of several rows, the name of their setting once.
fn names(rows: &[&DurabilityRow], result: &DurabilityResult) -> String {
    let labels: Vec<String> = rows.iter().map(|row| name(row, result)).collect();
    let setting = labels[0].split_once('=').map_or("", |(setting, _)| setting);
    let values: Vec<&str> = labels
        .iter()
        .filter_map(|label| label.strip_prefix(setting)?.strip_prefix('='))
        .collect();
    match values.len() == labels.len() && values.len() > 1 {
        true => format!("{setting}={}", enumerated(&values)),
        false => labels.join(", "),
    }
}

/// The sentence on all rows that lost nothing, of which the first has the fewest states.
fn kept_sentence(rows: &[&DurabilityRow], result: &DurabilityResult) -> Option<String> {
    let least = rows
        .iter()
        .filter_map(|row| deciding(row))
        .min_by_key(|losses| (losses.loads, losses.states))?;
    let each = match rows.len() {
        1 => "",
        _ => " each",
    };
    let sure = match least.loads < LOADS_FEW {
        true => "too few to call it safe: ",
        false => "",
    };
    let cache = match least.model {
        DeviceModel::Killed => String::new(),
        model => format!(" with a {model} disk cache"),
    };
    Some(format!(
        "{} lost nothing in {} {}{each}{}{cache}, in {}: {sure}up to {} of such loads may lose \
         something that was not seen (95 % confidence).",
        names(rows, result),
        least.states,
        match least.model {
            DeviceModel::Killed => "kills of the server",
            _ => "simulated power cuts",
        },
        result.cut_disks.describe(),
        plural(least.loads.into(), "load"),
        bound(least),
    ))
}

/// The sentence on a row that lost something.
fn lost_sentence(row: &DurabilityRow, result: &DurabilityResult) -> Option<String> {
    let losses = deciding(row)?;
    let claim = match (row.breaks_its_promise(), row.may_lose.is_empty()) {
        (true, true) => " claims to be safe, and",
        (true, false) => " loses more than its manual says: it",
        (false, _) => "",
    };
    let speed = row
        .gain
        .as_ref()
        .and_then(times)
        .map_or(String::new(), |times| {
            format!(
                " acknowledges {} as many writes a second and",
                times.replace('×', " times")
            )
        });
    let cuts = match losses.model {
        DeviceModel::Killed => "kills of the server".to_owned(),
        model => format!(
            "simulated power cuts{} with a {model} disk cache",
            result.cut_disks.describe()
        ),
    };
    Some(format!(
        "{}{claim}{speed} lost acknowledged writes in {} of {} {cuts}{}{}{}.",
        name(row, result),
        losses.states_with_losses,
        losses.states,
        losses_of_protected(row, losses.model),
        kind_of_loss(row, losses),
        earlier::earlier_words(result, row, losses)
    ))
}

/// The losses with a protected cache beside those with a volatile one.
fn losses_of_protected(row: &DurabilityRow, told: DeviceModel) -> String {
    match losses(row, DeviceModel::Protected) {
        Some(other) if told == DeviceModel::Volatile && other.states_with_losses > 0 => format!(
            " and in {} of {} with a protected cache",
            other.states_with_losses, other.states
        ),
        _ => String::new(),
    }
}

/// How far back single losses go, and the number of states that lost everything or could not be asked.
fn kind_of_loss(row: &DurabilityRow, losses: &DurabilityLosses) -> String {
    let of_all = DurabilityFlaw::ALL
        .into_iter()
        .filter(|flaw| flaw.is_of_all());
    let all: u32 = of_all.filter_map(|flaw| losses.flaws.get(&flaw)).sum();
    let window = oldest_loss(row).filter(|window| *window > Nanos(0));
    let mut parts = Vec::new();
    if let Some(window) = window {
        parts.push(format!(
            "writes that were acknowledged up to {} before the cut",
            units::duration(window)
        ));
    }
    if all > 0 {
        parts.push(format!("all writes of the load in {all}"));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!(": {}", parts.join(", ")),
    }
}

fn answer(result: &DurabilityResult) -> ReportAnswer {
    let is_judged = |row: &&DurabilityRow| deciding(row).is_some();
    let judged: Vec<&DurabilityRow> = result.rows.iter().filter(is_judged).collect();
    let has_lost =
        |row: &&DurabilityRow| deciding(row).is_some_and(|one| one.states_with_losses > 0);
    let (lost, kept): (Vec<_>, Vec<_>) = judged.into_iter().partition(has_lost);
    let broken: Vec<&DurabilityRow> = result
        .rows
        .iter()
        .filter(|row| row.breaks_its_promise())
        .collect();
    // A broken promise is what a reader must know first, then what is safe.
    let (first, rest): (Vec<&DurabilityRow>, Vec<_>) =
        lost.into_iter().partition(|row| row.breaks_its_promise());
    let told = |rows: &[&DurabilityRow]| -> Vec<String> {
        let sentences = rows.iter().filter_map(|row| lost_sentence(row, result));
        sentences.take(SENTENCES_MAX).collect()
    };
    let mut text = told(&first);
    text.extend(kept_sentence(&kept, result));
    text.extend(told(&rest));
    text.truncate(SENTENCES_MAX);
    if text.is_empty() {
        text.push("Nothing was judged: the run ended before its first load was over.".into());
    }
    ReportAnswer {
        text: text.join(" "),
        tone: match (broken.is_empty(), result.interrupted) {
            (false, _) => ReportSeverity::Bad,
            (true, true) => ReportSeverity::Care,
            (true, false) => ReportSeverity::Plain,
        },
        figure: figure(result),
        doubts: doubts(result),
        ..ReportAnswer::default()
    }
}

fn doubts(result: &DurabilityResult) -> Vec<ReportDoubt> {
    let mut doubts = Vec::new();
    if result.interrupted {
        doubts
            .push("The run was stopped before its end: figures are of what was judged.".to_owned());
    }
    let few = result
        .rows
        .iter()
        .flat_map(|row| &row.losses)
        .map(|losses| losses.loads)
        .min();
    if let Some(few) = few.filter(|few| *few < LOADS_FEW) {
        doubts.push(format!(
            "{} per setting: a rare loss is not seen. With --loads 59 the bound is 5 %.",
            plural(few.into(), "load")
        ));
    }
    let full: u32 = result.rows.iter().map(|row| row.totals.full_logs).sum();
    if full > 0 {
        doubts.push(format!(
            "The log of the disk was full in {}, which ended early.",
            plural(full.into(), "load")
        ));
    }
    let short: u32 = result.rows.iter().map(|row| row.totals.short_loads).sum();
    if short > 0 {
        doubts.push(format!(
            "{} ended early, when as much was acknowledged as can be asked for: a loss of older writes is not seen.",
            plural(short.into(), "load")
        ));
    }
    if result.rows.iter().all(|row| !row.may_lose.is_empty()) {
        doubts.push("No setting that claims to be safe was tested.".into());
    }
    let doubt = |text| ReportDoubt {
        text,
        section: "method".into(),
    };
    doubts.into_iter().map(doubt).collect()
}

/// With fewer loads the bound on losses is above a quarter.
const LOADS_FEW: u32 = 10;

fn figure(result: &DurabilityResult) -> Option<ReportFigure> {
    let row = |row: &DurabilityRow| {
        let gain = row.gain.as_ref()?;
        let losses = deciding(row);
        let lost = losses.map_or(0, |losses| losses.states_with_losses);
        let states = losses.map_or(0, |losses| losses.states);
        let cache = losses.map_or(String::new(), |losses| format!(", {} cache", losses.model));
        Some(ForestRow {
            label: name(row, result),
            ratio: Some(gain.ratio?),
            text: times(gain)?,
            verdict: format!("{lost} of {states}{cache}"),
            tone: match lost {
                0 => ReportSeverity::Good,
                _ => ReportSeverity::Bad,
            },
        })
    };
    let rows: Vec<ForestRow> = result.rows.iter().skip(1).filter_map(row).collect();
    if rows.is_empty() {
        return None;
    }
    let chart = ForestChart {
        base: result
            .rows
            .first()
            .map(|row| name(row, result))
            .unwrap_or_default(),
        margin: 0.0,
        words: ForestWords::MORE,
        groups: vec![ForestGroup {
            title: "acknowledged writes a second".into(),
            metric: "times as many".into(),
            rows,
        }],
    };
    Some(
        ReportFigure::new(
            "What does a setting gain, and what does it lose?",
            "To the right: more acknowledged writes a second. Beside it: simulated power cuts that lost some.",
            ReportChart::Forest(chart),
        )
        .compact(),
    )
}

fn table_section(result: &DurabilityResult) -> ReportSection {
    let mut columns = vec!["setting".to_owned()];
    let models: Vec<DeviceModel> = DeviceModel::ALL
        .into_iter()
        .filter(|model| result.rows.iter().any(|row| losses(row, *model).is_some()))
        .collect();
    columns.extend(models.iter().map(|model| match model {
        DeviceModel::Killed => "#server killed".to_owned(),
        cut => format!("#{cut} cache"),
    }));
    columns.extend(["#oldest loss", "~#time to restart"].map(String::from));
    let has_gains = result.rows.iter().any(|row| row.gain.is_some());
    if has_gains {
        columns.extend(["#writes/s", "#times as many as the first setting"].map(String::from));
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = ReportTable::new("Power cuts with losses, by disk cache", &columns);
    for row in &result.rows {
        let mut cells = vec![ReportTableCell::new(name(row, result))];
        cells.extend(models.iter().map(|model| loss_cell(losses(row, *model))));
        let longest = oldest_loss(row);
        let slowest = row.losses.iter().filter_map(|losses| losses.recovery).max();
        cells.extend([longest, slowest].map(time_cell));
        if has_gains {
            cells.extend(gain_cells(row, result.clients));
        }
        table.rows.push(cells);
    }
    table.notes = notes(result);
    ReportSection {
        is_answer: true,
        items: vec![ReportItem::Table(table)],
        ..ReportSection::new("Settings", "").at("settings")
    }
}

/// Acknowledged writes a second with the time that each took, and the ratio to the first setting.
fn gain_cells(row: &DurabilityRow, clients: u32) -> [ReportTableCell; 2] {
    let Some(gain) = &row.gain else {
        return [ReportTableCell::new("–"), ReportTableCell::new("–")];
    };
    let mean = gain.rates.iter().sum::<f64>() / gain.rates.len().max(1) as f64;
    let ratio = match times(gain) {
        Some(text) => ReportTableCell::new(text),
        None => ReportTableCell::new("–"),
    };
    // Each writer has one write at a time: Little's law.
    let each = Nanos::from_secs_f64(f64::from(clients) / mean.max(f64::MIN_POSITIVE));
    let rate = ReportTableCell::new(units::rate(mean)).value(mean);
    [
        rate.detail(format!("{} each", units::duration(each))),
        ratio,
    ]
}

fn loss_cell(losses: Option<&DurabilityLosses>) -> ReportTableCell {
    let Some(losses) = losses else {
        return ReportTableCell::new("–");
    };
    let cell = ReportTableCell::new(format!(
        "{} of {}",
        losses.states_with_losses, losses.states
    ));
    match losses.states_with_losses {
        0 => cell
            .detail(format!("loads that may lose: ≤ {}", bound(losses)))
            .tone(ReportSeverity::Good),
        _ => cell
            .detail(format!("{} of {} writes", losses.lost, losses.acknowledged))
            .tone(ReportSeverity::Bad),
    }
}

/// From the oldest single write that was lost to the cut, in any model.
fn oldest_loss(row: &DurabilityRow) -> Option<Nanos> {
    row.losses.iter().filter_map(|losses| losses.window).max()
}

fn time_cell(time: Option<Nanos>) -> ReportTableCell {
    match time {
        Some(time) => ReportTableCell::new(units::duration(time)).value(time.0 as f64),
        None => ReportTableCell::new("–"),
    }
}

fn notes(result: &DurabilityResult) -> Vec<String> {
    let mut notes = vec![
        "The power cuts are simulated: plimsoll's disk logs every write and flush of a load, and is cut afterwards \
         at several instants. The bound counts loads, since cuts of one load are not independent."
            .to_owned(),
        "A write is acknowledged when the server told its client that it is safe. Lost writes are counted of all that \
         a load had written, so their share depends on its length; the oldest loss does not."
            .to_owned(),
    ];
    notes.extend(
        DeviceModel::ALL
            .into_iter()
            .filter(|model| result.rows.iter().any(|row| losses(row, *model).is_some()))
            .map(|model| format!("{model}: {}.", model.explain())),
    );
    notes.extend(result.cut_disks.explain().map(String::from));
    if !result.gain_on.is_empty() {
        notes.push(format!(
            "Speed: measured on {}, without the logging disk, with its 95 % interval.",
            result.gain_on
        ));
    }
    let risky = result.rows.iter().filter(|row| !row.may_lose.is_empty());
    notes.extend(risky.map(|row| format!("By its manual {}.", row.may_lose)));
    notes
}

fn found_section(result: &DurabilityResult) -> ReportSection {
    let columns = [
        "setting",
        "disk cache",
        "finding",
        "#states",
        "one such write",
    ];
    let mut table = ReportTable::new("Findings", &columns);
    let mut causes = Vec::new();
    for row in &result.rows {
        for losses in &row.losses {
            for (flaw, states) in &losses.flaws {
                table.rows.push(vec![
                    ReportTableCell::new(name(row, result)),
                    ReportTableCell::new(losses.model.name()),
                    ReportTableCell::new(flaw.name()),
                    ReportTableCell::new(states.to_string()).value(f64::from(*states)),
                    ReportTableCell::new(losses.example.clone()),
                ]);
            }
            if !losses.cause.is_empty() {
                causes.push(format!("{}: {}.", name(row, result), losses.cause));
            }
        }
    }
    let mut items = match table.rows.is_empty() {
        true => vec![ReportItem::Text(
            "Every acknowledged write was there in every state.".into(),
        )],
        false => vec![ReportItem::Table(table)],
    };
    items.extend(causes.into_iter().map(ReportItem::Text));
    ReportSection {
        items,
        ..ReportSection::new("What was found", "").at("found")
    }
}

fn method_section(result: &DurabilityResult) -> ReportSection {
    let acknowledged: u64 = result.rows.iter().map(|row| row.totals.acknowledged).sum();
    let requests: u64 = result.rows.iter().map(|row| row.totals.requests).sum();
    let models =
        DeviceModel::ALL.map(|model| (model.name().to_owned(), model.explain().to_owned()));
    let mut facts = vec![
        ("Seed".to_owned(), result.seed.to_string()),
        ("Acknowledged writes".to_owned(), acknowledged.to_string()),
        (
            "Requests that the disk logged".to_owned(),
            requests.to_string(),
        ),
    ];
    facts.extend(result.rows.iter().filter_map(|row| {
        let rate = row.totals.rate_on_logged_disk()?;
        let what = format!(
            "Acknowledged writes a second on the logged disk, {}",
            name(row, result)
        );
        Some((what, units::rate(rate)))
    }));
    facts.extend(models);
    ReportSection {
        items: vec![ReportItem::Facts(facts)],
        page_only: true,
        ..ReportSection::new("Method", "").at("method")
    }
}
