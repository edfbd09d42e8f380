// SPDX-License-Identifier: Apache-2.0
//! Large language models: checkpoints while they are trained, and their cached keys and values while
//! they answer.

use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoFileCreation, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind,
};

use super::{RequirementDefinition, RequirementSource, blocks, mixed, paced, poisson, positive};
use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{setting, shared_file};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Bytes of a checkpoint for each parameter: weights 2, two moments of 4, gradients 2.
const PARAMETER_BYTES: f64 = 12.0;
/// Largest model, in billions of parameters.
const BILLIONS_MAX: f64 = 100_000.0;
/// Shortest time for a checkpoint, seconds.
const WITHIN_MIN_S: f64 = 1.0;
/// Bytes of a write of a checkpoint.
const CHECKPOINT_BLOCK: u32 = 4 << 20;
/// Writers, of which each has a file of its own.
const WRITERS_MAX: u32 = 256;
const WRITER_FILE: u64 = 256 << 20;

/// Bytes that a token of Llama 3.1 8B leaves: 32 layers × 8 heads × 128 × keys and values × 2 bytes.
const TOKEN_BYTES: u64 = 131_072;
/// Share of requests that find their entry: the least that is published.
const HITS: f64 = 0.85;
const REQUESTS_MAX: f64 = 100_000.0;
/// Longest context: an entry is read at once.
const TOKENS_MAX: u32 = 1_024;
const CACHE: (u64, u64) = (1 << 28, 1 << 50);
/// Entries in flight at most.
const CACHE_DEPTH: u32 = 16;

const CHECKPOINT_SETTINGS: &[SettingDefinition] = &[
    setting(
        "params",
        SettingUnit::Number,
        "8",
        "billions of parameters of the model",
    ),
    setting(
        "within",
        SettingUnit::Time,
        "156s",
        "time in which a checkpoint is written while training waits",
    ),
    setting(
        "writers",
        SettingUnit::Count,
        "8",
        "processes that write at once, each a file",
    ),
];

const KV_SETTINGS: &[SettingDefinition] = &[
    setting(
        "requests",
        SettingUnit::Number,
        "10",
        "requests a second that need their cache from storage",
    ),
    setting(
        "tokens",
        SettingUnit::Count,
        "133",
        "tokens of a request's context, 128 KiB each",
    ),
    setting(
        "size",
        SettingUnit::Size(1),
        "2GiB",
        "size of the cache, in one file",
    ),
];

pub(super) const CHECKPOINT: RequirementDefinition = RequirementDefinition {
    workload: WorkloadDefinition {
        name: "checkpoint",
        about: "checkpoints of a language model in training, written while it waits",
        settings: CHECKPOINT_SETTINGS,
        build: checkpoint,
    },
    limits: &["errors < 0.1%"],
    load: "{writers} streams of 4 MiB writes that together write {params} × 12 GB every {within}",
    sources: &[
        RequirementSource {
            title: "Cut Checkpoint Costs with About 30 Lines of Python and NVIDIA nvCOMP (NVIDIA Technical Blog)",
            url: "https://developer.nvidia.com/blog/cut-checkpoint-costs-with-about-30-lines-of-python-and-nvidia-nvcomp/",
            date: "2026-04-09",
            says: "12 bytes a parameter (782 GB for 70 billion); a checkpoint every 15 to 30 minutes",
        },
        RequirementSource {
            title: "NVIDIA nvCOMP Cuts AI Training Checkpoint Costs by $56K Monthly (J. Ding, Blockchain.News)",
            url: "https://blockchainnews.azurewebsites.net/news/nvidia-nvcomp-ai-training-checkpoint-compression-savings",
            date: "2026-04-09",
            says: "NVIDIA's example: 782 GB at 5 GB/s take 156 s of every 30 minutes",
        },
        RequirementSource {
            title: "MLPerf Storage v2.0, checkpointing (MLCommons)",
            url: "https://github.com/mlcommons/storage",
            date: "2025-08-04",
            says: "the pattern: one file of each process, 8 processes for a model of 8 billion parameters",
        },
    ],
    notes: &[
        "What is needed is a rate: it is carried when all that is due is written, so that no backlog grows. \
         The limit on errors only says that writes must succeed.",
        "No share of time is required anywhere; 156 s of 30 minutes is the example of the source. Give within=TIME.",
        "The files stay small (256 MiB for each writer) and are written again and again.",
    ],
};

pub(super) const KV_CACHE: RequirementDefinition = RequirementDefinition {
    workload: WorkloadDefinition {
        name: "kv-cache",
        about: "cached keys and values of a language model, offloaded to storage",
        settings: KV_SETTINGS,
        build: kv_cache,
    },
    limits: &["read p95 < 200ms", "write p95 < 500ms"],
    load: "{requests} requests a second, each an entry of {tokens} tokens × 128 KiB at once, 85 % of them \
           reads",
    sources: &[RequirementSource {
        title: "MLPerf Storage KV Cache Benchmark v3.0, README (H. Awadallah, MLCommons)",
        url: "https://github.com/mlcommons/storage/blob/main/kv_cache_benchmark/README.md",
        date: "2026",
        says: "passes at p95 < 200 ms of NVMe reads and p95 < 500 ms of NVMe writes; 133 tokens of mean context (ShareGPT) to 2676 (synthetic); 85 to 97 % of requests hit; an example of 10 requests a second",
    }],
    notes: &[
        "Of each published range the least is needed to fit: 133 tokens, and an example's 10 requests a second; \
         the share of writes is the largest that is published.",
        "A token of Llama 3.1 8B leaves 128 KiB: 32 layers × 8 key-value heads × 128 values × 2 × 2 bytes.",
    ],
};

fn checkpoint(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let billions = positive(settings, "params", BILLIONS_MAX)?;
    let within_s = settings.time("within").as_secs_f64();
    if within_s < WITHIN_MIN_S {
        let reason = "expected at least 1 s";
        return Err(settings.wrong("within", settings.text("within"), reason));
    }
    let bytes_per_s = billions * 1e9 * PARAMETER_BYTES / within_s;
    let writers = BlockIoGroup {
        name: "writers".into(),
        workers: settings.count_within("writers", 1, WRITERS_MAX)?,
        depth: 4,
        extent: BlockIoExtent {
            shared: false,
            ..shared_file("checkpoint", WRITER_FILE, BlockIoFileCreation::Before)
        },
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Write, CHECKPOINT_BLOCK)],
        offsets: OffsetPattern::Sequential,
        pace: paced(bytes_per_s / f64::from(CHECKPOINT_BLOCK)),
        ..BlockIoGroup::default()
    };
    Ok(blocks("checkpoint", vec![writers]))
}

fn kv_cache(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let per_s = positive(settings, "requests", REQUESTS_MAX)?;
    let tokens = settings.count_within("tokens", 1, TOKENS_MAX)?;
    let bytes = settings.bytes_within("size", CACHE.0, CACHE.1)?;
    let entry = plimsoll_core::num::saturating_u32(u64::from(tokens) * TOKEN_BYTES);
    let cache = BlockIoGroup {
        name: "cache".into(),
        depth: CACHE_DEPTH,
        extent: shared_file("cache", bytes, BlockIoFileCreation::Before),
        mix: mixed(HITS, entry),
        pace: poisson(per_s),
        ..BlockIoGroup::default()
    };
    Ok(blocks("kv-cache", vec![cache]))
}
