// SPDX-License-Identifier: Apache-2.0
//! The parts of an appliance's machine, as the Open Virtualization Format describes them (DMTF
//! DSP0243, version 1.1: the newest that every importer reads).

use super::{DISK_FILE, NAME};

/// Stands for the size of the packed disk, which is known only when it is packed.
pub(super) const SIZE: &str = "@SIZE@";

/// Memory of a machine: enough for a cluster manager.
const MEMORY_MIB: u64 = 1024;

/// Processors of a machine.
const PROCESSORS: u64 = 2;

/// Numbers of the kinds of hardware (CIM's `ResourceType`).
mod kind {
    pub(super) const PROCESSOR: u16 = 3;
    pub(super) const MEMORY: u16 = 4;
    pub(super) const SCSI: u16 = 6;
    pub(super) const ETHERNET: u16 = 10;
    pub(super) const DISK: u16 = 17;
}

/// The descriptor of a machine with one disk of this capacity.
pub(super) fn descriptor(capacity_bytes: u64) -> String {
    let items: String = items().iter().map(|item| item_text(item)).collect();
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
  xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
  <References>
    <File ovf:href="{DISK_FILE}" ovf:id="file1" ovf:size="{SIZE}"/>
  </References>
  <DiskSection>
    <Info>Disks of the machine</Info>
    <Disk ovf:capacity="{capacity_bytes}" ovf:capacityAllocationUnits="byte" ovf:diskId="disk1" ovf:fileRef="file1" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>
  </DiskSection>
  <NetworkSection>
    <Info>Networks of the machine</Info>
    <Network ovf:name="storage">
      <Description>Where the other nodes and the machine that measures are</Description>
    </Network>
  </NetworkSection>
  <VirtualSystem ovf:id="{NAME}">
    <Info>A node for storage that waits to be joined</Info>
    <Name>{NAME}</Name>
    <OperatingSystemSection ovf:id="96">
      <Info>Debian, 64 bit</Info>
    </OperatingSystemSection>
    <VirtualHardwareSection>
      <Info>What the machine is made of</Info>
      <System>
        <vssd:ElementName>Virtual Hardware Family</vssd:ElementName>
        <vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemIdentifier>{NAME}</vssd:VirtualSystemIdentifier>
        <vssd:VirtualSystemType>vmx-10</vssd:VirtualSystemType>
      </System>
{items}    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>
"#
    )
}

/// An element and what is in it.
type VmOvfElement = (&'static str, String);

/// Every piece of hardware. The kernel has drivers for few controllers: these two are the ones for
/// virtual machines of VMware, and it has none for those of real hardware that are often imitated.
fn items() -> [Vec<VmOvfElement>; 5] {
    let number = |value: u64| value.to_string();
    let text = |value: &str| value.to_owned();
    let kind = |value: u16| ("ResourceType", value.to_string());
    [
        vec![
            ("AllocationUnits", text("hertz * 10^6")),
            ("ElementName", text("Processors")),
            ("InstanceID", number(1)),
            kind(kind::PROCESSOR),
            ("VirtualQuantity", number(PROCESSORS)),
        ],
        vec![
            ("AllocationUnits", text("byte * 2^20")),
            ("ElementName", text("Memory")),
            ("InstanceID", number(2)),
            kind(kind::MEMORY),
            ("VirtualQuantity", number(MEMORY_MIB)),
        ],
        vec![
            ("Address", number(0)),
            ("ElementName", text("SCSI controller")),
            ("InstanceID", number(3)),
            ("ResourceSubType", text("VirtualSCSI")),
            kind(kind::SCSI),
        ],
        vec![
            ("AddressOnParent", number(0)),
            ("ElementName", text("Disk")),
            ("HostResource", text("ovf:/disk/disk1")),
            ("InstanceID", number(4)),
            ("Parent", number(3)),
            kind(kind::DISK),
        ],
        vec![
            ("AutomaticAllocation", text("true")),
            ("Connection", text("storage")),
            ("ElementName", text("Network adapter")),
            ("InstanceID", number(5)),
            ("ResourceSubType", text("VmxNet3")),
            kind(kind::ETHERNET),
        ],
    ]
}

fn item_text(fields: &[VmOvfElement]) -> String {
    let lines = fields
        .iter()
        .map(|(name, value)| format!("        <rasd:{name}>{value}</rasd:{name}>\n"));
    let lines: String = lines.collect();
    format!("      <Item>\n{lines}      </Item>\n")
}
