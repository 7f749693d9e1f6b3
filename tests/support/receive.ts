import { randomUUID } from 'node:crypto';

import { serve } from 'srvx';
import { Webhook } from 'standardwebhooks';

import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import type { BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { cloudEvent } from '../../lib/components/remote/cloud-event.ts';
import { payloadOf } from './bus.ts';

export const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

/** Makes an event as the bus posts it, a payment unless told otherwise. */
export function eventOf<Name extends TopicName = 'payment.captured'>(
  fields: Partial<Omit<BusEvent<Name>, 'createdAt' | 'version'>> & {
    readonly version?: number;
    readonly id: string;
    readonly previousid?: string;
    readonly previousskipped?: boolean;
  },
) {
  const { previousid, previousskipped, ...event } = fields;
  const topic = event.topic ?? 'payment.captured';
  const document = cloudEvent({
    topic,
    payload: payloadOf(topic),
    version: 1,
    producer: 'payments',
    createdAt: new Date('2026-02-21T09:30:00Z'),
    seq: 7,
    orderingKey: '',
    correlationId: 'req-1',
    causationId: null,
    traceparent: null,
    erased: false,
    ...event,
  });
  return {
    ...document,
    ...(previousid !== undefined && { previousid }),
    ...(previousskipped !== undefined && { previousskipped }),
  };
}

/** How a request differs from one that the bus makes. */
export interface Difference {
  readonly secret?: string;
  readonly at?: Date;
  readonly headers?: Readonly<Record<string, string>>;
  /** What is sent in place of the body that was signed. */
  readonly sent?: NonNullable<RequestInit['body']>;
  readonly method?: string;
}

/** Makes a request as the bus does, signed by the SDK of Standard Webhooks. @param content an event, a batch, or a text. */
export function requestOf(content: unknown, difference: Difference = {}): Request {
  const { secret = SECRET, at = new Date(), headers = {}, method = 'POST' } = difference;
  const body = typeof content === 'string' ? content : JSON.stringify(content);
  const id = `msg_${randomUUID()}`;
  const kind = Array.isArray(content) ? 'cloudevents-batch+json' : 'cloudevents+json';
  return new Request('https://ledger.example.no/events', {
    method,
    headers: {
      'content-type': `application/${kind}; charset=utf-8`,
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign(id, at, body),
      ...headers,
    },
    ...(method !== 'GET' && { body: difference.sent ?? body }),
    duplex: 'half',
  });
}

/** Serves a receiver on a port, as a component elsewhere does. */
export async function listen(
  fetch: (request: Request) => Promise<Response>,
): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  const server = serve({ fetch, port: 0, hostname: '127.0.0.1', silent: true });
  await server.ready();
  return { url: new URL('/events', server.url).href, close: () => server.close(true) };
}
