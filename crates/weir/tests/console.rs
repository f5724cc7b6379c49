//! The sessions of `testdata/console`, which the guide links to.

use weir_testkit::{console_session, testdata};

#[test]
fn every_console_session_prints_the_documented_output() {
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a folder");
    let failed: Vec<String> = testdata::testdata_files_with_extension("console", "md")
        .iter()
        .filter_map(|file| console_session::run_console_session(file, programs, &[]).err())
        .map(|difference| difference.to_string())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
