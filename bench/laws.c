// SPDX-License-Identifier: Apache-2.0
// Truths of the laws of the half `fresh` (crates/plimsoll-stats/tests/integration/laws/fresh/), found without them:
// by a formula where there is one, otherwise by a simulation of its own. It goes from event to event with the work
// that is left, for ever and without trials, where theirs settle when an operation ends as it begins.
//
//   cc -O2 -o laws bench/laws.c -lm && ./laws > laws.csv      all laws;  ./laws NAME  one of them
//
// Columns: law, largest multiple whose share of late operations is at most a hundredth, its relative standard error,
// and for noisy laws the lowest, middle and highest truth of 80 windows of 24 minutes and of 8 of 4 hours, the multiple
// having been held for long before, and of 6 of either from a rest.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE 0.01
#define SLOT_S 60.0

static uint64_t streams[2];
enum { JOBS, SURROUNDINGS };

static double unit(int stream) {
    uint64_t z = streams[stream] += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static double exponential(int stream, double mean) { return -mean * log(unit(stream)); }

static double erlang(int shape, double mean) {
    double sum = 0;
    for (int i = 0; i < shape; i++) sum += exponential(JOBS, mean / shape);
    return sum;
}

static double lognormal(double mean, double sigma) {
    double normal = sqrt(-2 * log(unit(JOBS))) * cos(2 * M_PI * unit(JOBS));
    return mean * exp(sigma * normal - sigma * sigma / 2);
}

// ---- Late operations by the minute in which they are due.

typedef struct {
    double limit, seconds;
    long slots;
    double *ops, *late;
} Record;

static void note(Record *record, double due, double response) {
    long slot = (long)(due / SLOT_S);
    if (slot >= record->slots) return;
    record->ops[slot]++;
    record->late[slot] += response > record->limit;
}

static double late_share(const Record *record, long from, long to) {
    double ops = 0, late = 0;
    for (long slot = from; slot < to; slot++) ops += record->ops[slot], late += record->late[slot];
    return ops > 0 ? late / ops : 0;
}

// ---- Formulas: the share of late operations at a rate.

// Survival of a sum of exponentials with distinct rates.
static double sum_outlasts(const double *rates, int count, double t) {
    double all = 0;
    for (int i = 0; i < count; i++) {
        double factor = exp(-rates[i] * t);
        for (int j = 0; j < count; j++)
            if (j != i) factor *= rates[j] / (rates[j] - rates[i]);
        all += factor;
    }
    return all;
}

static double weibull_outlasts(double x) { return exp(-pow(x / (0.0009 / tgamma(1 + 1 / 0.7)), 0.7)); }

#define SMALL_S (8192 / 117e6)
#define LARGE_S (262144 / 117e6)
static double two_sizes_outlast(double x) { return x < SMALL_S ? 1 : x < LARGE_S ? 0.1 : 0; }

// M/G/1 in order: its waiting time is a geometric number of residual works (Pollaczek and Khinchine).
static double one_server(double rate, double mean, double (*outlasts)(double), double limit) {
    enum { STEPS = 6000, FINE = 16 };
    static double residual[STEPS + 2], waits[STEPS + 2];
    double h = limit / (STEPS + 0.5), load = rate * mean, before = 0, done = 0;
    if (load >= 1) return 1;
    for (int k = 0; k <= STEPS; k++) {
        double from = k ? (k - 0.5) * h : 0, width = (k + 0.5) * h - from;
        for (int i = 0; i < FINE; i++) done += outlasts(from + width * (i + 0.5) / FINE) * width / FINE / mean;
        residual[k] = done - before, before = done;
    }
    double within = 0, scale = load / (1 - load * residual[0]);
    for (int k = 0; k <= STEPS; k++) {
        waits[k] = k ? 0 : (1 - load) / (1 - load * residual[0]);
        for (int j = 1; j <= k; j++) waits[k] += scale * residual[j] * waits[k - j];
        within += waits[k] * (1 - outlasts(limit - k * h));
    }
    return 1 - within;
}

static double weibull_reads(double rate) { return one_server(rate, 0.0009, weibull_outlasts, 0.010); }
static double iscsi_link(double rate) {
    return one_server(rate, 0.9 * SMALL_S + 0.1 * LARGE_S, two_sizes_outlast, 0.012);
}

// Waits with this chance for an exponential time, then is served for another.
static double waits_and_served(double chance, double wait_rate, double rate, double t) {
    double both[] = {wait_rate, rate};
    return (1 - chance) * exp(-rate * t) + chance * sum_outlasts(both, 2, t);
}

// GI/M/16 (Takács): hyperexponential gaps of squared variation 4 and balanced means.
static double gap_transform(double rate, double s) {
    double p = (1 + sqrt(3.0 / 5)) / 2, fast = 2 * p * rate, slow = 2 * (1 - p) * rate;
    return p * fast / (fast + s) + (1 - p) * slow / (slow + s);
}

static double sixteen_paths(double rate) {
    const int servers = 16;
    const double service = 200;
    if (rate >= servers * service) return 1;
    double root = 0.5;
    for (int i = 0; i < 20000; i++) root = gap_transform(rate, servers * service * (1 - root));
    double sum = 1 / (1 - root), ways = 1, product = 1;
    for (int j = 1; j <= servers; j++) {
        double at = gap_transform(rate, j * service);
        ways *= (servers - j + 1.0) / j;
        product *= at / (1 - at);
        sum += ways / (product * (1 - at)) * (servers * (1 - at) - j) / (servers * (1 - root) - j);
    }
    return waits_and_served(1 / sum / (1 - root), servers * service * (1 - root), service, 0.040);
}

// Two stages in a row are independent (Reich, Burke): M/M/1, then M/M/6.
static double two_stages(double rate) {
    const int disks = 6;
    const double controller = 4000, disk = 1 / 0.006;
    if (rate >= disks * disk) return 1;
    double load = rate / disk, term = 1, sum = 0;
    for (int k = 0; k < disks; k++) sum += term, term *= load / (k + 1);
    double last = term / (1 - load / disks), chance = last / (sum + last);
    double direct[] = {controller - rate, disk}, queued[] = {controller - rate, disk, disks * disk - rate};
    return (1 - chance) * sum_outlasts(direct, 2, 0.040) + chance * sum_outlasts(queued, 3, 0.040);
}

static double cached_reads(double rate) {
    double miss = 0.15, disk = 125, each = rate * miss / 4;
    return each >= disk ? miss : miss * exp(-(disk - each) * 0.050);
}

// Any of `n` operations is equally likely the next to end, at `ends(n)` a second: a tagged one among others is a
// chain of their number, followed by uniformization.
static double tagged(double rate, double (*ends)(int), double limit) {
    enum { MOST = 1500 };
    static double now[MOST + 2], next[MOST + 2];
    double most = rate, sum = 0, left = 0;
    if (rate >= ends(MOST)) return 1;
    for (int n = 0; n <= MOST; n++) {
        now[n] = n ? now[n - 1] * rate / ends(n) : 1;
        sum += now[n];
        most = fmax(most, rate + ends(n + 1));
    }
    for (int n = 0; n <= MOST; n++) now[n] /= sum;
    double weight = exp(-most * limit), told = 0;
    for (int step = 0; told < 1 - 1e-12 && step < 100000; step++) {
        double mass = 0;
        for (int n = 0; n <= MOST; n++) mass += now[n], next[n] = 0;
        left += weight * mass, told += weight;
        for (int n = 0; n <= MOST; n++) {
            double end = ends(n + 1), others = end * n / (n + 1);
            next[n] += now[n] * (1 - (rate + end) / most);
            next[n < MOST ? n + 1 : n] += now[n] * rate / most;
            if (n) next[n - 1] += now[n] * others / most;
        }
        memcpy(now, next, sizeof now);
        weight *= most * limit / (step + 1);
    }
    return left;
}

static double shares_end(int n) { return fmin(n, 10) / 0.008; }
static double elevator_ends(int n) { return 1 / (0.004 + 0.0085 / sqrt(fmin(n, 32))); }
static double capped_shares(double rate) { return tagged(rate, shares_end, 0.060); }
static double elevator(double rate) { return tagged(rate, elevator_ends, 0.200); }

// M/Erlang/1 whose speed surroundings change: its queue by levels (linear level reduction), then a tagged operation,
// by uniformization, until those ahead of it and itself have ended.
enum { STATES = 14, LEVELS = 6000, AHEAD = 150 };
typedef double Square[STATES][STATES];
typedef struct {
    int surroundings, phases;
    double mean, limit; // of the work of a phase
    double (*speed)(int);
    double (*turns)(int from, int to); // per second
} Modulated;

static void invert(Square a, Square inverse, int size) {
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) inverse[i][j] = i == j;
    for (int c = 0; c < size; c++) {
        int best = c;
        for (int i = c; i < size; i++)
            if (fabs(a[i][c]) > fabs(a[best][c])) best = i;
        for (int j = 0; j < size; j++) {
            double x = a[c][j], y = inverse[c][j];
            a[c][j] = a[best][j], a[best][j] = x, inverse[c][j] = inverse[best][j], inverse[best][j] = y;
        }
        double pivot = a[c][c];
        for (int j = 0; j < size; j++) a[c][j] /= pivot, inverse[c][j] /= pivot;
        for (int i = 0; i < size; i++) {
            double factor = a[i][c];
            if (i == c || factor == 0) continue;
            for (int j = 0; j < size; j++) a[i][j] -= factor * a[c][j], inverse[i][j] -= factor * inverse[c][j];
        }
    }
}

// Rates between states of a level, and to the level below. Without an operation only phase 0 is ever seen.
static void rates_of(const Modulated *m, int is_busy, Square within, Square down) {
    memset(within, 0, sizeof(Square)), memset(down, 0, sizeof(Square));
    for (int from = 0; from < m->surroundings; from++)
        for (int phase = 0; phase < m->phases; phase++) {
            int at = from * m->phases + phase;
            for (int to = 0; to < m->surroundings; to++)
                if (to != from) within[at][to * m->phases + phase] += m->turns(from, to);
            double ends = m->speed(from) / m->mean;
            if (!is_busy && phase) within[at][from * m->phases] += 1;
            if (is_busy && phase + 1 < m->phases) within[at][at + 1] += ends;
            if (is_busy && phase + 1 == m->phases) down[at][from * m->phases] += ends;
        }
    for (int i = 0; i < STATES; i++)
        for (int j = 0; j < STATES; j++)
            if (j != i) within[i][i] -= within[i][j];
    for (int i = 0; i < STATES; i++)
        for (int j = 0; j < STATES; j++) within[i][i] -= down[i][j];
}

// Of all probability, what a tagged operation finds: now[n] of n ahead of it.
static double found(const Modulated *m, double rate, double (*now)[STATES]) {
    static double ratio[LEVELS + 1][STATES][STATES], level[LEVELS + 1][STATES];
    int size = m->surroundings * m->phases;
    Square within, down, left, inverse;
    rates_of(m, 1, within, down);
    memcpy(left, within, sizeof left);
    for (int n = LEVELS; n >= 1; n--) {
        Square idle, unused;
        for (int i = 0; i < size; i++)
            for (int j = 0; j < size; j++) left[i][j] = -left[i][j];
        invert(left, inverse, size);
        rates_of(m, n > 1, idle, unused);
        for (int i = 0; i < size; i++)
            for (int j = 0; j < size; j++) ratio[n][i][j] = rate * inverse[i][j];
        for (int i = 0; i < size; i++)
            for (int j = 0; j < size; j++) {
                left[i][j] = idle[i][j] - (i == j ? rate : 0);
                for (int k = 0; k < size; k++) left[i][j] += ratio[n][i][k] * down[k][j];
            }
    }
    // Balance of the empty level, of which one equation is replaced by: the first state has 1.
    Square balance;
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) balance[i][j] = i == 0 ? j == 0 : left[j][i];
    invert(balance, inverse, size);
    double sum = 0;
    for (int n = 0; n <= LEVELS; n++)
        for (int j = 0; j < size; j++) {
            level[n][j] = n ? 0 : inverse[j][0];
            for (int i = 0; n && i < size; i++) level[n][j] += level[n - 1][i] * ratio[n][i][j];
            sum += level[n][j];
        }
    double near = 0;
    for (int n = 0; n < AHEAD; n++)
        for (int j = 0; j < size; j++) near += now[n][j] = level[n][j] / sum;
    return 1 - near;
}

static double modulated(const Modulated *m, double rate) {
    static double now[AHEAD][STATES], next[AHEAD][STATES];
    int size = m->surroundings * m->phases;
    Square within, down;
    rates_of(m, 1, within, down);
    double late = found(m, rate, now), most = 0, told = 0;
    for (int i = 0; i < size; i++) most = fmax(most, -within[i][i]);
    double weight = exp(-most * m->limit);
    for (int step = 0; told < 1 - 1e-12 && step < 10000; step++) {
        double mass = 0;
        for (int n = 0; n < AHEAD; n++)
            for (int i = 0; i < size; i++) mass += now[n][i], next[n][i] = now[n][i];
        late += weight * mass, told += weight;
        for (int n = 0; n < AHEAD; n++)
            for (int i = 0; i < size; i++)
                for (int j = 0; j < size; j++) {
                    next[n][j] += now[n][i] * within[i][j] / most;
                    if (n) next[n - 1][j] += now[n][i] * down[i][j] / most;
                }
        memcpy(now, next, sizeof now);
        weight *= most * m->limit / (step + 1);
    }
    return late;
}

static double neighbours_speed(int on) { return 1 - 0.12 * on; }
static double neighbours_turn(int from, int to) {
    return to == from - 1 ? from / 90.0 : to == from + 1 ? (6 - from) / 300.0 : 0;
}
static double cluster_speed(int level) { return 0.55 + 0.05 * level; }
static double cluster_turn(int from, int to) { return abs(to - from) == 1 ? 0.005 : 0; }
static double array_neighbours(double rate) {
    static const Modulated law = {7, 2, 0.001, 0.040, neighbours_speed, neighbours_turn};
    double mean_speed = 1 - 0.12 * 6 * 90 / 390;
    return rate >= mean_speed / 0.002 ? 1 : modulated(&law, rate);
}
static double wandering_cluster(double rate) {
    static const Modulated law = {10, 1, 0.004, 0.060, cluster_speed, cluster_turn};
    return rate >= 0.775 / 0.004 ? 1 : modulated(&law, rate);
}

// What a bucket leaks is all that passes for ever; above it, what finds no more room waits for ever longer. From
// empty, all but a hundredth of a window passes.
#define LEAK 200.0
#define BURST 20000.0
static double leaky_bucket(double rate) { return rate > LEAK; }
static double leaky_window(double seconds) { return LEAK + BURST / ((1 - SHARE) * seconds); }

// ---- Simulations.

typedef struct {
    double due, left;
} Job;

#define ROOM (1 << 16)
typedef struct {
    Job jobs[ROOM];
    unsigned first, count;
} Fifo;

typedef struct World World;
struct World {
    double now, speed, next; // `next`: when surroundings change by themselves
    int state, is_idle;
    double level, idle_since, counted;
};

typedef struct {
    const char *name;
    double rate, limit;
    double (*formula)(double);
    void (*whole)(Record *, double rate);
    int servers;
    double (*gap)(double rate);
    double (*work)(World *, int class);
    void (*change)(World *);
    void (*ended)(World *);
    double second_class; // chance
    double seconds;
    int is_noisy, has_rest;
} Law;

static double poisson(double rate) { return exponential(JOBS, 1 / rate); }
static double regular(double rate) { return erlang(4, 1 / rate); }

static double mirror_work(World *w, int class) {
    (void)w, (void)class;
    double cut = 1 - pow(0.004 / 0.250, 1.5);
    return 0.004 * pow(1 - unit(JOBS) * cut, -1 / 1.5);
}
static double channel_work(World *w, int class) { return (void)w, (void)class, lognormal(0.0008, 0.9); }
static double class_work(World *w, int class) { return (void)w, exponential(JOBS, class ? 0.006 : 0.003); }

static double array_work(World *w, int class) { return (void)w, (void)class, erlang(2, 0.002); }
static void neighbours_change(World *w) {
    if (w->next > 0) w->state += unit(SURROUNDINGS) * (w->state / 90.0 + (6 - w->state) / 300.0) < w->state / 90.0 ? -1 : 1;
    w->speed = 1 - 0.12 * w->state;
    w->next = w->now + exponential(SURROUNDINGS, 1 / (w->state / 90.0 + (6 - w->state) / 300.0));
}

// `level`: pages above the low mark; `counted`: until when what collection frees has been added.
static double flash_work(World *w, int class) { return (void)w, (void)class, erlang(2, 0.0008); }
static void collect(World *w) {
    if (w->state) w->level += 1500 * (w->now - w->counted);
    w->counted = w->now;
    if (w->next == 0) w->level = 60000;
    if (w->level <= 0) w->state = 1;
    if (w->level >= 60000 - 1e-6) w->state = 0;
    w->speed = w->state ? 0.45 : 1;
    w->next = w->state ? w->now + (60000 - w->level) / 1500 : INFINITY;
}
static void page_written(World *w) {
    w->level--;
    collect(w);
}

// `level`: degrees that operations have added.
static double hot_work(World *w, int class) { return (void)w, (void)class, exponential(JOBS, 0.0005); }
static void cool(World *w) {
    w->level *= exp(-(w->now - w->counted) / 120);
    w->counted = w->now;
}
static void heat(World *w) {
    cool(w);
    w->level += 0.0005 * (w->state ? 0.6 : 1);
}
static void look_at_heat(World *w) {
    cool(w);
    double temperature = 45 + 3 * sin(2 * M_PI * w->now / 2400) + w->level;
    if (temperature >= 80) w->state = 1;
    if (temperature <= 72) w->state = 0;
    w->speed = w->state ? 0.35 : 1;
    w->next = floor(w->now + 0.5) + 1;
}

static double media_work(World *w, int class) {
    (void)class;
    if (w->is_idle) w->level = fmax(0, w->level - 150 * (w->now - w->idle_since));
    double clean = w->level >= 8000 ? 0.005 : 0;
    w->level += clean > 0 ? 0 : 1;
    return clean + exponential(JOBS, 0.0015);
}

static double cluster_work(World *w, int class) { return (void)w, (void)class, exponential(JOBS, 0.004); }
static void wander(World *w) {
    if (w->next == 0) w->state = (int)(10 * unit(SURROUNDINGS));
    else w->state = (int)fmax(0, fmin(9, w->state + (unit(SURROUNDINGS) < 0.5 ? -1 : 1)));
    w->speed = 0.55 + 0.05 * w->state;
    w->next = w->now + exponential(SURROUNDINGS, 100);
}

static double snapshot_work(World *w, int class) {
    (void)class;
    double copies = unit(JOBS) < exp(-w->level / 20000) ? exponential(JOBS, 0.004) : 0;
    w->level++;
    return copies + erlang(2, 0.001);
}
static void take_snapshot(World *w) {
    w->level = 0;
    w->next = 900 * (floor(w->now / 900 + 0.5) + 1);
}

static double shortest(const Job *serving, int busy) {
    double left = INFINITY;
    for (int i = 0; i < busy; i++) left = fmin(left, serving[i].left);
    return left;
}

// Operations that have ended leave; returns how many still are served.
static int leave(const Law *law, World *w, Record *record, Job *serving, int busy) {
    for (int i = 0; i < busy;) {
        if (serving[i].left > 1e-9) {
            i++;
            continue;
        }
        note(record, serving[i].due, w->now - serving[i].due);
        serving[i] = serving[--busy];
        if (law->ended) law->ended(w);
    }
    return busy;
}

static void simulate(const Law *law, Record *record, double rate) {
    static Fifo queues[2];
    World w = {.speed = 1, .next = law->change ? 0 : INFINITY, .is_idle = 1};
    Job serving[16];
    int busy = 0;
    queues[0].count = queues[1].count = 0;
    if (law->change) law->change(&w);
    double arrival = law->gap(rate);
    while (w.now < record->seconds) {
        double step = shortest(serving, busy) / w.speed;
        double to = fmin(fmin(arrival, w.next), w.now + step);
        for (int i = 0; i < busy; i++) serving[i].left -= (to - w.now) * w.speed;
        w.now = to;
        if (to == w.next) law->change(&w);
        busy = leave(law, &w, record, serving, busy);
        if (to == arrival) {
            Fifo *queue = &queues[law->second_class > 0 && unit(JOBS) < law->second_class];
            // A queue of this length has been late for long: what does not find room counts as late.
            if (queue->count == ROOM) note(record, to, INFINITY);
            else queue->jobs[(queue->first + queue->count++) % ROOM] = (Job){to, 0};
            arrival = to + law->gap(rate);
        }
        while (busy < law->servers && queues[0].count + queues[1].count) {
            int class = queues[0].count == 0;
            Fifo *queue = &queues[class];
            serving[busy] = queue->jobs[queue->first];
            serving[busy++].left = law->work(&w, class);
            queue->first = (queue->first + 1) % ROOM, queue->count--;
            w.is_idle = 0;
        }
        if (busy == 0 && !w.is_idle) w.is_idle = 1, w.idle_since = to;
    }
}

// A log whose appends go together: whatever has come, but at most 64.
static void append_together(Record *record, double rate) {
    double now = 0, arrival = poisson(rate), dues[64];
    while (now < record->seconds) {
        int count = 0;
        now = fmax(now, arrival);
        for (; count < 64 && arrival <= now; arrival += poisson(rate)) dues[count++] = arrival;
        now += lognormal(0.002, 0.5) + 0.00002 * count;
        for (int i = 0; i < count; i++) note(record, dues[i], now - dues[i]);
    }
}

// Tries to come: a heap by time.
typedef struct {
    double at, due;
    int refused;
} Try;
#define TRIES (1 << 14)
static Try tries[TRIES];

static void heap_push(int *count, Try one) {
    int at = (*count)++;
    for (; at && tries[(at - 1) / 2].at > one.at; at = (at - 1) / 2) tries[at] = tries[(at - 1) / 2];
    tries[at] = one;
}

static Try heap_pop(int *count) {
    Try first = tries[0], last = tries[--*count];
    int at = 0;
    for (int child = 1; child < *count; child = 2 * at + 1) {
        if (child + 1 < *count && tries[child + 1].at < tries[child].at) child++;
        if (tries[child].at >= last.at) break;
        tries[at] = tries[child], at = child;
    }
    tries[at] = last;
    return first;
}

// Twelve workers and room for twelve more; who is refused comes again after a random part of a growing time.
static void busy_and_retry(Record *record, double rate) {
    double queue[24], arrival = poisson(rate);
    int inside = 0, pending = 0;
    for (double now = 0; now < record->seconds;) {
        double end = inside ? now + exponential(JOBS, 0.020 / fmin(inside, 12)) : INFINITY;
        double again = pending ? tries[0].at : INFINITY;
        if (end < fmin(arrival, again)) {
            int which = (int)(unit(JOBS) * fmin(inside, 12));
            note(record, queue[which], end - queue[which]);
            memmove(queue + which, queue + which + 1, sizeof *queue * (--inside - which));
            now = end;
            continue;
        }
        Try one = arrival < again ? (Try){arrival, arrival, 0} : heap_pop(&pending);
        if (one.at == arrival) arrival += poisson(rate);
        now = one.at;
        if (inside < 24) queue[inside++] = one.due;
        // So many come again only where most are late.
        else if (pending == TRIES) note(record, one.due, INFINITY);
        else heap_push(&pending, (Try){now + unit(JOBS) * fmin(5, 0.1 * pow(2, one.refused)), one.due, one.refused + 1});
    }
}

// ---- The laws: what a multiple of 1 is, and the limit.

static const Law LAWS[] = {
    {"weibull reads", 200, 0.010, .formula = weibull_reads},
    {"iscsi link", 500, 0.012, .formula = iscsi_link},
    {"mirror", 40, 0.150, .servers = 2, .gap = poisson, .work = mirror_work, .seconds = 20000},
    {"eight channels", 3000, 0.006, .servers = 8, .gap = regular, .work = channel_work, .seconds = 240},
    {"sixteen paths", 400, 0.040, .formula = sixteen_paths},
    {"capped shares", 100, 0.060, .formula = capped_shares},
    {"two stages", 250, 0.040, .formula = two_stages},
    {"elevator", 30, 0.200, .formula = elevator},
    {"cached reads", 300, 0.050, .formula = cached_reads},
    {"joint appends", 1500, 0.012, .whole = append_together, .seconds = 600},
    {"reads first", 50, 0.120, .servers = 1, .gap = poisson, .work = class_work, .second_class = 0.3, .seconds = 20000},
    {"busy and retry", 100, 0.400, .whole = busy_and_retry, .seconds = 6000},
    {"array neighbours", 100, 0.040, .formula = array_neighbours, .servers = 1, .gap = poisson, .work = array_work, .change = neighbours_change,
     .is_noisy = 1},
    {"flash collector", 200, 0.015, .servers = 1, .gap = poisson, .work = flash_work, .change = collect,
     .ended = page_written, .seconds = 9000, .is_noisy = 1},
    {"hot controller", 150, 0.010, .servers = 1, .gap = poisson, .work = hot_work, .change = look_at_heat, .ended = heat,
     .seconds = 9600, .is_noisy = 1},
    {"media cache", 30, 0.050, .servers = 1, .gap = poisson, .work = media_work, .seconds = 30000, .is_noisy = 1,
     .has_rest = 1},
    {"wandering cluster", 25, 0.060, .formula = wandering_cluster, .servers = 1, .gap = poisson, .work = cluster_work, .change = wander,
     .is_noisy = 1},
    {"snapshots", 100, 0.050, .servers = 1, .gap = poisson, .work = snapshot_work, .change = take_snapshot,
     .seconds = 9000, .is_noisy = 1},
    {"leaky bucket", 50, 0.030, .formula = leaky_bucket, .is_noisy = 1, .has_rest = 1},
};

// ---- Where the share crosses the limit.

static Record hold(const Law *law, double multiple, double seconds, uint64_t seed) {
    Record record = {law->limit, seconds, (long)(seconds / SLOT_S), 0, 0};
    record.ops = calloc(record.slots, sizeof(double)), record.late = calloc(record.slots, sizeof(double));
    streams[JOBS] = seed * 7919, streams[SURROUNDINGS] = seed * 104729 + 1;
    if (law->whole) law->whole(&record, multiple * law->rate);
    else simulate(law, &record, multiple * law->rate);
    return record;
}

static void let_go(Record *record) { free(record->ops), free(record->late); }

// A quarter passes before what is counted begins.
static double share_at(const Law *law, double multiple, double seconds, uint64_t seed) {
    if (law->formula) return law->formula(multiple * law->rate);
    Record record = hold(law, multiple, 1.25 * seconds, seed);
    double share = late_share(&record, record.slots / 5, record.slots - 1);
    let_go(&record);
    return share;
}

static double crossing(const Law *law, double low, double high, int rounds, double seconds, uint64_t seed) {
    for (int i = 0; i < rounds; i++) {
        double middle = sqrt(low * high);
        *(share_at(law, middle, seconds, seed) <= SHARE ? &low : &high) = middle;
    }
    return sqrt(low * high);
}

static double tell_truth(const Law *law) {
    double rough = crossing(law, law->formula ? 0.3 : 1, law->formula ? 60 : 16, law->formula ? 30 : 8, fmax(law->seconds / 4, 120), 1), sum = 0, squares = 0;
    if (law->formula) return printf("%s,%.4f,0.0003", law->name, rough), rough;
    for (int seed = 2; seed < 8; seed++) {
        double one = crossing(law, rough / 1.1, rough * 1.1, 7, law->seconds, seed);
        sum += one, squares += one * one;
    }
    double mean = sum / 6, error = sqrt(fmax(0, squares / 6 - mean * mean) / 5) / mean;
    printf("%s,%.4f,%.4f", law->name, mean, fmax(error, 0.0003));
    return mean;
}

// ---- Windows.

#define GRID 16
#define BRIEF 80
#define LENGTHY 8
#define RESTED 6

static double grid(double truth, int at) { return truth * 0.6 * pow(1.07, at); }

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The multiple at which a window's share passes the limit, between two of the grid; the first where it does.
static double window_truth(double truth, double (*shares)[BRIEF], int window) {
    for (int at = 0; at < GRID; at++) {
        if (shares[at][window] <= SHARE) continue;
        if (at == 0) return grid(truth, 0);
        double below = shares[at - 1][window], part = (SHARE - below) / (shares[at][window] - below);
        return grid(truth, at - 1) + part * (grid(truth, at) - grid(truth, at - 1));
    }
    return grid(truth, GRID - 1);
}

static void tell_windows(double truth, double (*shares)[BRIEF], int windows) {
    double found[BRIEF];
    for (int window = 0; window < windows; window++) found[window] = window_truth(truth, shares, window);
    qsort(found, windows, sizeof *found, by_size);
    printf(",%.3f,%.3f,%.3f", found[0], found[windows / 2], found[windows - 1]);
}

static void held_for_long(const Law *law, double truth) {
    static double brief[GRID][BRIEF], lengthy[GRID][BRIEF];
    for (int at = 0; at < GRID; at++) {
        Record record = hold(law, grid(truth, at), (1 + LENGTHY) * 14400 + 60, 99);
        for (int i = 0; i < BRIEF; i++) brief[at][i] = late_share(&record, 240 + 24 * i, 264 + 24 * i);
        for (int i = 0; i < LENGTHY; i++) lengthy[at][i] = late_share(&record, 240 + 240 * i, 480 + 240 * i);
        let_go(&record);
    }
    tell_windows(truth, brief, BRIEF);
    tell_windows(truth, lengthy, LENGTHY);
}

static void from_rest(const Law *law, double truth) {
    static double brief[GRID][BRIEF], lengthy[GRID][BRIEF];
    for (int at = 0; at < GRID; at++)
        for (int i = 0; i < RESTED; i++) {
            Record record = hold(law, grid(truth, at), 14400 + 60, 100 + i);
            brief[at][i] = late_share(&record, 0, 24), lengthy[at][i] = late_share(&record, 0, 240);
            let_go(&record);
        }
    tell_windows(truth, brief, RESTED);
    tell_windows(truth, lengthy, RESTED);
}

static void leaky_windows(const Law *law) {
    double rates[] = {LEAK, LEAK, leaky_window(1440), leaky_window(14400)};
    for (int i = 0; i < 4; i++)
        for (int share = 0; share < 3; share++) printf(",%.3f", rates[i] / law->rate);
}

int main(int count, char **words) {
    for (size_t i = 0; i < sizeof LAWS / sizeof *LAWS; i++) {
        if (count > 1 && strcmp(words[1], LAWS[i].name)) continue;
        double truth = tell_truth(&LAWS[i]);
        if (LAWS[i].is_noisy && !LAWS[i].servers) leaky_windows(&LAWS[i]);
        else if (LAWS[i].is_noisy) held_for_long(&LAWS[i], truth);
        if (LAWS[i].has_rest && LAWS[i].servers) from_rest(&LAWS[i], truth);
        puts("");
        fflush(stdout);
    }
}
