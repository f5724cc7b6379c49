//! What weir loads is what `iptables-legacy-restore` loads: the same bytes in the kernel, and the
//! same listing with counters.

mod filter_rules;

use std::path::PathBuf;
use std::process::Output;

use weir_apply::{ApplyError, xtables};
use weir_kernel::xtables::{XtablesLock, XtablesSocket};
use weir_kernel::{Namespace, Session};
use weir_model::{Family, Ruleset};
use weir_syntax::iptables::{ParserSettings, parse};

/// A namespace, and the tools in it.
struct Tables {
    namespace: Namespace,
    lock: PathBuf,
    _session: Session,
}

/// Entries in the kernel, and what `iptables-save -c` prints.
#[derive(Debug, PartialEq)]
struct LoadedTable {
    saved: Vec<String>,
    entries: Vec<u8>,
}

impl Tables {
    fn new(role: &str) -> Tables {
        let session = Session::new().expect("a session");
        let namespace = session.create_namespace(role).expect("a namespace");
        let lock = session.session_directory().join("xtables.lock");
        Tables { namespace, lock, _session: session }
    }

    fn run_tool(&self, family: Family, tool: &str, input: &str) -> Output {
        use std::io::Write as _;
        use std::process::Stdio;
        let prefix = if family == Family::V4 { "iptables" } else { "ip6tables" };
        let mut command = self.namespace.command(format!("{prefix}-legacy-{tool}"));
        command.arg("-c").env("XTABLES_LOCKFILE", &self.lock);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the tool is installed");
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        std::thread::scope(|scope| {
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
            child.wait_with_output().expect("the tool ends")
        })
    }

    fn socket(&self, family: Family) -> XtablesSocket {
        XtablesSocket::open_in_namespace(&self.namespace, family).expect("a socket")
    }

    fn list(&self, family: Family, table: &str) -> LoadedTable {
        let out = self.run_tool(family, "save", "");
        let saved = String::from_utf8_lossy(&out.stdout).into_owned();
        let section = saved.split('*').find(|s| s.starts_with(table)).unwrap_or_default();
        let saved = section.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
        let snapshot = self.socket(family).read_table(table).expect("the table is read");
        LoadedTable { saved, entries: snapshot.entries().to_vec() }
    }

    /// Loads a text of one table with the tool; what it says against it.
    fn load_by_tool(&self, family: Family, table: &str, text: &str) -> Result<LoadedTable, String> {
        let out = self.run_tool(family, "restore", text);
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned());
        }
        Ok(self.list(family, table))
    }

    /// Loads it with the tool, empties the table, loads it with weir, and compares.
    fn compare_loads(&self, family: Family, table: &str, text: &str) -> Result<(), ApplyError> {
        let theirs = self.load_by_tool(family, table, text).unwrap_or_else(|e| panic!("{text}{e}"));
        self.load_by_tool(family, table, &format!("*{table}\nCOMMIT\n")).expect("no rules");
        let lock = XtablesLock::acquire(&self.lock, std::time::Duration::from_secs(10));
        let _lock = lock.expect("nobody else holds the lock");
        xtables::load_table(&self.socket(family), &read(family, text).tables[0])?;
        drop(_lock);
        let ours = self.list(family, table);
        assert_eq!(ours.saved, theirs.saved, "{text}");
        let differing = ours.entries.iter().zip(&theirs.entries).position(|(a, b)| a != b);
        assert_eq!(differing, None, "byte of the entries\n{text}");
        assert_eq!(ours.entries.len(), theirs.entries.len(), "{text}");
        Ok(())
    }
}

fn read(family: Family, text: &str) -> Ruleset {
    let settings = ParserSettings { family: Some(family), ..ParserSettings::default() };
    parse(text, &settings).unwrap_or_else(|errors| panic!("{text}: {}", errors[0].message))
}

fn assert_rules_load_alike(role: &str, family: Family, table: &str, rules: &[&str]) {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = Tables::new(role);
    for rule in rules {
        let text = format!("*{table}\n:user - [0:0]\n[7:890] {rule}\nCOMMIT\n");
        let result = tables.compare_loads(family, table, &text);
        result.unwrap_or_else(|e| panic!("{rule}: {e}"));
        let saved = tables.list(family, table).saved;
        assert!(saved.iter().any(|line| line.starts_with("[7:890] -A")), "{rule}: {saved:?}");
    }
}

#[test]
fn rules_of_every_known_module_load_to_the_bytes_of_the_tool() {
    assert_rules_load_alike("apply4", Family::V4, "filter", filter_rules::FILTER_RULES);
}

#[test]
fn ipv6_rules_load_to_the_bytes_of_the_tool() {
    let rules = [
        "-A INPUT -s 2001:db8::/32 -d fe80::1/128 -i eth+ -j ACCEPT",
        "-A INPUT ! -p tcp -g user",
        "-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 1/2 -j DROP",
        "-A INPUT -m hl --hl-lt 3 -j REJECT --reject-with icmp6-adm-prohibited",
        "-A INPUT -p tcp -j REJECT --reject-with tcp-reset",
        "-A INPUT -m iprange --src-range 2001:db8::1-2001:db8::9",
        "-A INPUT -m addrtype --dst-type LOCAL -j LOG --log-prefix \"six: \"",
    ];
    assert_rules_load_alike("apply6", Family::V6, "filter", &rules);
}

#[test]
fn rules_of_mangle_and_nat_load_to_the_bytes_of_the_tool() {
    let mangle = [
        "-A FORWARD -j MARK --set-xmark 0x1/0xff",
        "-A FORWARD -j CLASSIFY --set-class 0001:0002",
        "-A FORWARD -j TOS --set-tos 0x10/0x3f",
        "-A FORWARD -j DSCP --set-dscp 0x2e",
        "-A FORWARD -j TTL --ttl-dec 1",
        "-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 1400",
        "-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu",
    ];
    assert_rules_load_alike("applymangle", Family::V4, "mangle", &mangle);
    let nat = [
        "-A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.1-10.0.0.9:80-90",
        "-A PREROUTING -p tcp -j DNAT --to-destination :1000-2000/80",
        "-A POSTROUTING -j SNAT --to-source 192.0.2.1 --persistent",
        "-A POSTROUTING -p udp -j SNAT --to-source 192.0.2.1-192.0.2.3:1024-2048 --random",
        "-A POSTROUTING -j MASQUERADE --random-fully",
        "-A POSTROUTING -p tcp -j MASQUERADE --to-ports 1024-2048",
        "-A PREROUTING -p tcp -j REDIRECT --to-ports 8080",
    ];
    assert_rules_load_alike("applynat", Family::V4, "nat", &nat);
    let nat6 = [
        "-A PREROUTING -p tcp -j DNAT --to-destination [2001:db8::1]:80",
        "-A POSTROUTING -j SNAT --to-source 2001:db8::1-2001:db8::9",
        "-A POSTROUTING -j MASQUERADE",
        "-A PREROUTING -p tcp -j REDIRECT --to-ports 8080",
    ];
    assert_rules_load_alike("applynat6", Family::V6, "nat", &nat6);
}

#[test]
fn chains_policies_and_their_counters_load_to_the_bytes_of_the_tool() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let text = "*filter\n:INPUT DROP [1:2]\n:FORWARD ACCEPT [3:4]\n:OUTPUT ACCEPT [0:0]\n\
                :zeta - [0:0]\n:alpha - [0:0]\n[5:6] -A INPUT -j zeta\n[0:0] -A zeta -g alpha\n\
                [9:9] -A alpha -s 192.0.2.1/32\n[1:1] -A alpha -j RETURN\nCOMMIT\n";
    let tables = Tables::new("applychains");
    tables.compare_loads(Family::V4, "filter", text).expect("known modules");
}

#[test]
fn an_unknown_module_is_refused_by_name_and_the_table_stays() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = Tables::new("applyunknown");
    let kept = "*filter\n-A INPUT -s 192.0.2.1/32 -j DROP\nCOMMIT\n";
    let before = tables.load_by_tool(Family::V4, "filter", kept).expect("loads");
    let text = "*filter\n-A INPUT -j ACCEPT\n-A INPUT -m string --algo bm --string x\nCOMMIT\n";
    let ruleset = read(Family::V4, text);
    let refused = xtables::load_table(&tables.socket(Family::V4), &ruleset.tables[0]);
    let message = refused.expect_err("string is not known").to_string();
    assert!(
        message.contains("rule 2 of chain INPUT") && message.contains("-m string"),
        "{message}"
    );
    assert_eq!(tables.list(Family::V4, "filter"), before);
}
