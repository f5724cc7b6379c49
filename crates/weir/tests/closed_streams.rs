//! A reader that goes away (`weir … | head`) changes no exit status of a command whose answer it
//! still has.

use std::process::{Command, Stdio};

use weir_testkit::TempFolder;

#[test]
fn a_closed_standard_error_does_not_change_the_exit_status() {
    let folder = TempFolder::new("closed-streams");
    let missing = folder.path().join("missing.rules");
    let exit_code = |standard_error: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("check").arg(&missing).stderr(standard_error);
        command.status().expect("weir runs").code()
    };
    assert_eq!(exit_code(Stdio::null()), Some(2));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(exit_code(writer.into()), Some(2));
}
