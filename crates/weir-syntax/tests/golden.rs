//! `testdata/syntax`: texts and what they are printed as. `testdata/errors`: texts and the errors
//! reported for them. The prefix of a file name gives the tool: `v6_…`, `ipset_…`, `nft_…`,
//! otherwise iptables.

use std::path::Path;

use weir_model::Family;
use weir_syntax::iptables::{ParserSettings, parse, print};
use weir_syntax::{Diagnostic, ipset, nft, render_diagnostics};
use weir_testkit::testdata;

const CUT: &str = "\n---\n";

/// The printed form of a text, or its errors.
fn read(name: &str, text: &str) -> Result<String, Vec<Diagnostic>> {
    if name.starts_with("ipset_") {
        return ipset::parse(text).map(|sets| ipset::print(&sets));
    }
    if name.starts_with("nft_") {
        return nft::parse(text).map(|ruleset| format!("{ruleset:?}"));
    }
    let family = if name.starts_with("v6_") { Family::V6 } else { Family::V4 };
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    parse(text, &options).map(|ruleset| print(&ruleset, false))
}

/// Compares what `made` makes of each case with what is after its cut.
fn check(folder: &str, made: impl Fn(&str, &str) -> String) {
    let mut changed = Vec::new();
    for file in testdata::testdata_files_with_extension(folder, "txt") {
        let name = file.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let case = std::fs::read_to_string(&file).expect("read the case");
        let (text, expected) = match case.split_once(CUT) {
            Some((text, expected)) => (format!("{text}\n"), expected),
            None => (case.clone(), ""),
        };
        let got = made(&name, &text);
        if got != expected {
            bless(&file, &text, &got);
            changed.push(format!("{name}:\n{got}"));
        }
    }
    assert!(changed.is_empty(), "changed, `cargo xtask bless` keeps it:\n{}", changed.join("\n"));
}

fn bless(file: &Path, text: &str, got: &str) {
    if weir_testkit::is_blessing_golden_files() {
        std::fs::write(file, format!("{}{CUT}{got}", text.trim_end_matches('\n')))
            .expect("bless the case");
    }
}

#[test]
fn rulesets_are_printed_as_the_tools_list_them() {
    check("syntax", |name, text| match read(name, text) {
        Ok(printed) => {
            let again = read(name, &printed);
            assert_eq!(again.as_deref(), Ok(printed.as_str()), "{name} is read back the same");
            printed
        }
        Err(errors) => panic!("{}", render_diagnostics(&errors, name, text, false)),
    });
}

#[test]
fn errors_are_rendered_with_span_and_help() {
    check("errors", |name, text| match read(name, text) {
        Ok(_) => panic!("{name} holds no error"),
        Err(errors) => {
            let drawn = render_diagnostics(&errors, name, text, false);
            assert_eq!(drawn.matches("-->").count(), errors.len(), "{name}: each has its place");
            assert_eq!(drawn.matches("help: ").count(), errors.len(), "{name}: each has help");
            drawn
        }
    });
}
