//! Edits of rulesets: changes of the meaning must be found, and confirmed by the kernel; others
//! must be proven equal.

use std::collections::BTreeMap;
use std::fmt;

use weir_diagram::{
    CompareOptions, ComparedPath, ComparisonVerdict, StatefulTestPairing, compare_firewalls,
};
use weir_model::{Family, Firewall, Packet};
use weir_semantics::{AlwaysFalseOracle, Interpreter, JourneyKind, Oracle, RuleAnswersTrueOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::random_ruleset::{
    TestRng, make_meaning_preserving_edit, make_probably_meaning_changing_edit,
};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};
use weir_verify::{VerifyOptions, verify};

/// Edits that are tried for one that is wanted.
const TRIES: usize = 400;
/// Packets that look for a witness, for each way and ruleset.
const PACKETS: usize = 1_500;

/// A ruleset to be edited.
pub struct Source {
    pub name: String,
    pub text: String,
    pub family: Family,
}

/// The result of many edits.
#[derive(Default)]
pub struct Tally {
    /// Edits for which the interpreter has a witness.
    pub semantic: usize,
    /// Of these, found by the diagrams.
    pub found: usize,
    /// Of these, with a packet for which the kernel did what the interpreter says, before and
    /// after.
    pub confirmed: usize,
    /// Why the kernel could not be tested, or what it did instead.
    pub unconfirmed: BTreeMap<String, usize>,
    /// Edits that keep the meaning.
    pub neutral: usize,
    /// Of these, proven equal.
    pub equal: usize,
    /// Edits by kind.
    pub kinds: BTreeMap<String, usize>,
    /// What went wrong, with the edit.
    pub wrong: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "semantic edits: {} of {} found", self.found, self.semantic)?;
        writeln!(f, "  packets confirmed by the kernel: {} of {}", self.confirmed, self.found)?;
        for (cause, n) in &self.unconfirmed {
            writeln!(f, "  not confirmed: {n}: {cause}")?;
        }
        writeln!(f, "neutral edits: {} of {} proven equal", self.equal, self.neutral)?;
        for (kind, n) in &self.kinds {
            writeln!(f, "  {n} {kind}")?;
        }
        for wrong in &self.wrong {
            writeln!(f, "wrong: {wrong}")?;
        }
        Ok(())
    }
}

/// The ruleset of a text; `None` if the edit made it one that iptables refuses.
pub fn read(text: &str, family: Family) -> Option<Firewall> {
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    let ruleset = parse(text, &options).ok()?;
    Some(match family {
        Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
        Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
    })
}

/// How two texts are compared.
pub fn options() -> CompareOptions {
    CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        regions_max: 1,
        ..CompareOptions::default()
    }
}

/// Makes edits of both kinds, `count` of each, over the sources in turn.
pub fn edits(sources: &[Source], count: usize, seed: u64) -> Tally {
    let mut rng = TestRng::new(seed);
    let mut tally = Tally::default();
    let mut tries = 0;
    while (tally.semantic < count || tally.neutral < count) && tries < count * TRIES {
        let source = &sources[tries % sources.len()];
        tries += 1;
        let before = read(&source.text, source.family).expect("a ruleset that loads");
        if tally.semantic < count
            && let Some(edit) = make_probably_meaning_changing_edit(&source.text, &mut rng)
            && let Some(after) = read(&edit.edited_text, source.family)
            && has_witness(&before, &after, source.family, tries as u64)
        {
            tally.note(&edit.description);
            let what = format!("{}: {}", source.name, edit.description);
            semantic(&mut tally, &before, &after, &what);
        }
        if tally.neutral < count
            && let Some(edit) = make_meaning_preserving_edit(&source.text, &mut rng)
            && let Some(after) = read(&edit.edited_text, source.family)
        {
            tally.note(&edit.description);
            tally.neutral += 1;
            let comparison =
                compare_firewalls(&before, &after, &options()).expect("no mistake of weir's");
            if comparison.is_equal() {
                tally.equal += 1;
            } else {
                tally.wrong.push(format!("{}: not equal: {}", source.name, edit.description));
            }
        }
    }
    tally
}

impl Tally {
    fn note(&mut self, what: &str) {
        let kind = what.split(':').next().unwrap_or_default();
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
    }
}

/// Whether some packet reaches another end, or has other effects, by the interpreter.
fn has_witness(before: &Firewall, after: &Firewall, family: Family, seed: u64) -> bool {
    let (old, new) = (Interpreter::new(before), Interpreter::new(after));
    [before, after].into_iter().any(|of| {
        let Some(ruleset) = of.ruleset(family) else { return false };
        JourneyKind::ALL.into_iter().any(|entry| {
            let wish = TrafficOptions {
                seed,
                max_packets: PACKETS,
                journey_kind: entry,
                ..TrafficOptions::default()
            };
            generate_boundary_and_random_packets(ruleset, &[], &wish).iter().any(|packet| {
                let mut all: [Box<dyn Oracle>; 2] =
                    [Box::new(RuleAnswersTrueOracle), Box::new(AlwaysFalseOracle)];
                all.iter_mut().any(|answers| {
                    let a = old.evaluate_journey(packet, entry, answers.as_mut());
                    let b = new.evaluate_journey(packet, entry, answers.as_mut());
                    (a.verdict, &a.effects) != (b.verdict, &b.effects)
                })
            })
        })
    })
}

fn semantic(tally: &mut Tally, before: &Firewall, after: &Firewall, what: &str) {
    tally.semantic += 1;
    let comparison = compare_firewalls(before, after, &options()).expect("no mistake of weir's");
    let Some((part, differs)) = comparison.differences().next() else {
        if comparison.reassembly_differences().next().is_some() {
            tally.found += 1;
            *tally.unconfirmed.entry("only fragments differ".to_owned()).or_default() += 1;
            return;
        }
        let why = comparison.parts.iter().find_map(|p| match &p.verdict {
            ComparisonVerdict::Undecided { why } => Some(why.clone()),
            _ => None,
        });
        tally.wrong.push(format!("{what}: not found ({})", why.unwrap_or_default()));
        return;
    };
    tally.found += 1;
    let ComparedPath::WholeJourney(entry) = part.path else { return };
    match confirm([before, after], entry, &differs.witness.packet) {
        Ok(()) => tally.confirmed += 1,
        Err(cause) => *tally.unconfirmed.entry(cause).or_default() += 1,
    }
}

/// Sends the packet through the kernel by both rulesets: each must do what the interpreter says.
fn confirm(both: [&Firewall; 2], entry: JourneyKind, packet: &Packet) -> Result<(), String> {
    if packet.mark != 0 && entry != JourneyKind::Output {
        return Err("nobody marks a packet before the first hook".to_owned());
    }
    for firewall in both {
        let only = Some(vec![(entry, packet.clone())]);
        let options = VerifyOptions { exact_packets: only, ..VerifyOptions::default() };
        let report =
            verify(firewall, &[], &options, &mut |_, _| {}).map_err(|e| format!("verify: {e}"))?;
        if !report.has_no_unintended_difference() {
            return Err(format!("the kernel differs from the interpreter: {report}"));
        }
        if report.compared == 0 {
            let cause = report.excluded.keys().next().cloned();
            return Err(cause.unwrap_or_else(|| "not sent".to_owned()));
        }
    }
    Ok(())
}
