// SPDX-License-Identifier: Apache-2.0
//! The certificate of a disk: a folder with a file for each check of a cut, and their page.

use super::target::LedgerTargetSpec;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_console::terminal;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::ledger::{LedgerCertificate, LedgerCheck, LedgerCut};
use plimsoll_machine::host::{facts, medium};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Largest file of a check.
const CHECK_MAX: u64 = 1 << 20;
/// Most checks of a certificate.
const CHECKS_MAX: usize = 10_000;

/// A folder of checks.
pub(super) struct CertificateFolder {
    folder: PathBuf,
    earlier: Vec<LedgerCut>,
    cut: LedgerCut,
}

impl CertificateFolder {
    /// Reads the folder, before anything is checked.
    ///
    /// # Errors
    /// When nothing was cut, or the folder has checks of another disk.
    pub(super) fn open(
        folder: &Path,
        ledger: &Path,
        target: &LedgerTargetSpec,
    ) -> Result<Self, CliError> {
        let (campaign, is_cut) = plimsoll_ledger::ending(ledger).map_err(super::failure)?;
        if !is_cut {
            let text = format!(
                "{}: its writer ended in good order, so there was no power cut to certify",
                ledger.display()
            );
            return Err(CliError::invalid(text)
                .hint("run `plimsoll ledger write --until-death`, and cut the power"));
        }
        let disks = medium::below(Path::new(&target.given)).disks;
        let cut = LedgerCut {
            format: FormatVersion::LEDGER,
            ledger: campaign.id,
            target: target.given.clone(),
            disks: disks
                .iter()
                .map(|name| medium::disk_identity(name))
                .collect(),
            durability: campaign.durability.to_string(),
            kernel: facts::machine().kernel,
            checked_at: jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string(),
            check: LedgerCheck::default(),
        };
        let read = CertificateFolder {
            folder: folder.to_path_buf(),
            earlier: read(folder)?,
            cut,
        };
        read.certificate()?;
        Ok(read)
    }

    fn certificate(&self) -> Result<LedgerCertificate, CliError> {
        let all = self.earlier.iter().chain([&self.cut]).cloned().collect();
        LedgerCertificate::of(all).map_err(|why| {
            CliError::invalid(format!("--certificate {}: {why}", self.folder.display()))
                .hint("give each disk a folder")
        })
    }

    /// Adds a check, writes the page, and tells the sentence.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(super) fn add(mut self, check: &LedgerCheck) -> Result<(), CliError> {
        self.cut.check = check.clone();
        let report = plimsoll_report::certificate(&self.certificate()?);
        let text = serde_json::to_string_pretty(&self.cut).unwrap_or_default();
        fs::create_dir_all(&self.folder).map_err(writing(&self.folder))?;
        let number = self.earlier.len() + 1;
        let page = self.folder.join("certificate.html");
        let files = [
            (self.folder.join(format!("check-{number}.json")), text),
            (page.clone(), plimsoll_report::html(&report)),
        ];
        for (path, bytes) in files {
            plimsoll_archive::write_result(&path, bytes).map_err(writing(&path))?;
        }
        terminal::say(&format!(
            "{}\nCertificate: {}",
            report.answer.text,
            page.display()
        ));
        Ok(())
    }
}

fn writing<E: std::error::Error + Send + Sync + 'static>(
    path: &Path,
) -> impl FnOnce(E) -> CliError {
    doing(CliExitCode::Failed, format!("write {}", path.display()))
}

/// The checks of a folder in their order; none where it is not there.
fn read(folder: &Path) -> Result<Vec<LedgerCut>, CliError> {
    let mut checks = Vec::new();
    for number in 1..=CHECKS_MAX {
        let path = folder.join(format!("check-{number}.json"));
        let wrong = |why: &dyn std::fmt::Display| {
            CliError::invalid(format!("read {}: {why}", path.display()))
        };
        let text = match plimsoll_archive::read_result(&path, CHECK_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            read => read.map_err(|error| wrong(&error))?,
        };
        checks.push(serde_json::from_str(&text).map_err(|error| wrong(&error))?);
    }
    Ok(checks)
}
