//! ethtool ioctls: the only operations that neither `ip` nor a safe call offers.

use std::io;
use std::os::fd::AsRawFd;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_SRXCSUM: u32 = 0x15;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;

/// Features that a link can have on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffloadFeature {
    /// Generic receive offload: gives a veth its NAPI context.
    Gro,
    /// Generic segmentation offload.
    Gso,
    /// TCP segmentation offload.
    Tso,
    /// Checksums left to the device.
    TxChecksum,
    /// Checksums believed from the device.
    RxChecksum,
}

/// Switches a feature of a device of the current network namespace (net/ethtool/ioctl.c).
pub(crate) fn set_offload_feature(
    device: &str,
    feature: OffloadFeature,
    on: bool,
) -> io::Result<()> {
    let command = match feature {
        OffloadFeature::Gro => ETHTOOL_SGRO,
        OffloadFeature::Gso => ETHTOOL_SGSO,
        OffloadFeature::Tso => ETHTOOL_STSO,
        OffloadFeature::TxChecksum => ETHTOOL_STXCSUM,
        OffloadFeature::RxChecksum => ETHTOOL_SRXCSUM,
    };
    run_ethtool_ioctl(device, command, on.into()).map(drop)
}

/// Whether generic receive offload of a device of the current network namespace is on.
pub(crate) fn has_gro(device: &str) -> io::Result<bool> {
    Ok(run_ethtool_ioctl(device, ETHTOOL_GGRO, 0)? != 0)
}

/// One ethtool command with a value in and a value out.
fn run_ethtool_ioctl(device: &str, command: u32, value: u32) -> io::Result<u32> {
    let mut value: [u32; 2] = [command, value];
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // SAFETY: a zeroed ifreq is valid. The name is shorter than IFNAMSIZ (checked), so it stays
    // terminated; ifr_data points to an ethtool_value (two u32) that outlives the call.
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        if device.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request)
    };
    if result == 0 { Ok(value[1]) } else { Err(io::Error::last_os_error()) }
}
