/* What Rust needs of DPDK's rte_acl: its rule structure is a macro, and its memory statistics and
 * its constants are in headers. Fields are in the order that rte_acl requires: one byte (protocol),
 * then groups of four. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rte_acl.h>
#include <rte_eal.h>
#include <rte_malloc.h>

struct weir_packet {
	uint8_t proto;
	uint8_t unused[3];
	uint32_t saddr, daddr;
	uint16_t sport, dport;
};

enum { PROTO, SADDR, DADDR, SPORT, DPORT, FIELD_COUNT };

RTE_ACL_RULE_DEF(weir_acl_rule, FIELD_COUNT);

#define FIELD(index, input, kind, member) { \
	.type = RTE_ACL_FIELD_TYPE_##kind, \
	.size = sizeof(((struct weir_packet *)0)->member), \
	.field_index = index, .input_index = input, \
	.offset = offsetof(struct weir_packet, member) }

static const struct rte_acl_field_def fields[FIELD_COUNT] = {
	FIELD(PROTO, 0, BITMASK, proto), FIELD(SADDR, 1, MASK, saddr),
	FIELD(DADDR, 2, MASK, daddr), FIELD(SPORT, 3, RANGE, sport),
	FIELD(DPORT, 3, RANGE, dport),
};

/* Starts the environment on one core, without huge pages, devices and files. */
int weir_acl_start(unsigned int core)
{
	char core_text[16];
	char *argv[] = { "weir", "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf",
		"--log-level=4", "--force-max-simd-bitwidth=512", "-m", "3072", "-l", core_text };

	snprintf(core_text, sizeof(core_text), "%u", core);
	return rte_eal_init(RTE_DIM(argv), argv);
}

/* An empty context for that many rules; NULL if there is no memory. */
struct rte_acl_ctx *weir_acl_create(const char *name, uint32_t rule_count)
{
	struct rte_acl_param param = { .name = name, .socket_id = SOCKET_ID_ANY,
		.rule_size = RTE_ACL_RULE_SZ(FIELD_COUNT), .max_rule_num = rule_count };

	return rte_acl_create(&param);
}

/* saddr, daddr: address and prefix length; sport, dport: first and last; proto: value and mask. */
int weir_acl_add(struct rte_acl_ctx *ctx, uint32_t number, int32_t priority,
	const uint32_t values[FIELD_COUNT][2])
{
	struct weir_acl_rule rule = { .data = { .category_mask = 1, .priority = priority,
		.userdata = number + 1 } };
	int i;

	for (i = 0; i < FIELD_COUNT; i++) {
		rule.field[i].value.u32 = values[i][0];
		rule.field[i].mask_range.u32 = values[i][1];
	}
	return rte_acl_add_rules(ctx, (const struct rte_acl_rule *)&rule, 1);
}

/* Builds the tries; bytes receives what they occupy. */
int weir_acl_build(struct rte_acl_ctx *ctx, size_t *bytes)
{
	struct rte_acl_config config = { .num_categories = 1, .num_fields = FIELD_COUNT };
	struct rte_malloc_socket_stats before = { 0 }, after = { 0 };
	int error, i;

	for (i = 0; i < FIELD_COUNT; i++)
		config.defs[i] = fields[i];
	rte_malloc_get_socket_stats(0, &before);
	error = rte_acl_build(ctx, &config);
	rte_malloc_get_socket_stats(0, &after);
	*bytes = after.heap_allocsz_bytes - before.heap_allocsz_bytes;
	return error;
}
