/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Counts what arrives behind the firewall: by its tag, per CPU. Frames end here. Probes are
 * answered: echoes by this program, a stream of TCP by the kernel's own sockets.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "frame.h"

/* linux/icmp.h takes the C library's headers with it. */
#define ICMP_ECHO 8
#define ICMP_ECHOREPLY 0

struct icmphdr {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 rest;
};

struct tally {
	__u64 delivered;
	__u64 leaked;  /* arrived although the ruleset drops it */
	__u64 foreign; /* no tag, or another one */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

/* The tag's first word in this trial. */
__u32 magic;
/* Where a stream goes, in network order; 0 where there is none. */
__be32 stream_address;

/* Turns an echo request of ICMP, or a datagram, into its answer; 0 where it is neither. The sums
 * over addresses and ports stay as they are when both ends change places. */
static __always_inline int turn(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ether = data;
	struct iphdr *ip = data + ETH_HLEN;
	struct icmphdr *icmp = (void *)(ip + 1);
	struct udphdr *udp = (void *)(ip + 1);
	__u8 mac[ETH_ALEN];
	__be32 address;
	__be16 port;
	__u32 sum;

	if ((void *)(icmp + 1) > end || ether->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5)
		return 0;
	if (ip->protocol == IPPROTO_ICMP && icmp->type == ICMP_ECHO) {
		icmp->type = ICMP_ECHOREPLY;
		/* The sum loses 8 in its upper byte (RFC 1624). */
		sum = bpf_ntohs(icmp->checksum) + (ICMP_ECHO << 8);
		icmp->checksum = bpf_htons((sum & 0xffff) + (sum >> 16));
	} else if (ip->protocol == IPPROTO_UDP) {
		port = udp->source;
		udp->source = udp->dest;
		udp->dest = port;
	} else {
		return 0;
	}
	__builtin_memcpy(mac, ether->h_dest, ETH_ALEN);
	__builtin_memcpy(ether->h_dest, ether->h_source, ETH_ALEN);
	__builtin_memcpy(ether->h_source, mac, ETH_ALEN);
	address = ip->saddr;
	ip->saddr = ip->daddr;
	ip->daddr = address;
	return 1;
}

/* A segment for the address of the kernel's own sockets here. */
static __always_inline int is_streamed(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ether = data;
	struct iphdr *ip = data + ETH_HLEN;

	return stream_address && (void *)(ip + 1) <= end &&
	       ether->h_proto == bpf_htons(ETH_P_IP) && ip->protocol == IPPROTO_TCP &&
	       ip->daddr == stream_address;
}

SEC("xdp")
int weir_sink(struct xdp_md *ctx)
{
	__u32 zero = 0, length = ctx->data_end - ctx->data;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
	struct tag tag = {};

	if (!tally)
		return XDP_ABORTED;
	/* A read past the end fails and leaves the tag empty; magic is never 0. */
	if (length > sizeof(tag))
		bpf_xdp_load_bytes(ctx, length - sizeof(tag), &tag, sizeof(tag));
	if (tag.magic != magic) {
		if (tag.magic == PROBE_MAGIC && turn(ctx))
			/* Not XDP_TX: that never wakes a veth peer that has GRO alone. */
			return bpf_redirect(ctx->ingress_ifindex, 0);
		if (is_streamed(ctx))
			return XDP_PASS;
		tally->foreign++;
	} else if (tag.number_and_flag & FRAME_TO_DROP)
		tally->leaked++;
	else
		tally->delivered++;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
