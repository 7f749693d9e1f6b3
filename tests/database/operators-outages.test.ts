import { describe, expect } from 'vitest';

import { probe } from '../../lib/bus/deliveries/operations/probe.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { claimAlerts } from '../../lib/components/alerts/claim-alerts.ts';
import type { AlertedIncident } from '../../lib/components/alerts/claim-alerts.ts';
import { incidentMessage } from '../../lib/components/alerts/message.ts';
import { settleAlerts } from '../../lib/components/alerts/settle-alerts.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { readEvent } from '../../lib/console/event/read.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { readTopic } from '../../lib/console/lanes/views.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { START, drain, drainLive, emitPayments, numbers, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { deliveriesOf, deliveryIdsOf, statesOf } from '../support/records.ts';
import { delayRetries } from '../support/scenes.ts';
import { ledger, refuse } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

const after = (ms: number) => new Date(START + ms);

const nobody = (kind = 'unreachable', message = 'nobody is there') => {
  throw Object.assign(new Error(message), { code: kind });
};

/** A ledger whose deliveries wait while nobody is there. */
const waiting = (then: (number: number) => unknown = () => nobody()) => ledger(then, { outage: 'wait' });

async function emitKeys(db: Database, from: number, to: number): Promise<void> {
  for (const number of numbers(from, to))
    await emitPayments(db, number, number, { orderingKey: `booking ${number}` });
}

/** Three keys fail, and again after a minute, which opens an outage; two more have not been tried. */
async function down(bus: Bus, attached: AttachedSubscriber = waiting()): Promise<void> {
  await emitKeys(bus.db, 1, 3);
  await drain(bus.db, [attached]);
  await drain(bus.db, [attached], { now: START + MINUTE });
  await emitKeys(bus.db, 4, 5);
  await drain(bus.db, [attached], { now: START + MINUTE });
}

/** The same by the database's own clock, as operators see it. */
async function downNow(bus: Bus, attached: AttachedSubscriber = waiting()): Promise<void> {
  await emitKeys(bus.db, 1, 5);
  await drainLive(bus.db, [attached]);
  await delayRetries(bus.db, '-1 hour');
  await drainLive(bus.db, [attached]);
}

interface Row {
  readonly topic: string;
  readonly kind: string;
  readonly state: string;
  readonly revision: number;
  readonly lanes: number;
  readonly waiting: number;
}

async function watched(db: Database, at: Date): Promise<readonly Row[]> {
  await watchIncidents(db, at);
  return await rows<Row>(
    db,
    `select topic, kind, state, revision, blocked_lanes as lanes, waiting::float8 from incidents order by id`,
  );
}

const shown = async (operators: Operators, path: string) =>
  (await operators.ask(path, { accept: BROWSER })).text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');

const incidents = async (operators: Operators) =>
  (await operators.ask('/incidents')).json['items'] as Readonly<Record<string, unknown>>[];

describe('the incident of an outage', () => {
  test('is one for all lanes of the subscriber, opens with it and closes with it', async ({ bus }) => {
    await down(bus);
    expect(await watched(bus.db, after(MINUTE + SECOND))).toEqual([
      { topic: '', kind: 'unreachable', state: 'happening', revision: 1, lanes: 5, waiting: 5 },
    ]);
    expect(await watched(bus.db, after(MINUTE + 2 * SECOND))).toMatchObject([
      { state: 'happening', revision: 1 },
    ]);
    await drain(bus.db, [waiting(() => undefined)], { now: START + 2 * MINUTE });
    expect(await watched(bus.db, after(2 * MINUTE))).toMatchObject([
      { topic: '', state: 'closed', revision: 2 },
    ]);
  });

  test('takes over the incident of its lanes, which goes on, and leaves those of other errors', async ({
    bus,
  }) => {
    await emitKeys(bus.db, 1, 2);
    const attached = waiting((number) => (number === 9 ? nobody('http_500') : nobody()));
    await drain(bus.db, [attached]);
    expect(await watched(bus.db, after(SECOND))).toMatchObject([
      { topic: 'payment.captured', kind: 'unreachable', state: 'happening', revision: 1, lanes: 2 },
    ]);
    await emitKeys(bus.db, 3, 4);
    await drain(bus.db, [attached], { now: START + MINUTE });
    await emitKeys(bus.db, 9, 9);
    expect(await watched(bus.db, after(2 * MINUTE))).toMatchObject([
      // Told as opened, and as an outage now, and not as over.
      { topic: '', state: 'happening', revision: 2, lanes: 4 },
    ]);
  });

  test('is not followed by others for lanes that have not been tried since', async ({ bus }) => {
    await down(bus);
    await watched(bus.db, after(MINUTE + SECOND));
    // Recovered, and its row is gone, but its lanes have not had their turn.
    await rows(bus.db, 'delete from outages');
    expect(await watched(bus.db, after(2 * MINUTE))).toMatchObject([{ topic: '', state: 'closed' }]);
    expect(await watched(bus.db, after(2 * MINUTE + SECOND))).toHaveLength(1);
    // One that fails again then is another story.
    const again = ledger(() => nobody());
    await drain(bus.db, [again], { now: START + 3 * MINUTE });
    expect(await watched(bus.db, after(4 * MINUTE))).toMatchObject([
      { topic: '', state: 'closed' },
      { topic: 'payment.captured', state: 'happening' },
    ]);
  });

  test('says what waits and when the next one probes, in the list and on its page', async ({
    bus,
    operators,
  }) => {
    await downNow(bus);
    expect(await incidents(operators)).toMatchObject([
      {
        topic: null,
        subscriber: 'ledger',
        state: 'happening',
        sentence: 'ledger is unreachable: 5 deliveries wait in 5 lanes until it answers.',
        outage: { kind: 'unreachable', probes: 0 },
        inCatalog: true,
      },
    ]);
    const [{ incidentId }] = (await incidents(operators)) as [{ incidentId: string }];
    expect((await operators.ask(`/incidents/${incidentId}`)).json).toMatchObject({
      lanes: [],
    });
    expect(await shown(operators, '/incidents')).toMatch(/next probe in \d+ s/);
    const page = await shown(operators, `/incidents/${incidentId}`);
    expect(page).toContain('ledger does not answer');
    expect(page).toMatch(
      /One delivery at a time probes, without using up an attempt. The next probe is in \d+ s;/,
    );
    expect(page).toContain('Probe now');
    expect(await shown(operators, '')).toMatch(
      /Happening now .* ledger is unreachable: 5 deliveries wait in 5 lanes until it answers\. .* next probe in/,
    );
    // Neither replays nor dismissals do anything to it.
    const nothing = await operators.ask(`/incidents/${incidentId}/dismiss`, { json: { reason: 'Test.' } });
    expect(nothing.json).toEqual({ incidentId, dismissed: 0, left: 0 });
  });

  test('shows no personal data of the error that opened it', async ({ bus, operators }) => {
    await downNow(
      bus,
      waiting(() => nobody('timeout', 'no answer about Kari Nordmann')),
    );
    const [{ incidentId }] = (await incidents(operators)) as [{ incidentId: string }];
    for (const path of ['', '/incidents', `/incidents/${incidentId}`, '/subscribers/ledger'])
      expect((await operators.ask(path)).text).not.toContain('Nordmann');
    expect(await incidents(operators)).toMatchObject([
      { lastError: { kind: 'timeout', message: 'the subscriber did not answer in time' } },
    ]);
  });
});

describe('the views of a subscriber that does not answer', () => {
  test('say so, and count nothing as due or late', async ({ bus }) => {
    await down(bus);
    const now = after(MINUTE + 40 * SECOND);
    const view = await readOverview(bus.db, [waiting()], now);
    const captured = view.topics.find(({ topic }) => topic === 'payment.captured')!;
    const one = captured.subscribers.find(({ subscriber }) => subscriber === 'ledger')!;
    expect(one).toMatchObject({
      outage: { kind: 'unreachable', probes: 0 },
      pending: 2,
      failing: 3,
      oldestDueAgeSeconds: null,
    });
    expect(one.nextRetryAt).toBe(one.outage!.nextProbeAt);
    expect(view.relay.lagSeconds).toBe(0);
    // A deployment where the subscription does not wait goes on retrying.
    const heedless = await readOverview(bus.db, [ledger()], now);
    const flowing = heedless.topics.find(({ topic }) => topic === 'payment.captured')!;
    expect(flowing.subscribers.find(({ subscriber }) => subscriber === 'ledger')).toMatchObject({
      outage: null,
      oldestDueAgeSeconds: expect.any(Number),
    });
  });

  test('name the next probe as the next try, whatever the lanes are due', async ({ bus }) => {
    const attached = [waiting((number) => nobody(number === 9 ? 'http_500' : 'unreachable'))];
    await emitKeys(bus.db, 9, 9);
    await drain(bus.db, attached);
    await delayRetries(bus.db, '45 seconds');
    await emitKeys(bus.db, 1, 3);
    await drain(bus.db, attached);
    await drain(bus.db, attached, { now: START + MINUTE });
    const now = after(90 * SECOND);
    const probe = after(2 * MINUTE).toISOString();
    const view = await readTopic(bus.db, attached, 'payment.captured', now);
    expect(view.topic.nextRetryAt).toBe(probe);
    expect(view.heldLanes.map(({ nextAttemptAt }) => nextAttemptAt)).toEqual([probe]);
    const probed = view.heldLanes[0]!;
    const event = await readEvent(bus.db, probed.eventId, { attached, now });
    expect(event!.deliveries.find(({ subscriber }) => subscriber === 'ledger')).toMatchObject({
      nextAttemptAt: probe,
      why: { code: 'outage', until: probe },
    });
  });

  test('are metered: that it is silent, for how long, and how often it was probed', async ({ bus }) => {
    await down(bus);
    await drain(bus.db, [waiting()], { now: START + 2 * MINUTE + SECOND });
    const metrics = await readMetrics(bus.db, [waiting()], after(4 * MINUTE));
    expect(metrics).toContain('postbud_subscriber_outage{subscriber="ledger"} 1\n');
    expect(metrics).toContain('postbud_subscriber_outage{subscriber="accounting"} 0\n');
    expect(metrics).toMatch(/postbud_subscriber_outage_seconds\{subscriber="ledger"\} 1[78]\d/);
  });

  test('are its topic, its own page and what it waits for', async ({ bus, operators }) => {
    operators.attached = [waiting()];
    await downNow(bus);
    const topic = await shown(operators, '/topics/payment.captured');
    expect(topic).toContain('outage');
    expect(topic).toMatch(/has been unreachable since [\d:]+ UTC ?; next probe in \d+ s/);
    expect((await operators.ask('/subscribers/ledger')).json).toMatchObject({
      items: [{ state: 'outage', outage: { kind: 'unreachable' } }],
    });
    expect(await shown(operators, '/subscribers/ledger')).toMatch(
      /ledger has been unreachable since [\d:]+ UTC ?\. 5 deliveries wait, without using up attempts\. Next probe in \d+ s/,
    );
  });
});

describe('an operator', () => {
  test('probes a subscriber now, and its page shows whether it answers', async ({ bus, operators }) => {
    operators.attached = [waiting()];
    await downNow(bus);
    const path = '/subscribers/ledger/probe';
    operators.kicks = 0;
    const next = '/platform/event-bus/subscribers/ledger';
    const sent = await operators.ask(path, { form: { reason: '', next }, accept: BROWSER });
    expect([sent.status, sent.headers.get('location')]).toEqual([303, next]);
    expect(operators.kicks).toBe(1);
    const handed: number[] = [];
    await drainLive(bus.db, [waiting((number) => (handed.push(number), nobody()))]);
    expect(handed).toHaveLength(1);
    const page = async () => await shown(operators, '/subscribers/ledger');
    expect(await page()).toMatch(/ledger has been unreachable since [\d:]+ UTC/);
    await operators.ask(path, { json: { reason: 'The ledger is back.' } });
    await drainLive(bus.db, [waiting(() => undefined)]);
    expect(await page()).not.toContain('unreachable since');
    expect(await statesOf(bus.db)).toEqual(Array.from({ length: 5 }, () => 'delivered'));
    expect((await operators.ask('/replays')).json['items']).toMatchObject([
      { action: 'probe', subscriber: 'ledger', topic: null, reason: 'The ledger is back.' },
      { action: 'probe', reason: null },
    ]);
    expect((await examine(bus.db)).findings).toEqual([]);
  });

  test('probes where every lane waits for a later retry, and uses up no attempt', async ({ bus }) => {
    await emitKeys(bus.db, 1, 3);
    await drain(bus.db, [waiting()]);
    await drain(bus.db, [waiting()], { now: START + MINUTE });
    await delayRetries(bus.db, '1 hour');
    const handed: number[] = [];
    const attached = waiting((number) => (handed.push(number), nobody()));
    const now = after(MINUTE + 10 * SECOND);
    await drain(bus.db, [attached], { now: now.getTime() });
    expect(handed).toEqual([]);
    expect(await probe(bus.db, { subscriber: 'ledger', by: 'kari', now })).toBe(true);
    await drain(bus.db, [attached], { now: now.getTime() });
    expect(handed).toHaveLength(1);
    expect((await deliveriesOf(bus.db, 'ledger')).map(({ attempts }) => attempts)).toEqual([1, 1, 1]);
  });

  test('makes the probe due by retrying a delivery that waits for it, due or not', async ({ bus }) => {
    await down(bus);
    const ids = await deliveryIdsOf(bus.db);
    const handed: number[] = [];
    const attached = waiting((number) => (handed.push(number), nobody()));
    for (const [index, deliveryId] of [ids[0]!, ids[4]!].entries()) {
      const now = after(MINUTE + (10 + index) * SECOND);
      await retryNow(bus.db, { deliveryId, by: 'kari', now });
      await drain(bus.db, [attached], { now: now.getTime() });
      expect(handed).toHaveLength(index + 1);
    }
    expect(await rows(bus.db, 'select probes from outages')).toEqual([{ probes: 2 }]);
  });

  test('can’t probe a subscriber that answers', async ({ bus, operators }) => {
    await emitKeys(bus.db, 1, 1);
    const refused = await operators.ask('/subscribers/ledger/probe', { json: {} });
    expect(refused.json).toMatchObject({
      status: 409,
      code: 'not_silent',
      detail:
        'ledger has no outage. Probe a delivery that holds one of its lanes instead: /platform/event-bus/subscribers/ledger lists them.',
    });
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
  });
});

describe('an alert', () => {
  const origin = { environment: 'Production', publicUrl: 'https://bus.example.no' };

  async function claim(db: Database, at: Date): Promise<readonly AlertedIncident[]> {
    const claimed = await claimAlerts(db, 'webhook', at);
    if (claimed === null) return [];
    await settleAlerts(db, claimed, null, at);
    return claimed.incidents;
  }

  /** What is told at that time, as its subject and its text. */
  async function told(db: Database, at: Date): Promise<readonly (readonly [string, string])[]> {
    await watchIncidents(db, at);
    return (await claim(db, at)).map((one) => {
      const { subject, entries } = incidentMessage([one], origin);
      return [subject, entries[0]!.text];
    });
  }

  test('tells of an outage once when it opens and once when it is over, whatever its lanes were told as', async ({
    bus,
  }) => {
    await emitKeys(bus.db, 1, 2);
    await drain(bus.db, [waiting()]);
    expect(await told(bus.db, after(SECOND))).toEqual([
      [expect.stringMatching(/^Blocked since .*: payment.captured to ledger$/), expect.any(String)],
    ]);
    await emitKeys(bus.db, 3, 5);
    await drain(bus.db, [waiting()], { now: START + MINUTE });
    expect(await told(bus.db, after(2 * MINUTE))).toEqual([
      [
        expect.stringMatching(/^No answer since 4 May 12:00 CEST: ledger$/),
        expect.stringMatching(
          /^ledger does not answer: unreachable: the subscriber cannot be reached\. 5 deliveries wait without using up attempts; one at a time probes\. The next probe is at 4 May 12:0\d CEST\. When it answers, all follow\.$/,
        ),
      ],
    ]);
    await drain(bus.db, [waiting()], { now: START + 3 * MINUTE });
    expect(await told(bus.db, after(4 * MINUTE))).toEqual([]);
    await drain(bus.db, [waiting(() => undefined)], { now: START + 30 * MINUTE });
    expect(await told(bus.db, after(30 * MINUTE))).toEqual([
      [expect.stringMatching(/^Over: ledger answers again, 4 May 12:00 to 12:30 CEST$/), expect.any(String)],
    ]);
  });

  test('tells of an outage once, and of the errors of its lanes that they are over because of it', async ({
    bus,
  }) => {
    const kinds = ['timeout', 'http_503', 'http_503', 'http_503', 'http_500'];
    const attached = waiting((number) => nobody(kinds[number - 1], `is ${number === 2 ? 'moving' : 'away'}`));
    await emitKeys(bus.db, 1, 2);
    await drain(bus.db, [attached]);
    await watchIncidents(bus.db, after(SECOND));
    expect((await claim(bus.db, after(SECOND))).map(({ kind }) => kind).toSorted()).toEqual([
      'http_503',
      'timeout',
    ]);
    await emitKeys(bus.db, 3, 4);
    await drain(bus.db, [attached], { now: START + MINUTE });
    await watchIncidents(bus.db, after(2 * MINUTE));
    const [outage, ...others] = await claim(bus.db, after(2 * MINUTE));
    expect(outage).toMatchObject({ topic: '', group: '', state: 'happening', change: 'changed', next: null });
    expect(others).toMatchObject([
      { topic: 'payment.captured', state: 'closed', next: { incidentId: outage!.id, topic: null } },
    ]);
    expect(incidentMessage(others, origin)).toMatchObject({
      subject: expect.stringMatching(
        /^Part of an outage now: payment.captured to ledger, 4 May 12:00 to 12:02 CEST$/,
      ),
      entries: [{ text: expect.stringMatching(/ Now ledger does not answer\.$/) }],
    });
    // Somebody answers, and it is another error: the outage is over, and that is an incident of its own.
    await drain(bus.db, [waiting(() => nobody('http_500', 'the licence expired'))], {
      now: START + 30 * MINUTE,
    });
    await watchIncidents(bus.db, after(30 * MINUTE));
    const [error, over] = await claim(bus.db, after(30 * MINUTE));
    expect(error).toMatchObject({ kind: 'http_500', change: 'opened', openedAt: START + 30 * MINUTE });
    expect(over).toMatchObject({
      id: outage!.id,
      state: 'closed',
      next: { incidentId: error!.id, kind: 'http_500' },
    });
  });

  test('tells of a halted lane, and what to do', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    const halting = ledger((number) => number === 1 && refuse(), { afterDeadLetter: 'halt' });
    await drain(bus.db, [halting]);
    expect(await told(bus.db, after(SECOND))).toEqual([
      [
        expect.stringMatching(/^Halted since 4 May 12:00 CEST: payment.captured to ledger$/),
        'A dead letter of ledger halts 1 lane until it is replayed or dismissed, 2 deliveries waiting. The error was permanent: refused.',
      ],
    ]);
  });
});
