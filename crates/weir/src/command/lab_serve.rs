//! `weir lab serve`: a run, or the index of studies, in a browser on this machine.
//!
//! What can be requested is a handful of files that are made here and held in memory: a request
//! names one of them or nothing, and no path of the machine is ever built from it. The listener is
//! on the loopback address alone, and requires that the browser called it by such a name, so that
//! no page of another site can read it (DNS rebinding).

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use weir_stats::run_folder;

use super::YesNoExitStatus;
use super::lab_list_and_index::{self, INDEX_FILE};
use crate::cli::LabServeArgs;
use crate::http_server::{HttpReply, HttpRequest, serve_requests};
use crate::terminal;

/// How soon the page of a run that goes on is requested again, seconds.
const RUN_IN_PROGRESS_REFRESH_SECONDS: u32 = 5;

/// Serves until Ctrl-C.
pub fn serve_pages_until_killed(args: &LabServeArgs) -> Result<YesNoExitStatus> {
    let site = Mutex::new(ServedSite::new(&args.folder)?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .with_context(|| format!("listen on 127.0.0.1:{}; --port takes another one", args.port))?;
    let address = listener.local_addr().context("ask for the port")?;
    terminal::print_escaped_if_terminal(&format!("http://{address}/ (Ctrl-C ends it)\n"))?;
    serve_requests(&listener, |request| {
        // A thread that panicked while it made pages left those of before.
        site.lock().unwrap_or_else(PoisonError::into_inner).answer_request(request)
    });
    Ok(YesNoExitStatus::Yes)
}

/// What is shown, and from where.
struct ServedSite {
    folder: PathBuf,
    is_single_run_folder: bool,
    source_file_stamps: SourceFileStamps,
    served_files: BTreeMap<String, Arc<[u8]>>,
    is_run_in_progress: bool,
}

/// Lengths and times of the files that pages are made from.
type SourceFileStamps = Vec<(PathBuf, u64, SystemTime)>;

impl ServedSite {
    fn new(folder: &Path) -> Result<ServedSite> {
        let is_single_run_folder = folder.join("run.json").is_file();
        let mut site = ServedSite {
            folder: folder.to_owned(),
            is_single_run_folder,
            source_file_stamps: SourceFileStamps::new(),
            served_files: BTreeMap::new(),
            is_run_in_progress: false,
        };
        if !is_single_run_folder && site.source_files().is_empty() {
            bail!(
                "{} is neither a run (run.json) nor a folder of studies (*/study.toml)",
                folder.display()
            );
        }
        site.rebuild_if_changed()?;
        Ok(site)
    }

    /// The files that pages are made from.
    fn source_files(&self) -> Vec<PathBuf> {
        if self.is_single_run_folder {
            return run_folder::RECORD_FILE_NAMES.map(|name| self.folder.join(name)).to_vec();
        }
        let mut found = Vec::new();
        for study in list_subfolders(&self.folder) {
            let own = ["study.toml", "claims.toml", "aa.json"].map(|name| study.join(name));
            found.extend(own.into_iter().filter(|path| path.is_file()));
            for run in list_subfolders(&study.join("runs")) {
                found.extend(run_folder::RECORD_FILE_NAMES.map(|name| run.join(name)));
            }
        }
        found
    }

    fn compute_source_file_stamps(&self) -> SourceFileStamps {
        let of = |path: PathBuf| {
            let file = fs::metadata(&path).ok()?;
            Some((path, file.len(), file.modified().ok()?))
        };
        self.source_files().into_iter().filter_map(of).collect()
    }

    /// Makes the pages again where something changed.
    fn rebuild_if_changed(&mut self) -> Result<()> {
        let stamp = self.compute_source_file_stamps();
        if stamp == self.source_file_stamps && !self.served_files.is_empty() {
            return Ok(());
        }
        if self.is_single_run_folder {
            let record = run_folder::load_record_of_run_in_progress(&self.folder)?;
            self.is_run_in_progress = !record.run.complete;
            let page = weir_report::render_page(&record, &[]).into_bytes();
            self.served_files = BTreeMap::from([(INDEX_FILE.to_owned(), page.into())]);
        } else {
            let pages = lab_list_and_index::build_index_and_linked_files(&self.folder)?.into_iter();
            self.served_files = pages.map(|(name, bytes)| (name, bytes.into())).collect();
        }
        self.source_file_stamps = stamp;
        Ok(())
    }

    /// The answer to a request.
    fn answer_request(&mut self, request: &HttpRequest<'_>) -> HttpReply {
        if !request.is_loopback_host() {
            return HttpReply::plain_text(
                "403 Forbidden",
                "use the host name 127.0.0.1 or localhost",
            );
        }
        if let Err(error) = self.rebuild_if_changed() {
            return HttpReply::plain_text("500 Internal Server Error", &format!("{error:#}"));
        }
        let name = if request.path == "/" { INDEX_FILE } else { &request.path[1..] };
        match self.served_files.get(name) {
            Some(bytes) => HttpReply {
                status: "200 OK",
                media_type: match name.ends_with(".html") {
                    true => "text/html; charset=utf-8",
                    false => "text/plain; charset=utf-8",
                },
                body: Arc::clone(bytes),
                refresh_seconds: self.is_run_in_progress.then_some(RUN_IN_PROGRESS_REFRESH_SECONDS),
            },
            None => HttpReply::plain_text("404 Not Found", "page not found"),
        }
    }
}

/// Folders in a folder; none of one that is not there.
fn list_subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}
