//! veth pairs between namespaces, created inside them and never in the user's namespace.

use weir_packet::Mac;

use crate::device_name::check_name;
use crate::rtnetlink::NewLink;
use crate::{KernelError, Namespace, Session};

/// What both ends of a veth pair get.
#[derive(Clone, Debug, Default)]
pub struct VethOptions {
    /// The first end.
    pub a: LinkEnd,
    /// The second end.
    pub b: LinkEnd,
    /// Largest packet in bytes; 0 leaves the kernel's 1500.
    pub mtu: u32,
    /// Queues in each direction; 0 leaves the kernel's choice.
    pub queues: u32,
    /// Generic receive offload on both ends, set after both are up, so that each end has a NAPI
    /// context and takes redirected frames.
    pub gro: bool,
}

/// What one end of a veth pair gets.
#[derive(Clone, Debug, Default)]
pub struct LinkEnd {
    /// MAC address; the kernel's random one where absent.
    pub mac: Option<Mac>,
    /// Addresses with prefix length, e.g. `198.51.100.1/24`.
    pub addrs: Vec<String>,
}

impl Session {
    /// Makes a veth pair and sets both ends up: `device_a` in `a`, `device_b` in `b`.
    ///
    /// # Errors
    /// Names that the kernel refuses, or that are taken; addresses that are none.
    pub fn veth(
        &self,
        a: &Namespace,
        device_a: &str,
        b: &Namespace,
        device_b: &str,
        options: &VethOptions,
    ) -> Result<(), KernelError> {
        check_name(device_a)?;
        check_name(device_b)?;
        let end_a = new_link(device_a, &options.a, options);
        let end_b = new_link(device_b, &options.b, options);
        a.links()?
            .add_veth(end_a, end_b, b.fd())
            .map_err(KernelError::netlink("add link", a.device_text(device_a)))?;
        a.set_up_end(device_a, &options.a)?;
        b.set_up_end(device_b, &options.b)?;
        if options.gro {
            a.set_gro(device_a, true)?;
            b.set_gro(device_b, true)?;
        }
        Ok(())
    }
}

impl Namespace {
    fn set_up_end(&self, device: &str, end: &LinkEnd) -> Result<(), KernelError> {
        self.set_up(device)?;
        let mut links = self.links()?;
        for text in &end.addrs {
            let address = text.parse().map_err(|why| {
                let why = format!("`{text}` cannot be its address: {why}");
                KernelError::Device { name: device.to_owned(), why }
            })?;
            links
                .add_address(device, address)
                .map_err(KernelError::netlink("add address", self.device_text(device)))?;
        }
        Ok(())
    }
}

fn new_link<'a>(name: &'a str, end: &LinkEnd, options: &VethOptions) -> NewLink<'a> {
    NewLink { name, mac: end.mac, mtu: options.mtu, queues: options.queues }
}
