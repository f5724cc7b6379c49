//! Packets that a rule of the kernel logged to a group: `log group N` of nft, `NFLOG` of iptables.

use std::time::Duration;

use crate::netlink::attribute::{MalformedNetlink, NetlinkAttributes};
use crate::netlink::netfilter::{NFGENMSG_BYTES, NetfilterSubsystem};
use crate::netlink::{NetlinkProtocol, NetlinkSocket};
use crate::{KernelError, Namespace};

const NFULNL_MSG_PACKET: u8 = 0;
const NFULNL_MSG_CONFIG: u8 = 1;
const NFULA_CFG_CMD: u16 = 1;
const NFULA_CFG_MODE: u16 = 2;
const NFULA_CFG_QTHRESH: u16 = 5;
const NFULNL_CFG_CMD_BIND: u8 = 1;
const NFULNL_COPY_PACKET: u8 = 2;

/// Receives the packets of one group of one namespace.
#[derive(Debug)]
pub struct NflogReceiver {
    socket: NetlinkSocket,
    namespace_name: String,
}

/// A logged packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoggedPacket<'a> {
    /// The rule's prefix.
    pub prefix: &'a [u8],
    /// The packet from the network header on, at most as long as requested.
    pub payload: &'a [u8],
    /// Its mark.
    pub mark: u32,
    /// Index of the device on which it arrived, or 0.
    pub indev: u32,
    /// Index of the device that it leaves by, or 0.
    pub outdev: u32,
    /// Hook number, as in include/uapi/linux/netfilter.h.
    pub hook: u8,
}

impl NflogReceiver {
    /// Begins to receive a group, with at most `copy_bytes` of each packet.
    ///
    /// # Errors
    /// If the kernel has no such log (`NETFILTER_NETLINK_LOG`), or the group is taken.
    pub fn bind(
        namespace: &Namespace,
        group: u16,
        copy_bytes: u32,
    ) -> Result<NflogReceiver, KernelError> {
        let action = "bind log group in";
        let mut socket = namespace
            .call_inside(|| NetlinkSocket::open(NetlinkProtocol::Netfilter))?
            .map_err(KernelError::io(action, namespace.name()))?;
        let mut bind = NetfilterSubsystem::Log.new_request(NFULNL_MSG_CONFIG, 0, 0, group);
        bind.attributes.put(NFULA_CFG_CMD, &[NFULNL_CFG_CMD_BIND]);
        let mut configure = NetfilterSubsystem::Log.new_request(NFULNL_MSG_CONFIG, 0, 0, group);
        let mut mode = copy_bytes.to_be_bytes().to_vec();
        mode.extend_from_slice(&[NFULNL_COPY_PACKET, 0]);
        configure.attributes.put(NFULA_CFG_MODE, &mode);
        // Every packet at once: the reader waits for it.
        configure.attributes.put(NFULA_CFG_QTHRESH, &1u32.to_be_bytes());
        let bound = socket.send_and_check(&[bind, configure]);
        bound.map_err(KernelError::netlink(action, namespace.name()))?;
        Ok(NflogReceiver { socket, namespace_name: namespace.name().to_owned() })
    }

    /// Reads what is there, and calls `f` for each packet. Returns how many there were.
    ///
    /// # Errors
    /// If packets were lost, because they were not read in time.
    pub fn visit_waiting_packets(
        &mut self,
        mut f: impl FnMut(LoggedPacket<'_>),
    ) -> Result<usize, KernelError> {
        let mut count = 0;
        loop {
            let received = self.socket.try_visit_received_messages(|message| {
                if message.kind == NetfilterSubsystem::Log.message_type(NFULNL_MSG_PACKET) {
                    count += 1;
                    f(parse_logged_packet(message.attributes(NFGENMSG_BYTES)?)?);
                }
                Ok(())
            });
            if !received.map_err(KernelError::netlink("read log of", &self.namespace_name))? {
                return Ok(count);
            }
        }
    }

    /// Waits until there is something to read, at most `limit`.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn wait_readable(&self, limit: Duration) -> Result<bool, KernelError> {
        self.socket
            .wait_readable(limit)
            .map_err(KernelError::io("wait for log of", &self.namespace_name))
    }
}

fn parse_logged_packet(
    attributes: NetlinkAttributes<'_>,
) -> Result<LoggedPacket<'_>, MalformedNetlink> {
    let mut out = LoggedPacket::default();
    for attribute in attributes.iter() {
        let value = attribute.value;
        match attribute.kind {
            // struct nfulnl_msg_packet_hdr: protocol, hook, padding.
            1 => out.hook = attribute.fixed_bytes::<4>()?[2],
            2 => out.mark = attribute.be32()?,
            4 => out.indev = attribute.be32()?,
            5 => out.outdev = attribute.be32()?,
            9 => out.payload = value,
            10 => out.prefix = value.strip_suffix(&[0]).unwrap_or(value),
            _ => {}
        }
    }
    Ok(out)
}
