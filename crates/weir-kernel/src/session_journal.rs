//! The durable half of a session: its record, which is on disk before anything that it names is
//! made.
//!
//! This is all that a reaper ever sees of a session. It knows nothing of what lives as long as the
//! process ([`crate::live_session`]).

use std::fs;
use std::sync::{Mutex, MutexGuard};

use crate::KernelError;
use crate::session_record::{SessionOwner, SessionRecord};

/// The record of a session that lives, and its file.
#[derive(Debug)]
pub(crate) struct SessionJournal {
    record: Mutex<SessionRecord>,
}

impl SessionJournal {
    /// Writes the first record of a session, which has made nothing, and makes its folder.
    pub(crate) fn begin(
        run: &str,
        owner: SessionOwner,
        boot: &str,
    ) -> Result<SessionJournal, KernelError> {
        let record = SessionRecord::new(run.to_owned(), owner, Some(boot));
        record.write()?;
        let own = SessionRecord::session_directory(run);
        fs::create_dir_all(&own).map_err(KernelError::io_at_path("create", &own))?;
        Ok(SessionJournal { record: Mutex::new(record) })
    }

    /// Changes the record and writes it; what it names is made afterwards.
    pub(crate) fn update_record(
        &self,
        f: impl FnOnce(&mut SessionRecord),
    ) -> Result<(), KernelError> {
        let mut record = self.lock_record();
        f(&mut record);
        record.write()
    }

    /// The record as it was written last.
    pub(crate) fn current_record(&self) -> SessionRecord {
        self.lock_record().clone()
    }

    fn lock_record(&self) -> MutexGuard<'_, SessionRecord> {
        self.record.lock().unwrap_or_else(|e| e.into_inner())
    }
}
