/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Segments of the small TCP: what every one consists of, the numbers that are computed from it
 * instead of remembered, and how it is written.
 */
#ifndef WEIR_TCP_SEGMENT_H
#define WEIR_TCP_SEGMENT_H

#include "tcp_state.h"

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10

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

#endif
