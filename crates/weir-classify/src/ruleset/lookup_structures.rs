//! The look-ups of a chain with the structures of an engine, and a packet's traversal of them.

use thiserror::Error;
use weir_model::{Packet, Policy, RuleId, RulePlaceInTable, SharedName};
use weir_partition::HyperRect;

use super::lookup_entry::{END_OF_CHAIN, EntryContinuation, FoundEntryMeaning};
use super::lookup_program::{LookupProgram, LookupStretch};
use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{Classifier, RuleListsByKey};
use crate::engine::Engine;
use crate::key::KeyTable;

/// Why an engine has no structures for a chain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LookupBuildError {
    /// It cannot represent a rule.
    #[error("{engine} cannot represent {rule}: {reason}")]
    UnsupportedRule {
        /// Name of the engine.
        engine: &'static str,
        /// The rule.
        rule: Box<RuleId>,
        /// What it tests.
        reason: String,
    },
    /// It exceeds a limit.
    #[error(transparent)]
    LimitExceeded(ClassifierBuildError),
}

/// What a rule did with a packet. `V` is how the evaluator says what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleEvaluation<V> {
    /// It does not match.
    NotMatched,
    /// It matches and counts; the traversal continues, as its jump or RETURN says if it has one.
    Matched,
    /// It matches and counts, and the packet leaves the table.
    MatchedAndDecided(V),
    /// It does not count, and evaluating it dropped the packet.
    DroppedByTest,
}

/// Evaluates what no look-up answers: the meaning of single rules, which is the interpreter's.
pub trait RuleEvaluator {
    /// How it says what became of a packet.
    type Verdict;

    /// Evaluates a rule: its tests, and if they hold its target, unless it leads to a chain.
    fn evaluate_rule(
        &mut self,
        rule: RulePlaceInTable,
        packet: &mut Packet,
    ) -> RuleEvaluation<Self::Verdict>;

    /// Applies the target of a rule that matches; its verdict if it decides.
    fn apply_target(
        &mut self,
        rule: RulePlaceInTable,
        packet: &mut Packet,
    ) -> Option<Self::Verdict>;

    /// Whether a set contains a packet by some directions (`true` for `src`).
    fn is_in_set(&self, name: &SharedName, packet: &Packet, dirs: &[bool]) -> bool;
}

/// How a packet's traversal of a chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupVerdict<V> {
    /// A rule accepted or dropped it.
    Decided(Policy),
    /// A rule that requires a truncated header dropped it.
    DroppedByTest,
    /// The evaluator decided.
    DecidedByEvaluator(V),
    /// No rule decided: the policy of a built-in chain.
    Policy(Policy),
    /// No rule decided, and the chain has no policy.
    Returned,
}

/// The result of a packet's traversal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupOutcome<V> {
    /// How it ended.
    pub verdict: LookupVerdict<V>,
    /// The rules that counted it, in order, jumps included.
    pub credited: Vec<RulePlaceInTable>,
    /// How many look-ups it took.
    pub lookup_count: u32,
    /// How many rules were evaluated.
    pub evaluation_count: u32,
}

impl<V> LookupOutcome<V> {
    /// The rules that counted the packet, in order, and the policy if it was reached.
    pub fn credited_rule_ids(&self, program: &LookupProgram<'_>) -> Vec<RuleId> {
        let policy =
            matches!(self.verdict, LookupVerdict::Policy(_)).then(|| program.policy_rule_id());
        self.credited.iter().map(|place| program.rule_id(*place)).chain(policy).collect()
    }
}

/// A chain as look-ups, with a structure of an engine for each stretch.
pub struct LookupStructures<'p, 'a> {
    program: &'p LookupProgram<'a>,
    engine: Engine,
    /// By chain and stretch; none for a stretch without filters.
    classifiers: Vec<Vec<Option<Box<dyn Classifier>>>>,
}

impl<'p, 'a> LookupStructures<'p, 'a> {
    /// Builds the structures.
    ///
    /// # Errors
    /// The engine cannot represent a rule, or exceeds a limit.
    pub fn build(
        program: &'p LookupProgram<'a>,
        engine: Engine,
        limits: &BuildLimits,
    ) -> Result<LookupStructures<'p, 'a>, LookupBuildError> {
        let build = |stretch: &LookupStretch| match stretch.filters.filter_count() {
            0 => Ok(None),
            _ => engine.build(&stretch.filters, limits).map(Some).map_err(|error| match error {
                ClassifierBuildError::UnsupportedRule { engine, rule, reason } => {
                    let rule = Box::new(program.rule_id(stretch.entries[rule as usize].rule));
                    LookupBuildError::UnsupportedRule { engine, rule, reason }
                }
                limit => LookupBuildError::LimitExceeded(limit),
            }),
        };
        let chains = program.chains().iter();
        let of_chain = chains.map(|chain| chain.stretches.iter().map(build).collect());
        Ok(LookupStructures { program, engine, classifiers: of_chain.collect::<Result<_, _>>()? })
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Bytes that look-ups may read.
    pub fn memory_bytes(&self) -> usize {
        self.classifiers.iter().flatten().flatten().map(|c| c.memory_bytes()).sum()
    }

    /// What becomes of a packet in the chain. The packet changes as the targets of rules change it.
    pub fn traverse<E: RuleEvaluator>(
        &self,
        packet: &mut Packet,
        evaluator: &mut E,
    ) -> LookupOutcome<E::Verdict> {
        let mut traversal = LookupTraversal {
            structures: self,
            packet,
            evaluator,
            packet_box: None,
            frames: Vec::new(),
            credited: Vec::new(),
            lookup_count: 0,
            evaluation_count: 0,
        };
        let verdict = traversal.run_to_verdict();
        LookupOutcome {
            verdict,
            credited: traversal.credited,
            lookup_count: traversal.lookup_count,
            evaluation_count: traversal.evaluation_count,
        }
    }
}

/// A chain that the packet is in.
struct ChainFrame {
    chain: u32,
    /// The stretch that comes after that of `found_entries`.
    next_stretch: usize,
    /// The entries of the stretch that the packet matches, and which of them is next.
    found_entries: Vec<u32>,
    next_found: usize,
    /// Entries before it are skipped.
    resume_at: u32,
}

struct LookupTraversal<'t, 'p, 'a, E> {
    structures: &'t LookupStructures<'p, 'a>,
    packet: &'t mut Packet,
    evaluator: &'t mut E,
    /// The smallest box with the packet, until something may have changed it.
    packet_box: Option<HyperRect>,
    frames: Vec<ChainFrame>,
    credited: Vec<RulePlaceInTable>,
    lookup_count: u32,
    evaluation_count: u32,
}

impl<E: RuleEvaluator> LookupTraversal<'_, '_, '_, E> {
    fn run_to_verdict(&mut self) -> LookupVerdict<E::Verdict> {
        self.enter_chain(0);
        while let Some(frame) = self.frames.last_mut() {
            if let Some(&number) = frame.found_entries.get(frame.next_found) {
                frame.next_found += 1;
                if number < frame.resume_at {
                    continue;
                }
                let (chain, stretch) = (frame.chain, frame.next_stretch - 1);
                if let Some(verdict) = self.follow_entry(chain, stretch, number) {
                    return verdict;
                }
                continue;
            }
            let stretches = &self.structures.program.chains()[frame.chain as usize].stretches;
            if frame.resume_at == END_OF_CHAIN || frame.next_stretch == stretches.len() {
                self.frames.pop();
                continue;
            }
            let (chain, stretch) = (frame.chain, frame.next_stretch);
            (frame.next_stretch, frame.next_found, frame.resume_at) = (stretch + 1, 0, 0);
            let found_entries = self.look_up_stretch(chain, stretch);
            self.frames.last_mut().expect("the chain that is looked up").found_entries =
                found_entries;
        }
        self.structures.program.policy().map_or(LookupVerdict::Returned, LookupVerdict::Policy)
    }

    fn enter_chain(&mut self, chain: u32) {
        let frame = ChainFrame {
            chain,
            next_stretch: 0,
            found_entries: Vec::new(),
            next_found: 0,
            resume_at: 0,
        };
        self.frames.push(frame);
    }

    /// The verdict if the entry decides.
    fn follow_entry(
        &mut self,
        chain: u32,
        stretch: usize,
        number: u32,
    ) -> Option<LookupVerdict<E::Verdict>> {
        let program = self.structures.program;
        let entry = program.chains()[chain as usize].stretches[stretch].entries[number as usize];
        match entry.meaning_if_found {
            FoundEntryMeaning::DroppedForTruncatedHeader => {
                return Some(LookupVerdict::DroppedByTest);
            }
            FoundEntryMeaning::GotoChainEnded => {}
            FoundEntryMeaning::Match => self.credited.push(entry.rule),
            FoundEntryMeaning::Candidate(_) => {
                self.packet_box = None;
                self.evaluation_count += 1;
                let evaluation = self.evaluator.evaluate_rule(entry.rule, self.packet);
                match evaluation {
                    RuleEvaluation::NotMatched => return None,
                    RuleEvaluation::DroppedByTest => return Some(LookupVerdict::DroppedByTest),
                    RuleEvaluation::Matched => self.credited.push(entry.rule),
                    RuleEvaluation::MatchedAndDecided(verdict) => {
                        self.credited.push(entry.rule);
                        return Some(LookupVerdict::DecidedByEvaluator(verdict));
                    }
                }
            }
        }
        let frame = self.frames.last_mut().expect("the chain of the entry");
        match entry.then {
            EntryContinuation::NextEntry => {}
            EntryContinuation::Decide(verdict) => return Some(LookupVerdict::Decided(verdict)),
            EntryContinuation::ApplyTarget => {
                self.packet_box = None;
                let verdict = self.evaluator.apply_target(entry.rule, self.packet);
                return verdict.map(LookupVerdict::DecidedByEvaluator);
            }
            EntryContinuation::ResumeAt(at) => frame.resume_at = at,
            EntryContinuation::Call { chain, resume_at } => {
                frame.resume_at = frame.resume_at.max(resume_at);
                self.enter_chain(chain);
            }
        }
        None
    }

    /// The entries of a stretch that the packet matches, in order.
    fn look_up_stretch(&mut self, chain: u32, stretch: usize) -> Vec<u32> {
        let program = self.structures.program;
        let Some(classifier) = &self.structures.classifiers[chain as usize][stretch] else {
            return Vec::new();
        };
        self.lookup_count += 1;
        let layout = &program.chains()[chain as usize].stretches[stretch].key_layout;
        let (packet, evaluator) = (&*self.packet, &*self.evaluator);
        let lowering = program.lowering();
        let point = self.packet_box.get_or_insert_with(|| lowering.box_of_packet_fields(packet));
        let in_set = |name: &SharedName, dirs: &[bool]| evaluator.is_in_set(name, packet, dirs);
        let key = layout.key_of_packet(point, &mut |number| {
            program.axisless_tests()[number as usize].holds_for_packet(packet, &in_set)
        });
        let mut keys = KeyTable::new(layout.schema());
        keys.push(&key);
        let mut lists = RuleListsByKey::default();
        classifier.collect_matching(&keys, &mut lists);
        lists.row(0).to_vec()
    }
}
