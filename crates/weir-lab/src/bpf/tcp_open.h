/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Which connection the small TCP opens next, and the SYNs of strangers between connections. */
#ifndef WEIR_TCP_OPEN_H
#define WEIR_TCP_OPEN_H

#include "tcp_segment.h"

#define FIRST_PORT 1024
#define PORTS (65536 - FIRST_PORT)

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

#endif
