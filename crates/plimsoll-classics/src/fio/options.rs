// SPDX-License-Identifier: Apache-2.0
//! Which options of a job file are carried out, which change nothing, which fio itself may be given, and
//! which are refused with a reason. Every other name is refused with the most similar one that is known.

use super::ini::{FioOption, FioSection};
use crate::error::ClassicsError;
use plimsoll_core::nearest::nearest;

/// How an option is played here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FioOptionPlay {
    /// As fio does.
    Done,
    /// Not at all, and nothing is lost.
    WithoutEffect,
    /// The job is refused.
    Unsupported,
}

use FioOptionPlay::{Done, Unsupported, WithoutEffect};

impl FioOptionPlay {
    /// An option that is played so, and that fio gets with values of this kind.
    const fn row(self, name: &'static str, kind: Option<FioValueKind>) -> FioKnownOption {
        FioKnownOption {
            name,
            play: self,
            kind,
            is_on_null: true,
        }
    }
}

/// Kind of value that an option accepts.
#[derive(Debug, Clone, Copy)]
pub(super) enum FioValueKind {
    /// 0 or 1.
    Switch,
    /// An engine that does I/O and nothing else.
    Engine,
    /// Numbers with units, and lists and patterns of them.
    Figures,
    /// `rw`.
    Access,
    /// `random_distribution`.
    Distribution,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The name of a file in the target.
    FileName,
    /// The name of a job.
    JobName,
    /// Accepted, but not written: Plimsoll sets it, or it does not affect the load.
    LeftOut,
}

use FioValueKind::{
    Access, Distribution, Engine, Figures, FileName, JobName, LeftOut, OneOf, Switch,
};

/// An option that we know.
#[derive(Debug, Clone, Copy)]
pub(super) struct FioKnownOption {
    /// Its name as fio's manual heads it.
    pub(super) name: &'static str,
    play: FioOptionPlay,
    /// The values with which it is passed on to fio; none where it is not.
    pub(super) kind: Option<FioValueKind>,
    /// Whether it is also meant on the null engine.
    pub(super) is_on_null: bool,
}

impl FioKnownOption {
    /// The one of this name.
    pub(super) fn of(name: &str) -> Option<&'static FioKnownOption> {
        OPTIONS.iter().find(|known| known.name == name)
    }

    /// The null engine's own lines replace it, or it has no meaning without files.
    const fn not_on_null(self) -> FioKnownOption {
        FioKnownOption {
            is_on_null: false,
            ..self
        }
    }
}

/// All of them, each once.
pub(super) const OPTIONS: &[FioKnownOption] = &[
    // Carried out.
    Done.row("rw", Some(Access)),
    Done.row("bs", Some(Figures)),
    Done.row("bssplit", Some(Figures)),
    Done.row("bsrange", Some(Figures)),
    Done.row("blockalign", Some(Figures)),
    Done.row("rwmixread", Some(Figures)),
    Done.row("rwmixwrite", Some(Figures)),
    Done.row("percentage_random", Some(Figures)),
    Done.row("random_distribution", Some(Distribution)),
    Done.row("norandommap", Some(Switch)),
    Done.row("rate_iops", Some(Figures)),
    Done.row("rate", Some(Figures)),
    Done.row(
        "rate_process",
        Some(OneOf(&["linear", "poisson", "thinktime"])),
    ),
    Done.row("thinktime", Some(Figures)),
    Done.row("thinktime_blocks", Some(Figures)),
    Done.row("iodepth", Some(Figures)),
    Done.row("iodepth_batch", Some(Figures)),
    Done.row("iodepth_batch_complete_min", Some(Figures)),
    Done.row("ioengine", Some(Engine)).not_on_null(),
    Done.row("numjobs", Some(Figures)),
    Done.row("size", Some(Figures)),
    Done.row("filesize", Some(Figures)),
    Done.row("io_size", Some(Figures)),
    Done.row("runtime", Some(Figures)).not_on_null(),
    Done.row("time_based", Some(Switch)).not_on_null(),
    Done.row("startdelay", Some(Figures)).not_on_null(),
    Done.row("direct", Some(Switch)),
    Done.row("buffered", Some(Switch)),
    Done.row("sync", Some(OneOf(&["0", "1", "none", "sync", "dsync"]))),
    Done.row("fsync", Some(Figures)),
    Done.row("fdatasync", Some(Figures)),
    Done.row("end_fsync", Some(Switch)),
    Done.row("buffer_compress_percentage", Some(Figures)),
    Done.row("dedupe_percentage", Some(Figures)),
    Done.row("filename", Some(FileName)).not_on_null(),
    Done.row("directory", Some(LeftOut)).not_on_null(),
    Done.row("nrfiles", Some(Figures)).not_on_null(),
    Done.row("offset_increment", Some(Figures)),
    Done.row("stonewall", Some(Switch)).not_on_null(),
    Done.row("wait_for", Some(JobName)).not_on_null(),
    Done.row("loops", Some(Figures)),
    Done.row("overwrite", Some(Switch)),
    Done.row("invalidate", Some(Switch)),
    Done.row("refill_buffers", Some(Switch)),
    Done.row("scramble_buffers", Some(Switch)),
    // Names, reports, logs, seeds and lay-out of files: nothing that is measured here depends on them.
    WithoutEffect.row("name", Some(LeftOut)),
    WithoutEffect.row("description", Some(LeftOut)),
    WithoutEffect.row("group_reporting", Some(Switch)),
    WithoutEffect.row("new_group", Some(Switch)),
    WithoutEffect.row("thread", Some(Switch)),
    WithoutEffect.row("randrepeat", Some(Switch)),
    WithoutEffect.row("allrandrepeat", Some(Switch)),
    WithoutEffect.row("randseed", Some(Figures)),
    WithoutEffect.row(
        "fallocate",
        Some(OneOf(&[
            "none", "posix", "keep", "native", "truncate", "0", "1",
        ])),
    ),
    WithoutEffect.row("create_serialize", Some(Switch)),
    WithoutEffect.row("unlink", Some(Switch)),
    WithoutEffect.row("eta", None),
    WithoutEffect.row("eta-newline", None),
    WithoutEffect.row("output-format", None),
    WithoutEffect.row("disable_lat", Some(Switch)),
    WithoutEffect.row("disable_clat", Some(Switch)),
    WithoutEffect.row("disable_slat", Some(Switch)),
    WithoutEffect.row("clat_percentiles", Some(Switch)),
    WithoutEffect.row("lat_percentiles", Some(Switch)),
    WithoutEffect.row("slat_percentiles", Some(Switch)),
    WithoutEffect.row("percentile_list", Some(Figures)),
    WithoutEffect.row("significant_figures", Some(Figures)),
    WithoutEffect.row(
        "unified_rw_reporting",
        Some(OneOf(&["none", "mixed", "both", "0", "1", "2"])),
    ),
    WithoutEffect.row("gtod_reduce", Some(Switch)),
    WithoutEffect.row(
        "clocksource",
        Some(OneOf(&["gettimeofday", "clock_gettime", "cpu"])),
    ),
    WithoutEffect.row("iodepth_batch_complete_max", Some(Figures)),
    WithoutEffect.row("write_bw_log", None),
    WithoutEffect.row("write_lat_log", None),
    WithoutEffect.row("write_slat_log", None),
    WithoutEffect.row("write_clat_log", None),
    WithoutEffect.row("write_hist_log", None),
    WithoutEffect.row("write_iops_log", None),
    WithoutEffect.row("write_iolog", None),
    WithoutEffect.row("per_job_logs", None),
    WithoutEffect.row("log_avg_msec", None),
    WithoutEffect.row("log_window_value", None),
    WithoutEffect.row("log_max_value", None),
    WithoutEffect.row("log_hist_msec", None),
    WithoutEffect.row("log_hist_coarseness", None),
    WithoutEffect.row("log_entries", None),
    WithoutEffect.row("log_offset", None),
    WithoutEffect.row("log_prio", None),
    WithoutEffect.row("log_compression", None),
    WithoutEffect.row("log_compression_cpus", None),
    WithoutEffect.row("log_store_compressed", None),
    WithoutEffect.row("log_unix_epoch", None),
    WithoutEffect.row("log_alternate_epoch", None),
    WithoutEffect.row("log_alternate_epoch_clock_id", None),
    WithoutEffect.row("bwavgtime", Some(Figures)),
    WithoutEffect.row("iopsavgtime", Some(Figures)),
    WithoutEffect.row("disk_util", Some(Switch)),
    WithoutEffect.row("stats", Some(Switch)),
    // Refused here; those with a kind are for fio itself.
    Unsupported.row("bs_unaligned", Some(Switch)),
    Unsupported.row("buffer_compress_chunk", Some(Figures)),
    Unsupported.row("cpus_allowed", Some(Figures)),
    Unsupported.row("cpus_allowed_policy", Some(OneOf(&["shared", "split"]))),
    Unsupported.row("create_fsync", Some(Switch)),
    Unsupported.row("create_on_open", Some(Switch)),
    Unsupported.row("disable_bw_measurement", Some(Switch)),
    Unsupported.row("do_verify", Some(Switch)),
    Unsupported.row("exitall", Some(Switch)),
    Unsupported.row("exitall_on_error", Some(Switch)),
    Unsupported.row(
        "file_service_type",
        Some(OneOf(&["random", "roundrobin", "sequential"])),
    ),
    Unsupported.row("filename_format", None).not_on_null(),
    Unsupported.row("fsync_on_close", Some(Switch)),
    Unsupported.row("iodepth_low", Some(Figures)),
    Unsupported.row("ioscheduler", None).not_on_null(),
    Unsupported.row("kb_base", Some(Figures)),
    Unsupported.row("number_ios", Some(Figures)),
    Unsupported.row("offset", Some(Figures)),
    Unsupported.row("offset_align", Some(Figures)),
    Unsupported.row("openfiles", Some(Figures)).not_on_null(),
    Unsupported.row("ramp_time", Some(Figures)).not_on_null(),
    Unsupported.row(
        "random_generator",
        Some(OneOf(&["tausworthe", "tausworthe64", "lfsr"])),
    ),
    Unsupported.row("rate_cycle", Some(Figures)),
    Unsupported.row("rate_ignore_thinktime", Some(Switch)),
    Unsupported.row("rate_iops_min", Some(Figures)),
    Unsupported.row("rate_min", Some(Figures)),
    Unsupported.row("rw_sequencer", Some(OneOf(&["sequential", "identical"]))),
    Unsupported.row("serialize_overlap", Some(Switch)),
    Unsupported.row("thinktime_blocks_type", Some(OneOf(&["complete", "issue"]))),
    Unsupported.row("thinktime_iotime", Some(Figures)),
    Unsupported.row("thinktime_spin", Some(Figures)),
    Unsupported.row("unit_base", Some(Figures)),
    Unsupported.row(
        "verify",
        Some(OneOf(&[
            "crc16", "crc32", "crc32c", "crc64", "crc7", "md5", "null", "sha1", "sha256", "sha512",
            "xxhash",
        ])),
    ),
    Unsupported.row("verify_backlog", Some(Figures)),
    Unsupported.row("verify_backlog_batch", Some(Figures)),
    Unsupported.row("verify_fatal", Some(Switch)),
    Unsupported.row("verify_interval", Some(Figures)),
    Unsupported.row("zero_buffers", Some(Switch)),
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
        if played().any(|known| known == name) {
            continue;
        }
        if let Some((_, advice)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(option.wrong(advice));
        }
        let hint = nearest(name, played())
            .map_or(String::new(), |near| format!(" (did you mean '{near}'?)"));
        return Err(option.wrong(format!("this option is not supported{hint}; take the line out, or run the job with fio itself as fio:FILE")));
    }
    Ok(())
}

/// Names of the options that are carried out or without effect.
fn played() -> impl Iterator<Item = &'static str> {
    let played = OPTIONS.iter().filter(|known| known.play != Unsupported);
    played.map(|known| known.name)
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
