/** First half of the key of the advisory locks that say "a transaction that emits to this topic is open". */
export const EMITTER_LOCKS = 0x9057;
