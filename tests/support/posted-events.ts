import { randomBytes } from 'node:crypto';

import { CloudEvent, HTTP } from 'cloudevents';
import { Webhook } from 'standardwebhooks';
import { vi } from 'vitest';

import { payloadOf, rows } from './bus.ts';
import type { Bus } from './bus.ts';

// Producers without the bus's database, which post their events.

export const secret = () => `whsec_${randomBytes(32).toString('base64')}`;
export const [BOOKINGS, RETIRED, PAYMENTS] = [secret(), secret(), secret()];
const URL_OF_BUS = 'https://postbud.example/api/events';

/** The function file, in a process whose environment holds these variables. */
export async function deployed(variables: Record<string, string | undefined>) {
  const usual = { PRODUCER_BOOKINGS_SECRET: `${BOOKINGS} ${RETIRED}`, PRODUCER_PAYMENTS_SECRET: PAYMENTS };
  // The relay of this process would deliver, which is not looked at here.
  for (const [name, value] of Object.entries({ ...usual, RELAY: 'off', ...variables }))
    vi.stubEnv(name, value);
  vi.resetModules();
  const { default: endpoint } = await import('../../api/events.ts');
  return endpoint;
}

/** A request as a producer signs it, in whatever language: with the reference implementation. */
export function signed(
  type: string,
  body: string,
  by = BOOKINGS,
  ago = 0,
  more: Readonly<Record<string, string>> = {},
): Request {
  const at = new Date(Date.now() - ago);
  return new Request(URL_OF_BUS, {
    method: 'POST',
    headers: {
      ...more,
      ...(type !== '' && { 'content-type': type }),
      'webhook-id': 'msg_1',
      'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
      'webhook-signature': new Webhook(by).sign('msg_1', at, body),
    },
    // Without a content-type, a text would get one.
    body: Buffer.from(body),
  });
}

/** A CloudEvent as the official SDK writes it. */
export const approved = (id: string, fields: object = {}) =>
  new CloudEvent({
    id,
    source: 'bookings',
    type: 'booking.approved',
    data: payloadOf('booking.approved', { bookingId: id }),
    ...fields,
  });

/** Sends one as the SDK does in structured mode. */
export function structured(event: CloudEvent<unknown>, by = BOOKINGS): Request {
  const { headers, body } = HTTP.structured(event);
  return signed(String(headers['content-type']), String(body), by);
}

/** Sends one as the SDK does in binary mode. @param headers in place of the SDK's; those that are empty are left out. */
export function binary(event: CloudEvent<unknown>, headers: Readonly<Record<string, string>> = {}): Request {
  const { headers: own, body } = HTTP.binary(event);
  const { 'content-type': type = '', ...attributes } = { ...(own as Record<string, string>), ...headers };
  const given = Object.entries(attributes).filter(([, value]) => value !== '');
  return signed(type, String(body ?? ''), BOOKINGS, 0, Object.fromEntries(given));
}

export const BATCH = 'application/cloudevents-batch+json';

export const batch = (events: readonly unknown[]) => signed(BATCH, JSON.stringify(events));

/** What is recorded, in its order. */
export const stored = async ({ db }: Pick<Bus, 'db'>) =>
  await rows<{ id: string; topic: string; dedupe_key: string }>(
    db,
    'select id::text, topic, dedupe_key from events order by created_at, seq',
  );
