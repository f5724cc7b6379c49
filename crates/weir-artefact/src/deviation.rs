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

/// One row of the table of deviations.
struct DeviationRow {
    /// Its identifier, in bold type in `docs/semantics.md`.
    id: &'static str,
    /// What is different, as manifests say it.
    sentence: &'static str,
    /// Sentences of artefacts that earlier versions wrote.
    former_sentences: &'static [&'static str],
    /// How to recognise that it applies.
    trigger: DeviationTrigger,
}

/// Declares [`Deviation`], [`Deviation::ALL`] and the rows, so that none can lack an entry.
macro_rules! declare_deviations {
    ($( $(#[$doc:meta])+ $variant:ident { $($column:ident: $value:expr,)+ } )+) => {
        /// An intended difference between a form and its ruleset.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(into = "String", from = "String")]
        pub enum Deviation {
            $( $(#[$doc])+ $variant, )+
            /// One that another version of weir wrote: its sentence.
            OtherVersion(String),
        }

        impl Deviation {
            /// All that this version knows.
            pub const ALL: &'static [Deviation] = &[$(Deviation::$variant),+];

            /// Its row; none for a deviation of another version.
            fn deviation_table_row(&self) -> Option<&'static DeviationRow> {
                match self {
                    $( Deviation::$variant => {
                        const ROW: DeviationRow = DeviationRow { $($column: $value,)+ };
                        Some(&ROW)
                    } )+
                    Deviation::OtherVersion(_) => None,
                }
            }
        }
    };
}

declare_deviations! {
    /// nft does not drop what has a truncated transport header.
    TruncatedHeader {
        id: "truncated header",
        sentence: "nft does not drop packets with truncated headers; iptables does",
        former_sentences: &[
            "a packet whose transport header is cut short is not dropped by the first rule that \
             looks at it: the rule does not match",
        ],
        trigger: DeviationTrigger::PacketPredicate(has_truncated_header),
    }
    /// nft does not drop a TCP fragment at offset 1.
    TcpFragment {
        id: "TCP fragment at offset 1",
        sentence: "a TCP fragment at offset 1 is not dropped: rules that test the TCP header do \
                   not match it",
        former_sentences: &[
            "a TCP fragment at offset 1 is not dropped: rules that look at the TCP header do not \
             match it",
        ],
        trigger: DeviationTrigger::PacketPredicate(|p| {
            p.fragment.offset == 1 && p.proto == TCP_PROTOCOL
        }),
    }
    /// nft looks for ports in fragments.
    LaterFragment {
        id: "later fragment",
        sentence: "fragments that conntrack does not reassemble (because a local socket requests \
                   it) are tested as if they were whole packets",
        former_sentences: &[
            "fragments that conntrack does not put together (a local socket that asks for it) are \
             looked at as if they were whole",
        ],
        trigger: DeviationTrigger::PacketPredicate(Packet::is_fragment),
    }
    /// nft has another clock for `limit`.
    LimitResolution {
        id: "limit in nftables",
        sentence: "nft refills `limit` at nanosecond, not jiffy, resolution",
        former_sentences: &[
            "the bucket of limit fills by the nanosecond, not by the tick of the clock",
        ],
        trigger: DeviationTrigger::NotDetectable,
    }
    /// A form for iptables tests the protocol of other packets.
    MalformedExtensionHeaders {
        id: "malformed extension headers",
        sentence: "an IPv6 packet with malformed extension headers is dropped when a rule tests its \
                   protocol; rules that became sets test it for more addresses than before",
        former_sentences: &[
            "an IPv6 packet with malformed extension headers is dropped when a rule looks at its \
             protocol; rules that became sets look at it for more addresses than before",
        ],
        trigger: DeviationTrigger::NotDetectable,
    }
    /// `cheaper_match` uses another algorithm for `string`.
    NonlinearStringMatch {
        id: "search by parts",
        sentence: "a search by bm does not find a pattern that crosses two memory fragments of a \
                   packet",
        former_sentences: &[
            "a search by bm does not find a pattern that spreads over two parts of a packet that \
             is not in one piece",
        ],
        trigger: DeviationTrigger::NotDetectable,
    }
    /// `early_drop` drops before conntrack.
    EarlyDrop {
        id: "early drop",
        sentence: "packets that early_drop drops are counted by its rules in raw PREROUTING only; \
                   conntrack does not see them: they neither create, confirm nor refresh a \
                   connection, so that later packets of it may have another state (a dropped \
                   reply leaves it NEW); they are dropped without an ICMP error if no route is \
                   known; an IPv6 packet with malformed extension headers is dropped in raw",
        former_sentences: &[
            "packets that early_drop drops are counted by its rules in raw PREROUTING only; \
             conntrack does not see them: they neither make, confirm nor refresh a connection, so \
             that later packets of it may have another state (a dropped answer leaves it NEW); they \
             are dropped without an ICMP error where no route is known; an IPv6 packet with \
             malformed extension headers is dropped in raw",
        ],
        trigger: DeviationTrigger::JourneyOutcome,
    }
    /// `notrack` keeps packets from conntrack.
    Untracked {
        id: "untracked",
        sentence: "traffic that notrack untracks has no entry in conntrack's table and is not \
                   counted by the policies of nat; an IPv6 packet with malformed extension headers \
                   is dropped in raw",
        former_sentences: &[],
        trigger: DeviationTrigger::JourneyOutcome,
    }
    /// `merge_adjacent` makes one rule of several.
    SummedCounters {
        id: "summed counters",
        sentence: "rules that were merged share a counter: the manifest lists them as summed",
        former_sentences: &[],
        trigger: DeviationTrigger::NotDetectable,
    }
}

impl Deviation {
    /// Its identifier, in bold type in `docs/semantics.md`.
    pub fn documented_id_or_other(&self) -> &str {
        self.deviation_table_row().map_or("other", |row| row.id)
    }

    /// What is different, as manifests say it.
    pub fn sentence(&self) -> &str {
        match self {
            Deviation::OtherVersion(sentence) => sentence,
            known => known.deviation_table_row().map_or("", |row| row.sentence),
        }
    }

    /// How to recognise that it applies.
    pub fn trigger(&self) -> DeviationTrigger {
        self.deviation_table_row().map_or(DeviationTrigger::NotDetectable, |row| row.trigger)
    }

    /// Whether a packet alone shows that the deviation may apply.
    pub fn is_triggered_by_packet_alone(&self, packet: &Packet) -> bool {
        match self.trigger() {
            DeviationTrigger::PacketPredicate(is_met) => is_met(packet),
            DeviationTrigger::JourneyOutcome | DeviationTrigger::NotDetectable => false,
        }
    }

    /// The deviation of the identifier that verdict cases and `docs/semantics.md` use. A manifest
    /// holds the sentence instead.
    pub fn find_by_documented_id(id: &str) -> Option<&'static Deviation> {
        Deviation::ALL.iter().find(|deviation| deviation.documented_id_or_other() == id)
    }

    /// The identifiers of those that a packet alone shows, for a sentence.
    pub fn join_ids_with_packet_predicate() -> String {
        let shown = |d: &&Deviation| matches!(d.trigger(), DeviationTrigger::PacketPredicate(_));
        Deviation::ALL
            .iter()
            .filter(shown)
            .map(Deviation::documented_id_or_other)
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
        let has_sentence = |deviation: &&Deviation| {
            deviation.deviation_table_row().is_some_and(|row| {
                row.sentence == sentence || row.former_sentences.contains(&sentence.as_str())
            })
        };
        let known = Deviation::ALL.iter().find(has_sentence).cloned();
        known.unwrap_or(Deviation::OtherVersion(sentence))
    }
}

/// Whether some match of iptables drops the packet because its transport header is truncated.
/// xt_dccp.c requires twelve bytes, of which eight are the packet's payload.
fn has_truncated_header(packet: &Packet) -> bool {
    match packet.transport {
        Transport::Truncated => true,
        Transport::DccpPorts { .. } => packet.payload.len() < 8 && packet.fragment.offset == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_testkit::testdata::testdata_path;
    use weir_testkit::verdict_cases::read_verdict_cases;

    use super::*;

    #[test]
    fn semantics_document_lists_exactly_the_known_deviations() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/semantics.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, section) = text.split_once("\n## Deviations\n").expect("the section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let words: Vec<&str> = section.split_whitespace().collect();
        let section = words.join(" ");
        for deviation in Deviation::ALL {
            let (id, sentence) = (deviation.documented_id_or_other(), deviation.sentence());
            let entry = format!("**{id}**: {sentence}");
            assert!(section.contains(&entry), "docs/semantics.md lacks this entry:\n{entry}");
        }
        let entries = section.matches("**: ").count();
        assert_eq!(entries, Deviation::ALL.len(), "docs/semantics.md explains one that is none");
    }

    #[test]
    fn every_verdict_case_cites_deviations_by_their_identifiers() {
        let cases = read_verdict_cases(&testdata_path("verdicts"));
        let cited = || {
            cases.iter().flat_map(|case| case.shown_deviation_ids.iter().map(move |id| (case, id)))
        };
        for (case, id) in cited() {
            assert!(
                Deviation::find_by_documented_id(id).is_some(),
                "{}: no deviation {id:?}",
                case.name
            );
        }
        assert!(cited().any(|(_, id)| id == "truncated header"));
        assert!(Deviation::find_by_documented_id("2").is_none());
    }

    #[test]
    fn former_and_unknown_deviation_sentences_are_read() {
        let mut former = 0;
        for deviation in Deviation::ALL {
            let stored = serde_json::to_string(deviation).unwrap();
            assert_eq!(serde_json::from_str::<Deviation>(&stored).unwrap(), *deviation);
            for was in deviation.deviation_table_row().expect("a known deviation").former_sentences
            {
                assert_eq!(Deviation::from((*was).to_owned()), *deviation);
                former += 1;
            }
        }
        assert!(former >= 2, "sentences of earlier versions are read");
        let other: Deviation = serde_json::from_str("\"something\"").unwrap();
        assert_eq!(other, Deviation::OtherVersion("something".to_owned()));
    }
}
