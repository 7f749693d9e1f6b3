// What a producer in another repository imports as `postbud/emit`.

export {
  cancelTimer,
  emit,
  InvalidPayload,
  NotInTransaction,
  NotYourTopic,
  UnknownTopic,
} from '../../bus/outbox/emit.ts';
export type { EmitOptions, Transaction } from '../../bus/outbox/emit.ts';
export {
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  fromSequelize,
  fromTypeOrm,
} from '../clients/adapters.ts';
export type { Client } from '../clients/adapters.ts';
export { createKick, KickFailed } from './kick.ts';
export type { RemoteKickOptions } from './kick.ts';
