//! veth pairs between namespaces, created inside them and never in the user's namespace.

use weir_packet::Mac;

use crate::device_name::check_batch_safe_device_name;
use crate::rtnetlink::NewLink;
use crate::{KernelError, Namespace, Session};

/// What both ends of a veth pair get.
#[derive(Clone, Debug, Default)]
pub struct VethOptions {
    /// The first end.
    pub end_a: VethEndAddresses,
    /// The second end.
    pub end_b: VethEndAddresses,
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
pub struct VethEndAddresses {
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
    pub fn create_veth_pair(
        &self,
        a: &Namespace,
        device_a: &str,
        b: &Namespace,
        device_b: &str,
        options: &VethOptions,
    ) -> Result<(), KernelError> {
        check_batch_safe_device_name(device_a)?;
        check_batch_safe_device_name(device_b)?;
        let end_a = link_for_veth_end(device_a, &options.end_a, options);
        let end_b = link_for_veth_end(device_b, &options.end_b, options);
        a.open_link_socket()?
            .add_veth(end_a, end_b, b.fd())
            .map_err(KernelError::netlink("add link", a.qualified_device_name(device_a)))?;
        a.set_veth_end_up_with_addresses(device_a, &options.end_a)?;
        b.set_veth_end_up_with_addresses(device_b, &options.end_b)?;
        if options.gro {
            a.set_gro(device_a, true)?;
            b.set_gro(device_b, true)?;
        }
        Ok(())
    }
}

impl Namespace {
    fn set_veth_end_up_with_addresses(
        &self,
        device: &str,
        end: &VethEndAddresses,
    ) -> Result<(), KernelError> {
        self.set_device_up(device)?;
        let mut links = self.open_link_socket()?;
        for text in &end.addrs {
            let address = text.parse().map_err(|why| {
                let why = format!("`{text}` cannot be its address: {why}");
                KernelError::UnusableDevice { name: device.to_owned(), why }
            })?;
            links
                .add_address(device, address)
                .map_err(KernelError::netlink("add address", self.qualified_device_name(device)))?;
        }
        Ok(())
    }
}

fn link_for_veth_end<'a>(
    name: &'a str,
    end: &VethEndAddresses,
    options: &VethOptions,
) -> NewLink<'a> {
    NewLink { name, mac: end.mac, mtu: options.mtu, queues: options.queues }
}
