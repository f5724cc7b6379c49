//! Rules of the other tables with every match and target that the encoder knows there.

pub const MANGLE_RULES: &[&str] = &[
    "-A FORWARD -j MARK --set-xmark 0x1/0xff",
    "-A FORWARD -j CONNMARK --save-mark --nfmask 0xf --ctmask 0xff",
    "-A FORWARD -j CONNMARK --restore-mark --left-shift-mark 3",
    "-A FORWARD -j CONNMARK --set-mark 5 --right-shift-mark 2",
    "-A FORWARD -j CHECKSUM --checksum-fill",
    "-A PREROUTING -p tcp -j TPROXY --on-port 3129 --on-ip 127.0.0.1 --tproxy-mark 0x1/0x3",
    "-A FORWARD -j CLASSIFY --set-class 0001:0002",
    "-A FORWARD -j TOS --set-tos 0x10/0x3f",
    "-A FORWARD -j DSCP --set-dscp 0x2e",
    "-A FORWARD -j TTL --ttl-dec 1",
    "-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 1400",
    "-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu",
];

pub const RAW_RULES: &[&str] = &[
    "-A PREROUTING -j NOTRACK",
    "-A PREROUTING -j CT --notrack",
    "-A PREROUTING -j CT --ctevents new,destroy,mark --expevents new",
    "-A PREROUTING -j CT --zone 7",
    "-A PREROUTING -j CT --zone-orig mark",
    "-A PREROUTING -j CT --zone-reply 3",
    "-A PREROUTING -j TRACE",
    "-A PREROUTING -m rpfilter --loose --validmark --accept-local --invert -j DROP",
];

pub const NAT_RULES: &[&str] = &[
    "-A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.1-10.0.0.9:80-90",
    "-A PREROUTING -p tcp -j DNAT --to-destination :1000-2000/80",
    "-A POSTROUTING -j SNAT --to-source 192.0.2.1 --persistent",
    "-A POSTROUTING -p udp -j SNAT --to-source 192.0.2.1-192.0.2.3:1024-2048 --random",
    "-A POSTROUTING -j MASQUERADE --random-fully",
    "-A POSTROUTING -p tcp -j MASQUERADE --to-ports 1024-2048",
    "-A PREROUTING -p tcp -j REDIRECT --to-ports 8080",
    "-A PREROUTING -d 192.0.2.0/24 -j NETMAP --to 10.0.0.0/24",
];

pub const NAT_RULES_V6: &[&str] = &[
    "-A PREROUTING -p tcp -j DNAT --to-destination [2001:db8::1]:80",
    "-A POSTROUTING -j SNAT --to-source 2001:db8::1-2001:db8::9",
    "-A POSTROUTING -j MASQUERADE",
    "-A PREROUTING -p tcp -j REDIRECT --to-ports 8080",
    "-A POSTROUTING -j NETMAP --to 2001:db8:1::/64",
];
