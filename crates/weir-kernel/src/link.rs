//! veth pairs between namespaces, made inside them: never in the user's namespace.

use weir_packet::Mac;

use crate::device_name::check_name;
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
    /// Names that the kernel refuses, or that are taken.
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
        a.ip(&[link_line(device_a, b, device_b, options)])?;
        a.ip(&end_lines(device_a, &options.a))?;
        b.ip(&end_lines(device_b, &options.b))?;
        if options.gro {
            a.set_gro(device_a, true)?;
            b.set_gro(device_b, true)?;
        }
        Ok(())
    }
}

fn link_line(device_a: &str, b: &Namespace, device_b: &str, options: &VethOptions) -> String {
    let common = {
        let mtu = if options.mtu == 0 { String::new() } else { format!(" mtu {}", options.mtu) };
        let queues = match options.queues {
            0 => String::new(),
            n => format!(" numtxqueues {n} numrxqueues {n}"),
        };
        format!("{mtu}{queues}")
    };
    let address = |end: &LinkEnd| match end.mac {
        Some(mac) => format!(" address {}", mac_text(mac)),
        None => String::new(),
    };
    format!(
        "link add name {device_a}{}{common} type veth peer name {device_b}{}{common} netns {}",
        address(&options.a),
        address(&options.b),
        b.name()
    )
}

fn end_lines(device: &str, end: &LinkEnd) -> Vec<String> {
    let mut lines = vec![format!("link set dev {device} up")];
    for addr in &end.addrs {
        // An IPv6 address would else wait for duplicate address detection.
        let nodad = if addr.contains(':') { " nodad" } else { "" };
        lines.push(format!("addr add {addr} dev {device}{nodad}"));
    }
    lines
}

/// Text of a MAC address.
fn mac_text(mac: Mac) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}
