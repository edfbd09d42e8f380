// SPDX-License-Identifier: Apache-2.0
//! Certificates of a cluster, from an authority of its own: one for all servers, and one for each volume,
//! in its name, which its clients show. Keys are made by the program and stand only in its files.

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, PlanNode};

use super::super::{StackPlanInput, node};
use super::client::GlusterMount;
use super::run;

/// That of the servers, whose healers are clients as well.
pub(super) const SERVERS: &str = "node";

/// Where the servers find it.
pub(super) const ON_SERVERS: &str = "/var/lib/glusterd/ssl";

/// Longer than a stack stays up: a client that connects again shows it again.
const VALID_DAYS: &str = "3650";

/// Files that a client needs, as the options of its connection name them.
const FILES: [(&str, &str); 3] = [
    ("ssl-own-cert", "cert.pem"),
    ("ssl-private-key", "key.pem"),
    ("ssl-ca-list", "ca.pem"),
];

/// The certificates of a cluster that has them.
#[derive(Debug)]
pub(super) struct GlusterCertificates<'a> {
    order: &'a StackPlanInput<'a>,
    /// Their directory on this machine.
    around: String,
}

impl<'a> GlusterCertificates<'a> {
    /// Those of a stack, unless it has none.
    pub(super) fn of(order: &'a StackPlanInput<'a>) -> Option<Self> {
        order.settings().flag("tls").then(|| GlusterCertificates {
            order,
            around: format!("{}/tls", order.dir()),
        })
    }

    /// Directory of a certificate on a node.
    pub(super) fn dir_on(&self, node: &PlanNode, name: &str) -> String {
        format!("{}/tls/{name}", self.order.dir_on(&node.dir))
    }

    /// Options of a volume before it is started.
    pub(super) fn options(volume: &str) -> Vec<(&'static str, String)> {
        let on_servers = |file: &str| format!("{ON_SERVERS}/{file}");
        vec![
            ("client.ssl", "on".into()),
            ("server.ssl", "on".into()),
            ("auth.ssl-allow", format!("{SERVERS},{volume}")),
            ("ssl.own-cert", on_servers("cert.pem")),
            ("ssl.private-key", on_servers("key.pem")),
            ("ssl.ca-list", on_servers("ca.pem")),
        ]
    }

    /// Adds the authority, and what it signs.
    pub(super) fn add_to(&self, plan: &mut Plan, volumes: &[&str]) {
        node::add_dir(plan, &self.around);
        let write = PlanAction::WriteFile {
            path: self.settings(),
            // Minimal on purpose: with the default settings a signed certificate could sign others.
            text: "[req]\ndistinguished_name = name\n[name]\n".into(),
            secret: None,
        };
        plan.step("write the CA configuration", write, None);
        let authority = self.authority();
        node::add_dir(plan, &authority);
        let make = self.request(&authority, "authority", "TRUE", &[]);
        run(plan, "create a certificate authority", make);
        let [certificate, key] = ["cert", "key"].map(|file| format!("{authority}/{file}.pem"));
        let signed = ["-CA", &certificate, "-CAkey", &key];
        for name in std::iter::once(&SERVERS).chain(volumes) {
            self.add(plan, name, name, &signed);
        }
    }

    /// Adds one in the name of `volume` that the authority did not sign.
    pub(super) fn add_forged(&self, plan: &mut Plan, dir: &str, volume: &str) {
        self.add(plan, dir, volume, &[]);
    }

    fn add(&self, plan: &mut Plan, dir: &str, name: &str, signed: &[&str]) {
        let at = format!("{}/{dir}", self.around);
        node::add_dir(plan, &at);
        let make = self.request(&at, name, "FALSE", signed);
        run(plan, &format!("create certificate '{dir}'"), make);
        let from = format!("{}/cert.pem", self.authority());
        let to = format!("{at}/ca.pem");
        let copy = PlanCommand::new("openssl", ["x509", "-in", &from, "-out", &to]);
        run(plan, &format!("copy the CA certificate to '{dir}'"), copy);
    }

    fn authority(&self) -> String {
        format!("{}/ca", self.around)
    }

    fn settings(&self) -> String {
        format!("{}/openssl.cnf", self.around)
    }

    /// The command that makes a key and a certificate, by default signed by that key.
    fn request(&self, at: &str, name: &str, is_authority: &str, signed: &[&str]) -> PlanCommand {
        let words = [
            "req",
            "-x509",
            "-config",
            &self.settings(),
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            VALID_DAYS,
            "-subj",
            &format!("/CN={name}"),
            "-addext",
            &format!("basicConstraints=critical,CA:{is_authority}"),
            "-keyout",
            &format!("{at}/key.pem"),
            "-out",
            &format!("{at}/cert.pem"),
        ];
        PlanCommand::new("openssl", words.iter().chain(signed).copied())
    }

    /// Adds copies of these certificates to a directory on a node that is another machine.
    pub(super) fn add_copies(&self, plan: &mut Plan, to: &PlanNode, dir: &str, names: &[&str]) {
        let around = format!("{dir}/tls");
        node::add_dir_on(plan, to, &around);
        for name in names {
            node::add_dir_on(plan, to, &format!("{around}/{name}"));
            for (_, file) in FILES {
                let copy = PlanAction::CopySecret {
                    from: format!("{}/{name}/{file}", self.around),
                    to: format!("{around}/{name}/{file}"),
                };
                let why = format!("copy {file} of certificate '{name}' to the node");
                // It goes with the directory.
                plan.step_on(&to.name, &why, copy, None);
            }
        }
    }
}

/// A mount that shows the certificate in a directory of its machine.
pub(super) fn shown(mount: GlusterMount, dir: &str) -> GlusterMount {
    FILES.iter().fold(mount, |mount, (option, file)| {
        // The volume names the files of the servers; every client has its own.
        mount.option(format!(
            "--xlator-option=*-client-*.transport.socket.{option}={dir}/{file}"
        ))
    })
}
