// SPDX-License-Identifier: Apache-2.0
//! Labels of arms and names of their directories.

use plimsoll_lab::attach::RemoteDiskAddress;

/// The last part of a path where no other target has the same, else all of it.
pub(super) fn short_name(text: &str, given: &[String]) -> String {
    let last = |text: &str| {
        if RemoteDiskAddress::is_meant(text) {
            return disk_name(text);
        }
        // Behind the question mark of an address stands how, not where.
        let path = text.split_once('?').filter(|_| text.contains("://"));
        let trimmed = path.map_or(text, |(path, _)| path).trim_end_matches('/');
        trimmed.rsplit('/').next().unwrap_or(trimmed).to_owned()
    };
    let short = last(text);
    let clash = given
        .iter()
        .any(|other| other != text && last(other) == short);
    if clash || short.is_empty() || short == "." {
        text.to_owned()
    } else {
        short
    }
}

/// The address of a disk without how it is reached and by whom: a number alone says nothing.
fn disk_name(text: &str) -> String {
    let path = text.split_once('?').map_or(text, |(path, _)| path);
    let place = path.split_once("://").map_or(path, |(_, place)| place);
    let place = place.split_once('@').map_or(place, |(_, place)| place);
    place.trim_matches('/').to_owned()
}

/// `wanted`, or with the first number behind it that is not taken.
pub(super) fn free_name(wanted: &str, taken: &[&str]) -> String {
    if !taken.contains(&wanted) {
        return wanted.to_owned();
    }
    let numbered = (2..)
        .map(|n| format!("{wanted} ({n})"))
        .find(|name| !taken.contains(&name.as_str()));
    numbered.expect("there are more numbers than targets")
}

/// Name of the directory that the arm at `place` works in.
pub(super) fn directory_name(id: &str, place: usize, arm: &str) -> String {
    let safe: String = arm
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    format!("plimsoll-{id}-{}-{}", place + 1, safe.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_unless_two_targets_would_share_one() {
        let given =
            |list: &[&str]| -> Vec<String> { list.iter().map(|s| (*s).to_owned()).collect() };
        for (targets, expect) in [
            (given(&["/mnt/a", "/mnt/b/"]), ["a", "b"]),
            (
                given(&[
                    "iscsi://u@h/iqn.a/1?secret_file=/s",
                    "nbd+unix:///?socket=/s",
                ]),
                ["h/iqn.a/1", "nbd+unix:///?socket=/s"],
            ),
            (given(&["/x/data", "/y/data"]), ["/x/data", "/y/data"]),
        ] {
            let names: Vec<String> = targets.iter().map(|t| short_name(t, &targets)).collect();
            assert_eq!(names, expect);
        }
    }

    #[test]
    fn a_label_is_taken_once() {
        assert_eq!(free_name("a", &["b"]), "a");
        assert_eq!(free_name("a", &["a", "a (2)"]), "a (3)");
        assert_ne!(directory_name("i", 0, "a b"), directory_name("i", 1, "a-b"));
    }
}
