// SPDX-License-Identifier: Apache-2.0
//! The configuration of a SAN's cluster: the ring (corosync.conf(5), votequorum(5)) and what is kept on it
//! (the CIB of "Pacemaker Explained", schema 3.9).

use plimsoll_core::plan::PlanNode;
use plimsoll_core::settings::SettingValues;
use plimsoll_core::units::Nanos;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::super::PreconditionError;
use plimsoll_machine::host::network::fingerprint;

/// How long the side that does not run the array waits before it cuts the power of the one that does,
/// where two nodes have no third to ask: the other side may be quicker.
const TWO_NODE_DELAY_S: u32 = 3;

/// How many nodes have a disk.
pub(super) fn nodes(settings: &SettingValues) -> Result<u16, PreconditionError> {
    let (least, most) = match settings.text("raid") {
        "5" => (3, 8),
        _ => (2, 4),
    };
    let asked = settings.text("nodes");
    if asked == "0" {
        return Ok(least);
    }
    let count = settings.count_within("nodes", u32::from(least), most);
    let count = count.map_err(|error| {
        PreconditionError(vec![format!("RAID {}: {error}", settings.text("raid"))])
    })?;
    Ok(u16::try_from(count).unwrap_or(least))
}

/// Whether what is exported is the file system on the array, not the array.
pub(super) fn exports_files(settings: &SettingValues) -> bool {
    settings.text("export") == "nfs"
}

/// The silence after which a node counts as lost.
pub(super) fn token_ms(settings: &SettingValues) -> Result<u64, PreconditionError> {
    let asked = settings.time("token");
    let is_possible = (Nanos::SECOND.0..=60 * Nanos::SECOND.0).contains(&asked.0);
    match is_possible {
        true => Ok(asked.0 / 1_000_000),
        false => Err(PreconditionError(vec![format!(
            "invalid value '{}' for token: expected a time from 1s to 60s",
            settings.text("token")
        )])),
    }
}

/// The service address with its prefix. Networks of virtual machines have room above the machines'.
pub(super) fn service(
    settings: &SettingValues,
    servers: &[PlanNode],
) -> Result<String, PreconditionError> {
    let unmet = |text: String| Err(PreconditionError(vec![text]));
    let asked = settings.text("service");
    if asked.is_empty() {
        let first = servers.first().map_or("", |node| &node.address);
        return match first.rsplit_once('.') {
            Some((network, _)) if network.starts_with("10.92.") => Ok(format!("{network}.200/24")),
            _ => unmet(
                "the exported disk needs a free address in the nodes' network; name it: \
                 san(service=192.168.1.50/24)"
                    .into(),
            ),
        };
    }
    let Some((address, prefix)) = asked.split_once('/') else {
        return unmet(format!(
            "invalid value '{asked}' for service: expected a prefix length, as in {asked}/24"
        ));
    };
    let is_address = address.parse::<Ipv4Addr>().is_ok();
    let is_prefix = prefix
        .parse::<u8>()
        .is_ok_and(|length| (8..=30).contains(&length));
    if !is_address || !is_prefix {
        return unmet(format!(
            "invalid value '{asked}' for service: expected an IPv4 address with its \
             prefix, as in 192.168.1.50/24"
        ));
    }
    if servers.iter().any(|node| node.address == address) {
        return unmet(format!("service={asked} is the address of a node"));
    }
    Ok(asked.into())
}

/// Identity of the array, made from that of the journal.
pub(super) fn array_uuid(id: &str) -> String {
    let halves = [fingerprint(id), fingerprint(&format!("{id} array"))];
    let digits: String = halves.iter().map(|half| format!("{half:016x}")).collect();
    let parts: Vec<&str> = (0..4)
        .filter_map(|n| digits.get(8 * n..8 * n + 8))
        .collect();
    parts.join(":")
}

/// The ring: who is in it, and when a node counts as lost.
pub(super) fn ring(dir: &str, servers: &[PlanNode], token_ms: u64) -> String {
    let mut text = format!(
        "totem {{\n  version: 2\n  cluster_name: plimsoll\n  transport: knet\n  \
         crypto_cipher: aes256\n  crypto_hash: sha256\n  keyfile: {dir}/key\n  token: {token_ms}\n  \
         token_coefficient: 0\n}}\n\
         nodelist {{\n"
    );
    for (number, node) in (1..).zip(servers) {
        let (address, name) = (&node.address, &node.name);
        let _ = writeln!(
            text,
            "  node {{\n    ring0_addr: {address}\n    name: {name}\n    nodeid: {number}\n  }}"
        );
    }
    text += "}\nquorum {\n  provider: corosync_votequorum\n";
    if servers.len() == 2 {
        // One of two may go on alone, but only one that has seen the other since it started.
        text += "  two_node: 1\n  wait_for_all: 1\n";
    }
    let _ = write!(
        text,
        "}}\nlogging {{\n  to_stderr: no\n  to_syslog: no\n  to_logfile: yes\n  \
         logfile: {dir}/ring.log\n  timestamp: hires\n}}\n"
    );
    text
}

/// The parameters of the agent, in order.
pub(super) type SanResourceParameters = Vec<(&'static str, String)>;

/// The initial configuration of the cluster.
pub(super) fn cib(
    settings: &SettingValues,
    parameters: &SanResourceParameters,
    servers: &[PlanNode],
    with_disks: &[PlanNode],
) -> String {
    let is_preferred = settings.text("prefer") == "active";
    let delay_s = match servers {
        [_, _] if is_preferred => TWO_NODE_DELAY_S,
        _ => 0,
    };
    let chance_s = match servers {
        [_, _] if !is_preferred => 2 * TWO_NODE_DELAY_S,
        _ => 0,
    };
    let properties = pairs(
        "cluster",
        &[
            ("stonith-enabled", "true".into()),
            // A fenced node comes back after an operator has looked at it.
            ("stonith-action", "off".into()),
            ("stonith-timeout", "60s".into()),
            ("no-quorum-policy", "stop".into()),
            ("priority-fencing-delay", format!("{delay_s}s")),
            ("dc-deadtime", "5s".into()),
            ("cluster-recheck-interval", "60s".into()),
            // On a machine of one slow processor a cluster manager thinks itself overloaded.
            ("load-threshold", "400%".into()),
            ("node-action-limit", "8".into()),
        ],
    );
    let addresses: Vec<&str> = servers.iter().map(|node| &*node.address).collect();
    let addresses = addresses.join(" ");
    let of_node = |node| fences(node, chance_s, &addresses);
    let fences: String = servers.iter().map(of_node).collect();
    let levels: String = servers.iter().map(levels).collect();
    let clone = pairs(
        "legs",
        &[
            ("promotable", "true".into()),
            ("promoted-max", "1".into()),
            ("clone-max", with_disks.len().to_string()),
            ("interleave", "true".into()),
            ("priority", "10".into()),
        ],
    );
    let own: Vec<(&str, String)> = parameters.clone();
    let agent = pairs("leg", &own);
    let defaults = pairs(
        "defaults",
        &[
            ("resource-stickiness", "100".into()),
            ("failure-timeout", "30s".into()),
        ],
    );
    let bans: String = servers[with_disks.len()..]
        .iter()
        .map(|node| ban(&node.name))
        .collect();
    format!(
        "<cib validate-with=\"pacemaker-3.9\" admin_epoch=\"1\" epoch=\"1\" num_updates=\"0\">\n\
         <configuration>\n<crm_config><cluster_property_set id=\"cluster\">{properties}\
         </cluster_property_set></crm_config>\n<nodes/>\n<resources>\n{fences}\
         <clone id=\"legs\"><meta_attributes id=\"legs-meta\">{clone}</meta_attributes>\n\
         <primitive id=\"leg\" class=\"ocf\" provider=\"plimsoll\" type=\"leg\">\
         <instance_attributes id=\"leg-parameters\">{agent}</instance_attributes>\n\
         <operations>{}</operations></primitive></clone>\n</resources>\n\
         <constraints>{bans}</constraints>\n<fencing-topology>{levels}</fencing-topology>\n\
         <rsc_defaults><meta_attributes id=\"defaults\">{defaults}</meta_attributes></rsc_defaults>\n\
         </configuration>\n<status/>\n</cib>\n",
        operations()
    )
}

fn operations() -> String {
    let timed = [
        ("start", "0", 90, ""),
        ("stop", "0", 90, ""),
        ("promote", "0", 180, ""),
        ("demote", "0", 90, ""),
        ("monitor", "10s", 60, " role=\"Unpromoted\""),
        ("monitor", "3s", 60, " role=\"Promoted\""),
    ];
    let operation = |(name, interval, limit_s, role)| {
        format!(
            "<op id=\"leg-{name}-{interval}\" name=\"{name}\" interval=\"{interval}\" \
             timeout=\"{limit_s}s\"{role}/>"
        )
    };
    timed.map(operation).concat()
}

/// The names of the power switches of a node, and the commands that are behind them.
fn switches(node: &PlanNode) -> impl Iterator<Item = (String, &[String])> {
    let name = &node.name;
    [
        (format!("fence-{name}"), &node.fence[..]),
        (format!("fence-{name}-next"), &node.fence_next[..]),
    ]
    .into_iter()
    .filter(|(_, command)| !command.is_empty())
}

/// The power switches of a node, as the others use them; each waits up to `chance_s` at first. By the
/// addresses of all a node finds its own cable.
fn fences(node: &PlanNode, chance_s: u32, addresses: &str) -> String {
    let switch = |(id, command): (String, &[String])| {
        let parameters = pairs(
            &id,
            &[
                ("command", command.join(" ")),
                ("addresses", addresses.into()),
                ("pcmk_host_list", node.name.clone()),
                ("pcmk_host_check", "static-list".into()),
                ("pcmk_delay_max", format!("{chance_s}s")),
            ],
        );
        format!(
            "<primitive id=\"{id}\" class=\"stonith\" type=\"fence_plimsoll\">\
             <instance_attributes id=\"{id}-parameters\">{parameters}</instance_attributes>\
             <operations><op id=\"{id}-monitor\" name=\"monitor\" interval=\"600s\" timeout=\"60s\"/>\
             </operations></primitive>\n"
        )
    };
    switches(node).map(switch).collect()
}

/// In which order they are tried.
fn levels(node: &PlanNode) -> String {
    let level = |(n, (id, _)): (u32, (String, _))| {
        format!(
            "<fencing-level id=\"{id}-level\" target=\"{}\" index=\"{n}\" devices=\"{id}\"/>",
            node.name
        )
    };
    (1..).zip(switches(node)).map(level).collect()
}

/// A node without a disk has no leg.
fn ban(name: &str) -> String {
    format!("<rsc_location id=\"ban-{name}\" rsc=\"legs\" node=\"{name}\" score=\"-INFINITY\"/>")
}

fn pairs(of: &str, pairs: &[(&str, String)]) -> String {
    let pair = |(name, value): &(&str, String)| {
        format!("<nvpair id=\"{of}-{name}\" name=\"{name}\" value=\"{value}\"/>")
    };
    pairs.iter().map(pair).collect()
}
