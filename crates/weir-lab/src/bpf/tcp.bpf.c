/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A small TCP without memory: clients before the firewall, servers behind it.
 *
 * weir_open sends first packets, run by BPF_PROG_TEST_RUN with live frames as the generator is.
 * weir_client and weir_server answer what arrives on their devices (weir_both what arrives on a
 * device that clients and servers have in common), each from the packet alone:
 * the first sequence number of either side is a hash of its view of the connection (RFC 4987,
 * section 3.6: SYN cookies), so every later packet can be checked against it, and what was
 * reached so far is seen from the numbers. The time a connection was opened travels as its TCP
 * timestamp and comes back with every answer.
 *
 * A packet that is not as it has to be is counted and ends there: nothing is sent twice.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "histogram.h"
#include "members.h"
#include "pace.h"

#define FIRST_PORT 1024
#define PORTS (65536 - FIRST_PORT)
/* Unit of the timestamps: 2^6 ns. */
#define TICK_SHIFT 6

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10

/* How a connection ends. */
#define CLOSE_FIN 0
#define CLOSE_RESET 1
#define CLOSE_NEVER 2

/* Text of both payloads in words of eight bytes, and the word that holds the token. */
#define REQUEST_WORDS 5
#define REQUEST_TOKEN 1
#define REPLY_WORDS 6
#define REPLY_TOKEN 5
#define REQUEST_BYTES (REQUEST_WORDS * 8)
#define REPLY_BYTES (REPLY_WORDS * 8)

static const char request[REQUEST_BYTES] __attribute__((aligned(8))) =
	{ "GET /id=--------" " HTTP/1.1\r\nHost: web\r\n\r" "\n" };
static const char reply[REPLY_BYTES] __attribute__((aligned(8))) =
	{ "HTTP/1.1 200 OK\r\nContent-Length:   8\r\n\r\n" "-------" "-" };

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

struct options {
	__be32 kind; /* NOP, NOP, timestamps, length 10 */
	__be32 value;
	__be32 echo;
};

/* Bytes of a packet without payload, and where its parts begin. */
#define IP_AT ETH_HLEN
#define TCP_AT (IP_AT + sizeof(struct iphdr))
#define OPTIONS_AT (TCP_AT + sizeof(struct tcphdr))
#define PAYLOAD_AT (OPTIONS_AT + sizeof(struct options))

/* What is read of a packet, and what the answer to it is made from. */
struct segment {
	__be32 saddr, daddr;
	__be16 sport, dport;
	__u32 seq, ack;
	__be32 value, echo;
	__u32 flags;
	__u32 payload;
};

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

static __always_inline __u32 hash(__u64 addresses, __u64 ports_and_seq)
{
	__u64 x = addresses * 0x9e3779b97f4a7c15ULL ^
		  (ports_and_seq + control.secret) * 0xc2b2ae3d27d4eb4fULL;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	return x >> 32;
}

static __always_inline __u32 client_isn(__be32 client, __be32 server, __be16 port)
{
	return hash((__u64)client << 32 | server, port);
}

static __always_inline __u32 server_isn(__be32 client, __be32 server, __be16 port, __u32 seq)
{
	return hash((__u64)client << 32 | server, (__u64)seq << 16 | port | 1ULL << 63);
}

/* Eight hexadecimal digits of a number, as one word of text. */
static __always_inline __u64 token_of(__u32 number)
{
	__u64 x = number, tens;

	x = (x | x << 16) & 0x0000ffff0000ffffULL;
	x = (x | x << 8) & 0x00ff00ff00ff00ffULL;
	x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fULL;
	tens = (x + 0x0606060606060606ULL) >> 4 & 0x0101010101010101ULL;
	return x + 0x3030303030303030ULL + tens * ('a' - '0' - 10);
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline void write_headers(void *to, const struct segment *out, __u32 payload)
{
	struct ethhdr *ether = to;
	struct iphdr *ip = to + IP_AT;
	struct tcphdr *tcp = to + TCP_AT;
	struct options *options = to + OPTIONS_AT;
	const __u32 tcp_bytes = sizeof(struct tcphdr) + sizeof(struct options);
	__u64 pseudo = (__u64)out->saddr + out->daddr + bpf_htons(IPPROTO_TCP) +
		       bpf_htons(tcp_bytes + payload);
	__u16 *words = (void *)ip;

	pseudo = (pseudo & 0xffffffff) + (pseudo >> 32);
	pseudo = (pseudo & 0xffffffff) + (pseudo >> 32);
	ether->h_proto = bpf_htons(ETH_P_IP);
	words[0] = bpf_htons(0x4500);
	ip->tot_len = bpf_htons(sizeof(struct iphdr) + tcp_bytes + payload);
	ip->id = (__u16)control.secret;
	ip->frag_off = bpf_htons(0x4000);
	words[4] = bpf_htons(64 << 8 | IPPROTO_TCP);
	ip->check = 0;
	ip->saddr = out->saddr;
	ip->daddr = out->daddr;
	ip->check = fold((__u32)bpf_csum_diff(0, 0, (__be32 *)ip, sizeof(*ip), 0));
	tcp->source = out->sport;
	tcp->dest = out->dport;
	tcp->seq = bpf_htonl(out->seq);
	tcp->ack_seq = bpf_htonl(out->ack);
	words = (void *)tcp;
	words[6] = bpf_htons((tcp_bytes / 4) << 12 | out->flags);
	tcp->window = 0xffff;
	tcp->check = 0;
	tcp->urg_ptr = 0;
	options->kind = bpf_htonl(0x0101080a);
	options->value = out->value;
	options->echo = out->echo;
	tcp->check = fold((__u32)bpf_csum_diff(0, 0, (__be32 *)tcp, tcp_bytes + payload,
						  (__u32)pseudo));
}

/* ---- opening ---- */

/* Every client opens one connection after the other, to every server, from every port. */
static __always_inline void next_tuple(struct segment *out)
{
	out->saddr = bpf_htonl(control.client_base + outcome.next_client);
	out->daddr = bpf_htonl(control.server_base + outcome.next_server);
	out->sport = bpf_htons(FIRST_PORT + outcome.next_port);
	out->dport = bpf_htons(control.port);
	if (++outcome.next_client < control.clients)
		return;
	outcome.next_client = 0;
	if (++outcome.next_server < control.servers)
		return;
	outcome.next_server = 0;
	if (++outcome.next_port >= PORTS)
		outcome.next_port = 0;
}

/*
 * A SYN that nobody follows up, from any source of the flood and any port. Between two connections
 * there are as many of them as the study says, so that both are evenly interleaved. 0 where the
 * next connection is due.
 */
static __always_inline int next_of_flood(struct segment *out)
{
	__u32 random = outcome.random;

	if (!outcome.until_connection) {
		outcome.until_connection = control.flood;
		return 0;
	}
	outcome.until_connection--;
	/* xorshift32: Marsaglia, Xorshift RNGs, 2003 */
	random ^= random << 13;
	random ^= random >> 17;
	random ^= random << 5;
	outcome.random = random;
	out->saddr = bpf_htonl(control.flood_base + (((__u64)random * control.flood_sources) >> 32));
	out->daddr = bpf_htonl(control.server_base + random % control.servers);
	out->sport = random;
	out->dport = bpf_htons(control.port);
	out->seq = random;
	outcome.flood++;
	return 1;
}

SEC("xdp")
int weir_open(struct xdp_md *ctx)
{
	void *to = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ether = to;
	struct segment out = {};

	if (!is_due(&control.pace, &outcome.paced))
		return XDP_DROP;
	if (to + PAYLOAD_AT > end) {
		outcome.paced.broken++;
		return XDP_DROP;
	}
	if (!next_of_flood(&out)) {
		next_tuple(&out);
		out.seq = client_isn(out.saddr, out.daddr, out.sport);
	}
	out.flags = SYN;
	out.value = bpf_htonl(outcome.paced.now_ns >> TICK_SHIFT);
	__builtin_memcpy(ether->h_dest, control.firewall_mac, 6);
	__builtin_memcpy(ether->h_source, control.client_mac, 6);
	write_headers(to, &out, 0);
	outcome.paced.made++;
	return bpf_redirect(control.ifindex, 0);
}

/* ---- answering ---- */

/* Reads a packet; 0 where it is none of this trial's. */
static __always_inline int read_segment(struct xdp_md *ctx, struct tally *tally,
					struct segment *in)
{
	void *from = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ether = from;
	struct iphdr *ip = from + IP_AT;
	struct tcphdr *tcp = from + TCP_AT;
	struct options *options = from + OPTIONS_AT;
	__u32 length;

	if (from + TCP_AT > end || ether->h_proto != bpf_htons(ETH_P_IP)) {
		tally->foreign++;
		return 0;
	}
	if (ip->protocol == IPPROTO_ICMP) {
		tally->icmp++;
		return 0;
	}
	if (from + OPTIONS_AT > end || ip->protocol != IPPROTO_TCP) {
		tally->foreign++;
		return 0;
	}
	in->flags = bpf_ntohs(((__u16 *)tcp)[6]) & 0x3f;
	if (ip->id != (__u16)control.secret) {
		/* A firewall's own RST has an id of its own. */
		if (in->flags & RST)
			tally->reset++;
		else
			tally->foreign++;
		return 0;
	}
	length = bpf_ntohs(ip->tot_len);
	tally->received++;
	tally->bytes += length + IP_AT;
	if (from + PAYLOAD_AT > end || tcp->doff != 8 ||
	    options->kind != bpf_htonl(0x0101080a) || length < PAYLOAD_AT - IP_AT) {
		tally->invalid++;
		return 0;
	}
	in->saddr = ip->saddr;
	in->daddr = ip->daddr;
	in->sport = tcp->source;
	in->dport = tcp->dest;
	in->seq = bpf_ntohl(tcp->seq);
	in->ack = bpf_ntohl(tcp->ack_seq);
	in->value = options->value;
	in->echo = options->echo;
	in->payload = length - (PAYLOAD_AT - IP_AT);
	return 1;
}

/*
 * Whether both checksums are right, as they arrived. A firewall that changes addresses has to mend
 * them, and nothing else here would notice if it did not.
 */
static __always_inline int is_sound(struct xdp_md *ctx, const struct segment *in)
{
	void *from = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = from + IP_AT;
	__u64 sum = (__u64)in->saddr + in->daddr + bpf_htons(IPPROTO_TCP) +
		    bpf_htons(PAYLOAD_AT - TCP_AT + in->payload);
	__be32 *words = from + TCP_AT;
	int at;

	if (from + PAYLOAD_AT > end ||
	    fold((__u32)bpf_csum_diff(0, 0, (__be32 *)ip, sizeof(*ip), 0)))
		return 0;
	/* Payloads are whole words, and none is longer than these. */
	for (at = 0; at < (int)(PAYLOAD_AT - TCP_AT + REPLY_BYTES) / 4; at++) {
		if (at * 4 >= PAYLOAD_AT - TCP_AT + in->payload)
			break;
		if ((void *)(words + at + 1) > end)
			return 0;
		sum += words[at];
	}
	return !fold(sum);
}

/* Whether the payload is `text` with the token of `number` in its place. */
static __always_inline int holds(struct xdp_md *ctx, const char *text, const int words,
				 const int token, __u32 number)
{
	__u64 *payload = (void *)(long)ctx->data + PAYLOAD_AT, wrong = 0;
	const __u64 *wanted = (const void *)text;
	int at;

	if ((void *)(payload + words) > (void *)(long)ctx->data_end)
		return 0;
#pragma clang loop unroll(full)
	for (at = 0; at < words; at++)
		wrong |= payload[at] ^ (at == token ? token_of(number) : wanted[at]);
	return !wrong;
}

/* Turns the packet at hand into the answer. */
static __always_inline int answer(struct xdp_md *ctx, struct tally *tally,
				  const struct segment *in, struct segment *out,
				  const char *text, const int words, const int token,
				  __u32 number)
{
	const int length = PAYLOAD_AT + words * 8;
	const __u64 *wanted = (const void *)text;
	struct ethhdr *ether;
	__u64 *payload;
	__u8 mac[6];
	int more, at;

	more = length - (int)(ctx->data_end - ctx->data);
	if (more && bpf_xdp_adjust_tail(ctx, more)) {
		tally->invalid++;
		return XDP_DROP;
	}
	ether = (void *)(long)ctx->data;
	payload = (void *)ether + PAYLOAD_AT;
	if ((void *)(payload + words) > (void *)(long)ctx->data_end) {
		tally->invalid++;
		return XDP_DROP;
	}
	__builtin_memcpy(mac, ether->h_dest, 6);
	__builtin_memcpy(ether->h_dest, ether->h_source, 6);
	__builtin_memcpy(ether->h_source, mac, 6);
#pragma clang loop unroll(full)
	for (at = 0; at < words; at++)
		payload[at] = at == token ? token_of(number) : wanted[at];
	out->saddr = in->daddr;
	out->daddr = in->saddr;
	out->sport = in->dport;
	out->dport = in->sport;
	write_headers(ether, out, words * 8);
	tally->sent++;
	/* Not XDP_TX: that never wakes a veth peer that has GRO alone (veth_xdp_flush). */
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

static __always_inline void note_time(__be32 opened, __u32 which)
{
	__u32 ticks = (__u32)(bpf_ktime_get_ns() >> TICK_SHIFT) - bpf_ntohl(opened);
	__u32 zero = 0, bucket = which * HISTOGRAM_BUCKETS + histogram_bucket(ticks);
	struct times *all = bpf_map_lookup_elem(&times, &zero);

	if (all)
		all->counts[bucket & (2 * HISTOGRAM_BUCKETS - 1)]++;
}

static __always_inline int as_client(struct xdp_md *ctx)
{
	__u32 side = CLIENT, isn;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &side);
	struct segment in, out = {};

	if (!tally)
		return XDP_ABORTED;
	if (!read_segment(ctx, tally, &in))
		return XDP_DROP;
	if (control.verify && !is_sound(ctx, &in)) {
		tally->invalid++;
		return XDP_DROP;
	}
	if (control.told_apart)
		note_packet(client_of(in.daddr), server_of(in.saddr), 1, PAYLOAD_AT + in.payload);
	isn = client_isn(in.daddr, in.saddr, in.dport);
	/* Its clock is the time at which the connection was opened, so that it comes back. */
	out.value = in.echo;
	out.echo = in.value;
	out.seq = in.ack;
	if (in.flags == (SYN | ACK) && in.ack == isn + 1 && !in.payload) {
		tally->opened++;
		note_time(in.echo, 0);
		out.ack = in.seq + 1;
		if (control.close == CLOSE_NEVER) {
			out.flags = ACK;
			return answer(ctx, tally, &in, &out, request, 0, -1, 0);
		}
		out.flags = PSH | ACK;
		return answer(ctx, tally, &in, &out, request, REQUEST_WORDS, REQUEST_TOKEN, isn);
	}
	if (in.flags == (PSH | ACK) && in.ack == isn + 1 + REQUEST_BYTES &&
	    in.payload == REPLY_BYTES &&
	    holds(ctx, reply, REPLY_WORDS, REPLY_TOKEN, in.seq - 1)) {
		tally->data++;
		out.ack = in.seq + REPLY_BYTES;
		out.flags = control.close == CLOSE_RESET ? RST | ACK : FIN | ACK;
		return answer(ctx, tally, &in, &out, request, 0, -1, 0);
	}
	if (in.flags == (FIN | ACK) && in.ack == isn + 2 + REQUEST_BYTES && !in.payload) {
		tally->closed++;
		note_time(in.echo, 1);
		out.ack = in.seq + 1;
		out.flags = ACK;
		return answer(ctx, tally, &in, &out, request, 0, -1, 0);
	}
	tally->invalid++;
	return XDP_DROP;
}

/* Whether the packet acknowledges exactly `bytes` of ours, `sent` bytes after its own start. */
static __always_inline int follows(const struct segment *in, __u32 sent, __u32 bytes)
{
	return in->ack == server_isn(in->saddr, in->daddr, in->sport, in->seq - sent) + bytes;
}

/* The server's last packet: the connection is complete. */
static __always_inline int complete(struct tally *tally, const struct segment *in)
{
	tally->ended++;
	if (control.told_apart)
		note_connection(client_of(in->saddr), server_of(in->daddr));
	return XDP_DROP;
}

static __always_inline int as_server(struct xdp_md *ctx)
{
	__u32 side = SERVER;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &side);
	struct segment in, out = {};

	if (!tally)
		return XDP_ABORTED;
	if (!read_segment(ctx, tally, &in))
		return XDP_DROP;
	if (control.verify && !is_sound(ctx, &in)) {
		tally->invalid++;
		return XDP_DROP;
	}
	if (control.told_apart)
		note_packet(client_of(in.saddr), server_of(in.daddr), 0, PAYLOAD_AT + in.payload);
	out.value = in.value;
	out.echo = in.value;
	out.seq = in.ack;
	if (in.flags == SYN && !in.payload) {
		if (bpf_ntohl(in.saddr) - control.flood_base < control.flood_sources) {
			tally->flood++;
			return XDP_DROP;
		}
		tally->opened++;
		if (client_of(in.saddr) >= control.clients)
			tally->translated++;
		out.seq = server_isn(in.saddr, in.daddr, in.sport, in.seq);
		out.ack = in.seq + 1;
		out.flags = SYN | ACK;
		return answer(ctx, tally, &in, &out, reply, 0, -1, 0);
	}
	if (in.flags == (PSH | ACK) && in.payload == REQUEST_BYTES && follows(&in, 1, 1) &&
	    holds(ctx, request, REQUEST_WORDS, REQUEST_TOKEN, in.seq - 1)) {
		tally->data++;
		out.ack = in.seq + REQUEST_BYTES;
		out.flags = PSH | ACK;
		return answer(ctx, tally, &in, &out, reply, REPLY_WORDS, REPLY_TOKEN, in.ack - 1);
	}
	if (in.flags == (FIN | ACK) && !in.payload &&
	    follows(&in, 1 + REQUEST_BYTES, 1 + REPLY_BYTES)) {
		tally->closed++;
		out.ack = in.seq + 1;
		out.flags = FIN | ACK;
		return answer(ctx, tally, &in, &out, reply, 0, -1, 0);
	}
	if (in.flags == (RST | ACK) && control.close == CLOSE_RESET &&
	    follows(&in, 1 + REQUEST_BYTES, 1 + REPLY_BYTES))
		return complete(tally, &in);
	if (in.flags == ACK && !in.payload &&
	    (control.close == CLOSE_NEVER ? follows(&in, 1, 1)
					  : follows(&in, 2 + REQUEST_BYTES, 2 + REPLY_BYTES)))
		return complete(tally, &in);
	tally->invalid++;
	return XDP_DROP;
}

SEC("xdp")
int weir_client(struct xdp_md *ctx)
{
	return as_client(ctx);
}

SEC("xdp")
int weir_server(struct xdp_md *ctx)
{
	return as_server(ctx);
}

/* Clients and servers share the device: who is asked is told by the address. */
SEC("xdp")
int weir_both(struct xdp_md *ctx)
{
	void *from = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = from + IP_AT;

	if (from + TCP_AT <= end && server_of(ip->daddr) < control.servers)
		return as_server(ctx);
	return as_client(ctx);
}

/* For a device that takes redirected packets without GRO. */
SEC("xdp")
int weir_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
