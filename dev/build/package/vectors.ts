import { catalog } from '../../../lib/bus/catalog/catalog.ts';
import { cloudEvent } from '../../../lib/components/remote/cloud-event.ts';
import { signedHeaders, signingKey } from '../../../lib/platform/schemes/signing.ts';

/** A request as a receiver gets it, and whether the receiver should take it for the bus's. */
export interface Vector {
  readonly name: string;
  /** As in SUBSCRIBER_<NAME>_SECRET: two during a rotation. */
  readonly secrets: string;
  /** The receiver's clock, in Unix seconds. */
  readonly now: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly isValid: boolean;
}

const AT = Date.parse('2026-02-21T09:30:00Z') / 1000;
const [secret, other] = [1, 2].map((byte) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`) as [
  string,
  string,
];

const ID = '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77';
const document = cloudEvent({
  id: ID,
  topic: 'payment.captured',
  payload: { ...catalog['payment.captured'].example, bookingId: 'bkg_blåbær' },
  version: 1,
  producer: 'payments',
  createdAt: new Date(AT * 1000),
  seq: 7,
  orderingKey: '',
  correlationId: 'req-1',
  causationId: null,
  traceparent: null,
  erased: false,
});
const event = JSON.stringify(document);
const batch = JSON.stringify([document, { ...document, id: ID.replace('77', '78'), previousid: ID }]);

/** Signs as the bus does. */
function headersOf(body: string, { by = secret, id = ID, type = 'cloudevents' } = {}) {
  return {
    'content-type': `application/${type}+json; charset=utf-8`,
    ...signedHeaders(signingKey(by), id, body, AT * 1000),
    'x-attempt': '1',
  };
}

const signed = headersOf(event);
const signature = signed['webhook-signature'];
const byOther = headersOf(event, { by: other })['webhook-signature'];

/** Requests that the bus made, and others. With these a receiver in any language can show that it can tell them apart. */
export const vectors: readonly Vector[] = [
  valid('an event', {}),
  valid('a batch', { headers: headersOf(batch, { id: 'batch_1', type: 'cloudevents-batch' }), body: batch }),
  valid('the new secret of a rotation', { secrets: `${other} ${secret}` }),
  valid('two signatures', withHeaders({ 'webhook-signature': `${byOther} ${signature}` })),
  valid('signed 300 seconds ago', { now: AT + 300 }),
  valid('signed 300 seconds ahead', { now: AT - 300 }),
  invalid('signed 301 seconds ago', { now: AT + 301 }),
  invalid('signed 301 seconds ahead', { now: AT - 301 }),
  invalid('another body', { body: event.replace('blåbær', 'blabar') }),
  invalid('the same body written otherwise', { body: `${event} ` }),
  invalid('another id', withHeaders({ 'webhook-id': `${ID}0` })),
  invalid('another time', withHeaders({ 'webhook-timestamp': `${AT + 1}` })),
  invalid('another secret', withHeaders({ 'webhook-signature': byOther })),
  invalid('no signature', withHeaders({ 'webhook-signature': '' })),
  invalid('no id', withHeaders({ 'webhook-id': '' })),
  invalid('no time', withHeaders({ 'webhook-timestamp': '' })),
  invalid('a time with letters', withHeaders({ 'webhook-timestamp': `${AT}abc` })),
  invalid('a negative time', withHeaders({ 'webhook-timestamp': `-${AT}` })),
  invalid('a signature without its version', withHeaders({ 'webhook-signature': signature.slice(3) })),
  invalid('an unknown version', withHeaders({ 'webhook-signature': signature.replace('v1', 'v2') })),
  invalid('a signature that is cut off', withHeaders({ 'webhook-signature': signature.slice(0, -4) })),
];

function withHeaders(changed: Readonly<Record<string, string>>) {
  return { headers: { ...signed, ...changed } };
}

function valid(name: string, difference: Partial<Vector>): Vector {
  return { name, secrets: secret, now: AT, headers: signed, body: event, isValid: true, ...difference };
}

function invalid(name: string, difference: Partial<Vector>): Vector {
  return valid(name, { isValid: false, ...difference });
}
