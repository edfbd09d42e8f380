// SPDX-License-Identifier: Apache-2.0
//! `plimsoll serve`: the arguments.

use super::DatabaseArgs;
use plimsoll_core::units;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a page that shows, compares and starts runs.
///
/// The printed address contains a token. On the page, the holder of the token may do everything
/// that you may do with this program. Without --target and --inventory the page can measure only
/// simulated devices and stacks of this machine. Ctrl-C stops the runs that the page started, as on
/// a terminal, and ends the server. Stacks stay up.
///
/// With --database the command is a team's server: users push runs into DIR with their own tokens,
/// each user sees own and shared runs, and the page shows how ratios to a reference change from run
/// to run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll serve
  plimsoll serve results --target /mnt/a --target /mnt/b --inventory lab.toml
  plimsoll serve --listen 192.0.2.7:7433 --tls-cert lab.pem --tls-key lab.key
  plimsoll serve store --database postgres://plimsoll@db/plimsoll --origin https://lab.example
  ssh -L 7433:127.0.0.1:7433 lab plimsoll serve")]
pub struct ServeArgs {
    /// Directory of run folders, also for new runs.
    #[arg(default_value = "plimsoll-results", value_name = "DIR")]
    pub folder: PathBuf,
    /// Address and port to listen on.
    ///
    /// Port 0 selects a free port, which is printed. An address that other machines reach requires
    /// --tls-cert and --tls-key.
    #[arg(long, default_value = "127.0.0.1:7433", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// Certificate chain (PEM) for encrypted connections.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Read the token from FILE instead of drawing a new one.
    ///
    /// FILE holds one line of at least 32 characters, and must be yours alone (mode 0600).
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Additional address of the page, such as that of a proxy. May be repeated.
    #[arg(long = "origin", value_name = "https://HOST[:PORT]")]
    pub origins: Vec<String>,
    /// Let the page use the machines of this inventory file. May be repeated.
    #[arg(long = "inventory", value_name = "FILE.toml")]
    pub inventories: Vec<String>,
    /// Let the page measure this directory, device, disk or export. May be repeated.
    #[arg(long = "target", value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Let FILE, a stack of your own, start the programs that it names. May be repeated.
    #[arg(long = "trust", value_name = "FILE")]
    pub trust: Vec<PathBuf>,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// With --database: maximum size of a pushed file.
    #[arg(long, default_value = "256MiB", value_parser = units::parse_size, value_name = "SIZE")]
    pub push_file_limit: u64,
    /// With --database: maximum size of a pushed run.
    #[arg(long, default_value = "1GiB", value_parser = units::parse_size, value_name = "SIZE")]
    pub push_run_limit: u64,
    /// With --database: maximum total size of the runs that a user pushes.
    #[arg(long, default_value = "100GiB", value_parser = units::parse_size, value_name = "SIZE")]
    pub push_user_limit: u64,
}
