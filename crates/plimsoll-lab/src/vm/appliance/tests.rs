// SPDX-License-Identifier: Apache-2.0
//! Plans of appliances against committed text; the descriptor against what its standard demands.

use super::*;
use crate::stacks::snapshot;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJv me@here\n";

fn wanted() -> VmApplianceSpec {
    VmApplianceSpec {
        dir: "/out".into(),
        keys: KEY.into(),
        data_bytes: 8 << 30,
    }
}

#[test]
fn an_appliance_is_made_by_these_steps() {
    let layout = VmApplianceLayout::new(16 * MIB + 1, 400 * MIB, 8 << 30);
    let image = Path::new("/state/images/abc");
    let plan = plan(&wanted(), image, (Path::new("/out"), "appliance-1"), layout);
    snapshot::assert_beside!("plan", snapshot::steps(&plan));
}

#[test]
fn partitions_begin_at_whole_mebibytes_and_hold_what_goes_into_them() {
    let layout = VmApplianceLayout::new(16 * MIB + 1, 400 * MIB - 1, 300 * MIB);
    let mib = [layout.boot, layout.system, layout.data, layout.end].map(|bytes| bytes / MIB);
    assert_eq!(mib, [1, 26, 426, 726]);
    assert!(
        layout
            .words()
            .iter()
            .all(|w| w.ends_with(|c: char| c.is_ascii_digit()))
    );
}

#[test]
fn what_is_wanted_is_checked_before_anything_is_made() {
    let fine = [
        KEY,
        "# me\n\nssh-rsa AAAAB3Nza x\n",
        "no-pty,from=\"10.0.0.0/8\" ecdsa-sha2-nistp256 AAAAE2Vj",
        "sk-ssh-ed25519@openssh.com AAAAGnNr me",
    ];
    for text in fine {
        assert_eq!(check_keys(text), Ok(()), "{text}");
    }
    let wrong = [
        ("", "nobody could log in"),
        ("# none\n", "nobody could log in"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "private key"),
        ("ssh-ed25519 AAAAC3 a\nssh-ed25519\n", "line 2"),
        ("password\n", "line 1"),
    ];
    for (text, part) in wrong {
        let error = check_keys(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    let small = VmApplianceSpec {
        data_bytes: 1 << 20,
        ..wanted()
    };
    let error = small.check().unwrap_err().to_string();
    assert!(
        error.contains("invalid size 1.00 MiB of the disk for data: expected 256 MiB to 1.00 TiB")
    );
}

/// An element: its name, its attributes as written, its text, and what is in it.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    inner: Vec<Element>,
}

impl Element {
    fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        &found
            .unwrap_or_else(|| panic!("{} has no {name}", self.name))
            .1
    }

    fn names(&self) -> Vec<&str> {
        self.inner.iter().map(|element| &*element.name).collect()
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.inner
            .iter()
            .filter(move |element| element.name == name)
    }

    fn the<'a>(&'a self, name: &'a str) -> &'a Element {
        let found: Vec<&Element> = self.all(name).collect();
        assert_eq!(found.len(), 1, "{name} in {}", self.name);
        found[0]
    }
}

/// Reads the descriptor: of XML, what it uses. Tags that do not match are an error.
fn read(text: &str) -> Element {
    let mut open = vec![Element::default()];
    for piece in text.split('<').skip(1) {
        let (tag, after) = piece.split_once('>').unwrap();
        if tag.starts_with('?') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let element = open.pop().unwrap();
            assert_eq!(element.name, name);
            open.last_mut().unwrap().inner.push(element);
            continue;
        }
        let (tag, is_empty) = tag
            .strip_suffix('/')
            .map_or((tag, false), |tag| (tag, true));
        let (name, rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        let mut parts = rest.split('"');
        let mut attributes = Vec::new();
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            let key = key.trim().strip_suffix('=').unwrap();
            attributes.push((key.to_owned(), value.to_owned()));
        }
        let element = Element {
            name: name.into(),
            attributes,
            text: after.trim().into(),
            inner: Vec::new(),
        };
        match is_empty {
            true => open.last_mut().unwrap().inner.push(element),
            false => open.push(element),
        }
    }
    assert_eq!(open.len(), 1);
    open.remove(0)
}

/// Elements of an item in the order that the schema of CIM has them, as far as they are used.
const IN_ORDER: [&str; 12] = [
    "Address",
    "AddressOnParent",
    "AllocationUnits",
    "AutomaticAllocation",
    "Connection",
    "ElementName",
    "HostResource",
    "InstanceID",
    "Parent",
    "ResourceSubType",
    "ResourceType",
    "VirtualQuantity",
];

#[test]
fn the_descriptor_has_what_its_standard_demands_in_its_order() {
    let text = ovf::descriptor(9 << 30).replace(ovf::SIZE, "12345");
    let all = read(&text);
    let envelope = all.the("Envelope");
    assert_eq!(envelope.attribute("xmlns"), envelope.attribute("xmlns:ovf"));
    let parts = [
        "References",
        "DiskSection",
        "NetworkSection",
        "VirtualSystem",
    ];
    assert_eq!(envelope.names(), parts);
    // Every disk is of a file that is referred to, every adapter of a network that there is.
    let file = envelope.the("References").the("File");
    assert_eq!(file.attribute("ovf:href"), DISK_FILE);
    assert_eq!(file.attribute("ovf:size"), "12345");
    let disks = envelope.the("DiskSection");
    assert_eq!(disks.names(), ["Info", "Disk"]);
    let disk = disks.the("Disk");
    assert_eq!(disk.attribute("ovf:fileRef"), file.attribute("ovf:id"));
    assert_eq!(disk.attribute("ovf:capacity"), (9_u64 << 30).to_string());
    assert!(disk.attribute("ovf:format").ends_with("#streamOptimized"));
    let networks = envelope.the("NetworkSection");
    assert_eq!(networks.names(), ["Info", "Network"]);
    let system = envelope.the("VirtualSystem");
    let sections = [
        "Info",
        "Name",
        "OperatingSystemSection",
        "VirtualHardwareSection",
    ];
    assert_eq!(system.names(), sections);
    let hardware = system.the("VirtualHardwareSection");
    assert_eq!(hardware.names()[..2], ["Info", "System"]);
    assert!(hardware.names()[2..].iter().all(|name| *name == "Item"));
    check_items(
        hardware,
        disk,
        networks.the("Network").attribute("ovf:name"),
    );
}

fn check_items(hardware: &Element, disk: &Element, network: &str) {
    let mut ids = Vec::new();
    for item in hardware.all("Item") {
        let names = item.names();
        let places: Vec<usize> = names
            .iter()
            .map(|name| {
                let name = name.strip_prefix("rasd:").unwrap();
                IN_ORDER.iter().position(|known| *known == name).unwrap()
            })
            .collect();
        assert!(places.is_sorted_by(|a, b| a < b), "{names:?}");
        assert!(!item.the("rasd:ElementName").text.is_empty());
        let id = &item.the("rasd:InstanceID").text;
        assert!(!ids.contains(id), "{id} is there twice");
        ids.push(id.clone());
        for parent in item.all("rasd:Parent") {
            assert!(ids.contains(&parent.text));
        }
        match &*item.the("rasd:ResourceType").text {
            "3" | "4" => assert!(item.the("rasd:VirtualQuantity").text != "0"),
            "10" => assert_eq!(item.the("rasd:Connection").text, network),
            "17" => {
                let resource = format!("ovf:/disk/{}", disk.attribute("ovf:diskId"));
                assert_eq!(item.the("rasd:HostResource").text, resource);
            }
            "6" => assert_eq!(item.the("rasd:ResourceSubType").text, "VirtualSCSI"),
            other => panic!("hardware {other}"),
        }
    }
    assert_eq!(ids.len(), 5);
}
