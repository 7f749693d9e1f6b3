// What a producer in another repository imports as `postbud/emit`.

export { emit, InvalidPayload, NotYourTopic, UnknownTopic } from '../../bus/outbox/emit.ts';
export type { EmitOptions } from '../../bus/outbox/emit.ts';
export { createKick, KickFailed } from './kick.ts';
export type { RemoteKickOptions } from './kick.ts';
