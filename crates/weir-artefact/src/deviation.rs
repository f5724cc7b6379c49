//! Intended differences between a form and its ruleset.
//!
//! The table is shared. `compile` lists in the manifest the deviations that its form can have, and
//! excludes packets that a check of models cannot judge. `weir verify` names the deviation of a
//! packet. `weir diff` lists the packets that it does not compare. The section *Deviations* of
//! `docs/semantics.md` explains each one, which a test checks. Any other difference is a bug.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_model::Packet;
use weir_packet::Transport;

/// TCP's protocol number.
const TCP_PROTOCOL: u8 = 6;

/// Sentences of artefacts that earlier versions wrote.
const FORMER_SENTENCES: [(Deviation, &str); 2] = [
    (
        Deviation::TruncatedHeader,
        "a packet whose transport header is cut short is not dropped by the first rule that looks \
         at it: the rule does not match",
    ),
    (
        Deviation::LimitResolution,
        "the bucket of limit fills by the nanosecond, not by the tick of the clock",
    ),
];

/// An intended difference between a form and its ruleset.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Deviation {
    /// nft does not drop what has a truncated transport header.
    TruncatedHeader,
    /// nft does not drop a TCP fragment at offset 1.
    TcpFragment,
    /// nft looks for ports in fragments.
    LaterFragment,
    /// nft has another clock for `limit`.
    LimitResolution,
    /// A form for iptables tests the protocol of other packets.
    MalformedExtensionHeaders,
    /// `cheaper_match` uses another algorithm for `string`.
    NonlinearStringMatch,
    /// `early_drop` drops before conntrack.
    EarlyDrop,
    /// `notrack` keeps packets from conntrack.
    Untracked,
    /// `merge_adjacent` makes one rule of several.
    SummedCounters,
    /// One that another version of weir wrote: its sentence.
    OtherVersion(String),
}

/// How to recognise that a deviation applies to a packet.
#[derive(Clone, Copy, Debug)]
pub enum DeviationTrigger {
    /// The packet: whether it may be treated differently.
    PacketPredicate(fn(&Packet) -> bool),
    /// The effect of the form's rules on the packet, as the interpreter determines it.
    JourneyOutcome,
    /// Nothing that a single packet of weir's checks has: rates, parts of a buffer, malformed
    /// headers, counters that are summed.
    NotDetectable,
}

impl Deviation {
    /// All that this version knows.
    pub const ALL: [Deviation; 9] = [
        Deviation::TruncatedHeader,
        Deviation::TcpFragment,
        Deviation::LaterFragment,
        Deviation::LimitResolution,
        Deviation::MalformedExtensionHeaders,
        Deviation::NonlinearStringMatch,
        Deviation::EarlyDrop,
        Deviation::Untracked,
        Deviation::SummedCounters,
    ];

    /// Its identifier, in bold type in `docs/semantics.md`.
    pub fn id_in_documentation(&self) -> &str {
        match self {
            Deviation::TruncatedHeader => "truncated header",
            Deviation::TcpFragment => "TCP fragment at offset 1",
            Deviation::LaterFragment => "later fragment",
            Deviation::LimitResolution => "limit in nftables",
            Deviation::MalformedExtensionHeaders => "malformed extension headers",
            Deviation::NonlinearStringMatch => "search by parts",
            Deviation::EarlyDrop => "early drop",
            Deviation::Untracked => "untracked",
            Deviation::SummedCounters => "summed counters",
            Deviation::OtherVersion(_) => "other",
        }
    }

    /// What is different, as manifests say it.
    pub fn sentence(&self) -> &str {
        match self {
            Deviation::TruncatedHeader => {
                "nft does not drop packets with truncated headers; iptables does"
            }
            Deviation::TcpFragment => {
                "a TCP fragment at offset 1 is not dropped: rules that look at the TCP header do \
                 not match it"
            }
            Deviation::LaterFragment => {
                "fragments that conntrack does not put together (a local socket that asks for it) \
                 are looked at as if they were whole"
            }
            Deviation::LimitResolution => {
                "nft refills `limit` at nanosecond, not jiffy, resolution"
            }
            Deviation::MalformedExtensionHeaders => {
                "an IPv6 packet with malformed extension headers is dropped when a rule looks at \
                 its protocol; rules that became sets look at it for more addresses than before"
            }
            Deviation::NonlinearStringMatch => {
                "a search by bm does not find a pattern that spreads over two parts of a packet \
                 that is not in one piece"
            }
            Deviation::EarlyDrop => {
                "packets that early_drop drops are counted by its rules in raw PREROUTING only; \
                 conntrack does not see them: they neither make, confirm nor refresh a \
                 connection, so that later packets of it may have another state (a dropped \
                 answer leaves it NEW); they are dropped without an ICMP error where no route is \
                 known; an IPv6 packet with malformed extension headers is dropped in raw"
            }
            Deviation::Untracked => {
                "traffic that notrack untracks has no entry in conntrack's table and is not \
                 counted by the policies of nat; an IPv6 packet with malformed extension headers \
                 is dropped in raw"
            }
            Deviation::SummedCounters => {
                "rules that were merged share a counter: the manifest lists them as summed"
            }
            Deviation::OtherVersion(sentence) => sentence,
        }
    }

    /// How to recognise that it applies.
    pub fn trigger(&self) -> DeviationTrigger {
        match self {
            Deviation::TruncatedHeader => {
                DeviationTrigger::PacketPredicate(|p| p.transport == Transport::Truncated)
            }
            Deviation::TcpFragment => DeviationTrigger::PacketPredicate(|p| {
                p.fragment.offset == 1 && p.proto == TCP_PROTOCOL
            }),
            Deviation::LaterFragment => DeviationTrigger::PacketPredicate(Packet::is_fragment),
            Deviation::EarlyDrop | Deviation::Untracked => DeviationTrigger::JourneyOutcome,
            Deviation::LimitResolution
            | Deviation::MalformedExtensionHeaders
            | Deviation::NonlinearStringMatch
            | Deviation::SummedCounters
            | Deviation::OtherVersion(_) => DeviationTrigger::NotDetectable,
        }
    }

    /// Whether a packet alone shows that the deviation may apply.
    pub fn is_triggered_by_packet_alone(&self, packet: &Packet) -> bool {
        match self.trigger() {
            DeviationTrigger::PacketPredicate(is_met) => is_met(packet),
            DeviationTrigger::JourneyOutcome | DeviationTrigger::NotDetectable => false,
        }
    }

    /// The identifiers of those that a packet alone shows, for a sentence.
    pub fn join_ids_with_packet_predicate() -> String {
        let shown = |d: &&Deviation| matches!(d.trigger(), DeviationTrigger::PacketPredicate(_));
        Deviation::ALL
            .iter()
            .filter(shown)
            .map(Deviation::id_in_documentation)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl From<Deviation> for String {
    fn from(deviation: Deviation) -> String {
        deviation.sentence().to_owned()
    }
}

impl From<String> for Deviation {
    fn from(sentence: String) -> Deviation {
        let known = Deviation::ALL.into_iter().find(|d| d.sentence() == sentence);
        let earlier =
            || FORMER_SENTENCES.into_iter().find(|(_, was)| *was == sentence).map(|(d, _)| d);
        known.or_else(earlier).unwrap_or(Deviation::OtherVersion(sentence))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_document_explains_every_deviation() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/semantics.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, section) = text.split_once("\n## Deviations\n").expect("the section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let words: Vec<&str> = section.split_whitespace().collect();
        let section = words.join(" ");
        for deviation in Deviation::ALL {
            let (id, sentence) = (deviation.id_in_documentation(), deviation.sentence());
            let entry = format!("**{id}**: {sentence}");
            assert!(section.contains(&entry), "docs/semantics.md lacks this entry:\n{entry}");
        }
        let entries = section.matches("**: ").count();
        assert_eq!(entries, Deviation::ALL.len(), "docs/semantics.md explains one that is none");
    }

    #[test]
    fn a_sentence_reads_back_and_another_one_is_kept() {
        for deviation in Deviation::ALL {
            let stored = serde_json::to_string(&deviation).unwrap();
            assert_eq!(serde_json::from_str::<Deviation>(&stored).unwrap(), deviation);
        }
        for (deviation, was) in FORMER_SENTENCES {
            assert_eq!(Deviation::from(was.to_owned()), deviation);
        }
        let other: Deviation = serde_json::from_str("\"something\"").unwrap();
        assert_eq!(other, Deviation::OtherVersion("something".to_owned()));
    }
}
