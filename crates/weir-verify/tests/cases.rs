//! Every case of `testdata/verdicts` in the kernel: legacy iptables, and every form that can be
//! written, do what `docs/semantics.md` says. Needs root.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use weir_backends::{CompileOptions, CompiledForm, compile, write_artefact};
use weir_model::{Family, Firewall};
use weir_semantics::JourneyKind;
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::packet::parse_packet;
use weir_testkit::verdict_cases::{RulesetWithPacketCases, read_verdict_cases};
use weir_testkit::{TempFolder, skip_without_root};
use weir_verify::{VerifyError, VerifyOptions, VerifyReport, verify};

fn firewall(case: &RulesetWithPacketCases) -> Firewall {
    let family = if case.family == "v6" { Family::V6 } else { Family::V4 };
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    let ruleset = parse(&case.rules, &options).expect("the rules of a case are read");
    let sets = weir_syntax::ipset::parse(&case.sets).expect("the sets of a case are read");
    match family {
        Family::V4 => Firewall { v4: Some(ruleset), v6: None, sets },
        Family::V6 => Firewall { v4: None, v6: Some(ruleset), sets },
    }
}

/// The forms of a case that can be written, each in a folder below `dir`.
fn forms(case: &RulesetWithPacketCases, firewall: &Firewall, dir: &Path) -> Vec<PathBuf> {
    let options = CompileOptions { check_packets_per_family: 200, ..CompileOptions::default() };
    let write = |form: CompiledForm| {
        let artefact = compile(firewall, form, &options, &mut |_, _| {}).ok()?;
        let dir = dir.join(case.name.replace('/', "-")).join(form.as_str());
        write_artefact(&artefact, &dir).expect("an artefact is written");
        Some(dir)
    };
    [CompiledForm::Tree, CompiledForm::Ipset, CompiledForm::Nft]
        .into_iter()
        .filter_map(write)
        .collect()
}

fn run(
    case: &RulesetWithPacketCases,
    firewall: &Firewall,
    dirs: &[PathBuf],
) -> Result<VerifyReport, VerifyError> {
    let packets = case.packet.iter().map(|sent| {
        let entry = match sent.entry.as_str() {
            "forward" => JourneyKind::Forward,
            "input" => JourneyKind::Input,
            _ => JourneyKind::Output,
        };
        (entry, parse_packet(&sent.words).expect("a packet in words"))
    });
    let options =
        VerifyOptions { exact_packets: Some(packets.collect()), ..VerifyOptions::default() };
    let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    verify(firewall, &dirs, &options, &mut |_, _| {})
}

#[test]
fn the_kernel_agrees_with_the_verdict_cases_in_every_form() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("cases");
    let (mut compared, mut sent) = (0, 0);
    let mut by_form: BTreeMap<String, u64> = BTreeMap::new();
    let mut excluded: BTreeMap<String, u64> = BTreeMap::new();
    let mut failed = Vec::new();
    for case in read_verdict_cases(&weir_testkit::testdata::testdata_path("verdicts")) {
        let firewall = firewall(&case);
        let dirs = forms(&case, &firewall, folder.path());
        sent += case.packet.len() as u64;
        let report = match run(&case, &firewall, &dirs) {
            Ok(report) => report,
            // The interpreter decides the packets of this case, but the kernel does not load its
            // ruleset.
            Err(VerifyError::LoadRuleset { way, source }) if way == "linear" => {
                eprintln!("{}: {source}", case.name);
                let cause = "a ruleset that iptables does not load".to_owned();
                *excluded.entry(cause).or_default() += case.packet.len() as u64;
                continue;
            }
            Err(why) => panic!("{}: {why}", case.name),
        };
        if !report.has_no_unintended_difference() {
            failed.push(format!("{}\n{report}", case.name));
        }
        let occurred: BTreeSet<&str> =
            report.ways.iter().flat_map(|way| way.named.keys().map(String::as_str)).collect();
        let cited: BTreeSet<&str> = case.shown_deviation_ids.iter().map(String::as_str).collect();
        if occurred != cited {
            failed.push(format!("{}: cites {cited:?}, has {occurred:?}", case.name));
        }
        compared += report.compared;
        for way in &report.ways {
            *by_form.entry(way.name.clone()).or_default() += way.compared;
        }
        for (cause, packets) in report.excluded {
            eprintln!("{}: {packets} not compared: {cause}", case.name);
            *excluded.entry(cause).or_default() += packets;
        }
    }
    eprintln!("{compared} of {sent} packets, by form {by_form:?}, not compared {excluded:?}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(compared + excluded.values().sum::<u64>(), sent, "every packet has its place");
    assert!(compared * 10 >= sent * 8, "most packets can be sent: {excluded:?}");
}
