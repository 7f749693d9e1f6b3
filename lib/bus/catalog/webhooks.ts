import * as z from 'zod';
import { topic } from './topic.ts';
import { code, count, id, instant, personal } from './values.ts';

/** A provider's name, or that of a further account, such as `cardpayments_2`: a new one changes no payload. */
const endpoint = code(z.string().min(1));

const surged = { reason: code(z.string().min(1)), rejected: count, fromAt: instant, untilAt: instant };
const rotated = { rotatedBy: id, rotatedAt: instant, oldValidUntil: instant };

/** The providers of the first versions of payloads. */
const firstProviders = z.enum(['cardpayments', 'walletpayments', 'identityprovider']);

/** A provider's webhook. The body is kept whole: only the subscriber knows its shape. */
const received = z.object({
  eventId: id,
  eventType: code(z.string()).nullable(),
  /** The endpoint that it came by. Releases before 1.2 wrote none: each provider had one. */
  endpoint: endpoint.optional(),
  body: personal(z.looseObject({})),
});

/** What Stripe's dashboard and its support name. An object's metadata is not among it: it may hold anything. */
const STRIPE_IDS = [
  'body.id',
  'body.request.id',
  'body.data.object.id',
  'body.data.object.payment_intent',
  'body.data.object.charge',
  'body.data.object.latest_charge',
  'body.data.object.balance_transaction',
  'body.data.object.invoice',
  'body.data.object.customer',
] as const;

export const webhooks = {
  'webhook.cardpayments.received': topic({
    producer: 'http',
    subscribers: ['payments'],
    description: "A card-payment provider's webhook was received; deduplicated on the event id.",
    version: 1,
    listed: true,
    ids: STRIPE_IDS,
    payload: received,
    example: {
      eventId: 'evt_1QxK2mCaptured',
      eventType: 'payment_intent.succeeded',
      endpoint: 'cardpayments',
      body: {
        id: 'evt_1QxK2mCaptured',
        object: 'event',
        type: 'payment_intent.succeeded',
        created: 1_771_581_600,
        data: {
          object: {
            id: 'pi_3QxSolvik48213',
            object: 'payment_intent',
            amount_received: 62_500,
            currency: 'nok',
          },
        },
      },
    },
  }),

  'webhook.walletpayments.received': topic({
    producer: 'http',
    subscribers: ['payments'],
    description: "A mobile-wallet provider's callback was received; deduplicated on the event id.",
    version: 1,
    listed: true,
    ids: ['body.reference', 'body.pspReference'],
    payload: received,
    example: {
      eventId: 'REFUNDED:bkg-48190-1:10026640221',
      eventType: 'REFUNDED',
      endpoint: 'walletpayments',
      body: {
        msn: '123456',
        reference: 'bkg-48190-1',
        pspReference: '10026640221',
        name: 'REFUNDED',
        amount: { currency: 'NOK', value: 80_000 },
        timestamp: '2026-02-21T18:45:02Z',
        success: true,
      },
    },
  }),

  'webhook.identityprovider.received': topic({
    producer: 'http',
    subscribers: ['identity'],
    description:
      "An identity provider's callback (national or bank identity) was received; deduplicated on the event id.",
    version: 1,
    listed: true,
    person: ['body.data.subject', 'body.data.email'],
    payload: received,
    example: {
      eventId: 'idp_01J9ZK3V7Q',
      eventType: 'login.succeeded',
      endpoint: 'identityprovider',
      body: {
        type: 'login.succeeded',
        data: {
          subject: '7f1c2a9e-5b0d-4e52-9a37-1d4f6c8be210',
          method: 'bank-id',
          email: 'kari.lunde@example.no',
        },
      },
    },
  }),

  'webhook.rejections.surged': topic({
    producer: 'http',
    subscribers: ['support', 'audit'],
    description:
      "The refusals of an endpoint's webhooks for one reason reached 20 (then 200, 2,000 and so on) in a UTC day, and three times the daily mean of the week before.",
    version: 2,
    earlier: { 1: z.object({ provider: firstProviders, ...surged }) },
    // From the day's midnight until the last refusal that was counted.
    payload: z.object({ provider: endpoint, ...surged }),
    example: {
      provider: 'cardpayments',
      reason: 'signature_mismatch',
      rejected: 57,
      fromAt: '2026-02-27T00:00:00Z',
      untilAt: '2026-02-27T13:05:00Z',
    },
  }),

  'webhook.secret.rotated': topic({
    producer: 'http',
    subscribers: ['audit'],
    description: "An endpoint's signing secret was rotated; the secret itself is not in the event.",
    version: 2,
    earlier: { 1: z.object({ provider: firstProviders, ...rotated }) },
    payload: z.object({ provider: endpoint, ...rotated }),
    example: {
      provider: 'walletpayments',
      rotatedBy: 'usr_9',
      rotatedAt: '2026-02-10T09:00:00Z',
      oldValidUntil: '2026-02-11T09:00:00Z',
    },
  }),
};
