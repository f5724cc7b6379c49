/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the generator plays and the sink recognises. */
#ifndef WEIR_FRAME_H
#define WEIR_FRAME_H

#define FRAME_BYTES 120
#define LARGE_FRAME_BYTES 1528
#define FRAMES_MAX 65536

/* Bit of `flags`, and of the tag's second word: the ruleset has to drop this frame. */
#define FRAME_TO_DROP 1

/* A slot of the table: two cache lines. */
struct frame {
	__u16 length;
	__u16 flags;
	__u32 reserved;
	__u64 words[FRAME_BYTES / 8];
};

/* A slot of the table for frames that are longer. */
struct large_frame {
	__u16 length;
	__u16 flags;
	__u32 reserved;
	__u8 bytes[LARGE_FRAME_BYTES];
};

/* First word of a probe's tag: no run's magic has these upper bytes but by chance, and the sink
 * asks for its own first. */
#define PROBE_MAGIC 0x6f686365

/* The last bytes of each frame. */
struct tag {
	__u32 magic;
	__u32 number_and_flag;
};

#endif
