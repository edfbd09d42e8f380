// SPDX-License-Identifier: Apache-2.0
//! State that all requests share.

use crate::caller::RequestCaller;
use crate::catalogue::ServerCatalogue;
use crate::drawing::RunDrawings;
use crate::error::{RequestError, ServeError};
use crate::jobs::JobBoard;
use crate::push::listing::PushLimits;
use crate::runs::RunStore;
use crate::secret::drawn;
use crate::seen::{RunPlace, SeenRun, no_run};
use crate::session::SessionBoard;
use crate::share::ShareBoard;
use crate::sync::locked;
use crate::team::TeamHistory;
use plimsoll_history::HistoryAddress;
use plimsoll_remote::secret::ServerSecret;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Most streams of events at once, and those of one user: as many as a browser opens.
const STREAMS_MAX: usize = 32;
const STREAMS_EACH: usize = 6;
/// The command of the measuring program that prints the choices of forms.
const OFFERS: &str = "__offers";
/// Most files that are received at once, and those of one user.
const UPLOADS_MAX: usize = 8;
const UPLOADS_EACH: usize = 2;

/// The options of a server.
pub struct ServeOptions {
    /// Where run folders are.
    pub folder: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Files of the certificate and its key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// File of the token; else one is drawn.
    pub token_file: Option<PathBuf>,
    /// Further addresses (`https://lab.example`) under which browsers reach it.
    pub origins: Vec<String>,
    /// Inventory files that forms may name.
    pub inventories: Vec<String>,
    /// Targets that forms may name.
    pub targets: Vec<String>,
    /// Files that may start programs: each becomes a `--trust` of the programs that the server starts.
    pub trusted: Vec<String>,
    /// The measuring program: jobs start it, and it knows the choices of forms.
    pub program: PathBuf,
    /// This program, which draws pages in processes of their own.
    pub drawer: PathBuf,
    /// Its version.
    pub version: &'static str,
    /// The name of this machine.
    pub host: String,
    /// The meaning of its exit codes.
    pub meaning: fn(i32) -> &'static str,
    /// Says something on the terminal.
    pub say: fn(&str),
    /// The database of a team's history, and the limits of what is pushed.
    pub history: Option<(HistoryAddress, PushLimits)>,
    /// Ends the server when it is set.
    pub stop: Arc<AtomicBool>,
}

impl fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeOptions")
            .field("folder", &self.folder)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// State that all requests share.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) options: ServeOptions,
    pub(crate) token: ServerSecret,
    pub(crate) sessions: SessionBoard,
    pub(crate) runs: Arc<RunStore>,
    pub(crate) jobs: JobBoard,
    /// Pages that listen, by user.
    pub(crate) streams: Arc<ShareBoard<String>>,
    pub(crate) drawings: Arc<RunDrawings>,
    /// Users for whom a list is filled.
    pub(crate) glances: Arc<ShareBoard<String>>,
    pub(crate) began_at: String,
    /// Files that are received, by user.
    pub(crate) uploads: Arc<ShareBoard<i64>>,
    team: Option<TeamHistory>,
    /// Hosts and origins of requests, known once the port is.
    origins: OnceLock<Vec<String>>,
    catalogue: Mutex<Arc<ServerCatalogue>>,
    started: AtomicU64,
}

impl ServerState {
    pub(crate) async fn of(options: ServeOptions) -> Result<ServerState, ServeError> {
        check_address(&options)?;
        let jobs = JobBoard::of(options.program.clone(), options.meaning);
        let offered = offered(&jobs, &options).await?;
        let token = match &options.token_file {
            Some(path) => ServerSecret::read(path)?,
            None => drawn().map_err(ServeError::System)?,
        };
        let io = |source| ServeError::Io {
            doing: "use the folder of runs",
            path: options.folder.clone(),
            source,
        };
        plimsoll_archive::make_directory(&options.folder).map_err(io)?;
        let folder = options.folder.canonicalize().map_err(io)?;
        let drawings = Arc::new(RunDrawings::of(options.drawer.clone(), folder.clone()));
        let team = match &options.history {
            None => None,
            Some((address, limits)) => {
                let history = (address, *limits);
                Some(TeamHistory::open(history, &folder, Arc::clone(&drawings)).await?)
            }
        };
        Ok(ServerState {
            team,
            drawings,
            glances: ShareBoard::of(STREAMS_MAX, 1),
            uploads: ShareBoard::of(UPLOADS_MAX, UPLOADS_EACH),
            runs: Arc::new(RunStore::of(folder)),
            jobs,
            token,
            sessions: SessionBoard::default(),
            streams: ShareBoard::of(STREAMS_MAX, STREAMS_EACH),
            began_at: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            origins: OnceLock::new(),
            catalogue: Mutex::new(Arc::new(offered)),
            started: AtomicU64::new(0),
            options,
        })
    }

    /// Takes over the address that was bound, and tells where the page is.
    pub(crate) fn bound(&self, address: SocketAddr) {
        let scheme = if self.options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let mut origins: Vec<String> = self.options.origins.clone();
        if !address.ip().is_unspecified() {
            origins.push(format!("{scheme}://{address}"));
        }
        if address.ip().is_loopback() || address.ip().is_unspecified() {
            origins.push(format!("{scheme}://localhost:{}", address.port()));
        }
        let page = match (address.ip().is_unspecified(), origins.first()) {
            (true, Some(first)) => first.clone(),
            _ => format!("{scheme}://{address}"),
        };
        let _ = self.origins.set(origins);
        // Programs read it line by line, so the address is a line of its own.
        (self.options.say)(&match self.options.token_file {
            Some(_) => format!("{page}/"),
            None => format!("{page}/#token={}", self.token.reveal()),
        });
    }

    /// The team's history, if there is one.
    pub(crate) fn team(&self) -> Result<&TeamHistory, RequestError> {
        self.team.as_ref().ok_or_else(|| {
            RequestError::not_found("this server has no history")
                .hint("start it with plimsoll serve --database")
        })
    }

    /// The run of this name, if the caller may see it.
    pub(crate) async fn seen(
        &self,
        caller: &RequestCaller,
        id: &str,
    ) -> Result<SeenRun, RequestError> {
        let place = match &self.team {
            None => RunPlace::Open,
            Some(team) => team.place_of(id).await?,
        };
        SeenRun::judged(id, caller, place).ok_or_else(|| no_run(id))
    }

    /// All runs that the caller may see, as a question to ask of each.
    pub(crate) async fn seen_by(
        self: &Arc<Self>,
        caller: RequestCaller,
    ) -> Result<impl Fn(&str) -> Option<SeenRun> + use<>, RequestError> {
        let known = match &self.team {
            None => BTreeMap::new(),
            Some(team) => team.database.accesses().await?,
        };
        let of = Arc::clone(self);
        Ok(move |id: &str| {
            let place = match &of.team {
                None => RunPlace::Open,
                Some(team) => team.place_with(id, known.get(id).copied()),
            };
            SeenRun::judged(id, &caller, place)
        })
    }

    /// Addresses under which pages may be, as browsers say them.
    pub(crate) fn origins(&self) -> &[String] {
        self.origins.get().map_or(&[], Vec::as_slice)
    }

    /// The choices of forms, worked out anew.
    pub(crate) async fn look_up_catalogue(&self) -> Result<Arc<ServerCatalogue>, RequestError> {
        let found = Arc::new(offered(&self.jobs, &self.options).await?);
        *locked(&self.catalogue) = Arc::clone(&found);
        Ok(found)
    }

    /// The same as it was last; its names do not change.
    pub(crate) fn catalogue(&self) -> Arc<ServerCatalogue> {
        Arc::clone(&locked(&self.catalogue))
    }

    /// A name for a run that is started.
    pub(crate) fn new_run(&self) -> String {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
        format!("{now}-{}-{number}", std::process::id())
    }
}

/// Asks the measuring program, which refuses inventories and targets that a form could not use.
async fn offered(jobs: &JobBoard, options: &ServeOptions) -> Result<ServerCatalogue, RequestError> {
    let option = |name: &str, all: &[String]| -> Vec<String> {
        all.iter().map(|one| format!("--{name}={one}")).collect()
    };
    let words = [
        vec![OFFERS.to_owned()],
        option("inventory", &options.inventories),
        option("target", &options.targets),
        option("trust", &options.trusted),
    ];
    let told = jobs.ask(&words.concat()).await?;
    let found: ServerCatalogue = serde_json::from_value(told).map_err(RequestError::failed)?;
    Ok(ServerCatalogue {
        trusted: options.trusted.clone(),
        ..found
    })
}

/// Refuses to tell secrets to a network without encryption, and names that cannot be compared.
fn check_address(options: &ServeOptions) -> Result<(), ServeError> {
    let ip = options.listen.ip();
    if !ip.is_loopback() && options.tls.is_none() {
        let text = format!(
            "{} is reached from other machines, which needs TLS",
            options.listen
        );
        let hint = "give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy or ssh -L";
        return Err(ServeError::usage(text, hint));
    }
    if ip.is_unspecified() && options.origins.is_empty() {
        let text = format!("{} is no address that a browser can name", options.listen);
        let hint = "give the address that browsers use, too: --origin https://lab.example:7433";
        return Err(ServeError::usage(text, hint));
    }
    let is_origin = |text: &String| {
        let rest = text
            .strip_prefix("https://")
            .or(text.strip_prefix("http://"));
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        rest.is_some_and(|host| !host.is_empty() && host.chars().all(is_host))
    };
    match options.origins.iter().find(|origin| !is_origin(origin)) {
        None => Ok(()),
        Some(bad) => {
            let text = format!(
                "invalid value '{bad}' for --origin: expected https://HOST or https://HOST:PORT"
            );
            Err(ServeError::usage(
                text,
                "give it as the browser shows it, without a path",
            ))
        }
    }
}
