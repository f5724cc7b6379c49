//! The sink: counts what arrives after the firewall.

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use weir_bpf::object_storage_and_attach;
use weir_bpf::per_cpu_map::{self, PlainCStruct};
use weir_kernel::Namespace;

use crate::LabError;

#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
mod bpf_skeleton {
    include!(concat!(env!("OUT_DIR"), "/sink.skel.rs"));
}
use bpf_skeleton::{SinkSkel, SinkSkelBuilder};

// SAFETY: numbers alone.
unsafe impl PlainCStruct for bpf_skeleton::types::tally {}

/// What arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkPacketCounts {
    /// Packets with the right tag that had to arrive.
    pub delivered: u64,
    /// Packets with the right tag that had to be dropped.
    pub leaked: u64,
    /// Other packets.
    pub foreign: u64,
}

impl SinkPacketCounts {
    /// What arrived since `before`.
    pub fn since(self, before: SinkPacketCounts) -> SinkPacketCounts {
        SinkPacketCounts {
            delivered: self.delivered - before.delivered,
            leaked: self.leaked - before.leaked,
            foreign: self.foreign - before.foreign,
        }
    }
}

/// An XDP program on every sink device, with one tally for each core.
pub struct Sink {
    bpf_skeleton: SinkSkel<'static>,
    bpf_links: Vec<Link>,
}

impl Sink {
    /// Loads the program.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn new() -> Result<Sink, LabError> {
        let open = SinkSkelBuilder::default()
            .open(object_storage_and_attach::leak_object_storage())
            .map_err(LabError::bpf_error("open the sink's BPF program"))?;
        let skeleton = open.load().map_err(LabError::bpf_error("load the sink's BPF program"))?;
        Ok(Sink { bpf_skeleton: skeleton, bpf_links: Vec::new() })
    }

    /// Attaches the program to a device.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn attach(&mut self, namespace: &Namespace, ifindex: u32) -> Result<(), LabError> {
        let program = &self.bpf_skeleton.progs.weir_sink;
        self.bpf_links.push(object_storage_and_attach::attach_xdp(
            program,
            namespace,
            ifindex,
            "attach the sink",
        )?);
        Ok(())
    }

    /// Takes the program off every device.
    #[cfg(test)]
    pub(crate) fn detach(&mut self) {
        self.bpf_links.clear();
    }

    /// Sets the tag that counts from now on.
    pub fn set_expected_tag(&mut self, magic: u32) {
        let bss =
            self.bpf_skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.magic = magic;
    }

    /// Lets the kernel's own sockets have the segments of TCP for this address.
    pub(crate) fn pass_tcp_of_address_to_kernel(&mut self, address: std::net::Ipv4Addr) {
        let bss =
            self.bpf_skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.stream_address = u32::from_ne_bytes(address.octets());
    }

    /// Everything that arrived since the program was loaded.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn read_counts(&self) -> Result<SinkPacketCounts, LabError> {
        let tallies = &self.bpf_skeleton.maps.tallies;
        let mut sum = SinkPacketCounts::default();
        for tally in per_cpu_map::read_per_cpu_values::<bpf_skeleton::types::tally>(
            tallies,
            0,
            "read the sink's tallies",
        )? {
            sum.delivered += tally.delivered;
            sum.leaked += tally.leaked;
            sum.foreign += tally.foreign;
        }
        Ok(sum)
    }
}
