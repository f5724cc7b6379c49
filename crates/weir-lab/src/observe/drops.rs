//! Reasons why the kernel freed packets; read in validation trials only, because it costs time.

use std::collections::BTreeMap;

use libbpf_rs::Link;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use weir_bpf::{object, per_cpu};
use weir_kernel::Namespace;

use crate::LabError;

#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/drops.skel.rs"));
}
use skeleton::{DropsSkel, DropsSkelBuilder};

/// Slots of the program's table.
const REASONS: u32 = 512;

/// Packets by the reason for which they were freed.
pub type Reasons = BTreeMap<String, u64>;

/// The reason with which the kernel frees what a ruleset dropped.
pub const NETFILTER_DROP: &str = "NETFILTER_DROP";

/// Counts freed packets by reason while a guard of it lives.
pub struct DropReasons {
    skeleton: DropsSkel<'static>,
    names: BTreeMap<u32, String>,
}

/// While it lives, freed packets of one namespace are counted.
pub struct DropWatch {
    _link: Link,
}

impl DropReasons {
    /// Loads the program.
    ///
    /// # Errors
    /// Where the kernel lacks BTF or tracing.
    pub fn new() -> Result<DropReasons, LabError> {
        let open = DropsSkelBuilder::default()
            .open(object::storage())
            .map_err(LabError::bpf("open the BPF program of drop reasons"))?;
        let skeleton =
            open.load().map_err(LabError::bpf("load the BPF program of drop reasons"))?;
        Ok(DropReasons { skeleton, names: reason_names()? })
    }

    /// Counts from now on what `namespace` frees.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn watch(&mut self, namespace: &Namespace) -> Result<DropWatch, LabError> {
        let bss = self.skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.inode = namespace.inode() as u32;
        let link = self
            .skeleton
            .progs
            .weir_drops
            .attach_trace()
            .map_err(LabError::bpf("attach to the tracepoint kfree_skb"))?;
        Ok(DropWatch { _link: link })
    }

    /// All that was counted since the program was loaded.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn read(&self) -> Result<Reasons, LabError> {
        let mut counts = Reasons::new();
        for reason in 0..REASONS {
            let reasons = &self.skeleton.maps.reasons;
            let values = per_cpu::values::<u64>(reasons, reason, "read the drop reasons")?;
            let packets: u64 = values.iter().sum();
            if packets > 0 {
                let name = self.names.get(&reason).cloned();
                *counts.entry(name.unwrap_or_else(|| format!("reason {reason}"))).or_default() +=
                    packets;
            }
        }
        Ok(counts)
    }
}

/// What was counted between two readings.
pub fn since(after: &Reasons, before: &Reasons) -> Reasons {
    after
        .iter()
        .map(|(name, packets)| (name.clone(), packets - before.get(name).unwrap_or(&0)))
        .filter(|(_, packets)| *packets > 0)
        .collect()
}

/// The running kernel's names of `enum skb_drop_reason`.
fn reason_names() -> Result<BTreeMap<u32, String>, LabError> {
    let failed = "read the names of drop reasons";
    let btf = Btf::from_vmlinux().map_err(LabError::bpf(failed))?;
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
