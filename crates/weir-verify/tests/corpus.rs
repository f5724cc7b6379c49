//! Published rulesets compared with themselves, with edits and with the results of passes. Needs
//! root.
//!
//! `WEIR_EDITS` and `WEIR_SEED` set the number of edits of each kind, and their seed.

mod edited;
mod passes;

use std::time::Instant;

use edited::{Source, edits, options, read};
use passes::Table;
use weir_diagram::compare_firewalls;
use weir_example::{IspOptions, generate_isp_ruleset};
use weir_model::{Family, Firewall};
use weir_syntax::ipset;
use weir_syntax::iptables::{ParserSettings, guess_family, parse};
use weir_testkit::testdata;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The files that iptables takes.
fn sources() -> Vec<Source> {
    let folder = testdata::corpus_folder_from_env();
    let files = ["iptables", "ip6tables", "loadable"]
        .map(|e| testdata::files_with_extension(&folder, e))
        .concat();
    let mut sources = Vec::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let family = guess_family(&text);
        if read(&text, family).is_some() {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            sources.push(Source { name, text, family });
        }
    }
    assert!(!sources.is_empty(), "no ruleset in {}", folder.display());
    sources
}

#[test]
fn every_file_is_equal_to_itself() {
    let mut wrong = Vec::new();
    for source in sources() {
        let firewall = read(&source.text, source.family).expect("it was read before");
        let began = Instant::now();
        let comparison =
            compare_firewalls(&firewall, &firewall.clone(), &options()).expect("no mistake");
        println!("{} {:.2} s", source.name, began.elapsed().as_secs_f64());
        if !comparison.is_equal() {
            wrong.push(format!("{}: {comparison:?}", source.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn meaning_changing_edits_are_found_and_neutral_ones_are_equal() {
    let (count, seed) = (number("WEIR_EDITS", 200) as usize, number("WEIR_SEED", 1));
    let all = sources();
    // Larger files take as long as all others together.
    let rules = |s: &Source| s.text.lines().filter(|l| l.starts_with("-A")).count();
    let sources: Vec<Source> = all.into_iter().filter(|s| (1..1_500).contains(&rules(s))).collect();
    let tally = edits(&sources, count, seed);
    println!("{} files\n{tally}", sources.len());
    assert!(tally.wrong.is_empty(), "{tally}");
    assert_eq!((tally.found, tally.equal), (count, count));
    assert!(tally.confirmed * 10 >= tally.found * 9, "{tally}");
}

/// The access network of the demo.
fn demo() -> Firewall {
    let example = generate_isp_ruleset(&IspOptions::default());
    let sets = example.ipset.map(|text| ipset::parse(&text).expect("sets that load"));
    let both = [(Family::V4, &example.v4), (Family::V6, &example.v6)].map(|(family, text)| {
        let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
        Some(parse(text, &options).expect("rules that load"))
    });
    let [v4, v6] = both;
    Firewall { v4, v6, sets: sets.unwrap_or_default() }
}

#[test]
fn all_passes_preserve_meaning_and_the_kernel_agrees() {
    let mut table = Table::new("files");
    for source in sources() {
        let firewall = read(&source.text, source.family).expect("it was read before");
        let began = Instant::now();
        table.check_each(&source.name, &firewall);
        table.check_all(&source.name, &firewall);
        let checked = began.elapsed().as_secs_f64();
        table.load(&source.name, &firewall);
        let all = began.elapsed().as_secs_f64();
        println!("{}: {checked:.1} s checked, {all:.1} s in all", source.name);
    }
    println!("{table}");
    assert!(table.wrong.is_empty(), "{}", table.wrong.join("\n"));
}

#[test]
fn all_passes_preserve_the_demo_network_and_the_kernel_agrees() {
    let (mut table, firewall) = (Table::new("demo"), demo());
    table.check_all("the demo's network", &firewall);
    println!("{table}");
    table.load("the demo's network", &firewall);
    println!("{table}");
    assert!(table.wrong.is_empty(), "{}", table.wrong.join("\n"));
}
