/* The protocol of worker-id leases: docs/design/005-leases.md says why each rule is there, and how
 * this model stands for the code. Spin tries every order of the steps below, for each id in turn.
 *
 * Property: no id is returned twice, and each generator's ids go up. With KEPT: nobody loses a worker
 * id to a request of somebody else's, to an old one, or to one of its own. With COPY a process is
 * copied once, at any time: the two may return the same ids below the bound of that time, or of the
 * extension that was pending then, and no others. With ALARM: no answer shows that the store has
 * gone back.
 *
 * A -D switch removes one rule, or sets a size; `run` has the table of them. More is possible here
 * than in the code, never less:
 *   - every reading of every clock is any value;
 *   - an acquire may take any row, as the owner's time may be over by the store's clock;
 *   - a request may have been sent as soon as its sender knows what stands in it. It is then
 *     applied never, once, or any number of times, however late, and each time with no answer or one;
 *   - an owner may be cleared at any time: `idmint workers release` reads what it sends.
 * A fence of many rows is one step here, and one for each row in the code. Ids of two worker ids never
 * meet, so it is searched with one row.
 * With KEPT nobody's time is over, only its owner sends the release of a lease, and no acquire comes
 * after the answer to its repeat: that one moves the bound as a copy would, so its sender loses.
 *
 * The nonce of an extension is its process and the bound that it names: more extensions have one nonce
 * than in the code, where each has its own.
 *
 * With SWAP an acquire and an extend are two steps each: the row is read, and then swapped against all
 * that was read (src/store/protocol/leases.cc). A swap is on its way from the moment on at which it was
 * decided, and any earlier one may come late (`late`). Without SWAP each is one step of the store.
 */
#ifndef GENERATORS
#define GENERATORS 2
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef LEASES
#define LEASES 3 /* acquires in one run, each with a token of its own */
#endif
#ifndef TICKS
#define TICKS 4 /* timestamps 0 to TICKS - 1, each with two ids: 2 * timestamp + sequence */
#endif
#define FRESH 100 /* the generation of a fence */

typedef Row { byte until, owner, generation, nonce, taken, read, from }
typedef Table { Row row[WORKERS] }
typedef Lease { byte worker, generation, token; bool released }
typedef Generator {
  byte asked, lease; /* numbers of leases, or 0 */
  byte until, next;  /* the acknowledged bound; the first id that was not minted yet */
  byte pending, nonce; /* the extension of unknown outcome: to which bound; 0: none */
  byte token;
  bool passed;  /* the watched id is between check and return */
  bool minted;  /* the watched id was this generator's */
  bool shown;   /* the store has answered with less than it had acknowledged */
  bool stopped; /* for ever, therefore */
  byte lost;    /* for REACH: the lease that it lost */
}

/* A swap: the row as it was read, and what is to stand in its place. */
typedef Call {
  bool sent, extends;
  byte k, w, from, to, named;                 /* to become: of which lease, the range, the nonce */
  byte until, owner, generation, nonce, taken /* as it was read */
}

#ifdef SWAP
Call call[GENERATORS], late;
#endif
Table table, durable, backup, nothing;
Lease leases[LEASES + 1];
Generator gen[GENERATORS];
byte acquires, floor, seen;
bool raised, copied, restored;
bool forked;               /* with COPY: there are two of one process */
byte shared;               /* below this bound they may have the same ids */
byte shared_worker;
byte watched, watched_worker; /* one id of one worker id; every one in turn */
bool returned;
hidden byte j, k, w, c, x, from, to; /* scratch, inside of one step */

#ifdef REACH /* shows by an error that the step of this number is reached */
#define STEP(n) assert((n) != REACH)
#define LOSE me.lost = me.lease
#else
#define STEP(n) skip
#define LOSE skip
#endif

#ifdef KEPT
#define KEEP assert(!me.lease)
#define SEND_RELEASE leases[me.lease].released = true
#else
#define KEEP skip
#define SEND_RELEASE skip
#endif

#if defined(ALARM) || defined(UNFENCED) || defined(SWAP)
#define TAKEN /* rows say where the latest owner's range began */
#endif

#define max(a, b) ((a) > (b) -> (a) : (b))
#define me gen[i]
#define mine leases[me.lease]

inline copy(a, b) {
  for (j : 0 .. WORKERS - 1) {
    b.row[j].until = a.row[j].until;
    b.row[j].owner = a.row[j].owner;
    b.row[j].generation = a.row[j].generation;
    b.row[j].nonce = a.row[j].nonce;
#ifdef TAKEN
    b.row[j].taken = a.row[j].taken;
#endif
#ifdef ACQUIRE_READS_FIRST
    b.row[j].read = a.row[j].read;
#endif
#ifdef SAME_RANGE
    b.row[j].from = a.row[j].from;
#endif
    skip
  }
  j = 0
}

#if defined(COPY) && !defined(UNEXCUSED)
#define EXCUSED (watched_worker == shared_worker && watched / 2 < shared)
#else
#define EXCUSED false
#endif

/* ---- the store */

#define ROW table.row[w]

#if defined(ONE_TOKEN)
#define TOKEN(k) 1
#elif defined(TOKEN_KEPT)
#define TOKEN(k) leases[k].token
#else
#define TOKEN(k) k
#endif

#if defined(ACQUIRE_AT_CLOCK)
#define FROM c
#elif defined(ACQUIRE_READS_FIRST)
#define FROM max(ROW.read, c)
#else
#define FROM max(ROW.until, c)
#endif

#ifdef KEPT
#define FREE (ROW.owner == 0 || ROW.owner == TOKEN(k))
#define LATE STRAY
#else
#define FREE true
#define LATE true
#endif

/* Of token k, at clock c: the range [from, to) of worker w, unless the time has run out. */
inline acquire() {
  select(w : 0 .. WORKERS - 1);
  select(c : 0 .. TICKS - 1);
  /* Each owner has a tick at least, so there are no more; this keeps it so where a rule is missing. */
  from = (FREE && ROW.generation % FRESH < TICKS -> FROM : TICKS);
  if
  :: from < TICKS ->
     select(to : from + 1 .. TICKS);
     if
#ifdef SAME_RANGE
     :: ROW.owner == TOKEN(k) -> from = ROW.from; to = ROW.until
#endif
     :: ROW.owner != TOKEN(k) ->
        ROW.owner = TOKEN(k);
#ifndef GENERATION_KEPT
        ROW.generation++;
#endif
#ifdef SAME_RANGE
        ROW.from = from;
#endif
#ifdef TAKEN
        ROW.taken = from;
#endif
#ifdef ACQUIRE_READS_FIRST
        ROW.read = ROW.until;
#endif
        skip
     :: else -> STEP(1) /* asked for again: a later range, under the same generation */
     fi;
     ROW.until = max(ROW.until, to)
  :: else
  fi
}

#ifdef SWAP
/* What a swap compares. Each switch leaves one out. */
#ifdef SWAP_ANY_UNTIL
#define EQUAL_UNTIL(c) true
#else
#define EQUAL_UNTIL(c) (table.row[c.w].until == c.until)
#endif
#ifdef SWAP_ANY_TOKEN
#define EQUAL_TOKEN(c) true
#else
#define EQUAL_TOKEN(c) (table.row[c.w].owner == c.owner)
#endif
#ifdef SWAP_ANY_GENERATION
#define EQUAL_GENERATION(c) true
#else
#define EQUAL_GENERATION(c) (table.row[c.w].generation == c.generation)
#endif
#ifdef SWAP_ANY_NONCE
#define EQUAL_NONCE(c) true
#else
#define EQUAL_NONCE(c) (table.row[c.w].nonce == c.nonce)
#endif
#ifdef SWAP_ANY_TAKEN
#define EQUAL_TAKEN(c) true
#else
#define EQUAL_TAKEN(c) (table.row[c.w].taken == c.taken)
#endif
#define AS_READ(c) (EQUAL_UNTIL(c) && EQUAL_TOKEN(c) && EQUAL_GENERATION(c) && EQUAL_NONCE(c) && EQUAL_TAKEN(c))

inline send(x, lease_of, worker_of) {
  call[x].sent = true;
  call[x].k = lease_of; call[x].w = worker_of; call[x].from = from; call[x].to = to;
  call[x].until = table.row[worker_of].until; call[x].owner = table.row[worker_of].owner;
  call[x].generation = table.row[worker_of].generation; call[x].nonce = table.row[worker_of].nonce;
  call[x].taken = table.row[worker_of].taken
}

inline swap(c) {
  if
  :: c.extends ->
     table.row[c.w].owner = c.owner; table.row[c.w].generation = c.generation;
     table.row[c.w].taken = c.taken
  :: else ->
     table.row[c.w].owner = TOKEN(c.k);
     table.row[c.w].generation = c.generation + (c.owner == TOKEN(c.k) -> 0 : 1);
     table.row[c.w].taken = c.from
  fi;
  table.row[c.w].until = c.to;
  table.row[c.w].nonce = c.named
}

inline copy_call(a, b) {
  b.sent = a.sent; b.extends = a.extends; b.k = a.k; b.w = a.w; b.from = a.from; b.to = a.to;
  b.named = a.named; b.until = a.until; b.owner = a.owner; b.generation = a.generation;
  b.nonce = a.nonce; b.taken = a.taken
}

inline drop(c) {
  c.sent = false; c.extends = false; c.k = 0; c.w = 0; c.from = 0; c.to = 0; c.named = 0;
  c.until = 0; c.owner = 0; c.generation = 0; c.nonce = 0; c.taken = 0
}
#endif

#define ITS table.row[leases[k].worker]
#define SAME_TOKEN (ITS.owner == TOKEN(k))
#define SAME_GENERATION (ITS.generation == leases[k].generation)

#if defined(EXTEND_UNCHECKED)
#define OWNED true
#elif defined(EXTEND_BY_TOKEN)
#define OWNED SAME_TOKEN
#elif defined(EXTEND_BY_GENERATION)
#define OWNED SAME_GENERATION
#elif defined(EXTEND_UNOWNED)
#define OWNED (ITS.owner == 0 || SAME_TOKEN && SAME_GENERATION)
#else
#define OWNED (SAME_TOKEN && SAME_GENERATION)
#endif

#if defined(RELEASE_UNCHECKED)
#define RELEASES true
#elif defined(RELEASE_BY_TOKEN)
#define RELEASES SAME_TOKEN
#elif defined(RELEASE_BY_GENERATION)
#define RELEASES SAME_GENERATION
#else
#define RELEASES (SAME_TOKEN && SAME_GENERATION)
#endif

#ifdef EXTEND_UNNAMED
#define STRAY true
#elif GENERATORS == 2
#define STRAY (gen[0].lease != k && gen[1].lease != k)
#else
#define STRAY (gen[0].lease != k && gen[1].lease != k && gen[2].lease != k)
#endif

/* What generator g sends: the bound that it names, or the nonce of the one before. */
#ifdef EXTEND_UNNAMED
#define NAMED(g) true
#else
#define NAMED(g) (ITS.until == gen[g].until || ITS.nonce == gen[g].nonce && ITS.until >= gen[g].pending)
#endif

#ifdef NONCE_COPIED
#define NONCE (1 + me.until)
#else
#define NONCE (1 + me.until + i * TICKS)
#endif

/* What no row shows that has seen this lease and its bound: less than the bound; an older generation;
 * another owner under its own; a later owner's range that begins below the bound. */
#define LESS (ITS.until < me.until)
#define SAME_EPOCH (ITS.generation / FRESH == mine.generation / FRESH)
#define OLDER (SAME_EPOCH && ITS.generation < mine.generation)
#define TWO_OWNERS (ITS.generation == mine.generation && ITS.owner && ITS.owner != TOKEN(me.lease))
#define BELOW_BOUND (ITS.generation != mine.generation && ITS.taken < me.until)
#ifdef TAKEN
#define SHOWN (LESS || OLDER || TWO_OWNERS || BELOW_BOUND)
#else
#define SHOWN LESS
#endif

#if defined(EXTEND_GONE_BACK)
#define GONE_BACK false
#elif defined(LOST_BEFORE_GONE_BACK)
#define GONE_BACK (OWNED && SHOWN)
#elif defined(GONE_BACK_BY_BOUND)
#define GONE_BACK LESS
#elif defined(GONE_BACK_BY_GENERATION)
#define GONE_BACK (LESS || OLDER || TWO_OWNERS)
#elif defined(GONE_BACK_BY_RANGE)
#define GONE_BACK (LESS || BELOW_BOUND)
#else
#define GONE_BACK SHOWN
#endif

#ifdef EXTEND_LOWERS
#define EXTENDED to
#else
#define EXTENDED max(ITS.until, to)
#endif

#if defined(ACKNOWLEDGES_EARLY) || !defined(FAIL_OVER)
#define ACKNOWLEDGE skip
#else
#define ACKNOWLEDGE copy(table, durable)
#endif

inline raise_floor() {
  for (w : 0 .. WORKERS - 1) {
    ROW.until = max(ROW.until, floor);
#ifdef TAKEN
    ROW.taken = ROW.until;
#endif
#if !defined(FENCE_KEEPS_OWNER) && !defined(FENCE_KEEPS_BOTH)
    ROW.owner = 0;
#endif
#if !defined(FENCE_KEEPS_GENERATION) && !defined(FENCE_KEEPS_BOTH)
    ROW.generation = FRESH;
#endif
  }
  ACKNOWLEDGE;
  floor = 0
}

inline highest() {
  for (w : 0 .. WORKERS - 1) { floor = max(floor, table.row[w].until) }
}

/* ---- a generator, and what starts in its place after a crash */

#if defined(FOLLOWS_CLOCK)
#define ID (2 * c)
#else
#define ID max(me.next, 2 * c)
#endif

#if defined(OTHER_LAYOUT) /* the second writes a timestamp that is one more than that it leases */
#define VALUE (x + 2 * i)
#else
#define VALUE x
#endif

#if defined(CHECKS_NOTHING)
#define BELOW (x < 2 * TICKS)
#elif defined(CHECKS_CLOCK)
#define BELOW (x < 2 * TICKS && c < me.until)
#elif defined(CHECKS_BEFORE_CARRY)
#define BELOW (x < 2 * TICKS && max(c, max(me.next, 1) - 1 >> 1) < me.until)
#else
#define BELOW (x / 2 < me.until)
#endif

#if defined(STARTS_AT_CLOCK)
#define FIRST me.next
#elif defined(FORGETS_LAST)
#define FIRST 2 * from
#else
#define FIRST max(me.next, 2 * from)
#endif

#ifdef SWAP
#define NO_ANSWER drop(call[i]) /* it may still be applied late */
#else
#define NO_ANSWER skip
#endif

inline settled() {
  me.pending = 0; me.nonce = 0
}

inline forget() {
  me.lease = 0; me.until = 0; settled()
}

proctype Generate(byte i) {
  do
  /* an acquire, with a fresh token; that of one before it, of unknown outcome, is forgotten */
  :: atomic {
       !me.stopped && acquires < LEASES ->
       acquires++;
       me.asked = acquires; NO_ANSWER;
#ifdef TOKEN_KEPT
       if :: me.token == 0 -> me.token = acquires :: else fi;
       leases[acquires].token = me.token
#endif
     }
#ifdef SWAP
  /* an acquire reads a row, and decides */
  :: atomic {
       me.asked && !call[i].sent ->
       select(w : 0 .. WORKERS - 1);
       select(c : 0 .. TICKS - 1);
       from = (ROW.generation % FRESH < TICKS -> max(ROW.until, c) : TICKS);
       if
       :: from < TICKS ->
          select(to : from + 1 .. TICKS);
          send(i, me.asked, w);
          call[i].named = ROW.nonce;
          STEP(8)
       :: else
       fi
     }
  /* its swap, and the answer. A loser reads again, or asks no more */
  :: atomic {
       call[i].sent && !call[i].extends && me.asked == call[i].k ->
       if
       :: AS_READ(call[i]) ->
          swap(call[i]);
          ACKNOWLEDGE;
          k = call[i].k; from = call[i].from; w = call[i].w;
          leases[k].worker = w; leases[k].generation = ROW.generation;
          me.lease = k; me.until = call[i].to; me.next = FIRST;
          me.asked = 0; settled()
       :: else -> STEP(9)
       fi;
       drop(call[i])
     }
  /* an extension reads its row, and decides. What it was after the last swap is read as well as if
   * it were read then: so the guess that saves the reading needs no step of its own */
  :: atomic {
       me.pending && !me.stopped && !call[i].sent ->
       k = me.lease; to = me.pending;
#ifdef ALARM
       assert(!(SHOWN));
#endif
       if :: SHOWN -> me.shown = true :: else fi;
       if
       :: GONE_BACK -> me.stopped = true; settled(); STEP(6)
       :: !GONE_BACK && OWNED && NAMED(i) ->
          to = max(ITS.until, to); from = 0; w = leases[k].worker;
          send(i, k, w);
          call[i].extends = true; call[i].named = me.nonce
       :: else ->
          settled();
          STEP(3); STEP((forked -> 7 : 0)); LOSE
       fi
     }
  :: atomic {
       call[i].sent && call[i].extends && me.pending && me.lease == call[i].k ->
       if
       :: AS_READ(call[i]) -> swap(call[i]); ACKNOWLEDGE; me.until = me.pending; settled(); STEP(2)
       :: else
       fi;
       drop(call[i])
     }
#ifdef ACKNOWLEDGES_READ /* an extension that is found applied is taken for acknowledged */
  :: atomic {
       me.pending && !me.stopped ->
       k = me.lease;
       if
       :: OWNED && ITS.nonce == me.nonce && ITS.until >= me.pending -> me.until = me.pending; settled()
       :: else
       fi
     }
#endif
  :: atomic { call[i].sent -> drop(call[i]) } /* no answer */
#else
  /* its answer: a lease in the place of the one before, which may have been lost */
  :: atomic {
       me.asked ->
       k = me.asked;
       acquire();
       if
       :: from < TICKS ->
          ACKNOWLEDGE;
          leases[k].worker = w; leases[k].generation = ROW.generation;
          me.lease = k; me.until = to; me.next = FIRST;
          me.asked = 0; settled()
       :: else
       fi
     }
#endif
  /* an extension; once its outcome is unknown it is asked for again until there is an answer */
  :: atomic {
       me.lease && me.until < TICKS && !me.pending && !me.stopped ->
       select(to : me.until + 1 .. TICKS);
#ifdef BOUND_AT_SENDING
       me.until = to
#else
       me.pending = to; me.nonce = NONCE
#endif
     }
#if !defined(KEPT) || defined(PENDING_FORGOTTEN)
  :: atomic { me.pending -> settled(); NO_ANSWER }
#endif
#ifndef SWAP
  /* its answer */
  :: atomic {
       me.pending && !me.stopped ->
       k = me.lease; to = me.pending;
#ifdef ALARM
       assert(!(SHOWN));
#endif
       if :: SHOWN -> me.shown = true :: else fi;
       if
       :: GONE_BACK -> me.stopped = true; settled(); STEP(6)
       :: !GONE_BACK && OWNED && NAMED(i) ->
          ITS.until = EXTENDED;
          ITS.nonce = me.nonce;
          ACKNOWLEDGE;
          me.until = to;
          settled();
          STEP(2)
       :: else -> /* lost: what is below the bound may still be minted */
          settled();
          STEP(3); STEP((forked -> 7 : 0)); LOSE; KEEP
       fi
     }
#endif
  /* check: the timestamp of the id itself, once the sequence has carried */
  :: atomic {
       me.lease && !me.stopped ->
       select(c : 0 .. TICKS - 1);
       x = ID;
       if
       :: BELOW ->
          assert(!me.shown);
#ifdef ORDER
          assert(!me.minted || x > watched);
#endif
          me.next = x + 1;
          if
          :: VALUE == watched && mine.worker == watched_worker ->
             me.passed = true;
#ifdef ORDER
             me.minted = true
#endif
          :: else
          fi;
#ifdef FENCE_SEEN
          seen = max(seen, x / 2 + 1)
#endif
       :: else
       fi
     }
  /* return: however much later */
  :: atomic {
       me.passed ->
       STEP((me.lost && me.lease != me.lost -> 4 : 0));
#ifndef UNFENCED
       assert(!returned || EXCUSED);
#endif
       returned = true;
       me.passed = false
     }
  /* release: the row is cleared by the network, at any time */
  :: atomic { me.lease && !me.passed -> SEND_RELEASE; forget(); NO_ANSWER; STEP(5) }
  /* crash, and a new start without memory */
  :: atomic {
       forget(); NO_ANSWER;
       me.asked = 0; me.next = 0; me.token = 0; me.lost = 0;
       me.passed = false; me.minted = false; me.shown = false; me.stopped = false
     }
#ifdef COPY
  /* all that the other one is, in the place of one that is nothing */
  :: atomic {
       !forked && !me.lease && !me.asked && !me.passed && (gen[1 - i].lease || gen[1 - i].asked) ->
       forked = true;
       me.asked = gen[1 - i].asked; me.lease = gen[1 - i].lease;
       me.until = gen[1 - i].until; me.next = gen[1 - i].next;
       me.pending = gen[1 - i].pending; me.nonce = gen[1 - i].nonce;
       me.passed = gen[1 - i].passed; me.lost = gen[1 - i].lost;
       me.shown = gen[1 - i].shown; me.stopped = gen[1 - i].stopped;
#ifdef SWAP
       copy_call(call[1 - i], call[i]);
#endif
       if
       :: me.lease -> shared = max(me.until, me.pending); shared_worker = mine.worker
       :: else
       fi
     }
#endif
#ifdef FORK_INHERITS
  :: atomic {
       me.lease == 0 && gen[1 - i].lease ->
       me.lease = gen[1 - i].lease; me.until = gen[1 - i].until; me.next = gen[1 - i].next
     }
#endif
  od
}

/* ---- what nobody answers: requests late, repeated or without a reply; fail-over, operators */

proctype World() {
  do
#ifdef SWAP
  /* a swap is applied, and its sender has no answer; now or late, once or often */
  :: atomic {
       select(x : 0 .. GENERATORS - 1);
       if
       :: call[x].sent && AS_READ(call[x]) -> swap(call[x])
       :: call[x].sent -> copy_call(call[x], late)
       :: else
       fi
     }
  :: atomic { late.sent && AS_READ(late) -> swap(late) }
#else
  :: atomic {
       acquires ->
       select(k : 1 .. acquires);
       if
       :: LATE -> acquire()
       :: else
       fi
     }
  /* an extension that is pending */
  :: atomic {
       select(x : 0 .. GENERATORS - 1);
       if
       :: gen[x].pending ->
          k = gen[x].lease; to = gen[x].pending;
          if
          :: OWNED && NAMED(x) -> ITS.until = EXTENDED; ITS.nonce = gen[x].nonce
          :: else
          fi
       :: else
       fi
     }
  /* one of a generator that crashed, or lost its lease. It may name any bound, so also the right one;
   * of an older program, which names none, any other too */
  :: atomic {
       acquires ->
       select(k : 1 .. acquires);
       select(to : 1 .. TICKS);
       if
       :: leases[k].generation && OWNED && STRAY -> ITS.until = EXTENDED; ITS.nonce = 0
       :: else
       fi
     }
#endif
#ifdef KEPT
  :: atomic {
       acquires ->
       select(k : 1 .. acquires);
       if
       :: leases[k].released && RELEASES -> ITS.owner = 0
       :: else
       fi
     }
#else
  :: atomic {
       select(w : 0 .. WORKERS - 1);
       ROW.owner = 0;
#ifdef RELEASE_LOWERS
       select(c : 0 .. TICKS);
       ROW.until = (c < ROW.until -> c : ROW.until)
#endif
     }
#endif
  /* fail-over: what was not durable is gone */
#ifdef FAIL_OVER
  :: atomic { copy(durable, table) }
#endif
#ifdef RAISE
  :: atomic { !raised -> raised = true; select(floor : 0 .. TICKS); raise_floor() }
#endif
#ifdef RESTORE
  :: atomic {
       !copied ->
       copied = true;
       copy(table, backup);
#ifdef FENCE_EARLY
       highest()
#endif
     }
  :: atomic {
       copied && !restored ->
       restored = true;
#if defined(FENCE_SEEN)
       floor = seen;
#elif !defined(FENCE_EARLY)
       highest();
#endif
       copy(backup, table);
       copy(nothing, backup);
#if !defined(FENCE_LATE) && !defined(UNFENCED)
       raise_floor()
#endif
     }
#ifdef FENCE_LATE
  :: atomic { restored && !raised -> raised = true; raise_floor() }
#endif
#endif
#ifdef ROW_EXPIRES
  :: atomic { select(w : 0 .. WORKERS - 1); ROW.until = 0; ROW.owner = 0; ROW.generation = 0 }
#endif
  od
}

init {
  atomic {
    select(watched : 0 .. 2 * TICKS - 1);
    select(watched_worker : 0 .. WORKERS - 1);
    run World();
    for (x : 0 .. GENERATORS - 1) { run Generate(x) }
  }
}
