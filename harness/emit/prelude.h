// The part of each emitted file that is the same: small functions that wait, compare and print.
#ifndef QPEXAM_HARNESS_EMIT_PRELUDE_H_
#define QPEXAM_HARNESS_EMIT_PRELUDE_H_

namespace qpexam {

inline constexpr const char kPrelude[] = R"C(#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 500 /* how long something may take to happen, and nothing is waited for */
#define UNUSED __attribute__((unused))

static int differences;
static struct ibv_device *chosen;

static void verdict(const char *what, int same)
{
	printf("%s%s\n", what, same ? "" : "   <-- DIFFERS");
	differences += !same;
}

/* An errno, or what a verb returned. */
UNUSED static void returned(const char *what, int seen, int expected)
{
	char line[200];

	if (seen == expected)
		snprintf(line, sizeof(line), "%s: %d", what, seen);
	else
		snprintf(line, sizeof(line), "%s: expected %d, observed %d", what, expected, seen);
	/* Which errno it is, is left to the implementation. */
	verdict(line, (seen == 0) == (expected == 0));
}

/* An object that the rest needs. */
UNUSED static void made(const char *what, const void *object)
{
	char line[200];

	snprintf(line, sizeof(line), "%s: %s", what, object ? "made" : strerror(errno));
	verdict(line, object != NULL);
	if (!object)
		exit(1);
}

/* One that the reference refuses to make. */
UNUSED static void refused(const char *what, const void *object)
{
	char line[200];

	snprintf(line, sizeof(line), "%s: expected a refusal, observed %s", what, object ? "success" : "one");
	verdict(line, object == NULL);
}

struct want {
	uint64_t wr_id;
	struct ibv_qp *qp; /* NULL: any */
	enum ibv_wc_status status;
	int opcode;    /* -1: not looked at */
	long byte_len; /* -1: not looked at */
	unsigned int wc_flags;
	uint32_t imm;
};

static int is_wanted(const struct ibv_wc *wc, const struct want *w)
{
	if (wc->wr_id != w->wr_id || wc->status != w->status)
		return 0;
	if (wc->status != IBV_WC_SUCCESS)
		return 1;
	return (w->opcode < 0 || (int)wc->opcode == w->opcode) &&
	       (w->byte_len < 0 || wc->byte_len == (uint32_t)w->byte_len) &&
	       (wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) == w->wc_flags &&
	       (!(w->wc_flags & IBV_WC_WITH_IMM) || be32toh(wc->imm_data) == w->imm);
}

static void print_wc(const char *word, uint64_t wr_id, int status, int opcode, long byte_len)
{
	printf("    %s wr_id %llu, %s", word, (unsigned long long)wr_id, ibv_wc_status_str(status));
	if (status == IBV_WC_SUCCESS)
		printf(", opcode %d", opcode);
	if (status == IBV_WC_SUCCESS && byte_len >= 0)
		printf(", %ld bytes", byte_len);
	printf("\n");
}

/* Those of one QP come in order; among QPs any order will do. */
static int take(const struct ibv_wc *wc, const struct want *want, int wants, char *taken)
{
	int i;

	for (i = 0; i < wants; i++) {
		if (taken[i] || (want[i].qp && want[i].qp->qp_num != wc->qp_num))
			continue;
		taken[i] = 1;
		if (is_wanted(wc, &want[i])) {
			print_wc("completion", wc->wr_id, wc->status, wc->opcode, want[i].byte_len);
			return 1;
		}
		print_wc("expected", want[i].wr_id, want[i].status, want[i].opcode, want[i].byte_len);
		break;
	}
	if (i == wants)
		printf("    expected no completion\n");
	print_wc("observed", wc->wr_id, wc->status, wc->opcode, wc->byte_len);
	return 0;
}

static int poll_ex(struct ibv_cq_ex *ex, unsigned int fields, struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr attr = {};
	int rc = ibv_start_poll(ex, &attr);

	if (rc)
		return rc == ENOENT ? 0 : -1;
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = ex->wr_id;
	wc->status = ex->status;
	if (ex->status == IBV_WC_SUCCESS) {
		wc->opcode = ibv_wc_read_opcode(ex);
		wc->wc_flags = ibv_wc_read_wc_flags(ex);
		if (fields & IBV_WC_EX_WITH_BYTE_LEN)
			wc->byte_len = ibv_wc_read_byte_len(ex);
		if (fields & IBV_WC_EX_WITH_IMM && wc->wc_flags & IBV_WC_WITH_IMM)
			wc->imm_data = ibv_wc_read_imm_data(ex);
	}
	if (fields & IBV_WC_EX_WITH_QP_NUM)
		wc->qp_num = ibv_wc_read_qp_num(ex);
	ibv_end_poll(ex);
	return 1;
}

/* Polls until what is wanted has come, or no longer; `ex` where the queue is polled by
 * ibv_start_poll(). */
UNUSED static void poll_queue(const char *what, struct ibv_cq *cq, struct ibv_cq_ex *ex,
			      unsigned int fields, const struct want *want, int wants, int most)
{
	char taken[wants + 1];
	struct ibv_wc wc;
	int got = 0, same = 1, ms = 0, n, i;

	memset(taken, 0, sizeof(taken));
	while (got < most) {
		n = ex ? poll_ex(ex, fields, &wc) : ibv_poll_cq(cq, 1, &wc);
		if (n < 0) {
			printf("    polling failed: %d\n", n);
			same = 0;
			break;
		}
		if (n == 0) {
			if (got >= wants || ms++ >= WAIT_MS)
				break;
			usleep(1000);
			continue;
		}
		got++;
		same &= take(&wc, want, wants, taken);
	}
	for (i = 0; i < wants; i++) {
		if (taken[i])
			continue;
		print_wc("expected", want[i].wr_id, want[i].status, want[i].opcode, want[i].byte_len);
		printf("    observed none\n");
		same = 0;
	}
	verdict(what, same);
}

/* Memory as it is to be: what the reference changed is written here as well. */
static uint8_t *arena, *arena_expected;
static size_t arena_size;

UNUSED static void will_be(const void *at, const char *bytes, size_t n)
{
	memcpy(arena_expected + ((const uint8_t *)at - arena), bytes, n);
}

UNUSED static void will_be_filled(const void *at, int byte, size_t n)
{
	memset(arena_expected + ((const uint8_t *)at - arena), byte, n);
}

UNUSED static void store(void *at, const char *bytes, size_t n)
{
	memcpy(at, bytes, n);
	will_be(at, bytes, n);
}

UNUSED static void fill(void *at, int byte, size_t n)
{
	memset(at, byte, n);
	will_be_filled(at, byte, n);
}

UNUSED static void memory(const char *what)
{
	char line[200];
	size_t i = 0;
	int ms = 0;

	/* Bytes may become visible later than their completion does elsewhere. */
	while (memcmp(arena, arena_expected, arena_size) && ms++ < WAIT_MS)
		usleep(1000);
	while (i < arena_size && arena[i] == arena_expected[i])
		i++;
	if (i == arena_size)
		return;
	snprintf(line, sizeof(line), "%s: memory at arena+%zu: expected %02x, observed %02x", what, i,
		 arena_expected[i], arena[i]);
	verdict(line, 0);
	memcpy(arena_expected, arena, arena_size);
}

UNUSED static void state(const char *what, struct ibv_qp *qp, int expected)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	char line[200];
	int seen = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;

	if (seen == expected)
		return;
	snprintf(line, sizeof(line), "%s: state expected %d, observed %d", what, expected, seen);
	verdict(line, 0);
}

UNUSED static void settle(void)
{
	int ms;

	for (ms = 0; ms < WAIT_MS; ms++)
		usleep(1000);
}

/* The port at which both sides are reached, a RoCE v2 address where there is one. */
UNUSED static struct ibv_ah_attr path(struct ibv_context *context)
{
	struct ibv_ah_attr ah = { .port_num = 1 };
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	int i, found = 0;

	memset(&port, 0, sizeof(port));
	if (ibv_query_port(context, 1, &port))
		return ah;
	ah.dlid = port.lid;
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return ah;
	ah.is_global = 1;
	ah.grh.hop_limit = 64;
	for (i = 0; i < port.gid_tbl_len && i < 64; i++) {
		if (ibv_query_gid_ex(context, 1, i, &entry, 0) ||
		    (found && entry.gid_type != IBV_GID_TYPE_ROCE_V2))
			continue;
		ah.grh.dgid = entry.gid;
		ah.grh.sgid_index = i;
		found = 1;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2)
			break;
	}
	return ah;
}

static struct ibv_context *open_device(void)
{
	struct ibv_context *context = ibv_open_device(chosen);

	if (!context) {
		fprintf(stderr, "%s cannot be opened: %s\n", ibv_get_device_name(chosen), strerror(errno));
		exit(2);
	}
	return context;
}

static void choose(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i] && name; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			chosen = list[i];
	if (chosen)
		return;
	fprintf(stderr, "name one of these devices:\n");
	for (i = 0; list && list[i]; i++)
		fprintf(stderr, "  %s\n", ibv_get_device_name(list[i]));
	exit(2);
}
)C";

}  // namespace qpexam

#endif  // QPEXAM_HARNESS_EMIT_PRELUDE_H_
