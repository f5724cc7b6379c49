//! The kernel log, read from `/dev/kmsg`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

/// The kernel's log from now on.
pub(crate) struct KernelLog(Option<File>);

impl KernelLog {
    /// Begins at its end; without the right to read it, it stays empty.
    pub(crate) fn open_at_end() -> KernelLog {
        let open = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let mut log = KernelLog(open.ok());
        log.drain_log_keeping_first_lines(0);
        log
    }

    /// Lines since the last call, the first `most` of them.
    pub(crate) fn drain_log_keeping_first_lines(&mut self, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(file) = &mut self.0 else { return lines };
        let mut record = [0; 8192];
        loop {
            match file.read(&mut record) {
                Ok(0) => return lines,
                Ok(length) if lines.len() < most => {
                    lines.extend(parse_kmsg_message(&String::from_utf8_lossy(&record[..length])));
                }
                Ok(_) => {}
                // Records were overwritten before they were read: continue with the next one.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => return lines,
            }
        }
    }
}

/// The text of a record of `/dev/kmsg`: `level,sequence,time,flags;text`, then key=value lines.
fn parse_kmsg_message(record: &str) -> Option<String> {
    let (_, text) = record.split_once(';')?;
    Some(text.lines().next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kmsg_record_is_parsed_to_its_message() {
        assert_eq!(
            parse_kmsg_message("6,1,2,-;eth0: up\n SUBSYSTEM=net\n").as_deref(),
            Some("eth0: up")
        );
    }
}
