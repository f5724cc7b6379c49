/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Plays frames into a veth device.
 *
 * It is run by BPF_PROG_TEST_RUN with live frames: the kernel calls it for one page after the
 * other, 64 to a batch, and sends each where it says. Pages come back from the firewall with their
 * headers rewritten and are used again, so the whole frame is written each time.
 *
 * Time is looked at once a batch. When a batch ends the kernel handles what was sent, on the same
 * core: without a rate the loop therefore runs exactly as fast as the firewall can follow.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "frame.h"
#include "pace.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRAMES_MAX);
	__type(key, __u32);
	__type(value, struct frame);
} frames SEC(".maps");

/* As many slots as there are frames, in a study with a frame that the table above cannot hold. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct large_frame);
} large_frames SEC(".maps");

/* Which table is played; set before the program is loaded. */
const volatile __u32 is_large = 0;

/* Written before a trial. */
struct control {
	struct pace pace; /* packets */
	__u32 ifindex;
	__u32 frames;
	__u32 shuffled;
} control;

/* Read after it; `random` is seeded before it, and never 0. */
struct outcome {
	struct paced paced; /* packets */
	__u64 to_drop;
	__u32 next;
	__u32 random;
} outcome;

static __always_inline __u32 pick(void)
{
	__u32 number, random = outcome.random;

	if (control.shuffled) {
		/* xorshift32: Marsaglia, Xorshift RNGs, 2003 */
		random ^= random << 13;
		random ^= random >> 17;
		random ^= random << 5;
		outcome.random = random;
		return ((__u64)random * control.frames) >> 32;
	}
	number = outcome.next;
	outcome.next = number + 1 < control.frames ? number + 1 : 0;
	return number;
}

/* Writes a frame over the page; -1 where that fails. */
static __always_inline int write_small(struct xdp_md *ctx, __u32 number)
{
	__u64 *to = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct frame *frame = bpf_map_lookup_elem(&frames, &number);
	int length, at;

	if (!frame || to + FRAME_BYTES / 8 > end)
		return -1;
#pragma clang loop unroll(full)
	for (at = 0; at < FRAME_BYTES / 8; at++)
		to[at] = frame->words[at];
	length = frame->length;
	if (length < FRAME_BYTES && bpf_xdp_adjust_tail(ctx, length - FRAME_BYTES))
		return -1;
	return frame->flags;
}

static __always_inline int write_large(struct xdp_md *ctx, __u32 number)
{
	struct large_frame *frame = bpf_map_lookup_elem(&large_frames, &number);
	__u32 length;

	if (!frame)
		return -1;
	length = frame->length;
	if (length < 1 || length > LARGE_FRAME_BYTES)
		return -1;
	if (bpf_xdp_store_bytes(ctx, 0, frame->bytes, length))
		return -1;
	if (length < LARGE_FRAME_BYTES &&
	    bpf_xdp_adjust_tail(ctx, (int)length - LARGE_FRAME_BYTES))
		return -1;
	return frame->flags;
}

SEC("xdp")
int weir_generate(struct xdp_md *ctx)
{
	__u32 number;
	int flags;

	if (!is_due(&control.pace, &outcome.paced))
		return XDP_DROP;
	number = pick();
	flags = is_large ? write_large(ctx, number) : write_small(ctx, number);
	if (flags < 0) {
		outcome.paced.broken++;
		return XDP_DROP;
	}
	outcome.paced.made++;
	outcome.to_drop += flags & FRAME_TO_DROP;
	return bpf_redirect(control.ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
