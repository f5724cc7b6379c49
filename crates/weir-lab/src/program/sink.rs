//! The sink: counts what arrives after the firewall.

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use weir_bpf::object;
use weir_bpf::per_cpu::{self, CStruct};
use weir_kernel::Namespace;

use crate::LabError;

#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sink.skel.rs"));
}
use skeleton::{SinkSkel, SinkSkelBuilder};

// SAFETY: numbers alone.
unsafe impl CStruct for skeleton::types::tally {}

/// What arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Packets with the right tag that had to arrive.
    pub delivered: u64,
    /// Packets with the right tag that had to be dropped.
    pub leaked: u64,
    /// Other packets.
    pub foreign: u64,
}

impl Arrived {
    /// What arrived since `before`.
    pub fn since(self, before: Arrived) -> Arrived {
        Arrived {
            delivered: self.delivered - before.delivered,
            leaked: self.leaked - before.leaked,
            foreign: self.foreign - before.foreign,
        }
    }
}

/// An XDP program on every sink device, with one tally for each core.
pub struct Sink {
    skeleton: SinkSkel<'static>,
    links: Vec<Link>,
}

impl Sink {
    /// Loads the program.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn new() -> Result<Sink, LabError> {
        let open = SinkSkelBuilder::default()
            .open(object::storage())
            .map_err(LabError::bpf("open the sink's BPF program"))?;
        let skeleton = open.load().map_err(LabError::bpf("load the sink's BPF program"))?;
        Ok(Sink { skeleton, links: Vec::new() })
    }

    /// Attaches the program to a device.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn attach(&mut self, namespace: &Namespace, ifindex: u32) -> Result<(), LabError> {
        let program = &self.skeleton.progs.weir_sink;
        self.links.push(object::attach_xdp(program, namespace, ifindex, "attach the sink")?);
        Ok(())
    }

    /// Takes the program off every device.
    #[cfg(test)]
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// Sets the tag that counts from now on.
    pub fn expect(&mut self, magic: u32) {
        let bss = self.skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.magic = magic;
    }

    /// Lets the kernel's own sockets have the segments of TCP for this address.
    pub(crate) fn pass_streams_to(&mut self, address: std::net::Ipv4Addr) {
        let bss = self.skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.stream_address = u32::from_ne_bytes(address.octets());
    }

    /// Everything that arrived since the program was loaded.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn read(&self) -> Result<Arrived, LabError> {
        let tallies = &self.skeleton.maps.tallies;
        let mut sum = Arrived::default();
        for tally in
            per_cpu::values::<skeleton::types::tally>(tallies, 0, "read the sink's tallies")?
        {
            sum.delivered += tally.delivered;
            sum.leaked += tally.leaked;
            sum.foreign += tally.foreign;
        }
        Ok(sum)
    }
}
