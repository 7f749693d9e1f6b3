import { outboxEvent } from '../../bus/outbox/record.ts';
import type { OutboxEvent } from '../../bus/outbox/record.ts';
import { providerOf } from '../../platform/config.ts';
import type { Config } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { readBody, requireJson } from '../../platform/http/body.ts';
import { Problem } from '../../platform/http/problem.ts';
import { log } from '../../platform/log.ts';
import { inSendSpan } from '../../platform/telemetry/event.ts';
import type { WebhookSettings } from '../../platform/webhook-settings.ts';
import { inTime, unstored } from '../store-limit.ts';
import { parseWebhookBody } from './body.ts';
import type { Rejections } from './rejections.ts';
import { webhookRoute } from './route.ts';
import type { Received } from './route.ts';
import { payloadOf, sha256, storeWebhook, topicOf } from './store.ts';
import type { Stored, Webhook } from './store.ts';
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
  const { endpoint, eventId } = webhook;
  if (!isSameBody) {
    log('warn', 'a webhook was repeated with another body', {
      provider: endpoint,
      eventId,
      requestId: intake.requestId,
    });
  }
  return { received: true, duplicate: !isNew, eventId };
}

/** Runs all checks. A refusal is counted and leaves a log line. @throws Problem */
async function admit(intake: WebhookIntake): Promise<Webhook> {
  const { request, requestId, rejections } = intake;
  const endpoint = endpointIn(request.url);
  const provider = providerOf(endpoint);
  const isKnown = provider !== undefined && Object.hasOwn(intake.settings, endpoint);
  let bodyLength: number | null = null;
  let checked = {};
  try {
    if (!isKnown) throw new Problem('unknown_provider');
    const signing = requireSecret(intake.settings[endpoint]!);
    requireJson(request);
    const bytes = await readBody(request, webhookRoute.body.limitBytes);
    bodyLength = bytes.length;
    checked = addressChecked(request, endpoint, signing);
    const event = verify(intake, signing, bytes, endpoint);
    const body = parse(bytes);
    return {
      endpoint,
      provider,
      body,
      bodySha256: sha256(bytes),
      eventType: event.eventType,
      eventId: requireId(event),
      isIdUnsigned: event.isIdUnsigned ?? false,
    };
  } catch (error) {
    if (error instanceof Problem) {
      const refusing = isKnown ? endpoint : 'unknown';
      rejections.count(refusing, error.reason);
      log('warn', 'webhook refused', {
        provider: refusing,
        reason: error.reason,
        bodyLength,
        requestId,
        ...checked,
      });
    }
    throw error;
  }
}

/** Reads the endpoint's name from the path. Ignores the query, which the caller controls, and decodes nothing. */
function endpointIn(url: string): string {
  return /^(?:\/api)?\/webhooks\/([^/]+)$/.exec(new URL(url).pathname)?.[1] ?? '';
}

/** Setting a secret takes a deployment. */
const NOT_CONFIGURED_RETRY_SECONDS = 60;

/** Requires a usable secret: anyone can compute an HMAC with an empty key. @throws Problem 503 */
function requireSecret(settings: WebhookSettings): WebhookSettings {
  if (settings.secrets.some((secret) => isUsableSecret(settings.scheme, secret))) return settings;
  throw new Problem('webhook_not_configured', { retryAfterSeconds: NOT_CONFIGURED_RETRY_SECONDS });
}

/** @throws Problem 401, the same for all reasons, so that a forger learns nothing. */
function verify(
  { request, now = Date.now() / 1000 }: WebhookIntake,
  settings: WebhookSettings,
  body: Uint8Array,
  endpoint: string,
) {
  const url = signedUrl(request.url, endpoint, settings);
  const verification = verifyWebhook(settings.scheme, {
    ...settings,
    headers: request.headers,
    body,
    url,
    now,
  });
  if (verification.ok) return verification;
  throw new Problem('invalid_signature', { reason: verification.reason });
}

/**
 * Returns the URL that the provider posted to, which Vipps signs: the configured one, or that of the request, each with
 * the request's query without the path's parameter, which the platform adds.
 *
 * Edits the query as text, because parsing and writing it again could change its spelling.
 */
function signedUrl(received: string, endpoint: string, { url }: WebhookSettings): string {
  const { origin, pathname, search } = new URL(received);
  const address = url ?? `${origin}${pathname}`;
  const parameters = search.slice(1).split('&');
  const added = parameters.lastIndexOf(`provider=${endpoint}`);
  const own = (added === -1 ? parameters : parameters.toSpliced(added, 1)).join('&');
  return own ? `${address}?${own}` : address;
}

/** Says for which address a signature was checked, where the scheme signs it. The query is the caller's. */
function addressChecked({ url }: Request, endpoint: string, settings: WebhookSettings) {
  if (settings.scheme !== 'vipps') return {};
  return { address: signedUrl(url, endpoint, settings).replace(/\?.*/s, '') };
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

/** @throws Problem 503 when the database fails or does not answer in time */
async function store(intake: WebhookIntake, webhook: Webhook): Promise<Stored> {
  const { endpoint, eventId } = webhook;
  const topic = topicOf(webhook);
  try {
    return await inSendSpan(topic, async (sent) => {
      const event = outboxEvent(topic, payloadOf(webhook), { correlationId: intake.requestId });
      const stored = await inTime(write(intake, webhook, event));
      if (stored.isNew) sent(event.id);
      return stored;
    });
  } catch (error) {
    const fields = { provider: endpoint, eventId, requestId: intake.requestId };
    throw unstored(error, {
      message: 'a webhook was not stored',
      fields,
      detail: 'The webhook could not be stored. Send it again.',
    });
  }
}

async function write({ database }: WebhookIntake, webhook: Webhook, event: OutboxEvent): Promise<Stored> {
  return await storeWebhook(await database(), webhook, event);
}
