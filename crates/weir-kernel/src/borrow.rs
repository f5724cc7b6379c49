//! Devices that the user named, lent to a session and given back.
//!
//! A device is moved from the namespace that weir was started in into one of the session's. How it
//! was is written down before, and the user's namespace is held by a mount in the session's folder,
//! so that whoever ends the session finds the way back: [`Session`]'s own drop, or the reaper. A
//! virtual device would else be destroyed with its namespace, and a real one come back renamed.

use std::fs::File;
use std::process::Command;

use rustix::mount::mount_bind;
use serde::Deserialize;
use weir_packet::Mac;

use crate::device_name::check_name;
use crate::give_back::home;
use crate::ioctl::has_gro;
use crate::namespace::run_to_end;
use crate::record::Borrowed;
use crate::{KernelError, Namespace, Session};

/// A device as `ip` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its MAC address.
    pub mac: Mac,
    /// Somebody is at the other end of the cable.
    pub has_carrier: bool,
    is_up: bool,
    /// Why it cannot be lent.
    in_use: Option<String>,
}

/// What `ip -json addr show` prints of one device, as far as it is used here.
#[derive(Deserialize)]
struct Text {
    #[serde(default)]
    address: String,
    #[serde(default)]
    flags: Vec<String>,
    master: Option<String>,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    #[serde(default)]
    local: String,
    #[serde(default)]
    scope: String,
}

impl Device {
    fn read(mut ip: Command, device: &str) -> Result<Device, KernelError> {
        ip.args(["-json", "addr", "show", "dev", device]);
        let text = run_to_end(ip, b"")?;
        let unreadable = || KernelError::Device {
            name: device.to_owned(),
            why: "`ip` tells no MAC address of it".to_owned(),
        };
        let all: Vec<Text> = serde_json::from_slice(&text).map_err(|_| unreadable())?;
        let text = all.into_iter().next().ok_or_else(unreadable)?;
        Device::of(&text).ok_or_else(unreadable)
    }

    fn of(text: &Text) -> Option<Device> {
        let is = |flag: &str| text.flags.iter().any(|f| f == flag);
        let bytes: Option<Vec<u8>> =
            text.address.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        let with_address = text.addr_info.iter().find(|address| address.scope != "link");
        let in_use = match (&text.master, with_address) {
            (Some(master), _) => Some(format!("it is a port of {master}")),
            (None, Some(Address { local, .. })) => {
                Some(format!("it has the address {local}, which it would lose"))
            }
            (None, None) => None,
        };
        Some(Device {
            mac: bytes?.try_into().ok()?,
            has_carrier: is("LOWER_UP"),
            is_up: is("UP"),
            in_use,
        })
    }
}

impl Namespace {
    /// A device of the namespace.
    ///
    /// # Errors
    /// Where there is no such device, or it is no Ethernet.
    pub fn device(&self, device: &str) -> Result<Device, KernelError> {
        Device::read(self.command("ip"), device)
    }
}

impl Session {
    /// A device of the namespace that weir was started in, if nobody uses it.
    ///
    /// # Errors
    /// Where there is no such device; where it has addresses or is part of a bridge: somebody uses
    /// it, maybe to reach this machine.
    pub fn check_unused(&self, device: &str) -> Result<Device, KernelError> {
        check_name(device)?;
        let seen = Device::read(self.command("ip"), device)?;
        match &seen.in_use {
            None => Ok(seen),
            Some(why) => {
                let why = format!("{why}; name one that nobody uses");
                Err(KernelError::Device { name: device.to_owned(), why })
            }
        }
    }

    /// Moves a device of the namespace that weir was started in into one of the session's, where
    /// it is called `name`. It is down then, and goes back when the session ends.
    ///
    /// # Errors
    /// As [`check_unused`](Session::check_unused), and where the kernel refuses.
    pub fn borrow_device(
        &self,
        device: &str,
        namespace: &Namespace,
        name: &str,
    ) -> Result<(), KernelError> {
        check_name(name)?;
        let seen = self.check_unused(device)?;
        let has_gro = has_gro(device).map_err(KernelError::io("read feature of", device))?;
        self.hold_home()?;
        let (device, name) = (device.to_owned(), name.to_owned());
        let line = ["link", "set", "dev", &device, "netns", namespace.name(), "name", &name];
        let mut ip = self.command("ip");
        ip.args(line);
        let borrowed = Borrowed { device, name, is_up: seen.is_up, has_gro };
        self.change(|record| record.borrowed.push(borrowed))?;
        run_to_end(ip, b"").map(drop)
    }

    /// Moves a borrowed device from one of the session's namespaces into another one. It is down
    /// then, without addresses and routes.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn hand_over(
        &self,
        name: &str,
        from: &Namespace,
        to: &Namespace,
    ) -> Result<(), KernelError> {
        check_name(name)?;
        from.ip(&[format!("link set dev {name} netns {}", to.name())])
    }

    /// Keeps the namespace that weir was started in, so that it is found from any other one.
    fn hold_home(&self) -> Result<(), KernelError> {
        let home = home(self.run());
        if home.exists() {
            return Ok(());
        }
        File::create(&home).map_err(KernelError::path("create", &home))?;
        mount_bind("/proc/thread-self/ns/net", &home).map_err(|error| {
            KernelError::path("mount the user's namespace on", &home)(error.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(json: &str) -> Device {
        Device::of(&serde_json::from_str(json).unwrap()).unwrap()
    }

    #[test]
    fn a_device_with_an_address_is_in_use_and_one_with_its_own_only_is_not() {
        let link = r#"{"address":"02:00:00:00:00:07","flags":["UP","LOWER_UP"],
            "addr_info":[{"local":"fe80::7","scope":"link"}]}"#;
        let device = seen(link);
        assert_eq!((device.mac, device.in_use), ([2, 0, 0, 0, 0, 7], None));
        assert!(device.is_up && device.has_carrier);
        let global = link.replace("fe80::7", "192.0.2.7").replace("\"link\"", "\"global\"");
        assert!(seen(&global).in_use.unwrap().contains("192.0.2.7"));
        let port = link.replace("\"flags\"", "\"master\":\"br0\",\"flags\"");
        assert_eq!(seen(&port).in_use.as_deref(), Some("it is a port of br0"));
    }

    #[test]
    fn what_has_no_mac_address_is_no_device_of_ours() {
        let text = r#"{"address":"192.0.2.1","flags":[]}"#;
        assert_eq!(Device::of(&serde_json::from_str(text).unwrap()), None);
    }
}
