//! The result of a comparison.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use weir_model::Packet;
use weir_semantics::{JourneyKind, Verdict};
use weir_syntax::packet::print_packet;

use crate::diagram_check::DiagramDisagreementOrSkipReason;

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Seed of the packets.
    pub seed: u64,
    /// Packets that were made.
    pub generated: u64,
    /// Packets that were compared in every firewall.
    pub compared: u64,
    /// Of those, by path: `ipv4 forward`.
    #[serde(rename = "compared_by_way")]
    pub compared_by_path: BTreeMap<String, u64>,
    /// Of those, by what conntrack took them for.
    pub compared_by_state: BTreeMap<String, u64>,
    /// Those of [`VerifyOptions::exact_packets`](crate::VerifyOptions::exact_packets) that were
    /// compared.
    #[serde(skip)]
    pub compared_packets: Vec<ComparedPacket>,
    /// Of those, tried one at a time.
    pub singles: u64,
    /// Packets that were not compared, by cause.
    pub excluded: BTreeMap<String, u64>,
    /// What is not part of the comparison, in sentences.
    pub not_compared: Vec<String>,
    /// The original ruleset (`linear`) and each form.
    pub ways: Vec<RulesetReport>,
    /// The diagram's results, if it was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagram: Option<DiagramCheckReport>,
    /// The first differences, closely.
    pub differences: Vec<PacketDifference>,
    /// How long it took.
    pub seconds: f64,
}

/// A packet that was sent through the kernel, and its verdict there, if nothing differs.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedPacket {
    /// Its path: INPUT if the host without rules takes it as its own, as packets to 127.0.0.0/8.
    pub journey_kind: JourneyKind,
    /// The packet as it was sent, with the state that conntrack gave it.
    pub packet: Packet,
    /// The verdict, as the interpreter says with the kernel's results of matches that the packet
    /// does not determine.
    pub verdict: Verdict,
}

/// The results of the ruleset's diagram for the packets that were compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiagramCheckReport {
    /// Packets for which it was evaluated.
    pub compared: u64,
    /// Those with another result than the interpreter's.
    pub differences: u64,
    /// Packets for which it was not evaluated, by cause.
    pub not_asked: BTreeMap<String, u64>,
}

/// The result of one ruleset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RulesetReport {
    /// `linear` for the original, else the form.
    pub name: String,
    /// Packets compared.
    pub compared: u64,
    /// Packets with another verdict, or another outgoing packet.
    pub verdict_differences: u64,
    /// Packets that were counted otherwise.
    #[serde(rename = "counter_differences")]
    pub packets_with_counter_difference: u64,
    /// Differences that `docs/semantics.md` names, by name.
    pub named: BTreeMap<String, u64>,
    /// How often all counters were read and compared.
    #[serde(rename = "counter_readings")]
    pub counter_read_rounds: u64,
    /// Counters of originals that were compared at each reading.
    pub counters: u64,
    /// Originals that at least one compared packet counted in.
    pub counters_hit: u64,
}

/// One packet that was treated in another way than the interpreter says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketDifference {
    /// In which ruleset.
    pub way: String,
    /// The packet, in words.
    pub packet: String,
    /// What the interpreter says, then what the kernel did.
    pub what: Vec<String>,
    /// Its number in the pcap file, from 1; 0 where none was written.
    pub frame: u64,
}

impl VerifyReport {
    /// Whether nothing differed, except what is named.
    pub fn has_no_unintended_difference(&self) -> bool {
        self.ways
            .iter()
            .all(|w| w.verdict_differences == 0 && w.packets_with_counter_difference == 0)
            && self.diagram.as_ref().is_none_or(|d| d.differences == 0)
    }

    /// Records the diagram's result for a packet; at most `max` differences in detail.
    pub(crate) fn record_diagram_check(
        &mut self,
        packet: &Packet,
        looked: Option<&DiagramDisagreementOrSkipReason>,
        max: usize,
    ) {
        let Some(looked) = looked else { return };
        let report = self.diagram.get_or_insert_with(DiagramCheckReport::default);
        match looked {
            Err(cause) => *report.not_asked.entry((*cause).to_owned()).or_default() += 1,
            Ok(differs) => {
                report.compared += 1;
                let Some(what) = differs else { return };
                report.differences += 1;
                if report.differences <= max as u64 {
                    let (way, packet) = ("diagram".to_owned(), print_packet(packet));
                    let what = vec![what.clone()];
                    self.differences.push(PacketDifference { way, packet, what, frame: 0 });
                }
            }
        }
    }

    pub(crate) fn count_excluded_packets(&mut self, cause: &str, packets: u64) {
        if packets > 0 {
            *self.excluded.entry(cause.to_owned()).or_default() += packets;
        }
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of {} packets compared in {:.0} s, {} of them one at a time (seed {})",
            self.compared, self.generated, self.seconds, self.singles, self.seed
        )?;
        for way in &self.ways {
            writeln!(
                f,
                "  {:<8} {} verdicts and {} counters differ ({} counters read {} times, {} hit)",
                way.name,
                way.verdict_differences,
                way.packets_with_counter_difference,
                way.counters,
                way.counter_read_rounds,
                way.counters_hit
            )?;
            for (name, packets) in &way.named {
                writeln!(f, "           {packets} packets: {name}")?;
            }
        }
        if let Some(diagram) = &self.diagram {
            let DiagramCheckReport { compared, differences, not_asked } = diagram;
            writeln!(f, "    diagram  compared with {compared} packets, {differences} differ")?;
            for (cause, packets) in not_asked {
                writeln!(f, "                      not compared with {packets} packets: {cause}")?;
            }
        }
        for (cause, packets) in &self.excluded {
            writeln!(f, "  not compared: {packets} packets: {cause}")?;
        }
        for sentence in &self.not_compared {
            writeln!(f, "  not compared: {sentence}")?;
        }
        for d in &self.differences {
            writeln!(f, "  differs in {}: {}", d.way, d.packet)?;
            for line in &d.what {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}
