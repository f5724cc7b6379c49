//! The results of each pass for its cases in `testdata/passes`, in the kernel. Needs root.

use std::path::{Path, PathBuf};

use weir_backends::{CompileError, CompileOptions, CompiledForm, compile, write_artefact};
use weir_model::Firewall;
use weir_passes::{CostModel, passes};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::{TempFolder, skip_without_root, testdata};
use weir_verify::{VerifyOptions, VerifyReport, verify};

/// A model in which every pass pays for few rules, as in the cases.
fn eager() -> CostModel {
    CostModel { check_ns: 10.0, jump_ns: 10.0, set_ns: 10.0, probe_ns: 1.0, ..Default::default() }
}

/// Cases of a pass.
fn cases(pass: &str) -> Vec<PathBuf> {
    testdata::testdata_files_with_extension(&format!("passes/{pass}"), "txt")
}

fn firewall(case: &Path) -> Firewall {
    let text = std::fs::read_to_string(case).expect("read the case");
    let rules = text.split("\n---\n").next().expect("the rules come first");
    let v4 = parse(&format!("{rules}\n"), &ParserSettings::default()).expect("the case is read");
    Firewall { v4: Some(v4), ..Firewall::default() }
}

/// The forms of a case, made by one pass alone: iptables, and nft after it. None where the pass
/// changes nothing.
fn forms(firewall: &Firewall, pass: &str, folder: &Path) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for (form, names) in [
        (CompiledForm::Ipset, vec![pass]),
        (CompiledForm::Nft, vec![pass, passes::FOLD_INTO_VERDICT_MAP_PASS_NAME]),
    ] {
        if form == CompiledForm::Nft && pass == "fold_into_set" {
            continue;
        }
        let options = CompileOptions {
            cost: eager(),
            passes: Some(names.into_iter().map(str::to_owned).collect()),
            allow_counter_loss: true,
            check_packets_per_family: 2_000,
            ..CompileOptions::default()
        };
        let made = match compile(firewall, form, &options, &mut |_, _| {}) {
            Ok(made) => made,
            Err(CompileError::Unsupported { .. }) => continue,
            Err(error) => panic!("{pass} {form}: {error}"),
        };
        if made.manifest.checked.passes[0].evidence
            == weir_artefact::PassEqualityEvidence::Unchanged
        {
            return Vec::new();
        }
        dirs.push(folder.join(form.as_str()));
        write_artefact(&made, &dirs[dirs.len() - 1]).expect("the artefact is written");
    }
    dirs
}

fn through_the_kernel(firewall: &Firewall, dirs: &[PathBuf]) -> VerifyReport {
    let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    let options =
        VerifyOptions { packet_count: 1_500, single_packets_max: 40, ..VerifyOptions::default() };
    verify(firewall, &dirs, &options, &mut |_, _| {}).expect("the forms load")
}

#[test]
fn the_kernel_agrees_with_the_result_of_each_pass() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("passes");
    for pass in passes::ALL_PASSES {
        let (name, mut loaded) = (pass.name(), 0);
        for case in cases(name) {
            let firewall = firewall(&case);
            let dirs = forms(&firewall, name, folder.path());
            if dirs.is_empty() {
                continue;
            }
            loaded += 1;
            let report = through_the_kernel(&firewall, &dirs);
            assert!(report.has_no_unintended_difference(), "{name} {}: {report}", case.display());
            assert!(report.compared >= 500, "{name} {}: {report}", case.display());
            let apart: u64 = report.ways[1].named.values().sum();
            let is_apart = matches!(name, "early_drop" | "notrack");
            assert_eq!(apart > 0, is_apart, "{name} {}: {report}", case.display());
        }
        assert!(loaded > 0, "{name} is loaded for one case at least");
    }
}

/// Changes a file of an artefact, which must hold what is to be changed.
fn change(dir: &Path, file: &str, from: &str, to: &str) {
    let path = dir.join(file);
    let text = std::fs::read_to_string(&path).expect("read the file");
    assert!(text.contains(from), "{from} is not in {text}");
    std::fs::write(path, text.replacen(from, to, 1)).expect("write the file");
}

fn of(rules: &str) -> Firewall {
    let v4 = parse(rules, &ParserSettings::default()).expect("the rules are read");
    Firewall { v4: Some(v4), ..Firewall::default() }
}

#[test]
fn a_merged_rule_that_counts_too_little_is_caught() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("summed");
    let firewall = of("*filter\n:FORWARD DROP [0:0]\n-A FORWARD -s 192.0.2.0/25 -j ACCEPT\n\
        -A FORWARD -s 192.0.2.128/25 -j ACCEPT\nCOMMIT\n");
    let dirs = forms(&firewall, "merge_adjacent", folder.path());
    assert!(through_the_kernel(&firewall, &dirs).has_no_unintended_difference());
    // The verdict is the same, and the sum is not.
    let rule = "-A FORWARD -s 192.0.2.0/24 -j ACCEPT\n";
    change(&dirs[0], "iptables.rules", ":FORWARD DROP", ":FORWARD ACCEPT");
    change(&dirs[0], "iptables.rules", rule, "-A FORWARD -s 192.0.2.0/25 -j ACCEPT\n");
    let report = through_the_kernel(&firewall, &dirs);
    assert!(!report.has_no_unintended_difference(), "{report}");
    assert!(
        report.ways[1].packets_with_counter_difference + report.ways[1].verdict_differences > 0
    );
}

#[test]
fn an_early_drop_of_too_many_packets_is_caught() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("early");
    let rules = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:black - [0:0]\n\
        -A INPUT -j black\n-A FORWARD -j black\n-A black -s 192.0.2.0/24 -p udp -j DROP\n\
        -A black -s 192.0.2.0/25\nCOMMIT\n";
    let firewall = of(rules);
    let dirs = forms(&firewall, "early_drop", folder.path());
    let report = through_the_kernel(&firewall, &dirs[..1]);
    assert!(report.has_no_unintended_difference(), "{report}");
    change(&dirs[0], "iptables.rules", "-s 192.0.2.0/24 -p udp -m ttl", "-s 192.0.2.0/24 -m ttl");
    let report = through_the_kernel(&firewall, &dirs[..1]);
    assert!(report.ways[1].verdict_differences > 0, "{report}");
}
