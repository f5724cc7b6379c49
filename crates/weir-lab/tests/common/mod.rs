//! Helpers for small studies in several tests.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use weir_lab::execute_study;
use weir_lab::{LabError, StudyRunOptions};
use weir_stats::RunRecord;

/// A UDP packet from `source`, at least as long as Ethernet wants it.
pub fn frame(source: Ipv4Addr) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    bytes.extend_from_slice(&[0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes.extend_from_slice(&source.octets());
    bytes.extend_from_slice(&[198, 51, 100, 2, 0x30, 0x39, 0, 53, 0, 26, 0, 0]);
    bytes.resize(60, 0);
    bytes
}

/// What `COUNT_DROPS` stands for in a subject: the packets that a rule dropped.
const COUNT_DROPS: &str = r#"count = '''
iptables-legacy-save -c | tr ':[]' '   ' | awk '/ -j DROP$/ { n += $1 } END { print "dropped " n + 0 }'
'''"#;

/// What `ANY_NOISE` stands for in a study: no trial is disturbed, none is repeated.
const ANY_NOISE: &str = "[noise]
spin_ratio = 1000
steal = 1
switches = 1000000
psi = 100
repeats = 0";

/// Writes a study, named `inner` in a new folder `name`, with its subjects next to it; `FOLDER` in
/// its text becomes that folder's path.
pub fn study(name: &str, inner: &str, subjects: &str, text: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    let inner = folder.join(inner);
    fs::create_dir_all(&inner).unwrap();
    let subjects = subjects.replace("COUNT_DROPS", COUNT_DROPS);
    fs::write(folder.join("subjects.toml"), subjects).unwrap();
    let text = text.replace("FOLDER", &folder.display().to_string());
    let text = text.replace("ANY_NOISE", ANY_NOISE);
    fs::write(inner.join("study.toml"), text).unwrap();
    inner
}

pub fn options() -> StudyRunOptions {
    StudyRunOptions {
        preset: "tiny".to_owned(),
        weir_version: "0".to_owned(),
        command: "weir lab run /somewhere/today-small -o /elsewhere/run".to_owned(),
        ..StudyRunOptions::default()
    }
}

/// Runs a study; its records lie next to it.
pub fn run_study(study: &Path) -> Result<RunRecord, LabError> {
    execute_study(study, &study.with_file_name("records"), &options(), &mut |_| ())
}
