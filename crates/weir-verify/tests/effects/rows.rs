//! The measured rules: every match and target that weir reads, with all of its options.

use weir_model::{Family, Hook, TableName};
use weir_verify::rule_effect_tester::RuleToMeasure;

/// Sets that the rules name.
pub fn sets(family: Family) -> String {
    let (inet, addr, net) = match family {
        Family::V4 => ("inet", "192.0.2.1", "198.51.100.0/24"),
        Family::V6 => ("inet6", "2001:db8::1", "2001:db8:ff::/48"),
    };
    format!(
        "create addrs hash:ip family {inet} counters\nadd addrs {addr} packets 0 bytes 0\n\
         create nets hash:net family {inet}\nadd nets {net}\n\
         create pairs hash:ip,port family {inet}\nadd pairs {addr},tcp:1024\n\
         create ports bitmap:port range 0-65535\nadd ports 80\n\
         create marks hash:ip family {inet} skbinfo\n\
         add marks {addr} skbmark 0x6/0xffffffff skbprio 1:6 skbqueue 1\n\
         create grows hash:ip family {inet} timeout 60\n\
         create shrinks hash:ip family {inet}\nadd shrinks {addr}\n"
    )
}

const PORTED: [&str; 5] = ["tcp", "udp", "sctp", "dccp", "udplite"];

/// Matches of fields and of what the host knows, without conntrack.
pub fn matches(family: Family) -> Vec<RuleToMeasure> {
    let mut rows = Rows { family, out: Vec::new() };
    rows.base();
    rows.headers();
    rows.fields();
    rows.host();
    rows.stateful();
    rows.out
}

/// Matches that read the connection.
pub fn connection_matches(family: Family) -> Vec<RuleToMeasure> {
    let mut rows = Rows { family, out: Vec::new() };
    rows.connections();
    rows.out
}

struct Rows {
    family: Family,
    out: Vec<RuleToMeasure>,
}

impl Rows {
    fn v4(&self) -> bool {
        self.family == Family::V4
    }

    fn at(&mut self, module: &'static str, table: TableName, hook: Hook, rule: impl Into<String>) {
        self.out.push(RuleToMeasure { module, rule: rule.into(), table, hook });
    }

    /// In mangle FORWARD.
    fn add(&mut self, module: &'static str, rule: impl Into<String>) {
        self.at(module, TableName::Mangle, Hook::Forward, rule);
    }

    /// With `!` before the option and without.
    fn both(&mut self, module: &'static str, before: &str, option: &str) {
        self.add(module, format!("{before} {option}"));
        self.add(module, format!("{before} ! {option}"));
    }

    fn base(&mut self) {
        let (s, d) = match self.family {
            Family::V4 => ("192.0.2.0/255.255.255.3", "198.51.100.7"),
            Family::V6 => ("2001:db8::/ffff:ffff::3", "2001:db8:ff::7"),
        };
        for option in
            [format!("-s {s}"), format!("-d {d}"), "-i weir-in".into(), "-o weir-+".into()]
        {
            self.both("", "", &option);
        }
        for proto in ["tcp", "50", "51", "44", "59"] {
            self.both("", "", &format!("-p {proto}"));
        }
        if self.v4() {
            self.both("", "", "-f");
        }
        self.add("comment", "-m comment --comment x");
    }

    fn headers(&mut self) {
        for proto in PORTED {
            let before = format!("-p {proto} -m {proto}");
            if proto != "udplite" {
                self.add(proto, &*before);
                for option in ["--sport 1024", "--dport 80", "--dport 0:1023", "--sport 0:65535"] {
                    self.both(proto, &before, option);
                }
                self.add(proto, format!("{before} ! --sport 1 ! --dport 80"));
            }
            let before = format!("-p {proto} -m multiport");
            for option in ["--sports 22,1024", "--dports 0:79,80", "--ports 80,65535"] {
                self.both("multiport", &before, option);
            }
        }
        for flags in ["SYN,RST SYN", "ALL NONE", "ACK ACK", "ALL ALL"] {
            self.both("tcp", "-p tcp -m tcp", &format!("--tcp-flags {flags}"));
        }
        for option in [2, 3, 1, 255] {
            self.both("tcp", "-p tcp -m tcp", &format!("--tcp-option {option}"));
        }
        self.add("tcp", "-p tcp -m tcp --dport 80 --tcp-option 2");
        for chunks in
            ["any DATA", "all DATA", "only DATA", "any INIT,SACK", "any DATA:Be", "all ALL"]
        {
            self.both("sctp", "-p sctp -m sctp", &format!("--chunk-types {chunks}"));
        }
        self.both("dccp", "-p dccp -m dccp", "--dccp-types REQUEST,RESET");
        self.both("dccp", "-p dccp -m dccp", "--dccp-types INVALID");
        self.both("dccp", "-p dccp -m dccp", "--dccp-option 1");
        self.both("dccp", "-p dccp -m dccp", "--dccp-option 40");
        let (icmp, module, option, types) = match self.family {
            Family::V4 => ("icmp", "icmp", "icmp-type", ["8", "3/4", "any", "0/0"]),
            Family::V6 => ("ipv6-icmp", "icmp6", "icmpv6-type", ["128", "1/4", "255", "135/0"]),
        };
        for kind in types {
            self.both(module, &format!("-p {icmp} -m {module}"), &format!("--{option} {kind}"));
        }
        self.add("esp", "-p esp -m esp");
        self.both("esp", "-p esp -m esp", "--espspi 500");
        self.both("esp", "-p esp -m esp", "--espspi 0:4294967295");
        let before = if self.v4() { "-p ah -m ah" } else { "-m ah" };
        self.add("ah", before);
        self.both("ah", before, "--ahspi 500");
        self.both("ah", before, "--ahspi 0:4294967295");
        if !self.v4() {
            self.both("ah", before, "--ahlen 12");
            self.add("ah", format!("{before} --ahres"));
        }
        for mss in ["1460", "512:1500", "0:65535"] {
            self.both("tcpmss", "-p tcp -m tcpmss", &format!("--mss {mss}"));
        }
        self.both("ecn", "-p tcp -m ecn", "--ecn-tcp-cwr");
        self.both("ecn", "-p tcp -m ecn", "--ecn-tcp-ece");
        self.both("ecn", "-m ecn", "--ecn-ip-ect 1");
        self.both("ecn", "-m ecn", "--ecn-ip-ect 0");
    }

    fn fields(&mut self) {
        let (src, dst) = match self.family {
            Family::V4 => ("192.0.2.0-192.0.2.2", "198.51.100.6-198.51.100.8"),
            Family::V6 => ("2001:db8::-2001:db8::2", "2001:db8:ff::6-2001:db8:ff::8"),
        };
        self.both("iprange", "-m iprange", &format!("--src-range {src}"));
        self.both("iprange", "-m iprange", &format!("--dst-range {dst}"));
        for hook in [Hook::Prerouting, Hook::Forward] {
            for not in ["", "! "] {
                let rule = format!("-m mac {not}--mac-source 02:00:00:00:00:05");
                self.at("mac", TableName::Mangle, hook, rule);
            }
        }
        for mark in ["0", "1", "0/0xff"] {
            self.both("mark", "-m mark", &format!("--mark {mark}"));
        }
        for length in ["40", "0:44", "100:65535", "32:43"] {
            self.both("length", "-m length", &format!("--length {length}"));
        }
        let ttl = if self.v4() { "ttl" } else { "hl" };
        for (op, value) in [("eq", 63), ("lt", 10), ("gt", 64), ("lt", 64)] {
            self.add(ttl, format!("-m {ttl} --{ttl}-{op} {value}"));
        }
        self.add(ttl, format!("-m {ttl} ! --{ttl}-eq 10"));
        self.both("dscp", "-m dscp", "--dscp 0x2e");
        self.both("dscp", "-m dscp", "--dscp 0");
        self.both("dscp", "-m dscp", "--dscp-class EF");
        self.both("tos", "-m tos", "--tos 0x10/0x3f");
        self.both("tos", "-m tos", "--tos 0/0xff");
        for kind in ["unicast", "broadcast", "multicast"] {
            for not in ["", "! "] {
                let rule = format!("-m pkttype {not}--pkt-type {kind}");
                self.at("pkttype", TableName::Mangle, Hook::Prerouting, rule);
            }
        }
        for words in ["addrs src", "addrs dst", "nets dst", "pairs src,src", "pairs dst,dst"] {
            self.both("set", "-m set", &format!("--match-set {words}"));
        }
        self.both("set", "-m set", "--match-set ports dst");
        self.both("set", "-m set", "--match-set ports src");
        self.add("set", "-m set --match-set nets dst --return-nomatch");
        self.add("set", "-m set --match-set nets dst ! --update-subcounters");
        for test in ["packets-eq", "packets-lt", "bytes-eq", "bytes-lt", "bytes-gt"] {
            self.add("set", format!("-m set --match-set addrs src ! --update-counters --{test} 3"));
        }
        self.add("set", "-m set --match-set addrs src ! --update-counters");
        self.add("set", "-m set --match-set addrs src ! --update-counters --packets-gt 3");
    }

    fn host(&mut self) {
        use Hook::{Postrouting, Prerouting};
        use TableName::{Mangle, Raw};
        for side in ["src", "dst"] {
            for kind in ["UNICAST", "LOCAL", "MULTICAST"] {
                self.both("addrtype", "-m addrtype", &format!("--{side}-type {kind}"));
            }
        }
        self.add("addrtype", "-m addrtype --dst-type UNICAST --limit-iface-out");
        let rule = "-m addrtype --src-type UNICAST --limit-iface-in";
        self.at("addrtype", Mangle, Prerouting, rule);
        self.at("owner", Mangle, Postrouting, "-m owner --gid-owner 0 --suppl-groups");
        for option in ["--uid-owner 0", "--gid-owner 0", "--socket-exists"] {
            for not in ["", "! "] {
                self.at("owner", Mangle, Postrouting, format!("-m owner {not}{option}"));
            }
        }
        for option in ["--physdev-in weir-in", "--physdev-is-in", "--physdev-is-bridged"] {
            self.both("physdev", "-m physdev", option);
        }
        for option in ["--physdev-out weir-out", "--physdev-is-out"] {
            self.at("physdev", Mangle, Postrouting, format!("-m physdev {option}"));
        }
        for option in ["", " --loose", " --validmark", " --accept-local", " --invert"] {
            self.at("rpfilter", Raw, Prerouting, format!("-m rpfilter{option}"));
        }
        for option in ["--src-group 0", "--dst-group 0"] {
            self.both("devgroup", "-m devgroup", option);
        }
        self.both("cpu", "-m cpu", "--cpu 0");
        self.at("cgroup", Mangle, Postrouting, "-m cgroup --cgroup 1");
        self.at("cgroup", Mangle, Postrouting, "-m cgroup --path /");
        if self.v4() {
            self.both("realm", "-m realm", "--realm 0");
        }
        self.add("policy", "-m policy --dir in --pol none");
        self.add("policy", "-m policy --dir out --pol ipsec --strict --reqid 1");
        self.add("policy", "-m policy --dir in --pol ipsec --proto esp --mode tunnel --spi 5");
        let (from, to) = match self.family {
            Family::V4 => ("192.0.2.1", "198.51.100.7"),
            Family::V6 => ("2001:db8::1", "2001:db8:ff::7"),
        };
        self.add(
            "policy",
            format!(
                "-m policy --dir in --pol ipsec --strict --mode tunnel --tunnel-src {from} \
                 --tunnel-dst {to} --next --reqid 2"
            ),
        );
        self.add("time", "-m time --timestart 22:00 --timestop 06:00 --weekdays Mon --contiguous");
        self.add("time", "-m time --monthdays 1,2,3 --datestop 2030-01-01T00:00:00");
        self.add("time", "-m time --timestart 00:00 --timestop 23:59:59 --kerneltz");
        self.add("time", "-m time --weekdays Mon,Tue,Wed,Thu,Fri,Sat,Sun");
        self.add("time", "-m time --datestart 2030-01-01");
        self.both("string", "-m string --algo bm", "--string aaaa");
        self.both("string", "-m string --algo kmp --from 28 --to 60 --icase", "--string AAAA");
        self.both("string", "-m string --algo bm", "--hex-string |01020304|");
        self.both("u32", "-m u32", "--u32 \"8&0xff=0\"");
        self.both("u32", "-m u32", "--u32 \"100&0xff=0x61\"");
        self.add("bpf", "-m bpf --bytecode \"1,6 0 0 1\"");
        self.add("bpf", "-m bpf --bytecode \"2,48 0 0 9,22 0 0 0\"");
        // The ancillary load of a random number: another answer each time.
        let random = "4,32 0 0 4294963256,53 0 1 2147483648,6 0 0 1,6 0 0 0";
        self.add("bpf", format!("-m bpf --bytecode \"{random}\""));
    }

    fn stateful(&mut self) {
        for (i, mode) in ["srcip", "dstip", "srcport", "dstport", "srcip,dstip,srcport,dstport"]
            .into_iter()
            .enumerate()
        {
            let name = format!("--hashlimit-mode {mode} --hashlimit-name weir-m{i}");
            let upto = "--hashlimit-upto 10000/sec --hashlimit-burst 10000";
            self.add("hashlimit", format!("-m hashlimit {upto} {name}u"));
            let above = "--hashlimit-above 10000/sec --hashlimit-burst 10000";
            self.add("hashlimit", format!("-m hashlimit {above} {name}a"));
        }
        self.add("hashlimit", "-m hashlimit --hashlimit-upto 1kb/s --hashlimit-name weir-b");
        self.add(
            "hashlimit",
            "-m hashlimit --hashlimit-above 10/s --hashlimit-rate-match \
             --hashlimit-rate-interval 5 --hashlimit-mode srcip --hashlimit-srcmask 16 \
             --hashlimit-name weir-r",
        );
        self.add(
            "hashlimit",
            "-m hashlimit --hashlimit-upto 5/hour --hashlimit-mode srcip,dstip \
             --hashlimit-dstmask 24 --hashlimit-htable-size 1 --hashlimit-htable-max 1 \
             --hashlimit-htable-gcinterval 2000 --hashlimit-htable-expire 30000 \
             --hashlimit-name weir-h",
        );
        self.add("limit", "-m limit --limit 10000/sec --limit-burst 100");
        self.add("limit", "-m limit --limit 1/day --limit-burst 1");
        self.both("quota", "-m quota", "--quota 100000000");
        self.add("quota", "-m quota --quota 100");
        self.both("statistic", "-m statistic --mode random", "--probability 0.5");
        self.add("statistic", "-m statistic --mode nth --every 2 --packet 1");
        self.add("recent", "-m recent --set --name weir-a --rsource");
        self.add("recent", "-m recent ! --set --name weir-b --rdest");
        self.add("recent", "-m recent --rcheck --seconds 60 --hitcount 2 --name weir-a --rsource");
        self.add("recent", "-m recent --update --seconds 60 --rttl --name weir-a --rsource");
        self.add("recent", "-m recent --remove --name weir-c --rsource");
        let mask = if self.v4() { "255.255.255.0" } else { "ffff:ffff::" };
        self.add("recent", format!("-m recent --set --name weir-d --mask {mask} --rsource"));
        self.add("recent", "-m recent --rcheck --seconds 1 --reap --name weir-a --rsource");
    }

    fn connections(&mut self) {
        for states in ["NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED", "NEW,RELATED"] {
            self.both("state", "-m state", &format!("--state {states}"));
            self.both("conntrack", "-m conntrack", &format!("--ctstate {states}"));
        }
        self.both("conntrack", "-m conntrack", "--ctstate SNAT,DNAT");
        let (s, d) = match self.family {
            Family::V4 => ("192.0.2.1", "198.51.100.7"),
            Family::V6 => ("2001:db8::1", "2001:db8:ff::7"),
        };
        for option in [
            "--ctproto 6".to_owned(),
            format!("--ctorigsrc {s}"),
            format!("--ctorigdst {d}"),
            format!("--ctreplsrc {d}"),
            format!("--ctrepldst {s}"),
            "--ctorigsrcport 1024".to_owned(),
            "--ctorigdstport 80".to_owned(),
            "--ctreplsrcport 80".to_owned(),
            "--ctrepldstport 1024".to_owned(),
            "--ctstatus NONE".to_owned(),
            "--ctstatus SEEN_REPLY,ASSURED".to_owned(),
            "--ctexpire 1:1000".to_owned(),
        ] {
            self.both("conntrack", "-m conntrack", &option);
        }
        self.add("conntrack", "-m conntrack --ctdir ORIGINAL");
        self.add("conntrack", "-m conntrack --ctdir REPLY");
        self.add("conntrack", "-m conntrack --ctstate NEW --ctproto 6 --ctdir ORIGINAL");
        self.both("connmark", "-m connmark", "--mark 0");
        self.both("connmark", "-m connmark", "--mark 1/0xff");
        for option in ["--connlimit-upto 10000", "--connlimit-above 10000"] {
            self.add(
                "connlimit",
                format!("-m connlimit {option} --connlimit-mask 0 --connlimit-saddr"),
            );
        }
        self.add("connlimit", "-m connlimit --connlimit-upto 10000 --connlimit-daddr");
        for dir in ["original", "reply", "both"] {
            for mode in ["packets", "bytes", "avgpkt"] {
                let rest = format!("--connbytes-dir {dir} --connbytes-mode {mode}");
                self.both("connbytes", "-m connbytes", &format!("--connbytes 0:10 {rest}"));
            }
        }
        self.both("helper", "-m helper", "--helper ftp");
        for option in ["", " --transparent", " --nowildcard", " --restore-skmark"] {
            let rule = format!("-m socket{option}");
            self.at("socket", TableName::Mangle, Hook::Prerouting, rule);
        }
    }
}
