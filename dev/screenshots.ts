import { mkdirSync } from 'node:fs';

import chromium from '@sparticuz/chromium';
import { chromium as playwright } from 'playwright-core';
import type { Page } from 'playwright-core';
import { serve } from 'srvx';

import { mintToken } from '../cli/operator-token.ts';
import { catalog, subscriberNames } from '../lib/bus/catalog/catalog.ts';
import type { PayloadInput, TopicName } from '../lib/bus/catalog/catalog.ts';
import { emit } from '../lib/bus/outbox/emit.ts';
import type { Transaction } from '../lib/bus/outbox/emit.ts';
import { relay } from '../lib/bus/relay/relay.ts';
import { attach, topicsOf } from '../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../lib/bus/subscribers/subscriber.ts';
import { database } from '../lib/components/database.ts';
import { migrate } from '../lib/bus/migrations/migrate.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { logTo } from '../lib/platform/log.ts';
import { HOUR, MINUTE, SECOND } from '../lib/platform/time.ts';
import { createRouter } from './router.ts';

const DESKTOP = { width: 1280, height: 800 };
const FOLDER = new URL('../docs/console/', import.meta.url);

/** `npm run screenshots`: takes the documents' pictures of the console, after a day with several kinds of failures. */
async function takeScreenshots(): Promise<void> {
  logTo(() => undefined);
  process.env['DATABASE_URL'] = 'memory://screenshots';
  process.env['OPERATOR_JWT_SECRET'] ??= 'a secret for the screenshots only';
  process.env['WEBHOOK_CARDPAYMENTS_SECRET'] ??= 'a secret for the screenshots only';
  process.env['WEBHOOK_CARDPAYMENTS_SCHEME'] ??= 'stripe';
  // Nothing here runs the cron, so nobody is asked.
  process.env['WEBHOOK_CARDPAYMENTS_RECONCILE_KEY'] ??= 'rk_test_for_the_screenshots_only';
  const db = await database();
  await migrate(db);
  await liveThroughADay(db);
  await refuseWebhooks(db);
  await loseWebhooks(db);

  const route = createRouter(new URL('../', import.meta.url));
  const server = serve({
    port: 0,
    hostname: 'localhost',
    silent: true,
    fetch: async (request) => (await route(request)) ?? new Response(null, { status: 404 }),
  });
  await server.ready();
  const origin = `http://localhost:${new URL(server.url ?? '').port}`;
  const browser = await playwright.launch({
    executablePath: await chromium.executablePath(),
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  });
  mkdirSync(FOLDER, { recursive: true });
  try {
    const page = await browser.newPage({ viewport: DESKTOP });
    await walk(page, origin);
    await haltAndGoSilent(db);
    await walkAmongWaits(page, origin);
  } finally {
    await browser.close();
    await server.close(true);
  }
}

const UNAVAILABLE = { code: 'http_503', message: 'the subscriber answered 503' };
const TIMED_OUT = { code: 'timeout', message: 'the handler had not finished after 10000 ms' };
const ODD_POSTCODE = { code: 'invalid_payload', message: 'postalCode: expected 4 digits' };

/** The events of an ordinary hour. */
const HOURLY: readonly (readonly [TopicName, number])[] = [
  ['booking.created', 5],
  ['booking.approved', 3],
  ['payment.intent.created', 3],
  ['payment.captured', 3],
  ['user.signed_in', 6],
  ['inquiry.submitted', 1],
  ['invoice.issued', 1],
  ['webhook.cardpayments.received', 1],
];

/** Emits and delivers a day's events. At its end the ledger is down; two other subscribers fail now and then. */
async function liveThroughADay(db: Database): Promise<void> {
  const now = Date.now();
  for (let hoursAgo = 23; hoursAgo >= 0; hoursAgo -= 1) {
    const isNight = new Date(now - hoursAgo * HOUR).getUTCHours() < 6;
    const failures = hoursAgo < 3 ? { 'ledger payment.captured': UNAVAILABLE } : {};
    const more = hoursAgo % 9 === 4 ? { 'intelligence inquiry.submitted': TIMED_OUT } : {};
    const odd = hoursAgo === 7 ? { 'audit user.signed_in': ODD_POSTCODE } : {};
    const at = now - hoursAgo * HOUR - 20 * MINUTE;
    for (const [topic, count] of HOURLY) await emitSome(db, topic, isNight ? 1 : count + (hoursAgo % 3));
    if (hoursAgo >= 10) await emitWithoutIntelligence(db);
    await deliver(db, at, everyone({ ...failures, ...more, ...odd }, 1));
    await backdate(db, at);
  }
  // An inquiry with personal data, whose five attempts fail at their own times.
  await emitSome(db, 'inquiry.submitted', 1);
  for (const minutesAgo of [402, 401, 396, 366, 6]) {
    await deliver(
      db,
      now - minutesAgo * MINUTE,
      everyone({ 'intelligence inquiry.submitted': TIMED_OUT }, 5),
    );
  }
  await backdate(db, now - 402 * MINUTE);
  // Events that wait behind a failing one now.
  await emitSome(db, 'invoice.issued', 4);
  await deliver(db, now - 20 * SECOND, everyone({ 'accounting invoice.issued': TIMED_OUT }, 5));
  await backdate(db, now - 20 * SECOND);
  await run(driverOf(db), { text: 'update last_pass set at = clock_timestamp()', values: [] });
}

/** Accounting does not answer any more, and a refused refund halts the ledger's lane of its booking. */
async function haltAndGoSilent(db: Database): Promise<void> {
  await emitSome(db, 'payment.refunded', 6);
  for (const topic of ['payment.captured', 'payment.failed', 'invoice.paid'] as const)
    await emitSome(db, topic, 40);
  const refused = () => {
    throw Object.assign(new Error('the payment was never booked'), { code: 'permanent' });
  };
  const silent = () => {
    throw Object.assign(new Error('the subscriber cannot be reached: ECONNREFUSED'), { code: 'unreachable' });
  };
  const topics = (name: string, handler: () => void) =>
    Object.fromEntries(topicsOf(name).map((topic) => [topic, handler]));
  const subscribers = [
    attach('ledger', { 'payment.refunded': refused }, { afterDeadLetter: 'halt' }),
    // Which has answered nobody for longer than that.
    attach('bookings', topics('bookings', silent), { outage: 'wait' }),
  ];
  await backdate(db, Date.now() - 13 * MINUTE);
  for (const minutesAgo of [12, 10, 4, 0]) await deliver(db, Date.now() - minutesAgo * MINUTE, subscribers);
}

/** Somebody guessed signatures this morning, and a provider told of a payment that is not recorded yet. */
async function refuseWebhooks(db: Database): Promise<void> {
  await run(driverOf(db), {
    text: `insert into webhook_rejections (provider, reason, day, count, last_at, recent_at)
      select provider, reason, (now() at time zone 'utc')::date, count, now() - ago,
        array(select now() - ago - number * interval '71 seconds' from generate_series(0, least(count, 4) - 1) as number)
      from (values ('cardpayments', 'signature_mismatch', 57, interval '12 minutes'),
        ('walletpayments', 'webhook_not_configured', 3, interval '3 hours'),
        ('unknown', 'unknown_provider', 1, interval '5 hours')) as refused (provider, reason, count, ago)`,
    values: [],
  });
  await run(driverOf(db), {
    text: `insert into webhooks_set_aside (event_id, provider, intent_id, provider_event_id, correlation_id, created_at,
        seq, outcome, set_aside_at)
      select id, 'cardpayments', 'pi_3QxSolvik48299', 'evt_1QxK7pCaptured', '', created_at, seq,
        '{"state": "captured"}', now() - interval '40 minutes'
      from events where topic = 'webhook.cardpayments.received' order by seq desc limit 1`,
    values: [],
  });
}

/** Two of Stripe's webhooks were lost, found by asking, and one of them came after all. */
async function loseWebhooks(db: Database): Promise<void> {
  for (const [eventId, eventType, came] of [
    ['evt_1QxL4rRefunded', 'charge.refunded', 1],
    ['evt_1QxL5tFailed', 'payment_intent.payment_failed', 0],
  ] as const) {
    await emitQuietly(db, 'webhook.cardpayments.received', { eventId, eventType, body: {} });
    await run(driverOf(db), {
      text: `insert into webhook_receipts (provider, event_id, event_type, body_sha256, received_at, reconciled_at,
          duplicates, last_duplicate_at)
        select 'cardpayments', $1::text, $2::text, '', at, at, $3::int, case $3::int when 1 then now() end
        from (select now() - interval '9 minutes' as at) as found`,
      values: [eventId, eventType, came],
    });
  }
  await run(driverOf(db), {
    text: `insert into reconciliations (provider, begun_at, next_at, checked_until, succeeded_at, failed_at, error, found,
        found_at)
      values ('cardpayments', now() - interval '9 days', now() + interval '1 minute', now() - interval '9 minutes',
        now() - interval '4 minutes', now() - interval '26 hours', 'answered 429: too many requests', 7,
        now() - interval '9 minutes')`,
    values: [],
  });
}

/** Emits by a bare client: an emit in the database's own transaction wakes its relay, and the day decides when to deliver. */
async function emitQuietly<Name extends TopicName>(
  db: Database,
  topic: Name,
  payload: PayloadInput<Name>,
): Promise<void> {
  await db.transaction(async (tx) => {
    const client: Transaction = {
      query: async (text, values) => ({ rows: await run(tx, { text, values }) }),
    };
    await emit(client, topic, payload);
  });
}

async function emitSome(db: Database, topic: TopicName, count: number): Promise<void> {
  for (let number = 0; number < count; number += 1)
    await emitQuietly(db, topic, catalog[topic].example as never);
}

/** Until ten hours ago the running release did not list `intelligence` for new bookings. */
async function emitWithoutIntelligence(db: Database): Promise<void> {
  for (const text of [
    `update events set subscribers = array_remove(subscribers, 'intelligence')
      where id in (select event_id from awaiting where topic = 'booking.created')`,
    `update awaiting set subscribers = array_remove(subscribers, 'intelligence') where topic = 'booking.created'`,
  ])
    await run(driverOf(db), { text, values: [] });
}

async function deliver(db: Database, now: number, subscribers: readonly AttachedSubscriber[]): Promise<void> {
  await relay({ db, subscribers, until: Date.now() + 10 * SECOND, now });
}

/** Attaches all subscribers of the catalog. @param failures by `subscriber topic`. */
function everyone(
  failures: Readonly<Record<string, { readonly code: string; readonly message: string }>>,
  maxAttempts: number,
): AttachedSubscriber[] {
  return subscriberNames().map((name) => {
    const handlers = topicsOf(name).map((topic) => {
      const failure = failures[`${name} ${topic}`];
      const handler = () => {
        if (failure) throw Object.assign(new Error(failure.message), { code: failure.code });
      };
      return [topic, handler] as const;
    });
    return attach(name, Object.fromEntries(handlers), { maxAttempts });
  });
}

let backdatedTo = 0;

/** Backdates the events recorded since the last call: the relay takes a clock, but `emit` does not. */
async function backdate(db: Database, at: number): Promise<void> {
  const [newest] = await run<{ seq: number }>(driverOf(db), {
    text: `with backdated as (
        update events set created_at = to_timestamp($1::float8 / 1000) - interval '1 second'
        where seq > $2::bigint returning seq
      )
      select max(seq)::float8 as seq from backdated`,
    values: [at, backdatedTo],
  });
  backdatedTo = newest?.seq ?? backdatedTo;
}

async function walk(page: Page, origin: string): Promise<void> {
  const shoot = async (name: string, fullPage = true) =>
    await page.screenshot({ path: new URL(`${name}.png`, FOLDER).pathname, fullPage });
  const open = (path: string) => page.goto(`${origin}/platform/event-bus${path}`);
  const shootOnPhone = async (name: string) => {
    await page.setViewportSize({ width: 390, height: 780 });
    await shoot(name, false);
    await page.setViewportSize(DESKTOP);
  };
  const scope = 'event-bus:read event-bus:replay event-bus:reveal event-bus:erase';
  const token = await mintToken({ sub: 'Kari Nordmann', scope, expires: '1h' });
  await open('/sign-in');
  await page.getByLabel('Access token').fill(token ?? '');
  await shoot('sign-in', false);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await shoot('overview');
  // Colours change at once then.
  await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
  await shoot('overview-dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await shootOnPhone('overview-mobile');
  await open('/incidents');
  await shoot('incidents');
  await page.getByRole('link', { name: /^accounting does not answer in time/ }).click();
  await page.getByRole('heading', { name: 'When it is fixed' }).waitFor();
  await shoot('incident');
  await open('/topics/invoice.issued');
  await shoot('topic');
  await open('/events?q=bkg_48213&limit=8');
  await shoot('events');
  const event = (await page.locator('#events a[href*="/events/"]').first().getAttribute('href')) ?? '';
  await page.goto(origin + event);
  await shoot('event');
  await shootOnPhone('event-mobile');
  await open('/dead-letters?limit=8');
  await shoot('dead-letters');
  const link = page
    .getByRole('row')
    .filter({ hasText: 'inquiry.submitted' })
    .getByRole('link', { name: /Details/ });
  await open(`/dead-letters/${(await link.first().getAttribute('href'))?.split('/').at(-1)}`);
  await shoot('dead-letter');
  await open('/replay?topic=payment.captured&subscriber=ledger&since=24h');
  await shoot('preview', false);
  await page.getByLabel('Reason').fill('the ledger is back after INC-4411');
  await page.getByRole('button', { name: /^Replay \d+ dead letters/ }).click();
  await page.waitForURL('**/replays/*');
  await page.waitForTimeout(1500);
  await shoot('replay');
  await open('/backfill?topic=booking.created&subscriber=intelligence&since=60d&perMinute=600');
  await shoot('backfill-preview');
  await page.getByLabel('Reason').fill('new bookings are scored from now on');
  await page.getByRole('button', { name: /^Backfill \d+ deliveries/ }).click();
  await page.waitForURL('**/backfills/*');
  await page.waitForTimeout(1500);
  await shoot('backfill');
  await open('/replays');
  await page.getByLabel('Names of the person').fill('usr_3071');
  await page.getByRole('button', { name: 'Preview the erasure' }).click();
  await page.getByRole('heading', { name: /^Erase \d+ events/ }).waitFor();
  await shoot('erasure-preview');
  await open('/subscribers/ledger');
  await shoot('subscriber');
  await open('/replays');
  await shoot('replays');
  await open('/webhooks?limit=8');
  await shoot('webhooks');
}

async function walkAmongWaits(page: Page, origin: string): Promise<void> {
  for (const [name, link] of [
    ['outage', /^bookings is unreachable/],
    ['halted', /^ledger refused deliveries on payment.refunded/],
  ] as const) {
    await page.goto(`${origin}/platform/event-bus/incidents`);
    await page.getByRole('link', { name: link }).click();
    await page.getByRole('heading', { name: 'When it is fixed' }).waitFor();
    await page.screenshot({ path: new URL(`${name}.png`, FOLDER).pathname, fullPage: true });
  }
}

await takeScreenshots();
process.exit();
