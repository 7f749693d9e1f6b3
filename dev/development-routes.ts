import { z } from 'zod';

import { createPaymentIntent } from '../lib/components/payments.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { guardedEndpoint } from '../lib/platform/http/guarded-endpoint.ts';
import { readValidated } from '../lib/platform/http/validated.ts';
import { createAccounting } from './accounting.ts';
import { book, booking } from './bookings.ts';
import { journeysSince, newestSeq } from './journeys.ts';
import { requireLocalOrigin } from './local-names.ts';
import { partnersOf } from './partners.ts';
import type { StandIns } from './stand-ins.ts';

const paymentIntent = z.strictObject({
  id: z.string().min(1).max(255),
  bookingId: z.string().min(1).max(255),
  provider: z.enum(['cardpayments', 'walletpayments']),
  amountMinor: z.int().nonnegative(),
  currency: z.string().regex(/^[A-Z]{3}$/, 'write three capital letters, for example NOK'),
});

/** Answers `/dev/…`; null for any other path. @throws Problem for a page of another machine */
export type DevelopmentRoutes = (request: Request) => Promise<Response | null>;

interface Development {
  readonly db: Database;
  readonly accountingSecret: string;
  readonly standIns: StandIns;
  /** Of the server. */
  readonly url: () => string;
  /** Whether somebody takes a topic's events for a subscriber. */
  readonly isAttached: (topic: string, subscriber: string) => boolean;
}

/** Makes `/dev/…`, with which the demo makes its traffic and watches it. Only the local server has these routes. */
export function developmentRoutes({
  db,
  accountingSecret,
  standIns,
  url,
  isAttached,
}: Development): DevelopmentRoutes {
  const partners = partnersOf(url);
  const accounting = accountingSecret ? createAccounting(accountingSecret) : null;
  const paymentIntents = guardedEndpoint({
    methods: ['POST'],
    handle: async (request) => {
      const intent = await readValidated(request, paymentIntent, 64 * 1024);
      return Response.json(await createPaymentIntent(db, intent), { status: 201 });
    },
  });
  const bookings = guardedEndpoint({
    methods: ['POST'],
    handle: async (request) => {
      const asked = await readValidated(request, booking, 64 * 1024);
      return Response.json(await book(db, asked), { status: 201 });
    },
  });
  const answer: DevelopmentRoutes = async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname.startsWith('/dev/')) requireLocalOrigin(request);
    if (pathname === '/dev/webhooks') return await partners.fetch(request);
    if (pathname === '/dev/bookings') return await bookings.fetch(request);
    if (pathname === '/dev/payment-intents') return await paymentIntents.fetch(request);
    switch (`${request.method} ${pathname}`) {
      case 'POST /dev/accounting':
        return accounting ? await accounting(request) : null;
      case 'GET /dev/mails':
        return Response.json(standIns.mails().map(({ to, subject }) => ({ to, subject })));
      case 'GET /dev/newest':
        return Response.json({ seq: await newestSeq(db) });
      case 'GET /dev/journeys':
        return await journeys(db, searchParams.get('since') ?? '0', isAttached);
      default:
        return null;
    }
  };
  return async (request) => {
    const response = await answer(request);
    response?.headers.set('x-content-type-options', 'nosniff');
    return response;
  };
}

async function journeys(
  db: Database,
  since: string,
  isAttached: Development['isAttached'],
): Promise<Response> {
  if (!/^\d{1,15}$/.test(since))
    return new Response('since: write the seq that /dev/newest answered\n', { status: 400 });
  const found = await journeysSince(db, Number(since));
  return Response.json(
    found.map((row) => ({
      ...row,
      isUnattached: row.subscriber !== null && !isAttached(row.topic, row.subscriber),
    })),
  );
}
