// Every statement on these tables takes its locks in this order, so that no two transactions deadlock:
//
// 0. the row of a paced replay, or of an erasure. A step skips it when another process holds it. Or of what was set aside;
// 1. the advisory locks of pruning, of fan-out and of a topic's emitters. A turn waits for the fan-out lock only when it
//    has nothing to settle, so that it holds nothing else;
//    A release of timers takes a lock of its own first, and then the rows of `timers` that nobody else has locked; it waits
//    for no row of `events` for longer than its `lock_timeout`, which is shorter than Postgres's search for deadlocks. An
//    erasure locks those that it overwrites, and waits for whoever moves or cancels one. They record that it is set aside no
//    longer, unless somebody has locked that;
// 2. rows of `lanes`, all that the transaction changes, by id. A claim skips rows that others have locked;
// 3. rows of `deliveries` and `halts`, which only the holder of their lane changes;
// 4. rows of `events`, by id;
// 5. rows of `error_groups`, by key;
// 6. the advisory lock of presence, then rows of `absences` and `outages`;
// 7. rows of `backlog`, then of `throughput`, each by key (postbud_count_2), then of `throughput_minutes`. Two backends may
//    share them;
// 8. rows of `subscriber_health`, by key. Relays write them in a statement that locks nothing else;
// 9. the record of an operator's action, and of what is set aside, which nobody else changes. An erasure changes
//    records of what is repaired before step 5: nobody waits for these while holding anything;
// 10. rows of `incidents`. Their watcher locks them under an advisory lock of its own, and none of the rows above.
//
// Where one waits for a lock before the statement that needs it, it does so in a statement of its own: so the snapshot of the
// next one is no older than the lock, and has what others wrote before they let go of it.
//
// A transactional handler holds rows of its own before it comes to step 2.

/** First half of the key of the fan-out lock. One fan-out at a time, so that positions follow the order of creation. */
export const FAN_OUT_LOCK = 0x9058;

/** The same for pruning. A replay holds that lock shared, so that no delivery is replayed while it is deleted. */
export const PRUNE_LOCK = 0x9059;

/** The same for the watch over incidents, which one process at a time keeps. */
export const WATCH_LOCK = 0x9060;

/** The same for presence, which `postbud_record_presence_1` takes. */
export const PRESENCE_LOCK = 0x9061;
