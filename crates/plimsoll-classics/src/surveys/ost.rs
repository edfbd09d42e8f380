// SPDX-License-Identifier: Apache-2.0
//! ost-survey: one file is written and read back in blocks of 1 MiB by one client, to find the
//! slow ones among many alike storage targets.

use std::fmt::Write as _;

use plimsoll_core::event::PhaseResult;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoFileCreation, BlockIoFinalOp, BlockIoGroup, BlockIoMixEntry,
    BlockIoOpKind, BlockIoRegion, BlockIoStopCondition,
};
use plimsoll_core::workload::series::{ClassicProgram, PhaseSpec};

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{MIB, block_phase, find, per_second, series, setting};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Its name on the command line.
pub(super) const NAME: &str = "ost-survey";

const BLOCK: u32 = 1 << 20;

const SETTINGS: &[SettingDefinition] = &[setting(
    "s",
    SettingUnit::Size(1 << 20),
    "30",
    "size of the file, MiB",
)];

pub(super) const KNOWN: WorkloadDefinition = WorkloadDefinition {
    name: NAME,
    about: "one file written and read back in blocks of 1 MiB (ost-survey)",
    settings: SETTINGS,
    build,
};

fn build(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let bytes = settings.bytes_within("s", u64::from(BLOCK), 1 << 50)?;
    let bytes = bytes - bytes % u64::from(BLOCK);
    let group = |kind, made, finish: &[BlockIoFinalOp]| BlockIoGroup {
        name: "client".into(),
        extent: BlockIoExtent {
            file: "ost".into(),
            shared: true,
            bytes,
            region: BlockIoRegion::Whole,
            made,
        },
        mix: vec![BlockIoMixEntry::of(kind, BLOCK)],
        offsets: OffsetPattern::Sequential,
        finish: finish.to_vec(),
        direct: false,
        work: BlockIoStopCondition::Pass,
        ..BlockIoGroup::default()
    };
    let synced = [BlockIoFinalOp::Fsync, BlockIoFinalOp::Close];
    let write = group(BlockIoOpKind::Write, BlockIoFileCreation::During, &synced);
    let read = group(
        BlockIoOpKind::Read,
        BlockIoFileCreation::Earlier,
        &synced[1..],
    );
    let phases = vec![
        block_phase("write", vec![write]),
        PhaseSpec {
            cold: true,
            ..block_phase("read", vec![read])
        },
    ];
    Ok(series(NAME, settings, phases))
}

/// Means and the table of targets, of which there is one; `None` when a phase is missing.
pub(super) fn text(_: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    let figure = |name| {
        let phase = find(phases, name)?;
        let rate = per_second(phase.stats.bytes() as f64 / MIB, phase.wall);
        Some((rate, phase.wall.as_secs_f64()))
    };
    let (read, read_s) = figure("read")?;
    let (write, write_s) = figure("write")?;
    let mut out = String::new();
    for (action, rate) in [("Read", read), ("Write", write)] {
        let _ = write!(
            out,
            "Worst  {action} OST indx: 0 speed: {rate:.6}\n\
             Best   {action} OST indx: 0 speed: {rate:.6}\n\
             {action} Average: {rate:.6} +/- 0.000000 MB/s\n"
        );
    }
    out.push_str("Ost#  Read(MB/s)  Write(MB/s)  Read-time  Write-time\n");
    out.push_str("----------------------------------------------------\n");
    let _ = writeln!(
        out,
        "0     {read:.3}       {write:.3}        {read_s:.3}      {write_s:.3}"
    );
    Some(out)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::op::OpKind;

    use crate::parts::tests::{built, groups, names, refused, result};

    use super::*;

    #[test]
    fn a_file_is_written_through_and_read_cold() {
        let series = built(NAME, &[("s", "2500K")]);
        assert_eq!(names(&series), ["write", "read"]);
        for (phase, kind, made, finish, cold) in [
            (
                "write",
                BlockIoOpKind::Write,
                BlockIoFileCreation::During,
                &[BlockIoFinalOp::Fsync, BlockIoFinalOp::Close][..],
                false,
            ),
            (
                "read",
                BlockIoOpKind::Read,
                BlockIoFileCreation::Earlier,
                &[BlockIoFinalOp::Close],
                true,
            ),
        ] {
            let group = &groups(&series, phase)[0];
            assert_eq!(group.mix, [BlockIoMixEntry::of(kind, BLOCK)], "{phase}");
            assert_eq!(
                (group.extent.made, group.extent.bytes),
                (made, 2 << 20),
                "{phase}"
            );
            assert_eq!(group.finish, finish, "{phase}");
            let is_cold = series.phases.iter().any(|p| p.name == phase && p.cold);
            assert_eq!((is_cold, group.direct), (cold, false), "{phase}");
        }
        assert!(refused(NAME, &[("s", "10K")]).contains("from 1.00 MiB"));
    }

    #[test]
    fn the_table_has_the_layout_of_the_original() {
        let classic = built(NAME, &[]).classic.unwrap();
        let phases = [
            result(
                "write",
                2.0,
                &[(OpKind::Write, 30, 1 << 20, 10), (OpKind::Fsync, 1, 0, 10)],
            ),
            result("read", 0.5, &[(OpKind::Read, 30, 1 << 20, 10)]),
        ];
        let expect = "\
Worst  Read OST indx: 0 speed: 60.000000
Best   Read OST indx: 0 speed: 60.000000
Read Average: 60.000000 +/- 0.000000 MB/s
Worst  Write OST indx: 0 speed: 15.000000
Best   Write OST indx: 0 speed: 15.000000
Write Average: 15.000000 +/- 0.000000 MB/s
Ost#  Read(MB/s)  Write(MB/s)  Read-time  Write-time
----------------------------------------------------
0     60.000       15.000        0.500      2.000
";
        assert_eq!(crate::text(&classic, &phases).unwrap(), expect);
        assert!(crate::text(&classic, &phases[..1]).is_none());
    }
}
