//! One file of records, a line each: plain while its run goes on, gzip once the run is complete.
//!
//! A run that goes on appends to `trials.jsonl`, so that a kill costs one line at most. A complete
//! run keeps `trials.jsonl.gz`, a tenth of the size, which `zcat` reads. The change from one to the
//! other is a sequence of steps, each of which leaves all records readable:
//!
//! | after | plain | compressed | a reader takes |
//! |---|---|---|---|
//! | write `….gz.partial`, fsync | whole | – | plain |
//! | rename it, fsync the folder | whole | whole | neither: [`RecordError::BothFormsExist`]; [`RecordFile::compress`] goes on |
//! | remove the plain file | – | whole | compressed |

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::error::RecordError;

/// The most that a compressed file may hold, bytes: a hundred times the largest run that is kept.
const MAX_DECOMPRESSED_BYTES: u64 = 256 << 20;

/// A file of records in a run's folder, in either form.
pub(crate) struct RecordFile {
    plain_path: PathBuf,
    compressed_path: PathBuf,
    max_text_bytes: u64,
}

/// The text of a file of records.
pub(crate) struct RecordText {
    /// The file that it was read from.
    pub(crate) path: PathBuf,
    /// All of it.
    pub(crate) text: String,
}

impl RecordFile {
    /// The file `name` (the name of the plain one) in `dir`.
    pub(crate) fn new(dir: &Path, name: &str) -> RecordFile {
        let plain = dir.join(name);
        RecordFile {
            compressed_path: path_with_suffix(&plain, ".gz"),
            plain_path: plain,
            max_text_bytes: MAX_DECOMPRESSED_BYTES,
        }
    }

    /// Whether it is there in any form.
    pub(crate) fn exists(&self) -> bool {
        self.plain_path.exists() || self.compressed_path.exists()
    }

    /// Its text, whichever form it has.
    ///
    /// # Errors
    /// Neither form is there, both are, or the file cannot be read.
    pub(crate) fn read_sole_form(&self) -> Result<RecordText, RecordError> {
        if self.plain_path.exists() && self.compressed_path.exists() {
            return Err(self.both_forms_exist_error());
        }
        self.read_preferring_plain()
    }

    /// Its text while a run may go on: when the run completes, both forms are there for a moment
    /// and hold the same.
    ///
    /// # Errors
    /// Neither form is there, or the file cannot be read.
    pub(crate) fn read_preferring_plain(&self) -> Result<RecordText, RecordError> {
        // In this order: the compressed file is there before the plain one goes.
        match fs::read_to_string(&self.plain_path) {
            Ok(text) => Ok(RecordText { path: self.plain_path.clone(), text }),
            Err(error) if error.kind() == ErrorKind::NotFound && self.compressed_path.exists() => {
                let path = self.compressed_path.clone();
                Ok(RecordText { text: self.read_compressed()?, path })
            }
            Err(error) => Err(file_access_error("read", &self.plain_path)(error)),
        }
    }

    /// Adds values, a line each, in one piece.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn append_json_lines<T: Serialize>(&self, values: &[T]) -> Result<(), RecordError> {
        let failed = file_access_error("write", &self.plain_path);
        let mut lines = String::new();
        for value in values {
            let line = serde_json::to_string(value).map_err(|source| RecordError::InvalidJson {
                path: self.plain_path.clone(),
                line: 0,
                source,
            })?;
            lines.push_str(&line);
            lines.push('\n');
        }
        let options = File::options().create(true).append(true).open(&self.plain_path);
        options.and_then(|mut file| file.write_all(lines.as_bytes())).map_err(failed)
    }

    /// Removes what follows the last whole line of the plain file.
    ///
    /// # Errors
    /// The file cannot be read or cut.
    pub(crate) fn cut_partial_line(&self) -> Result<(), RecordError> {
        let text =
            fs::read(&self.plain_path).map_err(file_access_error("read", &self.plain_path))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole == text.len() {
            return Ok(());
        }
        let file = File::options().write(true).open(&self.plain_path);
        file.and_then(|file| file.set_len(whole as u64))
            .map_err(file_access_error("cut", &self.plain_path))
    }

    /// Leaves the compressed file in place of the plain one, and goes on where that was
    /// interrupted. A file of which a reader would refuse the compressed form stays plain.
    ///
    /// # Errors
    /// A file cannot be read or written; both forms are there and hold different records.
    pub(crate) fn compress(&self) -> Result<(), RecordError> {
        let text = match fs::read(&self.plain_path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            read => read.map_err(file_access_error("read", &self.plain_path))?,
        };
        if self.compressed_path.exists() {
            if self.read_compressed()?.as_bytes() != text {
                return Err(self.both_forms_exist_error());
            }
        } else if text.len() as u64 <= self.max_text_bytes {
            write_file_durably(&self.compressed_path, &gzip(&text))?;
        } else {
            return Ok(());
        }
        remove_file_durably(&self.plain_path)
    }

    /// Leaves the plain file in place of the compressed one, so that a run can go on.
    ///
    /// # Errors
    /// As [`RecordFile::compress`].
    pub(crate) fn expand_to_plain(&self) -> Result<(), RecordError> {
        if !self.compressed_path.exists() {
            return Ok(());
        }
        let text = self.read_compressed()?;
        match fs::read(&self.plain_path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                write_file_durably(&self.plain_path, text.as_bytes())?;
            }
            Ok(plain) if plain == text.as_bytes() => (),
            Ok(_) => return Err(self.both_forms_exist_error()),
            Err(error) => return Err(file_access_error("read", &self.plain_path)(error)),
        }
        remove_file_durably(&self.compressed_path)
    }

    fn read_compressed(&self) -> Result<String, RecordError> {
        let path = &self.compressed_path;
        let file = File::open(path).map_err(file_access_error("read", path))?;
        let mut text = String::new();
        let read = MultiGzDecoder::new(io::BufReader::new(file))
            .take(self.max_text_bytes + 1)
            .read_to_string(&mut text)
            .map_err(file_access_error("decompress", path))?;
        if read as u64 > self.max_text_bytes {
            return Err(RecordError::DecompressedTooLarge {
                path: path.clone(),
                limit: self.max_text_bytes,
            });
        }
        Ok(text)
    }

    fn both_forms_exist_error(&self) -> RecordError {
        let (plain, compressed) = (self.plain_path.clone(), self.compressed_path.clone());
        RecordError::BothFormsExist { plain, compressed }
    }
}

/// The same text gives the same bytes: no name, no time.
fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let whole = encoder.write_all(text).and_then(|()| encoder.finish());
    whole.expect("writing to memory cannot fail")
}

/// Writes a file that is there either whole or not at all, also after a power failure.
fn write_file_durably(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let partial = path_with_suffix(path, ".partial");
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(file_access_error("write", &partial))?;
    fs::rename(&partial, path).map_err(file_access_error("write", path))?;
    sync_parent_folder(path)
}

fn remove_file_durably(path: &Path) -> Result<(), RecordError> {
    fs::remove_file(path).map_err(file_access_error("remove", path))?;
    sync_parent_folder(path)
}

/// Makes a rename or a removal of `path` durable.
fn sync_parent_folder(path: &Path) -> Result<(), RecordError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder).and_then(|file| file.sync_all()).map_err(file_access_error("write", folder))
}

fn path_with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn file_access_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> RecordError + 'a {
    move |source| RecordError::FileAccess { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
