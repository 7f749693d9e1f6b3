/** Kinds of errors that say that nobody is there: the same event may well be delivered later. */
export const ABSENT_KINDS: readonly string[] = ['unreachable', 'timeout', 'http_502', 'http_503', 'http_504'];
