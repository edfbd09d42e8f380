// SPDX-License-Identifier: Apache-2.0
//! Clients on this machine: mounts by FUSE, or a block device.

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, PlanReadinessCheck};

use super::super::StackPlanInput;
use super::super::node::chain::{ClientDiskChain, SECTOR_BYTES};
use super::super::node::file_system;
use super::cluster::{CephCluster, POOL};

/// The type of file system of a mount, as the kernel names it.
pub(super) const FILE_SYSTEM: &str = "fuse.ceph-fuse";

/// Name of the image.
const IMAGE: &str = "disk";

/// Where the second client has the file system.
pub(super) fn second_dir(order: &StackPlanInput<'_>) -> String {
    format!("{}/second", order.dir())
}

/// Adds the file system, and its mounts for two clients.
pub(super) fn add_mounts(plan: &mut Plan, order: &StackPlanInput<'_>, cluster: &CephCluster<'_>) {
    cluster.add_file_system(plan);
    add_mount(plan, order, cluster, ("mount the file system", "mnt"));
    add_mount(
        plan,
        order,
        cluster,
        ("mount it for a second client", "second"),
    );
}

fn add_mount(
    plan: &mut Plan,
    order: &StackPlanInput<'_>,
    cluster: &CephCluster<'_>,
    (why, name): (&str, &str),
) {
    let at = format!("{}/{name}", order.dir());
    let unmount = || Some(PlanAction::Unmount(at.clone()));
    // It goes with the directory around it; its own undo detaches what a killed process left.
    plan.step(
        "create a mount point",
        PlanAction::MakeDir(at.clone()),
        unmount(),
    );
    let conf = cluster.settings_file();
    // Our mark is in the directory.
    let options = ["-o", "nonempty", &at];
    let words = ["-f", "--conf", &conf, "--name", "client.admin"];
    let cmd = PlanCommand::new("ceph-fuse", words.into_iter().chain(options));
    let mark = order.mark(name);
    let start = PlanAction::Start {
        cmd,
        mark: mark.clone(),
        log: format!("{at}.log"),
        ready: PlanReadinessCheck::Mounted(at.clone()),
    };
    plan.step(why, start, Some(PlanAction::Stop { mark }));
    let look = PlanAction::mount_is(at.clone(), FILE_SYSTEM, vec!["ceph-fuse".into()]);
    // Undone first: unmounting while the process still lives lets it finish what it holds.
    plan.step("check that the file system is mounted", look, unmount());
}

/// Adds an image, attached as a block device, with a file system on it.
pub(super) fn add_image(plan: &mut Plan, order: &StackPlanInput<'_>, cluster: &CephCluster<'_>) {
    let mut run = |why: &str, words: &[&str]| {
        plan.step(why, PlanAction::Run(cluster.command("rbd", words)), None);
    };
    run("enable the pool for images", &["pool", "init", POOL]);
    let (image, bytes) = (format!("{POOL}/{IMAGE}"), super::image_bytes(order));
    let size = format!("{}M", bytes >> 20);
    let words = [
        "create",
        &image,
        "--size",
        &size,
        "--image-feature",
        "layering",
    ];
    run("create the image", &words);
    let dir = order.dir();
    let chain = ClientDiskChain {
        dir: &dir,
        id: order.id,
        number: 0,
    };
    let disk = format!(
        "driver=rbd,node-name=lun,pool={POOL},image={IMAGE},conf={},user=admin,cache.direct=on",
        cluster.settings_file()
    );
    chain.add_client(plan, Vec::new(), &disk);
    chain.add_mount_point(plan);
    chain.add_loop(plan, bytes, SECTOR_BYTES);
    let at = format!("{dir}/mnt");
    file_system::add_mount_of(plan, order.settings(), &chain.device_file(), &at);
}
