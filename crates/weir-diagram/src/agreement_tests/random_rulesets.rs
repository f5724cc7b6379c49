//! Random rulesets for the comparison of diagrams with the interpreter.

use weir_testkit::random_ruleset::TestRng;

/// Tests that a rule may have.
pub(super) const RANDOM_MATCHES: [&str; 39] = [
    "-s 10.0.0.0/8",
    "! -s 10.1.0.0/16",
    "-d 192.0.2.0/30",
    "-d 192.0.2.1",
    "-s 10.0.1.0/255.0.255.0",
    "-p tcp -m tcp --dport 80",
    "-p tcp -m tcp ! --dport 80:90",
    "-p tcp -m tcp --tcp-flags SYN,ACK SYN",
    "-p tcp",
    "! -p udp",
    "-p udp -m udp --sport 53",
    "-p udp -m multiport --ports 53,80",
    "-p tcp -m multiport ! --dports 22,80:81",
    "-p icmp -m icmp --icmp-type 8",
    "-p icmp -m icmp --icmp-type any",
    "-f",
    "! -f",
    "-m conntrack --ctstate NEW,UNTRACKED",
    "-m conntrack --ctstate DNAT",
    "-m conntrack --ctstate NEW --ctproto 6",
    "-m mark --mark 0x1/0x3",
    "-m connmark ! --mark 0x2",
    "-m ttl --ttl-lt 5",
    "-m tos --tos 0x8/0x3f",
    "-m limit --limit 5/sec",
    "-m statistic --mode nth --every 3 --packet 0",
    "-m addrtype --dst-type LOCAL",
    "-m set --match-set s src",
    "-m set ! --match-set unknown dst,dst",
    "-m length --length 40:60",
    "-p esp -m esp --espspi 1",
    "-p ah -m ah --ahspi 1:5",
    "-p tcp -m tcp --tcp-option 2",
    "-p tcp -m tcpmss --mss 1:500",
    "-m hashlimit --hashlimit-upto 5/sec --hashlimit-name h --hashlimit-mode srcport",
    "-m unknown --option",
    "-m set --match-set t src",
    "-p sctp -m sctp --chunk-types any DATA",
    "-p sctp -m sctp ! --chunk-types any DATA",
];

/// Targets by table: filter, mangle, raw, nat before routing.
const RANDOM_TARGETS_BY_TABLE: [&[&str]; 4] = [
    &[
        "-j ACCEPT",
        "-j DROP",
        "-j RETURN",
        "",
        "-j LOG",
        "-j REJECT",
        "-j NFQUEUE",
        "-j SET --add-set t src",
        "-p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 500",
    ],
    &[
        "-j MARK --set-xmark 0x1/0x3",
        "-j MARK --set-xmark 0x2/0x0",
        "-j TOS --set-tos 0x8/0x3f",
        "-j TTL --ttl-dec 3",
        "-j TTL --ttl-set 4",
        "-j CONNMARK --save-mark",
        "-j CONNMARK --restore-mark --nfmask 0xf --ctmask 0xf",
        "-j DSCP --set-dscp 0x02",
        "-j CLASSIFY --set-class 1:2",
        "-j SET --map-set s src --map-mark",
        "-p tcp -j ECN --ecn-tcp-remove",
        "-j ACCEPT",
        "-j DROP",
        "-j RETURN",
        "-j LOG",
    ],
    &["-j NOTRACK", "-j CT --zone 1", "-j CT --notrack", "-j ACCEPT", "-j DROP", "-j RETURN", ""],
    &[
        "-p tcp -j DNAT --to-destination 192.0.2.1:80",
        "-j DNAT --to-destination 192.0.2.0-192.0.2.3",
        "-p tcp -j REDIRECT --to-ports 81",
        "-p udp -j REDIRECT --to-ports 50-60",
        "-j NETMAP --to 192.0.2.0/30",
        "-j ACCEPT",
        "-j RETURN",
        "",
    ],
];

/// A random ruleset of every kind of test and target: four tables, each with two user chains, jumps
/// and gotos.
pub(crate) fn generate_random_ruleset(seed: u64) -> String {
    let mut rng = TestRng::new(seed);
    let mut text = String::new();
    let tables: [(&str, &[&str]); 4] = [
        ("filter", &["INPUT", "FORWARD", "OUTPUT"]),
        ("mangle", &["PREROUTING", "FORWARD", "POSTROUTING"]),
        ("raw", &["PREROUTING", "OUTPUT"]),
        ("nat", &["PREROUTING"]),
    ];
    for (number, (table, bases)) in tables.into_iter().enumerate() {
        text += &format!("*{table}\n");
        for base in bases {
            // DROP is refused in nat.
            let policy = if table == "filter" { rng.pick(&["ACCEPT", "DROP"]) } else { "ACCEPT" };
            text += &format!(":{base} {policy} [0:0]\n");
        }
        text += ":a - [0:0]\n:b - [0:0]\n";
        for (chain, below) in
            bases.iter().map(|b| (*b, &["a", "b"][..])).chain([("a", &["b"][..]), ("b", &[])])
        {
            for _ in 0..rng.number_below(4) {
                text += &generate_random_rule(&mut rng, chain, below, number);
            }
        }
        text += "COMMIT\n";
    }
    text
}

fn generate_random_rule(rng: &mut TestRng, chain: &str, below: &[&str], table: usize) -> String {
    let target = match below.is_empty() || rng.number_below(3) > 0 {
        true => rng.pick(RANDOM_TARGETS_BY_TABLE[table]).to_owned(),
        false => format!("{} {}", rng.pick(&["-j", "-j", "-g"]), rng.pick(below)),
    };
    // One protocol a rule.
    let mut tests: Vec<&str> = Vec::new();
    for _ in 0..rng.number_below(3) {
        let test = rng.pick(&RANDOM_MATCHES);
        let is_proto = |t: &str| t.contains("-p ");
        let again = is_proto(test) && (is_proto(&target) || tests.iter().any(|t| is_proto(t)));
        if !again && !tests.contains(&test) {
            tests.push(test);
        }
    }
    format!("-A {chain} {} {target}\n", tests.join(" "))
}

/// The sets that random rules name.
pub(crate) const IPSET_SAVE_TEXT: &str = "create s hash:net family inet\nadd s 10.0.0.0/9\nadd s 10.1.0.0/16 nomatch\n\
                    create t hash:ip family inet\nadd t 10.0.0.1\n";
