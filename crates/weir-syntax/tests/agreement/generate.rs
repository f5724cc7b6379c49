//! Lines from the option tables: mostly good, often wrong in one place.

use weir_model::{Family, Hook, TableName};
use weir_syntax::iptables::tables::{ExtensionInfo, OptionRow};

use crate::tool::Line;

/// SplitMix64: small, seeded, the same everywhere.
pub struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn percent(&mut self, p: usize) -> bool {
        self.below(100) < p
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Lines of a module, or of the base options alone.
pub fn lines(module: Option<&ExtensionInfo>, family: Family, seed: u64, count: usize) -> Vec<Line> {
    let mut random = Random(seed);
    // The base options have no values of their own to vary: more lines of them.
    let count = if module.is_some() { count } else { count * 4 };
    (0..count).map(|_| line(module, family, &mut random)).collect()
}

fn line(module: Option<&ExtensionInfo>, family: Family, random: &mut Random) -> Line {
    let mut tables = TableName::ALL.to_vec();
    let mut hooks = Vec::new();
    if let Some(m) = module {
        if !m.tables.is_empty() && random.percent(90) {
            tables = m.tables.to_vec();
        } else if m.tables.is_empty() && random.percent(60) {
            tables = vec![TableName::Filter];
        }
        if !m.hooks.is_empty() && random.percent(90) {
            hooks = m.hooks.to_vec();
        }
    }
    let has = |t: &TableName| hooks.is_empty() || t.hooks().iter().any(|h| hooks.contains(h));
    tables.retain(has);
    if tables.is_empty() {
        tables = vec![TableName::Mangle];
    }
    let table = random.pick(&tables);
    let mut own: Vec<Hook> = table.hooks().to_vec();
    own.retain(|h| hooks.is_empty() || hooks.contains(h));
    let chain =
        if own.is_empty() || random.percent(8) { "user" } else { random.pick(&own).chain() };
    let mut words = vec![format!("-A {chain}")];
    let base = if module.is_some() { 15 } else { 55 };
    protocol(module, family, base, random, &mut words);
    base_options(chain, family, base, random, &mut words);
    match module {
        Some(m) => module_words(m, table, family, random, &mut words),
        None => jump(table, random, &mut words),
    }
    Line { table, text: words.join(" ") }
}

fn protocol(
    module: Option<&ExtensionInfo>,
    family: Family,
    base: usize,
    random: &mut Random,
    words: &mut Vec<String>,
) {
    let names = ["tcp", "udp", "6", "17", "TCP", "icmp", "ipv6-icmp", "esp", "sctp", "all", "47"];
    let wrong = ["nope", "256", "-1", "0x6", "ip", "", "tcp,udp"];
    let needed = module.map_or(&[][..], |m| m.protocols);
    let name = if !needed.is_empty() && random.percent(92) {
        random.pick(needed).to_string()
    } else if random.percent(base + 10) {
        random.pick(&names).to_owned()
    } else if random.percent(3) {
        random.pick(&wrong).to_owned()
    } else {
        return;
    };
    let _ = family;
    let negation = if random.percent(5) { "! " } else { "" };
    let option = random.pick(&["-p", "-p", "-p", "--protocol", "--proto"]);
    words.push(format!("{negation}{option} {}", quoted(&name)));
}

fn base_options(
    chain: &str,
    family: Family,
    base: usize,
    random: &mut Random,
    words: &mut Vec<String>,
) {
    let (good, bad) = match family {
        Family::V4 => (ADDRESSES_V4, BAD_ADDRESSES_V4),
        Family::V6 => (ADDRESSES_V6, BAD_ADDRESSES_V6),
    };
    let devices = ["eth0", "ppp+", "lo", "+", "a-device-name15", "eth0.100", "eth0:1", "eth+0"];
    let bad_devices = ["", "a-device-name-16"];
    for (option, is_device) in [("-s", false), ("-d", false), ("-i", true), ("-o", true)] {
        if !random.percent(base) {
            continue;
        }
        let misplaced = match option {
            "-i" => matches!(chain, "OUTPUT" | "POSTROUTING"),
            "-o" => matches!(chain, "PREROUTING" | "INPUT"),
            _ => false,
        };
        if misplaced && random.percent(90) {
            continue;
        }
        let (good, bad) = if is_device { (&devices[..], &bad_devices[..]) } else { (good, bad) };
        let value = if random.percent(93) { random.pick(good) } else { random.pick(bad) };
        let negation = if random.percent(12) { "! " } else { "" };
        let long = match option {
            "-s" => "--source",
            "-d" => "--dst",
            "-i" => "--in-interface",
            _ => "--out-int",
        };
        let option = if random.percent(85) { option } else { long };
        let join = match (option.len(), random.below(12)) {
            (2, 0) if !value.is_empty() => "",
            (n, 1) if n > 2 => "=",
            _ => " ",
        };
        let value = if join == " " { quoted(value) } else { value.to_owned() };
        words.push(format!("{negation}{option}{join}{value}"));
    }
    if random.percent(base / 8) {
        words.push(random.pick(&["-f", "! -f", "--fragments", "-v", "-n", "-w"]).to_owned());
    }
    if random.percent(base / 12) {
        words.push(random.pick(&["-c 5 6", "--set-counters 7 8", "! !", "--", "stray"]).to_owned());
    }
}

fn jump(table: TableName, random: &mut Random, words: &mut Vec<String>) {
    let _ = table;
    let targets = ["-j ACCEPT", "-j RETURN", "-j DROP", "-j user", "-g user", "--jump ACCEPT", ""];
    let bad = ["-j nope", "-j INPUT", "-g ACCEPT", "-j ACCEPT -j DROP", "-j", "! -j ACCEPT"];
    let target = if random.percent(92) { random.pick(&targets) } else { random.pick(&bad) };
    // A chain that jumps to itself is a loop of its own test.
    let target =
        if words[0] == "-A user" { target.replace("user", "ACCEPT") } else { target.into() };
    if !target.is_empty() {
        words.push(target);
    }
}

fn module_words(
    m: &ExtensionInfo,
    table: TableName,
    family: Family,
    random: &mut Random,
    words: &mut Vec<String>,
) {
    words.push(format!("{} {}", if m.target { "-j" } else { "-m" }, m.name));
    if m.name == "TCPMSS" && random.percent(90) {
        let last = words.len() - 1;
        words.insert(last, "-m tcp --tcp-flags SYN,RST SYN".to_owned());
    }
    let mut chosen: Vec<&OptionRow> = Vec::new();
    let mut ids: Vec<u8> = m.options.iter().map(|o| o.id).collect();
    ids.sort_unstable();
    ids.dedup();
    // Depends on what is pinned on the host.
    ids.retain(|id| !m.options.iter().any(|o| o.id == *id && o.name == "object-pinned"));
    let optional = if ids.len() > 4 { 22 } else { 55 };
    for id in &ids {
        let rows: Vec<&OptionRow> = m.options.iter().filter(|o| o.id == *id).collect();
        let wanted = if rows.iter().any(|o| o.mandatory) { 95 } else { optional };
        if random.percent(wanted) {
            chosen.push(random.pick(&rows));
        }
    }
    if chosen.is_empty() && !m.options.is_empty() && random.percent(85) {
        let all: Vec<&OptionRow> = m.options.iter().filter(|o| o.name != "object-pinned").collect();
        chosen.push(random.pick(&all));
    }
    if random.percent(3) && !chosen.is_empty() {
        chosen.push(chosen[0]);
    }
    let turn = random.below(chosen.len().max(1));
    chosen.rotate_left(turn);
    for o in chosen {
        words.push(option_words(m, o, family, random));
    }
    if random.percent(2) {
        words.push(random.pick(&["--nope", "--nope 5", "! --nope"]).to_owned());
    }
    if !m.target && random.percent(60) {
        // No jumps here: what a chain of one's own may hold depends on who jumps to it.
        let drop = if table == TableName::Nat { "-j RETURN" } else { "-j DROP" };
        words.push(random.pick(&["-j ACCEPT", "-j RETURN", drop]).to_owned());
    }
}

fn option_words(m: &ExtensionInfo, o: &OptionRow, family: Family, random: &mut Random) -> String {
    let mut name = o.name.to_owned();
    if random.percent(8) {
        let keep = 1 + random.below(name.len());
        name.truncate(keep);
        // Of these the tool prints its help or version, and says that all is well.
        if "help".starts_with(&name) || "version".starts_with(&name) {
            name = o.name.to_owned();
        }
    }
    let negation = if random.percent(if o.invert { 22 } else { 3 }) { "! " } else { "" };
    let mut out = format!("{negation}--{name}");
    if o.arguments == 0 {
        return out;
    }
    let mut value = value(m, o, family, random);
    if o.name == "hashlimit-name" {
        // Rules of one name share a table, and the kernel refuses those that differ.
        value = format!("h{}", random.next() % 1_000_000_000);
    }
    let equals = random.percent(6) && o.arguments == 1 && !value.contains([' ', '"']);
    out.push_str(if equals { "=" } else { " " });
    out.push_str(&if equals { value } else { quoted(&value) });
    if o.arguments == 2 && random.percent(97) {
        out.push(' ');
        out.push_str(&second(m, random));
    }
    out
}

fn second(m: &ExtensionInfo, random: &mut Random) -> String {
    let (good, bad): (&[&str], &[&str]) = match m.name {
        "tcp" => (&["SYN", "SYN,ACK", "NONE", "fin", "ALL", "RST"], &["", "SY", "SYN,X"]),
        "sctp" => (
            &[
                "DATA",
                "INIT,SACK",
                "ALL",
                "NONE",
                "DATA:Be",
                "ABORT:T",
                "I_DATA",
                "PAD,I_FORWARD_TSN",
            ],
            &["x", "DATA:x"],
        ),
        _ => (&["src", "dst", "src,dst", "src,src,dst"], &["", "x", "src,", "SRC"]),
    };
    quoted(if random.percent(93) { random.pick(good) } else { random.pick(bad) })
}

fn value(m: &ExtensionInfo, o: &OptionRow, family: Family, random: &mut Random) -> String {
    let good = good_values(m.name, o.name, family);
    // Other paths depend on the host.
    let of_host = o.name == "path" || (m.name == "CT" && matches!(o.name, "helper" | "timeout"));
    if of_host || random.percent(86) {
        return random.pick(good).to_owned();
    }
    const BAD: [&str; 24] = [
        "",
        "x",
        "-1",
        "70000",
        "1:2:3",
        "1/2/3",
        "4294967296",
        "0x",
        "08",
        "!",
        "5 ",
        "1.5",
        ":",
        "/",
        "65536",
        "256",
        "1:",
        ":9",
        "9:1",
        "a,b",
        "0",
        "0x10",
        "017",
        "1-2",
    ];
    random.pick(&BAD).to_owned()
}

/// A word as it must be written to be read as it is.
fn quoted(word: &str) -> String {
    if !word.is_empty() && !word.contains([' ', '"', '\\', '\t']) {
        return word.to_owned();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

const ADDRESSES_V4: &[&str] = &[
    "192.0.2.1",
    "198.51.100.0/24",
    "10.0.0.0/255.0.0.0",
    "10.1.2.3/255.0.255.0",
    "0.0.0.0/0",
    "0/0",
    "10.1",
    "10/8",
    "192.0.2.1/32",
    "203.0.113.77/25",
    "010.0.0.1",
    "0x7f.1",
    "192.0.2.1,192.0.2.2",
    "192.0.2.0/24,198.51.100.7",
    "any/0",
    "10.0.0.1/0",
    "1.2.3.4/0x18",
];
const BAD_ADDRESSES_V4: &[&str] = &[
    "",
    "1.2.3.4.5",
    "1.2.3.256",
    "1.2.3.4/33",
    "1.2.3.4/255.255",
    "2001:db8::1",
    "1.2.3.4/",
    "1.2.3.4/-1",
    "no.such.host.invalid",
    "1.2.3.4,",
    ",1.2.3.4",
    "1.2.3.4-1.2.3.9",
    "1..2.3",
];
const ADDRESSES_V6: &[&str] = &[
    "2001:db8::1",
    "2001:db8::/32",
    "::/0",
    "::1",
    "fe80::/10",
    "2001:db8::1/128",
    "::ffff:1.2.3.4",
    "2001:db8:0:0:1::/80",
    "2001:db8::1/ffff:ffff::",
    "2001:db8::/ffff:0:ffff::",
    "::1.2.3.4",
    "2001:db8::1,2001:db8::2",
    "2001:DB8::A/64",
    "any/0",
    "1::/16,2::/16",
];
const BAD_ADDRESSES_V6: &[&str] = &[
    "",
    "2001:db8::1/129",
    "192.0.2.1",
    "2001:db8:::1",
    "2001:db8::1/",
    "g::1",
    "::1/64/64",
    "2001:db8::1,",
    "no.such.host.invalid",
];

/// Values that the option takes, some of them only at times.
#[expect(clippy::too_many_lines, reason = "a table")]
fn good_values(module: &str, option: &str, family: Family) -> &'static [&'static str] {
    let v4 = family == Family::V4;
    match option {
        "source-port" | "sport" | "destination-port" | "dport" => &[
            "22",
            "1024:65535",
            ":1023",
            "ssh",
            "5:",
            "http",
            "0",
            "65535",
            "domain",
            "5:5",
            "0x50",
        ],
        "source-ports" | "sports" | "destination-ports" | "dports" | "ports" => &[
            "22",
            "22,80,443",
            "1000:2000",
            "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "http,ssh",
            "1:2,3:4,5:6,7:8,9:10,11:12,13:14,15",
            "1:2,3:4,5:6,7:8,9:10,11:12,13:14,15:16",
            "80,",
            "domain,ntp",
        ],
        "tcp-flags" => &["FIN,SYN,RST,ACK", "ALL", "SYN", "NONE", "syn,ack", "SYN,,ACK", "PSH,URG"],
        "tcp-option" | "dccp-option" => &["1", "2", "255", "0x10"],
        "chunk-types" => &["all", "any", "only", "ANY"],
        "dccp-types" => {
            &["REQUEST", "request,ack", "INVALID", "RESET,SYNC,SYNCACK", "DATAACK,CLOSE"]
        }
        "icmp-type" => &[
            "8",
            "echo-request",
            "3/4",
            "any",
            "255",
            "host-unreachable",
            "echo-re",
            "ping",
            "redirect",
            "TOS-host-redirect",
            "tos-host",
            "time-exceeded",
            "0/0",
            "17/3",
        ],
        "icmpv6-type" => &[
            "128",
            "echo-request",
            "1/4",
            "255",
            "no-route",
            "neighbour-solicitation",
            "redirect",
            "router",
            "packet-too-big",
            "ping",
            "135/0",
        ],
        "state" => {
            &["NEW", "ESTABLISHED,RELATED", "new,est", "INVALID", "UNTRACKED", "SNAT", "NEW,"]
        }
        "ctstate" => &["NEW", "ESTABLISHED,RELATED", "snat,dnat", "INVALID,UNTRACKED", "n", "DNAT"],
        "ctstatus" => &["NONE", "EXPECTED", "SEEN_REPLY,ASSURED", "confirmed", "none,assured"],
        "ctproto" => &["tcp", "17", "6", "icmp", "0", "255", "gre"],
        "ctdir" => &["ORIGINAL", "REPLY", "original"],
        "ctexpire" => &["5", "5:10", ":10", "5:", "10:5"],
        "ctorigsrc" | "ctorigdst" | "ctreplsrc" | "ctrepldst" | "tunnel-src" | "tunnel-dst" => {
            if v4 {
                &["192.0.2.1", "198.51.100.0/24", "10.1.2.3/8", "10.0.0.0/255.255.0.0", "0.0.0.0/0"]
            } else {
                &["2001:db8::1", "2001:db8::/32", "2001:db8::1/64", "::/0"]
            }
        }
        "ctorigsrcport" | "ctorigdstport" | "ctreplsrcport" | "ctrepldstport" => {
            &["80", "http", "5:10", "5:", ":9", "9:5"]
        }
        "comment" => {
            &["plain", "two words", "it's", "a \"quote\"", "back\\slash", "", "$(x) <b>&", "-j"]
        }
        "mac-source" => &["00:11:22:aa:BB:cc", "1:2:3:4:5:6", "ff:ff:ff:ff:ff:ff", "0:0:0:0:0:0"],
        "limit" => &[
            "5/sec",
            "3/minute",
            "10/hour",
            "7/day",
            "100/s",
            "1",
            "9999/sec",
            "60/min",
            "5x/h",
            "4838/minute",
            "1428/sec",
        ],
        "limit-burst" => &["1", "5", "7", "100", "10000", "0"],
        "mark" | "set-mark" | "set-xmark" | "tproxy-mark" => {
            &["1", "0x10", "0x1/0xff", "0/0", "0xffffffff", "5/7", "0x5/0x3", "010"]
        }
        "and-mark" | "or-mark" | "xor-mark" | "ctmask" | "nfmask" | "mask"
            if module != "recent" =>
        {
            &["1", "0xff", "0xffffffff", "0"]
        }
        "mask" if v4 => &["255.255.255.0", "255.255.255.255", "0.0.0.0"],
        "mask" => &["ffff:ffff::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        "left-shift-mark" | "right-shift-mark" => &["1", "8", "0", "31"],
        _ => more_values(module, option, v4),
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn more_values(module: &str, option: &str, v4: bool) -> &'static [&'static str] {
    match option {
        "log-level" => &["debug", "4", "7", "warning", "0", "emerg", "panic", "0x3", "error"],
        "log-prefix" => &["x", "a b: ", "abcdefghijklmnopqrstuvwxyz012", "\"q\"", "it's"],
        "nflog-prefix" => &["x", "a b", "0123456789012345678901234567890123456789"],
        "nflog-group" | "queue-num" => &["0", "5", "65535"],
        "nflog-range" | "nflog-size" | "nflog-threshold" => &["0", "5", "100", "65535"],
        "reject-with" if v4 => &[
            "icmp-port-unreachable",
            "tcp-reset",
            "net-unreach",
            "icmp-admin-prohibited",
            "icmp-h",
            "tcp",
        ],
        "reject-with" => &[
            "icmp6-no-route",
            "adm-prohibited",
            "tcp-reset",
            "icmp6-port-unreachable",
            "policy-fail",
        ],
        "to-destination" | "to-source" if v4 => &[
            "192.0.2.1",
            "192.0.2.1-192.0.2.9",
            "192.0.2.1:80",
            "192.0.2.1:80-90",
            ":80",
            "192.0.2.1:http",
            "192.0.2.1-192.0.2.9:1024-65535",
            "192.0.2.1:80-90/85",
            "192.0.2.1:0",
        ],
        "to-destination" | "to-source" => &[
            "2001:db8::1",
            "2001:db8::1-2001:db8::9",
            "[2001:db8::1]:80",
            "[2001:db8::1]",
            ":80",
            "[2001:db8::1-2001:db8::9]:80-90",
            "[2001:db8::1]:80-90/85",
        ],
        "to-ports" => &["80", "80-90", "http", "1024-65535", "0"],
        "to" if module == "NETMAP" && v4 => {
            &["192.0.2.0/24", "192.0.2.7/24", "192.0.2.1", "10.0.0.0/255.0.0.0"]
        }
        "to" if module == "NETMAP" => &["2001:db8::/32", "2001:db8::1", "2001:db8::7/64"],
        "on-ip" | "gateway" if v4 => &["192.0.2.1", "198.51.100.7", "10.1"],
        "on-ip" | "gateway" => &["2001:db8::1", "fe80::1"],
        "on-port" => &["80", "http", "0", "65535"],
        "oif" | "physdev-in" | "physdev-out" => &["eth0", "ppp+", "br0.5"],
        "set-mss" | "mss" => &["536", "1400", "1:1460", "65495", ":9"],
        "set-class" => &["1:10", "ffff:a", "0:0", "1:10000", "0x1:0x2"],
        "set-tos" | "tos" => {
            &["0x10", "16", "Minimize-Delay", "normal-service", "0x10/0x3f", "255/1"]
        }
        "and-tos" | "or-tos" | "xor-tos" => &["0x10", "255", "0"],
        "dscp" | "set-dscp" => &["0", "10", "0x2e", "63"],
        "dscp-class" | "set-dscp-class" => &["EF", "be", "AF11", "cs7", "af43"],
        "ttl-eq" | "ttl-lt" | "ttl-gt" | "hl-eq" | "hl-lt" | "hl-gt" => &["0", "1", "64", "255"],
        "ttl-set" | "ttl-inc" | "ttl-dec" | "hl-set" | "hl-inc" | "hl-dec" => {
            &["1", "64", "255", "0"]
        }
        "length" => &["5", "5:100", ":100", "100:", "9:5", "65535"],
        "pkt-type" => &["unicast", "BROADCAST", "mcast", "otherhost", "host", "multicast"],
        "src-range" | "dst-range" if v4 => {
            &["192.0.2.1-192.0.2.9", "192.0.2.1", "192.0.2.9-192.0.2.1"]
        }
        "src-range" | "dst-range" => &["2001:db8::1-2001:db8::9", "2001:db8::1"],
        "src-type" | "dst-type" => {
            &["LOCAL", "UNICAST,MULTICAST", "local", "BROADCAST", "UNSPEC", "anycast,unreach"]
        }
        "uid-owner" | "gid-owner" => &["0", "root", "1000", "1000-2000", "5:9", "daemon"],
        "helper" if module == "CT" => &["ftp", "sip"],
        "helper" => &["ftp", "sip", "ftp-21"],
        "cpu" => &["0", "1", "300"],
        "path" => &["/"],
        "cgroup" => &["1", "0x10", "4294967295"],
        "src-group" | "dst-group" => &["0", "1", "default", "0x1/0xf"],
        "realm" => &["1", "cosmos", "0x10/0xff", "0"],
        "espspi" | "ahspi" => &["5", "5:9", "5:", ":9", "0:4294967295", "9:5"],
        "ahlen" => &["4", "0", "10"],
        "dir" => &["in", "out"],
        "pol" => &["ipsec", "none"],
        "reqid" => &["5", "0", "4294967295"],
        "spi" => &["0x10", "5"],
        "proto" => &["esp", "ah", "50", "ipcomp"],
        "mode" if module == "policy" => &["tunnel", "transport"],
        "mode" => &["random", "nth"],
        "probability" => &["0.5", "1", "0", "0.33333", "1e-3", ".25"],
        "every" => &["1", "3", "10"],
        "packet" => &["0", "1", "2"],
        "quota" => &["0", "5", "1000000", "18446744073709551615"],
        _ => last_values(module, option, v4),
    }
}

const HASHLIMITS: &[&str] = &[
    "5/sec",
    "3/minute",
    "10/hour",
    "7/day",
    "60/min",
    "512kb/s",
    "1mb/s",
    "100",
    "9999/sec",
    "2047kb/s",
    "1500kb/s",
    "12345678b/s",
    "123456b/sec",
    "15b/s",
    "40000mb/s",
    "4838/minute",
    "1/day",
    "2000000/min",
];

fn last_values(module: &str, option: &str, v4: bool) -> &'static [&'static str] {
    match option {
        "connlimit-upto" | "connlimit-above" => &["0", "5", "100"],
        "connlimit-mask" if v4 => &["0", "24", "32"],
        "connlimit-mask" => &["0", "64", "128"],
        "connbytes" => &["5", "5:", "5:9", ":9", "0:0"],
        "connbytes-dir" => &["original", "reply", "both"],
        "connbytes-mode" => &["packets", "bytes", "avgpkt"],
        "seconds" => &["60", "1", "0x10"],
        "hitcount" => &["4", "20", "255", "256", "0"],
        "name" => &["ssh", "DEFAULT", "a-b_c"],
        "hashlimit" | "hashlimit-upto" | "hashlimit-above" => HASHLIMITS,
        "hashlimit-burst" => &["1", "5", "9", "1000", "2mb", "5k", "100000000b"],
        "hashlimit-mode" => &["srcip", "srcip,dstport", "dstport,dstip,srcport,srcip", "dstip"],
        "hashlimit-name" => &["h1", "h2", "long-name-of-a-table"],
        "hashlimit-htable-size" | "hashlimit-htable-max" => &["100", "1000", "0"],
        "hashlimit-htable-gcinterval" => &["1000", "500"],
        "hashlimit-htable-expire" => &["1000", "60000", "10000", "3600000"],
        "hashlimit-srcmask" | "hashlimit-dstmask" if v4 => &["24", "32", "0"],
        "hashlimit-srcmask" | "hashlimit-dstmask" => &["64", "128", "0"],
        "hashlimit-rate-interval" => &["1", "5", "10"],
        "datestart" | "datestop" => &[
            "2020",
            "2020-05",
            "2021-02-28",
            "2021-03-04T05",
            "2021-03-04T05:06:07",
            "1970-01-01T00:00:01",
        ],
        "timestart" | "timestop" => &["10:00", "0:0", "23:59:59", "05:30:15", "24:00"],
        "monthdays" => &["1", "1,15,31", "2,30", "32"],
        "weekdays" => {
            &["Mon", "Mon,Tue", "Sa,Su", "1,7", "Tuesday", "mon", "Mon,Tue,Wed,Thu,Fri,Sat,Sun"]
        }
        "string" => &["foo", "two words", "a|b", "ends|", "quote\"d", "back\\slash", "\u{e4}"],
        "hex-string" => &["|00 01|abc", "abc", "|4142|", "\\|00|", "|0a|"],
        "algo" => &["bm", "kmp"],
        "from" | "to" => &["0", "5", "100", "65535"],
        "u32" => &[
            "6&0xFF=1",
            "0>>22&0x3C@0&0xFF=1:5,7",
            "6 & 0xFF = 1 && 4 & 0x3FFF = 0",
            "0=0:0xffffffff",
        ],
        "bytecode" => &["1,6 0 0 1", "4,48 0 0 9,21 0 1 6,6 0 0 1,6 0 0 0"],
        "match-set" | "set" | "add-set" | "del-set" | "map-set" if v4 => &["s", "t", "nope"],
        "match-set" | "set" | "add-set" | "del-set" | "map-set" => &["s6", "nope"],
        "packets-eq" | "packets-lt" | "packets-gt" | "bytes-eq" | "bytes-lt" | "bytes-gt" => {
            &["0", "5", "1000"]
        }
        "timeout" if module == "CT" => &[""],
        "timeout" if module == "SET" => &["5", "0", "300"],
        "zone" | "zone-orig" | "zone-reply" => &["5", "mark", "0", "65535"],
        "ctevents" => &["new", "new,destroy", "mark,helper", "assured"],
        "expevents" => &["new"],
        "type" => &["accept", "DROP", "reject"],
        "queue-balance" => &["0:3", "5:9", "1:65535"],
        "wscale" => &["0", "7", "14"],
        "ecn-tcp-cwr" | "ecn-tcp-ece" => &["0", "1"],
        "ecn-ip-ect" => &["0", "1", "3"],
        _ => &["5", "1", "0"],
    }
}
