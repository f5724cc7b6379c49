//! `testdata/backends/nft`: rulesets, and the nft text that they compile to; nft must accept it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use weir_backends::{CompileOptions, nft};
use weir_model::{Family, Firewall};
use weir_syntax::iptables::{self, ParserSettings};
use weir_testkit::testdata;

const CUT: &str = "\n---\n";

fn compiled(text: &str) -> String {
    let ruleset = match iptables::parse(text, &ParserSettings::default()) {
        Ok(ruleset) => ruleset,
        Err(d) => panic!("{}", weir_syntax::render_diagnostics(&d, "case", text, false)),
    };
    let firewall = match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    };
    let options = CompileOptions { check_packets_per_family: 5000, ..CompileOptions::default() };
    nft::compile_nft_form_without_passes(&firewall, &options, &mut |_, _| {})
        .unwrap_or_else(|e| panic!("{e}"))
        .nft_text
}

/// What `nft -c -f -` says in its own network namespace; `None` if it takes the text.
fn refusal_of_nft(text: &str) -> Option<String> {
    let mut nft = Command::new("unshare")
        .args(["--net", "nft", "-c", "-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run unshare (util-linux) and nft (nftables)");
    let mut input = nft.stdin.take().expect("its input is a pipe");
    input.write_all(text.as_bytes()).expect("nft reads all of its input");
    drop(input);
    let done = nft.wait_with_output().expect("nft ends");
    (!done.status.success()).then(|| String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn rulesets_compile_to_their_golden_nft_text() {
    let files = testdata::testdata_files_with_extension("backends/nft", "txt");
    assert!(files.len() >= 10, "the cases are there");
    let mut changed = Vec::new();
    for file in files {
        let case = std::fs::read_to_string(&file).expect("read the case");
        let (rules, expected) = case.split_once(CUT).unwrap_or((case.trim_end(), ""));
        let text = compiled(&format!("{rules}\n"));
        if let Some(why) = refusal_of_nft(&text) {
            panic!("{}: nft refuses it: {why}\n{text}", file.display());
        }
        if text != expected {
            changed.push(file.display().to_string());
            if weir_testkit::is_blessing_golden_files() {
                std::fs::write(&file, format!("{rules}{CUT}{text}")).expect("bless the case");
            }
        }
    }
    assert!(
        changed.is_empty() || weir_testkit::is_blessing_golden_files(),
        "{changed:#?} became something else"
    );
}

#[test]
fn nft_refuses_invalid_text() {
    assert_eq!(refusal_of_nft("table ip t {\n}\n"), None);
    assert!(refusal_of_nft("table ip t {\n\tchain reject {\n\t}\n}\n").is_some());
}
