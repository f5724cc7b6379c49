/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* How the small TCP reads a segment, checks it, and turns it into the answer. */
#ifndef WEIR_TCP_ANSWER_H
#define WEIR_TCP_ANSWER_H

#include "tcp_segment.h"

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

#endif
