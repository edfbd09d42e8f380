// SPDX-License-Identifier: Apache-2.0
//! Texts against the personalities of the same name, and texts that are refused.

use super::*;
use plimsoll_core::workload::files::{FileLoopOpenMode, FileOp, FileTreeLayout};

/// A loop without its name and without what its operations do not use: places of files where none
/// is open, sets where the open file says which.
fn loop_of(workload: Workload) -> FileLoop {
    let Workload::Files(mut files) = workload else {
        panic!("{workload:?}");
    };
    files.name = String::new();
    for op in files.groups.iter_mut().flat_map(|group| &mut group.ops) {
        let opens = matches!(op.op, FileOp::Create | FileOp::Open);
        if !opens && !op.op.needs_open() {
            op.fd = 0;
        }
        if !op.op.is_operation() || op.op.needs_open() && op.opened == FileLoopOpenMode::Listed {
            op.set = 0;
        }
    }
    files
}

fn known(name: &str) -> FileLoop {
    loop_of(crate::workload(name, &[]).unwrap())
}

const VARMAIL: &str = "\
set $dir=/tmp        # anywhere
set $nfiles=1000
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $append=16k
set mode quit timeout
define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=1000000,prealloc=80
define process name=filereader,instances=1
{
  thread name=filereaderthread,memsize=10m,instances=16
  {
    flowop deletefile name=a,filesetname=bigfileset
    flowop createfile name=b,filesetname=bigfileset,fd=1
    flowop appendfilerand name=c,iosize=$append,fd=1
    flowop fsync name=d,fd=1
    flowop closefile name=e,fd=1
    flowop openfile name=f,filesetname=bigfileset,fd=1
    flowop readwholefile name=g,fd=1,iosize=1m
    flowop appendfilerand name=h,iosize=$append,fd=1
    flowop fsync name=i,fd=1
    flowop closefile name=j,fd=1
    flowop openfile name=k,filesetname=bigfileset,fd=1
    flowop readwholefile name=l,fd=1,iosize=1m
    flowop closefile name=m,fd=1
  }
}
echo \"loaded\"
usage \"set \\$dir=<dir>
  and more\"
run 60
";

#[test]
fn the_text_of_varmail_is_the_personality() {
    let script = parse(VARMAIL).unwrap();
    assert_eq!(script.length, Some(Nanos(60_000_000_000)));
    assert_eq!(loop_of(script.workload), known("varmail"));
}

#[test]
fn the_text_of_a_file_read_at_random_is_the_personality() {
    let text = "set $directio=0\n\
        define file name=largefile1,path=/tmp,size=5g,prealloc,reuse,paralloc\n\
        define process name=p { thread name=rand-thread,memsize=5m,instances=1 {\n\
        flowop read name=r,filename=largefile1,iosize=8k,random,workingset=0,directio=$directio\n} }";
    let script = parse(text).unwrap();
    assert_eq!(script.length, None);
    assert_eq!(loop_of(script.workload), known("randomread"));
}

#[test]
fn the_text_of_a_database_is_the_personality() {
    let text = "set $eventrate=0 set $iosize=2k set $direct=0 set $ws=0\n\
        eventgen rate = $eventrate\n\
        define fileset name=datafiles,path=/d,size=10m,entries=10,dirwidth=1024,prealloc=100,reuse\n\
        define fileset name=logfile,path=/d,size=10m,entries=1,dirwidth=1024,prealloc=100,reuse\n\
        define process name=a,instances=1 { thread name=lgwr,memsize=1m,useism {\n\
        flowop aiowrite name=w,filesetname=logfile,\n\
          iosize=256k,random,directio=$direct,dsync\n\
        flowop aiowait name=x\n\
        flowop semblock name=to-log,value=3200,highwater=1000 } }\n\
        define process name=b,instances=10 { thread name=dbwr,memsize=1m,useism {\n\
        flowop aiowrite name=w,filesetname=datafiles,iosize=$iosize,workingset=$ws,random,iters=100,\n\
          opennext,directio=$direct,dsync\n\
        flowop hog name=h,value=10000\n\
        flowop semblock name=to-tables,value=1000,highwater=2000\n\
        flowop aiowait name=x } }\n\
        define process name=c,instances=200 { thread name=shadow,memsize=1m,useism {\n\
        flowop read name=r,filesetname=datafiles,iosize=$iosize,workingset=$ws,random,opennext,directio=$direct\n\
        flowop hog name=h,value=200000\n\
        flowop sempost name=p,value=1,target=to-log,blocking\n\
        flowop sempost name=q,value=1,target=to-tables,blocking\n\
        flowop eventlimit name=l } }\n";
    let script = parse(text).unwrap();
    assert_eq!(loop_of(script.workload), known("oltp"));
}

#[test]
fn the_text_of_a_video_server_is_the_personality() {
    let text = "set $size=10g set $reuse=false set $active=activevids\n\
        eventgen rate=96\n\
        define fileset name=$active,path=/d,size=$size,entries=32,dirwidth=4,prealloc,paralloc,reuse=$reuse\n\
        define fileset name=passivevids,path=/d,size=$size,entries=194,dirwidth=20,prealloc=50,paralloc\n\
        define process name=a { thread name=vidwriter,memsize=10m {\n\
        flowop deletefile name=d,filesetname=passivevids\n\
        flowop createfile name=c,filesetname=passivevids,fd=1\n\
        flowop writewholefile name=w,iosize=1m,fd=1,srcfd=1\n\
        flowop closefile name=x, fd=1\n\
        flowop delay name=y, value=10 } }\n\
        define process name=b { thread name=vidreaders,memsize=10m,instances=48 {\n\
        flowop read name=r,filesetname=$active,iosize=256k\n\
        flowop bwlimit name=l, target=r } }";
    let script = parse(text).unwrap();
    assert_eq!(loop_of(script.workload), known("videoserver"));
}

#[test]
fn variables_in_definitions_have_the_value_of_the_run() {
    let text = "set $nfiles=100 set $size=4k set $threads=1 set $rate=5\n\
        define fileset name=s,entries=$nfiles,size=$size,dirwidth=20,prealloc\n\
        eventgen rate=$rate\n\
        define process name=p { thread name=t,instances=$threads {\n\
          flowop read name=r,filesetname=s,iosize=$io } }\n\
        set $nfiles=50 set $size=64k set $threads=3 set $io=8k set $rate=7\n\
        run 1\n\
        set $nfiles=7\n";
    let files = loop_of(parse(text).unwrap().workload);
    let set = &files.sets[0];
    assert_eq!((set.entries, set.mean_bytes), (50, 65_536));
    assert_eq!(
        (files.groups[0].threads, files.events_per_s),
        (3, Some(7.0))
    );
    let bytes = 8_192;
    let random = false;
    assert_eq!(files.groups[0].ops[0].op, FileOp::Read { bytes, random });
    // Without a run the end of the text is that moment, and so it is for what is never set.
    let shipped = text.replace("run 1", "");
    assert_eq!(
        loop_of(parse(&shipped).unwrap().workload).sets[0].entries,
        7
    );
    let error = parse(&text.replace("set $io=8k", ""))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line 5: the variable $io has no value"),
        "{error}"
    );
    // A value that is set from another one has that of its own moment.
    let copied = text.replace("set $threads=3", "set $threads=$nfiles set $nfiles=9");
    let files = loop_of(parse(&copied).unwrap().workload);
    assert_eq!((files.groups[0].threads, files.sets[0].entries), (50, 9));
}

/// A text of one set and one thread.
fn small(set: &str, flowops: &str) -> WmlScript {
    let text = format!(
        "define fileset name=s,path=/a,entries=200{set}\n\
         define process name=p {{ thread name=t {{\n{flowops} }} }}"
    );
    parse(&text).unwrap()
}

const STAT: &str = "flowop statfile name=s,filesetname=s";

#[test]
fn without_a_width_each_file_has_a_directory_of_its_own() {
    for (set, expect) in [
        ("", FileTreeLayout::Even(200)),
        (",dirwidth=0", FileTreeLayout::Even(200)),
        (
            ",dirwidth=20",
            crate::filebench::personalities::random_tree(20.0),
        ),
    ] {
        let files = loop_of(small(set, STAT).workload);
        assert_eq!(files.sets[0].tree, expect, "{set}");
        assert_eq!(
            files.sets[0].mean_bytes, 1024,
            "the size that filebench takes"
        );
    }
}

#[test]
fn a_text_may_end_the_run_by_itself() {
    for (mode, expect) in [
        ("timeout", FileLoopNoFilePolicy::Fail),
        ("firstdone", FileLoopNoFilePolicy::EndRun),
        ("alldone", FileLoopNoFilePolicy::EndThread),
    ] {
        let text = format!("set mode quit {mode} {VARMAIL}").replace("set mode quit timeout\n", "");
        let files = loop_of(parse(&text).unwrap().workload);
        assert_eq!(files.without_file, expect);
    }
    let flowops = "flowop finishonbytes name=b,value=1m\n\
        flowop hog name=h,value=5\n\
        flowop statfile name=look,filesetname=s\n\
        flowop finishoncount name=f,value=3,target=look";
    let files = loop_of(small("", flowops).workload);
    let end = |amount, in_bytes, of| FileOp::EndAfter {
        amount,
        in_bytes,
        of,
    };
    let ops: Vec<FileOp> = files.groups[0].ops.iter().map(|op| op.op).collect();
    let expect = [
        end(1 << 20, true, None),
        FileOp::Stat,
        end(3, false, Some(1)),
    ];
    assert_eq!(ops, expect);
    let several = format!(
        "define fileset name=s,entries=5\ndefine process name=p,instances=2 {{ thread name=t {{\n{STAT}\nflowop finishoncount name=f,value=3 }} }}"
    );
    let error = parse(&several).unwrap_err().to_string();
    assert!(
        error.contains("line 4") && error.contains("'target'"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_the_same_is_told() {
    let has = |script: &WmlScript, part: &str| script.notes.iter().any(|note| note.contains(part));
    let plain = small("", STAT);
    assert!(
        has(&plain, "page cache") && plain.notes.len() == 1,
        "{:?}",
        plain.notes
    );
    assert!(has(&small(",cached", STAT), "'cached' has no effect"));
    let gamma = "set $x=cvar(type=cvar-gamma,parameters=mean:16k;gamma:1.5)\n";
    let mean = parse(&format!("{gamma}{VARMAIL}")).unwrap();
    assert!(
        has(&mean, "mean:16k is 16384 bytes here"),
        "{:?}",
        mean.notes
    );
    assert!(!has(&parse(VARMAIL).unwrap(), "mean:"));
    let two = format!("define fileset name=log,path=/b,entries=5\n{VARMAIL}");
    assert!(has(&parse(&two).unwrap(), "('/b', '/tmp')"));
    for (flowop, part) in [
        ("flowop hog name=h,value=5", "computing"),
        ("flowop aiowrite name=a,filesetname=s,iosize=4k", "up to 20"),
        (
            "flowop read name=a,filesetname=s,iosize=4k,opennext",
            "128 descriptors",
        ),
    ] {
        assert!(
            has(&small("", &format!("{STAT}\n{flowop}")), part),
            "{flowop}"
        );
    }
    // The personalities tell the same of themselves.
    for (name, parts) in [
        ("varmail", &["page cache"][..]),
        ("oltp", &["hog", "up to 20", "128"]),
    ] {
        let notes = crate::notes(&crate::workload(name, &[]).unwrap()).concat();
        assert!(
            parts.iter().all(|part| notes.contains(part)),
            "{name}: {notes}"
        );
    }
}

#[test]
fn what_is_not_understood_is_named_with_its_line() {
    let thread = |flowop: &str| {
        format!(
            "define fileset name=s,size=4k,entries=5,prealloc\n\
             define process name=p {{\n thread name=t {{\n  {flowop}\n }} }}"
        )
    };
    for (text, expect) in [
        ("frobnicate 5", "line 1: the command 'frobnicate'"),
        ("\n\nset $a=$b", "line 3: the variable $b has no value"),
        ("set mode quit never", "'set mode quit never'"),
        ("create filesets", "'create filesets' is not known"),
        ("set $a", "expected '='"),
        ("set $=5", "name of a variable"),
        ("echo \"open", "a quote is not closed"),
        ("system \"rm -rf /\"", "'system' is not supported"),
        ("define flowop name=x", "'define flowop'"),
        (
            "define fileset name=s,entries=4,size=big run 5",
            "'size' needs",
        ),
        ("define fileset name=s,size=4k", "needs 'entries'"),
        ("define fileset name=s,size=4k,entries=0.5", "whole number"),
        ("define fileset name=s,leafdirs=3", "'leafdirs'"),
        ("set $x=cvar(type=cvar-normal)", "cvar cvar-normal"),
        (
            "set $x=cvar(type=cvar-gamma,parameters=mean:1)",
            "gamma:SHAPE",
        ),
        ("run 0", "has no end"),
        ("run 5 run 6", "a second 'run'"),
        ("set $a=5", "no process with a thread"),
        (
            "define process name=p { thread name=t {",
            "but the text ends",
        ),
        (&thread("flowop listdir name=l"), "line 4: flowop listdir"),
        (
            &thread("flowop read name=r,iosize=4k"),
            "needs 'filesetname'",
        ),
        (
            &thread("flowop read name=r,filesetname=x,iosize=4k"),
            "no file set 'x'",
        ),
        (&thread("flowop read name=r,filesetname=s"), "'iosize'"),
        (
            &thread("flowop finishoncount name=r,target=q"),
            "no flowop 'q' to count",
        ),
        (
            &thread("flowop statfile name=r,filesetname=s,iosize=4"),
            "'iosize'",
        ),
        (
            &thread("flowop sempost name=r,target=q,blocking"),
            "no semblock 'q'",
        ),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(expect), "{text}: {error}");
    }
    let error = parse(&" ".repeat(BYTES_MAX + 1)).unwrap_err().to_string();
    assert!(error.contains("longer"), "{error}");
}
