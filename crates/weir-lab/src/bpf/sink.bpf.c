/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Counts what arrives behind the firewall: by its tag, per CPU. Everything ends here. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "frame.h"

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
	if (tag.magic != magic)
		tally->foreign++;
	else if (tag.number_and_flag & FRAME_TO_DROP)
		tally->leaked++;
	else
		tally->delivered++;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
