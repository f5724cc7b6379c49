//! Checks that the form is equal before it is written: the iptables interpreter and the nft
//! evaluator are compared hook by hook.
//!
//! At every hook that went to nft, the interpreter sends a packet through the iptables table, and
//! the evaluator sends it through the nft table. The verdict, the effects, the packet afterwards
//! and the credited original rules must be the same. A journey is a sequence of such steps, so
//! equality at every hook implies equality of the journey.
//!
//! Packets to which a deviation of the form may apply are excluded: truncated transport headers,
//! TCP fragments at offset 1, and fragments if conntrack reassembles them before any rule sees
//! them.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use weir_artefact::{CompiledForm, Deviation, EqualityCheckRecord};
use weir_model::nft::CreditedRuleOrPolicy;
use weir_model::{Effect, Family, Firewall, Hook, Packet, Ruleset, TableName, Target};
use weir_semantics::nft::{NftEvaluator, NftPacketEffect, NftWalkEnd, NftWalkResult};
use weir_semantics::{
    CountedObject, Interpreter, JourneyKind, Oracle, OracleQuestion, QuestionSubject, TraversalLog,
    Verdict,
};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

use super::nft_form::NftForm;
use crate::compile_options::{CompileError, CompileOptions, FractionDoneFn};
use crate::equivalence_check::Counterexample;

/// Compares a firewall with its nft form at every hook that went to nft.
///
/// # Errors
/// [`CompileError::NotEquivalent`] with the first packet that the two treat differently.
pub fn compare_nft_form_at_hooks(
    firewall: &Firewall,
    form: &NftForm,
    options: &CompileOptions,
    progress: &mut FractionDoneFn<'_>,
) -> Result<EqualityCheckRecord, CompileError> {
    let interpreter = Interpreter::new(firewall);
    let evaluator = NftEvaluator::new(&form.nft_ruleset);
    let both = HookComparer {
        interpreter: &interpreter,
        evaluator: &evaluator,
        deviations: &form.deviations,
        seed: options.seed,
    };
    let mut checked =
        EqualityCheckRecord { packets: 0, seed: options.seed, ..EqualityCheckRecord::default() };
    for ruleset in firewall.rulesets() {
        let family = ruleset.family;
        let moved: Vec<(TableName, Hook)> = form
            .moved_tables
            .iter()
            .filter(|m| m.family == family)
            .flat_map(|m| m.hooks.iter().map(|h| (m.table, *h)))
            .collect();
        for (i, entry) in JourneyKind::ALL.into_iter().enumerate() {
            progress(&format!("nft: check {entry:?} packets"), 0.3 + 0.2 * i as f64);
            for packet in generate_check_packets(ruleset, firewall, options, entry) {
                if !both.is_comparable(&packet, family) {
                    continue;
                }
                match both.compare_at_hooks(&packet, entry, &moved) {
                    Ok(is_followed_to_its_end) => {
                        checked.packets += u64::from(is_followed_to_its_end);
                    }
                    Err(example) => {
                        let form = CompiledForm::Nft;
                        return Err(CompileError::NotEquivalent { form, example });
                    }
                }
            }
        }
    }
    Ok(checked)
}

fn generate_check_packets(
    ruleset: &Ruleset,
    firewall: &Firewall,
    options: &CompileOptions,
    entry: JourneyKind,
) -> Vec<Packet> {
    let traffic = TrafficOptions {
        seed: options.seed,
        max_packets: options.check_packets_per_family / JourneyKind::ALL.len(),
        journey_kind: entry,
        include_truncated: false,
        ..TrafficOptions::default()
    };
    generate_boundary_and_random_packets(ruleset, &firewall.sets, &traffic)
}

struct HookComparer<'a> {
    interpreter: &'a Interpreter<'a>,
    evaluator: &'a NftEvaluator<'a>,
    /// Those of the form.
    deviations: &'a [Deviation],
    seed: u64,
}

/// What one of the two made of a packet at a hook.
#[derive(Debug, PartialEq)]
struct IptablesOrNftHookOutcome {
    end_verdict: NftWalkEnd,
    effects_as_text: Vec<String>,
    credited_originals: Vec<CreditedRuleOrPolicy>,
    packet: Option<Packet>,
}

impl IptablesOrNftHookOutcome {
    /// In words, for a message.
    fn describe_outcome(&self) -> String {
        let mut words = match &self.end_verdict {
            NftWalkEnd::Accept => "accepted".to_owned(),
            NftWalkEnd::Drop => "dropped".to_owned(),
            NftWalkEnd::Reject(with) => format!("rejected with {with}"),
            NftWalkEnd::Translated => "translated".to_owned(),
            NftWalkEnd::Unknown => "not followed to its end".to_owned(),
        };
        let rules: Vec<String> = self
            .credited_originals
            .iter()
            .map(|credited| match credited {
                CreditedRuleOrPolicy::Rule(index) => format!("rule {}", index.0),
                CreditedRuleOrPolicy::Policy(hook) => {
                    format!("the policy of {}", hook.chain_name())
                }
            })
            .collect();
        if !rules.is_empty() {
            words += &format!(", counted by {}", rules.join(", "));
        }
        if !self.effects_as_text.is_empty() {
            words += &format!(", {} effects", self.effects_as_text.len());
        }
        words
    }
}

impl HookComparer<'_> {
    fn is_comparable(&self, packet: &Packet, family: Family) -> bool {
        let is_met = |deviation: &Deviation| match deviation {
            // Without conntrack the form guards its tests.
            Deviation::LaterFragment => self.interpreter.is_conntrack_used_by_family(family),
            _ => true,
        };
        !self.deviations.iter().any(|d| d.is_triggered_by_packet_alone(packet) && is_met(d))
    }

    /// Whether the rules follow the packet to its end at every hook, where the form does the same.
    ///
    /// # Errors
    /// The packet, if the form does something else.
    fn compare_at_hooks(
        &self,
        packet: &Packet,
        journey_kind: JourneyKind,
        moved: &[(TableName, Hook)],
    ) -> Result<bool, Box<Counterexample>> {
        let mut is_followed_to_its_end = true;
        for &(table, hook) in moved.iter().filter(|(_, h)| journey_kind.hooks().contains(h)) {
            let mut at_hook = packet.clone();
            if !matches!(hook, Hook::Forward | Hook::Output | Hook::Postrouting) {
                at_hook.oif.clear();
            }
            if journey_kind == JourneyKind::Output || hook == Hook::Postrouting {
                at_hook.iif.clear();
                at_hook.smac = None;
            }
            let mut salt = DefaultHasher::new();
            (self.seed, &at_hook).hash(&mut salt);
            let before = self.walk_iptables_table(table, hook, &at_hook, salt.finish());
            let after = self.walk_nft_base_chain(table, hook, &at_hook, salt.finish());
            if before.end_verdict == NftWalkEnd::Unknown {
                is_followed_to_its_end = false;
            } else if before != after {
                return Err(Box::new(Counterexample {
                    packet: at_hook,
                    journey_kind,
                    difference: format!("{table} at {hook:?}"),
                    outcome_before: before.describe_outcome(),
                    outcome_after: after.describe_outcome(),
                }));
            }
        }
        Ok(is_followed_to_its_end)
    }

    fn walk_iptables_table(
        &self,
        table: TableName,
        hook: Hook,
        packet: &Packet,
        salt: u64,
    ) -> IptablesOrNftHookOutcome {
        let mut packet = packet.clone();
        let (verdict, log) =
            self.interpreter.walk_table(table, hook, &mut packet, &mut HashedOracle(salt));
        let translated = log.effects.iter().any(|e| matches!(e.target, Target::Nat(_)));
        let end = match verdict {
            _ if translated => NftWalkEnd::Translated,
            Verdict::Drop => NftWalkEnd::Drop,
            Verdict::Reject(word) => NftWalkEnd::Reject(word),
            Verdict::Unknown => NftWalkEnd::Unknown,
            _ => NftWalkEnd::Accept,
        };
        let packet = (!translated).then_some(packet);
        IptablesOrNftHookOutcome {
            end_verdict: end,
            effects_as_text: format_traversal_effects(&log),
            credited_originals: collect_credits(&log, hook),
            packet,
        }
    }

    fn walk_nft_base_chain(
        &self,
        table: TableName,
        hook: Hook,
        packet: &Packet,
        salt: u64,
    ) -> IptablesOrNftHookOutcome {
        let mut packet = packet.clone();
        let mut answer = |o: &weir_model::nft::OpaqueNftTest, _: &Packet| {
            hash_answer(salt, o.rule.0, o.match_index)
        };
        let walk = self.evaluator.walk_base_chain(table, hook, &mut packet, &mut answer);
        let NftWalkResult { end, mut credited_originals, effects, .. } =
            walk.expect("the hook went to nft");
        credited_originals.sort_unstable();
        let effects = effects
            .iter()
            .map(|d| match d {
                NftPacketEffect::Effect(e) => format_effect(e),
                NftPacketEffect::Reject(word) => word.to_string(),
                NftPacketEffect::Nat(nat) => format!("{nat:?}"),
            })
            .collect();
        let packet = (end != NftWalkEnd::Translated).then_some(packet);
        IptablesOrNftHookOutcome {
            end_verdict: end,
            effects_as_text: effects,
            credited_originals,
            packet,
        }
    }
}

fn format_traversal_effects(log: &TraversalLog<'_>) -> Vec<String> {
    log.effects
        .iter()
        .map(|e| match e.target {
            Target::Effect(e) => format_effect(e),
            Target::Reject(word) => word.to_string(),
            Target::Nat(nat) => format!("{:?}", **nat),
            other => format!("{other:?}"),
        })
        .collect()
}

fn format_effect(effect: &Effect) -> String {
    format!("{effect:?}")
}

fn collect_credits(log: &TraversalLog<'_>, hook: Hook) -> Vec<CreditedRuleOrPolicy> {
    let mut out = Vec::new();
    for hit in &log.hits {
        out.extend(hit.credited_originals.iter().map(|id| CreditedRuleOrPolicy::Rule(*id)));
        if matches!(hit.counted_object, CountedObject::Policy { .. }) {
            out.push(CreditedRuleOrPolicy::Policy(hook));
        }
    }
    out.sort_unstable();
    out
}

/// The same answer to the same match of the same original, on both sides.
struct HashedOracle(u64);

impl Oracle for HashedOracle {
    fn match_holds_or_target_ends_traversal(&mut self, q: &OracleQuestion<'_>) -> bool {
        match (q.subject, q.rule.credited_originals.first()) {
            (QuestionSubject::Match(index), Some(id)) => hash_answer(self.0, id.0, index),
            _ => false,
        }
    }
}

fn hash_answer(salt: u64, rule: u32, index: usize) -> bool {
    let mut h = DefaultHasher::new();
    (salt, rule, index).hash(&mut h);
    h.finish() & 1 == 1
}

#[cfg(test)]
mod tests {
    use weir_syntax::iptables::{ParserSettings, parse};
    use weir_syntax::packet::parse_packet;

    use super::*;
    use crate::nft::compile_nft_form_without_passes;

    /// Which packets are compared in a firewall with this rule, with or without its form's
    /// deviations.
    fn comparable(rule: &str, packets: &[&str], keep_deviations: bool) -> Vec<bool> {
        let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{rule}\nCOMMIT\n");
        let settings = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
        let v4 = parse(&text, &settings).expect("good rules");
        let firewall = Firewall { v4: Some(v4), ..Firewall::default() };
        let options = CompileOptions::default();
        let form = compile_nft_form_without_passes(&firewall, &options, &mut |_, _| {});
        let form = form.expect("it is equal");
        let comparer = HookComparer {
            interpreter: &Interpreter::new(&firewall),
            evaluator: &NftEvaluator::new(&form.nft_ruleset),
            deviations: if keep_deviations { &form.deviations } else { &[] },
            seed: options.seed,
        };
        let packets = packets.iter().map(|words| parse_packet(words).expect("a packet"));
        packets.map(|packet| comparer.is_comparable(&packet, Family::V4)).collect()
    }

    #[test]
    fn only_packets_with_known_deviations_are_excluded_from_comparison() {
        let packets = [
            "tcp dport 22",
            "tcp dport 22 truncated 10",
            "tcp fragment offset 1",
            "udp fragment offset 185",
        ];
        let plain = "-A FORWARD -p udp -m udp --dport 53 -j DROP";
        let tracked = "-A FORWARD -m conntrack --ctstate NEW -j DROP";
        assert_eq!(comparable(plain, &packets, true), [true, false, false, true]);
        assert_eq!(comparable(tracked, &packets, true), [true, false, false, false]);
        for rule in [plain, tracked] {
            assert_eq!(comparable(rule, &packets, false), [true; 4], "{rule}");
        }
    }

    #[test]
    fn a_packet_that_only_the_form_does_not_follow_to_its_end_is_a_difference() {
        const LEVELS: usize = 40;
        let firewall = |rules: &str| {
            let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n");
            let settings = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
            let v4 = parse(&text, &settings).expect("good rules");
            Firewall { v4: Some(v4), ..Firewall::default() }
        };
        let few = firewall("-A FORWARD -p udp -j DROP\n");
        let declared: String = (0..=LEVELS).map(|level| format!(":c{level} - [0:0]\n")).collect();
        let jumps: String =
            (0..LEVELS).map(|at| format!("-A c{at} -j c{}\n", at + 1).repeat(2)).collect();
        let doubling = firewall(&format!("{declared}-A FORWARD -j c0\n{jumps}"));
        let options = CompileOptions::default();
        let form = compile_nft_form_without_passes(&few, &options, &mut |_, _| {});
        let form = form.expect("it is equal");
        let mut doubling_nft = form.nft_ruleset.clone();
        let table = &mut doubling_nft.tables[0];
        let jump = |to: usize| weir_model::nft::Rule {
            statements: vec![weir_model::nft::Statement::Verdict(weir_model::nft::Verdict::Jump(
                format!("c{to}"),
            ))],
            comment: None,
        };
        let base = table.chains.iter_mut().find(|chain| chain.name == "FORWARD");
        base.expect("it went to nft").rules.insert(0, jump(0));
        table.chains.extend((0..=LEVELS).map(|at| weir_model::nft::Chain {
            name: format!("c{at}"),
            base: None,
            iptables_name_comment: None,
            rules: if at < LEVELS { vec![jump(at + 1), jump(at + 1)] } else { vec![] },
        }));
        let packet = parse_packet("tcp dport 22").expect("a packet");
        let compare = |firewall: &Firewall, nft: &weir_model::nft::Ruleset| {
            let comparer = HookComparer {
                interpreter: &Interpreter::new(firewall),
                evaluator: &NftEvaluator::new(nft),
                deviations: &[],
                seed: options.seed,
            };
            let moved = [(TableName::Filter, Hook::Forward)];
            comparer.compare_at_hooks(&packet, JourneyKind::Forward, &moved).ok()
        };
        assert_eq!(compare(&few, &form.nft_ruleset), Some(true));
        assert_eq!(compare(&few, &doubling_nft), None, "the form differs");
        assert_eq!(compare(&doubling, &doubling_nft), Some(false), "not counted");
    }
}
