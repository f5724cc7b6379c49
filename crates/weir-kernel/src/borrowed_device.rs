//! Devices named by the user, lent to a session and returned.
//!
//! A device is moved from the namespace in which weir was started to one of the session's. Its
//! previous state is recorded first, and a mount in the session's folder holds the user's
//! namespace, so that the device can be returned by [`Session`]'s drop or by the reaper. Otherwise
//! a virtual device would be destroyed with its namespace, and a physical one would return with
//! another name.

use std::fs::File;

use rustix::mount::mount_bind;
use weir_packet::Mac;

use crate::borrowed_device_return::starting_netns_mount_path;
use crate::device_name::check_batch_safe_device_name;
use crate::ethtool::has_gro;
use crate::rtnetlink::{InterfaceAddress, LinkInfo, LinkSocket};
use crate::session_changes::begin_session_change;
use crate::session_record::BorrowedDevice;
use crate::{KernelError, Namespace, Session};

/// A device as the kernel tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMacCarrierAndUse {
    /// Its MAC address.
    pub mac: Mac,
    /// Somebody is at the other end of the cable.
    pub has_carrier: bool,
    is_up: bool,
    /// Why it cannot be lent.
    in_use_reason: Option<String>,
}

impl DeviceMacCarrierAndUse {
    fn read_from_kernel(
        links: &mut LinkSocket,
        device: &str,
    ) -> Result<DeviceMacCarrierAndUse, KernelError> {
        let failed = || KernelError::netlink("read device", device);
        let unusable =
            |why: &str| KernelError::UnusableDevice { name: device.to_owned(), why: why.into() };
        let link = match links.link_by_name(device) {
            Err(error) if error.errno() == Some(libc::ENODEV) => {
                return Err(unusable("it does not exist; `ip link` lists those that do"));
            }
            link => link.map_err(failed())?,
        };
        let addresses = links.interface_addresses(link.index).map_err(failed())?;
        let master = link
            .master
            .map(|master| links.link_name_by_index(master))
            .transpose()
            .map_err(failed())?;
        DeviceMacCarrierAndUse::from_link(&link, master.as_deref(), &addresses)
            .ok_or_else(|| unusable("it has no MAC address"))
    }

    fn from_link(
        link: &LinkInfo,
        master: Option<&str>,
        addresses: &[InterfaceAddress],
    ) -> Option<DeviceMacCarrierAndUse> {
        let with_address = addresses.iter().find(|address| address.scope != libc::RT_SCOPE_LINK);
        let in_use = match (master, with_address) {
            (Some(master), _) => Some(format!("it is a port of {master}")),
            (None, Some(InterfaceAddress { ip, .. })) => {
                Some(format!("it has the address {ip}, which it would lose"))
            }
            (None, None) => None,
        };
        Some(DeviceMacCarrierAndUse {
            mac: link.mac?,
            has_carrier: link.has_carrier,
            is_up: link.is_up,
            in_use_reason: in_use,
        })
    }
}

impl Namespace {
    /// A device of the namespace.
    ///
    /// # Errors
    /// If there is no such device, or it is not an Ethernet.
    pub fn read_device_mac_carrier_and_use(
        &self,
        device: &str,
    ) -> Result<DeviceMacCarrierAndUse, KernelError> {
        DeviceMacCarrierAndUse::read_from_kernel(&mut self.open_link_socket()?, device)
    }
}

impl Session {
    /// An unused device of the namespace in which weir was started.
    ///
    /// # Errors
    /// If there is no such device; if it has addresses or is part of a bridge, because it is in
    /// use, maybe to reach this machine.
    pub fn read_unaddressed_unbridged_device(
        &self,
        device: &str,
    ) -> Result<DeviceMacCarrierAndUse, KernelError> {
        check_batch_safe_device_name(device)?;
        let seen =
            DeviceMacCarrierAndUse::read_from_kernel(&mut open_starting_netns_links()?, device)?;
        match &seen.in_use_reason {
            None => Ok(seen),
            Some(why) => {
                let why = format!("{why}; name an unused one");
                Err(KernelError::UnusableDevice { name: device.to_owned(), why })
            }
        }
    }

    /// Moves a device of the namespace in which weir was started to one of the session's, with the
    /// name `name`. It is then down, and returns when the session ends.
    ///
    /// # Errors
    /// As [`read_unaddressed_unbridged_device`](Session::read_unaddressed_unbridged_device), and
    /// where the kernel refuses.
    pub fn borrow_device(
        &self,
        device: &str,
        namespace: &Namespace,
        name: &str,
    ) -> Result<(), KernelError> {
        check_batch_safe_device_name(name)?;
        let seen = self.read_unaddressed_unbridged_device(device)?;
        let has_gro = has_gro(device).map_err(KernelError::io("read feature of", device))?;
        let _change = begin_session_change();
        self.bind_mount_starting_netns()?;
        let borrowed = BorrowedDevice {
            device: device.to_owned(),
            name: name.to_owned(),
            is_up: seen.is_up,
            has_gro,
        };
        self.journal().update_record(|record| record.borrowed.push(borrowed))?;
        open_starting_netns_links()?
            .move_to_namespace(device, namespace.fd(), Some(name))
            .map_err(KernelError::netlink("lend device", device))
    }

    /// Moves a borrowed device from one of the session's namespaces into another one. It is down
    /// then, without addresses and routes.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn move_device_between_own_namespaces(
        &self,
        name: &str,
        from: &Namespace,
        to: &Namespace,
    ) -> Result<(), KernelError> {
        check_batch_safe_device_name(name)?;
        from.move_device(name, to, None)
    }

    /// Keeps the namespace that weir was started in, so that it is found from any other one.
    fn bind_mount_starting_netns(&self) -> Result<(), KernelError> {
        let home = starting_netns_mount_path(self.run_name());
        if home.exists() {
            return Ok(());
        }
        File::create(&home).map_err(KernelError::io_at_path("create", &home))?;
        mount_bind("/proc/thread-self/ns/net", &home).map_err(|error| {
            KernelError::io_at_path("mount the user's namespace on", &home)(error.into())
        })
    }
}

/// The links of the namespace that weir was started in.
fn open_starting_netns_links() -> Result<LinkSocket, KernelError> {
    LinkSocket::open().map_err(KernelError::io("open links of", "the user's namespace"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> LinkInfo {
        LinkInfo {
            index: 7,
            name: "d0".to_owned(),
            mac: Some([2, 0, 0, 0, 0, 7]),
            is_up: true,
            has_carrier: true,
            master: None,
        }
    }

    #[test]
    fn a_device_with_only_link_local_addresses_is_unused() {
        let own: InterfaceAddress = "fe80::7/64".parse().unwrap();
        let own = [InterfaceAddress { scope: libc::RT_SCOPE_LINK, ..own }];
        let device = DeviceMacCarrierAndUse::from_link(&link(), None, &own).unwrap();
        assert_eq!((device.mac, device.in_use_reason), ([2, 0, 0, 0, 0, 7], None));
        assert!(device.is_up && device.has_carrier);
        let global = ["192.0.2.7/24".parse().unwrap()];
        let device = DeviceMacCarrierAndUse::from_link(&link(), None, &global).unwrap();
        assert!(device.in_use_reason.unwrap().contains("192.0.2.7"));
        let port = DeviceMacCarrierAndUse::from_link(&link(), Some("br0"), &own).unwrap();
        assert_eq!(port.in_use_reason.as_deref(), Some("it is a port of br0"));
    }

    #[test]
    fn links_without_mac_address_are_not_ethernet_devices() {
        assert_eq!(
            DeviceMacCarrierAndUse::from_link(&LinkInfo { mac: None, ..link() }, None, &[]),
            None
        );
    }
}
