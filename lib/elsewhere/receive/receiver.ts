// What a subscriber in another repository imports as `postbud/receive`.

export { PermanentError, RetryAfter } from '../../bus/subscribers/outcome.ts';
export {
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  fromSequelize,
  fromTypeOrm,
} from '../clients/adapters.ts';
export { databaseOf, RECEIVED_TABLE, receiver } from './endpoint.ts';
export type {
  Gap,
  Handlers,
  ReceivedEvent,
  ReceiverDatabase,
  ReceiverOptions,
  TransactionOf,
} from './endpoint.ts';
