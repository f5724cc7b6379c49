//! Values for the options of the tables, good and bad.

use weir_model::Family;

/// Words of which one is taken.
type Values = &'static [&'static str];

pub const ADDRESSES_V4: &[&str] = &[
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
pub const BAD_ADDRESSES_V4: &[&str] = &[
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
pub const ADDRESSES_V6: &[&str] = &[
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
pub const BAD_ADDRESSES_V6: &[&str] = &[
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

/// Values that hardly any option takes.
pub const BAD: [&str; 24] = [
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

/// Values that the option takes, some of them only at times.
pub fn good_values(module: &str, option: &str, family: Family) -> Values {
    let v4 = family == Family::V4;
    transport_values(option)
        .or_else(|| network_values(option, v4))
        .or_else(|| conntrack_values(module, option, v4))
        .or_else(|| mark_values(module, option, v4))
        .or_else(|| target_values(module, option, v4))
        .or_else(|| host_values(option))
        .or_else(|| policy_values(module, option))
        .or_else(|| rate_values(option, v4))
        .or_else(|| content_values(option))
        .or_else(|| set_values(module, option, v4))
        .unwrap_or(&["5", "1", "0"])
}

/// Fields of transport headers.
fn transport_values(option: &str) -> Option<Values> {
    let values: Values = match option {
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
        "set-mss" | "mss" => &["536", "1400", "1:1460", "65495", ":9"],
        "espspi" | "ahspi" => &["5", "5:9", "5:", ":9", "0:4294967295", "9:5"],
        "ahlen" => &["4", "0", "10"],
        "wscale" => &["0", "7", "14"],
        "ecn-tcp-cwr" | "ecn-tcp-ece" => &["0", "1"],
        _ => return None,
    };
    Some(values)
}

/// Fields of network headers, and of the frame.
fn network_values(option: &str, v4: bool) -> Option<Values> {
    let values: Values = match option {
        "mac-source" => &["00:11:22:aa:BB:cc", "1:2:3:4:5:6", "ff:ff:ff:ff:ff:ff", "0:0:0:0:0:0"],
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
        "ecn-ip-ect" => &["0", "1", "3"],
        _ => return None,
    };
    Some(values)
}

/// Connections.
fn conntrack_values(module: &str, option: &str, v4: bool) -> Option<Values> {
    let values: Values = match option {
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
        "helper" if module == "CT" => &["ftp", "sip"],
        "helper" => &["ftp", "sip", "ftp-21"],
        "connbytes" => &["5", "5:", "5:9", ":9", "0:0"],
        "connbytes-dir" => &["original", "reply", "both"],
        "connbytes-mode" => &["packets", "bytes", "avgpkt"],
        "timeout" if module == "CT" => &[""],
        "zone" | "zone-orig" | "zone-reply" => &["5", "mark", "0", "65535"],
        "ctevents" => &["new", "new,destroy", "mark,helper", "assured"],
        "expevents" => &["new"],
        _ => return None,
    };
    Some(values)
}

/// Marks and masks.
fn mark_values(module: &str, option: &str, v4: bool) -> Option<Values> {
    let values: Values = match option {
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
        _ => return None,
    };
    Some(values)
}

/// What targets are told: logs, queues, refusals, translated addresses.
fn target_values(module: &str, option: &str, v4: bool) -> Option<Values> {
    let values: Values = match option {
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
        "set-class" => &["1:10", "ffff:a", "0:0", "1:10000", "0x1:0x2"],
        "type" => &["accept", "DROP", "reject"],
        "queue-balance" => &["0:3", "5:9", "1:65535"],
        _ => return None,
    };
    Some(values)
}

/// The host: devices, owners, routing, cores.
fn host_values(option: &str) -> Option<Values> {
    let values: Values = match option {
        "oif" | "physdev-in" | "physdev-out" => &["eth0", "ppp+", "br0.5"],
        "uid-owner" | "gid-owner" => &["0", "root", "1000", "1000-2000", "5:9", "daemon"],
        "cpu" => &["0", "1", "300"],
        "path" => &["/"],
        "cgroup" => &["1", "0x10", "4294967295"],
        "src-group" | "dst-group" => &["0", "1", "default", "0x1/0xf"],
        "realm" => &["1", "cosmos", "0x10/0xff", "0"],
        _ => return None,
    };
    Some(values)
}

/// IPsec.
fn policy_values(module: &str, option: &str) -> Option<Values> {
    let values: Values = match option {
        "dir" => &["in", "out"],
        "pol" => &["ipsec", "none"],
        "reqid" => &["5", "0", "4294967295"],
        "spi" => &["0x10", "5"],
        "proto" => &["esp", "ah", "50", "ipcomp"],
        "mode" if module == "policy" => &["tunnel", "transport"],
        _ => return None,
    };
    Some(values)
}

/// How much, how often, how many.
fn rate_values(option: &str, v4: bool) -> Option<Values> {
    let values: Values = match option {
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
        "mode" => &["random", "nth"],
        "probability" => &["0.5", "1", "0", "0.33333", "1e-3", ".25"],
        "every" => &["1", "3", "10"],
        "packet" => &["0", "1", "2"],
        "quota" => &["0", "5", "1000000", "18446744073709551615"],
        "connlimit-upto" | "connlimit-above" => &["0", "5", "100"],
        "connlimit-mask" if v4 => &["0", "24", "32"],
        "connlimit-mask" => &["0", "64", "128"],
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
        _ => return None,
    };
    Some(values)
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

/// Comments, times, payloads and programs.
fn content_values(option: &str) -> Option<Values> {
    let values: Values = match option {
        "comment" => {
            &["plain", "two words", "it's", "a \"quote\"", "back\\slash", "", "$(x) <b>&", "-j"]
        }
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
        _ => return None,
    };
    Some(values)
}

/// Sets.
fn set_values(module: &str, option: &str, v4: bool) -> Option<Values> {
    let values: Values = match option {
        "match-set" | "set" | "add-set" | "del-set" | "map-set" if v4 => &["s", "t", "nope"],
        "match-set" | "set" | "add-set" | "del-set" | "map-set" => &["s6", "nope"],
        "packets-eq" | "packets-lt" | "packets-gt" | "bytes-eq" | "bytes-lt" | "bytes-gt" => {
            &["0", "5", "1000"]
        }
        "timeout" if module == "SET" => &["5", "0", "300"],
        _ => return None,
    };
    Some(values)
}
