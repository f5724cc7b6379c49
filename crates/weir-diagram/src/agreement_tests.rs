//! Diagrams against the interpreter: the same outcome for every packet, whatever the oracle
//! answers.

mod guarded_chain_agreement_tests;
pub(crate) mod lockstep_agreement_tests;
pub(crate) mod lockstep_ipset_agreement_tests;
pub(crate) mod sequence_agreement_tests;
pub(crate) mod slice_agreement_tests;

mod question_seeded_oracle;
mod random_rulesets;

use std::collections::HashMap;

use weir_model::target::NatTarget;
use weir_model::{Family, Firewall, Hook, Match, Packet};
use weir_semantics::question_digest::{digest_debug_text, digest_existing_nat_question};
use weir_semantics::{Interpreter, JourneyKind, Oracle, Verdict};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::random_ruleset::TestRng;
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

use self::question_seeded_oracle::{
    FIELDS_KEPT_BY_UNKNOWN_TARGET, QuestionSeededOracle, extract_nat_range_and_device_flag,
};
use self::random_rulesets::RANDOM_MATCHES;
pub(crate) use self::random_rulesets::{IPSET_SAVE_TEXT, generate_random_ruleset};
use crate::bdd::node_store::DiagramRef;
use crate::compared_ruleset::{ComparedRuleset, list_journey_stages};
use crate::comparison_types::{CompareLevel, ComparedPath, StatefulTestPairing};
use crate::packet_sets::free_variable::{FieldBit, FreeVariable, UndeterminedTargetBit};
use crate::packet_sets::packet_bit_codec::{FieldBitAssignment, decode_packet, encode_packet};
use crate::packet_sets::packet_space::{PacketSpace, PacketSpaceOptions};
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::terminal::RuleExit;
use crate::stateful_test_id::StatefulTestIdResolver;

/// The results of both for a packet.
#[derive(Debug, PartialEq)]
struct VerdictEffectsAndQuestions {
    verdict: Verdict,
    effects: Vec<(Hook, weir_model::TableName, u64)>,
    stateful_questions: Vec<(u64, u64)>,
}

struct InterpreterAgreement<'f> {
    context: DiagramContext<'f>,
    interpreter: Interpreter<'f>,
    state_ids: StatefulTestIdResolver,
    nat_targets: Vec<&'f NatTarget>,
    path_diagrams: Vec<(ComparedPath, DiagramRef)>,
}

impl<'f> InterpreterAgreement<'f> {
    fn new(firewall: &'f Firewall, family: Family) -> Self {
        let space = PacketSpace::for_firewalls(family, &[firewall], PacketSpaceOptions::default())
            .expect("room");
        let mut context = DiagramContext::new(space);
        let state_ids = StatefulTestIdResolver::new(firewall, StatefulTestPairing::ByCredit);
        let side = ComparedRuleset::new(firewall, family, 0, state_ids.clone(), false);
        let entries = JourneyKind::ALL.map(ComparedPath::WholeJourney);
        let hooks = [Hook::Prerouting, Hook::Forward, Hook::Output, Hook::Postrouting];
        let ways = entries.into_iter().chain(hooks.map(ComparedPath::Hook)).map(|path| {
            let from = context.space.store.node_count();
            let pieces = list_journey_stages(path, std::slice::from_ref(&side));
            let mut live_diagrams = Vec::new();
            for piece in &pieces {
                let made = context.build_stage(&side, *piece, &mut live_diagrams, from);
                live_diagrams.push(made.expect("a diagram"));
            }
            let made = context
                .compose_stages((path, &pieces), None, &mut live_diagrams, from)
                .expect("a diagram");
            (
                path,
                context.convert_terminals_to_outcomes(made, CompareLevel::Effects).expect("room"),
            )
        });
        let ways = ways.collect();
        let rules =
            firewall.ruleset(family).into_iter().flat_map(|r| r.rules_with_table_and_chain());
        let translations = rules.filter_map(|(_, _, rule)| match &rule.target {
            weir_model::Target::Nat(nat) => Some(&**nat),
            _ => None,
        });
        let translations = translations.collect();
        InterpreterAgreement {
            context,
            interpreter: Interpreter::new(firewall),
            state_ids,
            nat_targets: translations,
            path_diagrams: ways,
        }
    }

    fn outcome_by_interpreter(
        &self,
        path: ComparedPath,
        packet: &Packet,
        seed: u64,
    ) -> VerdictEffectsAndQuestions {
        let mut answers = QuestionSeededOracle::new(seed, self.state_ids.clone());
        let outcome = match path {
            ComparedPath::WholeJourney(entry) => {
                self.interpreter.evaluate_journey(packet, entry, &mut answers)
            }
            ComparedPath::Hook(hook) => self.interpreter.traverse_hook(packet, hook, &mut answers),
            ComparedPath::ReassembledInput => {
                self.interpreter.traverse_hook(packet, Hook::Input, &mut answers)
            }
        };
        let effects =
            outcome.effects.iter().map(|e| (e.hook, e.table, digest_debug_text(e.target)));
        VerdictEffectsAndQuestions {
            verdict: outcome.verdict,
            effects: effects.collect(),
            stateful_questions: answers.stateful_questions,
        }
    }

    fn outcome_by_diagram_if_encodable(
        &self,
        diagram: DiagramRef,
        packet: &Packet,
        seed: u64,
    ) -> Option<VerdictEffectsAndQuestions> {
        let space = &self.context.space;
        let bits = encode_packet(&space.layout, packet)?;
        let answers = QuestionSeededOracle::new(seed, self.state_ids.clone());
        // What a target keeps depends on the changes before it. The leaf tells those, and the
        // questions up to a target do not depend on what it writes: each walk settles one more.
        let mut asked = 0;
        let terminal = loop {
            let mut answer = |variable, _: Option<&Match>| {
                self.answer_free_variable(&answers, &bits, asked, variable)
            };
            let leaf = space.evaluate_diagram(diagram, &bits, &mut answer);
            let terminal = self.context.terminals.terminal_of_leaf(leaf);
            if terminal.stateful_questions == asked {
                break terminal;
            }
            asked = terminal.stateful_questions;
        };
        let RuleExit::Verdict(verdict) = terminal.exit else { panic!("no end: {terminal:?}") };
        let effects = self.context.terminals.list_effects(terminal.effects);
        let asked = self.context.terminals.list_questions(terminal.stateful_questions);
        let asked = asked.iter().map(|a| (a.state_id, a.content_digest)).collect();
        Some(VerdictEffectsAndQuestions { verdict, effects, stateful_questions: asked })
    }

    fn answer_free_variable(
        &self,
        answers: &QuestionSeededOracle,
        bits: &FieldBitAssignment,
        asked: u32,
        variable: FreeVariable,
    ) -> bool {
        let changed_bits = |change| self.bits_after_change(answers, bits, asked, change);
        let changed = |change| decode_packet(&self.context.space.layout, &changed_bits(change));
        match variable {
            FreeVariable::StatelessTest { content_digest, hook, change } => {
                answers.stateless_answer(content_digest, hook.expect("a hook"), &changed(change))
            }
            FreeVariable::StatefulTest { state_id, content_digest, nth, .. } => {
                answers.stateful_answer_by_occurrence(state_id, content_digest, nth)
            }
            FreeVariable::StatefulTargetBit {
                state_id,
                content_digest,
                nth,
                bit: FieldBit(field, bit),
                ..
            } if FIELDS_KEPT_BY_UNKNOWN_TARGET.contains(&field) => {
                let reached = self.context.terminals.list_questions(asked).iter();
                let mut reached = reached
                    .filter(|a| (a.state_id, a.content_digest) == (state_id, content_digest));
                let change = reached.nth(nth as usize).map_or(0, |ask| ask.state_input.change);
                let levels = self.context.space.layout.field_levels(field);
                changed_bits(change).value(levels) >> bit & 1 == 1
            }
            FreeVariable::StatefulTargetBit {
                state_id,
                content_digest,
                nth,
                bit: FieldBit(field, bit),
                ..
            } => answers.stateful_write_value(state_id, content_digest, nth, field) >> bit & 1 == 1,
            FreeVariable::StatelessTargetBit {
                content_digest,
                hook,
                change,
                bit: UndeterminedTargetBit::OtherFieldBit(FieldBit(field, bit)),
            } => {
                answers.stateless_write_value(content_digest, hook, &changed(change), field) >> bit
                    & 1
                    == 1
            }
            FreeVariable::StatelessTargetBit { content_digest, hook, change, bit }
                if content_digest == digest_existing_nat_question() =>
            {
                existing_nat_bit(answers, hook, &changed(change), bit)
            }
            FreeVariable::StatelessTargetBit { content_digest: digest, hook, change, bit } => {
                let packet = changed(change);
                let target = self.nat_targets.iter().find(|t| digest_debug_text(**t) == digest);
                let (range, device) =
                    extract_nat_range_and_device_flag(target.expect("its target"))
                        .expect("a range");
                let (addr, port) = answers.nat_choice(digest, hook, &packet, range, device);
                let (old, old_port) = (packet.daddr, packet.ports().map(|p| p.1));
                match bit {
                    UndeterminedTargetBit::AddrBit(bit) => addr.0 >> bit & 1 == 1,
                    UndeterminedTargetBit::PortBit(bit) => port.is_some_and(|p| p >> bit & 1 == 1),
                    UndeterminedTargetBit::NatChangedPacket => {
                        addr != old || port.is_some() && port != old_port
                    }
                    UndeterminedTargetBit::OtherFieldBit(_) => unreachable!("handled above"),
                }
            }
        }
    }

    /// The packet's bits after a change. What was changed before may depend on what a translation
    /// chose.
    fn bits_after_change(
        &self,
        answers: &QuestionSeededOracle,
        bits: &FieldBitAssignment,
        asked: u32,
        change: u32,
    ) -> FieldBitAssignment {
        let space = &self.context.space;
        let fields_end = space.layout.fields_end;
        let mut chosen = HashMap::new();
        for source in self.context.terminals.get_change(change).bit_sources.values() {
            for level in source.xor_levels.iter().filter(|l| **l >= fields_end) {
                let number = level - fields_end;
                let (variable, _) = space.free_variables.get(number).expect("a question");
                let answer = self.answer_free_variable(answers, bits, asked, *variable);
                chosen.insert(*variable, answer);
            }
        }
        self.context.assignment_after_change(bits, change, &chosen)
    }

    /// Number of packets that were compared, on all paths.
    fn assert_agreement_and_count(&self, sent: &[Packet], seeds: u64, name: &str) -> usize {
        let mut compared = 0;
        for packet in sent {
            for (way, diagram) in &self.path_diagrams {
                for seed in 0..seeds {
                    let Some(found) = self.outcome_by_diagram_if_encodable(*diagram, packet, seed)
                    else {
                        continue;
                    };
                    let want = self.outcome_by_interpreter(*way, packet, seed);
                    // Whether more fragments follow is not a variable.
                    if want.verdict == Verdict::HeldForReassembly && packet.fragment.offset == 0 {
                        continue;
                    }
                    assert_eq!(found, want, "{name}, {way:?}, seed {seed}\n{packet:?}");
                    compared += 1;
                }
            }
        }
        compared
    }
}

/// A bit of the mapping that an existing connection has.
fn existing_nat_bit(
    answers: &QuestionSeededOracle,
    hook: Hook,
    packet: &Packet,
    bit: UndeterminedTargetBit,
) -> bool {
    let mapping = answers.clone().existing_nat_destination(hook, packet);
    let (addr, port) = mapping.expect("an answer");
    match bit {
        UndeterminedTargetBit::AddrBit(bit) => addr.0 >> bit & 1 == 1,
        UndeterminedTargetBit::PortBit(bit) => port.is_some_and(|p| p >> bit & 1 == 1),
        UndeterminedTargetBit::NatChangedPacket | UndeterminedTargetBit::OtherFieldBit(_) => {
            unreachable!("only addresses and ports")
        }
    }
}

fn parse_firewall(rules: &str, sets: &str, family: Family) -> Firewall {
    let sets = weir_syntax::ipset::parse(sets).expect("good sets");
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    let ruleset = match parse(rules, &options) {
        Ok(ruleset) => ruleset,
        Err(e) => panic!("{e:?}\n{rules}"),
    };
    match family {
        Family::V4 => Firewall { v4: Some(ruleset), v6: None, sets },
        Family::V6 => Firewall { v4: None, v6: Some(ruleset), sets },
    }
}

/// Packets on and around the edges of the rules, on all entries.
fn generate_boundary_packets(firewall: &Firewall, count: usize, seed: u64) -> Vec<Packet> {
    let ruleset = firewall.rulesets().next().expect("a ruleset");
    let of = |entry| {
        let options = TrafficOptions {
            journey_kind: entry,
            max_packets: count,
            seed,
            ..TrafficOptions::default()
        };
        generate_boundary_and_random_packets(ruleset, &firewall.sets, &options)
    };
    JourneyKind::ALL.into_iter().flat_map(of).collect()
}

#[test]
fn diagrams_agree_with_the_interpreter_on_all_verdict_cases() {
    let mut compared = 0;
    for case in weir_testkit::verdict_cases::read_verdict_cases(
        &weir_testkit::testdata::testdata_path("verdicts"),
    ) {
        let family = if case.family == "v6" { Family::V6 } else { Family::V4 };
        let firewall = parse_firewall(&case.rules, &case.sets, family);
        let agreement = InterpreterAgreement::new(&firewall, family);
        let mut all = generate_boundary_packets(&firewall, 60, 1);
        let said = |p: &weir_testkit::verdict_cases::PacketCase| {
            weir_syntax::packet::parse_packet(&p.words)
        };
        all.extend(case.packet.iter().map(|p| said(p).expect("good words")));
        compared += agreement.assert_agreement_and_count(&all, 2, &case.name);
    }
    assert!(compared > 50_000, "{compared} packets were compared");
}

#[test]
fn diagrams_agree_with_the_interpreter_on_conntrack_states_after_nfqueue() {
    let text = "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j NOTRACK\nCOMMIT\n\
                *filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j NFQUEUE\nCOMMIT\n\
                *mangle\n:POSTROUTING ACCEPT [0:0]\n\
                -A POSTROUTING -m conntrack --ctstate NEW -j LOG\nCOMMIT\n";
    let firewall = parse_firewall(text, "", Family::V4);
    let agreement = InterpreterAgreement::new(&firewall, Family::V4);
    let compared =
        agreement.assert_agreement_and_count(&generate_boundary_packets(&firewall, 20, 1), 4, text);
    assert!(compared > 200, "{compared} packets were compared");
}

#[test]
fn diagrams_agree_with_the_interpreter_on_random_rulesets() {
    let (mut compared, mut skipped) = (0, 0);
    for seed in 0..120 {
        let text = generate_random_ruleset(seed);
        let options = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
        if parse(&text, &options).is_err() {
            // The kernel does not accept this target here; use the next seed.
            skipped += 1;
            continue;
        }
        let firewall = parse_firewall(&text, IPSET_SAVE_TEXT, Family::V4);
        let agreement = InterpreterAgreement::new(&firewall, Family::V4);
        let all = generate_boundary_packets(&firewall, 25, seed);
        compared += agreement.assert_agreement_and_count(&all, 2, &format!("seed {seed}:\n{text}"));
    }
    assert!(skipped < 60, "{skipped} of 120 rulesets could not be read");
    assert!(compared > 20_000, "{compared} packets were compared");
}

#[test]
fn diagrams_agree_with_the_interpreter_after_unknown_targets() {
    const UNKNOWN_AND_KNOWN_TARGETS: [&str; 7] = [
        "-j UNKNOWN --option",
        "-j UNKNOWN --option",
        "-j OTHER --option",
        "-j ACCEPT",
        "-j DROP",
        "-j RETURN",
        "-j LOG",
    ];
    let mut compared = 0;
    for seed in 0..40 {
        let mut rng = TestRng::new(seed);
        let mut text = "*filter\n:FORWARD ACCEPT [0:0]\n:sub - [0:0]\n".to_owned();
        for (chain, rules) in [("FORWARD", 5), ("sub", 3)] {
            for _ in 0..rules {
                let to = if chain == "FORWARD" && rng.number_below(4) == 0 { "-j sub" } else { "" };
                let target = if to.is_empty() { rng.pick(&UNKNOWN_AND_KNOWN_TARGETS) } else { to };
                text += &format!("-A {chain} {} {target}\n", rng.pick(&RANDOM_MATCHES));
            }
        }
        let firewall = parse_firewall(&(text.clone() + "COMMIT\n"), IPSET_SAVE_TEXT, Family::V4);
        let agreement = InterpreterAgreement::new(&firewall, Family::V4);
        let sent = generate_boundary_packets(&firewall, 40, seed);
        compared +=
            agreement.assert_agreement_and_count(&sent, 3, &format!("seed {seed}:\n{text}"));
    }
    assert!(compared > 10_000, "{compared} packets were compared");
}

#[test]
fn diagrams_agree_with_the_interpreter_on_address_lists() {
    const TARGETS: [&str; 9] = [
        "-j ACCEPT",
        "-j ACCEPT",
        "-j DROP",
        "-j DROP",
        "-j RETURN",
        "-j sub",
        "-g sub",
        "-j LOG",
        "-j MARK --set-xmark 0x1/0x1",
    ];
    let mut compared = 0;
    for seed in 0..60 {
        let mut rng = TestRng::new(seed);
        // Few addresses, so that prefixes repeat and nest; in every second ruleset they do not.
        let apart = seed % 2 == 0;
        let mut list = String::new();
        for n in 0..24 {
            let side = rng.pick(&["-s", "-s", "-s", "-d"]);
            let (third, len) = match apart {
                true => (n, 24),
                false => (rng.number_below(4), 22 + rng.number_below(4)),
            };
            let target = rng.pick(&TARGETS);
            list += &format!("-A list {side} 10.0.{third}.0/{len} {target}\n");
        }
        let text = format!(
            "*mangle\n:FORWARD ACCEPT [0:0]\n:list - [0:0]\n:sub - [0:0]\n-A FORWARD -j list\n\
             -A FORWARD -m mark --mark 0x1/0x1 -j LOG --log-prefix marked\n{list}\
             -A sub -p tcp -j DROP\n-A sub -m limit --limit 5/sec -j RETURN\n\
             -A sub -j MARK --set-xmark 0x2/0x2\nCOMMIT\n"
        );
        let firewall = parse_firewall(&text, "", Family::V4);
        let agreement = InterpreterAgreement::new(&firewall, Family::V4);
        compared += agreement.assert_agreement_and_count(
            &generate_boundary_packets(&firewall, 60, seed),
            2,
            &format!("seed {seed}:\n{text}"),
        );
    }
    assert!(compared > 20_000, "{compared} packets were compared");
}
