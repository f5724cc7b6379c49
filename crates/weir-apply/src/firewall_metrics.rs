//! What a monitoring system records of a firewall: the generation in force, the counters of its
//! original rules, the sizes of sets and the use of the connection tracking table.

use std::fs;
use std::path::Path;

use weir_kernel::ipset_list::{IpsetSummary, read_ipsets};
use weir_kernel::kernel_feature::KernelFeature;

use crate::counter_listing::{OriginalCounterReader, OriginalRuleCounterRow};
use crate::state_store::{GenerationKind, GenerationOutcome, JournalStage, StateStore};
use crate::{ApplyError, ApplyOperationError};

/// The values of one reading.
#[derive(Debug)]
pub struct FirewallMetrics {
    /// The generation in force; none if weir applied nothing since the boot.
    pub generation: Option<GenerationMetrics>,
    /// The rules and policies of its files with their counters; the reason if they cannot be read,
    /// for example because somebody else changed the ruleset.
    pub counters: Result<Vec<OriginalRuleCounterRow>, ApplyOperationError>,
    /// The sets of ipset in the network namespace.
    pub ipsets: Vec<IpsetSummary>,
    /// The connection tracking table; none if the kernel tracks no connections.
    pub conntrack: Option<ConntrackUse>,
}

/// What is known of the generation in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GenerationMetrics {
    /// Its number.
    pub generation: u32,
    /// Whether weir applied it; else it is a snapshot of what others loaded.
    pub is_applied: bool,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// How long the change of the ruleset took; none of a ruleset that weir found in force.
    pub apply_microseconds: Option<u64>,
    /// Whether it was confirmed.
    pub is_confirmed: bool,
    /// Seconds that are left for the confirmation, if one is awaited.
    pub confirmation_seconds_left: Option<u64>,
}

/// Entries of the connection tracking table of a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConntrackUse {
    /// Entries now.
    pub entries: u64,
    /// The limit; 0 is none.
    pub limit: u64,
}

/// Reads the metrics of the current network namespace. `reader` keeps the parsed files from one
/// reading to the next.
///
/// # Errors
/// Where the state is not safe or cannot be read, or the kernel refuses to list sets.
pub fn read_firewall_metrics(
    state: &Path,
    reader: &mut OriginalCounterReader,
) -> Result<FirewallMetrics, ApplyOperationError> {
    let store = StateStore::find(state)?;
    let generation = match store.read_current_of_this_boot()?.generation {
        Some(generation) => {
            let record = store.read_generation_record(generation)?;
            let journal = store.read_journal()?;
            let pending = journal.filter(|journal| journal.stage == JournalStage::InForce);
            Some(GenerationMetrics {
                generation,
                is_applied: record.kind != GenerationKind::Snapshot,
                created_unix_seconds: record.created_unix_seconds,
                apply_microseconds: record.apply_microseconds,
                is_confirmed: record.outcome == GenerationOutcome::Confirmed,
                confirmation_seconds_left: pending.and_then(|journal| journal.seconds_left()),
            })
        }
        None => None,
    };
    let ipsets = match KernelFeature::Ipset.is_loaded() {
        true => read_ipsets().map_err(ApplyError::from)?,
        false => Vec::new(),
    };
    Ok(FirewallMetrics {
        generation,
        counters: reader.read(),
        ipsets,
        conntrack: read_conntrack_use(),
    })
}

fn read_conntrack_use() -> Option<ConntrackUse> {
    let read = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
        text.ok()?.trim().parse().ok()
    };
    Some(ConntrackUse { entries: read("count")?, limit: read("max")? })
}
