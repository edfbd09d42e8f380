// SPDX-License-Identifier: Apache-2.0
//! The outer form of a job file: sections, options, comments, and the options of `[global]` that
//! every later section begins with.

use crate::error::ClassicsError;

/// Largest number of options of one section, those of `[global]` included.
const OPTIONS_MAX: usize = 10_000;
/// Largest number of sections.
const SECTIONS_MAX: usize = 1_000;

/// One option, where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FioOption {
    /// Its name as fio's manual heads it; aliases are resolved.
    pub(crate) name: String,
    /// Text behind `=`; `1` when there is none.
    pub(crate) value: String,
    /// Line, from 1.
    pub(crate) line: usize,
}

impl FioOption {
    /// An error about this option.
    pub(crate) fn wrong(&self, reason: impl std::fmt::Display) -> ClassicsError {
        ClassicsError::Line {
            line: self.line,
            reason: format!("'{}={}': {reason}", self.name, self.value),
        }
    }
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FioSection {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Global options first, so that the last one of a name counts.
    pub(crate) options: Vec<FioOption>,
}

/// The jobs of a file.
pub(crate) fn sections(text: &str) -> Result<Vec<FioSection>, ClassicsError> {
    let mut jobs: Vec<FioSection> = Vec::new();
    let mut global: Vec<FioOption> = Vec::new();
    let mut in_global = None;
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split([';', '#']).next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let wrong = |reason: String| ClassicsError::Line { line, reason };
        if let Some(rest) = text.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim);
            let name = name.filter(|name| !name.is_empty()).ok_or_else(|| {
                wrong(format!(
                    "'{text}' is not a section: write [name of the job]"
                ))
            })?;
            in_global = Some(name == "global");
            if name != "global" {
                jobs.push(FioSection {
                    name: name.into(),
                    line,
                    options: global.clone(),
                });
            }
            if jobs.len() > SECTIONS_MAX {
                return Err(wrong(format!("there are more than {SECTIONS_MAX} jobs")));
            }
            continue;
        }
        let option = option(text, line)?;
        let list = match (in_global, jobs.last_mut()) {
            (Some(true), _) => &mut global,
            (Some(false), Some(job)) => &mut job.options,
            _ => {
                return Err(wrong(format!(
                    "'{text}' comes before any section: write [global] or [name of the job] above it"
                )));
            }
        };
        list.push(option);
        if list.len() > OPTIONS_MAX {
            return Err(wrong(format!("there are more than {OPTIONS_MAX} options")));
        }
    }
    if jobs.is_empty() {
        return Err(ClassicsError::Line {
            line: text.lines().count().max(1),
            reason: "the file ends without a job: it needs a section [name of the job]".into(),
        });
    }
    Ok(jobs)
}

/// Options of which every job file has one at least.
const TELLING: [&str; 6] = ["rw", "bs", "ioengine", "iodepth", "size", "filename"];

/// Whether a text looks like a job file, whatever its name: it begins with a section, and has an
/// option in a form that other languages with sections do not have.
pub fn is_job(text: &str) -> bool {
    let mut lines = text
        .lines()
        .map(|line| line.split([';', '#']).next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty());
    let begins = lines.next().is_some_and(|line| {
        line.starts_with('[') && !line.starts_with("[[") && line.ends_with(']')
    });
    let mut options = lines.filter_map(|line| line.split_once('='));
    begins
        && options.any(|(name, value)| {
            let quoted = value.trim().starts_with(['"', '\'', '[', '{']);
            !quoted && TELLING.contains(&canonical(name.trim()))
        })
}

/// One line `name=value`.
pub(super) fn option(text: &str, line: usize) -> Result<FioOption, ClassicsError> {
    let wrong = |reason: String| Err(ClassicsError::Line { line, reason });
    if text.starts_with("include ") {
        return wrong(format!(
            "'{text}': other files are not read; put their text here"
        ));
    }
    if text.contains("${") {
        return wrong(format!(
            "'{text}': variables of the environment are not read; write the value"
        ));
    }
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name.trim(), value.trim()),
        None => (text, "1"),
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return wrong(format!("'{text}' is not an option: write name=value"));
    }
    Ok(FioOption {
        name: canonical(name).into(),
        value: value.into(),
        line,
    })
}

/// The name of an option that has several.
fn canonical(name: &str) -> &str {
    match name {
        "blocksize" => "bs",
        "blocksize_range" => "bsrange",
        "ba" => "blockalign",
        "iodepth_batch_submit" => "iodepth_batch",
        "iodepth_batch_complete" => "iodepth_batch_complete_min",
        "readwrite" => "rw",
        "io_limit" => "io_size",
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_options_come_first_and_comments_go() {
        let text = "; a\n[global]\nbs=8k # b\n\n[one]\nreadwrite=write\nstonewall\n[global]\nsize=1m\n[two]\n";
        let jobs = sections(text).unwrap();
        let told: Vec<(&str, String)> = jobs
            .iter()
            .map(|job| {
                let options = job
                    .options
                    .iter()
                    .map(|o| format!("{}={}", o.name, o.value));
                (job.name.as_str(), options.collect::<Vec<_>>().join(" "))
            })
            .collect();
        assert_eq!(
            told,
            [
                ("one", "bs=8k rw=write stonewall=1".to_owned()),
                ("two", "bs=8k size=1m".to_owned())
            ]
        );
        assert_eq!(jobs[0].options[2].line, 7);
    }

    #[test]
    fn a_job_is_known_by_its_content() {
        for (text, expect) in [
            ("# mine\n[global]\nrw=randread\n", true),
            ("[db]\nblocksize = 8k\n", true),
            ("[reader]\n ioengine=libaio ; fast\n", true),
            ("format = 1\n[workload]\nbs = 4096\n", false),
            ("[[groups]]\nbs=4096\n", false),
            ("[a]\nname=\"x\"\nrw=\"read\"\n", false),
            ("define fileset name=a,size=4k\n", false),
            ("", false),
        ] {
            assert_eq!(is_job(text), expect, "{text}");
        }
    }

    #[test]
    fn files_that_are_no_jobs_are_refused_with_their_line() {
        for (text, line, word) in [
            ("", 1, "without a job"),
            ("bs=4k\n", 1, "before any section"),
            ("[a\n", 1, "not a section"),
            ("[a]\ninclude x.fio\n", 2, "other files"),
            ("[a]\nsize=${SIZE}\n", 2, "environment"),
            ("[a]\n=3\n", 2, "not an option"),
        ] {
            let error = sections(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
            assert!(error.contains(word), "{error}");
        }
    }
}
