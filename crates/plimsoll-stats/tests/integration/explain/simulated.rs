// SPDX-License-Identifier: Apache-2.0
//! Runs in which a cause is planted, with noise, stalls and drift of their own, and figures near the limits.

use std::collections::BTreeMap;

use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::{
    ArmEntry, DeviceUse, GeneratorStats, KindStats, OpStats, RunFolderContents, RunManifest,
    ServerUse, TransferTotals, TrialId, TrialResult, TrialTimeBin, WorkerResult, WorkloadEntry,
};
use plimsoll_core::evidence::{
    CpuUse, DiskUse, LinkUse, LoadThreadUse, MachineUse, PeerRoundTrips, TcpUse,
};
use plimsoll_core::explanation::ExplanationCause;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::{round_u64, saturating_u32};
use plimsoll_core::op::OpKind;
use plimsoll_core::others::NeighbourUse;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::target::{MachineFacts, TargetFacts};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::{BlockIoWorkload, Workload};

pub(super) const LABEL: &str = "w";
pub(super) const ARM: &str = "a";
const BLOCKS: u32 = 3;
pub(super) const MIB: f64 = 1_048_576.0;

/// One simulated run.
pub(super) struct SimulatedRun {
    rng: Rng,
    planted: Option<ExplanationCause>,
    seconds: u64,
    /// Operations a second of the device alone, and of one that noise moves.
    capacity: f64,
    noise: f64,
    depth: f64,
    op_bytes: f64,
    /// Tokens that are left, and how they come.
    bucket: f64,
    rate: f64,
    burst_s: f64,
    slow_ms: f64,
    link_bytes_per_s: f64,
    leak_per_s: f64,
}

impl SimulatedRun {
    pub(super) fn new(seed: u64, planted: Option<ExplanationCause>) -> Self {
        let mut rng = Rng::new(Seed(seed).derive("explain", 0));
        let mut between = |low: f64, high: f64| low + (high - low) * rng.unit();
        let capacity = between(800.0, 4_000.0);
        let rate = capacity / between(2.5, 8.0);
        let burst_s = between(2.0, 10.0);
        let sim = SimulatedRun {
            planted,
            seconds: round_u64(between(12.0, 30.0)),
            capacity,
            noise: between(0.005, 0.12),
            depth: round_u64(between(1.0, 16.0)) as f64,
            op_bytes: between(4_096.0, 65_536.0),
            bucket: rate * burst_s,
            rate,
            burst_s,
            slow_ms: between(1.0, 10.0),
            link_bytes_per_s: between(2.0, 30.0) * MIB,
            leak_per_s: between(3.0, 10.0) * MIB,
            rng,
        };
        assert!(sim.seconds >= 8);
        sim
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.rng.unit()
    }

    fn is(&self, cause: ExplanationCause) -> bool {
        self.planted == Some(cause)
    }

    /// Operations of each second.
    fn seconds(&mut self) -> Vec<f64> {
        let drift = self.between(-0.1, 0.1);
        let first = self.between(0.75, 1.2);
        let mut all = Vec::new();
        for second in 0..self.seconds {
            let along = second as f64 / self.seconds as f64;
            let mut able =
                self.capacity * (1.0 + drift * along) * (self.noise * self.rng.normal()).exp();
            if second == 0 {
                able *= first;
            }
            if self.rng.unit() < 0.03 {
                able *= self.between(0.3, 0.7);
            }
            if self.is(ExplanationCause::SlowDisk) {
                // Stripes over two disks: the slow one sets the pace.
                able = able
                    .min(self.depth * 1_000.0 / self.slow_ms * (0.02 * self.rng.normal()).exp());
            }
            if self.is(ExplanationCause::SlowLink) {
                able = able.min(self.link_bytes_per_s / self.op_bytes);
            }
            if self.is(ExplanationCause::OtherPrograms) {
                able *= self.between(0.4, 0.6);
            }
            all.push(match self.is(ExplanationCause::BurstCredit) {
                true => self.limited(able),
                false => able,
            });
        }
        all
    }

    /// A second behind a token bucket.
    fn limited(&mut self, able: f64) -> f64 {
        let mut done = 0.0;
        for _ in 0..100 {
            self.bucket = (self.bucket + self.rate / 100.0).min(self.rate * self.burst_s);
            let taken = (able / 100.0).min(self.bucket);
            self.bucket -= taken;
            done += taken;
        }
        done
    }

    fn bin(&mut self, second: usize, ops: f64) -> TrialTimeBin {
        let mut response = Histogram::new();
        let mean = self.depth / ops.max(1.0) * 1e9;
        response.record_many(Nanos(round_u64(mean)), round_u64(ops));
        TrialTimeBin {
            start: Nanos(second as u64 * Nanos::SECOND.0),
            length: Nanos::SECOND,
            response,
            kinds: BTreeMap::new(),
        }
    }

    fn trial(&mut self, block: u32) -> (TrialResult, Vec<TrialTimeBin>) {
        // Other arms have their turn: some credit comes back.
        let pause = self.between(0.0, 20.0);
        let full = self.rate * self.burst_s;
        self.bucket = (self.bucket + pause * self.rate).min(full);
        let seconds = self.seconds();
        let bins: Vec<TrialTimeBin> = seconds
            .iter()
            .enumerate()
            .map(|(n, ops)| self.bin(n, *ops))
            .collect();
        let ops: f64 = seconds.iter().sum();
        let length = Nanos(self.seconds * Nanos::SECOND.0);
        let bytes = ops * self.op_bytes;
        let mut kind = KindStats {
            bytes: round_u64(bytes),
            ..KindStats::default()
        };
        for bin in &bins {
            kind.service.merge(&bin.response);
            kind.response.merge(&bin.response);
        }
        kind.lag.record_many(Nanos(2_000), round_u64(ops));
        let generator = GeneratorStats {
            engine: "io_uring".into(),
            user_cpu_ns: round_u64(ops * 4_000.0),
            system_cpu_ns: round_u64(ops * 9_000.0),
            outside_ns: round_u64(ops * 2_000.0),
            ..GeneratorStats::default()
        };
        let asked = TransferTotals {
            reads: round_u64(ops),
            read_bytes: round_u64(bytes),
            ..TransferTotals::default()
        };
        let mut served = asked;
        let moved = match self.is(ExplanationCause::PageCache) {
            // The first block warms it.
            true if block == 0 => self.between(0.2, 0.6),
            true => self.between(0.0, 0.2),
            false => self.between(0.92, 1.1),
        };
        served.read_bytes = round_u64(bytes * moved);
        let result = TrialResult {
            length,
            stats: OpStats(BTreeMap::from([(OpKind::Read, kind)])),
            generator,
            workers: vec![WorkerResult::default(); 2],
            servers: vec![self.server("n1"), self.server("n2")],
            device: Some(DeviceUse {
                device: "vdb".into(),
                length,
                served,
                merged: [0, 0],
                asked,
                busy: Some(length),
            }),
            others: Some(self.others(length)),
            machines: vec![self.machine(length, ops)],
            ..TrialResult::of(TrialId {
                block,
                place: block,
                arm: ARM.into(),
                workload: LABEL.into(),
            })
        };
        (result, bins)
    }

    fn server(&mut self, name: &str) -> ServerUse {
        let looks = usize::try_from(self.seconds)
            .unwrap()
            .min(ServerUse::RESIDENT_STEPS);
        let is_leaking = self.is(ExplanationCause::MemoryGrowth) && name == "n1";
        let base = self.between(40.0, 100.0) * MIB;
        // A cache fills at first, a leak all the time.
        let fills = self.between(0.0, 64.0) * MIB;
        let at = |n: usize| {
            let along = n as f64 / (looks - 1) as f64;
            let filled = fills * (1.0 - (-20.0 * along).exp());
            let leaked = match is_leaking {
                true => self.leak_per_s * self.seconds as f64 * along,
                false => 0.0,
            };
            round_u64(base + filled + leaked)
        };
        let resident_steps: Vec<u64> = (0..looks).map(at).collect();
        let (first, last) = (resident_steps[0], *resident_steps.last().unwrap());
        let length = Nanos(self.seconds * Nanos::SECOND.0);
        ServerUse {
            server: name.into(),
            length,
            cpu_ns: round_u64(self.between(0.05, 0.5) * length.0 as f64),
            thread_share_max: self.between(0.1, 0.9),
            resident_bytes: last,
            grown_bytes: last.cast_signed() - first.cast_signed(),
            moved_bytes: round_u64(self.between(100.0, 120.0) * MIB),
            still: Nanos(round_u64(self.between(0.0, 0.04) * length.0 as f64)),
            processes_lost: 0,
            resident_steps,
        }
    }

    fn others(&mut self, length: Nanos) -> NeighbourUse {
        let cpus = match self.is(ExplanationCause::OtherPrograms) {
            true => self.between(0.9, 1.1),
            false => self.between(0.0, 0.2),
        };
        NeighbourUse {
            length,
            cpus: 16,
            cpu_ns: round_u64(cpus * length.0 as f64),
            steal_ns: round_u64(self.between(0.0, 0.03) * 16.0 * length.0 as f64),
            ..NeighbourUse::default()
        }
    }

    fn machine(&mut self, length: Nanos, ops: f64) -> MachineUse {
        let all = length.0 as f64;
        let is_taken = self.is(ExplanationCause::OtherPrograms);
        let ran = self.between(0.1, 0.5) * all;
        let waited = match is_taken {
            true => ran * self.between(0.4, 1.0),
            false => ran * self.between(0.0, 0.2),
        };
        let busy = match is_taken {
            true => self.between(0.95, 1.0),
            // A full processor limits only threads that wait for it.
            false => self.between(0.2, 1.0),
        };
        let idle = self.between(50_000.0, 300_000.0);
        let service = self.depth / (ops / length.as_secs_f64()) * 1e9;
        let loaded = match self.is(ExplanationCause::SlowLink) {
            // Requests in flight wait before the line, and so does a small packet.
            true => idle + service * self.between(0.6, 1.0),
            false => idle * self.between(1.0, 2.5),
        };
        let network = ops * self.op_bytes * self.between(1.02, 1.3);
        let sent = network / 1_448.0;
        MachineUse {
            machine: String::new(),
            length,
            looks: saturating_u32(self.seconds),
            cpu_count: 16,
            cpus: vec![CpuUse {
                cpu: 3,
                busy: Nanos(round_u64(busy * all)),
            }],
            load_threads: Some(LoadThreadUse {
                ran: Nanos(round_u64(ran)),
                waited: Nanos(round_u64(waited)),
            }),
            tcp: Some(TcpUse {
                sent: round_u64(sent),
                retransmitted: round_u64(sent * self.between(0.0, 0.005)),
            }),
            links: vec![LinkUse {
                link: "eth0".into(),
                bits_per_s: Some(100_000_000_000),
                received_bytes: round_u64(network),
                ..LinkUse::default()
            }],
            peers: vec![PeerRoundTrips {
                peer: "10.0.0.2".into(),
                idle: Some(Nanos(round_u64(idle))),
                loaded: Some(Nanos(round_u64(loaded))),
                // A clean way has room.
                bytes_per_s: Some(round_u64(
                    network / length.as_secs_f64() * self.between(1.5, 9.0),
                )),
                sent: 10,
                answered: 10,
            }],
            disks: self.disks(length, ops),
            heat_throttles: Some(0),
            knows_arrays: true,
            ..MachineUse::default()
        }
    }

    fn disks(&mut self, length: Nanos, ops: f64) -> Vec<DiskUse> {
        let usual = self.between(0.1, 0.6);
        let disk = |name: &str, ms: f64, busy: f64| DiskUse {
            disk: name.into(),
            requests: round_u64(ops / 2.0),
            read_bytes: round_u64(ops / 2.0 * self.op_bytes),
            written_bytes: 0,
            busy: Nanos(round_u64(busy * length.0 as f64)),
            request_time: Nanos(round_u64(ops / 2.0 * ms * 1e6)),
            ..DiskUse::default()
        };
        let first = disk("vdb", usual, 0.5);
        let second = match self.planted == Some(ExplanationCause::SlowDisk) {
            true => disk("vdc", self.slow_ms, 0.99),
            false => {
                let alike = usual * (1.0 + 0.5 * self.rng.unit());
                disk("vdc", alike, 0.9)
            }
        };
        vec![first, second]
    }

    pub(super) fn run(mut self) -> RunFolderContents {
        let trials = (0..BLOCKS).map(|block| self.trial(block));
        let (trials, bins): (Vec<TrialResult>, Vec<Vec<TrialTimeBin>>) = trials.unzip();
        RunFolderContents {
            manifest: manifest(),
            intervals: (0..BLOCKS).zip(bins).collect(),
            trials,
            warnings: Vec::new(),
            comparisons: Vec::new(),
            complete: true,
            files: Vec::new(),
        }
    }
}

pub(super) fn entry(label: &str) -> WorkloadEntry {
    WorkloadEntry {
        label: label.into(),
        scale: 1.0,
        length: Nanos(10 * Nanos::SECOND.0),
        workload: Workload::Blocks(BlockIoWorkload::random("w", 1.0)),
        inject: None,
        condition: None,
        load_line: None,
        client: None,
        load_loop: None,
    }
}

fn manifest() -> RunManifest {
    RunManifest {
        format: FormatVersion::RUN,
        program: String::new(),
        id: "t".into(),
        began_at: String::new(),
        command: Vec::new(),
        seed: Seed(1),
        generator: String::new(),
        policy: VerdictPolicy::default(),
        design: None,
        balanced: false,
        machine: MachineFacts {
            host: String::new(),
            kernel: String::new(),
            cpu: String::new(),
            cpus: 16,
            ram_bytes: 16 << 30,
            cpu_governor: None,
        },
        versions: BTreeMap::new(),
        arms: vec![ArmEntry {
            name: ARM.into(),
            target: "/mnt/a".into(),
            description: String::new(),
            control_of: None,
            facts: Some(TargetFacts {
                disks: vec!["vdb".into(), "vdc".into()],
                direct_align_bytes: 512,
                ..TargetFacts::default()
            }),
        }],
        entries: vec![entry(LABEL)],
        blocks: BLOCKS,
        ladder: Vec::new(),
        load_nodes: Vec::new(),
        conditioning: None,
        trial_bytes: None,
        campaign: None,
    }
}
