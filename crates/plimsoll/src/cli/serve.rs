// SPDX-License-Identifier: Apache-2.0
//! `plimsoll serve`: the live page.
//!
//! Manual: `docs/serve.md`.

use super::stack::list::{offered_layers, offered_stacks};
use super::team::DatabaseArgs;
use super::trust::TrustArgs;
use super::workloads::offered_workloads;
use crate::terminal;
use plimsoll_agent::context;
use plimsoll_agent::failure::{self, CliError, CliExitCode, CliResult};
use plimsoll_core::failover::StackConditionKind;
use plimsoll_core::fault::FaultKind;
use plimsoll_core::units;
use plimsoll_machine::host::facts;
use plimsoll_run::spec::TargetSpec;
use plimsoll_serve::{FaultOffer, PushLimits, ServeEnd, ServeError, ServeOptions, ServerCatalogue};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a page that shows runs while they go on, compares old ones, and starts new ones.
///
/// The address that is printed holds a token; who has it may do with the page what you may do with this
/// program. Without --target and --inventory the page can measure simulated devices and stacks of this
/// machine only. Ctrl-C stops the runs that were started here, as it would on a terminal, and ends the
/// server; stacks stay up.
///
/// With --database it is a team's server: users push runs into DIR with tokens of their own, each sees the
/// runs that are his or shared, and the page shows how ratios to a reference change from run to run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll serve
  plimsoll serve results --target /mnt/a --target /mnt/b --inventory lab.toml
  plimsoll serve --listen 192.0.2.7:7433 --tls-cert lab.pem --tls-key lab.key
  plimsoll serve store --database postgres://plimsoll@db/plimsoll --origin https://lab.example
  ssh -L 7433:127.0.0.1:7433 lab plimsoll serve")]
pub(super) struct ServeArgs {
    /// Directory of run folders; new runs are recorded there.
    #[arg(default_value = "plimsoll-results", value_name = "DIR")]
    folder: PathBuf,
    /// Listen on ADDRESS. Port 0 takes a free one, which is printed.
    ///
    /// An address that other machines reach needs --tls-cert and --tls-key.
    #[arg(long, default_value = "127.0.0.1:7433", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Certificate chain (PEM), for encrypted connections.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Read the token from FILE instead of drawing a new one.
    ///
    /// FILE holds one line of at least 32 characters and must be yours alone (mode 0600).
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Answer under this address, too, such as that of a proxy. May be repeated.
    #[arg(long = "origin", value_name = "https://HOST[:PORT]")]
    origins: Vec<String>,
    /// Let the page use the machines of this inventory file. May be repeated.
    #[arg(long = "inventory", value_name = "FILE.toml")]
    inventories: Vec<String>,
    /// Let the page measure this directory, device, disk or export. May be repeated.
    #[arg(long = "target", value_name = "TARGET")]
    targets: Vec<String>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// With a database: largest file that may be pushed.
    #[arg(long, default_value = "256MiB", value_parser = units::parse_size, value_name = "SIZE")]
    push_file_limit: u64,
    /// With a database: largest run that may be pushed.
    #[arg(long, default_value = "1GiB", value_parser = units::parse_size, value_name = "SIZE")]
    push_run_limit: u64,
    /// With a database: most that one user may push in all.
    #[arg(long, default_value = "100GiB", value_parser = units::parse_size, value_name = "SIZE")]
    push_user_limit: u64,
}

/// What forms may offer.
fn catalogue(inventories: &[String], targets: &[String]) -> ServerCatalogue {
    let fault = |kind: FaultKind| FaultOffer {
        name: kind.name().into(),
        text: kind.about().into(),
    };
    ServerCatalogue {
        workloads: offered_workloads(),
        stacks: offered_stacks(),
        layers: offered_layers(),
        faults: FaultKind::ALL.into_iter().map(fault).collect(),
        conditions: StackConditionKind::ALL
            .map(|(name, _)| name.to_owned())
            .to_vec(),
        inventories: inventories.to_vec(),
        targets: targets.to_vec(),
        trusted: Vec::new(),
    }
}

/// The error of the server as one of the command.
fn failed(error: &ServeError) -> CliError {
    match error {
        ServeError::Usage { text, hint } => CliError::invalid(text).hint(hint),
        ServeError::Io { .. } | ServeError::Certificate { .. } => {
            CliError::sentence(CliExitCode::Usage, error)
        }
        ServeError::Listen { .. } => CliError::sentence(CliExitCode::Failed, error)
            .hint("another server may be there; --listen 127.0.0.1:0 takes a free port"),
        ServeError::History(error) => super::team::failed(error),
        ServeError::System(_) => CliError::sentence(CliExitCode::Failed, error),
    }
}

/// Refuses what would only be found out when the page uses it.
fn check(args: &ServeArgs) -> Result<(), CliError> {
    for path in &args.inventories {
        super::inventory::read(path.as_ref())?;
    }
    let targets = args.targets.iter();
    let targets = targets.map(|text| TargetSpec::parse(text));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    let stacks = targets.iter().filter_map(TargetSpec::stack);
    args.trust.check_stacks(stacks, false)
}

pub(super) fn main(args: &ServeArgs) -> CliResult {
    check(args)?;
    let program = std::env::current_exe().map_err(|error| {
        CliError::new(CliExitCode::Failed, format!("find this program: {error}"))
    })?;
    let history = args.database.given()?;
    let limits = PushLimits {
        file_bytes: args.push_file_limit,
        run_bytes: args.push_run_limit,
        user_bytes: args.push_user_limit,
    };
    let ended = plimsoll_serve::serve(ServeOptions {
        folder: args.folder.clone(),
        listen: args.listen,
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        token_file: args.token_file.clone(),
        origins: args.origins.clone(),
        catalogue,
        inventories: args.inventories.clone(),
        targets: args.targets.clone(),
        trusted: args.trust.shown(),
        program,
        version: env!("CARGO_PKG_VERSION"),
        host: facts::machine().host,
        meaning: failure::meaning,
        say: terminal::say,
        history: history.map(|address| (address, limits)),
        stop: context::stop_flag()?,
    });
    tell_stacks();
    match ended.map_err(|error| failed(&error))? {
        ServeEnd::Quiet => Ok(std::process::ExitCode::SUCCESS),
        ServeEnd::JobsLeft => super::done(CliExitCode::Interrupted),
    }
}

/// Stacks outlive the server, which is easily forgotten.
fn tell_stacks() {
    let Ok(state) = context::state_dir() else {
        return;
    };
    let up = plimsoll_lab::stacks::manage::names_up(&state);
    if !up.is_empty() {
        terminal::say(&format!(
            "still up: {}; plimsoll stack down takes a stack down",
            up.join(", ")
        ));
    }
}
