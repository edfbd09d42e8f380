// SPDX-License-Identifier: Apache-2.0
//! Readers of foreign text against texts that are nearly right: pieces cut, doubled, swapped, and
//! numbers replaced by extreme ones. They must give a result or an error; a panic fails the test.

use plimsoll_classics::fio;
use plimsoll_classics::originals::{ProgramOutputFormat, read};
use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

const JOBS: &str = "[global]\nsize=64m\nbs=4k\ndirect=1\nruntime=5\n[a]\nrw=randrw:8\nrwmixread=70\n\
    bssplit=4k/60:64k/40,8k/100\nnumjobs=4\nfilename=f\noffset_increment=64m\niodepth=8\n\
    ioengine=libaio\n[b]\nstonewall\nrw=randread\nrandom_distribution=zoned:90/10:10/90\n\
    rate_iops=100\nrate_process=poisson\n[c]\nwait_for=b\nrw=write\nio_size=1m\nloops=3\nfsync=8\n\
    thinktime=5\nthinktime_blocks=2\nstartdelay=1s\n[d]\nstonewall\nrw=randrw\nrate=1m,2m\n";
const LOG: &str = "fio version 3 iolog\n1 /x add\n2 /x read 0 4096\n9 /x write 8192 512\n";
const OLD_LOG: &str = "fio version 2 iolog\n/x open\n/x wait 200 0\n/x read 0 4096\n/x sync 0 0\n";
const OUTPUTS: [&str; 8] = [
    "{\"fio version\": \"fio-3.33\", \"jobs\": [{\"jobname\": \"x\", \"error\": 0, \"job_runtime\": 1000,\
     \"usr_cpu\": 10.5, \"read\": {\"total_ios\": 3, \"io_bytes\": 12288, \"iops\": 3.0, \"runtime\": 1000,\
     \"lat_ns\": {\"N\": 3}, \"clat_ns\": {\"min\": 1000, \"max\": 5000, \"mean\": 2500.0, \"N\": 3,\
     \"bins\": {\"1000\": 1, \"5000\": 2}}}}]}",
    "1.98,2.00a,vm,1,42,64M,,8192,5,100,9,2048,50,1024,40,300,8,4096,60,512.5,7,16,,,,,1000,20,,,3000,\
     30,,,5000,50,6000,60,1us,2us,3us,4us,5us,6us,7us,8us,9us,10us,11us,12us\n",
    "\tChildren see throughput for  2 readers \t=  1024.00 kB/sec\n\tParent sees throughput for 2 readers = 5 MB/sec\n",
    "closefile4 1200ops 20ops/s 0.0mb/s 0.0ms/op\n61.0: IO Summary: 1800 ops 30.000 ops/s 7.6mb/s\n",
    "total_size 1048576K rsz 1024 crg 4 thr 8 write 128.00 MB/s 4 x 30.00 = 120.00 MB/s read 256.00 MB/s\n",
    "ISO date,threads,operation,time ms [last],entries/s [last],IOPS [last],MiB/s [last],MiB [last],\
     IO lat us [min],IO lat us [avg],IO lat us [max],command\n\
     2026-01-02T03:04:05+0000,4,WRITE,1500,10,4000,15,23,70,900,12000,\"elbencho\" \"-w\"\n",
    "idx\tthread\top\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n\
     0\t0\tGET\t1\t4096\th\tf\t\t2020-02-06T10:00:00Z\t\t2020-02-06T10:00:01Z\t1000000000\n\
     1\t1\tDELETE\t1\t0\th\tf\tgone\t2020-02-06T10:00:01Z\t\t2020-02-06T10:00:02Z\t1000000\n",
    "IO500 version io500-sc22 (standard)\n\
     [RESULT]       ior-easy-write        1.250000 GiB/s : time 301.500 seconds\n\
     [RESULT]    mdtest-easy-write       12.500000 kIOPS : time 300.100 seconds [INVALID]\n\
     [SCORE ] Bandwidth 1.250000 GiB/s : IOPS 12.500000 kiops : TOTAL 3.952847 [INVALID]\n",
];
const EXTREMES: [&str; 12] = [
    "0",
    "-1",
    "1",
    "18446744073709551615",
    "99999999999999999999",
    "1e308",
    "NaN",
    "inf",
    "0.0001",
    "4294967296",
    "",
    "\u{fffd}µ",
];

fn mangle(text: &str, rng: &mut Rng) -> String {
    // Words with what lies between them, so that most of the text stays meaningful.
    let mut words: Vec<&str> = text
        .split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .collect();
    for _ in 0..=rng.below(3) {
        if words.is_empty() {
            break;
        }
        let at = to_usize(rng.below(words.len() as u64));
        let other = to_usize(rng.below(words.len() as u64));
        match rng.below(5) {
            0 => words.truncate(at),
            1 => words.swap(at, other),
            2 => words.insert(at, words[other]),
            3 => drop(words.remove(at)),
            _ => {
                words[at] = EXTREMES[to_usize(rng.below(EXTREMES.len() as u64))];
                words.insert(at + 1, if text.contains("iolog") { " " } else { "" });
            }
        }
    }
    words.concat()
}

/// An extreme number in the place of one, with what followed it.
fn replaced(text: &str, rng: &mut Rng) -> String {
    let digit = |c: char| c.is_ascii_digit();
    let starts: Vec<usize> = text.match_indices(digit).map(|(at, _)| at).collect();
    let at = starts[to_usize(rng.below(starts.len() as u64))];
    let end = text[at..]
        .find(|c: char| !digit(c))
        .map_or(text.len(), |length| at + length);
    let extreme = EXTREMES[to_usize(rng.below(EXTREMES.len() as u64))];
    format!("{}{extreme}{}", &text[..at], &text[end..])
}

fn each(text: &str, check: impl Fn(&str)) {
    let mut rng = Rng::new(Seed(11));
    for _ in 0..20_000 {
        check(&mangle(text, &mut rng));
        check(&replaced(text, &mut rng));
    }
}

#[test]
fn jobs_and_logs_give_workloads_or_errors() {
    each(JOBS, |text| {
        if let Ok(job) = fio::job("mangled", text) {
            let _ = fio::export(&job.workload, Nanos::SECOND);
            let _ = job.workload.data_set_bytes();
        }
    });
    for log in [LOG, OLD_LOG] {
        each(log, |text| {
            let _ = fio::read_log("mangled", text);
        });
    }
    assert!(fio::job("whole", JOBS).is_ok() && fio::read_log("whole", LOG).is_ok());
}

#[test]
fn outputs_give_results_or_errors() {
    for (text, format) in OUTPUTS.iter().zip(ProgramOutputFormat::ALL) {
        assert_eq!(ProgramOutputFormat::guess(text), Some(format));
        assert!(read(format, text).is_ok(), "{text}");
        each(text, |text| {
            for reading in read(format, text).into_iter().flatten() {
                assert!(
                    reading.phases.iter().all(|phase| phase.value.is_finite()),
                    "{text}"
                );
            }
        });
    }
}
