// The order in which everything here takes its locks, so that no two transactions wait for each other in a ring:
//
// 1. the advisory lock of pruning, of fan-out, of a topic's emitters; a turn waits for that of fan-out only if it has
//    nothing to settle, and so takes nothing before it;
// 2. rows of `lanes`, all that a transaction changes together, by id; a claim passes over those that others have locked;
// 3. rows of `deliveries`: only whoever has the lane changes them;
// 4. rows of `events`, by id;
// 5. rows of `backlog`, then of `throughput` (postbud_count_1), then of `error_groups`, each by key;
// 6. what nobody else changes: the record of an operator's action.
//
// A transactional handler holds rows of its own before it comes to 2.

/** First half of the key of the lock of fan-out: one at a time, so that positions are drawn in the order of commits. */
export const FAN_OUT_LOCK = 0x9058;

/** That of pruning: a replay holds it shared, so that nothing is put back while it is deleted. */
export const PRUNE_LOCK = 0x9059;
