import type { KeyObject } from 'node:crypto';

import { catalog, isTopicName, subscriberNames, topics } from '../../bus/catalog/catalog.ts';
import type { Subscriber, SubscriberOf, TopicName, TopicsOf } from '../../bus/catalog/catalog.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { nearest } from '../../platform/nearest.ts';
import { outliveLostConnections } from '../clients/lost-connections.ts';
import { answerOf, masked, Refused, refusalOf, withCauses } from './answer.ts';
import { readEvents } from './event.ts';
import type { ReceivedEvent } from './event.ts';
import { RECEIVED_TABLE, remember } from './remember.ts';
import { keysOf, verifiedBody } from './request.ts';
import { databaseOf, inTransaction, NotBegun, requireDatabase } from './transaction.ts';
import type { ReceiverDatabase, TransactionOf } from './transaction.ts';

export { databaseOf, RECEIVED_TABLE };
export type { ReceivedEvent, ReceiverDatabase, TransactionOf };

/** An event that should have come before another one, and did not. Of several topics, one for each. */
export type Gap<Name extends TopicName = TopicName> = Name extends TopicName ? GapOf<Name> : never;

interface GapOf<Name extends TopicName> {
  readonly topic: Name;
  readonly orderingKey: string;
  /** The id of the event that is missing. The bus's console shows what became of it. */
  readonly missingId: string;
  /**
   * Whether the bus gave it up: it is a dead letter, or an operator skipped or dismissed it. Otherwise the bus delivered it,
   * and the receiver has forgotten it: its database was restored from a backup, or rows were deleted.
   */
  readonly wasSkipped: boolean;
  /** The event that came without it. */
  readonly event: ReceivedEvent<Name>;
}

/**
 * A handler for each topic that the catalog lists for the component: a missing one does not compile. For some of them
 * write `Partial<Handlers<…>>`, or `Pick<Handlers<…>, 'payment.captured'>`.
 */
export type Handlers<Name extends Subscriber, Tx = HandlerClient> = {
  readonly [Topic in keyof Rows as Name extends SubscriberOf<Topic> ? Topic : never]: (
    event: ReceivedEvent<Topic>,
    tx: Tx,
  ) => unknown;
};

type Rows = typeof catalog;

/** What the clients of `pg` and Neon's driver and the transactions of PGlite have, so that handlers run on each of them. */
interface HandlerClient {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
}

export interface ReceiverOptions<Name extends Subscriber, Database extends ReceiverDatabase> {
  /** The component's name in the catalog. It keeps apart what several components remember in one database. */
  readonly subscriber: Name;
  /** The component's SUBSCRIBER_<NAME>_SECRET at the bus; during a rotation both the old and the new one. */
  readonly secrets: string | readonly string[];
  /** The component's own database: the pool of `pg` or of Neon's driver, a Drizzle database, or what `databaseOf` gives. */
  readonly database: Database;
  /**
   * By topic. A handler writes through the transaction `tx`, which also remembers the event: both are committed, or neither.
   * After a deadlock or a serialization failure it is called again at once, in a new transaction.
   * It refuses an event by throwing: see `PermanentError` and `RetryAfter`; after any other error the bus retries.
   */
  readonly handlers: Partial<Handlers<Name, TransactionOf<Database>>>;
  /**
   * Called before the handler, in its transaction, when the event before this one is missing. What it throws refuses the
   * event. By default the gap is logged as a warning.
   */
  readonly onGap?: (gap: Gap<TopicsOf<Name>>, tx: TransactionOf<Database>) => unknown;
  /**
   * Called with the error for which an event was not taken, unless the handler asked for it with `PermanentError` or
   * `RetryAfter`. An event that is newer than the installed catalog waits at the bus, which uses up no attempt; the error's
   * `code` is then `newer_version`, and its message says which package is needed. By default it is logged, without the personal data of the event.
   */
  readonly onError?: (error: unknown, event: ReceivedEvent<TopicsOf<Name>>) => void;
  /** Longest accepted body in bytes; 4 MiB by default. */
  readonly maxBytes?: number;
}

/** Longer than any batch of the bus (1 MiB), and within what most hosts accept. */
const MAX_BYTES = 4 * 1024 * 1024;

/** An event that the installed catalog cannot read waits for the component's next release. */
const NEWER_VERSION_SECONDS = 60;

/**
 * Makes the endpoint of a component that runs elsewhere: a function from a request of the bus to its answer.
 *
 * 1. The request's bytes are verified and read as one event, or as a batch.
 * 2. In a transaction for each event, in order: its id is remembered; one that is known is not handled again.
 * 3. If the event before it is missing, `onGap` is called; then the handler; then the transaction is committed.
 * 4. The answer says how many were taken, or why the first was not.
 *
 * So the handler's writes take effect once for each event, however often it is delivered. The database needs the table
 * `RECEIVED_TABLE`.
 *
 * @throws TypeError for an unknown subscriber, topic or secret, with the nearest name.
 */
export function receiver<Name extends Subscriber, Database extends ReceiverDatabase>(
  options: ReceiverOptions<Name, Database>,
): (request: Request) => Promise<Response> {
  const receiving = readOptions(options);
  return async (request) => {
    try {
      const { body, isBatch } = await verifiedBody(request, receiving.keys, receiving.maxBytes);
      return await take(receiving, readEvents(body, isBatch), isBatch);
    } catch (error) {
      return answerOf(refusalOf(error));
    }
  };
}

/** The options, with handlers whose topics the compiler no longer knows. */
interface Receiving {
  readonly subscriber: string;
  readonly keys: readonly KeyObject[];
  readonly database: ReceiverDatabase;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly onGap: (gap: GapOf<TopicName>, tx: unknown) => unknown;
  readonly onError: (error: unknown, event: ReceivedEvent) => void;
  readonly maxBytes: number;
}

/** Written as methods, because TypeScript compares methods' parameters less strictly. */
type Handler = { handle(event: ReceivedEvent, tx: unknown): unknown }['handle'];

/** Takes events in order, up to the first that is refused. */
async function take(
  receiving: Receiving,
  events: readonly ReceivedEvent[],
  isBatch: boolean,
): Promise<Response> {
  for (const [index, event] of events.entries()) {
    try {
      await takeOne(receiving, event);
    } catch (error) {
      const refusal = refusalOf(error, event);
      if (!refusal.isAskedFor) report(receiving, error instanceof NotBegun ? error.cause : error, event);
      if (!isBatch || index === 0) return answerOf(refusal);
      // Delivered again, the event that was refused comes first, and is answered with the reason.
      return Response.json({ delivered: index });
    }
  }
  return new Response(null, { status: 204 });
}

function report({ onError }: Receiving, error: unknown, event: ReceivedEvent): void {
  try {
    onError(error, event);
  } catch {
    // A mistake in the component's logging must not make a failed attempt of an event that waits.
  }
}

async function takeOne(receiving: Receiving, event: ReceivedEvent): Promise<void> {
  const { subscriber, database, onGap } = receiving;
  if (isSmokeTest(event)) {
    // It shows that the database takes what is remembered, and is nothing to be handled.
    await inTransaction(database, (open) => remember(open, subscriber, event));
    return;
  }
  const handler = handlerOf(receiving, event);
  await inTransaction(database, async (open) => {
    const { isDuplicate, isGap } = await remember(open, subscriber, event);
    if (isDuplicate) return;
    if (isGap) await onGap(gapBefore(event), open.tx);
    await handler(event, open.tx);
  });
}

function isSmokeTest({ topic }: { readonly topic: string }): boolean {
  return topic === SMOKE_TEST.topic;
}

/** What is wrong here, and not asked for: `onError` is told, or nobody here would know. */
const IN_ERROR = {};

/** @throws Refused for an event that cannot be handled by this release. */
function handlerOf({ subscriber, handlers }: Receiving, { topic, version }: ReceivedEvent): Handler {
  if (isTopicName(topic) && version > catalog[topic].version) {
    throw new Refused(
      503,
      'newer_version',
      `Install a newer postbud package: ${topic} is version ${version}, this one reads up to ${catalog[topic].version}.`,
      { 'retry-after': String(NEWER_VERSION_SECONDS) },
      IN_ERROR,
    );
  }
  const handler = handlers.get(topic);
  if (handler) return handler;
  const advice = isTopicName(topic)
    ? `Add one, or leave the topic out of SUBSCRIBER_${subscriber.toUpperCase()}_TOPICS at the bus.`
    : 'The installed catalog does not know the topic: install a newer postbud package.';
  throw new Refused(
    501,
    'no_handler',
    `${subscriber} has no handler for this topic. ${advice}`,
    {},
    IN_ERROR,
  );
}

function gapBefore(event: ReceivedEvent): GapOf<TopicName> {
  const { topic, orderingKey, previousId, previousSkipped } = event;
  return { topic, orderingKey, missingId: previousId!, wasSkipped: previousSkipped, event };
}

function logGap({ topic, missingId, wasSkipped, event }: GapOf<TopicName>): void {
  const why = wasSkipped
    ? 'the bus gave it up, see its console'
    : 'the bus delivered it, but it is not among the remembered events: was the database restored?';
  // oxlint-disable-next-line no-console -- the log of the component, of which we know nothing
  console.warn(`postbud: ${topic} ${event.id} came without the event before it, ${missingId}: ${why}.`);
}

function logError(error: unknown, event: ReceivedEvent): void {
  const texts = withCauses(error).map((one) => masked(textOf(one), event));
  // oxlint-disable-next-line no-console -- see above
  console.error(`postbud: ${event.topic} ${event.id} was not taken: ${texts.join('\nCaused by: ')}`);
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** @throws TypeError */
function readOptions<Name extends Subscriber, Database extends ReceiverDatabase>(
  options: ReceiverOptions<Name, Database>,
): Receiving {
  const { subscriber, secrets, database, maxBytes = MAX_BYTES } = options;
  requireKnown('subscriber', subscriber, subscriberNames(), '');
  requireDatabase(database);
  outliveLostConnections(database);
  const known = topics().flatMap(([topic, { subscribers }]) =>
    subscribers.some((name) => name === subscriber) ? [topic as string] : [],
  );
  const handlers = new Map<string, Handler>();
  for (const [topic, handler] of Object.entries<unknown>(options.handlers)) {
    if (isTopicName(topic) && !known.includes(topic))
      throw new TypeError(`The catalog does not list ${subscriber} for ${topic}: remove the handler.`);
    requireKnown('topic', topic, known, ` of ${subscriber}`);
    if (typeof handler !== 'function') throw new TypeError(`handlers: expected a function for ${topic}`);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it is called with events of its topic only
    handlers.set(topic, handler as Handler);
  }
  if (handlers.size === 0)
    throw new TypeError(`handlers: expected at least one, for a topic of ${subscriber}`);
  if (!Number.isInteger(maxBytes) || maxBytes < 1)
    throw new TypeError(`maxBytes: expected a number of bytes, for example ${MAX_BYTES}`);
  return {
    subscriber,
    keys: keysOf(secrets),
    database,
    handlers,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as the handlers
    onGap: (options.onGap ?? logGap) as Receiving['onGap'],
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as the handlers
    onError: (options.onError ?? logError) as Receiving['onError'],
    maxBytes,
  };
}

function requireKnown(kind: string, written: string, known: readonly string[], of: string): void {
  if (known.includes(written)) return;
  // Without types, a caller may pass anything.
  const meant = typeof written === 'string' ? nearest(written, known) : null;
  const advice = meant === null ? `Known: ${known.join(', ')}.` : `Did you mean '${meant}'?`;
  throw new TypeError(`Unknown ${kind} '${written}'${of}. ${advice}`);
}
