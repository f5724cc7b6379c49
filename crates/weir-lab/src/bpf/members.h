/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What each client and each server had of a trial, where there are few enough to tell them apart.
 * Everything is counted where it arrives, so a packet that was lost is nobody's.
 */
#ifndef WEIR_MEMBERS_H
#define WEIR_MEMBERS_H

/* On either side. */
#define MEMBERS 16

struct volume {
	__u64 packets;
	__u64 bytes; /* with Ethernet headers */
};

struct member {
	__u64 connections; /* completed */
	struct volume from;
	struct volume to;
};

/* Clients, then servers. */
struct members {
	struct member all[2 * MEMBERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct members);
} members SEC(".maps");

static __always_inline void note_volume(struct volume *volume, __u32 bytes)
{
	volume->packets++;
	volume->bytes += bytes;
}

/* What one of a side has, by its place; none without one. The barrier keeps clang from asking for
 * both sides' places in one comparison, which the verifier does not follow. */
static __always_inline struct member *member_of(struct members *found, int side, __u64 place)
{
	barrier_var(place);
	return place < MEMBERS ? &found->all[side + place] : 0;
}

/* The two that a packet is between. */
struct pair {
	struct member *client;
	struct member *server;
};

static __always_inline struct pair pair_of(__u32 client, __u32 server)
{
	__u32 zero = 0;
	struct members *found = bpf_map_lookup_elem(&members, &zero);
	struct pair pair = {};

	if (!found)
		return pair;
	pair.client = member_of(found, 0, client);
	pair.server = member_of(found, MEMBERS, server);
	return pair;
}

static __always_inline void note_packet(__u32 client, __u32 server, int is_to_client, __u32 bytes)
{
	struct pair pair = pair_of(client, server);

	if (!pair.client || !pair.server)
		return;
	note_volume(is_to_client ? &pair.client->to : &pair.client->from, bytes);
	note_volume(is_to_client ? &pair.server->from : &pair.server->to, bytes);
}

static __always_inline void note_connection(__u32 client, __u32 server)
{
	struct pair pair = pair_of(client, server);

	if (!pair.client || !pair.server)
		return;
	pair.client->connections++;
	pair.server->connections++;
}

#endif
