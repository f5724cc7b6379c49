//! Published rulesets against themselves and against edits of themselves. Needs root.
//!
//! `WEIR_EDITS` and `WEIR_SEED` say how many edits of each kind, and which.

mod edited;

use std::time::Instant;

use edited::{Source, edits, options, read};
use weir_semantics::diagram::compare;
use weir_syntax::iptables::guess_family;
use weir_testkit::data;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The files that iptables takes.
fn sources() -> Vec<Source> {
    let folder = data::corpus();
    let files = ["iptables", "ip6tables", "loadable"].map(|e| data::files_in(&folder, e)).concat();
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
        let comparison = compare(&firewall, &firewall.clone(), &options()).expect("no mistake");
        println!("{} {:.2} s", source.name, began.elapsed().as_secs_f64());
        if !comparison.is_equal() {
            wrong.push(format!("{}: {comparison:?}", source.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn edits_that_change_the_meaning_are_found_and_others_are_equal() {
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
