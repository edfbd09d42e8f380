// SPDX-License-Identifier: Apache-2.0
//! The two builds that a gate compares: each in a directory of its own, which is a target.
//!
//! The sources of a git reference are checked out into a clone that shares the objects of the user's
//! repository and changes nothing in it. The clone stays, so that the next gate builds only what changed.

use plimsoll_console::failure::{CliError, CliExitCode, stopped};
use plimsoll_core::campaign::CampaignBuild;
use plimsoll_machine::host::{HostTimedJob, LocalHost};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A build that takes longer will not end.
const LIMIT: Duration = Duration::from_secs(12 * 3_600);
/// By which a build is found again.
const MARK: &str = "plimsoll-gate";

/// One of the two builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateBuild {
    /// Where its files are: the target.
    pub directory: PathBuf,
    /// Name for people.
    pub name: String,
}

/// Where builds are made.
#[derive(Debug)]
pub struct GateWorkshop<'a> {
    /// Starts the programs.
    pub host: &'a LocalHost,
    /// Ends them.
    pub stop: &'a AtomicBool,
    /// How and what is built.
    pub build: &'a CampaignBuild,
    /// A directory of the gate.
    pub directory: &'a Path,
    /// Says what goes on.
    pub say: fn(&str),
}

impl GateWorkshop<'_> {
    /// The candidate: what is given, or built of the sources in the working directory.
    ///
    /// # Errors
    /// When it cannot be built or copied.
    pub fn candidate(&self, given: Option<&str>) -> Result<GateBuild, CliError> {
        let name = given.unwrap_or("the working directory");
        let sources = match given {
            Some(path) => PathBuf::from(path),
            None => {
                let here = std::env::current_dir()
                    .map_err(|error| failed(format!("find the working directory: {error}")))?;
                self.make(&here, name)?;
                here
            }
        };
        self.take(&sources, "candidate", name.to_owned())
    }

    /// The reference: a program or a directory with what is built, or a git reference of the repository
    /// that the working directory is in.
    ///
    /// # Errors
    /// When there is no such thing, and when it cannot be built or copied.
    pub fn reference(&self, against: &str) -> Result<GateBuild, CliError> {
        if Path::new(against).exists() {
            return self.take(Path::new(against), "reference", against.to_owned());
        }
        let commit = self.commit(against)?;
        let short: String = commit.chars().take(12).collect();
        let name = format!("{against} ({short})");
        let sources = self.directory.join("source");
        if !sources.exists() {
            let top = self.git(Path::new("."), &["rev-parse", "--show-toplevel"])?;
            let path = text(&sources)?;
            let clone = [
                "clone",
                "--quiet",
                "--shared",
                "--no-checkout",
                top.trim(),
                path,
            ];
            self.git(Path::new("."), &clone)?;
        }
        let checkout = [
            "checkout",
            "--quiet",
            "--detach",
            "--force",
            commit.as_str(),
        ];
        self.git(&sources, &checkout)?;
        self.make(&sources, &name)?;
        self.take(&sources, "reference", name)
    }

    fn commit(&self, against: &str) -> Result<String, CliError> {
        let wanted = format!("{against}^{{commit}}");
        let asked = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &wanted,
        ];
        let found = self.git(Path::new("."), &asked).map_err(|_| {
            let text = format!(
                "invalid value '{against}' for --against: expected a program, a directory with what is \
                 built, or a commit, branch or tag of the repository here"
            );
            CliError::invalid(text).hint("in a shallow checkout fetch it first: git fetch origin main")
        })?;
        Ok(found.trim().to_owned())
    }

    fn git(&self, directory: &Path, words: &[&str]) -> Result<String, CliError> {
        let words = std::iter::once("git").chain(words.iter().copied());
        let argv: Vec<String> = words.map(str::to_owned).collect();
        self.run(&argv, directory, "use git")
    }

    fn make(&self, sources: &Path, name: &str) -> Result<(), CliError> {
        (self.say)(&format!("building {name}: {}", self.build.command));
        let argv = ["sh", "-c", &self.build.command].map(str::to_owned);
        self.run(&argv, sources, &format!("build {name}")).map(drop)
    }

    fn run(&self, argv: &[String], directory: &Path, what: &str) -> Result<String, CliError> {
        let job = HostTimedJob {
            argv,
            directory,
            mark: MARK,
            limit: LIMIT,
        };
        let ran = self.host.timed(&job, self.stop);
        let ran = ran.map_err(|error| failed(format!("{what}: {error}")))?;
        ran.map(|ran| ran.output).ok_or_else(stopped)
    }

    /// Copies what was built, so that a later build changes nothing during the run.
    fn take(&self, from: &Path, role: &str, name: String) -> Result<GateBuild, CliError> {
        let directory = self.directory.join(role);
        let io = |path: &Path, error: std::io::Error| {
            failed(format!("copy {}: {error}", path.display()))
        };
        plimsoll_archive::make_directory(&directory).map_err(|error| io(&directory, error))?;
        for file in &self.build.files {
            let last = Path::new(file).file_name().unwrap_or_default();
            let built = match from.is_dir() {
                false if self.build.files.len() == 1 => from.to_path_buf(),
                false => {
                    let text = format!(
                        "use {}: [build] names {} files, so expected a directory",
                        from.display(),
                        self.build.files.len()
                    );
                    return Err(CliError::usage(text));
                }
                // As built, or as a package has it.
                true if from.join(file).exists() => from.join(file),
                true => from.join(last),
            };
            let copy = directory.join(last);
            // A new file: an old one may be a program that still runs.
            let early = directory.join(format!(".{}.new", last.display()));
            std::fs::copy(&built, &early).map_err(|error| io(&built, error))?;
            std::fs::rename(&early, &copy).map_err(|error| io(&copy, error))?;
        }
        Ok(GateBuild { directory, name })
    }
}

fn text(path: &Path) -> Result<&str, CliError> {
    let text = path.to_str();
    text.ok_or_else(|| CliError::usage(format!("use {}: its name is not text", path.display())))
}

fn failed(what: String) -> CliError {
    CliError::new(CliExitCode::Failed, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::host::SearchPath;
    use std::fs;

    fn host() -> LocalHost {
        LocalHost::new(SearchPath::new(
            &std::env::var_os("PATH").unwrap_or_default(),
        ))
    }

    fn build(files: &[&str]) -> CampaignBuild {
        CampaignBuild {
            command: "true".into(),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
        }
    }

    fn with<T>(files: &[&str], directory: &Path, use_it: impl Fn(&GateWorkshop<'_>) -> T) -> T {
        use_it(&GateWorkshop {
            host: &host(),
            stop: &AtomicBool::new(false),
            build: &build(files),
            directory,
            say: |_| {},
        })
    }

    #[test]
    fn a_program_or_a_directory_is_a_build() {
        let place = tempfile::tempdir().unwrap();
        let (work, given) = (place.path().join("gate"), place.path().join("given"));
        fs::create_dir_all(given.join("out")).unwrap();
        fs::write(given.join("out/prog"), "one").unwrap();
        let text = given.display().to_string();
        let taken = with(&["out/prog"], &work, |shop| shop.reference(&text)).unwrap();
        assert_eq!(
            fs::read_to_string(taken.directory.join("prog")).unwrap(),
            "one"
        );
        // A package has its files side by side.
        fs::rename(given.join("out/prog"), given.join("prog")).unwrap();
        let taken = with(&["out/prog"], &work, |shop| shop.candidate(Some(&text))).unwrap();
        assert_eq!(
            fs::read_to_string(taken.directory.join("prog")).unwrap(),
            "one"
        );
        let program = given.join("prog").display().to_string();
        assert!(with(&["out/prog"], &work, |shop| shop.reference(&program)).is_ok());
        let refused = with(&["a", "b"], &work, |shop| shop.reference(&program)).unwrap_err();
        assert!(refused.text().contains("expected a directory"), "{refused}");
    }

    #[test]
    fn what_is_neither_file_nor_commit_is_refused() {
        let place = tempfile::tempdir().unwrap();
        for against in ["no-such-branch-of-ours", "--upload-pack=x"] {
            let refused = with(&["x"], place.path(), |shop| shop.reference(against)).unwrap_err();
            assert!(refused.text().contains("expected a program"), "{refused}");
            assert_eq!(refused.code, CliExitCode::Usage);
        }
    }
}
