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
#include "tcp_answer.h"
#include "tcp_open.h"
#include "tcp_segment.h"
#include "tcp_state.h"

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
