//! Every ruleset of `testdata` that the tool loads: read to the model of its listing, and loaded
//! by weir to the bytes of the tool.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use weir_apply::xtables::{KernelTable, SetIndices, decode_table};
use weir_apply::{ApplyError, xtables};
use weir_model::{Family, TableName};
use weir_testkit::testdata::{testdata_files_with_extension, testdata_path};
use weir_testkit::verdict_cases::read_verdict_cases;

use crate::read::{parse_saved_table, with_counts_only};
use crate::tool_tables::{ToolTables, try_parse_ruleset};

/// Modules of `testdata` that decoder and encoder do not know.
const UNKNOWN_MODULES: &[&str] = &["IDLETIMER", "RATEEST", "TCPOPTSTRIP", "cluster", "mh"];

struct RulesetText {
    name: String,
    family: Family,
    rules: String,
    sets: String,
}

fn read_ruleset_texts() -> Vec<RulesetText> {
    let mut texts = Vec::new();
    for path in testdata_files_with_extension("syntax", "txt") {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let Some((rules, _)) = text.split_once("---\n") else { continue };
        if name.starts_with("ipset_") || name.starts_with("nft_") {
            continue;
        }
        let family = if name.starts_with("v6_") { Family::V6 } else { Family::V4 };
        let (rules, sets) = (rules.to_owned(), String::new());
        texts.push(RulesetText { name, family, rules, sets });
    }
    for case in read_verdict_cases(&testdata_path("verdicts")) {
        let family = if case.family == "v6" { Family::V6 } else { Family::V4 };
        let (name, rules, sets) = (case.name, case.rules, case.sets);
        texts.push(RulesetText { name, family, rules, sets });
    }
    texts
}

impl ToolTables {
    pub fn restore_sets(&self, text: &str) {
        use std::io::Write as _;
        for arguments in [&["flush"][..], &["destroy"], &["restore"]] {
            let mut command = self.namespace.command("ipset");
            command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().expect("the tool is installed");
            let mut stdin = child.stdin.take().expect("standard input is a pipe");
            if arguments[0] == "restore" {
                stdin.write_all(text.as_bytes()).expect("the tool reads");
            }
            drop(stdin);
            child.wait().expect("the tool ends");
        }
    }

    /// Empties all tables, so that no rule holds a set.
    fn empty_tables(&self, family: Family) {
        for name in TableName::ALL {
            let mut text = format!("*{name}\n");
            for hook in name.hooks() {
                text.push_str(&format!(":{} ACCEPT [0:0]\n", hook.chain_name()));
            }
            text.push_str("COMMIT\n");
            self.load_by_tool(family, name.as_str(), &text).expect("an empty table");
        }
    }
}

#[test]
fn testdata_rulesets_decode_as_listed_and_load_like_iptables_restore() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("applytestdata");
    let mut unknown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut compared_tables = 0;
    for text in read_ruleset_texts() {
        let family = text.family;
        tables.empty_tables(family);
        tables.restore_sets(&text.sets);
        // Some cases have modules that this kernel or tool does not have.
        let Ok(parsed) = try_parse_ruleset(family, &text.rules) else { continue };
        if tables.load_by_tool(family, "filter", &text.rules).is_err() {
            continue;
        }
        let socket = tables.socket(family);
        let mut listings = Vec::new();
        for table in &parsed.tables {
            let name = table.name;
            listings.push(tables.list(family, name.as_str()));
            let kernel_table = KernelTable::read(&socket, name).expect("a table");
            match decode_table(&kernel_table, &SetIndices::of_socket(&socket)) {
                Ok(decoded) => {
                    let listed = parse_saved_table(&tables, family, name.as_str());
                    // The listing omits a test of no device, and the end of a range of ICMP codes.
                    let expected = if decoded == listed { listed } else { with_counts_only(table) };
                    assert_eq!(decoded, expected, "{}\n{}", text.name, text.rules);
                }
                Err(ApplyError::UndecodedExtension { extension, .. }) => {
                    unknown.entry(extension.name).or_default().insert(text.name.clone());
                }
                Err(e) => panic!("{}: {e}\n{}", text.name, text.rules),
            }
        }
        tables.empty_tables(family);
        for (table, theirs) in parsed.tables.iter().zip(listings) {
            let name = table.name;
            match xtables::load_table(&socket, table) {
                Ok(_) => {
                    let ours = tables.list(family, name.as_str());
                    assert_eq!(ours.saved, theirs.saved, "{}\n{}", text.name, text.rules);
                    // `-i +` tests nothing; the tool stores the `+` under an empty mask. Of
                    // addresses of these matches it fills bytes that IPv4 does not use.
                    let unused = ["-i + ", "-m recent", "-m connlimit", "--ctorigdst"];
                    let may_differ = unused.iter().any(|words| text.rules.contains(words));
                    let same = ours.entries == theirs.entries || may_differ;
                    assert!(same, "{}\n{}", text.name, text.rules);
                    compared_tables += 1;
                }
                Err(ApplyError::UnsupportedExtension { extension_text: extension, .. }) => {
                    let module = extension.split_ascii_whitespace().nth(1).unwrap_or_default();
                    unknown.entry(module.to_owned()).or_default().insert(text.name.clone());
                }
                Err(e) => panic!("{}: {e}\n{}", text.name, text.rules),
            }
        }
    }
    assert!(compared_tables > 90, "{compared_tables} tables");
    let names: Vec<&str> = unknown.keys().map(String::as_str).collect();
    assert_eq!(names, UNKNOWN_MODULES, "{unknown:#?}, {compared_tables} tables were compared");
}
