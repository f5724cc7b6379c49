//! A packet that shows a difference, and outcomes as text.

use std::fmt;
use std::fmt::Write as _;

use weir_model::Packet;
use weir_semantics::{CountedObject, JourneyKind, Outcome};

/// A packet that a form treats in another way than the ruleset.
#[derive(Clone, Debug, PartialEq)]
pub struct Counterexample {
    /// The packet.
    pub packet: Packet,
    /// Its entry.
    pub journey_kind: JourneyKind,
    /// In what the two differ.
    pub difference: String,
    /// What the ruleset makes of it.
    pub outcome_before: String,
    /// What the form makes of it.
    pub outcome_after: String,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counterexample {
            packet,
            journey_kind,
            difference,
            outcome_before: before,
            outcome_after: after,
        } = self;
        let p = packet;
        writeln!(f, "{difference}")?;
        write!(
            f,
            "  packet: {journey_kind:?} iif {:?} oif {:?} {} > {} proto {} {:?}",
            p.iif,
            p.oif,
            p.saddr.display(p.family),
            p.daddr.display(p.family),
            p.proto,
            p.transport,
        )?;
        writeln!(f, " fragment {} mark {:#x} {:?}", p.fragment.offset, p.mark, p.ct.state)?;
        write!(f, "  before: {before}\n  after:  {after}")
    }
}

/// In what a form differs for one packet, and what it makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormDifference {
    /// In what: verdict, effects, packet, stateful matches, credit.
    pub difference: String,
    /// What the form makes of the packet.
    pub outcome_after: String,
}

/// An outcome in a line: the verdict, then every counter that counted, in order.
pub fn describe_outcome(outcome: &Outcome<'_>) -> String {
    let mut text = format!("{:?}", outcome.verdict).to_lowercase();
    for hit in &outcome.hits {
        text.push_str(if text.contains(':') { ", " } else { ": " });
        match &hit.counted_object {
            CountedObject::Rule { table, chain, number } => {
                let _ = write!(text, "{table}/{chain}/{number}");
            }
            CountedObject::Policy { table, chain } => {
                let _ = write!(text, "{table}/{chain}/policy");
            }
            CountedObject::IpsetElement { set, element } => {
                let _ = write!(text, "element {:?} of {set}", element.parts);
            }
        }
        if !hit.credited_originals.is_empty() {
            let ids: Vec<String> =
                hit.credited_originals.iter().take(4).map(|id| id.0.to_string()).collect();
            let _ = write!(text, " (rule {})", ids.join(" "));
        }
    }
    for effect in &outcome.effects {
        let _ = write!(text, "; {:?} in {}", effect.target, effect.table);
    }
    text
}
