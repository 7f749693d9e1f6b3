// Every transaction takes its locks in this order, so that no two of them deadlock:
//
// 0. the row of a paced replay, of a backfill, of an erasure or of what was set aside. A step skips it while another process holds it;
// 1. the advisory lock of pruning; the placing locks of topics, by the hash of their names (postbud_place_3), then those of their
//    emitters. A release of timers takes a lock of its own first, and then the rows of `timers` that nobody else has locked; it
//    waits for no row of `events` for longer than its `lock_timeout`, which is shorter than Postgres's search for deadlocks;
// 2. the advisory locks of lanes, all that the transaction changes, by id (postbud_lock_lanes_2). Who holds a lane's lock may write
//    to its journal and its exceptions, and nobody else, but for what the end of an outage makes due (postbud_end_outages_1);
// 3. rows of `exceptions`;
// 4. rows of `events`, by id;
// 5. rows of `error_groups`, by key;
// 6. rows of `outages`;
// 7. rows of `lane_totals`, then of `throughput_minutes` (postbud_roll_up_1), under an advisory lock of its own;
// 8. rows of `subscriber_health`, by key;
// 9. the record of an operator's action, and of what is set aside, which nobody else changes;
// 10. rows of `incidents`. Their watcher locks them under an advisory lock of its own, and none of the rows above.
//
// A lock is taken in a statement of its own: so the snapshot of the next one is no older than the lock, and has what others
// wrote before they let go of it.
//
// A transactional handler holds rows of its own before it comes to step 2.

/** First half of the key of a topic's placing lock; the second is the hash of its name. One relay at a time places its events. */
export const PLACING_LOCK = 0x9058;

/** The same for pruning, with 0. A replay holds that lock shared, so that no delivery is replayed while it is deleted. */
export const PRUNE_LOCK = 0x9059;

/** The same for the watch over incidents, which one process at a time keeps. */
export const WATCH_LOCK = 0x9060;
