// SPDX-License-Identifier: Apache-2.0
//! An NFS server with an address of its own (nfs-ganesha, or a machine's kernel), over a directory of
//! its machine's disk.
//!
//! Where the kernel has an NFS client it mounts the export. Elsewhere the export is measured by its
//! address: plimsoll speaks NFS itself. Manual: `nfs.md`.

pub(super) mod kernel;

use plimsoll_core::plan::{
    HERE, Plan, PlanAction, PlanCommand, PlanNode, PlanReadinessCheck, StackOutputs, StackSelfTest,
    StackServer,
};
use plimsoll_core::settings::{
    SettingDefinition, SettingLevels, SettingUnit, SettingValues, level, levels, risky,
};

use kernel::KnfsdExport;

use super::node::file_system::MOUNT_OPTIONS;
use super::sandbox::DaemonSandbox;
use super::{
    ClientPlace, PreconditionError, StackConfig, StackFootprint, StackPlacement, StackPlanInput,
    StackRecipe, StackRequirements, node, not_given,
};
use plimsoll_machine::host::ports::MOUNT_PORT;

/// The port of NFS.
const NFS_PORT: u16 = 2049;

/// The name of the export.
const EXPORT: &str = "/export";

/// The log of ganesha, which is its output as well: an error has its last lines.
const LOG: &str = "ganesha.out";

/// The script that checks whether ganesha serves.
const SERVES: &str = include_str!("serves.sh");

/// Bounds of what one call may move: what ganesha takes.
const TRANSFER_BYTES: (u64, u64) = (4096, 1 << 20);

const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "server",
        unit: SettingUnit::Choice(&["ganesha", "knfsd"]),
        default: "ganesha",
        help: "the NFS server: nfs-ganesha, or the kernel of a machine (knfsd; --on FILE)",
    },
    SettingDefinition {
        name: "async",
        unit: SettingUnit::Flag,
        default: "off",
        help: "server=knfsd: the server acknowledges writes before they are durable, and loses them when \
               its power is cut; shows that losses are detected",
    },
    SettingDefinition {
        name: "version",
        unit: SettingUnit::Choice(&["3", "4"]),
        default: "3",
        help: "version of the protocol; 4 needs the kernel's client",
    },
    SettingDefinition {
        name: "client",
        unit: SettingUnit::Choice(&["auto", "kernel", "own"]),
        default: "auto",
        help: "the NFS client: the kernel (a mount), plimsoll itself (own), or auto: the kernel where it \
               has one",
    },
    SettingDefinition {
        name: "sync",
        unit: SettingUnit::Flag,
        default: "off",
        help: "each write is durable when it is answered (mount option sync), not only after fsync (COMMIT)",
    },
    SettingDefinition {
        name: "transfer",
        unit: SettingUnit::Size(1),
        default: "1MiB",
        help: "maximum size of a read or write call (rsize, wsize), 4 KiB to 1 MiB",
    },
    SettingDefinition {
        name: "attributes",
        unit: SettingUnit::Count,
        default: "60",
        help: "server=ganesha: seconds for which the server caches attributes of files, up to 360",
    },
    SettingDefinition {
        name: "threads",
        unit: SettingUnit::Count,
        default: "200",
        help: "server=ganesha: maximum number of threads that work on requests, 2 to 1024",
    },
    SettingDefinition {
        name: "connections",
        unit: SettingUnit::Count,
        default: "1",
        help: "client=kernel: TCP connections to the server (nconnect), 1 to 16",
    },
    SettingDefinition {
        name: "attribute_cache",
        unit: SettingUnit::Flag,
        default: "on",
        help: "client=kernel: the client caches attributes of files; off: mount option noac, which also \
               makes every write synchronous",
    },
];

const LEVELS: &[SettingLevels] = &[
    levels(
        "async",
        &[
            risky(
                "on",
                "writes and commits that were answered before they were on the disk",
            ),
            level("off"),
        ],
    ),
    levels(
        "sync",
        &[risky("off", "writes that no fsync followed"), level("on")],
    ),
    levels(
        "transfer",
        &[level("64KiB"), level("1MiB"), level("256KiB")],
    ),
    levels("version", &[level("4"), level("3")]),
    levels("attributes", &[level("0"), level("60"), level("360")]),
    levels("threads", &[level("16"), level("200"), level("1024")]),
    levels("connections", &[level("4"), level("1"), level("16")]),
    levels("attribute_cache", &[level("on")]),
];

/// Settings that only the kernel's client has, and those that only ganesha has.
const OF_CLIENT: [&str; 2] = ["connections", "attribute_cache"];
const OF_GANESHA: [&str; 2] = ["attributes", "threads"];

/// Checks numbers against what the programs take.
fn check_numbers(settings: &SettingValues) -> Result<(), PreconditionError> {
    for (name, low, high) in [
        ("attributes", 0, 360),
        ("threads", 2, 1024),
        ("connections", 1, 16),
    ] {
        let found = settings.count_within(name, low, high);
        found.map_err(|error| PreconditionError(vec![error.to_string()]))?;
    }
    Ok(())
}

/// The stack `nfs`.
#[derive(Debug)]
pub struct NfsStack;

impl StackRecipe for NfsStack {
    fn name(&self) -> &'static str {
        "nfs"
    }

    fn about(&self) -> &'static str {
        "NFS over TCP to nfs-ganesha, at an address of its own, over a directory of its machine"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn levels(&self) -> &'static [SettingLevels] {
        LEVELS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        let settings = &choice.settings;
        check_numbers(settings)?;
        if is_kernel(choice) {
            not_given(settings, &OF_GANESHA, "server=ganesha")?;
        }
        if settings.text("client") == "own" {
            not_given(settings, &OF_CLIENT, "client=kernel")?;
        }
        let (low, high) = TRANSFER_BYTES;
        let transfer = settings.bytes_within("transfer", low, high);
        transfer.map_err(|error| PreconditionError(vec![error.to_string()]))?;
        if settings.text("version") == "4" && settings.text("client") == "own" {
            return Err(PreconditionError(vec![
                "plimsoll's own client speaks version 3 only: set client=kernel, or version=3"
                    .into(),
            ]));
        }
        if settings.flag("async") && !is_kernel(choice) {
            return Err(PreconditionError(vec![
                "ganesha has no async export: async needs server=knfsd".into(),
            ]));
        }
        Ok(StackFootprint {
            servers: 1,
            ports: 0,
            place: StackPlacement::Namespaces,
        })
    }

    fn lets_in(&self, _: &StackConfig) -> Option<&'static str> {
        Some(
            "root on any machine of its servers' network can read and write everything, because NFS \
             trusts addresses: use a network that only the lab is in",
        )
    }

    fn needs_machines(&self, choice: &StackConfig) -> bool {
        is_kernel(choice)
    }

    fn needs(&self, choice: &StackConfig) -> StackRequirements {
        let mut programs = vec!["setsid"];
        if choice.settings.text("client") == "kernel" {
            programs.extend(["mount", "umount", "mount.nfs"]);
        }
        StackRequirements {
            programs,
            root: true,
            ..StackRequirements::default()
        }
    }

    fn server_needs(&self, choice: &StackConfig) -> StackRequirements {
        if is_kernel(choice) {
            return kernel::needs();
        }
        let mut programs = vec!["bwrap", "ganesha.nfsd"];
        if choice.settings.text("version") == "3" {
            programs.push("rpcbind");
        }
        StackRequirements {
            programs,
            root: true,
            ..StackRequirements::default()
        }
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        let server = &order.site.servers[0];
        let client = client(order, server)?;
        let layout = NfsStackLayout {
            order,
            server,
            dir: order.dir_on(&server.dir),
        };
        node::check_path(&layout.dir)?;
        let mut plan = Plan::default();
        let serving = if is_kernel(order.choice) {
            layout.add_kernel_server(&mut plan)
        } else {
            layout.add_ganesha(&mut plan)
        };
        let mut made = StackOutputs {
            served_dir: server.reach.is_this_machine().then(|| layout.exported()),
            servers: vec![serving],
            ..StackOutputs::default()
        };
        let version = order.settings().text("version");
        let about = about(order.choice);
        match client {
            Client::Own => {
                not_given(order.settings(), &OF_CLIENT, "client=kernel")?;
                made.address = Some(layout.address());
                made.description = format!("{about}; plimsoll is the client");
            }
            Client::Kernel => {
                made.proofs = vec![StackSelfTest::Flushes {
                    node: server.name.clone(),
                    dir: layout.exported(),
                }];
                let dir = order.dir();
                if !server.reach.is_this_machine() {
                    node::add_dir(&mut plan, &dir);
                }
                let at = format!("{dir}/mnt");
                layout.add_mount(&mut plan, (HERE, at), version, &mut made);
                made.description = format!("{about}; the kernel is the client");
            }
        }
        Ok((plan, made))
    }

    fn client_needs(&self, choice: &StackConfig) -> Option<StackRequirements> {
        Some(self.needs(choice))
    }

    fn client(
        &self,
        order: &StackPlanInput<'_>,
        place: ClientPlace<'_>,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        let server = &order.site.servers[0];
        let layout = NfsStackLayout {
            order,
            server,
            dir: order.dir_on(&server.dir),
        };
        let (mut plan, mut made) = (Plan::default(), StackOutputs::default());
        match client(order, server)? {
            Client::Own => made.address = Some(layout.address()),
            Client::Kernel => {
                let at = format!("{}/mnt", place.dir);
                let version = order.settings().text("version");
                layout.add_mount(&mut plan, (&place.node.name, at), version, &mut made);
            }
        }
        Ok((plan, made))
    }
}

fn is_kernel(choice: &StackConfig) -> bool {
    choice.settings.text("server") == "knfsd"
}

/// A description of the server, for reports.
fn about(choice: &StackConfig) -> &'static str {
    match (is_kernel(choice), choice.settings.flag("async")) {
        (false, _) => NfsStack.about(),
        (true, false) => "NFS over TCP to a machine's kernel, over a directory of its disk",
        (true, true) => {
            "NFS over TCP to a machine's kernel that answers before data are durable (async), over a \
             directory of its disk"
        }
    }
}

/// Who speaks with the server.
enum Client {
    Kernel,
    Own,
}

fn client(order: &StackPlanInput<'_>, server: &PlanNode) -> Result<Client, PreconditionError> {
    if !server.has_network() {
        return Err(PreconditionError(vec![
            "the server needs a port mapper, and a network has only one: put it into a namespace \
             (--on netns)"
                .into(),
        ]));
    }
    let settings = order.settings();
    match (settings.text("client"), settings.text("version")) {
        ("kernel", _) if !order.kernel_has_nfs => Err(PreconditionError(vec![
            "this kernel has no NFS client (neither in /proc/filesystems nor as a module): leave out \
             client=kernel to use plimsoll's own"
                .into(),
        ])),
        ("auto", "4") if !order.kernel_has_nfs => Err(PreconditionError(vec![
            "version 4 needs the kernel's client, and this kernel has none (or mount.nfs is missing: \
             apt-get install nfs-common): set version=3"
                .into(),
        ])),
        ("own", _) => Ok(Client::Own),
        ("auto", _) if !order.kernel_has_nfs => Ok(Client::Own),
        _ => Ok(Client::Kernel),
    }
}

/// Where everything lies.
struct NfsStackLayout<'a> {
    order: &'a StackPlanInput<'a>,
    server: &'a PlanNode,
    /// The directory of the stack where it is served from.
    dir: String,
}

impl NfsStackLayout<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// The directory that is served.
    fn exported(&self) -> String {
        self.path("export")
    }

    fn address(&self) -> String {
        let sync = if self.order.settings().flag("sync") {
            "&sync"
        } else {
            ""
        };
        let (server, export) = (&self.server.address, self.export());
        format!("nfs://{server}{export}?mountport={MOUNT_PORT}{sync}")
    }

    /// The name of the export: the kernel uses its directory.
    fn export(&self) -> String {
        if is_kernel(self.order.choice) {
            self.exported()
        } else {
            EXPORT.into()
        }
    }

    /// Adds the server of the machine's kernel.
    fn add_kernel_server(&self, plan: &mut Plan) -> StackServer {
        let (on, exported) = (&*self.server.name, self.exported());
        node::add_dir_on(plan, self.server, &self.dir);
        plan.step_on(
            on,
            "create the exported directory",
            PlanAction::MakeDir(exported.clone()),
            Some(PlanAction::RemoveDir(exported.clone())),
        );
        let settings = self.order.settings();
        let kernel = KnfsdExport {
            on,
            dir: &self.dir,
            exported: &exported,
            version: settings.text("version"),
            is_async: settings.flag("async"),
            transfer_bytes: settings.bytes("transfer"),
            clients: node::clients_of(self.order, self.server),
        };
        kernel.add_check(plan);
        StackServer::kernel_of(on, kernel.add(plan, self.order))
    }

    /// Adds nfs-ganesha.
    fn add_ganesha(&self, plan: &mut Plan) -> StackServer {
        self.add_directories(plan);
        StackServer::on(&self.server.name, self.add_daemons(plan))
    }

    fn add_directories(&self, plan: &mut Plan) {
        let on = &*self.server.name;
        node::add_dir_on(plan, self.server, &self.dir);
        for (why, name) in [
            ("create the exported directory", "export"),
            ("create the server's run directory", "run"),
            ("create the run directory of ganesha", "run/ganesha"),
            ("create the run directory of the port mapper", "run/rpcbind"),
            ("create the server's recovery directory", "recovery"),
        ] {
            let path = self.path(name);
            let undo = PlanAction::RemoveDir(path.clone());
            plan.step_on(on, why, PlanAction::MakeDir(path), Some(undo));
        }
        let write = PlanAction::write_file(self.path("ganesha.conf"), self.configuration());
        // It goes with the directory.
        plan.step_on(on, "write the server's configuration", write, None);
    }

    fn configuration(&self) -> String {
        let settings = self.order.settings();
        let (version, transfer) = (settings.text("version"), settings.bytes("transfer"));
        let (exported, recovery) = (self.exported(), self.path("recovery"));
        let address = &self.server.address;
        let clients = node::clients_of(self.order, self.server).join(", ");
        // Settings not asked for are not named: most people have ganesha's own defaults.
        let line = |name: &str, parameter: &str| match settings.is_given(name) {
            true => format!("    {parameter} = {};\n", settings.text(name)),
            false => String::new(),
        };
        let threads = line("threads", "RPC_Ioq_ThrdMax");
        let attributes = line("attributes", "Attr_Expiration_Time");
        format!(
            "NFS_CORE_PARAM {{\n\
             \x20   Protocols = {version};\n\
             \x20   NFS_Port = {NFS_PORT};\n\
             \x20   MNT_Port = {MOUNT_PORT};\n\
             \x20   Bind_addr = {address};\n\
             \x20   Enable_NLM = false;\n\
             \x20   Enable_RQUOTA = false;\n\
             \x20   Enable_UDP = false;\n\
             \x20   mount_path_pseudo = true;\n\
             {threads}\
             }}\n\
             NFSV4 {{\n\
             \x20   Graceless = true;\n\
             \x20   RecoveryBackend = fs;\n\
             \x20   RecoveryRoot = {recovery};\n\
             }}\n\
             NFS_KRB5 {{ Active_krb5 = false; }}\n\
             EXPORT {{\n\
             \x20   Export_Id = 1;\n\
             \x20   Path = {exported};\n\
             \x20   Pseudo = {EXPORT};\n\
             \x20   Protocols = {version};\n\
             \x20   Transports = TCP;\n\
             \x20   Access_Type = None;\n\
             \x20   PrivilegedPort = true;\n\
             \x20   Squash = No_root_squash;\n\
             \x20   SecType = sys;\n\
             \x20   CLIENT {{ Clients = {clients}; Access_Type = RW; }}\n\
             \x20   MaxRead = {transfer};\n\
             \x20   MaxWrite = {transfer};\n\
             {attributes}\
             \x20   FSAL {{ Name = VFS; }}\n\
             }}\n"
        )
    }

    /// Adds what serves; gives the marks of its processes.
    fn add_daemons(&self, plan: &mut Plan) -> Vec<String> {
        let mut marks = Vec::new();
        if self.order.settings().text("version") == "3" {
            let ready = PlanReadinessCheck::Exists(self.path("run/rpcbind.sock"));
            let cmd = self.enclosed("rpcbind", &["-f"]);
            // Ganesha does not begin to serve version 3 without one.
            marks.push(self.start(plan, "start the port mapper", "rpcbind", cmd, ready));
        }
        let args = [
            "-F",
            "-f",
            &self.path("ganesha.conf"),
            "-L",
            &self.path(LOG),
            "-p",
            &self.path("run/ganesha.pid"),
            "-N",
            "NIV_EVENT",
        ];
        let cmd = self.enclosed("ganesha.nfsd", &args);
        let ready = PlanReadinessCheck::Port(NFS_PORT);
        marks.push(self.start(plan, "start the NFS server", "ganesha", cmd, ready));
        self.add_look(plan);
        marks
    }

    /// Adds what sees that ganesha serves the directory.
    fn add_look(&self, plan: &mut Plan) {
        let (on, path) = (&*self.server.name, self.path("serves.sh"));
        let look = PlanAction::Run(PlanCommand::new("sh", [path.clone(), self.path(LOG)]));
        let write = PlanAction::write_file(path, SERVES);
        // It goes with the directory.
        plan.step_on(on, "install the check script", write, None);
        plan.step_on(on, "check that the directory is exported", look, None);
    }

    /// The daemons speak with each other through files in `/run`, where those of this machine, or of
    /// another stack, may have theirs: they get one of their own.
    fn enclosed(&self, program: &str, args: &[&str]) -> PlanCommand {
        let mut view = DaemonSandbox::new();
        view.bind(&self.dir, &self.dir);
        view.bind(&self.path("run"), "/run");
        view.around(program, args.iter().copied())
    }

    fn start(
        &self,
        plan: &mut Plan,
        why: &str,
        name: &str,
        cmd: PlanCommand,
        ready: PlanReadinessCheck,
    ) -> String {
        let mark = self.order.mark(name);
        let start = PlanAction::Start {
            cmd,
            mark: mark.clone(),
            log: self.path(&format!("{name}.out")),
            ready,
        };
        let stop = PlanAction::Stop { mark: mark.clone() };
        plan.step_on(&self.server.name, why, start, Some(stop));
        mark
    }

    fn add_mount(
        &self,
        plan: &mut Plan,
        (node, at): (&str, String),
        version: &str,
        made: &mut StackOutputs,
    ) {
        plan.step_on(
            node,
            "create the mount point",
            PlanAction::MakeDir(at.clone()),
            Some(PlanAction::RemoveDir(at.clone())),
        );
        let settings = self.order.settings();
        let transfer = settings.bytes("transfer");
        let of_version = if version == "3" {
            format!(",mountproto=tcp,mountport={MOUNT_PORT},nolock")
        } else {
            String::new()
        };
        let sync = if settings.flag("sync") { ",sync" } else { "" };
        let cached = settings.flag("attribute_cache");
        let noac = if cached { "" } else { ",noac" };
        let connections = match settings.count("connections") {
            1 => String::new(),
            n => format!(",nconnect={n}"),
        };
        let options = format!(
            "{MOUNT_OPTIONS},vers={version},proto=tcp,port={NFS_PORT},rsize={transfer},\
             wsize={transfer},hard{of_version}{sync}{connections}{noac}"
        );
        let source = format!("{}:{}", self.server.address, self.export());
        let mount = PlanCommand::new("mount", ["-t", "nfs", "-o", &options, &source, &at]);
        plan.step_on(
            node,
            "mount the export",
            PlanAction::Run(mount),
            Some(PlanAction::Unmount(at.clone())),
        );
        let file_system = if version == "4" { "nfs4" } else { "nfs" };
        let is_mounted = PlanAction::mount_is(at.clone(), file_system, vec![source.into()]);
        plan.step_on(node, "check that the export is mounted", is_mounted, None);
        made.mount_dir = at;
        made.file_system = file_system.into();
    }
}

#[cfg(test)]
mod plan_tests;
