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
static __always_inline void note_packet(__u32 client, __u32 server, int is_to_client, __u32 bytes)
{
	__u32 zero = 0;
	struct members *found = bpf_map_lookup_elem(&members, &zero);
	struct member *one = found ? member_of(found, 0, client) : 0;
	struct member *other = found ? member_of(found, MEMBERS, server) : 0;

	if (!one || !other)
		return;
	note_volume(is_to_client ? &one->to : &one->from, bytes);
	note_volume(is_to_client ? &other->from : &other->to, bytes);
}

static __always_inline void note_connection(__u32 client, __u32 server)
{
	__u32 zero = 0;
	struct members *found = bpf_map_lookup_elem(&members, &zero);
	struct member *one = found ? member_of(found, 0, client) : 0;
	struct member *other = found ? member_of(found, MEMBERS, server) : 0;

	if (!one || !other)
		return;
	one->connections++;
	other->connections++;
}

#endif
