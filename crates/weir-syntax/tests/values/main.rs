//! A printed value loads to the same bytes as the original value.
//!
//! For each option with a unit, a scale, a range or rounding, values over its whole range are
//! loaded twice: as written, and as weir prints them. The reference is the table in the kernel,
//! because `iptables-save` rounds in places. Values that weir refuses must be refused by the tool
//! or the kernel.

#[path = "../loaded/mod.rs"]
mod loaded;
mod subjects;
mod words;

use std::fmt::Write as _;

use loaded::{Kernel, Loaded};
use subjects::{Subject, subjects};
use weir_model::Family;
use weir_syntax::iptables::extension_descriptions::describe_extensions;
use weir_syntax::iptables::{ParserSettings, parse, print};
use weir_testkit::option_samples::read_all_option_samples;
use weir_testkit::random_ruleset::TestRng;

/// Values of each option.
const VALUES: usize = 160;
/// Refused values of each option that the tool is asked about, one by one.
const REFUSED: usize = 12;
const SEED: u64 = 0x1f;

fn section(table: &str, rules: &[String]) -> String {
    let mut out = format!("*{table}\n:user - [0:0]\n");
    for rule in rules {
        let _ = writeln!(out, "{rule}");
    }
    out.push_str("COMMIT\n");
    out
}

fn reads(family: Family, text: &str) -> Result<String, String> {
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    match parse(text, &options) {
        Ok(ruleset) => Ok(print(&ruleset, false)),
        Err(errors) => Err(errors[0].message.clone()),
    }
}

/// How two loads of one rule differ.
fn differing(ours: &Loaded, theirs: &Loaded, rule: &str) -> String {
    let last = |l: &Loaded| l.saved.iter().rfind(|s| s.starts_with("-A")).cloned();
    let mut out = rule.to_owned();
    if ours.saved != theirs.saved {
        let (a, b) = (last(theirs).unwrap_or_default(), last(ours).unwrap_or_default());
        let _ = write!(out, "\n    saved {a}\n    weir  {b}");
    }
    for (a, b) in ours.entries.iter().zip(&theirs.entries).filter(|(a, b)| a != b) {
        let bytes = (0..a.len().max(b.len())).filter(|i| a.get(*i) != b.get(*i));
        let _ = write!(out, "\n    bytes {:?} of the entry", bytes.collect::<Vec<_>>());
    }
    out
}

/// Loads a text into an empty table: nothing is shared with what was there before.
fn load(kernel: &Kernel, family: Family, table: &str, text: &str) -> Result<Loaded, String> {
    kernel.clear(family, table);
    kernel.load(family, table, text)
}

/// Loads rules as they are and as weir prints them; what is not the same.
fn compare(kernel: &Kernel, s: &Subject, family: Family, rules: &[String]) -> Vec<String> {
    let text = section(&s.table, rules);
    let printed = match reads(family, &text) {
        Ok(printed) => printed,
        Err(why) => return vec![format!("refused together: {why}")],
    };
    let theirs = match load(kernel, family, &s.table, &text) {
        Ok(loaded) => loaded,
        Err(why) if rules.len() == 1 => return vec![format!("the tool: {why}: {}", rules[0])],
        // One of them is refused: by halves, to name it.
        Err(_) => {
            let (a, b) = rules.split_at(rules.len() / 2);
            return [compare(kernel, s, family, a), compare(kernel, s, family, b)].concat();
        }
    };
    match load(kernel, family, &s.table, &printed) {
        Ok(ours) if ours == theirs => Vec::new(),
        Ok(ours) => match rules.len() {
            1 => vec![differing(&ours, &theirs, &rules[0])],
            _ => {
                let (a, b) = rules.split_at(rules.len() / 2);
                [compare(kernel, s, family, a), compare(kernel, s, family, b)].concat()
            }
        },
        Err(why) if rules.len() == 1 => {
            let rule = printed.lines().find(|l| l.starts_with("-A")).unwrap_or_default();
            vec![format!("{}\n    weir  {rule}\n    {why}", rules[0])]
        }
        Err(_) => {
            let (a, b) = rules.split_at(rules.len() / 2);
            [compare(kernel, s, family, a), compare(kernel, s, family, b)].concat()
        }
    }
}

/// Goes through one option; its failures.
fn check(kernel: &Kernel, s: &Subject, family: Family, rng: &mut TestRng) -> Vec<String> {
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..VALUES {
        let rule = words::expand(&s.rule, family, rng);
        match reads(family, &section(&s.table, std::slice::from_ref(&rule))) {
            Ok(_) => taken.push(rule),
            Err(why) => refused.push((rule, why)),
        }
    }
    let mut bad = compare(kernel, s, family, &taken);
    for (rule, why) in refused.iter().take(REFUSED) {
        let text = section(&s.table, std::slice::from_ref(rule));
        if load(kernel, family, &s.table, &text).is_ok() {
            bad.push(format!("weir refuses ({why}): {rule}"));
        }
    }
    println!("{family:?} {:>4} taken {:>4} refused  {}", taken.len(), refused.len(), s.rule);
    if taken.len() < VALUES / 4 {
        bad.push(format!("only {} values of {} are taken", taken.len(), s.rule));
    }
    bad
}

#[test]
fn printed_values_load_to_the_same_bytes() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let kernel = Kernel::new("values");
    let only = std::env::var("WEIR_VALUE").unwrap_or_default();
    let mut bad = Vec::new();
    for s in subjects().iter().filter(|s| s.rule.contains(&only)) {
        for family in s.families {
            // By the text: another rule does not change the values of this one.
            let mut rng = TestRng::new(
                s.rule
                    .bytes()
                    .fold(SEED, |seed, b| (seed ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)),
            );
            bad.extend(check(&kernel, s, *family, &mut rng));
            kernel.clear(*family, &s.table);
        }
    }
    assert!(bad.is_empty(), "{} values of seed {SEED:#x}:\n{}", bad.len(), bad.join("\n"));
}

/// A misspelt file or option would be a value that no test reads.
#[test]
fn option_sample_files_name_existing_modules_and_options() {
    let modules = describe_extensions();
    for (is_target, name, samples) in read_all_option_samples() {
        let own = modules.iter().filter(|m| (m.is_target, m.name) == (is_target, &*name));
        let options: Vec<_> = own.flat_map(|m| &m.options).map(|o| o.name).collect();
        assert!(!options.is_empty(), "no module {name} with options");
        for option in samples.named_options() {
            assert!(options.contains(&option), "{name} has no option {option}");
        }
    }
}

/// The control: a different rate in the kernel is detected, even if the text is almost the same.
#[test]
fn two_rates_distinct_in_the_kernel_are_distinguished() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let kernel = Kernel::new("rates");
    let loaded = |rate: &str| {
        let rule = format!("-A INPUT -m hashlimit --hashlimit-above {rate} --hashlimit-name x");
        load(&kernel, Family::V4, "filter", &section("filter", &[rule])).expect("it loads")
    };
    assert_eq!(loaded("2047kb/s"), loaded("2047kb/s"));
    assert_ne!(loaded("2047kb/s").entries, loaded("1mb/s").entries);
    // The tool prints both as 80/sec; the kernel holds 124 and 125 ticks.
    let loaded = |rate: &str| {
        let rule = format!("-A INPUT -m limit --limit {rate}");
        load(&kernel, Family::V4, "filter", &section("filter", &[rule])).expect("it loads")
    };
    assert_eq!(loaded("4838/minute").saved, loaded("80/second").saved);
    assert_ne!(loaded("4838/minute").entries, loaded("80/second").entries);
}
