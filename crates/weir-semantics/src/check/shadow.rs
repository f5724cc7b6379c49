//! Rules whose packets an earlier rule of the chain takes: duplicates and shadowed rules.
//!
//! Comparing every rule with every earlier one would take minutes on large chains. Instead each
//! deciding rule is kept under a digest of its tests, and a later rule looks up every way to weaken
//! its own: leave tests out, shorten prefixes to masks that earlier rules have. A rule has few
//! tests, so these are few; where they are too many, only leaving out is tried. What is found is
//! certain; that nothing is found is not.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_model::{Field, Predicate, Rule, TableName, Test, tests_of};

use super::rules::decides;
use super::{Report, Said, Severity};

/// Weaker forms of a rule that are looked up at most.
const FORMS: usize = 256;

/// The deciding rules of a chain so far.
#[derive(Default)]
pub(super) struct Earlier {
    /// First rule by digest of its tests.
    rules: HashMap<u64, usize>,
    /// Masks that tests of the two addresses have.
    masks: [BTreeSet<u128>; 2],
}

/// Looks at a rule, and keeps it for the later ones.
pub(super) fn look(found: &mut Report<'_>, at: usize, i: usize, earlier: &mut Earlier) {
    let rule = &found.table.chains[at].rules[i];
    let tests = tests_of(rule, found.ruleset.family);
    if let Some(first) = earlier.takes(&tests) {
        report(found, at, i, first, &tests);
        return;
    }
    if decides(rule) && tests.iter().all(|t| lasts(t, found.table.name)) {
        earlier.keep(&tests, i);
    }
}

/// Whether a test still gives the same answer later in the chain: effects change marks, TOS, TTL
/// and lengths, NOTRACK the state, other programs the sets.
fn lasts(test: &Test, table: TableName) -> bool {
    match test {
        Test::Field { field, .. } => match field {
            Field::Mark | Field::CtMark | Field::Tos | Field::Ttl | Field::Length => false,
            Field::CtState => table != TableName::Raw,
            Field::Iif
            | Field::Oif
            | Field::Saddr
            | Field::Daddr
            | Field::Proto
            | Field::Fragment
            | Field::Sport
            | Field::Dport
            | Field::TcpFlags
            | Field::Icmp
            | Field::SourceMac
            | Field::PktType => true,
        },
        Test::EitherPort { .. } => true,
        Test::Set { .. } | Test::Opaque { .. } | Test::Never => false,
    }
}

impl Earlier {
    fn keep(&mut self, tests: &[Test], i: usize) {
        let digest = tests.iter().map(piece).fold(0, u64::wrapping_add);
        self.rules.entry(digest).or_insert(i);
        for test in tests {
            if let Some((side, _, mask)) = address(test) {
                self.masks[side].insert(mask);
            }
        }
    }

    /// The earlier rule that takes all packets for which the tests hold.
    fn takes(&self, tests: &[Test]) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        let mut ways: Vec<Vec<u64>> = tests.iter().map(|t| self.weaker(t)).collect();
        let forms =
            |ways: &[Vec<u64>]| ways.iter().fold(1usize, |n, way| n.saturating_mul(way.len()));
        if forms(&ways) > FORMS {
            ways = tests.iter().map(|t| vec![piece(t), 0]).collect();
        }
        if forms(&ways) > FORMS {
            return None;
        }
        let mut digests = vec![0u64];
        for way in &ways {
            digests =
                digests.iter().flat_map(|d| way.iter().map(move |w| d.wrapping_add(*w))).collect();
        }
        digests.iter().filter_map(|d| self.rules.get(d)).min().copied()
    }

    /// Digests of the tests that hold wherever this one does; 0 is none at all.
    fn weaker(&self, test: &Test) -> Vec<u64> {
        let mut way = vec![piece(test), 0];
        if let Some((side, value, mask)) = address(test) {
            let field = if side == 0 { Field::Saddr } else { Field::Daddr };
            let shorter = self.masks[side].iter().filter(|m| **m != mask && **m & mask == **m);
            way.extend(shorter.map(|m| {
                let predicate = Predicate::Masked { value: value & m, mask: *m };
                piece(&Test::Field { field, predicate, negated: false })
            }));
        }
        way
    }
}

/// Side (0 source, 1 destination), value and mask of an address test.
fn address(test: &Test) -> Option<(usize, u128, u128)> {
    let Test::Field { field, predicate: Predicate::Masked { value, mask }, negated: false } = test
    else {
        return None;
    };
    match field {
        Field::Saddr => Some((0, *value, *mask)),
        Field::Daddr => Some((1, *value, *mask)),
        _ => None,
    }
}

/// Digest of a test, never 0; the digest of a rule is their sum, whatever their order.
fn piece(test: &Test) -> u64 {
    let mut h = DefaultHasher::new();
    match test {
        Test::Field { field, predicate, negated } => (0, field, predicate, negated).hash(&mut h),
        Test::EitherPort { spans, negated } => (1, spans, negated).hash(&mut h),
        // Never among the kept ones.
        Test::Set { index } | Test::Opaque { index, .. } => (2, index).hash(&mut h),
        Test::Never => 3.hash(&mut h),
    }
    h.finish() | 1 << 63
}

fn report(found: &mut Report<'_>, at: usize, i: usize, first: usize, tests: &[Test]) {
    let chain = &found.table.chains[at];
    let by: &Rule = &chain.rules[first];
    let same_target = by.target == chain.rules[i].target;
    let same_tests = same(tests, &tests_of(by, found.ruleset.family));
    let number = first + 1;
    let (id, message) = match (same_tests, same_target) {
        (true, true) => ("duplicate-rule", format!("the rule repeats rule {number}")),
        (true, false) => {
            ("duplicate-rule", format!("the rule has the tests of rule {number}, which decides"))
        }
        (false, true) => ("shadowed-rule", format!("rule {number} covers the rule already")),
        (false, false) => (
            "shadowed-rule",
            format!("no packet reaches the rule: rule {number} takes all that it would match"),
        ),
    };
    let help = match same_target {
        true => "remove it: it never counts".to_owned(),
        false => format!("move it before rule {number} if it is meant, or remove it"),
    };
    let severity = if same_target { Severity::Note } else { Severity::Warning };
    found.rule(at, i, Said { id, severity, message, help });
}

fn same(a: &[Test], b: &[Test]) -> bool {
    a.len() == b.len() && a.iter().all(|t| b.contains(t))
}
