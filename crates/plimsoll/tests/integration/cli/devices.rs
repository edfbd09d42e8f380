// SPDX-License-Identifier: Apache-2.0
//! Block devices as targets: nothing is destroyed without being told so.

use crate::support::{Lab, Loop, program, skipped, text};

#[test]
fn a_device_is_written_only_with_consent_and_twice_named_when_it_holds_something() {
    let lab = Lab::new();
    let image = lab.path("image");
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(64 << 20).unwrap();
    let Some(device) = Loop::over(image.to_str().unwrap()) else {
        return skipped(
            "a block device as a target",
            "no loop device can be made here",
        );
    };
    let device = device.path();
    let again = format!("--destroy={device}");
    let run = |consent: &[&str], folder: &str| {
        let mut args = vec!["run", "randwrite,size=16MiB", device, "--for", "200ms"];
        args.extend(["--warmup", "0s", "-o", folder]);
        args.extend(consent);
        let output = lab.run(&args);
        (output.status.code(), text(&output.stderr))
    };
    let (code, error) = run(&[], "r1");
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--destroy"), "{error}");
    assert!(is_zero(&image), "nothing was written");
    let (code, error) = run(&["--destroy"], "r2");
    assert_eq!(code, Some(0), "{error}");
    assert!(!is_zero(&image), "the writes arrived");
    let (code, error) = run(&["--destroy", "--check-data", "always"], "verified");
    assert_eq!(code, Some(0), "{error}");
    let check = &lab.json(&["report", "verified", "--json"])["trials"][0]["data_check"];
    assert!(check["written"].as_u64() > Some(0), "{check}");
    assert!(check["checked"].as_u64() > Some(0), "{check}");
    assert_eq!(check["errors"], 0, "{check}");
    if program("mkfs.ext4", &["-q", "-F", device]).is_none() {
        return skipped("a device with a file system", "mkfs.ext4 is missing");
    }
    let (code, error) = run(&["--destroy"], "r3");
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("ext4") && error.contains(&again), "{error}");
    let (code, error) = run(&[&again], "r4");
    assert_eq!(code, Some(0), "{error}");
    let output = lab.run(&["run", "varmail", device, &again]);
    assert!(
        text(&output.stderr).contains("directory"),
        "{}",
        text(&output.stderr)
    );
}

fn is_zero(path: &std::path::Path) -> bool {
    let bytes = std::fs::read(path).expect("the image is readable");
    bytes.iter().all(|byte| *byte == 0)
}
