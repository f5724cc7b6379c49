//! The machine on which a run is made, without its name or personal paths.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use weir_stats::HostEnvironment;

/// Kernel settings that change what is measured.
const RECORDED_SYSCTLS: [&str; 9] = [
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/dev_weight",
    "net/core/bpf_jit_enable",
    "net/core/bpf_jit_harden",
    "kernel/sched_rt_runtime_us",
    "kernel/sched_rt_period_us",
    "kernel/perf_event_paranoid",
];

/// Tools whose version belongs to a record, with the arguments that print it.
const RECORDED_TOOLS: [(&str, &str); 7] = [
    ("iptables-legacy", "--version"),
    ("iptables-nft", "--version"),
    ("nft", "--version"),
    ("ipset", "--version"),
    ("ip", "-Version"),
    // Without the second one it continues, and contacts whoever listens on this machine.
    ("httperf", "--version --help"),
    ("wrk", "--version"),
];

/// Looks at the machine.
pub fn capture_environment(core: u32, scheduling: String) -> HostEnvironment {
    let cpuinfo = read_trimmed_file_or_empty("/proc/cpuinfo");
    HostEnvironment {
        kernel: read_trimmed_file_or_empty("/proc/sys/kernel/osrelease"),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu_model: find_cpuinfo_field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        core,
        generator_scheduling_policy: scheduling,
        memory_mib: parse_total_memory_mib(&read_trimmed_file_or_empty("/proc/meminfo")),
        hypervisor: find_cpuinfo_field(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor")),
        clocksource: read_trimmed_file_or_empty(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        tools: RECORDED_TOOLS
            .iter()
            .filter_map(|(tool, arguments)| query_tool_version(tool, arguments))
            .collect(),
        sysctls: RECORDED_SYSCTLS
            .iter()
            .map(|name| {
                (name.replace('/', "."), read_trimmed_file_or_empty(&format!("/proc/sys/{name}")))
            })
            .filter(|(_, value)| !value.is_empty())
            .collect(),
        mitigations: read_cpu_mitigations(Path::new("/sys/devices/system/cpu/vulnerabilities")),
    }
}

/// `text` with every path in it replaced by its last part.
///
/// ```
/// use weir_lab::observe::environment::reduce_paths_to_last_part;
/// let masked = reduce_paths_to_last_part("weir lab run /srv/me/studies/x -o ./run");
/// assert_eq!(masked, "weir lab run …/x -o …/run");
/// ```
pub fn reduce_paths_to_last_part(text: &str) -> String {
    let mask = |word: &str| match word.rsplit_once('/') {
        Some((_, last)) => format!("…/{last}"),
        None => word.to_owned(),
    };
    text.split(' ').map(mask).collect::<Vec<_>>().join(" ")
}

/// A moment as RFC 3339 has it, in UTC.
pub(crate) fn format_utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    Timestamp::from_second(since as i64).map_or_else(|_| String::new(), |time| time.to_string())
}

fn read_trimmed_file_or_empty(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn find_cpuinfo_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.split_once(':').filter(|(key, _)| key.trim() == name);
    text.lines().find_map(value).map(|(_, value)| value.trim())
}

fn parse_total_memory_mib(text: &str) -> u64 {
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn query_tool_version(tool: &str, arguments: &str) -> Option<(String, String)> {
    let output = Command::new(tool).args(arguments.split(' ')).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((tool.to_owned(), text.lines().next()?.trim().to_owned()))
}

fn read_cpu_mitigations(folder: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            Some((entry.file_name().into_string().ok()?, text.trim().to_owned()))
        })
        .filter(|(_, text)| text != "Not affected")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_dates_are_formatted_correctly() {
        let at = |seconds| format_utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_700_000_000), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn the_recorded_environment_does_not_contain_the_host_name() {
        let name = read_trimmed_file_or_empty("/proc/sys/kernel/hostname");
        let text = serde_json::to_string(&capture_environment(0, "other".to_owned())).unwrap();
        assert!(name.is_empty() || !text.contains(&format!("\"{name}\"")));
        assert!(text.contains("kernel"));
    }
}
