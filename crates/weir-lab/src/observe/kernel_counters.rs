//! The kernel's own counters of a firewall, read without starting a process.

use std::collections::BTreeMap;

use crate::LabError;
use crate::observe::proc_net_file::{ProcNetFile, ProcNetOpener};

/// Columns of drops in `/proc/net/dev`: of packets received, and of packets sent.
const RX_DROP_COLUMN: usize = 3;
const TX_DROP_COLUMN: usize = 11;

/// Drops of some devices together.
#[derive(Debug, Default)]
pub struct DeviceDropCounterReader {
    devices: Vec<(Box<dyn ProcNetFile>, String, &'static [usize])>,
}

impl DeviceDropCounterReader {
    /// These devices of a namespace, too.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub fn add_devices_rx_and_tx_drops(
        self,
        files: &dyn ProcNetOpener,
        devices: &[&str],
    ) -> Result<DeviceDropCounterReader, LabError> {
        self.add_devices_drop_columns(files, devices, &[RX_DROP_COLUMN, TX_DROP_COLUMN])
    }

    /// The same of packets that the devices received, and not of those that they sent.
    pub(crate) fn add_devices_rx_drops_only(
        self,
        files: &dyn ProcNetOpener,
        devices: &[&str],
    ) -> Result<DeviceDropCounterReader, LabError> {
        self.add_devices_drop_columns(files, devices, &[RX_DROP_COLUMN])
    }

    fn add_devices_drop_columns(
        mut self,
        files: &dyn ProcNetOpener,
        devices: &[&str],
        columns: &'static [usize],
    ) -> Result<DeviceDropCounterReader, LabError> {
        for device in devices {
            self.devices.push((files.open_proc_net("dev")?, (*device).to_owned(), columns));
        }
        Ok(self)
    }

    /// Packets that the devices dropped.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn dropped_packets(&self) -> Result<u64, LabError> {
        let mut sum = 0;
        for (file, device, columns) in &self.devices {
            sum += sum_net_dev_columns_of_device(&file.read_text()?, device, columns);
        }
        Ok(sum)
    }
}

/// Packets that one device received.
#[derive(Debug)]
pub struct RxPacketCounterReader {
    file: Box<dyn ProcNetFile>,
    device: String,
}

impl RxPacketCounterReader {
    /// Opens the counter.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub fn open(
        files: &dyn ProcNetOpener,
        device: &str,
    ) -> Result<RxPacketCounterReader, LabError> {
        Ok(RxPacketCounterReader { file: files.open_proc_net("dev")?, device: device.to_owned() })
    }

    /// Packets so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn received_packets(&self) -> Result<u64, LabError> {
        Ok(parse_net_dev_columns_of_device(&self.file.read_text()?, &self.device)
            .get(1)
            .copied()
            .unwrap_or(0))
    }
}

/// Counters of the IP stack of one namespace.
#[derive(Debug)]
pub struct IpStackCounterReader {
    snmp: Box<dyn ProcNetFile>,
    netstat: Box<dyn ProcNetFile>,
    snmp6: Box<dyn ProcNetFile>,
    /// Incoming packets only.
    excludes_out_discards: bool,
}

impl IpStackCounterReader {
    /// Opens the counters.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub fn open(files: &dyn ProcNetOpener) -> Result<IpStackCounterReader, LabError> {
        Ok(IpStackCounterReader {
            snmp: files.open_proc_net("snmp")?,
            netstat: files.open_proc_net("netstat")?,
            snmp6: files.open_proc_net("snmp6")?,
            excludes_out_discards: false,
        })
    }

    /// Opens the counters of a host: its outgoing discards are its own replies, and none of the
    /// offered packets.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub fn open_without_out_discards(
        files: &dyn ProcNetOpener,
    ) -> Result<IpStackCounterReader, LabError> {
        Ok(IpStackCounterReader {
            excludes_out_discards: true,
            ..IpStackCounterReader::open(files)?
        })
    }

    /// Every counter by name.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn read_all_counters(&self) -> Result<BTreeMap<String, u64>, LabError> {
        let (v4, more, v6) =
            (self.snmp.read_text()?, self.netstat.read_text()?, self.snmp6.read_text()?);
        Ok(parse_snmp_counters(&v4)
            .chain(parse_snmp_counters(&more))
            .chain(parse_snmp6_counters(&v6))
            .collect())
    }

    /// Packets that the stack discarded: bad headers or addresses, no route, no memory.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn discarded_packets(&self) -> Result<u64, LabError> {
        let (v4, more) = (self.snmp.read_text()?, self.netstat.read_text()?);
        let counted = sum_ipv4_discards(&v4) + sum_ipv4_discards(&more);
        let out =
            parse_snmp_counters(&v4).filter(|(name, _)| name == "Ip.OutDiscards").map(|(_, n)| n);
        let out: u64 = if self.excludes_out_discards { out.sum() } else { 0 };
        Ok(counted - out + sum_ipv6_discards(&self.snmp6.read_text()?))
    }
}

/// Every counter of `/proc/net/snmp` and `/proc/net/netstat`, as `Ip.InReceives`.
fn parse_snmp_counters(text: &str) -> impl Iterator<Item = (String, u64)> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| {
        let part = pair[0].split(':').next().unwrap_or_default().to_owned();
        let names = pair[0].split_ascii_whitespace().skip(1);
        let values = pair[1].split_ascii_whitespace().skip(1);
        let named = move |(name, value): (&str, &str)| {
            Some((format!("{part}.{name}"), value.parse::<u64>().ok()?))
        };
        names.zip(values).filter_map(named).collect::<Vec<_>>()
    });
    pairs.collect::<Vec<_>>().into_iter()
}

/// Every counter of `/proc/net/snmp6`.
fn parse_snmp6_counters(text: &str) -> impl Iterator<Item = (String, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    })
}

/// The connection table of one namespace, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConntrackCounters {
    /// Entries.
    pub entries: u64,
    /// Packets dropped because there was no room or memory for another entry.
    pub dropped: u64,
    /// Entries thrown out early to make room.
    pub early_drop: u64,
    /// Packets that belong to no connection.
    pub invalid: u64,
    /// Entries that could not be inserted: a race for the same tuple.
    pub insert_failed: u64,
    /// Lookups that had to begin again.
    pub search_restart: u64,
}

impl ConntrackCounters {
    /// Counters that grew since `before`, by the kernel's names.
    pub fn counter_growth_since(&self, before: &ConntrackCounters) -> BTreeMap<String, u64> {
        let pairs = [
            ("drop", self.dropped, before.dropped),
            ("early_drop", self.early_drop, before.early_drop),
            ("invalid", self.invalid, before.invalid),
            ("insert_failed", self.insert_failed, before.insert_failed),
            ("search_restart", self.search_restart, before.search_restart),
        ];
        let grew = pairs.into_iter().filter(|(_, after, before)| after > before);
        grew.map(|(name, after, before)| (name.to_owned(), after - before)).collect()
    }
}

/// Reads the connection table's counters.
#[derive(Debug)]
pub struct ConntrackStatReader {
    /// Absent where the kernel has no connection tracking, or shows no statistics.
    file: Option<Box<dyn ProcNetFile>>,
}

impl ConntrackStatReader {
    /// Opens the counters; a kernel without them counts nothing.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn open(files: &dyn ProcNetOpener) -> Result<ConntrackStatReader, LabError> {
        Ok(ConntrackStatReader { file: files.open_proc_net_if_present("stat/nf_conntrack")? })
    }

    /// Whether there is anything to read.
    pub(crate) fn has_conntrack(&self) -> bool {
        self.file.is_some()
    }

    /// The table now.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> Result<ConntrackCounters, LabError> {
        self.file.as_ref().map_or(Ok(ConntrackCounters::default()), |file| {
            Ok(parse_conntrack_stat(&file.read_text()?))
        })
    }
}

/// Sums over cores of `/proc/net/stat/nf_conntrack`: names, then a line of hexadecimal values for
/// each core. `entries` is the whole table on each line.
fn parse_conntrack_stat(text: &str) -> ConntrackCounters {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let mut table = ConntrackCounters::default();
    for line in lines {
        for (name, value) in names.iter().zip(line.split_ascii_whitespace()) {
            let value = u64::from_str_radix(value, 16).unwrap_or(0);
            match *name {
                "entries" => table.entries = value,
                "drop" => table.dropped += value,
                "early_drop" => table.early_drop += value,
                "invalid" => table.invalid += value,
                "insert_failed" => table.insert_failed += value,
                "search_restart" => table.search_restart += value,
                _ => {}
            }
        }
    }
    table
}

/// Columns of a device in `/proc/net/dev`.
fn parse_net_dev_columns_of_device(text: &str, device: &str) -> Vec<u64> {
    let line =
        text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'));
    let fields = line.unwrap_or_default().split_ascii_whitespace();
    fields.filter_map(|field| field.parse().ok()).collect()
}

/// The sum of some columns of a device.
fn sum_net_dev_columns_of_device(text: &str, device: &str, columns: &[usize]) -> u64 {
    let fields = parse_net_dev_columns_of_device(text, device);
    columns.iter().filter_map(|at| fields.get(*at)).sum()
}

/// Discards in `/proc/net/snmp` and `/proc/net/netstat`: a line of names, then one of values.
fn sum_ipv4_discards(text: &str) -> u64 {
    let counted = [
        "InHdrErrors",
        "InAddrErrors",
        "InUnknownProtos",
        "InDiscards",
        "OutDiscards",
        "OutNoRoutes",
        "InNoRoutes",
        "InTruncatedPkts",
        "IPReversePathFilter",
    ];
    let is_ours = |line: &&str| line.starts_with("Ip") || line.starts_with("TcpExt");
    let lines: Vec<&str> = text.lines().filter(is_ours).collect();
    let values = |pair: &[&str]| -> u64 {
        pair[0]
            .split_ascii_whitespace()
            .zip(pair[1].split_ascii_whitespace())
            .filter(|(name, _)| counted.contains(name))
            .filter_map(|(_, value)| value.parse::<u64>().ok())
            .sum()
    };
    lines.chunks_exact(2).map(values).sum()
}

/// Discards in `/proc/net/snmp6`.
fn sum_ipv6_discards(text: &str) -> u64 {
    let counted = [
        "Ip6InHdrErrors",
        "Ip6InTooBigErrors",
        "Ip6InNoRoutes",
        "Ip6InAddrErrors",
        "Ip6InDiscards",
        "Ip6OutDiscards",
        "Ip6OutNoRoutes",
        "Ip6InTruncatedPkts",
    ];
    let value = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        counted.contains(&name).then(|| value.trim().parse::<u64>().ok())?
    };
    text.lines().filter_map(value).sum()
}

/// Packets that all cores dropped because a backlog was full: the second column of
/// `/proc/net/softnet_stat`, a line for each core, hexadecimal. Of the whole machine: it explains,
/// and belongs into no sum.
pub(crate) fn sum_softnet_drops(text: &str) -> u64 {
    let second = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(second).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_one_device_are_summed_over_both_directions() {
        let text = "Inter-|   Receive\n face |bytes packets\n\
                    \u{20} eth0: 10 1 0 3 0 0 0 0 20 2 0 4 0 0 0 0\n\
                    eth01: 10 1 0 90 0 0 0 0 20 2 0 90 0 0 0 0\n";
        let both =
            |device| sum_net_dev_columns_of_device(text, device, &[RX_DROP_COLUMN, TX_DROP_COLUMN]);
        assert_eq!((both("eth0"), both("eth01"), both("eth9")), (7, 180, 0));
        assert_eq!(sum_net_dev_columns_of_device(text, "eth0", &[RX_DROP_COLUMN]), 3);
    }

    #[test]
    fn ip_discards_are_summed_by_counter_name() {
        let v4 = "Ip: Forwarding InReceives InHdrErrors InDiscards OutNoRoutes\nIp: 1 900 2 3 4\n\
                  Icmp: InMsgs\nIcmp: 7\n";
        assert_eq!(sum_ipv4_discards(v4), 9);
        let more = "TcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 9 2\n\
                    IpExt: InNoRoutes\nIpExt: 6\n";
        assert_eq!(sum_ipv4_discards(more), 8);
        assert_eq!(sum_ipv6_discards("Ip6InReceives\t800\nIp6InDiscards\t5\n"), 5);
    }

    #[test]
    fn conntrack_counters_are_summed_over_cores() {
        let text = "entries  clashres drop early_drop invalid\n\
            0000000a  00000000 00000001 00000002 00000000\n\
            0000000a  00000000 00000010 00000000 00000003\n";
        let table = parse_conntrack_stat(text);
        assert_eq!((table.entries, table.dropped), (10, 17), "entries are the same on each line");
        assert_eq!((table.early_drop, table.invalid), (2, 3));
        assert_eq!(table.counter_growth_since(&ConntrackCounters::default())["drop"], 17);
    }

    #[test]
    fn snmp_counters_are_named_by_protocol_and_field() {
        let text = "Ip: Forwarding InReceives\nIp: 1 42\nIcmp: InMsgs\nIcmp: 3\n";
        let values: BTreeMap<String, u64> = parse_snmp_counters(text).collect();
        assert_eq!((values["Ip.InReceives"], values["Icmp.InMsgs"]), (42, 3));
    }

    #[test]
    fn hexadecimal_softnet_drops_are_summed_over_cores() {
        assert_eq!(sum_softnet_drops("00000010 0000000a 0 0\n00000010 00000001 0 0\n"), 11);
    }
}
