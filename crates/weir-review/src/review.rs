//! What a comparison says, for people and for programs: `weir diff`.
//!
//! A [`Review`] is what [`compare`](weir_diagram::compare) found, in words: for each family and
//! way what is newly allowed, newly denied and otherwise changed, the biggest part of all packets
//! first, and one packet with the way that it takes through both. [`Review::text`] and
//! [`Review::markdown`] draw it; as JSON it is itself.

mod beyond;
mod count;
mod draw;
mod ways;

use serde::Serialize;
use weir_diagram::{Answer, Comparison, Differs, Identity, Part, Region, VerdictChange, Way};
use weir_model::{Family, Firewall, Hook, Packet, Rule};
use weir_semantics::Interpreter;
use weir_semantics::trace::{trace, trace_at_hook};
use weir_syntax::packet::packet_words;

pub use self::beyond::not_covered;
pub use self::count::count;
use self::ways::lines;
use crate::explain::{Row, rows, verdict_words};

/// What a comparison says.
#[derive(Clone, Debug, Serialize)]
pub struct Review {
    /// The first ruleset, as it was named.
    pub before: String,
    /// The second one.
    pub after: String,
    /// `verdict`, or `effects` (the verdict and all that is done on the way).
    pub compared: &'static str,
    /// True where every part is proven equal, and no counter was seen to differ.
    pub equal: bool,
    /// One for each family and way.
    pub parts: Vec<PartReview>,
    /// What packets say of the counters, where that was asked for.
    pub counters: Option<CounterReview>,
    /// What is no part of the comparison, in sentences.
    pub not_compared: Vec<String>,
}

/// What is said of one family and way.
#[derive(Clone, Debug, Serialize)]
pub struct PartReview {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// `forward`, `input`, `output`; a hook's name.
    pub way: String,
    /// `equal`, `differs` or `unknown`.
    pub answer: &'static str,
    /// Why it could not be decided; or why fragments may differ, where no whole packet does.
    pub why: Option<String>,
    /// Which part of all packets differs, from 0 to 1.
    pub share: f64,
    /// How many headers (addresses, protocol, ports) that is.
    pub headers: f64,
    /// What was not accepted and is now.
    pub newly_allowed: Vec<Change>,
    /// What was accepted and is no longer.
    pub newly_denied: Vec<Change>,
    /// Refused in another way than before.
    pub refused_otherwise: Vec<Change>,
    /// Where anything differs, verdict or effects; the biggest first.
    pub regions: Vec<RegionReview>,
    /// One packet that differs.
    pub example: Option<Example>,
}

/// Packets whose verdict changed in one way.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// What became of them.
    pub before: String,
    /// What becomes of them now.
    pub after: String,
    /// Which part of all packets they are.
    pub share: f64,
    /// How many headers that is.
    pub headers: f64,
    /// Where they lie, the biggest first.
    pub regions: Vec<RegionReview>,
}

/// Packets that differ in nothing that was asked.
#[derive(Clone, Debug, Serialize)]
pub struct RegionReview {
    /// In words.
    pub packets: String,
    /// Which part of all packets they are.
    pub share: f64,
    /// How many headers that is.
    pub headers: f64,
}

/// One packet that differs, and its way through both.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    /// Its words, as `--packet` reads them.
    pub packet: String,
    /// What is taken for granted of matches that the packet does not answer.
    pub given: Vec<String>,
    /// In what the two differ: `verdict`, `effects`, `packet`, `stateful`.
    pub differs_in: String,
    /// Its way through the first ruleset.
    pub before: WayThrough,
    /// Its way through the second one.
    pub after: WayThrough,
    /// The packet itself.
    #[serde(skip)]
    pub itself: Packet,
}

/// A packet's way through one ruleset.
#[derive(Clone, Debug, Serialize)]
pub struct WayThrough {
    /// What became of it.
    pub verdict: String,
    /// How many rules were tried.
    pub tried: u32,
    /// Every rule that was tried, every verdict of a table.
    pub steps: Vec<Row>,
    /// The same for people: what matched, in lines.
    #[serde(skip)]
    pub lines: Vec<String>,
}

/// What packets say of the counters: seen, not proven.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CounterReview {
    /// Packets sent through both.
    pub packets: u64,
    /// Seed of the random ones.
    pub seed: u64,
    /// Rules and policies that counted at least one of them.
    pub counted: usize,
    /// Rules and policies that counted otherwise, the largest difference first.
    pub differ: Vec<CounterDiffers>,
}

/// A rule or policy that counted otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct CounterDiffers {
    /// `iptables/filter/FORWARD/3`.
    pub rule: String,
    /// Packets counted by the first ruleset.
    pub before: u64,
    /// And by the second.
    pub after: u64,
    /// One packet that only one of them counted.
    pub packet: String,
}

/// One side of a comparison.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// As it was named.
    pub name: &'a str,
    /// Its rules.
    pub firewall: &'a Firewall,
}

impl Review {
    /// Says in words what was found. `words` gives a rule's words, as `iptables-save` prints them.
    pub fn of(
        comparison: &Comparison,
        [before, after]: [Side<'_>; 2],
        identity: Identity,
        words: &dyn Fn(&Rule, Family) -> String,
    ) -> Review {
        let of_part = |part: &Part| {
            let mut review = PartReview::of(part);
            if let Answer::Differs(differs) = &part.answer {
                let through = |side: Side<'_>, other: Side<'_>| {
                    let interpreter = Interpreter::comparing(side.firewall, other.firewall);
                    way_through(part, differs, (side, &interpreter), identity, words)
                };
                review.example = Some(Example {
                    packet: packet_words(&differs.witness.packet),
                    given: given(differs),
                    differs_in: format!("{:?}", differs.difference).to_lowercase(),
                    before: through(before, after),
                    after: through(after, before),
                    itself: differs.witness.packet.clone(),
                });
            }
            if let Answer::Fragments(f) = &part.answer {
                let (with, without) = if f.before { (before, after) } else { (after, before) };
                review.why = Some(format!(
                    "only {} has fragments put together before its rules, because of {} ({}); \
                     {} meets them one by one",
                    with.name,
                    words(&f.rule, part.family),
                    f.place(),
                    without.name
                ));
            }
            review
        };
        Review {
            before: before.name.to_owned(),
            after: after.name.to_owned(),
            compared: "effects",
            equal: comparison.is_equal(),
            parts: comparison.parts.iter().map(of_part).collect(),
            counters: None,
            not_compared: Vec::new(),
        }
    }

    /// Whether something could not be decided.
    pub fn is_open(&self) -> bool {
        self.parts.iter().any(|p| p.answer == "unknown")
    }

    /// Whether something differs.
    pub fn differs(&self) -> bool {
        let counters = self.counters.as_ref().is_some_and(|c| !c.differ.is_empty());
        counters || self.parts.iter().any(|p| p.answer == "differs")
    }
}

impl PartReview {
    fn of(part: &Part) -> PartReview {
        let family = if part.family == Family::V4 { "ipv4" } else { "ipv6" };
        let mut review = PartReview {
            family,
            way: way_word(part.way),
            answer: "equal",
            why: None,
            share: 0.0,
            headers: 0.0,
            newly_allowed: Vec::new(),
            newly_denied: Vec::new(),
            refused_otherwise: Vec::new(),
            regions: Vec::new(),
            example: None,
        };
        match &part.answer {
            Answer::Equal => {}
            Answer::Fragments(_) => review.answer = "differs",
            Answer::Unknown { why } => {
                (review.answer, review.why) = ("unknown", Some(why.clone()));
            }
            Answer::Differs(differs) => {
                review.answer = "differs";
                (review.share, review.headers) = (differs.share, differs.packets);
                review.regions = differs.regions.iter().map(RegionReview::of).collect();
                for change in &differs.changes {
                    let list = if change.newly_allowed() {
                        &mut review.newly_allowed
                    } else if change.newly_denied() {
                        &mut review.newly_denied
                    } else {
                        &mut review.refused_otherwise
                    };
                    list.push(Change::of(change));
                }
            }
        }
        review
    }
}

impl Change {
    fn of(change: &VerdictChange) -> Change {
        Change {
            before: verdict_words(change.before),
            after: verdict_words(change.after),
            share: change.share,
            headers: change.packets,
            regions: change.regions.iter().map(RegionReview::of).collect(),
        }
    }
}

impl RegionReview {
    fn of(region: &Region) -> RegionReview {
        let packets = region.to_string();
        RegionReview { packets, share: region.share, headers: region.packets }
    }
}

fn way_word(way: Way) -> String {
    match way {
        Way::Entry(entry) => format!("{entry:?}").to_lowercase(),
        Way::Hook(hook) => hook.chain().to_owned(),
        Way::Assembled => "input, put together of fragments".to_owned(),
    }
}

fn given(differs: &Differs) -> Vec<String> {
    differs.witness.given()
}

fn way_through(
    part: &Part,
    differs: &Differs,
    (side, interpreter): (Side<'_>, &Interpreter<'_>),
    identity: Identity,
    words: &dyn Fn(&Rule, Family) -> String,
) -> WayThrough {
    let mut answers = differs.witness.answers(side.firewall, identity);
    let packet = &differs.witness.packet;
    let way = match part.way {
        Way::Entry(entry) => trace(interpreter, packet, entry, &mut answers),
        Way::Hook(hook) => trace_at_hook(interpreter, packet, hook, &mut answers),
        Way::Assembled => trace_at_hook(interpreter, packet, Hook::Input, &mut answers),
    };
    WayThrough {
        verdict: verdict_words(way.outcome.verdict),
        tried: way.outcome.tried,
        lines: lines(&way, &|rule| words(rule, part.family)),
        steps: rows(&way),
    }
}
