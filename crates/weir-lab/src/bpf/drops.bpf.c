/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Counts why the kernel frees packets of one network namespace.
 *
 * Attached in validation trials only: it costs time for each packet that is dropped.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define REASONS 512

/* Only what is read; libbpf finds the places of these fields in the running kernel. */
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));
struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	possible_net_t nd_net;
} __attribute__((preserve_access_index));
struct sk_buff {
	struct net_device *dev;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} reasons SEC(".maps");

/* Inode of the namespace. */
__u32 inode;

SEC("tp_btf/kfree_skb")
int BPF_PROG(weir_drops, struct sk_buff *skb, void *location, __u32 reason)
{
	struct net_device *dev = skb->dev;
	__u64 *count;

	if (!dev || dev->nd_net.net->ns.inum != inode)
		return 0;
	/* Reasons of other subsystems have their number in the upper half. */
	if (reason >= REASONS)
		reason = REASONS - 1;
	count = bpf_map_lookup_elem(&reasons, &reason);
	if (count)
		(*count)++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
