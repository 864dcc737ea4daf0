/* The ask protocol (see README.md here): two pods and a native job want one device, which one node has.
 *
 * Every actor does one step at a time; whatever two steps can happen in either order are tried in both. Each step has a guard of its own,
 * CAN_…, and a run is quiet when no guard but those of faults and people holds: then everything must be as it should be (quiet, below).
 * -DBUG_… takes one rule of the protocol away: then spin must find what that rule is for. -DLIVELOCK: searched for cycles instead, for every
 * run must come to its end. -DKUBELET: a real kubelet starts the containers and asks nobody; the agent's gate sees pods and processes, and fences
 * (docs/design/0010). */
/* rows: A6.6 A7.4 */
#define IDS 4    /* job ids that slurmctld gives out, and … */
#define STARTS 4 /* … starts of jobs: runs that need more are cut there */
#ifndef FAULTS
#define FAULTS 2 /* a crash of the bridge, of the agent; a kill -9 of slurmctld (once at most); a lost or late request or reply */
#endif
#ifndef USERS
#define USERS 1 /* scancel; kubectl delete, with or without --force; a pod that may not run where it was granted; a container that dies */
#endif

#define NATIVE 2 /* the "ask" of the native job; 0 and 1 are the pods */
/* jobs */
#define NO 0
#define PEND 1
#define RUN 2
#define END 3
/* pods */
#define WAIT 0
#define BOUND 1
#define LEAVING 2
#define GONE 3
/* what the bridge knows about an ask's job */
#define NONE 0
#define UNSURE 1
#define READ 2
/* containers */
#define OFF 0
#define WANTED 1
#define ON 2

typedef Job {
	byte st;
	byte ask;
	byte start
};
Job job[IDS + 1];   /* slurmctld's */
Job saved[IDS + 1]; /* its last state save, while a kill may come */
byte next = 1, saved_next = 1;
byte clock = 0; /* start times: no two are the same */
bit cut = 0;    /* ids or starts ran out: nothing more is looked at */

/* what the checks know, and not the actors */
bit native[STARTS + 1];    /* that start was the native job's */
bit ended[STARTS + 1];     /* that grant has ended, in slurmctld's eyes */
bit gave_back[STARTS + 1]; /* the bridge ended that job of an unbound pod */

byte prolog[STARTS + 1]; /* of a start: 0, 1: claimed at the gate, 2: passed, 3: refused, 4: there is none, it is a pod's allocation */
byte hold = 0;           /* the agent's durable table: the start that holds the device; 0: nobody */
bit prev[STARTS + 1];    /* earlier holders that are not known to be gone */
bit past[STARTS + 1];    /* all earlier holders: none of them is let in again */
byte process = 0;        /* of the native job: its start; 0: none */

byte pod[2], gjob[2], gstart[2], epoch[2]; /* the API's: state, the grant it carries, its epoch (resourceVersion) */
byte ctr[2], cstart[2];
#ifdef KUBELET
byte whose[STARTS + 1]; /* the ask that a start's comment names */
byte fence[2];          /* the start that the pod was fenced for, last */
#endif

/* the bridge's memory */
byte know[2], jid[2];
bit waits[2]; /* for the reply to a submit or a Binding */
/* messages on their way: they outlive who sent them */
bit sub[2];   /* a submit whose reply is waited for */
byte late[2]; /* submits that nobody waits for any more */
byte bstart[2], bjob[2], bepoch[2];
bit unfit[2], checked[2];

byte faults = FAULTS, users = USERS;
bit rolled = 0, snapped = 0;
byte i, k; /* scratch, 0 between steps */

#define ALIVE(n) (job[n].st == PEND || job[n].st == RUN)
#ifdef BUG_NO_UID
#define OURS(n, a) (job[n].st != NO)
#else
#define OURS(n, a) (job[n].st != NO && job[n].ask == a)
#endif
#define DEVICE_FREE (ctr[0] != ON && ctr[1] != ON && process == 0)
/* a process of that start lives on the device, or is about to be started */
#define BUSY(s) ((ctr[0] != OFF && cstart[0] == s) || (ctr[1] != OFF && cstart[1] == s) || process == s)
#ifdef KUBELET
/* A pod of that start is bound, so its kubelet may start it at any time. */
#define HERE(a, s) ((pod[a] == BOUND || pod[a] == LEAVING) && gstart[a] == s)
#define CAN_PROVE(s) (prev[s] && !BUSY(s) && !HERE(0, s) && !HERE(1, s))
#define EARLIER_LEFT (prev[1] || prev[2] || prev[3] || prev[4])
#define FENCED(a) (fence[a] != 0 && fence[a] == job[jid[a]].start)
#else
#define FENCED(a) (false)
#define EARLIER_LEFT ((prev[1] && BUSY(1)) || (prev[2] && BUSY(2)) || (prev[3] && BUSY(3)) || (prev[4] && BUSY(4)))
#endif
#define ANY(what) (job[1].st == what || job[2].st == what || job[3].st == what || job[4].st == what)
#define FIRST(what) (job[1].st == what -> 1 : (job[2].st == what -> 2 : (job[3].st == what -> 3 : 4)))
#define RUNNING_START job[FIRST(RUN)].start

inline stop_here()
{
	/* one state for all runs that ended at a bound */
	for (i : 0 .. 1) {
		pod[i] = GONE; gjob[i] = 0; gstart[i] = 0; epoch[i] = 0; ctr[i] = OFF; cstart[i] = 0; know[i] = NONE; jid[i] = 0; waits[i] = 0;
		sub[i] = 0; late[i] = 0; bstart[i] = 0; bjob[i] = 0; bepoch[i] = 0; unfit[i] = 0; checked[i] = 0
	}
#ifdef KUBELET
	fence[0] = 0; fence[1] = 0;
#endif
	for (i : 1 .. IDS) {
		job[i].st = NO; job[i].ask = 0; job[i].start = 0; saved[i].st = NO; saved[i].ask = 0; saved[i].start = 0
	}
	for (i : 1 .. STARTS) {
#ifdef KUBELET
		whose[i] = 0;
#endif
		native[i] = 0; ended[i] = 0; gave_back[i] = 0; prolog[i] = 0; prev[i] = 0; past[i] = 0
	}
	next = 1; saved_next = 1; clock = 0; hold = 0; process = 0; faults = 0; users = 0; rolled = 0; snapped = 0;
	i = 0; k = 0;
	cut = 1
}

inline end_job(n)
{
	if
	:: job[n].st == RUN -> ended[job[n].start] = 1
	:: else
	fi;
	job[n].st = END
}

inline take(a) /* slurmctld takes a job */
{
	if
	:: next <= IDS ->
		job[next].st = PEND; job[next].ask = a; job[next].start = 0;
		next++
	:: else -> stop_here()
	fi
}

inline no_snapshot()
{
	for (i : 1 .. IDS) {
		saved[i].st = NO; saved[i].ask = 0; saved[i].start = 0
	}
	saved_next = 1; snapped = 0; i = 0
}

/* ---- slurmctld, and slurmd on the node ---- */
inline run_job(n)
{
	if
	:: clock == STARTS -> stop_here()
	:: else ->
		clock++;
		job[n].st = RUN; job[n].start = clock;
#ifdef KUBELET
		whose[clock] = job[n].ask;
#endif
		native[clock] = (job[n].ask == NATIVE)
	fi
}

#define CAN_START (!ANY(RUN) && ANY(PEND))
#ifdef KUBELET
#define CAN_CLAIM (ANY(RUN) && prolog[RUNNING_START] == 0) /* PrologFlags=Alloc: for every job */
#define CAN_CLAIM_TOO (false)
#else
#define CAN_CLAIM (ANY(RUN) && prolog[RUNNING_START] == 0 && native[RUNNING_START]) /* at its first launch */
#define CAN_CLAIM_TOO (ANY(RUN) && prolog[RUNNING_START] == 0 && !native[RUNNING_START]) /* a stand-in that is a batch job; an allocation has none */
#endif
#define CAN_PASS (hold != 0 && prolog[hold] == 1 && !EARLIER_LEFT)
#define CAN_REFUSE (ANY(RUN) && prolog[RUNNING_START] == 1 && hold != RUNNING_START)
#define CAN_EXEC (process == 0 && hold != 0 && native[hold] && prolog[hold] == 2 && !ended[hold])
#define CAN_FINISH (process != 0 && !ended[process])
#define CAN_KILL (process != 0 && ended[process])
inline supersede(s) /* the agent's table: s is the holder now */
{
	if
	:: hold != 0 && hold != s -> prev[hold] = 1; past[hold] = 1
	:: else
	fi;
	hold = s
}

proctype Slurm()
{
end:	do
#ifdef IN_ORDER
	:: d_step { CAN_START -> k = FIRST(PEND); run_job(k); k = 0 }
#else
	:: d_step { CAN_START && job[1].st == PEND -> run_job(1) } /* the device is free in its eyes: any that waits may be first */
	:: d_step { CAN_START && job[2].st == PEND -> run_job(2) }
	:: d_step { CAN_START && job[3].st == PEND -> run_job(3) }
	:: d_step { CAN_START && job[4].st == PEND -> run_job(4) }
#endif
	:: d_step { CAN_CLAIM || CAN_CLAIM_TOO -> /* Prolog acquires: it claims … */
		k = RUNNING_START;
		prolog[k] = 1;
		if
		:: past[k] /* … in vain */
		:: else -> supersede(k)
		fi;
		k = 0 }
	:: d_step { CAN_PASS -> /* … and waits until nobody earlier is left */
		prolog[hold] = 2;
		prev[1] = 0; prev[2] = 0; prev[3] = 0; prev[4] = 0 }
	:: d_step { CAN_REFUSE -> /* its devices went on meanwhile: Prolog fails, and the job with it */
		k = FIRST(RUN);
		prolog[job[k].start] = 3;
		end_job(k);
		k = 0 }
	:: d_step { CAN_EXEC -> assert(DEVICE_FREE); /* I2 */ process = hold }
	:: d_step { CAN_FINISH -> k = FIRST(RUN); assert(job[k].start == process); end_job(k); process = 0; k = 0 } /* the native job is done */
	:: d_step { CAN_KILL -> process = 0 } /* some time after its job ended */
	od
}

/* ---- the agent: the gate and the containers ---- */
#ifdef KUBELET
#define CAN_WANT(a) (ctr[a] == OFF && pod[a] == BOUND)
#define CAN_RUN(a) (false)
#elif defined(BUG_CHECK_FIRST)
#define CAN_WANT(a) (ctr[a] == OFF && pod[a] == BOUND && hold == gstart[a] && !EARLIER_LEFT && !checked[a])
#define CAN_RUN(a) (checked[a])
#else
#ifdef BUG_NO_ACQUIRE
#define CAN_WANT(a) (ctr[a] == OFF && pod[a] == BOUND && !past[gstart[a]] && hold <= gstart[a])
#elif defined(BUG_NO_WAIT)
#define CAN_WANT(a) (ctr[a] == OFF && pod[a] == BOUND && hold == gstart[a])
#else
#define CAN_WANT(a) (ctr[a] == OFF && pod[a] == BOUND && hold == gstart[a] && !EARLIER_LEFT)
#endif
#define CAN_RUN(a) (ctr[a] == WANTED)
#endif
/* Nobody asked for a pod's devices before it was bound: the agent acquires them, unless it comes late: its start was superseded, or the holder's
 * is a later one. */
#ifdef BUG_LET_IN_LATE
#define LATE(a) (past[gstart[a]])
#else
#define LATE(a) (past[gstart[a]] || hold > gstart[a])
#endif
#ifdef KUBELET
#define CAN_FAIL(a) (false)
#define CAN_ACQUIRE(a) (false)
#else
#define CAN_FAIL(a) (pod[a] == BOUND && hold != gstart[a] && LATE(a) && ctr[a] != WANTED && !checked[a])
#define CAN_ACQUIRE(a) (pod[a] == BOUND && hold != gstart[a] && !LATE(a) && ctr[a] == OFF && !checked[a])
#endif
#define CAN_STOP(a) ((pod[a] == LEAVING || pod[a] == GONE) && ctr[a] != OFF)
#define CAN_GO(a) (pod[a] == LEAVING && ctr[a] == OFF && !checked[a])

#ifdef KUBELET
/* The gate: an earlier holder is proven gone. Its pod that waits is fenced before: a Binding on its way fails then. */
inline prove(s)
{
	d_step { CAN_PROVE(s) ->
#ifndef BUG_NO_FENCE
		if
		:: !native[s] && pod[whose[s]] == WAIT -> epoch[whose[s]]++; fence[whose[s]] = s
		:: else
		fi;
#endif
		prev[s] = 0 }
}
#endif

inline container(a)
{
	if
#ifdef KUBELET
	:: d_step { CAN_WANT(a) -> assert(DEVICE_FREE); /* I2 */ ctr[a] = ON; cstart[a] = gstart[a] }
#elif defined(BUG_CHECK_FIRST)
	:: d_step { CAN_WANT(a) -> checked[a] = 1; cstart[a] = gstart[a] }
	:: d_step { CAN_RUN(a) -> checked[a] = 0; assert(DEVICE_FREE); /* I2 */ ctr[a] = ON }
#else
	/* It marks itself busy, then asks whether it may start; a claimer writes the table, then asks who is busy. */
	:: d_step { CAN_WANT(a) -> ctr[a] = WANTED; cstart[a] = gstart[a] }
	:: d_step { CAN_RUN(a) ->
		if
#ifdef BUG_NO_ACQUIRE
		:: !past[cstart[a]] && hold <= cstart[a] ->
#else
		:: hold == cstart[a] ->
#endif
			assert(DEVICE_FREE); /* I2 */
			ctr[a] = ON
		:: else -> ctr[a] = OFF; cstart[a] = 0
		fi }
#endif
#ifndef KUBELET
	:: d_step { CAN_ACQUIRE(a) -> supersede(gstart[a]) } /* then it waits until nobody earlier is left */
	/* its devices went on to somebody else: nothing is started any more, what runs is stopped, the pod is Failed */
	:: d_step { CAN_FAIL(a) -> assert(ended[gstart[a]]); /* I4: nothing is killed that should live */
		ctr[a] = OFF; cstart[a] = 0; pod[a] = LEAVING }
#endif
	/* the pod is ending, or was deleted by force: its processes go, some time later; then its object */
	:: d_step { CAN_STOP(a) -> ctr[a] = OFF; cstart[a] = 0 }
	:: d_step { CAN_GO(a) -> pod[a] = GONE; gjob[a] = 0; gstart[a] = 0 }
	fi
}

proctype Agent()
{
end:	do
	:: container(0)
	:: container(1)
#ifdef KUBELET
	:: prove(1)
	:: prove(2)
	:: prove(3)
	:: prove(4)
#endif
	od
}

/* ---- messages: each arrives some time, once ---- */
#define CAN_LAND(a) (sub[a] || late[a] > 0 || bstart[a] != 0)
inline message(a)
{
	if
	:: d_step { sub[a] -> /* a submit, and its reply */
		sub[a] = 0; waits[a] = 0;
		know[a] = READ; jid[a] = next;
		take(a) }
	:: d_step { sub[a] && faults > 0 -> faults--; /* the reply is lost */
		sub[a] = 0; waits[a] = 0;
		know[a] = UNSURE;
		take(a) }
	:: d_step { sub[a] && faults > 0 -> faults--; sub[a] = 0; waits[a] = 0; know[a] = UNSURE }            /* the request is lost */
	:: d_step { sub[a] && faults > 0 -> faults--; sub[a] = 0; late[a]++; waits[a] = 0; know[a] = UNSURE } /* it is late */
	:: d_step { late[a] > 0 -> late[a]--; take(a) }
	:: d_step { bstart[a] != 0 -> /* a Binding: uid and resourceVersion must match. A lost reply is the same: the pod is read again */
		if
		:: pod[a] == WAIT && bepoch[a] == epoch[a] ->
			assert(!gave_back[bstart[a]] || (job[bjob[a]].st == RUN && job[bjob[a]].start == bstart[a])); /* I1 */
			pod[a] = BOUND; gjob[a] = bjob[a]; gstart[a] = bstart[a]
		:: else
		fi;
		bstart[a] = 0; bjob[a] = 0; bepoch[a] = 0; waits[a] = 0 }
	:: d_step { bstart[a] != 0 && waits[a] && faults > 0 -> faults--; waits[a] = 0 } /* it is late */
	fi
}

proctype Network()
{
end:	do
	:: message(0)
	:: message(1)
	od
}

/* ---- the bridge ---- */
#define LIVE(a) \
	((ALIVE(1) && job[1].ask == a) + (ALIVE(2) && job[2].ask == a) + (ALIVE(3) && job[3].ask == a) + (ALIVE(4) && job[4].ask == a))
#define KNOWN(a) (know[a] == READ && jid[a] != 0 && ALIVE(jid[a]) && job[jid[a]].ask == a)
#define GRANT_HOLDS(a) (job[gjob[a]].st == RUN && OURS(gjob[a], a) && job[gjob[a]].start == gstart[a])
#define JOB_ENDED(a) (!OURS(jid[a], a) || job[jid[a]].st == END)
#define GRANTED(a) (OURS(jid[a], a) && job[jid[a]].st == RUN)
#ifdef BUG_NO_LISTING
#define CAN_LIST(a) (!waits[a] && know[a] == UNSURE)
#else
#define CAN_LIST(a) (!waits[a] && (know[a] == UNSURE || LIVE(a) > KNOWN(a)))
#endif
#define CAN_SUBMIT(a) (pod[a] == WAIT && !waits[a] && know[a] == NONE)
#define CAN_FORGET(a) (pod[a] == WAIT && !waits[a] && know[a] == READ && JOB_ENDED(a))
#ifdef KUBELET
#define PASSED(a) (prolog[job[jid[a]].start] == 2)
#else
#define PASSED(a) (prolog[job[jid[a]].start] != 1 && prolog[job[jid[a]].start] != 3) /* a batch job has knocked; an allocation has no prolog */
#endif
#define CAN_BIND(a) (pod[a] == WAIT && !waits[a] && know[a] == READ && bstart[a] == 0 && !unfit[a] && !FENCED(a) && GRANTED(a) && PASSED(a))
#define CAN_GIVE_BACK(a) (pod[a] == WAIT && !waits[a] && know[a] == READ && (unfit[a] || FENCED(a)) && GRANTED(a))
#define CAN_ADOPT(a) (pod[a] == BOUND && !waits[a] && know[a] != UNSURE && (know[a] != READ || jid[a] != gjob[a]))
#define CAN_END_POD(a) (pod[a] == BOUND && !waits[a] && know[a] == READ && jid[a] == gjob[a] && !GRANT_HOLDS(a))
#define CAN_RELEASE(a) (pod[a] == GONE && !waits[a] && know[a] == READ)

inline one(a)
{
	if
	/* A complete listing (after a doubt, at the start, as a slow net): the ask gets its job, its extras end (I3). */
	:: d_step { CAN_LIST(a) ->
		for (i : 1 .. IDS) {
			if
			:: ALIVE(i) && job[i].ask == a && (k == 0 || (pod[a] == BOUND && i == gjob[a]) ||
				(job[i].st == RUN && job[k].st != RUN && !(pod[a] == BOUND && k == gjob[a]))) -> k = i
			:: else
			fi
		}
		for (i : 1 .. IDS) {
			if
			:: ALIVE(i) && job[i].ask == a && i != k -> end_job(i)
			:: else
			fi
		}
		know[a] = (k != 0 -> READ : NONE);
		jid[a] = k;
		i = 0; k = 0 }
	/* a pod that waits */
	:: d_step { CAN_SUBMIT(a) -> waits[a] = 1; sub[a] = 1 }
	:: d_step { CAN_FORGET(a) ->
		if
		:: OURS(jid[a], a) && job[jid[a]].start == 0 -> pod[a] = GONE /* scancel of a waiting job means the pod */
		:: else -> know[a] = NONE
		fi;
		jid[a] = 0 }
	:: d_step { CAN_BIND(a) ->
#ifndef KUBELET
		if
		:: prolog[job[jid[a]].start] == 0 -> prolog[job[jid[a]].start] = 4
		:: else
		fi;
#endif
		waits[a] = 1; bstart[a] = job[jid[a]].start; bjob[a] = jid[a]; bepoch[a] = epoch[a] }
	/* granted, and given back: first the epoch, so that a Binding on its way fails; then the job */
	:: d_step { CAN_GIVE_BACK(a) ->
		unfit[a] = 0;
#ifndef BUG_NO_EPOCH
		epoch[a]++;
#endif
		gave_back[job[jid[a]].start] = 1;
		end_job(jid[a]);
		know[a] = NONE; jid[a] = 0 }
	/* a bound pod: it says which job is its grant, another one is an extra; all of the grant is compared */
	:: d_step { CAN_ADOPT(a) ->
		if
		:: know[a] == READ && jid[a] != 0 && ALIVE(jid[a]) && job[jid[a]].ask == a -> end_job(jid[a])
		:: else
		fi;
		know[a] = READ; jid[a] = gjob[a] }
	:: d_step { CAN_END_POD(a) -> assert(ended[gstart[a]]); /* I4 */ pod[a] = LEAVING }
	/* no pod: no job. The read and the DELETE are one step here: Slurm has no compare-and-swap */
	:: d_step { CAN_RELEASE(a) ->
		if
		:: jid[a] != 0 && OURS(jid[a], a) && ALIVE(jid[a]) ->
			assert(job[jid[a]].ask == a); /* I5 */
			end_job(jid[a])
		:: else
		fi;
		know[a] = NONE; jid[a] = 0 }
	fi
}

proctype Bridge()
{
end:	do
	:: one(0)
	:: one(1)
	od
}

/* ---- what goes wrong, and what people do ---- */
inline user(a)
{
	if
	:: d_step { users > 0 && pod[a] == WAIT -> users--; pod[a] = GONE }
	:: d_step { users > 0 && pod[a] == BOUND -> users--; pod[a] = LEAVING }
	:: d_step { users > 0 && (pod[a] == BOUND || pod[a] == LEAVING) -> users--; pod[a] = GONE; gjob[a] = 0; gstart[a] = 0 } /* --force */
	:: d_step { users > 0 && pod[a] == WAIT && !unfit[a] -> users--; unfit[a] = 1 }
	:: d_step { users > 0 && pod[a] == BOUND && ctr[a] == ON -> users--; ctr[a] = OFF; cstart[a] = 0 } /* it is started again */
	fi
}

proctype Chance()
{
end:	do
	:: user(0)
	:: user(1)
	:: d_step { users > 0 && ALIVE(1) -> users--; end_job(1) } /* scancel, preemption, a time limit */
	:: d_step { users > 0 && ALIVE(2) -> users--; end_job(2) }
	:: d_step { users > 0 && ALIVE(3) -> users--; end_job(3) }
	:: d_step { users > 0 && ALIVE(4) -> users--; end_job(4) }
	/* the bridge dies: the next one knows what the two APIs say; requests go on their way */
	:: d_step { faults > 0 -> faults--;
		for (i : 0 .. 1) {
			know[i] = UNSURE; jid[i] = 0; waits[i] = 0;
			late[i] = late[i] + sub[i];
			sub[i] = 0
		}
		i = 0 }
	/* the agent dies: its table is on disk, containers live on, who waits at the gate asks again */
	:: d_step { faults > 0 -> faults--;
		for (i : 0 .. 1) {
			if
			:: ctr[i] == WANTED -> ctr[i] = OFF; cstart[i] = 0
			:: else
			fi;
			checked[i] = 0
		}
		for (i : 1 .. STARTS) {
			if
			:: prolog[i] == 1 -> prolog[i] = 0
			:: else
			fi
		}
#ifdef BUG_TABLE_IN_MEMORY
		for (i : 1 .. STARTS) {
			prev[i] = 0; past[i] = 0
		}
		hold = 0;
#endif
		i = 0 }
	/* slurmctld saves its state, and is killed later: acknowledged jobs vanish, ended ones come back, running ones may be pending */
	:: d_step { faults > 0 && !rolled && !snapped -> snapped = 1;
		for (i : 1 .. IDS) {
			saved[i].st = job[i].st; saved[i].ask = job[i].ask; saved[i].start = job[i].start
		}
		saved_next = next;
		i = 0 }
	:: d_step { faults > 0 && snapped -> faults--; rolled = 1;
		for (i : 1 .. IDS) {
			if
			:: job[i].st == RUN && !(saved[i].st == RUN && saved[i].start == job[i].start) -> ended[job[i].start] = 1
			:: else
			fi;
			job[i].st = saved[i].st; job[i].ask = saved[i].ask; job[i].start = saved[i].start
		}
		next = saved_next;
		no_snapshot() }
	od
}

/* ---- nobody can do anything any more: everything is as it should be ---- */
#define IDLE(a) !(CAN_WANT(a) || CAN_RUN(a) || CAN_FAIL(a) || CAN_ACQUIRE(a) || CAN_STOP(a) || CAN_GO(a) || CAN_LAND(a) || CAN_LIST(a) || CAN_SUBMIT(a) || \
		  CAN_FORGET(a) || CAN_BIND(a) || CAN_GIVE_BACK(a) || CAN_ADOPT(a) || CAN_END_POD(a) || CAN_RELEASE(a))
#ifdef KUBELET
#define PROVEN (!CAN_PROVE(1) && !CAN_PROVE(2) && !CAN_PROVE(3) && !CAN_PROVE(4))
#else
#define PROVEN (true)
#endif
#define QUIET (!cut && PROVEN && !CAN_START && !CAN_CLAIM && !CAN_PASS && !CAN_REFUSE && !CAN_EXEC && !CAN_FINISH && !CAN_KILL && IDLE(0) && IDLE(1))
inline right(a)
{
	assert(pod[a] != LEAVING && know[a] != UNSURE && !waits[a]);
	if
	:: pod[a] == GONE -> assert(LIVE(a) == 0 && ctr[a] == OFF)
	:: pod[a] == BOUND -> /* on the grant that it has, all of it */
		assert(LIVE(a) == 1 && job[gjob[a]].st == RUN && job[gjob[a]].ask == a && job[gjob[a]].start == gstart[a]);
		assert(ctr[a] == ON && cstart[a] == gstart[a])
	:: else -> assert(LIVE(a) == 1 && job[jid[a]].ask == a && job[jid[a]].st == PEND && ANY(RUN)) /* for the device */
	fi
}

proctype Check()
{
end:	do
	:: d_step { QUIET -> right(0); right(1) }
	od
}

init {
	atomic {
		take(NATIVE);
		run Slurm();
		run Agent();
		run Network();
		run Bridge();
		run Chance();
#ifndef LIVELOCK
		run Check()
#endif
	}
}
