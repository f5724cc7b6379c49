/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the small TCP is told before a trial and what it counts: globals and maps, which
 * src/program/tcp.rs writes and reads.
 */
#ifndef WEIR_TCP_STATE_H
#define WEIR_TCP_STATE_H

#include "histogram.h"
#include "pace.h"

/* Unit of the timestamps: 2^6 ns. */
#define TICK_SHIFT 6

/* How a connection ends. */
#define CLOSE_FIN 0
#define CLOSE_RESET 1
#define CLOSE_NEVER 2

/* Written before a trial. */
struct control {
	struct pace pace; /* connections */
	__u32 ifindex;
	__u32 clients;         /* how many addresses take part */
	__u32 servers;
	__u32 client_base;     /* the first one, host order */
	__u32 server_base;
	__u32 secret;          /* another one in each trial: what is late is a stranger */
	__u32 close;
	__u32 verify;          /* checksums of all that arrives */
	__u32 told_apart;      /* clients and servers are few: each has totals of its own */
	__u32 flood;           /* SYNs of strangers for each connection */
	__u32 flood_base;      /* their first address */
	__u32 flood_sources;
	__u16 port;
	__u8 client_mac[6];    /* of the device that SYNs leave from */
	__u8 firewall_mac[6];
} control;

/*
 * Read after it. The last three are the next connection, and stay from trial to trial; `random` is
 * seeded before it, and never 0.
 */
struct outcome {
	struct paced paced; /* connections opened, and SYNs of the flood */
	__u64 flood;        /* SYNs of the flood */
	__u32 until_connection;
	__u32 random;
	__u32 next_client;
	__u32 next_server;
	__u32 next_port;
} outcome;

/* What one side saw and did. */
struct tally {
	__u64 received; /* packets of this trial, whatever their worth */
	__u64 sent;
	__u64 opened;   /* valid SYN at the server, SYN+ACK at the client */
	__u64 data;     /* valid request, reply */
	__u64 closed;   /* valid FIN (or RST) at the server, FIN+ACK at the client */
	__u64 ended;    /* valid last ACK, at the server */
	__u64 invalid;  /* of this trial, but not as it has to be */
	__u64 reset;    /* RST that no one of us sent */
	__u64 icmp;
	__u64 foreign;
	__u64 translated; /* valid SYN of another address than a client's, at the server */
	__u64 bytes;      /* of what was received, with Ethernet headers */
	__u64 flood;      /* SYNs of the flood, at the server; they are not answered */
};

#define CLIENT 0
#define SERVER 1

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

/* Time until SYN+ACK arrived, then until FIN+ACK did: two histograms behind one another. */
struct times {
	__u64 counts[2 * HISTOGRAM_BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct times);
} times SEC(".maps");

/* Place of a client among the clients, and of a server among the servers; theirs alone are below
 * how many there are. */
static __always_inline __u32 client_of(__be32 address)
{
	return bpf_ntohl(address) - control.client_base;
}

static __always_inline __u32 server_of(__be32 address)
{
	return bpf_ntohl(address) - control.server_base;
}

#endif
