//! Filter rules for packets to and from the router itself: its own services.

use crate::table_text::TableText;

/// Rules for packets to and from the router.
pub(super) fn add_router_host_rules(table: &mut TableText) {
    table.append_rules(
        "INPUT",
        &[
            "-i lo -j ACCEPT",
            "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            "-m conntrack --ctstate INVALID -j DROP",
            "-i eth0.+ -p udp -m udp --sport 68 --dport 67 -j ACCEPT",
            "-i eth0.+ -j spoof",
            "-p icmp -m icmp --icmp-type 8 -m limit --limit 50/sec --limit-burst 100 -j ACCEPT",
            "-p icmp -m icmp --icmp-type 3 -j ACCEPT",
            "-p icmp -m icmp --icmp-type 11 -j ACCEPT",
            "-i eth0.+ -p udp -m udp --dport 53 -j ACCEPT",
            "-i eth0.+ -p tcp -m tcp --dport 53 -j ACCEPT",
            "-s 10.255.0.0/24 -i eth1 -j admin",
            "-s 203.0.113.1/32 -i eth1 -p tcp -m tcp --dport 179 -j ACCEPT",
            "-i eth1 -p tcp -m tcp --dport 113 -j REJECT --reject-with tcp-reset",
            "-j log_drop",
        ],
    );
    table.append_rules(
        "admin",
        &[
            "-p tcp -m tcp --dport 22 -m conntrack --ctstate NEW -j ACCEPT",
            "-p udp -m multiport --dports 123,161 -j ACCEPT",
            "-p tcp -m multiport --dports 5666,9100:9110 -j ACCEPT",
        ],
    );
    table.append_rule("OUTPUT", "-m conntrack --ctstate INVALID -j DROP");
}
