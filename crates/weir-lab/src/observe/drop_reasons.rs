//! Reasons why the kernel freed packets; read in validation trials only, because it costs time.

use std::collections::BTreeMap;

use libbpf_rs::Link;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use weir_bpf::{object_storage_and_attach, per_cpu_map};
use weir_kernel::Namespace;

use crate::LabError;

#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
mod bpf_skeleton {
    include!(concat!(env!("OUT_DIR"), "/drops.skel.rs"));
}
use bpf_skeleton::{DropsSkel, DropsSkelBuilder};

/// Slots of the program's table.
const REASON_SLOTS: u32 = 512;

/// Packets by the reason for which they were freed.
pub type DropReasonCounts = BTreeMap<String, u64>;

/// The reason with which the kernel frees what a ruleset dropped.
pub const NETFILTER_DROP_REASON: &str = "NETFILTER_DROP";

/// Counts freed packets by reason while a guard of it lives.
pub struct DropReasonCounter {
    bpf_skeleton: DropsSkel<'static>,
    reason_names: BTreeMap<u32, String>,
}

/// While it lives, freed packets of one namespace are counted.
pub struct DropWatchGuard {
    _link: Link,
}

impl DropReasonCounter {
    /// Loads the program.
    ///
    /// # Errors
    /// If the kernel lacks BTF or tracing.
    pub fn new() -> Result<DropReasonCounter, LabError> {
        let open = DropsSkelBuilder::default()
            .open(object_storage_and_attach::leak_object_storage())
            .map_err(LabError::bpf_error("open the BPF program of drop reasons"))?;
        let skeleton =
            open.load().map_err(LabError::bpf_error("load the BPF program of drop reasons"))?;
        Ok(DropReasonCounter { bpf_skeleton: skeleton, reason_names: read_drop_reason_names()? })
    }

    /// Counts from now on what `namespace` frees.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn watch_namespace(&mut self, namespace: &Namespace) -> Result<DropWatchGuard, LabError> {
        let bss =
            self.bpf_skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.inode = namespace.inode() as u32;
        let link = self
            .bpf_skeleton
            .progs
            .weir_drops
            .attach_trace()
            .map_err(LabError::bpf_error("attach to the tracepoint kfree_skb"))?;
        Ok(DropWatchGuard { _link: link })
    }

    /// All that was counted since the program was loaded.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn read_counts(&self) -> Result<DropReasonCounts, LabError> {
        let mut counts = DropReasonCounts::new();
        for reason in 0..REASON_SLOTS {
            let reasons = &self.bpf_skeleton.maps.reasons;
            let values =
                per_cpu_map::read_per_cpu_values::<u64>(reasons, reason, "read the drop reasons")?;
            let packets: u64 = values.iter().sum();
            if packets > 0 {
                let name = self.reason_names.get(&reason).cloned();
                *counts.entry(name.unwrap_or_else(|| format!("reason {reason}"))).or_default() +=
                    packets;
            }
        }
        Ok(counts)
    }
}

/// What was counted between two readings.
pub fn subtract_drop_counts(
    after: &DropReasonCounts,
    before: &DropReasonCounts,
) -> DropReasonCounts {
    after
        .iter()
        .map(|(name, packets)| (name.clone(), packets - before.get(name).unwrap_or(&0)))
        .filter(|(_, packets)| *packets > 0)
        .collect()
}

/// The running kernel's names of `enum skb_drop_reason`.
fn read_drop_reason_names() -> Result<BTreeMap<u32, String>, LabError> {
    let failed = "read the names of drop reasons";
    let btf = Btf::from_vmlinux().map_err(LabError::bpf_error(failed))?;
    let Some(reasons) = btf.type_by_name::<Enum<'_>>("skb_drop_reason") else {
        return Ok(BTreeMap::new());
    };
    let plain = |name: &str| {
        let name = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
        name.strip_prefix("SKB_").unwrap_or(name).to_owned()
    };
    let named = reasons.iter().filter_map(|member| {
        let name = member.name?.to_str()?;
        Some((u32::try_from(member.value).ok()?, plain(name)))
    });
    Ok(named.collect())
}
