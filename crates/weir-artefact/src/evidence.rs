//! The evidence that a form is equal to its ruleset.
//!
//! Each pass is checked before anything is written: by a proof over all packets or, if there is no
//! proof, on sample packets, with the reason why there is none.

use serde::{Deserialize, Serialize};

/// What speaks for the result of one pass. `W` is the reason why there is no proof.
#[derive(Clone, Debug, PartialEq)]
pub enum PassEqualityEvidence<W = String> {
    /// The pass changed nothing.
    Unchanged,
    /// It did not run: why.
    PassNotRun(String),
    /// Proven for all packets; its counters were compared on so many.
    ProvenAndPacketsCompared(u64),
    /// Compared on this many packets; why there is no proof.
    ComparedPackets(u64, W),
    /// Nothing: it was trusted.
    Trusted,
}

impl<W> PassEqualityEvidence<W> {
    /// The word that the manifest stores.
    pub const fn manifest_word(&self) -> &'static str {
        match self {
            PassEqualityEvidence::Unchanged => "unchanged",
            PassEqualityEvidence::PassNotRun(_) => "skipped",
            PassEqualityEvidence::ProvenAndPacketsCompared(_) => "proven",
            PassEqualityEvidence::ComparedPackets(..) => "packets",
            PassEqualityEvidence::Trusted => "trusted",
        }
    }

    /// Packets that went through the interpreter before and after the pass.
    pub const fn compared_packet_count(&self) -> u64 {
        match self {
            PassEqualityEvidence::ProvenAndPacketsCompared(packets)
            | PassEqualityEvidence::ComparedPackets(packets, _) => *packets,
            PassEqualityEvidence::Unchanged
            | PassEqualityEvidence::PassNotRun(_)
            | PassEqualityEvidence::Trusted => 0,
        }
    }
}

impl<W: ToString> PassEqualityEvidence<W> {
    /// The same with the reason as text.
    pub fn map_reason_to_text(&self) -> PassEqualityEvidence {
        match self {
            PassEqualityEvidence::Unchanged => PassEqualityEvidence::Unchanged,
            PassEqualityEvidence::PassNotRun(why) => PassEqualityEvidence::PassNotRun(why.clone()),
            PassEqualityEvidence::ProvenAndPacketsCompared(packets) => {
                PassEqualityEvidence::ProvenAndPacketsCompared(*packets)
            }
            PassEqualityEvidence::ComparedPackets(packets, why) => {
                PassEqualityEvidence::ComparedPackets(*packets, why.to_string())
            }
            PassEqualityEvidence::Trusted => PassEqualityEvidence::Trusted,
        }
    }
}

/// What the check before writing did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EqualityCheckRecord {
    /// Packets put through the interpreter before and after.
    pub packets: u64,
    /// Seed of the random ones.
    pub seed: u64,
    /// What each pass did, and how it was checked.
    #[serde(default)]
    pub passes: Vec<CheckedPass>,
}

/// One pass, and how it was checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "ManifestPassEntry", try_from = "ManifestPassEntry")]
pub struct CheckedPass {
    /// Its name.
    pub pass: String,
    /// What speaks for its result.
    pub evidence: PassEqualityEvidence,
    /// Rules before it.
    pub rules_before: u64,
    /// Rules after it.
    pub rules_after: u64,
    /// Rules that a packet of the check tried before it, on average; absent without a check.
    pub tried_before: Option<f64>,
    /// The same after it.
    pub tried_after: Option<f64>,
}

/// A [`CheckedPass`] as the manifest stores it.
#[derive(Serialize, Deserialize)]
struct ManifestPassEntry {
    pass: String,
    by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    why: String,
    #[serde(default)]
    packets: u64,
    rules_before: u64,
    rules_after: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tried_before: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tried_after: Option<f64>,
}

impl From<CheckedPass> for ManifestPassEntry {
    fn from(checked: CheckedPass) -> ManifestPassEntry {
        let CheckedPass { pass, evidence, rules_before, rules_after, tried_before, tried_after } =
            checked;
        let (by, packets) = (evidence.manifest_word().to_owned(), evidence.compared_packet_count());
        let why = match evidence {
            PassEqualityEvidence::PassNotRun(why)
            | PassEqualityEvidence::ComparedPackets(_, why) => why,
            PassEqualityEvidence::Unchanged
            | PassEqualityEvidence::ProvenAndPacketsCompared(_)
            | PassEqualityEvidence::Trusted => String::new(),
        };
        ManifestPassEntry {
            pass,
            by,
            why,
            packets,
            rules_before,
            rules_after,
            tried_before,
            tried_after,
        }
    }
}

impl TryFrom<ManifestPassEntry> for CheckedPass {
    type Error = String;

    fn try_from(stored: ManifestPassEntry) -> Result<CheckedPass, String> {
        let ManifestPassEntry {
            pass,
            by,
            why,
            packets,
            rules_before,
            rules_after,
            tried_before,
            tried_after,
        } = stored;
        let evidence = match by.as_str() {
            "unchanged" => PassEqualityEvidence::Unchanged,
            "skipped" => PassEqualityEvidence::PassNotRun(why),
            "proven" => PassEqualityEvidence::ProvenAndPacketsCompared(packets),
            "packets" => PassEqualityEvidence::ComparedPackets(packets, why),
            "trusted" => PassEqualityEvidence::Trusted,
            _ => return Err(format!("the pass {pass} was checked by {by:?}, which is no check")),
        };
        Ok(CheckedPass { pass, evidence, rules_before, rules_after, tried_before, tried_after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_reads_back_as_it_was_stored() {
        let all = [
            PassEqualityEvidence::Unchanged,
            PassEqualityEvidence::PassNotRun("it loses counters".to_owned()),
            PassEqualityEvidence::ProvenAndPacketsCompared(7),
            PassEqualityEvidence::ComparedPackets(8, "no memory".to_owned()),
            PassEqualityEvidence::Trusted,
        ];
        for evidence in all {
            let pass = CheckedPass {
                pass: "chain_tree".to_owned(),
                evidence,
                rules_before: 3,
                rules_after: 4,
                tried_before: Some(1.5),
                tried_after: None,
            };
            let stored = serde_json::to_string(&pass).unwrap();
            assert_eq!(serde_json::from_str::<CheckedPass>(&stored).unwrap(), pass, "{stored}");
        }
        let other = r#"{"pass": "x", "by": "luck", "rules_before": 1, "rules_after": 1}"#;
        let error = serde_json::from_str::<CheckedPass>(other).unwrap_err().to_string();
        assert!(error.contains("checked by \"luck\""), "{error}");
    }
}
