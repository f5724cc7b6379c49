/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Buckets of equal relative width: 32 for each power of two, so a value is known to 3 %.
 * src/histogram.rs has the same layout.
 */
#ifndef WEIR_HISTOGRAM_H
#define WEIR_HISTOGRAM_H

#define HISTOGRAM_BUCKETS 1024

static __always_inline __u32 highest_bit(__u32 value)
{
	__u32 bit = 0, more;

	more = (value > 0xffff) << 4;
	value >>= more;
	bit |= more;
	more = (value > 0xff) << 3;
	value >>= more;
	bit |= more;
	more = (value > 0xf) << 2;
	value >>= more;
	bit |= more;
	more = (value > 3) << 1;
	value >>= more;
	return bit | more | value >> 1;
}

static __always_inline __u32 histogram_bucket(__u32 value)
{
	__u32 top;

	if (value < 32)
		return value;
	top = highest_bit(value);
	return ((top - 4) * 32 + (value >> (top - 5) & 31)) & (HISTOGRAM_BUCKETS - 1);
}

#endif
