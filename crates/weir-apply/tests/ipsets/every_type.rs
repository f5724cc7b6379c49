//! Texts of sets of every type and option.

/// One or more sets each, as `ipset restore` takes them.
pub const SET_TEXTS: &[&str] = &[
    "create s hash:ip\nadd s 192.0.2.1\nadd s 192.0.2.2\n",
    "create s hash:ip family inet6 hashsize 2048 maxelem 100000\nadd s 2001:db8::1\n",
    "create s hash:ip netmask 24\nadd s 192.0.2.0\nadd s 198.51.100.0\n",
    "create s hash:ip timeout 0 counters comment\n\
     add s 192.0.2.1 timeout 2000000 packets 5 bytes 400 comment \"one host\"\nadd s 192.0.2.2\n",
    "create s hash:ip skbinfo\nadd s 192.0.2.1 skbmark 0x5 skbprio 1:10 skbqueue 3\n\
     add s 192.0.2.2 skbmark 0x5/0xff\nadd s 192.0.2.3 skbprio ab:cd\n",
    "create s hash:ip forceadd bucketsize 8\nadd s 192.0.2.1\n",
    "create s hash:net\nadd s 192.0.2.0/24\nadd s 192.0.2.128/25 nomatch\nadd s 198.51.100.7\n",
    "create s hash:net family inet6 counters\nadd s 2001:db8::/32 packets 1 bytes 2\n\
     add s 2001:db8:1::/48 nomatch\n",
    "create s hash:ip,port\nadd s 192.0.2.1,tcp:80\nadd s 192.0.2.1,udp:53\n\
     add s 192.0.2.1,icmp:echo-request\nadd s 192.0.2.1,gre:0\n",
    "create s hash:ip,port family inet6\nadd s 2001:db8::1,icmpv6:1/4\nadd s 2001:db8::1,tcp:22\n",
    "create s hash:ip,port,ip\nadd s 192.0.2.1,tcp:80,198.51.100.1\n",
    "create s hash:ip,port,net\nadd s 192.0.2.1,tcp:80,198.51.100.0/24\n\
     add s 192.0.2.1,tcp:80,198.51.100.0/25 nomatch\n",
    "create s hash:ip,mark markmask 0xff00\nadd s 192.0.2.1,0x1200\n",
    "create s hash:ip,mark\nadd s 192.0.2.1,0x12\n",
    "create s hash:ip,mac\nadd s 192.0.2.1,02:00:5E:10:00:01\n",
    "create s hash:mac comment\nadd s 02:00:5E:10:00:01 comment \"host of office\"\n",
    "create s hash:net,iface\nadd s 192.0.2.0/24,eth0\nadd s 0.0.0.0/0,physdev:eth1\n\
     add s 198.51.100.0/24,eth wildcard\n",
    "create s hash:net,net\nadd s 192.0.2.0/24,198.51.100.0/25\n",
    "create s hash:net,port\nadd s 192.0.2.0/24,tcp:443\nadd s 192.0.2.0/25,tcp:443 nomatch\n",
    "create s hash:net,port,net family inet6\nadd s 2001:db8::/32,tcp:80,2001:db8:1::/48\n",
    "create s bitmap:ip range 192.0.2.0-192.0.2.255 counters\nadd s 192.0.2.7 packets 3 bytes 4\n",
    "create s bitmap:ip range 192.0.0.0-192.0.255.255 netmask 24 timeout 600\nadd s 192.0.2.0 timeout 0\n",
    "create s bitmap:ip,mac range 192.0.2.0-192.0.2.255\nadd s 192.0.2.7,02:00:5E:10:00:01\n\
     add s 192.0.2.8\n",
    "create s bitmap:port range 0-1023 comment\nadd s 22 comment \"ssh\"\nadd s 80\n",
    "create a hash:ip\nadd a 192.0.2.1\ncreate b hash:net\nadd b 192.0.2.0/24\n\
     create s list:set size 8\nadd s b\nadd s a\n",
];
