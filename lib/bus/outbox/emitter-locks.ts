/** First half of the key of the advisory locks that say "a transaction that emits to this topic is open". */
export const EMITTER_LOCKS = 0x9057;

/** The same for those that say "the open transaction of this backend has emitted": a relay waits for them to end. */
export const EMITTING_BACKENDS = 0x9063;
