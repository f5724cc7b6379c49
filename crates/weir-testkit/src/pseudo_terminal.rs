//! Programs that write to a terminal.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, ExitStatus, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Runs a command whose standard output and standard error are a terminal; returns what it wrote to
/// both, in which line ends are CR and LF. Standard input is empty.
///
/// # Panics
/// If the system has no pseudo-terminal, the command does not start, or writes what is not UTF-8.
pub fn run_in_pseudo_terminal(mut command: Command) -> (ExitStatus, String) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).expect("a pseudo-terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("its other end");
    let name = ptsname(&terminal, Vec::new()).expect("its name");
    let open = || {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        Stdio::from(rustix::fs::open(&name, flags, Mode::empty()).expect("its other end"))
    };
    command.stdin(Stdio::null()).stdout(open()).stderr(open());
    let mut child = command.spawn().expect("the command starts");
    // The command keeps its ends of the terminal open: without them, reading ends with the child.
    drop(command);
    let (mut reader, mut written) = (File::from(terminal), Vec::new());
    // A terminal that nobody has open any more ends with EIO.
    let _ = reader.read_to_end(&mut written);
    let status = child.wait().expect("the command ends");
    (status, String::from_utf8(written).expect("UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_sees_a_terminal_and_all_that_it_writes_is_returned() {
        let mut command = Command::new("sh");
        command.args(["-c", "test -t 1 && test -t 2 && seq 20000 && echo end >&2; exit 3"]);
        let (status, written) = run_in_pseudo_terminal(command);
        assert_eq!(status.code(), Some(3));
        assert!(written.starts_with("1\r\n2\r\n") && written.ends_with("20000\r\nend\r\n"));
    }
}
