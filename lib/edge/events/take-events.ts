import * as z from 'zod';

import { catalog, isTopicName, producerNames } from '../../bus/catalog/catalog.ts';
import { InvalidPayload } from '../../bus/outbox/errors.ts';
import { refusalOf } from '../../bus/outbox/refusal.ts';
import { readable } from '../../platform/config.ts';
import type { InvalidConfiguration, RemoteProducer } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { readBody } from '../../platform/http/body.ts';
import { Problem } from '../../platform/http/problem.ts';
import { requireAllowed } from '../../platform/http/rate-limit.ts';
import type { Limiter } from '../../platform/rate-limit/limiter.ts';
import { SECOND } from '../../platform/time.ts';
import { inTime, unstored } from '../store-limit.ts';
import { verifyWebhook } from '../webhooks/verify.ts';
import { eventsIn, modeOf } from './modes.ts';
import type { Mode } from './modes.ts';
import { recordAll } from './record.ts';
import { EVENTS_LIMIT_BYTES } from './route.ts';
import type { ProducedEvent, Taken } from './route.ts';
import { producerOf } from './source.ts';

export interface EventsIntake {
  readonly request: Request;
  readonly requestId: string;
  readonly producers: readonly RemoteProducer[];
  readonly limiter: () => Limiter;
  /** Called only to record events: a refused request opens no connection. */
  readonly database: () => Promise<Database>;
}

/** Of each producer: far above what one function records, so that only a loop gone wild meets it. */
const LIMIT = { name: 'events', limit: 3000, windowMs: 10 * SECOND };

/**
 * Takes the events of a producer without this database: verify → check all → record all in one transaction → commit →
 * the relay looks at once. When it resolves, they are recorded. After `database_unavailable` they may be; sent again, they
 * are duplicates then. After any other error nothing is recorded.
 *
 * @throws Problem 503 `events_not_configured`, 415, 413, 401, 429, 400, 403, 409, in this order of checks: a forged
 *   request uses up nothing of a producer's limit; 503 `database_unavailable` after five seconds at the latest.
 */
export async function takeEvents(intake: EventsIntake): Promise<Taken> {
  const { request, producers, limiter, database, requestId } = intake;
  const known = producers.filter(({ name }) => producersListed.has(name));
  if (known.length === 0)
    throw new Problem('events_not_configured', { retryAfterSeconds: NOT_CONFIGURED_RETRY_SECONDS });
  const mode = modeOf(request);
  const bytes = await readBody(request, EVENTS_LIMIT_BYTES);
  const signers = signersOf(request, bytes, known);
  requireAllowed([LIMIT], await limiter().take([{ key: signers[0]!, limit: LIMIT }]));
  const events = eventsIn(mode, request, bytes);
  for (const event of events) requireOwn(event, signers);
  try {
    return { events: await inTime(database().then((db) => recordAll(db, events))) };
  } catch (error) {
    throw (
      refusedByDatabase(error) ??
      conflictIn(error, mode) ??
      unstored(error, {
        message: 'events were not recorded',
        fields: { producer: signers[0], events: events.length, requestId },
        detail: 'The events could not be recorded. Send them again.',
      })
    );
  }
}

const producersListed: ReadonlySet<string> = new Set(producerNames());

/** Setting a secret takes a deployment. */
const NOT_CONFIGURED_RETRY_SECONDS = 60;

/**
 * Finds whose secret signed a request: several producers where they share one.
 *
 * @throws Problem 401, the same for all reasons; InvalidConfiguration where it may be that of a secret that is wrong.
 */
function signersOf(
  { headers, url }: Request,
  body: Uint8Array,
  producers: readonly RemoteProducer[],
): string[] {
  let wrong: InvalidConfiguration | undefined;
  let reason: string | undefined;
  const signers = producers.filter((producer) => {
    const secrets = readable(
      () => producer.secrets,
      (error) => (wrong = error),
    );
    const checked = verifyWebhook('standard', {
      secrets: secrets ?? [],
      headers,
      body,
      url,
      now: Date.now() / SECOND,
    });
    if (!checked.ok) reason ??= checked.reason;
    return checked.ok;
  });
  if (signers.length > 0) return signers.map(({ name }) => name);
  throw wrong ?? new Problem('invalid_signature', { reason: reason! });
}

/** @throws Problem 403 */
function requireOwn({ source, type }: ProducedEvent, signers: readonly string[]): void {
  const sender = producerOf(source);
  if (!signers.includes(sender)) {
    const [signer] = signers;
    const detail = `The request is signed by ${signers.join(' or ')}, not by the source of its events. Send source: ${signers.join(' or ')}. A URI that ends in it will do too, such as https://${signer}.example.no/${signer}.`;
    throw new Problem('not_your_topic', { detail });
  }
  const producer = isTopicName(type) ? catalog[type].producer : null;
  if (producer !== sender)
    throw new Problem('not_your_topic', { detail: `${type} is a topic of ${producer}, not of ${sender}.` });
}

/** Says what the database, which has the schemas of earlier versions, found wrong. */
function refusedByDatabase(error: unknown): Problem | undefined {
  const refusal = refusalOf('', error);
  if (refusal === undefined) return undefined;
  const found = refusal instanceof InvalidPayload ? refusal.issues : [{ path: '', message: refusal.message }];
  const issues = found.map(({ path, message }) => {
    const steps = ['data', ...path.split('.').filter(Boolean)];
    return { path: steps.join('.'), pointer: `/${steps.join('/')}`, code: 'custom', message };
  });
  return new Problem('validation_failed', { detail: refusal.message, issues, cause: error });
}

/** Says which event has the source and the id of another fact. */
function conflictIn(error: unknown, mode: Mode): Problem | undefined {
  const { data } = conflict.safeParse(error);
  if (data === undefined) return undefined;
  const { place, differing } = found.parse(JSON.parse(data.detail));
  const steps = mode === 'batch' ? [place, 'id'] : ['id'];
  const message = `expected an id of its own: the event recorded for it differs in ${differing}`;
  const issue = {
    path: steps.join('.'),
    pointer: `/${steps.join('/')}`,
    code: 'conflicting_duplicate',
    message,
  };
  return new Problem('conflicting_duplicate', { issues: [issue], cause: error });
}

/** An error of `postbud_record_posted_2`, as the drivers have it. */
const conflict = z.object({ code: z.literal('PB006'), detail: z.string() });

const found = z.object({ place: z.number(), differing: z.string() });
