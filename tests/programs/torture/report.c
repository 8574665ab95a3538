/* The operation log, and how a failure is told. Uses write(2) alone: it runs in
 * signal handlers and in children of a threaded process. */
#include "torture.h"
#include <stdarg.h>

void note(uint32_t what, uint64_t a, uint64_t b, uint64_t c)
{
	struct log_entry *e = &me->log[me->log_next++ % LOG_LEN];
	e->opno = me->opno;
	e->op = me->op;
	e->note = what;
	e->a = a;
	e->b = b;
	e->c = c;
}

static void vsay(const char *fmt, va_list ap)
{
	char line[512];
	int n = vsnprintf(line, sizeof line, fmt, ap);
	if (n > (int)sizeof line - 1)
		n = sizeof line - 1;
	if (n <= 0 || write(2, line, (size_t)n) >= 0)
		return;
	/* a daemon that closed everything: its parent will say it */
	uint32_t at = atomic_fetch_add(&G->lost_len, (uint32_t)n);
	if (at + (uint32_t)n < LOST)
		memcpy(G->lost + at, line, (size_t)n);
}

void say(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsay(fmt, ap);
	va_end(ap);
}

static const char *op_name(uint32_t op)
{
	return op < ops_len ? ops[op].name : "-";
}

static void dump_log(const struct worker *w)
{
	uint64_t n = w->log_next, from = n > LOG_LEN ? n - LOG_LEN : 0;
	say("  thread %u, last operations (number, name, note, numbers):\n", w->id);
	for (uint64_t i = from; i < n; i++) {
		const struct log_entry *e = &w->log[i % LOG_LEN];
		say("    %8llu %-10s %c %#llx %#llx %#llx\n", (unsigned long long)e->opno, op_name(e->op),
			e->note ? (int)e->note : ' ', (unsigned long long)e->a, (unsigned long long)e->b,
			(unsigned long long)e->c);
	}
}

void dump_logs(void)
{
	for (uint32_t i = 0; i < G->workers; i++) {
		const struct worker *w = &G->worker[i];
		say("  thread %u: operation %llu %s, begun %llu ms ago\n", i, (unsigned long long)w->opno,
			op_name(w->op), (unsigned long long)(now_ms() - w->beat));
		if (G->verbose || w == me)
			dump_log(w);
	}
	if (me && (me < G->worker || me > G->worker + MAX_WORKERS))
		dump_log(me);
}

static void head(const char *what)
{
	atomic_fetch_add(&G->failed, 1);
	say("torture: FAIL %s\n  replay: torture --seed %llu --threads %u --memory %lluK (pid %d, thread %d, operation %llu %s)\n",
		what, (unsigned long long)G->seed, G->workers, (unsigned long long)G->budget * G->workers * 4, (int)getpid(),
		me ? (int)me->id : -1, me ? (unsigned long long)me->opno : 0ull, me ? op_name(me->op) : "-");
}

static void hexdump(const char *label, const uint64_t *w, uint32_t at)
{
	for (uint32_t i = 0; i < 2; i++) {
		const uint64_t *p = w + at + 4 * i;
		say("    %s +%04x: %016llx %016llx %016llx %016llx\n", label, (at + 4 * i) * 8, (unsigned long long)p[0],
			(unsigned long long)p[1], (unsigned long long)p[2], (unsigned long long)p[3]);
	}
}

void die_page(const struct shadow *s, const char *page, const char *why)
{
	uint64_t want[WORDS], got[WORDS], again[WORDS];
	uint32_t first = WORDS, bad = 0;
	memcpy(got, page, PAGE);
	memcpy(again, page, PAGE);
	content(s, want, 0);
	for (uint32_t i = 0; i < WORDS; i++)
		if (want[i] != got[i]) {
			bad++;
			if (first == WORDS)
				first = i;
		}
	head(why);
	say("  page %p: must be state %u ident %#llx version %u poke %u flags %u\n", (const void *)page, s->state,
		(unsigned long long)s->ident, s->version, s->poke, s->flags);
	say("  %u of %u words differ; the page reads %s; it %s when read again\n", bad, WORDS,
		page_zero((const char *)got) ? "as zeros" : "as something else",
		memcmp(got, again, PAGE) ? "CHANGES" : "stays the same");
	say("  found header: magic %016llx seed %llu ident %#llx version %llu\n", (unsigned long long)got[0],
		(unsigned long long)got[1], (unsigned long long)got[2], (unsigned long long)got[3]);
	uint32_t at = first >= WORDS ? 0 : (first & ~3u) > WORDS - 8 ? WORDS - 8 : first & ~3u;
	hexdump("expected", want, at);
	hexdump("found   ", got, at);
	dump_logs();
	_exit(1);
}

void die(const char *fmt, ...)
{
	char line[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	head(line);
	if (G->lost_len && write(2, G->lost, G->lost_len < LOST ? G->lost_len : LOST) < 0)
		_exit(1);
	dump_logs();
	_exit(1);
}

/* This machine cannot do the operation (said once for each kind). */
void skip(const char *why)
{
	if (atomic_fetch_add(&G->op_skipped[me->op], 1) == 0)
		say("torture: skipping %s: %s\n", op_name(me->op), why);
}
