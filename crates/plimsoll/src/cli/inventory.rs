// SPDX-License-Identifier: Apache-2.0
//! Inventory files: the machines a stack is spread over, as their user writes them.
//!
//! Manual: `docs/stacks/inventory.md`, whose example is a test here.

use plimsoll_console::failure::CliError;
use plimsoll_core::plan::{HERE, InventoryFile, InventoryNode, NodeTransport, PlanNode};
use plimsoll_lab::stacks::NodeInventory;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

/// Largest file that is read; a hundred machines take some ten kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// Options of ssh besides the host. ssh checks host keys always, and they must be known, regardless of the
/// user's configuration. It never prompts. It notices a dead connection within a quarter of a minute. It
/// opens no port and forwards nothing: no ports, no keys of an agent, no display, no ticket. It does not
/// share a connection of the user.
const SSH_OPTIONS: [&str; 14] = [
    "StrictHostKeyChecking=yes",
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ForwardX11Trusted=no",
    "GSSAPIDelegateCredentials=no",
    "Tunnel=no",
    "ControlMaster=no",
    "ControlPath=none",
    "PermitLocalCommand=no",
];

/// Reads an inventory file.
pub(super) fn read(path: &Path) -> Result<NodeInventory, CliError> {
    let wrong = |error: &dyn Display| {
        CliError::usage(format!("read inventory {}: {error}", path.display()))
            .hint("docs/stacks/inventory.md describes the file")
    };
    let size = std::fs::metadata(path)
        .map_err(|error| wrong(&error))?
        .len();
    if size > MAX_BYTES {
        return Err(wrong(&format!(
            "it has {size} bytes, more than any inventory"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(&text, folder, &path.display().to_string()).map_err(|error| wrong(&error))
}

fn parse(text: &str, folder: &Path, shown: &str) -> Result<NodeInventory, String> {
    let file: InventoryFile = toml::from_str(text).map_err(|error| error.to_string())?;
    if file.node.is_empty() {
        return Err("it names no machine: begin each with a line [[node]]".into());
    }
    let mut names = BTreeSet::new();
    let mut machines = Vec::new();
    for (n, entry) in file.node.iter().enumerate() {
        check_name(n, &entry.name)?;
        if !names.insert(entry.name.as_str()) {
            return Err(format!("two nodes are named {}", entry.name));
        }
        let of_node = |error: String| format!("node {}: {error}", entry.name);
        check_address(&entry.address).map_err(of_node)?;
        let config = file.ssh_config.as_deref().map(|name| folder.join(name));
        machines.push(PlanNode {
            name: entry.name.clone(),
            reach: NodeTransport::Agent(reach(entry, config.as_deref()).map_err(of_node)?),
            address: entry.address.clone(),
            dir: checked_dir(&entry.dir).map_err(of_node)?,
            free_bytes: 0,
            direct_align_bytes: 0,
            first_port: 0,
            power: entry.power.clone(),
            fence: checked_fence("fence", &entry.fence).map_err(of_node)?,
            fence_next: checked_next(entry).map_err(of_node)?,
            faults: entry.faults.clone(),
        });
    }
    if let Some(address) = &file.address {
        check_address(address)?;
        if file.apart {
            return Err(
                "it says where the nodes reach this machine (address) and that they do not \
                        (apart): leave one out"
                    .into(),
            );
        }
    }
    Ok(NodeInventory {
        file: shown.into(),
        address: file.address,
        is_apart: file.apart,
        machines,
    })
}

/// The words go through files of others, where blanks part them and quotes end them.
fn checked_fence(key: &str, words: &[String]) -> Result<Vec<String>, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@=:,".contains(c);
    match words.iter().find(|word| !word.chars().all(is_plain)) {
        None => Ok(words.to_vec()),
        Some(word) => Err(format!(
            "the word '{word}' of {key} may have only letters, digits and / . _ - + @ = : ,; put the \
             rest into a script and name that"
        )),
    }
}

fn checked_next(entry: &InventoryNode) -> Result<Vec<String>, String> {
    if entry.fence.is_empty() && !entry.fence_next.is_empty() {
        return Err("fence_next needs fence: it is tried when fence fails".into());
    }
    checked_fence("fence_next", &entry.fence_next)
}

fn check_name(n: usize, name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.is_empty() || name.len() > 20 || !name.chars().all(is_plain) {
        return Err(format!(
            "invalid name '{name}' of node {}: expected 1 to 20 lower-case letters and digits",
            n + 1
        ));
    }
    if name == HERE {
        return Err(format!(
            "'{HERE}' is this machine; give node {} another name",
            n + 1
        ));
    }
    Ok(())
}

fn check_address(address: &str) -> Result<(), String> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || ".:-".contains(c);
    if address.is_empty() || address.starts_with('-') || !address.chars().all(is_safe) {
        return Err(format!(
            "invalid address '{address}': expected one such as 10.0.0.2"
        ));
    }
    Ok(())
}

/// Checks a directory, which becomes part of option lists, addresses and shell commands unquoted.
fn checked_dir(dir: &str) -> Result<String, String> {
    let dir = dir.trim_end_matches('/');
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    let climbs = dir.split('/').any(|part| part == "..");
    if dir.starts_with('/') && dir.chars().all(is_safe) && !climbs {
        return Ok(dir.into());
    }
    Err(format!(
        "invalid dir '{dir}': it must be absolute, without '..', of letters, digits and /._-+@ only"
    ))
}

/// The command that gives a shell on a node.
fn reach(entry: &InventoryNode, config: Option<&Path>) -> Result<Vec<String>, String> {
    match (&entry.ssh, &entry.command) {
        (Some(host), None) => ssh(host, config),
        (None, Some(command)) => {
            if command.first().is_none_or(String::is_empty) {
                return Err("its command is empty".into());
            }
            Ok(command.clone())
        }
        (Some(_), Some(_)) => Err("it has both ssh and command; leave one out".into()),
        (None, None) => Err(
            "it lacks connection settings: ssh = \"user@host\", or command = [\"docker\", \
             \"exec\", \"-i\", \"box\"]"
                .into(),
        ),
    }
}

fn ssh(host: &str, config: Option<&Path>) -> Result<Vec<String>, String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    if host.is_empty() || host.starts_with('-') || host.contains(is_odd) {
        return Err(format!(
            "ssh '{host}' is not a host; options such as Port and IdentityFile go into the ssh \
             configuration (ssh_config = \"FILE\" names one)"
        ));
    }
    let mut words = vec!["ssh".to_owned(), "-T".into()];
    if let Some(config) = config {
        let config = std::path::absolute(config).map_err(|error| error.to_string())?;
        words.push("-F".into());
        words.push(config.to_string_lossy().into_owned());
    }
    for option in SSH_OPTIONS {
        words.push("-o".into());
        words.push(option.into());
    }
    words.push("--".into());
    words.push(host.into());
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_inventories() {
        let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/labs");
        let mut count = 0;
        for entry in std::fs::read_dir(labs).unwrap() {
            let path = entry.unwrap().path();
            assert!(read(&path).is_ok(), "{}", path.display());
            count += 1;
        }
        assert!(count > 0);
    }

    /// Options that ssh resolves from ours where the user's configuration forwards all it can.
    #[test]
    fn nothing_is_forwarded_whatever_the_configuration_of_ssh_says() {
        let place = tempfile::tempdir().unwrap();
        let config = place.path().join("config");
        let text = "Host *\n  ForwardAgent yes\n  ForwardX11 yes\n  ForwardX11Trusted yes\n  Tunnel yes\n  \
            GSSAPIDelegateCredentials yes\n  ControlMaster auto\n  ControlPath /tmp/%C\n  LocalForward 1 a:1\n";
        std::fs::write(&config, text).unwrap();
        let mut words = vec!["-G", "-F", config.to_str().unwrap()];
        for option in SSH_OPTIONS {
            words.extend(["-o", option]);
        }
        words.push("host.invalid");
        let minute = std::time::Duration::from_secs(60);
        let Ok(said) = plimsoll_console::context::host().output("ssh", &words, minute) else {
            println!("SKIPPED: ssh is missing");
            return;
        };
        let value = |key: &str| {
            let found = said.lines().find_map(|line| line.strip_prefix(key));
            found.unwrap_or("absent").trim().to_owned()
        };
        for key in [
            "forwardagent ",
            "forwardx11 ",
            "forwardx11trusted ",
            "controlmaster ",
        ] {
            assert!(
                ["no", "false"].contains(&&*value(key)),
                "{key}{}",
                value(key)
            );
        }
        assert!(["no", "false"].contains(&&*value("tunnel ")), "{said}");
        assert!(
            ["none", "absent"].contains(&&*value("controlpath ")),
            "{said}"
        );
        assert_eq!(value("clearallforwardings "), "yes");
    }

    fn parsed(text: &str) -> Result<NodeInventory, String> {
        parse(text, Path::new("/lab"), "lab.toml")
    }

    /// The examples of a page in this language, in the order in which they stand there.
    fn examples(page: &str, language: &str) -> Vec<String> {
        let begin = format!("```{language}\n");
        let mut parts = page.split(&begin).skip(1);
        let mut all = Vec::new();
        while let Some((example, _)) = parts.next().and_then(|part| part.split_once("```")) {
            all.push(example.to_owned());
        }
        all
    }

    #[test]
    fn the_examples_of_the_manual_are_understood() {
        let page = include_str!("../../../../docs/stacks/inventory.md");
        let examples = examples(page, "toml");
        assert!(examples.len() >= 2, "{examples:?}");
        for example in &examples {
            parsed(example).unwrap();
        }
        let first = parsed(&examples[0]).unwrap();
        let names: Vec<&str> = first.machines.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "box"]);
        assert_eq!(first.machines[0].dir, plimsoll_core::plan::NODE_DIR);
        let reach = ["docker", "exec", "-i", "box"].map(String::from).to_vec();
        assert_eq!(first.machines[2].reach, NodeTransport::Agent(reach));
    }

    #[test]
    fn the_examples_of_load_from_nodes_are_understood() {
        use clap::Parser as _;
        let page = include_str!("../../../../docs/stacks/load.md");
        let inventory = parsed(&examples(page, "toml")[0]).unwrap();
        let commands = examples(page, "sh").concat();
        assert!(commands.lines().count() >= 4, "{commands}");
        for line in commands.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            super::super::Cli::try_parse_from(&words).unwrap();
            let clients = words.iter().position(|word| *word == "--clients").unwrap();
            let names: Vec<String> = words[clients + 1].split(',').map(Into::into).collect();
            assert_eq!(inventory.nodes(&names).unwrap().len(), 2, "{line}");
        }
    }

    #[test]
    fn ssh_always_checks_host_keys_and_takes_the_named_configuration() {
        let text = "ssh_config = \"keys.conf\"\n[[node]]\nname = \"n1\"\nssh = \"root@a\"\naddress = \"10.0.0.2\"\n";
        let inventory = parsed(text).unwrap();
        let NodeTransport::Agent(words) = &inventory.machines[0].reach else {
            panic!("it is reached by a command");
        };
        let reach = words.join(" ");
        assert!(
            reach.starts_with(
                "ssh -T -F /lab/keys.conf -o StrictHostKeyChecking=yes -o BatchMode=yes"
            )
        );
        assert!(reach.ends_with(" -- root@a"), "{reach}");
        assert!(!reach.contains("Checking=no"), "{reach}");
    }

    #[test]
    fn each_mistake_has_one_error_that_names_it() {
        let node = |rest: &str| format!("[[node]]\nname = \"n1\"\naddress = \"10.0.0.2\"\n{rest}");
        let good = node("ssh = \"a\"\n");
        parsed(&good).unwrap();
        for (text, expect) in [
            (String::new(), "names no machine"),
            (good.replace("n1", "N1"), "lower-case"),
            (good.replace("n1", "here"), "is this machine"),
            (format!("{good}{good}"), "two nodes are named n1"),
            (good.replace("10.0.0.2", "a b"), "invalid address"),
            (good.replace("10.0.0.2", ""), "invalid address"),
            (good.replace("ssh", "shh"), "unknown field `shh`"),
            (
                good.replace("\"a\"", "\"-oProxyCommand=x\""),
                "is not a host",
            ),
            (good.replace("\"a\"", "\"a -p 22\""), "is not a host"),
            (node(""), "lacks connection settings"),
            (node("ssh = \"a\"\ncommand = [\"x\"]\n"), "both"),
            (node("command = []\n"), "command is empty"),
            (node("ssh = \"a\"\ndir = \"x\"\n"), "must be absolute"),
            (node("ssh = \"a\"\ndir = \"/a b\"\n"), "must be absolute"),
            (node("ssh = \"a\"\ndir = \"/a/../b\"\n"), "must be absolute"),
            (format!("address = \"?\"\n{good}"), "invalid address"),
        ] {
            let error = parsed(&text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        }
    }
}
