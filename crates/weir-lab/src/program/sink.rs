//! The sink: counts what arrives behind the firewall.

use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use weir_kernel::Namespace;

use crate::LabError;

#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sink.skel.rs"));
}
use skeleton::{SinkSkel, SinkSkelBuilder};

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
        // As in the generator: a few dozen bytes for the life of the process.
        let storage: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let open = SinkSkelBuilder::default()
            .open(storage)
            .map_err(LabError::bpf("open the sink's BPF program"))?;
        let skeleton = open.load().map_err(LabError::bpf("load the sink's BPF program"))?;
        Ok(Sink { skeleton, links: Vec::new() })
    }

    /// Attaches the program to a device.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn attach(&mut self, namespace: &Namespace, ifindex: u32) -> Result<(), LabError> {
        let attach = || self.skeleton.progs.weir_sink.attach_xdp(ifindex as i32);
        let link = namespace.enter(attach)?.map_err(LabError::bpf("attach the sink"))?;
        self.links.push(link);
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
        let tallies = self
            .skeleton
            .maps
            .tallies
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(LabError::bpf("read the sink's tallies"))?
            .unwrap_or_default();
        let mut sum = Arrived::default();
        for tally in tallies {
            let word = |at: usize| {
                let bytes = tally[at * 8..at * 8 + 8].try_into().expect("eight bytes");
                u64::from_ne_bytes(bytes)
            };
            sum.delivered += word(0);
            sum.leaked += word(1);
            sum.foreign += word(2);
        }
        Ok(sum)
    }
}
