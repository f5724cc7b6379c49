//! The interpreter on the cases of `testdata/verdicts`.

use weir_model::{Family, Field, Firewall, Packet, target_effects};
use weir_semantics::{
    CountedObject, CounterHitWithCredit, Interpreter, JourneyKind, Oracle, OracleQuestion, Outcome,
    Verdict,
};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::packet::parse_packet;
use weir_testkit::verdict_cases::{PacketCase, RulesetWithPacketCases, read_verdict_cases};

struct Says(bool);

impl Oracle for Says {
    fn match_holds_or_target_ends_traversal(&mut self, _: &OracleQuestion<'_>) -> bool {
        self.0
    }
}

/// Every case, and what is wrong in it.
fn failures(cases: &[RulesetWithPacketCases]) -> Vec<String> {
    let mut out = Vec::new();
    for case in cases {
        let firewall = match firewall(case) {
            Ok(firewall) => firewall,
            Err(why) => {
                out.push(format!("{}: {why}", case.name));
                continue;
            }
        };
        let interpreter = Interpreter::new(&firewall);
        for (sent, n) in case.packet.iter().zip(1..) {
            if let Err(why) = check(&firewall, &interpreter, sent) {
                out.push(format!("{}, packet {n} ({}):\n  {why}", case.name, sent.words));
            }
        }
    }
    out
}

fn firewall(case: &RulesetWithPacketCases) -> Result<Firewall, String> {
    let family = if case.family == "v6" { Family::V6 } else { Family::V4 };
    let sets = weir_syntax::ipset::parse(&case.sets);
    let sets = sets.map_err(|e| format!("{e:?}"))?;
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    let ruleset = parse(&case.rules, &options);
    let ruleset = ruleset.map_err(|e| format!("{e:?}"))?;
    Ok(match family {
        Family::V4 => Firewall { v4: Some(ruleset), v6: None, sets },
        Family::V6 => Firewall { v4: None, v6: Some(ruleset), sets },
    })
}

fn check(
    firewall: &Firewall,
    interpreter: &Interpreter<'_>,
    sent: &PacketCase,
) -> Result<(), String> {
    let packet = parse_packet(&sent.words).map_err(|e| e.to_string())?;
    let entry = match sent.entry.as_str() {
        "forward" => JourneyKind::Forward,
        "input" => JourneyKind::Input,
        "output" => JourneyKind::Output,
        other => return Err(format!("no entry {other}")),
    };
    let outcome = interpreter.evaluate_journey(&packet, entry, &mut Says(sent.answer));
    let verdict = verdict_word(outcome.verdict);
    same("verdict", &verdict, &sent.verdict.as_str())?;
    if let Some(hits) = &sent.hits {
        let seen: Vec<String> = outcome.hits.iter().map(|h| hit_word(firewall, h)).collect();
        same("hits", &seen, hits)?;
    }
    if let Some(effects) = &sent.targets_with_effect {
        same("effects", &effect_words(&outcome), effects)?;
    }
    if let Some(tried) = sent.tried {
        same("tried", &outcome.rules_tried, &tried)?;
    }
    match &sent.leaves {
        Some(words) => leaves(&outcome, words),
        None => Ok(()),
    }
}

/// The words said again over the packet that left change nothing in it.
fn leaves(outcome: &Outcome<'_>, words: &str) -> Result<(), String> {
    let (said, bare) = (parse_packet(words), parse_packet(""));
    let (said, bare) = (said.map_err(|e| e.to_string())?, bare.map_err(|e| e.to_string())?);
    let left = &outcome.packet;
    let word = |name, is: String, want: String, usual: String| match want == usual || want == is {
        true => Ok(()),
        false => Err(format!("{name} left as {is}, not {want}")),
    };
    macro_rules! fields {
        ($($field:ident).+) => {{
            let name = stringify!($($field).+);
            let show = |p: &Packet| format!("{:?}", p.$($field).+);
            word(name, show(left), show(&said), show(&bare))?;
        }};
    }
    for field in Field::freely_settable_number_fields().chain([Field::Saddr, Field::Daddr]) {
        let show = |p: &Packet| field.display_value(field.read_or_zero(p), p.family);
        word(field.row().name, show(left), show(&said), show(&bare))?;
    }
    fields!(ct.state);
    fields!(ct.mark);
    fields!(ct.snat);
    fields!(ct.dnat);
    if said.ports() != bare.ports() && said.ports() != left.ports() {
        return Err(format!("ports left as {:?}, not {:?}", left.ports(), said.ports()));
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, want: &T) -> Result<(), String> {
    if is == want { Ok(()) } else { Err(format!("{what}: {is:?}, not {want:?}")) }
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accept => "accept",
        Verdict::Drop => "drop",
        Verdict::Reject(_) => "reject",
        Verdict::Divert(_) => "divert",
        Verdict::Unknown => "unknown",
        Verdict::Expired => "expired",
        Verdict::HeldForReassembly => "waits",
    }
}

/// The place, or `set/NAME/NUMBER` with the element's number from 1.
fn hit_word(firewall: &Firewall, hit: &CounterHitWithCredit<'_>) -> String {
    if let Some(id) = hit.rule_or_policy_id(Family::V4) {
        return id.path_in_family();
    }
    let CountedObject::IpsetElement { set, element } = hit.counted_object else {
        return String::new();
    };
    let elements = firewall.find_set(set).map_or(&[][..], |s| &s.elements[..]);
    let number = elements.iter().position(|e| std::ptr::eq(e, element));
    format!("set/{set}/{}", number.map_or(0, |i| i + 1))
}

fn effect_words(outcome: &Outcome<'_>) -> Vec<String> {
    outcome.effects.iter().map(|e| target_effects(e.target).name.to_owned()).collect()
}

#[test]
fn every_case_holds() {
    let cases = read_verdict_cases(&weir_testkit::testdata::testdata_path("verdicts"));
    let failures = failures(&cases);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_case_fails_with_another_verdict() {
    let mut cases = read_verdict_cases(&weir_testkit::testdata::testdata_path("verdicts"));
    let packets: usize = cases.iter().map(|c| c.packet.len()).sum();
    for sent in cases.iter_mut().flat_map(|c| &mut c.packet) {
        sent.verdict = if sent.verdict == "drop" { "accept" } else { "drop" }.to_owned();
    }
    assert_eq!(failures(&cases).len(), packets);
}
