//! Probe requests: echoes through a firewall, and lines to a shell on it.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use rustix::net::{RecvFlags, SendFlags};
use weir_kernel::{Namespace, open_packet_socket};
use weir_packet::{Addr, Family, Mac, Packet, Transport};
use weir_stats::ProbeKind;

use crate::LabError;
use crate::host::router_config::{SINK_ADDRESS, SOURCE_ADDRESS};
use crate::workload::probe::open_loop::ProbeTransport;

/// First word of an echo's last eight bytes (`PROBE_MAGIC` in bpf/frame.h); the second is its
/// number.
const ECHO_MAGIC: u32 = 0x6f68_6365;
/// Bytes before the tag, as `ping` fills them: 64 bytes of ICMP in all.
const ECHO_PADDING_BYTES: usize = 48;
/// The port that echoes (RFC 862), and the port of the requests.
const ECHO_PORT: u16 = 7;
const ECHO_SOURCE_PORT: u16 = 49_152;

/// Echoes: sent into the firewall by a packet socket, turned by the sink's program, and read when
/// they have return.
pub(crate) struct EchoProbe {
    socket: OwnedFd,
    frame: Vec<u8>,
    echo_protocol: ProbeKind,
    firewall_mac: Mac,
    source_mac: Mac,
}

impl EchoProbe {
    /// Opens a socket on the device of `namespace` with that index; `macs` are the firewall's and
    /// the device's own.
    pub(crate) fn open(
        namespace: &Namespace,
        ifindex: u32,
        kind: ProbeKind,
        (firewall, source): (Mac, Mac),
    ) -> Result<EchoProbe, LabError> {
        let open = namespace.call_inside(|| open_packet_socket(ifindex, libc::ETH_P_IP as u16))?;
        let socket = open
            .map_err(|source| LabError::SystemCall { action: "open a socket to probe", source })?;
        Ok(EchoProbe {
            socket,
            frame: Vec::new(),
            echo_protocol: kind,
            firewall_mac: firewall,
            source_mac: source,
        })
    }

    fn build_frame(&mut self, number: u32) {
        let address = |address: Ipv4Addr| Addr(u128::from(u32::from(address)));
        let (protocol, transport) = match self.echo_protocol {
            ProbeKind::Udp => (17, Transport::Udp { sport: ECHO_SOURCE_PORT, dport: ECHO_PORT }),
            _ => {
                let [high, low] = (number as u16).to_be_bytes();
                (1, Transport::Icmp { kind: 8, code: 0, rest: [b'w', b'e', high, low] })
            }
        };
        let source = address(SOURCE_ADDRESS);
        let mut packet = Packet::new(Family::V4, source, address(SINK_ADDRESS), protocol);
        packet.transport = transport;
        packet.smac = Some(self.source_mac);
        packet.payload = vec![0; ECHO_PADDING_BYTES];
        packet.payload.extend_from_slice(&ECHO_MAGIC.to_ne_bytes());
        packet.payload.extend_from_slice(&number.to_ne_bytes());
        self.frame = packet.to_frame_with_dmac(self.firewall_mac);
    }
}

impl ProbeTransport for EchoProbe {
    fn send_request(&mut self, number: u32) -> io::Result<()> {
        self.build_frame(number);
        rustix::net::send(&self.socket, &self.frame, SendFlags::DONTWAIT)?;
        Ok(())
    }

    fn readable_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn read_answers(&mut self, numbers: &mut Vec<u32>) -> io::Result<()> {
        let mut frame = [0_u8; 256];
        loop {
            match rustix::net::recv(&self.socket, &mut frame[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    numbers.extend(parse_echo_number(&frame[..length.min(frame.len())]))
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The number of an echo that returned; `None` of any other frame.
fn parse_echo_number(frame: &[u8]) -> Option<u32> {
    let (_, tag) = frame.split_last_chunk::<8>()?;
    let word = |at: usize| u32::from_ne_bytes([tag[at], tag[at + 1], tag[at + 2], tag[at + 3]]);
    (word(0) == ECHO_MAGIC).then(|| word(4))
}

/// What the shell does for each line: it counts to 200 and says the line again.
const SHELL_COUNT_AND_ECHO_SCRIPT: &str =
    "while read -r n; do i=0; while [ $i -lt 200 ]; do i=$((i + 1)); done; echo \"$n\"; done";

/// A shell on the firewall, as an administrator would have open.
pub(crate) struct FirewallShellProbe {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// The beginning of a line whose end is not there yet.
    partial_line: Vec<u8>,
}

impl FirewallShellProbe {
    /// Starts it on the cores, and with the priority, of the current thread; it ends with that
    /// thread at the latest.
    pub(crate) fn start(namespace: &Namespace) -> Result<FirewallShellProbe, LabError> {
        let failed = |source| LabError::SystemCall { action: "start a shell to probe", source };
        let mut command = namespace.command("sh");
        command.args(["-c", SHELL_COUNT_AND_ECHO_SCRIPT]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take().expect("standard input is a pipe");
        let output = child.stdout.take().expect("standard output is a pipe");
        rustix::io::ioctl_fionbio(&output, true).map_err(|error| failed(error.into()))?;
        Ok(FirewallShellProbe { child, input, output, partial_line: Vec::new() })
    }
}

impl Drop for FirewallShellProbe {
    fn drop(&mut self) {
        // It has nothing that it could lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ProbeTransport for FirewallShellProbe {
    fn send_request(&mut self, number: u32) -> io::Result<()> {
        self.input.write_all(format!("{number}\n").as_bytes())
    }

    fn readable_fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    fn read_answers(&mut self, numbers: &mut Vec<u32>) -> io::Result<()> {
        let mut bytes = [0; 4096];
        loop {
            match self.output.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.partial_line.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        while let Some(end) = self.partial_line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial_line.drain(..=end).collect();
            let number = std::str::from_utf8(&line).ok().and_then(|l| l.trim().parse::<u32>().ok());
            numbers.extend(number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_probe_echoes_have_a_number() {
        let mut frame = vec![0; 60];
        assert_eq!(parse_echo_number(&frame), None);
        frame.extend_from_slice(&ECHO_MAGIC.to_ne_bytes());
        frame.extend_from_slice(&7_u32.to_ne_bytes());
        assert_eq!(parse_echo_number(&frame), Some(7));
        assert_eq!(parse_echo_number(&frame[..5]), None);
    }
}
