//! Data from files under `/proc`: softirqs, interrupts, cores, memory.

use std::collections::BTreeMap;

use weir_stats::CoreNetworkLoad;

/// Counters by name.
pub(crate) type CountersByName = BTreeMap<String, u64>;

/// What grew, and by how much.
pub(crate) fn compute_counter_growth(
    after: &CountersByName,
    before: &CountersByName,
) -> CountersByName {
    let growth = |(name, value): (&String, &u64)| {
        let more = value.saturating_sub(before.get(name).copied().unwrap_or(0));
        (more > 0).then(|| (name.clone(), more))
    };
    after.iter().filter_map(growth).collect()
}

/// The first three columns of `/proc/net/softnet_stat`, hexadecimal, a line for each core.
pub(crate) fn sum_softnet_stat_columns(text: &str) -> CountersByName {
    let mut counts = CountersByName::new();
    for line in text.lines() {
        let values = line.split_ascii_whitespace().map(|v| u64::from_str_radix(v, 16));
        for (name, value) in ["processed", "dropped", "time_squeeze"].iter().zip(values) {
            *counts.entry((*name).to_owned()).or_default() += value.unwrap_or(0);
        }
    }
    counts
}

/// What each core did so far: its line of `/proc/net/softnet_stat`, whose 13th column is its
/// number (5.10 and later), and its NET_RX of `/proc/softirqs`.
pub(crate) fn parse_core_network_load(softnet: &str, softirq: &str) -> Vec<CoreNetworkLoad> {
    let line = |line: &str| {
        let column = |at| {
            let value = line.split_ascii_whitespace().nth(at)?;
            u64::from_str_radix(value, 16).ok()
        };
        let core = u32::try_from(column(12)?).ok()?;
        let net_rx =
            parse_softirqs_of_core_or_all(softirq, Some(core)).get("NET_RX").copied().unwrap_or(0);
        Some(CoreNetworkLoad { core, packets: column(0)?, net_rx })
    };
    softnet.lines().filter_map(line).collect()
}

/// Interrupts by number or name with what they are for, all cores together.
pub(crate) fn parse_interrupts_summed_over_cores(text: &str) -> CountersByName {
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let cores = words.iter().take_while(|word| word.parse::<u64>().is_ok()).count();
        let sum = words[..cores].iter().filter_map(|word| word.parse::<u64>().ok()).sum();
        let what = words[cores..].join(" ");
        Some((format!("{} {what}", name.trim()).trim().to_owned(), sum))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// Softirqs of one core, or of all together: a line of cores, then a line for each kind.
pub(crate) fn parse_softirqs_of_core_or_all(text: &str, core: Option<u32>) -> CountersByName {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let is_wanted = |name: &str| core.is_none_or(|core| name == format!("CPU{core}"));
    let wanted: Vec<bool> = header.split_ascii_whitespace().map(is_wanted).collect();
    if !wanted.contains(&true) {
        return CountersByName::new();
    }
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let values = rest.split_ascii_whitespace().zip(&wanted).filter(|(_, wanted)| **wanted);
        Some((name.trim().to_owned(), values.filter_map(|(v, _)| v.parse::<u64>().ok()).sum()))
    };
    lines.filter_map(line).collect()
}

/// `SUnreclaim` of `/proc/meminfo`, bytes.
pub(crate) fn parse_meminfo_unreclaimable_slab_bytes(text: &str) -> i64 {
    parse_meminfo_bytes(text, "SUnreclaim")
}

/// A line of `/proc/meminfo`, bytes.
pub(crate) fn parse_meminfo_bytes(text: &str, name: &str) -> i64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let line = lines.find_map(|(found, rest)| (found == name).then_some(rest));
    let kib = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<i64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Size of an entry in `/proc/slabinfo`, bytes.
pub(crate) fn parse_conntrack_entry_bytes(text: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with("nf_conntrack "));
    let size = line.and_then(|line| line.split_ascii_whitespace().nth(3)?.parse().ok());
    size.unwrap_or(0)
}

pub(crate) fn parse_load_average(text: &str) -> f64 {
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_summed_over_cores_and_keep_their_description() {
        let text = "      CPU0  CPU1\n  24:  5  7  PCI-MSI-0000 virtio0-input.0\n\
                    LOC: 1 2 Local timer\nERR: 0\n";
        let counts = parse_interrupts_summed_over_cores(text);
        assert_eq!(counts["24 PCI-MSI-0000 virtio0-input.0"], 12);
        assert_eq!(counts["LOC Local timer"], 3);
        assert_eq!(counts["ERR"], 0);
    }

    #[test]
    fn softirqs_are_read_per_core_or_summed() {
        let text = "        CPU0   CPU1\n NET_RX:   10   20\n TIMER:  1  2\n";
        assert_eq!(parse_softirqs_of_core_or_all(text, Some(1))["NET_RX"], 20);
        assert_eq!(parse_softirqs_of_core_or_all(text, None)["NET_RX"], 30);
        assert!(parse_softirqs_of_core_or_all(text, Some(9)).is_empty());
    }

    #[test]
    fn core_numbers_are_read_from_the_softnet_lines() {
        let zeros = "0 ".repeat(9);
        let softnet = format!("0000000a 0 0 {zeros}00000001\n00000014 0 0 {zeros}00000003\n");
        let softirqs = "        CPU1   CPU3\n NET_RX:   5   7\n";
        let core = |core, packets, net_rx| CoreNetworkLoad { core, packets, net_rx };
        assert_eq!(parse_core_network_load(&softnet, softirqs), [core(1, 10, 5), core(3, 20, 7)]);
        assert!(
            parse_core_network_load("0000000a 0 0\n", softirqs).is_empty(),
            "an old kernel names no core"
        );
    }

    #[test]
    fn hexadecimal_softnet_columns_are_summed_over_cores() {
        let counts = sum_softnet_stat_columns(
            "00000010 00000001 00000002 0\n00000001 00000000 00000000 0\n",
        );
        assert_eq!((counts["processed"], counts["dropped"], counts["time_squeeze"]), (17, 1, 2));
    }

    #[test]
    fn only_what_grew_is_kept() {
        let counts = |pairs: &[(&str, u64)]| -> CountersByName {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let grew = compute_counter_growth(
            &counts(&[("a", 3), ("b", 2), ("c", 1)]),
            &counts(&[("a", 1), ("b", 2)]),
        );
        assert_eq!(grew, counts(&[("a", 2), ("c", 1)]));
    }

    #[test]
    fn slab_sizes_and_meminfo_values_are_found_by_name() {
        let text = "nf_conntrack_expect 1 2 9 4\nnf_conntrack 160 240 256 16 1 : tunables\n";
        assert_eq!(parse_conntrack_entry_bytes(text), 256);
        assert_eq!(
            parse_meminfo_unreclaimable_slab_bytes("Slab: 9 kB\nSUnreclaim:   2 kB\n"),
            2048
        );
        assert_eq!(
            parse_meminfo_bytes("VmallocTotal: 9 kB\nVmallocUsed: 3 kB\n", "VmallocUsed"),
            3072
        );
        assert_eq!(parse_meminfo_bytes("", "Percpu"), 0);
    }
}
