//! Which of the features that weir uses this machine has, found by trying them in a separate
//! namespace.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;
use weir_packet::{Addr, Family};

use crate::bpf_probe::{self, BpfProgramKind};
use crate::conntrack::{ConntrackEntry, ConntrackTuple, KernelConntrackTable, TupleL4Key};
use crate::nflog::NflogReceiver;
use crate::{KernelError, Namespace, Session, VethOptions};

/// One probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorProbeResult {
    /// What.
    pub name: String,
    /// Whether it is there.
    pub ok: bool,
    /// What was found: a version, a number, an error.
    pub detail: String,
    /// What weir cannot do without it.
    pub lacking: String,
    /// What to do about it.
    pub cure: String,
}

const LEGACY_TABLES: [&str; 5] = ["raw", "mangle", "nat", "filter", "security"];
const IPSET_TYPES: [&str; 6] =
    ["hash:ip", "hash:net", "hash:ip,port", "hash:net,port", "bitmap:ip", "list:set"];

/// Tries everything. Nothing outside of namespaces of our own changes.
pub fn run_probes() -> Vec<DoctorProbeResult> {
    let mut out = vec![probe_root_privileges(), probe_kernel_version(), probe_processor_count()];
    out.extend(probe_external_tools());
    let namespace = Session::new().and_then(|s| Ok((s.create_namespace("doctor")?, s)));
    let lacking = "verify and lab cannot run";
    match namespace {
        Ok((namespace, session)) => {
            out.push(passed_probe("network namespaces", "can be created".to_owned(), lacking));
            out.push(probe_veth(&session, &namespace));
            out.extend(probe_loading_empty_legacy_tables(&namespace));
            out.extend(probe_ipset_types(&namespace));
            out.extend(probe_nft_maps_conntrack_and_log(&namespace));
            out.push(probe_ctnetlink(&namespace));
            out.push(probe_nflog_group_bind(&namespace));
        }
        Err(e) => {
            let cure = "run as root, on a kernel with CONFIG_NET_NS, with iproute2 installed";
            out.push(failed_probe("network namespaces", e.to_string(), lacking, cure));
        }
    }
    out.extend(probe_btf_and_bpf());
    out
}

fn passed_probe(name: &str, detail: String, lacking: &str) -> DoctorProbeResult {
    let (name, lacking) = (name.to_owned(), lacking.to_owned());
    DoctorProbeResult { name, ok: true, detail, lacking, cure: String::new() }
}

fn failed_probe(name: &str, detail: String, lacking: &str, cure: &str) -> DoctorProbeResult {
    let is_root = rustix::process::geteuid().is_root();
    let (lacking, cure) = (lacking.to_owned(), cure_of_failure(&detail, cure, is_root).to_owned());
    DoctorProbeResult { name: name.to_owned(), ok: false, detail, lacking, cure }
}

/// Without permission a probe says nothing of what it probes.
fn cure_of_failure<'c>(detail: &str, cure: &'c str, is_root: bool) -> &'c str {
    let is_refused = ["ermission denied", "not permitted"].iter().any(|text| detail.contains(text));
    if is_refused && !is_root { "run weir doctor as root" } else { cure }
}

fn probe_from_result<E: ToString>(
    name: &str,
    result: Result<String, E>,
    lacking: &str,
    cure: &str,
) -> DoctorProbeResult {
    match result {
        Ok(detail) => passed_probe(name, detail, lacking),
        Err(e) => failed_probe(name, e.to_string(), lacking, cure),
    }
}

fn probe_root_privileges() -> DoctorProbeResult {
    let lacking = "rules, namespaces and counters need root; files can be read and compiled";
    if rustix::process::geteuid().is_root() {
        passed_probe("root", "yes".to_owned(), lacking)
    } else {
        failed_probe("root", "no".to_owned(), lacking, "run as root")
    }
}

fn probe_kernel_version() -> DoctorProbeResult {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let numbers: Vec<u32> =
        release.split(['.', '-']).map_while(|n| n.parse().ok()).take(2).collect();
    let lacking = "verify renames links while they are up, which needs Linux 6.2";
    match numbers[..] {
        [major, minor] if (major, minor) >= (6, 2) => passed_probe("kernel", release, lacking),
        _ => failed_probe("kernel", release, lacking, "a kernel from bookworm-backports, or newer"),
    }
}

fn probe_processor_count() -> DoctorProbeResult {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let lacking = "generator and firewall of the lab share one processor";
    let detail = count.to_string();
    if count > 1 {
        passed_probe("processors", detail, lacking)
    } else {
        failed_probe("processors", detail, lacking, "two processors or more")
    }
}

/// The programs that weir, its artefacts and its build run.
fn probe_external_tools() -> Vec<DoctorProbeResult> {
    [
        ("ip", &["ip", "-V"][..], "namespaces cannot be created", "apt install iproute2"),
        (
            "iptables-legacy",
            &["iptables-legacy", "--version"],
            "linear, tree and ipset cannot be loaded",
            "apt install iptables",
        ),
        (
            "ip6tables-legacy",
            &["ip6tables-legacy", "--version"],
            "IPv6 rulesets cannot be loaded",
            "apt install iptables",
        ),
        ("ipset", &["ipset", "--version"], "no form with sets can be loaded", "apt install ipset"),
        (
            "nft",
            &["nft", "--version"],
            "the nft form cannot be loaded, and verify cannot watch",
            "apt install nftables",
        ),
        (
            "awk",
            &["awk", "BEGIN { print \"yes\" }"],
            "no form can be loaded: load.sh and unload.sh need it",
            "apt install mawk",
        ),
        (
            "flock",
            &["flock", "--version"],
            "no form can be loaded: load.sh and unload.sh need it",
            "apt install util-linux",
        ),
        (
            "find",
            &["find", "--version"],
            "no form can be loaded: load.sh and unload.sh need it",
            "apt install findutils",
        ),
        (
            "cmp",
            &["cmp", "--version"],
            "no form can be loaded: load.sh and unload.sh need it",
            "apt install diffutils",
        ),
        (
            "clang",
            &["clang", "--version"],
            "weir cannot be built from source; the built program does not need it",
            "apt install clang",
        ),
    ]
    .into_iter()
    .map(|(name, argv, lacking, cure)| {
        probe_from_result(name, read_first_output_line(argv), lacking, cure)
    })
    .collect()
}

/// The first line that a command prints.
fn read_first_output_line(argv: &[&str]) -> Result<String, String> {
    let output = Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|_| "not found".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        Ok(text.lines().next().unwrap_or("").trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

fn probe_veth(session: &Session, namespace: &Namespace) -> DoctorProbeResult {
    let options = VethOptions { gro: true, ..VethOptions::default() };
    let made = session.create_veth_pair(namespace, "probe0", namespace, "probe1", &options);
    let cure = "a kernel with CONFIG_VETH";
    probe_from_result(
        "veth",
        made.map(|()| "with GRO".to_owned()),
        "verify and lab cannot run",
        cure,
    )
}

/// The legacy tables, each by loading an empty one.
fn probe_loading_empty_legacy_tables(namespace: &Namespace) -> Vec<DoctorProbeResult> {
    let families =
        [("iptables", "iptables-legacy-restore"), ("ip6tables", "ip6tables-legacy-restore")];
    families
        .into_iter()
        .map(|(name, tool)| {
            let missing: Vec<&str> = LEGACY_TABLES
                .into_iter()
                .filter(|t| {
                    namespace.run_command(&[tool], format!("*{t}\nCOMMIT\n").as_bytes()).is_err()
                })
                .collect();
            let result = if missing.is_empty() {
                Ok(LEGACY_TABLES.join(", "))
            } else {
                Err(format!("lacks {}", missing.join(", ")))
            };
            let name = format!("{name} tables");
            let cure = "a kernel with CONFIG_NETFILTER_XTABLES_LEGACY and these tables";
            probe_from_result(&name, result, "rulesets with these tables cannot be loaded", cure)
        })
        .collect()
}

fn probe_ipset_types(namespace: &Namespace) -> Vec<DoctorProbeResult> {
    let lacking = "the ipset form is limited to the available types";
    let missing: Vec<&str> = IPSET_TYPES
        .into_iter()
        .enumerate()
        .filter(|(i, kind)| {
            let more = match *kind {
                "bitmap:ip" => " range 192.0.2.0/24 counters",
                "list:set" => " size 8",
                _ => " family inet counters",
            };
            let line = format!("create probe{i} {kind}{more}\n");
            namespace.run_command(&["ipset", "restore"], line.as_bytes()).is_err()
        })
        .map(|(_, kind)| kind)
        .collect();
    let result = if missing.is_empty() {
        Ok(IPSET_TYPES.join(", "))
    } else {
        Err(format!("lacks {}", missing.join(", ")))
    };
    vec![probe_from_result(
        "ipset types",
        result,
        lacking,
        "a kernel with CONFIG_IP_SET and these types",
    )]
}

fn probe_nft_maps_conntrack_and_log(namespace: &Namespace) -> Vec<DoctorProbeResult> {
    let load = |text: &str| {
        namespace.run_command(&["nft", "-f", "-"], text.as_bytes()).map(|_| "yes".into())
    };
    let maps = "table ip probe_maps {\n  map m {\n    type ipv4_addr . inet_service : verdict\n    \
                flags interval\n    counter\n    \
                elements = { 192.0.2.0/24 . 1-9 : drop }\n  }\n}\n";
    let ct = "table ip probe_ct {\n  chain c {\n    type filter hook forward priority 0;\n    \
              ct state new counter\n  }\n}\n";
    let log = "table ip probe_log {\n  chain c {\n    type filter hook forward priority 0;\n    \
               log group 64977\n  }\n}\n";
    vec![
        probe_from_result(
            "nft maps with counters",
            load(maps),
            "the nft form cannot be loaded",
            "Linux 5.7 and nft 0.9.5, or newer",
        ),
        probe_from_result(
            "conntrack",
            load(ct),
            "rulesets that test connections cannot be loaded",
            "a kernel with CONFIG_NF_CONNTRACK",
        ),
        probe_from_result(
            "nft log groups",
            load(log),
            "verify cannot watch packets",
            "a kernel with CONFIG_NFT_LOG and CONFIG_NETFILTER_NETLINK_LOG",
        ),
    ]
}

fn probe_ctnetlink(namespace: &Namespace) -> DoctorProbeResult {
    let make = || -> Result<String, KernelError> {
        let mut table = KernelConntrackTable::open(namespace)?;
        let (saddr, daddr) = (Addr(0xc000_0201), Addr(0xc000_0202));
        let key = TupleL4Key::Ports(1, 2);
        let original = ConntrackTuple { family: Family::V4, saddr, daddr, proto: 17, l4_key: key };
        let reply = original.invert();
        let entry = ConntrackEntry {
            original,
            reply,
            seen_reply: true,
            expected_tuple: None,
            has_null_nat_binding: false,
            mark: 0,
        };
        let refused = table.create_entries_collecting_refusals(&[entry])?;
        table.flush()?;
        let object = namespace.name();
        match refused.into_iter().next() {
            None => Ok("entries can be created".to_owned()),
            Some(refusal) => {
                Err(KernelError::netlink("add a connection in", object)(refusal.into()))
            }
        }
    };
    let cure = "a kernel with CONFIG_NF_CT_NETLINK";
    probe_from_result(
        "ctnetlink",
        make(),
        "verify does not send ESTABLISHED or RELATED packets",
        cure,
    )
}

fn probe_nflog_group_bind(namespace: &Namespace) -> DoctorProbeResult {
    let bound =
        NflogReceiver::bind(namespace, 64_977, 64).map(|_| "messages can be received".to_owned());
    let cure = "a kernel with CONFIG_NETFILTER_NETLINK_LOG";
    probe_from_result("nflog", bound, "verify cannot watch packets", cure)
}

fn probe_btf_and_bpf() -> Vec<DoctorProbeResult> {
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    let btf = match btf.metadata() {
        Ok(m) => Ok(format!("{} KiB", m.len() / 1024)),
        Err(e) => Err(e),
    };
    let xdp = bpf_probe::load_minimal_program(BpfProgramKind::Xdp);
    let live = match &xdp {
        Ok(program) => bpf_probe::run_live_frames(program),
        Err(e) => Err(e.kind().into()),
    };
    let yes = |()| "yes".to_owned();
    vec![
        probe_from_result(
            "BTF",
            btf,
            "programs that need the kernel's type information cannot be loaded",
            "a kernel with CONFIG_DEBUG_INFO_BTF",
        ),
        probe_from_result(
            "XDP programs",
            xdp.map(drop).map(yes),
            "the lab has no generator and no sink",
            "a kernel with CONFIG_BPF_SYSCALL, and root",
        ),
        probe_from_result(
            "XDP live frames",
            live.map(yes),
            "the lab has no generator",
            "Linux 5.18 or newer",
        ),
        probe_from_result(
            "BPF on a netfilter hook",
            bpf_probe::load_minimal_program(BpfProgramKind::Netfilter).map(drop).map(yes),
            "no eBPF form on this kernel",
            "Linux 6.4 or newer, with CONFIG_NETFILTER_BPF_LINK",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_fails_its_probe_with_a_remedy() {
        let probe = probe_from_result(
            "x",
            read_first_output_line(&["weir-no-such-program"]),
            "nothing",
            "apt install x",
        );
        assert!(!probe.ok);
        assert_eq!((probe.detail.as_str(), probe.cure.as_str()), ("not found", "apt install x"));
        let cure = |is_root| cure_of_failure("bpf: Operation not permitted", "Linux 6.4", is_root);
        assert_eq!([true, false].map(cure), ["Linux 6.4", "run weir doctor as root"]);
        assert!(
            probe_from_result(
                "sh",
                read_first_output_line(&["sh", "-c", "echo yes"]),
                "nothing",
                ""
            )
            .ok
        );
    }
}
