/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Pacing of a program that BPF_PROG_TEST_RUN calls for one page after the other, 64 to a batch: at
 * a rate or as fast as it goes, until its time is over or enough was made. Time is looked at once a
 * batch.
 */
#ifndef WEIR_PACE_H
#define WEIR_PACE_H

/* The kernel's default for live frames (TEST_XDP_BATCH in net/bpf/test_run.c is its largest). */
#define BATCH 64

/* Written before a trial. */
struct pace {
	__u64 duration_ns;
	__u64 rate;     /* a second; 0: as fast as it goes */
	__u64 most;     /* 0: no end but the duration */
	__u64 catch_up; /* may be made at once when late; more is given up */
};

/* Read after it. */
struct paced {
	__u64 runs;
	__u64 made;
	__u64 given_up; /* of the rate, what could not be made in time */
	__u64 broken;   /* pages that were too short to write on */
	__u64 started_ns;
	__u64 now_ns;   /* when this batch began */
	__u64 ended_ns;
	__u64 left;     /* of this batch */
};

/* What of the rate is due after so much time, and neither made nor given up yet. */
static __always_inline __u64 due_after(const struct pace *pace, const struct paced *paced,
				       __u64 elapsed)
{
	__u64 due = elapsed * pace->rate / 1000000000;
	__u64 done = paced->made + paced->given_up;

	return due > done ? due - done : 0;
}

static __always_inline __u64 share_of_batch(const struct pace *pace, struct paced *paced,
					    __u64 elapsed)
{
	__u64 due;

	if (!pace->rate)
		return BATCH;
	due = due_after(pace, paced, elapsed);
	if (due > pace->catch_up) {
		paced->given_up += due - pace->catch_up;
		due = pace->catch_up;
	}
	return due < BATCH ? due : BATCH;
}

static __always_inline int begin_batch(const struct pace *pace, struct paced *paced)
{
	__u64 elapsed;

	paced->now_ns = bpf_ktime_get_ns();
	if (!paced->started_ns)
		paced->started_ns = paced->now_ns;
	elapsed = paced->now_ns - paced->started_ns;
	if (elapsed >= pace->duration_ns || (pace->most && paced->made >= pace->most)) {
		if (pace->rate && elapsed >= pace->duration_ns)
			paced->given_up += due_after(pace, paced, pace->duration_ns);
		paced->ended_ns = paced->now_ns;
		return 0;
	}
	paced->left = share_of_batch(pace, paced, elapsed);
	return 1;
}

/* Whether this page is to be made; who makes it counts it in `made`. */
static __always_inline int is_due(const struct pace *pace, struct paced *paced)
{
	if (paced->ended_ns)
		return 0;
	if (paced->runs++ % BATCH == 0 && !begin_batch(pace, paced))
		return 0;
	if (!paced->left || (pace->most && paced->made >= pace->most))
		return 0;
	paced->left--;
	return 1;
}

#endif
