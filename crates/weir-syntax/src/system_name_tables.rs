//! Names of protocols and services: from the system's tables, or a short built-in list.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Names that iptables knows without any file (`xtables_chain_protos`).
const XTABLES_CHAIN_PROTOS: [(&str, u8); 11] = [
    ("tcp", 6),
    ("sctp", 132),
    ("udp", 17),
    ("udplite", 136),
    ("icmp", 1),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-mh", 135),
    ("mh", 135),
];

/// Used where there is no `/etc/protocols`: name, number, alias.
const FALLBACK_PROTOCOLS: &str = "icmp 1 ICMP\nigmp 2 IGMP\nggp 3 GGP\nipencap 4 IP-ENCAP\nst 5 ST\n\
    tcp 6 TCP\negp 8 EGP\nigp 9 IGP\npup 12 PUP\nudp 17 UDP\nhmp 20 HMP\nxns-idp 22 XNS-IDP\n\
    rdp 27 RDP\niso-tp4 29 ISO-TP4\ndccp 33 DCCP\nxtp 36 XTP\nddp 37 DDP\nidpr-cmtp 38 IDPR-CMTP\n\
    ipv6 41 IPv6\nipv6-route 43 IPv6-Route\nipv6-frag 44 IPv6-Frag\nidrp 45 IDRP\nrsvp 46 RSVP\n\
    gre 47 GRE\nesp 50 IPSEC-ESP\nah 51 IPSEC-AH\nskip 57 SKIP\nipv6-icmp 58 IPv6-ICMP\n\
    ipv6-nonxt 59 IPv6-NoNxt\nipv6-opts 60 IPv6-Opts\nrspf 73 RSPF\nvmtp 81 VMTP\neigrp 88 EIGRP\n\
    ospf 89 OSPFIGP\nax.25 93 AX.25\nipip 94 IPIP\netherip 97 ETHERIP\nencap 98 ENCAP\npim 103 PIM\n\
    ipcomp 108 IPCOMP\nvrrp 112 VRRP\nl2tp 115 L2TP\nisis 124 ISIS\nsctp 132 SCTP\nfc 133 FC\n\
    mobility-header 135 Mobility-Header\nudplite 136 UDPLite\nmpls-in-ip 137 MPLS-in-IP\nhip 139 HIP\n\
    shim6 140 Shim6\nwesp 141 WESP\nrohc 142 ROHC\n";

/// Used where there is no `/etc/services`: name, port and protocol, aliases.
const FALLBACK_SERVICES: &str = "echo 7/tcp\necho 7/udp\ndiscard 9/tcp\ndiscard 9/udp\ndaytime 13/tcp\n\
    chargen 19/udp\nftp-data 20/tcp\nftp 21/tcp\nssh 22/tcp\ntelnet 23/tcp\nsmtp 25/tcp mail\n\
    time 37/tcp\nwhois 43/tcp\ndomain 53/tcp\ndomain 53/udp\nbootps 67/udp\nbootpc 68/udp\n\
    tftp 69/udp\nfinger 79/tcp\nhttp 80/tcp www\nkerberos 88/tcp\nkerberos 88/udp\npop3 110/tcp\n\
    sunrpc 111/tcp\nsunrpc 111/udp\nauth 113/tcp\nnntp 119/tcp\nntp 123/udp\nnetbios-ns 137/udp\n\
    netbios-dgm 138/udp\nnetbios-ssn 139/tcp\nimap2 143/tcp imap\nsnmp 161/udp\nsnmp 161/tcp\n\
    snmp-trap 162/udp\nbgp 179/tcp\nldap 389/tcp\nldap 389/udp\nhttps 443/tcp\nhttps 443/udp\n\
    microsoft-ds 445/tcp\nisakmp 500/udp\nsyslog 514/udp\nprinter 515/tcp\nsubmission 587/tcp\n\
    ipp 631/tcp\nldaps 636/tcp\nrsync 873/tcp\nimaps 993/tcp\npop3s 995/tcp\nsocks 1080/tcp\n\
    openvpn 1194/udp\nopenvpn 1194/tcp\nl2f 1701/udp\nradius 1812/udp\nradius-acct 1813/udp\n\
    nfs 2049/tcp\nnfs 2049/udp\nmysql 3306/tcp\nsvn 3690/tcp\nsip 5060/tcp\nsip 5060/udp\n\
    sip-tls 5061/tcp\nxmpp-client 5222/tcp\nxmpp-server 5269/tcp\nmdns 5353/udp\n\
    postgresql 5432/tcp\nx11 6000/tcp\nircd 6667/tcp\nhttp-alt 8080/tcp\ngit 9418/tcp\n";

/// Both directions of `/etc/protocols`, first line of a name or number wins.
#[derive(Default)]
struct ProtocolNames {
    number_by_name: HashMap<String, u8>,
    name_by_number: HashMap<u8, String>,
}

/// A service's names without their protocol first, then each with it.
type ServicePorts = HashMap<(String, Option<String>), u16>;

fn split_uncommented_fields(line: &str) -> impl Iterator<Item = &str> {
    line.split('#').next().unwrap_or("").split_ascii_whitespace()
}

fn parse_etc_protocols(text: &str) -> ProtocolNames {
    let mut out = ProtocolNames::default();
    for line in text.lines() {
        let mut words = split_uncommented_fields(line);
        let (Some(name), Some(number)) = (words.next(), words.next()) else { continue };
        let Ok(number) = number.parse::<u8>() else { continue };
        out.name_by_number.entry(number).or_insert_with(|| name.to_owned());
        for word in std::iter::once(name).chain(words) {
            out.number_by_name.entry(word.to_owned()).or_insert(number);
        }
    }
    out
}

fn parse_etc_services(text: &str) -> ServicePorts {
    let mut out = ServicePorts::new();
    for line in text.lines() {
        let mut words = split_uncommented_fields(line);
        let (Some(name), Some(port)) = (words.next(), words.next()) else { continue };
        let Some((port, protocol)) = port.split_once('/') else { continue };
        let Ok(port) = port.parse::<u16>() else { continue };
        for word in std::iter::once(name).chain(words) {
            out.entry((word.to_owned(), None)).or_insert(port);
            out.entry((word.to_owned(), Some(protocol.to_owned()))).or_insert(port);
        }
    }
    out
}

fn system_protocols() -> &'static ProtocolNames {
    static PROTOCOL_TABLE: OnceLock<ProtocolNames> = OnceLock::new();
    PROTOCOL_TABLE.get_or_init(|| match std::fs::read_to_string("/etc/protocols") {
        Ok(text) => parse_etc_protocols(&text),
        Err(_) => parse_etc_protocols(FALLBACK_PROTOCOLS),
    })
}

/// The number of a protocol's name; `all` is 0.
pub(crate) fn protocol_number(name: &str) -> Option<u8> {
    if name == "all" {
        return Some(0);
    }
    XTABLES_CHAIN_PROTOS
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, number)| *number)
        .or_else(|| system_protocols().number_by_name.get(name).copied())
}

/// The number that the host's `/etc/protocols` has for a name, of which it tells the case.
pub(crate) fn protocol_number_of_host_table(name: &str) -> Option<u8> {
    system_protocols().number_by_name.get(name).copied()
}

/// The name that `iptables-save` prints for a protocol, or `None`: it prints the number then.
pub(crate) fn protocol_name(number: u8) -> Option<&'static str> {
    match number {
        6 => Some("tcp"),
        17 => Some("udp"),
        1 => Some("icmp"),
        _ => system_protocols().name_by_number.get(&number).map(String::as_str).or_else(|| {
            XTABLES_CHAIN_PROTOS.iter().find(|(_, n)| *n == number).map(|(name, _)| *name)
        }),
    }
}

/// The port of a service's name under a protocol, or under any.
pub(crate) fn service_port(name: &str, protocol: Option<&str>) -> Option<u16> {
    static SERVICE_TABLE: OnceLock<ServicePorts> = OnceLock::new();
    let table = SERVICE_TABLE.get_or_init(|| match std::fs::read_to_string("/etc/services") {
        Ok(text) => parse_etc_services(&text),
        Err(_) => parse_etc_services(FALLBACK_SERVICES),
    });
    table.get(&(name.to_owned(), protocol.map(str::to_owned))).copied()
}

/// The number of an account's name in `/etc/passwd` or `/etc/group`.
pub(crate) fn uid_or_gid_of_name(file: &str, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// The rows of one of iproute2's tables (`group`, `rt_realms`): number and name.
fn read_iproute_table(table: &str) -> Vec<(u32, String)> {
    let text = std::fs::read_to_string(format!("/etc/iproute2/{table}")).unwrap_or_default();
    let row = |line: &str| {
        let mut words = split_uncommented_fields(line);
        let number = crate::strtoul::parse_number_in_range(words.next()?, 0, u32::MAX.into())?;
        Some((number as u32, words.next()?.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// The number of a name in one of iproute2's tables.
pub(crate) fn iproute_number_of_name(table: &str, name: &str) -> Option<u32> {
    read_iproute_table(table).into_iter().find(|(_, n)| n == name).map(|(number, _)| number)
}

/// The name of a number in one of iproute2's tables.
pub(crate) fn iproute_name_of_number(table: &str, number: u32) -> Option<String> {
    read_iproute_table(table).into_iter().find(|(n, _)| *n == number).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fallback_tables_have_well_known_names() {
        assert_eq!(parse_etc_protocols(FALLBACK_PROTOCOLS).name_by_number[&47], "gre");
        let services = parse_etc_services(FALLBACK_SERVICES);
        assert_eq!(services[&("www".to_owned(), Some("tcp".to_owned()))], 80);
        assert_eq!(services[&("domain".to_owned(), None)], 53);
        assert!(!services.contains_key(&("ssh".to_owned(), Some("udp".to_owned()))));
    }

    #[test]
    fn names_that_iptables_knows_by_itself_need_no_file() {
        assert_eq!(protocol_number("all"), Some(0));
        assert_eq!(protocol_number("mh"), Some(135));
        assert_eq!(protocol_number("no-such"), None);
    }
}
