// What a service with a Postgres of its own imports as `postbud/outbox`.

export { InvalidPayload, UnknownTopic } from '../../bus/outbox/errors.ts';
export { forward, keepForwarding } from './forward.ts';
export type { ForwardOptions, Forwarded, KeepForwardingOptions } from './forward.ts';
export { ForwardFailed } from './post.ts';
export type { Refused } from './post.ts';
export { cancelTimer, record } from './record.ts';
export type { RecordOptions } from './record.ts';
export { discard, retry, setAside } from './set-aside.ts';
export type { SetAside } from './set-aside.ts';
export { OUTBOX_TABLE } from './table.ts';
export { waiting } from './waiting.ts';
export type { Waiting } from './waiting.ts';
