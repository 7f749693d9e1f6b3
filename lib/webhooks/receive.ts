import { createHash } from 'node:crypto';

import pTimeout from 'p-timeout';

import { InvalidConfiguration, providers } from '../config.ts';
import type { Config, Provider } from '../config.ts';
import { noteDue } from '../db/commits.ts';
import type { Database } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';
import { readBody, requireJson } from '../http/body.ts';
import { Problem } from '../http/problem.ts';
import { codeOf, log, logError } from '../log.ts';
import { outboxEvent, recordingStatement } from '../outbox/record.ts';
import type { OutboxEvent } from '../outbox/record.ts';
import { inSendSpan } from '../telemetry/event.ts';
import { SECOND } from '../time.ts';
import { parseWebhookBody } from './body.ts';
import type { Rejections } from './rejections.ts';
import { webhookRoute } from './route.ts';
import type { Received } from './route.ts';
import { isUsableSecret, verifyWebhook } from './verify.ts';

export interface WebhookIntake {
  readonly request: Request;
  /** The event's correlation id; every log line has it too. */
  readonly requestId: string;
  readonly settings: Config['webhooks'];
  /** Called only to store a webhook: a refused one opens no connection. */
  readonly database: () => Promise<Database>;
  readonly rejections: Rejections;
  /** Unix seconds; the clock unless given. */
  readonly now?: number;
}

/**
 * Receives a provider's webhook: verifies it and records its event in the outbox, once, no matter how often it is sent.
 *
 * When it resolves, the event is stored. After `database_unavailable` the event may be stored; the provider's next
 * attempt is then a duplicate. After any other error nothing is stored.
 *
 * @throws Problem 404, 503 `webhook_not_configured`, 415, 413, 401 or 400, in this order of checks; 503
 *   `database_unavailable` after five seconds at the latest.
 */
export async function receiveWebhook(intake: WebhookIntake): Promise<Received> {
  const webhook = await admit(intake);
  const { isNew, isSameBody } = await store(intake, webhook);
  const { provider, eventId } = webhook;
  if (!isSameBody) {
    log('warn', 'a webhook was repeated with another body', {
      provider,
      eventId,
      requestId: intake.requestId,
    });
  }
  return { received: true, duplicate: !isNew, eventId };
}

/** A webhook with a valid signature and a body that can be stored. */
interface Webhook {
  readonly provider: Provider;
  readonly eventId: string;
  readonly eventType: string | null;
  readonly body: Record<string, unknown>;
  /** The hash of the received bytes, in hexadecimal. */
  readonly bodySha256: string;
}

/** Runs all checks. A refusal is counted and leaves a log line. @throws Problem */
async function admit(intake: WebhookIntake): Promise<Webhook> {
  const { request, requestId, rejections } = intake;
  const provider = providerOf(request.url);
  let bodyLength: number | null = null;
  try {
    if (!provider) throw new Problem('unknown_provider');
    const signing = requireSecret(intake.settings[provider]);
    requireJson(request);
    const bytes = await readBody(request, webhookRoute.body.limitBytes);
    bodyLength = bytes.length;
    const event = verify(intake, signing, bytes, provider);
    const body = parse(bytes);
    return {
      provider,
      body,
      bodySha256: sha256(bytes),
      eventType: event.eventType,
      eventId: requireId(event),
    };
  } catch (error) {
    if (error instanceof Problem) {
      rejections.count(provider ?? 'unknown', error.reason);
      log('warn', 'webhook refused', {
        provider: provider ?? 'unknown',
        reason: error.reason,
        bodyLength,
        requestId,
      });
    }
    throw error;
  }
}

/** Reads the provider from the path. Ignores the query, which the caller controls, and decodes nothing. */
function providerOf(url: string): Provider | undefined {
  const [, segment] = /^(?:\/api)?\/webhooks\/([^/]+)$/.exec(new URL(url).pathname) ?? [];
  return providers.find((provider) => provider === segment);
}

/** Setting a secret takes a deployment. */
const NOT_CONFIGURED_RETRY_SECONDS = 60;

/** Requires a usable secret: anyone can compute an HMAC with an empty key. @throws Problem 503 */
function requireSecret(settings: Config['webhooks'][Provider]): Config['webhooks'][Provider] {
  if (settings.secrets.some((secret) => isUsableSecret(settings.scheme, secret))) return settings;
  throw new Problem('webhook_not_configured', { retryAfterSeconds: NOT_CONFIGURED_RETRY_SECONDS });
}

/** @throws Problem 401, the same for all reasons, so that a forger learns nothing. */
function verify(
  { request, now = Date.now() / 1000 }: WebhookIntake,
  { scheme, secrets }: Config['webhooks'][Provider],
  body: Uint8Array,
  provider: Provider,
) {
  const url = signedUrl(request.url, provider);
  const verification = verifyWebhook(scheme, { secrets, headers: request.headers, body, url, now });
  if (verification.ok) return verification;
  throw new Problem('invalid_signature', { reason: verification.reason });
}

/**
 * Returns the URL that the provider posted to, which Vipps signs: without the path's parameter, which the platform adds
 * to the query.
 *
 * Edits the query as text, because parsing and writing it again could change its spelling.
 */
function signedUrl(received: string, provider: Provider): string {
  const { origin, pathname, search } = new URL(received);
  const parameters = search.slice(1).split('&');
  const added = parameters.lastIndexOf(`provider=${provider}`);
  if (added === -1) return received;
  const own = parameters.toSpliced(added, 1).join('&');
  return own ? `${origin}${pathname}?${own}` : `${origin}${pathname}`;
}

function parse(bytes: Uint8Array): Record<string, unknown> {
  const parsed = parseWebhookBody(bytes);
  if (parsed.ok) return parsed.body;
  throw new Problem(parsed.reason);
}

function requireId({ eventId }: { readonly eventId: string | null }): string {
  if (eventId !== null) return eventId;
  throw new Problem('invalid_event_id');
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Providers give up on a request after five to thirty seconds. */
const DATABASE_LIMIT_MS = 5 * SECOND;

/** The usual time of a failover or a restart. */
const DATABASE_RETRY_SECONDS = 5;

/** @throws Problem 503 when the database fails or does not answer in time */
async function store(intake: WebhookIntake, webhook: Webhook): Promise<Stored> {
  const { provider, eventId, eventType, body } = webhook;
  const payload = { eventId, eventType, body };
  const topic = `webhook.${provider}.received`;
  try {
    return await inSendSpan(topic, async (sent) => {
      const event = outboxEvent(topic, payload, { correlationId: intake.requestId });
      const stored = await pTimeout(write(intake, webhook, event), {
        milliseconds: DATABASE_LIMIT_MS,
        fallback: () => {
          throw new DatabaseTimeout();
        },
      });
      if (stored.isNew) sent(event.id);
      return stored;
    });
  } catch (error) {
    if (error instanceof InvalidConfiguration || isOurMistake(error)) throw error;
    logError('a webhook was not stored', error, { provider, eventId, requestId: intake.requestId });
    throw new Problem('database_unavailable', { retryAfterSeconds: DATABASE_RETRY_SECONDS, cause: error });
  }
}

/**
 * Whether the data, a constraint, the SQL or a trigger is at fault: then a retry cannot help, and nothing was stored.
 */
function isOurMistake(error: unknown): boolean {
  return /^(22|23|42|P0)...$/.test(codeOf(error) ?? '');
}

class DatabaseTimeout extends Error {
  readonly code = 'database_timeout';

  constructor() {
    super(`the database had not answered after ${DATABASE_LIMIT_MS} ms`);
    this.name = 'DatabaseTimeout';
  }
}

interface Stored {
  readonly isNew: boolean;
  readonly isSameBody: boolean;
}

/**
 * Calls `noteDue` here and not in the caller, so that an event that is stored after the time limit is delivered at once
 * too.
 */
async function write(
  { database }: WebhookIntake,
  { provider, eventId, eventType, bodySha256 }: Webhook,
  event: OutboxEvent,
): Promise<Stored> {
  const db = await database();
  const statement = storeWebhook(event, [provider, eventId, eventType, bodySha256]);
  const [stored] = await run<Stored>(driverOf(db), statement);
  if (stored!.isNew) noteDue(db);
  return stored!;
}

/** The longest wait for the same webhook in another transaction. The rest of the five seconds is for the network. */
const LOCK_LIMIT_MS = 2 * SECOND;

/**
 * Writes receipt, event and marker in one statement: one transaction, one round trip. If the same webhook is being
 * stored by another transaction, it waits for that one. If that one commits, this webhook is a duplicate; if it rolls
 * back, this webhook is the first. A duplicate only updates its receipt: it writes no event and does not take the
 * emitter lock, which would hold back the topic's fan-out.
 *
 * The statement sets the time limit for locks itself, because a pooler keeps no session settings.
 */
const storeWebhook = recordingStatement({
  name: 'receive_webhook',
  ctes: `
    lock_limit as materialized (
      select set_config('lock_timeout', '${LOCK_LIMIT_MS}ms', true)
    ),
    receipt as (
      insert into webhook_receipts as known (provider, event_id, event_type, body_sha256, received_at)
      select $1::text, $2::text, $3::text, $4::text, clock_timestamp() from lock_limit
      on conflict (provider, event_id) do update set
        duplicates = known.duplicates + 1,
        body_mismatches = known.body_mismatches + (known.body_sha256 <> excluded.body_sha256)::int,
        last_duplicate_at = excluded.received_at
      returning duplicates = 0 as is_new, body_sha256 = $4::text as is_same_body
    ),`,
  parameters: 4,
  from: 'from receipt where is_new',
  select: 'select is_new as "isNew", is_same_body as "isSameBody" from receipt',
});
