//! The result of a comparison, for people and for programs: `weir diff`.
//!
//! A [`Review`] is the result of [`compare`](weir_diagram::compare) in words. Changes are ordered
//! by importance: newly allowed, newly denied, denied in another way, other effects; within these
//! the largest part of all packets first. Each has its regions, and each region the rules that
//! decide it on both sides. [`Review::text`] and [`Review::markdown`] render the same values that
//! JSON has.

mod beyond;
mod count;
mod decide;
mod draw;
mod region;
mod size;
mod values;
mod ways;

use weir_diagram::{
    ComparedPart, ComparedPath, Comparison, ComparisonVerdict, Corner, CornerCase, ExamplePacket,
    Identity, Region, RulesetDifference, Witness,
};
use weir_model::{Family, Hook};
use weir_semantics::trace::{Trace, trace, trace_at_hook};
use weir_semantics::{Interpreter, OutcomeDifference};
use weir_syntax::iptables::print_rule;

pub use self::beyond::not_covered;
pub use self::count::count;
use self::decide::decide;
pub use self::values::{
    Change, ChangeKind, CornerReview, CounterDiffers, CounterReview, Decided, DecidedBy,
    ExampleReview, FieldReview, PartReview, RegionReview, Review, ReviewPaths, ReviewSide, RuleAt,
    WayThrough,
};
use self::ways::lines;
use crate::explain::{rows, verdict_words};

impl Review {
    /// Describes the result in words.
    pub fn of(comparison: &Comparison, sides: [ReviewSide<'_>; 2], identity: Identity) -> Review {
        let [before, after] = sides;
        let mut changes = Vec::new();
        let mut parts = Vec::new();
        for part in &comparison.parts {
            let reviewer = Reviewer::new(part, sides, identity);
            let mut review = part_review(part);
            if let ComparisonVerdict::Differs(differs) = &part.answer {
                let found = reviewer.changes(differs);
                review.example = Some(reviewer.paths(differs, &found));
                changes.extend(found.into_iter().map(|(change, _)| change));
            }
            if let ComparisonVerdict::Fragments(f) = &part.answer {
                let (with, without) = if f.before { (before, after) } else { (after, before) };
                review.why = Some(format!(
                    "only {} has fragments reassembled before its rules, because of {} ({}); {} \
                     sees them individually",
                    with.name,
                    print_rule(&f.rule, part.family),
                    f.place(),
                    without.name
                ));
            }
            parts.push(review);
        }
        changes.sort_by(|a, b| a.kind.cmp(&b.kind).then(b.share.total_cmp(&a.share)));
        Review {
            before: before.name.to_owned(),
            after: after.name.to_owned(),
            compared: "effects",
            equal: comparison.is_equal(),
            changes,
            parts,
            counters: None,
            not_compared: Vec::new(),
        }
    }
}

/// The answer of a part, without its example.
fn part_review(part: &ComparedPart) -> PartReview {
    let mut review = PartReview {
        family: family_word(part.family),
        path: way_word(part.way),
        answer: "equal",
        why: None,
        share: 0.0,
        headers: 0.0,
        example: None,
    };
    match &part.answer {
        ComparisonVerdict::Equal => {}
        ComparisonVerdict::Fragments(_) => review.answer = "differs",
        ComparisonVerdict::Unknown { why } => {
            (review.answer, review.why) = ("unknown", Some(why.clone()));
        }
        ComparisonVerdict::Differs(differs) => {
            review.answer = "differs";
            (review.share, review.headers) = (differs.share, differs.packets);
        }
    }
    review
}

/// Words what one part of a comparison found.
struct Reviewer<'a> {
    part: &'a ComparedPart,
    sides: [ReviewSide<'a>; 2],
    interpreters: [Interpreter<'a>; 2],
    identity: Identity,
}

impl<'a> Reviewer<'a> {
    fn new(part: &'a ComparedPart, sides: [ReviewSide<'a>; 2], identity: Identity) -> Reviewer<'a> {
        let [a, b] = sides.map(|s| s.firewall);
        let interpreters = [Interpreter::comparing(a, b), Interpreter::comparing(b, a)];
        Reviewer { part, sides, interpreters, identity }
    }

    /// Each change, with the packet that shows it best.
    fn changes<'d>(&self, differs: &'d RulesetDifference) -> Vec<(Change, Option<&'d Witness>)> {
        let mut out = Vec::new();
        for change in &differs.changes {
            let kind = match change {
                c if c.newly_allowed() => ChangeKind::NewlyAllowed,
                c if c.newly_denied() => ChangeKind::NewlyDenied,
                _ => ChangeKind::DeniedOtherwise,
            };
            let mut review = self.change(kind, &change.regions, &change.corners);
            (review.share, review.headers) = (change.share, change.packets);
            review.before = Some(verdict_words(change.before));
            review.after = Some(verdict_words(change.after));
            out.push((review, first_witness(&change.regions)));
        }
        if let Some(effects) = &differs.effects {
            let mut review = self.change(ChangeKind::Effects, &effects.regions, &effects.corners);
            (review.share, review.headers) = (effects.share, effects.packets);
            out.push((review, first_witness(&effects.regions)));
        }
        out.sort_by(|(a, _), (b, _)| a.kind.cmp(&b.kind).then(b.share.total_cmp(&a.share)));
        out
    }

    fn change(&self, kind: ChangeKind, regions: &[Region], corners: &[CornerCase]) -> Change {
        Change {
            kind,
            family: family_word(self.part.family),
            path: way_word(self.part.way),
            before: None,
            after: None,
            share: 0.0,
            headers: 0.0,
            regions: regions.iter().map(|region| self.region(region)).collect(),
            corner_cases: corners.iter().map(|case| self.corner(case)).collect(),
        }
    }

    fn region(&self, region: &Region) -> RegionReview {
        let fields = region::fields(region, self.part.way, self.part.family);
        let mut decided_by = Vec::new();
        for example in &region.examples {
            let decided = self.decided(&example.witness);
            if !decided_by.contains(&decided) {
                decided_by.push(decided);
            }
        }
        RegionReview {
            packets: region::region_words(&fields),
            fields,
            size: size::size_words(region),
            share: region.share,
            headers: region.packets,
            decided_by,
            example: region.examples.first().map(|e| self.example(e)),
        }
    }

    fn corner(&self, case: &CornerCase) -> CornerReview {
        CornerReview {
            packets: match case.corner {
                Corner::TruncatedHeader => "truncated headers",
                Corner::Fragment => "later fragments",
                Corner::Invalid => "invalid packets",
                Corner::TranslatedNew => "repeated packets of new, translated connections",
            },
            share: case.share,
            decided_by: case.example.as_ref().map(|e| self.decided(&e.witness)),
            example: case.example.as_ref().map(|e| self.example(e)),
        }
    }

    fn example(&self, example: &ExamplePacket) -> ExampleReview {
        let firewalls = self.sides.map(|s| s.firewall);
        region::example(&example.witness, example.difference, firewalls, self.whose())
    }

    /// Path and family of the packets.
    fn whose(&self) -> (ComparedPath, Family) {
        (self.part.way, self.part.family)
    }

    fn traces(&self, witness: &Witness) -> [Trace<'_>; 2] {
        [0, 1].map(|i| {
            let mut answers = witness.answers(self.sides[i].firewall, self.identity);
            let (interpreter, packet) = (&self.interpreters[i], &witness.packet);
            match self.part.way {
                ComparedPath::Entry(entry) => trace(interpreter, packet, entry, &mut answers),
                ComparedPath::Hook(hook) => trace_at_hook(interpreter, packet, hook, &mut answers),
                ComparedPath::Assembled => {
                    trace_at_hook(interpreter, packet, Hook::Input, &mut answers)
                }
            }
        })
    }

    fn decided(&self, witness: &Witness) -> Decided {
        let traces = self.traces(witness);
        let [before, after] = decide(traces.each_ref(), self.sides, self.part.family);
        Decided { before, after }
    }

    /// The path of the packet that shows the most important change.
    fn paths(
        &self,
        differs: &RulesetDifference,
        changes: &[(Change, Option<&Witness>)],
    ) -> ReviewPaths {
        let first = changes.iter().find_map(|(_, witness)| *witness);
        let witness = first.unwrap_or(&differs.witness);
        let difference = match changes.first() {
            Some((change, Some(_))) if change.kind != ChangeKind::Effects => {
                OutcomeDifference::Verdict
            }
            _ => differs.difference,
        };
        let firewalls = self.sides.map(|s| s.firewall);
        let example = region::example(witness, difference, firewalls, self.whose());
        let [before, after] = self.traces(witness).map(|t| way_through(&t, self.part.family));
        ReviewPaths { example, before, after }
    }
}

/// The packet that shows the largest region best.
fn first_witness(regions: &[Region]) -> Option<&Witness> {
    regions.iter().find_map(|r| r.examples.first()).map(|e| &e.witness)
}

const fn family_word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

fn way_word(way: ComparedPath) -> String {
    match way {
        ComparedPath::Entry(entry) => format!("{entry:?}").to_lowercase(),
        ComparedPath::Hook(hook) => hook.chain().to_owned(),
        ComparedPath::Assembled => "input, reassembled from fragments".to_owned(),
    }
}

fn way_through(trace: &Trace<'_>, family: Family) -> WayThrough {
    WayThrough {
        verdict: verdict_words(trace.outcome.verdict),
        tried: trace.outcome.tried,
        lines: lines(trace, &|rule| print_rule(rule, family)),
        steps: rows(trace),
    }
}
