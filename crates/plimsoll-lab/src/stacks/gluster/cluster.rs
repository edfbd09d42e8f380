// SPDX-License-Identifier: Apache-2.0
//! The servers: on each a management daemon with files of its own, which starts the bricks.
//!
//! Some paths are fixed in the daemons (`/var/run/gluster` for the sockets of bricks, parts of
//! `/var/lib/glusterd`), so several on one machine would share them and leave things behind. Each
//! therefore sees a directory of the stack in place of those paths.

use plimsoll_core::plan::{
    NodeTransport, Plan, PlanAction, PlanCommand, PlanNode, PlanReadinessCheck, StackServer,
};

use super::super::sandbox::DaemonSandbox;
use super::super::{PreconditionError, StackPlanInput, link_of, node};
use super::certificates::{GlusterCertificates, ON_SERVERS, SERVERS};
use super::tenants::GlusterTenancy;

/// How long a daemon may take until it answers: two seconds on a processor, more than a hundred on an
/// emulated one, and more than three hundred where others use the processors as well.
const START_LIMIT_S: u32 = 900;

/// Succeeds when this server has taken in the one of an address, and is connected with it: a probe answers
/// before both sides are done, and a volume that is made or changed too early hangs or fails. A server notes
/// in files whom it has taken in, with 3 as the state; only its daemon tells whether it is connected.
const CONNECTED: &str = r#"here=${0%/*}
grep --quiet --recursive --null-data "state=3.hostname1=$1[^0-9]" "$here/state/peers" &&
gluster --mode=script --glusterd-sock="$here/glusterd.sock" --log-file="$here/log/cli.log" pool list |
grep --quiet "$1[^0-9].*Connected"
"#;

/// The port at which the management daemons meet, the same for all.
const PORT: u16 = 24_007;

/// The servers of a stack.
#[derive(Debug)]
pub(super) struct GlusterCluster<'a> {
    order: &'a StackPlanInput<'a>,
    /// The nodes that are servers.
    pub(super) nodes: Vec<&'a PlanNode>,
    /// Those that its clients show each other, if it has any.
    pub(super) certificates: Option<GlusterCertificates<'a>>,
}

impl<'a> GlusterCluster<'a> {
    /// The servers of an order; other nodes may follow them.
    pub(super) fn of(order: &'a StackPlanInput<'a>) -> Result<Self, PreconditionError> {
        // Those it was made with, and those it has grown by since.
        let mut count = usize::from(super::nodes(order.choice)?);
        if GlusterTenancy::of(order.choice).is_none() {
            count = count.max(order.site.servers.len());
        }
        Ok(GlusterCluster {
            order,
            nodes: order.site.servers.iter().take(count).collect(),
            certificates: GlusterCertificates::of(order),
        })
    }

    /// Directory of a node.
    pub(super) fn dir(&self, node: &PlanNode) -> String {
        format!("{}/{}", self.order.dir_on(&node.dir), node.name)
    }

    /// Directory of a node's bricks.
    pub(super) fn bricks(&self, node: &PlanNode) -> String {
        format!("{}/bricks", self.dir(node))
    }

    pub(super) fn mark(&self, node: &PlanNode) -> String {
        self.order.mark(&node.name)
    }

    /// Where a node notes how far it is with the files of a volume.
    pub(super) fn notes(&self, node: &PlanNode, volume: &str) -> String {
        format!("{}/state/vols/{volume}/node_state.info", self.dir(node))
    }

    fn socket(&self, node: &PlanNode) -> String {
        format!("{}/glusterd.sock", self.dir(node))
    }

    /// The servers that are watched: all processes of a node inherit its mark.
    pub(super) fn servers(&self) -> Vec<StackServer> {
        let server = |node: &&PlanNode| StackServer::on(&node.name, vec![self.mark(node)]);
        self.nodes.iter().map(server).collect()
    }

    /// Adds the servers and makes them know each other.
    pub(super) fn add_to(&self, plan: &mut Plan) {
        for node in &self.nodes {
            self.add_node(plan, node);
        }
        for node in &self.nodes[1..] {
            self.add_peer(plan, node);
        }
    }

    /// Adds one server.
    pub(super) fn add_node(&self, plan: &mut Plan, server: &PlanNode) {
        let dir = self.dir(server);
        self.add_limit(plan, server);
        if !server.reach.is_this_machine() {
            let around = self.order.dir_on(&server.dir);
            node::add_dir_on(plan, server, &around);
            if let Some(certificates) = &self.certificates {
                certificates.add_copies(plan, server, &around, &[SERVERS]);
            }
        }
        let below = ["state", "log", "bricks"].map(|name| format!("{dir}/{name}"));
        for path in std::iter::once(dir.clone()).chain(below) {
            node::add_dir_on(plan, server, &path);
        }
        let mut write = |name: &str, text: String, why: &str| {
            let write = PlanAction::write_file(format!("{dir}/{name}"), text);
            plan.step_on(&server.name, why, write, None);
        };
        let settings = self.daemon_settings(server);
        write("glusterd.vol", settings, "write the daemon configuration");
        let why = "write how peers are looked at";
        write("connected", CONNECTED.into(), why);
        // The daemon listens first and then runs a dozen programs, one after another, to set up a replication
        // that the stack does not use. It answers no request until they have ended.
        let words = ["--quiet", "Final graph", &format!("{dir}/log/glusterd.log")];
        let is_up = PlanCommand::new("grep", words).within_s(START_LIMIT_S);
        let start = self.start(server, PlanReadinessCheck::Succeeds(is_up));
        let why = "start the management daemon";
        plan.step_on(&server.name, why, start, Some(self.stop(server)));
    }

    /// Limits the link of a server, where that is set.
    fn add_limit(&self, plan: &mut Plan, server: &PlanNode) {
        let bytes_per_s = self.order.settings().bytes("link_rate");
        if let (NodeTransport::Namespace(namespace), 1..) = (&server.reach, bytes_per_s) {
            let limit = PlanAction::LimitLink {
                namespace: namespace.clone(),
                link: link_of(self.order.site, server),
                bytes_per_s,
            };
            plan.step(
                &format!("limit the link of node {}", server.name),
                limit,
                None,
            );
        }
    }

    /// Adds what makes the first server know another one.
    pub(super) fn add_peer(&self, plan: &mut Plan, node: &PlanNode) {
        let probe = self.cli(&["peer", "probe", &node.address]);
        self.on_first(plan, &format!("add {} to the cluster", node.name), probe);
        // Of one that is taken out and in again within seconds the daemons die.
        plan.point_of_no_return();
        // The others hear of it from the first, and refuse volumes with bricks of whom they do not know.
        let known = self
            .nodes
            .iter()
            .take_while(|other| other.name != node.name);
        for (at, of) in known.flat_map(|other| [(*other, node), (node, *other)]) {
            let script = format!("{}/connected", self.dir(at));
            let look = PlanAction::Await(PlanCommand::new("sh", [&*script, &of.address]));
            plan.step_on(&at.name, "wait until the peers are connected", look, None);
        }
    }

    fn daemon_settings(&self, node: &PlanNode) -> String {
        // The keepalive times have no default in the code: without them no peer is taken in.
        format!(
            "volume management\n    type mgmt/glusterd\n    \
             option working-directory /var/lib/glusterd\n    \
             option glusterd-sockfile {}\n    \
             option transport-type socket\n    \
             option transport.socket.bind-address {}\n    \
             option transport.socket.listen-port {PORT}\n    \
             option transport.socket.keepalive-time 10\n    \
             option transport.socket.keepalive-interval 2\n    \
             option transport.socket.read-fail-log off\n    \
             option ping-timeout 0\n    option event-threads 1\n    \
             option max-port 60999\nend-volume\n",
            self.socket(node),
            node.address
        )
    }

    fn start(&self, node: &PlanNode, ready: PlanReadinessCheck) -> PlanAction {
        let dir = self.dir(node);
        let mut view = DaemonSandbox::new();
        view.bind(&dir, &dir);
        view.bind(&format!("{dir}/state"), "/var/lib/glusterd");
        // Empty at every start, as after a reboot: the daemon takes a brick for running if its process number
        // is here and its dead process is not reaped yet.
        view.empty("/var/run/gluster");
        view.bind(&format!("{dir}/log"), "/var/log/glusterfs");
        if let Some(certificates) = &self.certificates {
            view.show(&certificates.dir_on(node, SERVERS), ON_SERVERS);
        }
        let words = [
            "--no-daemon".to_owned(),
            format!("--volfile={dir}/glusterd.vol"),
            format!("--log-file={dir}/log/glusterd.log"),
            format!("--pid-file={dir}/glusterd.pid"),
        ];
        PlanAction::Start {
            cmd: view.around("glusterd", words),
            mark: self.mark(node),
            log: format!("{dir}/glusterd.out"),
            ready,
        }
    }

    /// The action that ends all processes of a node.
    pub(super) fn stop(&self, node: &PlanNode) -> PlanAction {
        PlanAction::Stop {
            mark: self.mark(node),
        }
    }

    /// The action that restarts a lost node. It is back when the mount at `mount` has found its
    /// brick of this volume again, which takes a client up to three seconds; where that cannot be
    /// asked, when healing can begin.
    pub(super) fn restart(&self, node: &PlanNode, volume: &str, mount: &str) -> PlanAction {
        let number = self.nodes.iter().position(|other| other.name == node.name);
        let is_back = match number {
            Some(number) if node.reach.is_this_machine() => self.connected(number, volume, mount),
            _ => self.cli_on(node, &["volume", "heal", volume]),
        };
        self.start(
            node,
            PlanReadinessCheck::Succeeds(is_back.within_s(START_LIMIT_S)),
        )
    }

    /// Succeeds where the mount at `mount` of this volume has reached the brick of the server of this number.
    /// A client tries a brick again every few seconds, and each try may take some itself.
    pub(super) fn connected(&self, number: usize, volume: &str, mount: &str) -> PlanCommand {
        let state = format!("{mount}/.meta/graphs/active/{volume}-client-{number}/private");
        PlanCommand::new("grep", ["--quiet", "connected = 1", &state]).within_s(START_LIMIT_S)
    }

    /// A command to the first server. Every command has a time limit; this program needs one, since it waits
    /// for minutes if no server answers.
    pub(super) fn cli(&self, words: &[&str]) -> PlanCommand {
        self.cli_on(self.nodes[0], words)
    }

    pub(super) fn cli_on(&self, node: &PlanNode, words: &[&str]) -> PlanCommand {
        let own = [
            "--mode=script".to_owned(),
            format!("--glusterd-sock={}", self.socket(node)),
            format!("--log-file={}/log/cli.log", self.dir(node)),
        ];
        let words = words.iter().map(ToString::to_string);
        PlanCommand::new("gluster", own.into_iter().chain(words))
    }

    /// Adds a command that is run on the first server.
    pub(super) fn on_first(&self, plan: &mut Plan, why: &str, cmd: PlanCommand) {
        plan.step_on(&self.nodes[0].name, why, PlanAction::Run(cmd), None);
    }

    /// A brick of a volume, as the commands take it.
    pub(super) fn brick(&self, node: &PlanNode, volume: &str) -> String {
        format!("{}:{}/{volume}", node.address, self.bricks(node))
    }

    /// Adds a volume over all servers, started.
    pub(super) fn add_volume(&self, plan: &mut Plan, volume: &str) {
        let kind: &[&str] = match self.order.settings().text("volume") {
            "replicate" => &["replica", "3"],
            "disperse" => &["disperse", "3", "redundancy", "1"],
            _ => &[],
        };
        let bricks: Vec<String> = self.nodes.iter().map(|n| self.brick(n, volume)).collect();
        let mut words = vec!["volume", "create", volume];
        words.extend(kind);
        words.extend(bricks.iter().map(String::as_str));
        // Else it refuses bricks on the disk the machine started from.
        words.push("force");
        self.on_first(plan, &format!("create volume {volume}"), self.cli(&words));
        let mut options = self.options();
        if self.certificates.is_some() {
            options.extend(GlusterCertificates::options(volume));
        }
        let mut words = vec!["volume", "set", volume];
        words.extend(options.iter().flat_map(|(name, value)| [*name, &**value]));
        self.on_first(
            plan,
            &format!("set the options of volume {volume}"),
            self.cli(&words),
        );
        let start = self.cli(&["volume", "start", volume]);
        self.on_first(plan, &format!("start volume {volume}"), start);
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let settings = self.order.settings();
        let flag = |name: &str| if settings.flag(name) { "on" } else { "off" }.to_owned();
        let mut options = vec![
            ("network.ping-timeout", settings.text("ping_timeout").into()),
            ("performance.strict-o-direct", flag("direct")),
            // Its meaning is the other way round: `enable` keeps direct I/O from the bricks.
            (
                "network.remote-dio",
                if settings.flag("direct") {
                    "disable"
                } else {
                    "enable"
                }
                .into(),
            ),
            ("performance.write-behind", flag("write_behind")),
            (
                "performance.write-behind-window-size",
                settings.bytes("write_behind_window").to_string(),
            ),
            ("performance.flush-behind", flag("flush_behind")),
            ("performance.io-cache", flag("io_cache")),
            (
                "performance.io-cache-size",
                settings.bytes("cache_size").to_string(),
            ),
            ("performance.read-ahead", flag("read_ahead")),
            ("performance.quick-read", flag("quick_read")),
            ("performance.stat-prefetch", flag("stat_prefetch")),
            (
                "performance.io-thread-count",
                settings.text("io_threads").into(),
            ),
            (
                "client.event-threads",
                settings.text("event_threads").into(),
            ),
            (
                "server.event-threads",
                settings.text("event_threads").into(),
            ),
        ];
        if self.nodes.iter().all(|node| node.reach.is_this_machine()) {
            let client = &self.order.site.client.address;
            let network = client.rsplit_once('.').map_or("*", |(network, _)| network);
            options.push(("auth.allow", format!("{network}.*")));
        }
        options
    }
}
