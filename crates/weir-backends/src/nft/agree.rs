//! Checks that the form is equal before it is written: the iptables interpreter and the nft
//! evaluator are compared hook by hook.
//!
//! At every hook that went to nft, the interpreter sends a packet through the iptables table, and
//! the evaluator sends it through the nft table. The verdict, the effects, the packet afterwards
//! and the credited original rules must be the same. A journey is a sequence of such steps, so
//! equality at every hook implies equality of the journey.
//!
//! Excluded are packets that legacy iptables and nft inherently treat differently: truncated
//! transport headers, TCP fragments at offset 1, and fragments if conntrack reassembles them before
//! any rule sees them.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use weir_artefact::{Checked, Deviation, Form};
use weir_model::nft::Credit;
use weir_model::{Effect, Family, Firewall, Hook, Packet, Ruleset, TableName, Target};
use weir_semantics::nft::{Done, End, Evaluator, NftWalk};
use weir_semantics::{
    Counted, Entry, Interpreter, Log, Oracle, Question, QuestionSubject, Verdict,
};
use weir_traffic::{TrafficOptions, packets};

use super::form::NftForm;
use crate::check::Counterexample;
use crate::form::{CompileError, CompileOptions, ProgressFn};

/// Compares a firewall with its nft form at every hook that went to nft.
///
/// # Errors
/// [`CompileError::Differs`] with the first packet that the two treat differently.
pub fn check(
    firewall: &Firewall,
    form: &NftForm,
    options: &CompileOptions,
    progress: &mut ProgressFn<'_>,
) -> Result<Checked, CompileError> {
    let interpreter = Interpreter::new(firewall);
    let evaluator = Evaluator::new(&form.ruleset);
    let both = Both { interpreter: &interpreter, evaluator: &evaluator, seed: options.seed };
    let mut checked = Checked { packets: 0, seed: options.seed, ..Checked::default() };
    for ruleset in firewall.rulesets() {
        let family = ruleset.family;
        let moved: Vec<(TableName, Hook)> = form
            .moved
            .iter()
            .filter(|m| m.family == family)
            .flat_map(|m| m.hooks.iter().map(|h| (m.table, *h)))
            .collect();
        for (i, entry) in Entry::ALL.into_iter().enumerate() {
            progress(&format!("nft: check {entry:?} packets"), 0.3 + 0.2 * i as f64);
            for packet in sample(ruleset, firewall, options, entry) {
                if !both.is_comparable(&packet, family) {
                    continue;
                }
                checked.packets += 1;
                if let Some(example) = both.difference(&packet, entry, &moved) {
                    let example = Box::new(example);
                    return Err(CompileError::Differs { form: Form::Nft, example });
                }
            }
        }
    }
    Ok(checked)
}

fn sample(
    ruleset: &Ruleset,
    firewall: &Firewall,
    options: &CompileOptions,
    entry: Entry,
) -> Vec<Packet> {
    let traffic = TrafficOptions {
        seed: options.seed,
        count: options.check_packets / Entry::ALL.len(),
        entry,
        truncated: false,
        ..TrafficOptions::default()
    };
    packets(ruleset, &firewall.sets, &traffic)
}

struct Both<'a> {
    interpreter: &'a Interpreter<'a>,
    evaluator: &'a Evaluator<'a>,
    seed: u64,
}

/// What one of the two made of a packet at a hook.
#[derive(Debug, PartialEq)]
struct Made {
    end: End,
    effects: Vec<String>,
    credits: Vec<Credit>,
    packet: Option<Packet>,
}

impl Both<'_> {
    fn is_comparable(&self, packet: &Packet, family: Family) -> bool {
        let is_met = |deviation: &Deviation| match deviation {
            // Without conntrack the form guards its tests.
            Deviation::LaterFragment => self.interpreter.conntrack_in_use(family),
            _ => true,
        };
        !Deviation::ALL.iter().any(|d| d.concerns(packet) && is_met(d))
    }

    fn difference(
        &self,
        packet: &Packet,
        entry: Entry,
        moved: &[(TableName, Hook)],
    ) -> Option<Counterexample> {
        for &(table, hook) in moved.iter().filter(|(_, h)| entry.hooks().contains(h)) {
            let mut at_hook = packet.clone();
            if !matches!(hook, Hook::Forward | Hook::Output | Hook::Postrouting) {
                at_hook.oif.clear();
            }
            if entry == Entry::Output || hook == Hook::Postrouting {
                at_hook.iif.clear();
                at_hook.smac = None;
            }
            let mut salt = DefaultHasher::new();
            (self.seed, &at_hook).hash(&mut salt);
            let before = self.before(table, hook, &at_hook, salt.finish());
            let after = self.after(table, hook, &at_hook, salt.finish());
            if before != after {
                return Some(Counterexample {
                    packet: at_hook,
                    entry,
                    difference: format!("{table} at {hook:?}"),
                    before: format!("{before:?}"),
                    after: format!("{after:?}"),
                });
            }
        }
        None
    }

    fn before(&self, table: TableName, hook: Hook, packet: &Packet, salt: u64) -> Made {
        let mut packet = packet.clone();
        let (verdict, log) = self.interpreter.walk(table, hook, &mut packet, &mut BySubject(salt));
        let translated = log.effects.iter().any(|e| matches!(e.target, Target::Nat(_)));
        let end = match verdict {
            _ if translated => End::Nat,
            Verdict::Drop => End::Drop,
            Verdict::Reject(word) => End::Reject(word),
            _ => End::Accept,
        };
        let packet = (!translated).then_some(packet);
        Made { end, effects: effects_of(&log), credits: credits_of(&log, hook), packet }
    }

    fn after(&self, table: TableName, hook: Hook, packet: &Packet, salt: u64) -> Made {
        let mut packet = packet.clone();
        let mut answer =
            |o: &weir_model::nft::OpaqueStatement, _: &Packet| answered(salt, o.rule.0, o.index);
        let walk = self.evaluator.walk(table, hook, &mut packet, &mut answer);
        let NftWalk { end, mut credits, effects, .. } = walk.expect("the hook went to nft");
        credits.sort_unstable();
        let effects = effects
            .iter()
            .map(|d| match d {
                Done::Effect(e) => effect_text(e),
                Done::Reject(word) => word.to_string(),
                Done::Nat(nat) => format!("{nat:?}"),
            })
            .collect();
        let packet = (end != End::Nat).then_some(packet);
        Made { end, effects, credits, packet }
    }
}

fn effects_of(log: &Log<'_>) -> Vec<String> {
    log.effects
        .iter()
        .map(|e| match e.target {
            Target::Effect(e) => effect_text(e),
            Target::Reject(word) => word.to_string(),
            Target::Nat(nat) => format!("{:?}", **nat),
            other => format!("{other:?}"),
        })
        .collect()
}

fn effect_text(effect: &Effect) -> String {
    format!("{effect:?}")
}

fn credits_of(log: &Log<'_>, hook: Hook) -> Vec<Credit> {
    let mut out = Vec::new();
    for hit in &log.hits {
        out.extend(hit.credit.iter().map(|id| Credit::Rule(*id)));
        if matches!(hit.counted, Counted::Policy { .. }) {
            out.push(Credit::Policy(hook));
        }
    }
    out.sort_unstable();
    out
}

/// The same answer to the same match of the same original, on both sides.
struct BySubject(u64);

impl Oracle for BySubject {
    fn answer(&mut self, q: &Question<'_>) -> bool {
        match (q.subject, q.rule.credit.first()) {
            (QuestionSubject::Match(index), Some(id)) => answered(self.0, id.0, index),
            _ => false,
        }
    }
}

fn answered(salt: u64, rule: u32, index: usize) -> bool {
    let mut h = DefaultHasher::new();
    (salt, rule, index).hash(&mut h);
    h.finish() & 1 == 1
}
