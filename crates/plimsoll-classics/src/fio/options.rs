// SPDX-License-Identifier: Apache-2.0
//! Which options of a job file are carried out, which change nothing, and which are refused with
//! a reason. Every other name is refused with the most similar one that is known.

use super::ini::{FioOption, FioSection};
use crate::error::ClassicsError;
use plimsoll_core::nearest::nearest;

/// Carried out.
const DONE: &[&str] = &[
    "rw",
    "bs",
    "bssplit",
    "bsrange",
    "blockalign",
    "rwmixread",
    "rwmixwrite",
    "percentage_random",
    "random_distribution",
    "norandommap",
    "rate_iops",
    "rate",
    "rate_process",
    "thinktime",
    "thinktime_blocks",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete_min",
    "ioengine",
    "numjobs",
    "size",
    "filesize",
    "io_size",
    "runtime",
    "time_based",
    "startdelay",
    "direct",
    "buffered",
    "sync",
    "fsync",
    "fdatasync",
    "end_fsync",
    "buffer_compress_percentage",
    "dedupe_percentage",
    "filename",
    "directory",
    "nrfiles",
    "offset_increment",
    "stonewall",
    "wait_for",
    "loops",
    "overwrite",
    "invalidate",
    "refill_buffers",
    "scramble_buffers",
];

/// Names, reports, logs, seeds and lay-out of files: nothing that is measured here depends on them.
const WITHOUT_EFFECT: &[&str] = &[
    "name",
    "description",
    "group_reporting",
    "new_group",
    "thread",
    "randrepeat",
    "allrandrepeat",
    "randseed",
    "fallocate",
    "create_serialize",
    "unlink",
    "eta",
    "eta-newline",
    "output-format",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
    "percentile_list",
    "significant_figures",
    "unified_rw_reporting",
    "gtod_reduce",
    "clocksource",
    "iodepth_batch_complete_max",
    "write_bw_log",
    "write_lat_log",
    "write_slat_log",
    "write_clat_log",
    "write_hist_log",
    "write_iops_log",
    "write_iolog",
    "per_job_logs",
    "log_avg_msec",
    "log_window_value",
    "log_max_value",
    "log_hist_msec",
    "log_hist_coarseness",
    "log_entries",
    "log_offset",
    "log_prio",
    "log_compression",
    "log_compression_cpus",
    "log_store_compressed",
    "log_unix_epoch",
    "log_alternate_epoch",
    "log_alternate_epoch_clock_id",
    "bwavgtime",
    "iopsavgtime",
    "disk_util",
    "stats",
];

/// Refused, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    (
        "ramp_time",
        "a job with runtime= has no warm-up here; take the line out, and let a job of its own before it, with stonewall between them, do the warming up",
    ),
    (
        "thinktime_spin",
        "think time does not use the processor here; take the line out",
    ),
    ("sync_file_range", "use fsync or fdatasync"),
    (
        "iodepth_low",
        "the depth is kept up here; take the line out",
    ),
    ("read_iolog", "give the log itself as the workload"),
    (
        "verify",
        "every system is proven before it is measured; take the line out",
    ),
    ("exec_prerun", "commands of a job file are not run"),
    ("exec_postrun", "commands of a job file are not run"),
    (
        "buffer_pattern",
        "blocks are random bytes; use buffer_compress_percentage",
    ),
    (
        "zero_buffers",
        "blocks of zeros measure nothing on many systems; use buffer_compress_percentage",
    ),
];

/// Refuses the first option that is neither carried out nor without effect.
pub(crate) fn check(section: &FioSection) -> Result<(), ClassicsError> {
    for option in &section.options {
        let name = option.name.as_str();
        if DONE.contains(&name) || WITHOUT_EFFECT.contains(&name) {
            continue;
        }
        if let Some((_, advice)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(option.wrong(advice));
        }
        let known = DONE.iter().chain(WITHOUT_EFFECT).copied();
        let hint =
            nearest(name, known).map_or(String::new(), |near| format!(" (did you mean '{near}'?)"));
        return Err(option.wrong(format!("this option is not supported{hint}; take the line out, or run the job with fio itself as fio:FILE")));
    }
    Ok(())
}

/// The options of a job, asked by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FioSectionOptions<'a>(pub(crate) &'a FioSection);

impl<'a> FioSectionOptions<'a> {
    /// The last option of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&'a FioOption> {
        self.0
            .options
            .iter()
            .rev()
            .find(|option| option.name == name)
    }

    /// Its text, or what fio takes without it.
    pub(crate) fn text(&self, name: &str, default: &'a str) -> &'a str {
        self.find(name).map_or(default, |option| &option.value)
    }

    /// Its value as `read` understands it.
    pub(crate) fn value<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ClassicsError> {
        let read = |option: &FioOption| read(&option.value).map_err(|reason| option.wrong(reason));
        self.find(name).map(read).transpose()
    }

    /// A switch.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, ClassicsError> {
        let read = |text: &str| match text {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err("expected 0 or 1".to_owned()),
        };
        Ok(self.value(name, read)?.unwrap_or(default))
    }

    /// An error about an option of this name, or about the job when it has none.
    pub(crate) fn wrong(&self, name: &str, reason: &str) -> ClassicsError {
        match self.find(name) {
            Some(option) => option.wrong(reason),
            None => ClassicsError::Line {
                line: self.0.line,
                reason: format!("job '{}': {reason}", self.0.name),
            },
        }
    }
}
