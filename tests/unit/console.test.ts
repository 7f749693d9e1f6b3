import { describe, expect, onTestFinished, test } from 'vitest';
import * as z from 'zod';

import { topics } from '../../lib/bus/catalog/catalog.ts';
import { forms } from '../../lib/console/actions.ts';
import { bouncePage } from '../../lib/console/access/bounce.ts';
import { signInPage } from '../../lib/console/access/page.ts';
import { asyncApiPage } from '../../lib/console/catalog/asyncapi-page.ts';
import { catalogPage } from '../../lib/console/catalog/page.ts';
import { catalogView } from '../../lib/console/catalog/read.ts';
import { deadLetterPage as drawDeadLetter } from '../../lib/console/dead-letters/delivery-page.ts';
import { deadLetter } from '../../lib/console/dead-letters/delivery.ts';
import type { Attempt, DeadLetter } from '../../lib/console/dead-letters/delivery.ts';
import { deadLetterPage } from '../../lib/console/dead-letters/fields.ts';
import type { DeadLetterPage } from '../../lib/console/dead-letters/fields.ts';
import { deadLettersPage } from '../../lib/console/dead-letters/page.ts';
import { payload } from '../../lib/console/dead-letters/payload.ts';
import { doctorPage } from '../../lib/console/doctor/page.ts';
import { examination } from '../../lib/console/doctor/read.ts';
import { eventList } from '../../lib/console/events/fields.ts';
import { eventsPage } from '../../lib/console/events/page.ts';
import { incidentView } from '../../lib/console/incidents/detail.ts';
import { dismissal } from '../../lib/console/dismissals/operations.ts';
import { dismissPreview } from '../../lib/console/dismissals/plan.ts';
import { incidentPage } from '../../lib/console/incidents/incident-page.ts';
import { skipPage } from '../../lib/console/incidents/skip-page.ts';
import { skipPreview } from '../../lib/console/incidents/skip-preview.ts';
import type { Incident } from '../../lib/console/incidents/incident.ts';
import { incidentsPage } from '../../lib/console/incidents/page.ts';
import { incidentList } from '../../lib/console/incidents/read.ts';
import { reasonField } from '../../lib/console/kit/actions.ts';
import { ago, duration, showTimesIn, span, time, until } from '../../lib/console/kit/instants.ts';
import type { Html, PageContext } from '../../lib/console/kit/layout.ts';
import { NO_NAMES } from '../../lib/console/kit/operator-names.ts';
import { problemPage } from '../../lib/console/kit/problem-page.ts';
import { requiredReason } from '../../lib/console/kit/shapes.ts';
import { failureTag } from '../../lib/console/kit/states.ts';
import { ACTIONS, numberColumn, table } from '../../lib/console/kit/table.ts';
import { topicPage } from '../../lib/console/lanes/page.ts';
import { topicView } from '../../lib/console/lanes/read.ts';
import { overviewPage } from '../../lib/console/overview/page.ts';
import { overview } from '../../lib/console/overview/read.ts';
import type { Overview, SubscriberOverview, TopicOverview } from '../../lib/console/overview/read.ts';
import { logPage } from '../../lib/console/replays/log-page.ts';
import { replayPage } from '../../lib/console/replays/page.ts';
import { replaying } from '../../lib/console/replays/operations.ts';
import { replayPreview } from '../../lib/console/replays/preview.ts';
import type { ReplayPreview } from '../../lib/console/replays/preview.ts';
import { operatorLog, replayProgress } from '../../lib/console/replays/read.ts';
import type { ReplayProgress } from '../../lib/console/replays/read.ts';
import { scopeWords } from '../../lib/console/replays/scope.ts';
import { smokeTestsPage } from '../../lib/console/smoke/list-page.ts';
import { smokeTestList } from '../../lib/console/smoke/list.ts';
import { smokePage } from '../../lib/console/smoke/page.ts';
import { smokeTest } from '../../lib/console/smoke/view.ts';
import { asyncApi } from '../../lib/elsewhere/catalog-description/asyncapi.ts';
import type { AsyncApi } from '../../lib/elsewhere/catalog-description/asyncapi.ts';
import type { Scope } from '../../lib/platform/http/operation.ts';
import { html } from '../../lib/platform/markup.ts';
import { visibleName } from '../../lib/platform/visible.ts';

const NOW = '2026-11-19T13:32:07.000Z';
const EARLIER = '2026-11-19T13:31:40.000Z';
const LATER = '2026-11-19T13:32:48.000Z';
const NONE = { pending: 0, failing: 0, deadLettered: 0 };
const HOURS = {
  delivered: Array.from({ length: 24 }, () => 3),
  deadLettered: Array.from({ length: 24 }, () => 0),
};
const ALL: readonly Scope[] = ['event-bus:read', 'event-bus:replay', 'event-bus:reveal'];

const REVEALED = { isRevealed: true, reveal: { revealId: 'r', until: LATER } };

/** As many as the longest enumeration has values. */
const STATES = 5;
/** Each state with all flags set, with none, and with none and nothing that may be left out. */
const VARIANTS = Array.from({ length: 3 * STATES }, (_, variant) => variant);
/** The variant whose deliveries are dead letters, and whose flags are all set. */
const DEAD_LETTERED = 2;

interface JsonSchema {
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
  readonly anyOf?: readonly JsonSchema[];
  /** With `null` beside it where there may be none. */
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly minItems?: number;
}

/** Makes a view by its shape. @param text stands in every string, also in the names of a payload's fields. */
function filled<View>(schema: z.ZodType<View>, text: string, variant: number): View {
  const { $defs = {}, ...root } = z.toJSONSchema(schema, { unrepresentable: 'any' }) as JsonSchema;
  const fill = ({ $ref = '', anyOf = [], ...shape }: JsonSchema): unknown => {
    const types = [shape.type ?? anyOf.map(({ type }) => type)].flat();
    if (variant >= 2 * STATES && types.includes('null')) return null;
    const another = $defs[$ref.split('/').at(-1)!] ?? anyOf.find(({ type }) => type !== 'null');
    if (another) return fill(another);
    if (shape.enum) return shape.enum[variant % shape.enum.length];
    switch (types[0]) {
      case 'string':
        return shape.format === 'date-time' ? EARLIER : text;
      case 'integer':
      case 'number':
        return 3;
      case 'boolean':
        return variant < STATES;
      case 'array': {
        const { items = {}, minItems = 1 } = shape;
        return Array.from({ length: minItems }, () => (items.anyOf ?? [items]).map(fill)).flat();
      }
      default: {
        const { properties } = shape;
        if (!properties) return { [text]: [text] };
        return Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, fill(inner)]));
      }
    }
  };
  return fill(root) as View;
}

/** Every page, with this text wherever one comes from elsewhere. */
function pagesWith(text: string, variant: number, scopes: readonly Scope[] = ALL): Record<string, Html> {
  const context: PageContext = {
    operator: { subject: text, name: text, scopes: new Set(scopes), via: 'cookie' },
    environment: text,
    url: new URL(
      `http://localhost/platform/event-bus?q=${encodeURIComponent(text)}&sort=${encodeURIComponent(text)}`,
    ),
    badges: { deadLetters: 3, happening: 1, pauses: [], names: new Map() },
    names: new Map([[text, text]]),
    refusesReplay: () => false,
    actions: forms,
    handling: () => ({ maxAttempts: 5 }),
  };
  const view = <View>(schema: z.ZodType<View>) => filled(schema, text, variant);
  const request = { topic: text, subscriber: text, since: text, group: text, deliveryIds: [text] };
  const replay = { ...view(replayProgress), request };
  return {
    overview: overviewPage(view(overview), context),
    topic: topicPage(view(topicView), context),
    deadLetters: deadLettersPage(view(deadLetterPage), context, [{ topic: text, subscribers: [text] }]),
    deadLetter: drawDeadLetter(view(deadLetter), context),
    incidents: incidentsPage(view(incidentList), context),
    incident: incidentPage(view(incidentView), context),
    skip: skipPage(view(skipPreview), context),
    dismissal: dismissal.page({ ...view(dismissPreview), request }, context),
    preview: replaying.page({ ...view(replayPreview), request }, context),
    events: eventsPage(view(eventList), context, [{ topic: text, subscribers: [text] }]),
    doctor: doctorPage(view(examination), context),
    smokeTests: smokeTestsPage(view(smokeTestList), context),
    smokeTest: smokePage(view(smokeTest), context),
    log: logPage({ ...view(operatorLog), replays: [replay] }, context),
    replay: replayPage(replay, context),
    catalog: catalogPage(view(catalogView), {
      ...context,
      url: new URL('http://localhost/platform/event-bus/catalog'),
    }),
    signIn: signInPage({ next: text, directory: text, problem: text }),
    problem: problemPage(
      {
        status: 400,
        title: text,
        code: text,
        detail: text,
        requestId: text,
        issues: [{ path: text, message: text }],
      },
      context,
    ),
    bounce: bouncePage(new URL(`http://localhost/platform/event-bus?q=${text}`)),
  };
}

function contextOf(path = '', scopes: readonly Scope[] = ALL): PageContext {
  return {
    operator: { subject: 'kari', name: 'Kari Nordmann', scopes: new Set(scopes), via: 'cookie' },
    environment: 'Local',
    url: new URL(`http://localhost/platform/event-bus${path}`),
    badges: null,
    names: NO_NAMES,
    refusesReplay: (_, subscriber) => subscriber === 'notifications',
    actions: forms,
    handling: () => ({ maxAttempts: 5 }),
  };
}

function topicOf(topic: string, fields: Partial<TopicOverview> = {}): TopicOverview {
  return {
    ...NONE,
    topic,
    producer: 'payments',
    inCatalog: true,
    oldestDueAgeSeconds: null,
    nextRetryAt: null,
    awaitingPlace: 0,
    heldBackSince: null,
    heldBackBy: null,
    hours: HOURS,
    subscribers: [],
    ...fields,
  };
}

function subscriberOf(subscriber: string, fields: Partial<SubscriberOverview> = {}): SubscriberOverview {
  return {
    ...NONE,
    subscriber,
    inCatalog: true,
    neededVersion: null,
    attached: true,
    paused: false,
    pause: null,
    outage: null,
    haltedLanes: 0,
    oldestDueAgeSeconds: null,
    nextRetryAt: null,
    lastDeliveredAt: null,
    lastFailedAt: null,
    ...fields,
  };
}

function quietOverview(topics: TopicOverview[] = [topicOf('payment.captured')]): Overview {
  return {
    generatedAt: NOW,
    relay: { state: 'running', lastPassAt: '2026-11-19T13:32:04.000Z', runsHere: true, lagSeconds: 0 },
    totals: {
      ...NONE,
      deliveries: NONE,
      deliveredLast24h: 1012,
      replaysLast24h: { delivered: 12, deadLettered: 0 },
      deliveredShareLast24h: 1000 / 1001,
    },
    hours: HOURS,
    incidents: [],
    incidentCounts: { happening: 0, owed: 0 },
    oldestSnapshot: null,
    topics,
  };
}

function incidentOf(fields: Partial<Incident> = {}): Incident {
  return {
    incidentId: 'an-incident',
    topic: 'payment.captured',
    subscriber: 'ledger',
    state: 'happening',
    sentence: 'ledger answers 500 on payment.captured.',
    group: '2cc2bb03cbfce8c4',
    lastError: { kind: 'http_500', message: 'licence expired' },
    openedAt: EARLIER,
    changedAt: EARLIER,
    closedAt: null,
    times: 1,
    lastOpenedAt: null,
    next: null,
    blockedLanes: 1,
    haltedLanes: 0,
    outage: null,
    waiting: 3,
    owed: 0,
    revision: 1,
    acknowledged: null,
    paused: false,
    inCatalog: true,
    lastDeliveredAt: null,
    ...fields,
  };
}

function noDeadLetters(): DeadLetterPage {
  return {
    generatedAt: NOW,
    filters: { topic: null, subscriber: null, since: null, until: null, group: null, q: null, limit: 50 },
    items: [],
    total: 0,
    totalInAll: 0,
    groups: [],
    nextCursor: null,
    previousCursor: null,
    failing: 87,
    nextRetryAt: LATER,
  };
}

function deadLetterOf(fields: Partial<DeadLetter> = {}): DeadLetter {
  return {
    generatedAt: NOW,
    deliveryId: '12-3',
    eventId: '019a',
    topic: 'payment.captured',
    subscriber: 'ledger',
    subject: 'payment pay_1',
    createdAt: EARLIER,
    failures: 5,
    maxAttempts: 5,
    replays: 0,
    state: 'dead_lettered',
    deadLetteredAt: EARLIER,
    dismissedAt: null,
    deliveredAt: null,
    nextAttemptAt: null,
    halts: null,
    lastError: null,
    orderingKey: '',
    event: {
      state: 'dead_lettered',
      producer: 'payments',
      version: 1,
      correlationId: null,
      causationId: null,
      traceparent: null,
    },
    attempts: [],
    payload: { name: '[hidden: name]' },
    hidden: [{ pointer: '/name', kind: 'name' }],
    isValid: true,
    isRevealed: false,
    erasedAt: null,
    reveal: null,
    siblings: [],
    ...fields,
  };
}

function preview(fields: Partial<ReplayPreview> = {}): ReplayPreview {
  return {
    generatedAt: NOW,
    request: { topic: 'payment.captured', since: '24h', limit: 500, deliveryIds: ['1-2', '1-3'] },
    replayId: 'the-replay',
    topic: 'payment.captured',
    matched: 1204,
    isAll: false,
    dismissed: 0,
    unmatched: [],
    error: null,
    createdFrom: null,
    createdTo: null,
    endedFrom: null,
    endedTo: null,
    subscriptions: [
      {
        topic: 'payment.captured',
        subscriber: 'ledger',
        count: 1204,
        skipped: 0,
        others: 3,
        attached: true,
        paused: false,
        isStillFailing: false,
        lastDeliveredAt: null,
        lastFailedAt: null,
        lastError: null,
      },
    ],
    leftOut: [],
    planned: 0,
    earlier: null,
    estimatedSeconds: null,
    ...fields,
  };
}

/** What a reader sees: no tags, one space where there is any. */
function textOf(page: Html): string {
  return page
    .toString()
    .replaceAll(/<[^>]+>/g, '')
    .replaceAll(/\s+/g, ' ');
}

describe('text from elsewhere in markup', () => {
  const hostile = '\u202E<b>\u001B[2J';

  test('signs stand in text, also in lists, for what controls or hides', () => {
    expect(String(html`<p>${hostile}${[['\u200B'], 'å']}</p>`)).toBe('<p>⟨U+202E⟩&lt;b&gt;␛[2J⟨U+200B⟩å</p>');
  });

  test('an attribute keeps its value, which a form sends back', () => {
    expect(String(html`<input${' disabled'} value="${hostile}" /><i>${'\u0007'}</i>`)).toBe(
      '<input disabled value="\u202E&lt;b&gt;\u001B[2J" /><i>␇</i>',
    );
  });

  test.each([
    ['a\n\tb', 'a␊␉b'],
    ['  ', '␣␣'],
    ['\u00A0', '⟨U+00A0⟩'],
    ['Kari Lunde', 'Kari Lunde'],
    ['', ''],
  ])('the name %j is shown as %s', (name, shown) => {
    expect(visibleName(name)).toBe(shown);
  });
});

describe('the AsyncAPI document', () => {
  const drawn = (query: string) =>
    asyncApiPage(asyncApi(), contextOf(`/catalog/asyncapi${query}`)).toString();

  test('its page is an index with a download, and the part about one topic', () => {
    const page = drawn('?topic=payment.captured');
    expect(page).toContain('href="/platform/event-bus/catalog/asyncapi.json" download');
    for (const [topic] of topics()) expect(page).toContain(`?topic=${topic}#excerpt"`);
    const [, part = ''] = /<pre[^>]*>([^]*)<\/pre>/.exec(page) ?? [];
    const { channels, operations, components } = JSON.parse(part.replaceAll('&quot;', '"')) as AsyncApi;
    expect(Object.keys(channels)).toEqual(['payment.captured']);
    expect(Object.keys(components.messages)).toEqual(['payment.captured']);
    expect(Object.keys(components.schemas)).toEqual(['PaymentCapturedEvent', 'PaymentCaptured']);
    expect(Object.keys(operations)).toContain('payments.sends.payment.captured');
    expect(Object.keys(operations)).toContain('ledger.receives.payment.captured');
    // It had 23,000 lines with all topics.
    expect(page.split('\n').length).toBeLessThan(2000);
  });

  test('its page filters the topics, and says that there is no such topic', () => {
    expect(drawn('?q=refunded')).not.toContain('booking.created');
    expect(textOf(asyncApiPage(asyncApi(), contextOf('/catalog/asyncapi?topic=toString')))).toContain(
      'The catalog has no such topic.',
    );
  });
});

describe('a table', () => {
  test('each cell names its column, so that a row can be drawn as a card', () => {
    const drawn = table({
      name: 'Lanes',
      columns: [
        { label: 'Lane', isRowHeader: true, cell: ({ lane }) => lane },
        numberColumn<{ waiting: number }>('Waiting', ({ waiting }) => waiting),
        { label: 'Held by', span: ({ by }) => (by === null ? 2 : 1), cell: ({ by }) => by ?? 'nobody' },
        { label: 'Last day', heading: html`Last <i>day</i>`, cell: () => '…' },
        { ...ACTIONS, cell: () => 'Retry' },
      ],
      rows: [
        { lane: 'a < b', waiting: 0, by: null },
        { lane: 'c', waiting: 1204, by: '1-2' },
      ],
    });
    const cells = String(drawn).matchAll(/<(th|td)( [^>]*role="(?:cell|rowheader)"[^>]*)>([^<]*)/g);
    expect(Array.from(cells, ([, name, attributes, text]) => `${name}${attributes}: ${text}`)).toEqual([
      'th class="row" scope="row" role="rowheader" data-label="Lane": a &lt; b',
      'td class="num zero" role="cell" data-label="Waiting": 0',
      'td colspan="2" role="cell": nobody',
      'td class="end" role="cell": Retry',
      'th class="row" scope="row" role="rowheader" data-label="Lane": c',
      'td class="num" role="cell" data-label="Waiting": 1,204',
      'td role="cell" data-label="Held by": 1-2',
      'td role="cell" data-label="Last day": …',
      'td class="end" role="cell": Retry',
    ]);
  });

  test('a cell that holds markup of a table does not disturb the others', () => {
    const cell = () =>
      html`<table>
        <tr>
          <td>inner</td>
        </tr>
      </table>`;
    const drawn = String(table({ name: 'Lanes', columns: [{ label: 'Lane', cell }], rows: [null] }));
    expect(drawn).toMatch(/data-label="Lane"><table>\s*<tr>\s*<td>inner<\/td>/);
  });
});

describe('every page', () => {
  const plants = [
    '<script>alert(1)</script>',
    `"><img src=x onerror=alert(1)>`,
    `' autofocus onfocus='alert(1)`,
  ];
  const drawn = (text: string) =>
    VARIANTS.flatMap((variant) =>
      Object.entries(pagesWith(text, variant)).map(([name, page]) => [name, page.toString()] as const),
    );

  test.each(plants)('every page escapes %s wherever it stands', (plant) => {
    for (const [name, page] of drawn(plant)) {
      expect(page, name).not.toContain(plant);
      expect(page, name).not.toMatch(/<img|<script>|'alert/);
    }
  });

  test('every page is a document in English, with nothing that its content security policy forbids', () => {
    for (const [name, page] of drawn('plain')) {
      expect(page, name).toMatch(/^<!doctype html>\s*<html lang="en">/);
      expect(page, name).not.toMatch(/<[^>]*\s(style|on[a-z]+)=/i);
      expect(page, name).not.toMatch(/<style|<script(?! src="\/platform\/event-bus\/console\.js")/);
      expect(page, name).not.toMatch(/undefined|NaN|\[object/);
    }
  });
});

describe('instants', () => {
  test('an instant is a time today, with its weekday this week, and with its date before', () => {
    expect(textOf(time('2026-11-19T13:31:40Z', NOW))).toBe('13:31:40 UTC');
    expect(textOf(time('2026-11-18T17:41:00Z', NOW))).toBe('Wed 17:41 UTC');
    expect(textOf(time('2025-11-12T17:41:00Z', NOW))).toBe('12 Nov 2025 17:41 UTC');
  });

  test('instants are in the zone of a terminal, around midnight and the change to summer time', () => {
    onTestFinished(() => showTimesIn(null));
    showTimesIn('Europe/Oslo');
    expect(textOf(time('2026-11-18T23:05:00Z', NOW))).toBe('00:05:00');
    expect(textOf(time('2026-11-18T22:55:00Z', NOW))).toBe('Wed 23:55');
    expect(textOf(time('2026-03-29T00:59:59Z', '2026-03-29T10:00:00Z'))).toBe('01:59:59');
    expect(textOf(time('2026-03-29T01:00:00Z', '2026-03-29T10:00:00Z'))).toBe('03:00:00');
    expect(textOf(time('2026-10-25T01:30:00Z', '2026-10-26T10:00:00Z'))).toBe('Sun 02:30');
  });

  test('an instant keeps its whole value for machines', () => {
    expect(time(EARLIER, NOW).toString()).toContain(`datetime="${EARLIER}"`);
  });

  test('an age is counted by the clock of the view', () => {
    expect(ago(EARLIER, NOW)).toBe('27 s ago');
    expect(ago('2026-11-19T00:32:07Z', NOW)).toBe('13 h ago');
    expect(ago('2026-11-19T14:00:00Z', NOW)).toBe('just now');
    expect(until(LATER, NOW)).toBe('in 41 s');
    expect(until(EARLIER, NOW)).toBe('now');
  });

  test.each([
    [212, '212 ms'],
    [1800, '1.8 s'],
    [41_000, '41 s'],
    [188_000, '3 min 8 s'],
    [60_000, '1 min'],
    [23_760_000, '6 h 36 min'],
    [187_200_000, '2 d 4 h'],
  ])('a duration of %i ms reads %s', (ms, words) => {
    expect(duration(ms)).toBe(words);
  });

  test('a span names a common day only once', () => {
    expect(textOf(span('2026-11-18T17:41:00Z', '2026-11-18T18:02:00Z', NOW))).toBe(
      'Wed 17:41 UTC – 18:02 UTC',
    );
    expect(textOf(span('2026-11-18T17:41:00Z', '2026-11-19T13:12:00Z', NOW))).toBe(
      'Wed 17:41 UTC – today 13:12 UTC',
    );
    expect(textOf(span(EARLIER, EARLIER, NOW))).toBe('13:31 UTC');
  });
});

describe('the overview', () => {
  test('the overview says that all is quiet', () => {
    expect(textOf(overviewPage(quietOverview(), contextOf()))).toContain(
      'All quiet. Nothing is failing and nothing is dead-lettered.',
    );
  });

  test('the overview says that this deployment does not relay', () => {
    const view = { ...quietOverview(), relay: { ...quietOverview().relay, runsHere: false } };
    expect(textOf(overviewPage(view, contextOf()))).toContain(
      'This deployment does not run the relay. Another deployment delivers from this database; its relay ran last at 13:32 UTC. To deliver from here, set RELAY=on.',
    );
  });

  test('the overview says what waits for another release', () => {
    const forgotten = subscriberOf('calendar', { inCatalog: false, attached: false, pending: 2 });
    const newer = subscriberOf('ledger', { neededVersion: 2, pending: 1 });
    const view = quietOverview([
      topicOf('payment.captured', { pending: 3, subscribers: [forgotten, newer] }),
    ]);
    const text = textOf(overviewPage(view, contextOf()));
    expect(text).toContain('3 deliveries wait for another release.');
    expect(text).toMatch(/calendar not in this release’s catalog/);
    expect(text).toMatch(/ledger waits for a release that reads version 2/);
    expect(text).toContain('2 deliveries wait for calendar: not in this release’s catalog.');
    expect(text).not.toContain('All quiet');
  });

  test('the overview says that the relay has stopped', () => {
    const relay = {
      state: 'stalled',
      lastPassAt: '2026-11-19T13:05:00Z',
      runsHere: true,
      lagSeconds: 1627,
    } as const;
    expect(textOf(overviewPage({ ...quietOverview(), relay }, contextOf()))).toContain(
      'The relay has not run since 13:05 UTC. Events are saved but not delivered. Check the cron that calls /api/cron/relay',
    );
  });

  test('the overview says what waits for the end of a pause', () => {
    const notifications = subscriberOf('notifications', { paused: true, pending: 4 });
    const view = quietOverview([topicOf('booking.created', { subscribers: [notifications] })]);
    const page = overviewPage(view, contextOf());
    expect(textOf(page)).toContain(
      'notifications is paused. 4 deliveries wait until someone resumes it. Open topic booking.created',
    );
    expect(textOf(page)).not.toContain('All quiet');
  });

  test('the overview says who holds an old snapshot, and is not quiet then', () => {
    const text = 'pg_dump of the role backup (process 4711, active) has held a snapshot for 14 min.';
    const oldestSnapshot = {
      heldBy: 'session',
      name: 'pg_dump',
      role: 'backup',
      pid: 4711,
      state: 'active',
      since: EARLIER,
      seconds: 840,
      transactions: 120_000,
      text,
    } as const;
    const shown = textOf(overviewPage({ ...quietOverview(), oldestSnapshot }, contextOf()));
    expect(shown).toContain(`Dead rows pile up. ${text}`);
    expect(shown).not.toContain('All quiet');
  });

  test('the overview lists what happens now before what is owed, and hides neither behind the other nor a pause', () => {
    const paused = subscriberOf('notifications', { paused: true });
    const view = {
      ...quietOverview([topicOf('booking.created', { subscribers: [paused] })]),
      incidents: [
        incidentOf({ incidentId: 'now', sentence: 'ledger answers 500 on payment.captured.' }),
        incidentOf({ incidentId: 'then', state: 'owed', sentence: 'audit answered 410 on invoice.issued.' }),
      ],
      incidentCounts: { happening: 12, owed: 1 },
    };
    const page = overviewPage(view, contextOf());
    const text = textOf(page);
    const order = [
      'Happening now',
      'all 12 incidents',
      'ledger answers 500',
      'notifications is paused',
      'Over, with dead letters left',
      'audit answered 410',
    ];
    expect(order.map((words) => text.indexOf(words))).toEqual(
      order.map((words) => text.indexOf(words)).toSorted((one, other) => one - other),
    );
    expect(order.filter((words) => !text.includes(words))).toEqual([]);
    expect(page.toString()).toContain('href="/platform/event-bus/incidents/now"');
    expect(text).not.toContain('All quiet');
  });

  test('the overview shows what was delivered lately where nothing needs attention', () => {
    const idle = { delivered: HOURS.deadLettered, deadLettered: HOURS.deadLettered };
    const view = quietOverview([topicOf('booking.created', { hours: idle }), topicOf('payment.captured')]);
    const shown = (one: Overview) => textOf(overviewPage(one, contextOf())).split('quiet topic')[0];
    expect(shown(view)).toContain('The busiest ones of the last 24 hours:');
    expect(shown(view)).toContain('payment.captured');
    expect(shown(view)).not.toContain('booking.created');
    const fresh = quietOverview([topicOf('booking.created', { hours: idle })]);
    expect(textOf(overviewPage(fresh, contextOf()))).toContain('no event was delivered in the last 24 hours');
    expect(overviewPage(fresh, contextOf()).toString()).toMatch(/<details class="more"[^>]* open/);
  });

  test('the overview without topics says where topics come from', () => {
    expect(textOf(overviewPage(quietOverview([]), contextOf()))).toContain(
      'No topics yet Topics appear here when the first one is registered in the catalog.',
    );
  });

  test('an unattached subscriber does not need attention', () => {
    const waiting = topicOf('payment.captured', {
      pending: 3,
      subscribers: [subscriberOf('accounting', { attached: false, pending: 3 })],
    });
    const text = textOf(overviewPage(quietOverview([waiting]), contextOf()));
    expect(text).toContain('Needs attention 0');
    expect(text).toContain('3 deliveries wait for accounting');
  });

  test.each([
    ['a dead letter', { deadLettered: 1 }],
    ['a failure', { failing: 1 }],
    ['a delivery due for longer than a minute', { oldestDueAgeSeconds: 61 }],
    ['a transaction that holds it back', { heldBackSince: EARLIER }],
    [
      'a pause that holds something back',
      { subscribers: [subscriberOf('ledger', { paused: true, pending: 1 })] },
    ],
  ])('a topic needs attention for %s', (_, trouble) => {
    const view = quietOverview([topicOf('booking.created'), topicOf('payment.captured', trouble)]);
    expect(textOf(overviewPage(view, contextOf()))).toContain('Needs attention 1All 2');
  });

  test('topics are sorted by what is blocked now, or as asked for', () => {
    const blocked = subscriberOf('ledger', { failing: 1, pending: 4 });
    const view = quietOverview([
      topicOf('booking.created', { deadLettered: 9000 }),
      topicOf('payment.captured', { failing: 1, deadLettered: 2, subscribers: [blocked] }),
    ]);
    const order = (path: string) =>
      [...overviewPage(view, contextOf(path)).matchAll(/data-words="(\S+)/g)].map(([, topic]) => topic);
    expect(order('')).toEqual(['payment.captured', 'booking.created']);
    expect(order('?sort=dead')).toEqual(['booking.created', 'payment.captured']);
    expect(order('?q=booking')).toEqual(['booking.created']);
  });
});

describe('dead letters', () => {
  test('the list of dead letters says that there are none, and what is failing', () => {
    expect(textOf(deadLettersPage(noDeadLetters(), contextOf('/dead-letters'), []))).toContain(
      'No dead letters Every delivery has succeeded or is still being retried. 87 deliveries are failing now. The next retry is in 41 s. See failing deliveries',
    );
  });

  test('the list of dead letters names any window like its own', () => {
    const filtersOf = (since: string) => ({ ...noDeadLetters().filters, since });
    const view = { ...noDeadLetters(), totalInAll: 1 };
    const page = (since: string) =>
      textOf(deadLettersPage({ ...view, filters: filtersOf(since) }, contextOf('/dead-letters'), []));
    expect(page('36h')).toContain('Last 36 hours');
    expect(page('1w')).toContain('Last week');
    expect(page('24h').split('Last 24 hours')).toHaveLength(2);
  });

  test.for([
    ['1h', 'before the last hour'],
    ['2026-11-19T13:02:00.000Z', 'before 13:02:00'],
  ] as const)('the list of dead letters names the end of its window: %s', ([until, words]) => {
    const filters = { ...noDeadLetters().filters, since: '24h', until };
    const page = deadLettersPage(
      { ...noDeadLetters(), totalInAll: 1, filters },
      contextOf('/dead-letters'),
      [],
    );
    expect(textOf(page)).toMatch(new RegExp(`Showing those from ${words}.*\\. Show later ones too`));
    expect(String(page)).toContain(`<input type="hidden" name="until" value="${until}"`);
  });

  test('the list of dead letters says that none match the filters', () => {
    const view = { ...noDeadLetters(), totalInAll: 1268 };
    expect(textOf(deadLettersPage(view, contextOf('/dead-letters?q=x'), []))).toContain(
      'No dead letters match these filters 1,268 dead letters without filters. Clear filters',
    );
  });
});

describe('one dead letter', () => {
  test('a payload shows a chip for each hidden value', () => {
    const hidden = [
      { pointer: '/a~1b/0', kind: 'e-mail' },
      { pointer: '/c', kind: null },
    ];
    expect(textOf(payload({ 'a/b': ['[hidden: e-mail]', 'shown'], c: '[hidden]' }, hidden))).toBe(
      '{ &quot;a/b&quot;: [ hidden: e-mail, &quot;shown&quot; ], &quot;c&quot;: hidden }',
    );
  });

  test('a dead letter shows each attempt, and the operators’ actions between them', () => {
    const error = {
      kind: 'http_503',
      message: 'Service Unavailable',
      answer: 'closed\nuntil \u202E\u001B[31m18:00',
    };
    const attempts: Attempt[] = [
      {
        outcome: 'failed',
        attempt: 1,
        at: EARLIER,
        durationMs: 212,
        error,
        isProbe: false,
        waitedMs: 60_000,
      },
      {
        outcome: 'failed',
        attempt: 2,
        at: EARLIER,
        durationMs: 198,
        error,
        isProbe: false,
        waitedMs: 442_000,
      },
      { outcome: 'replayed', at: EARLIER, by: 'Ola', reason: 'it is back', replayId: 'r' },
      {
        outcome: 'delivered',
        attempt: 1,
        at: EARLIER,
        durationMs: 9,
        error: null,
        isProbe: false,
        waitedMs: null,
      },
    ];
    const text = textOf(drawDeadLetter(deadLetterOf({ attempts }), contextOf()));
    expect(text).toContain('Attempt 1: HTTP 503 Service Unavailable · 212 msnext attempt after 1 min');
    expect(String(failureTag('http_503'))).toBe('<span class="tag http">HTTP 503</span>');
    expect(text).toContain('closed until ⟨U+202E⟩␛[31m18:00');
    expect(text).toContain('198 msdead-letteredthe same answer as before');
    expect(text).toContain('Replayed by Olait is back');
    expect(text).toContain('Attempt 1: delivered');
  });

  test('a revealed dead letter shows its personal data, and a link to hide it', () => {
    const payload = { name: 'Kari Lunde' };
    const page = drawDeadLetter(deadLetterOf({ ...REVEALED, payload }), contextOf());
    expect(textOf(page)).toContain('Kari Lunde');
    expect(textOf(page)).toContain('personal data shown until 13:32:48 UTC');
    expect(textOf(page)).not.toContain('1 value hidden');
    expect(page.toString()).toContain('href="/platform/event-bus/dead-letters/12-3">Hide personal data');
  });

  test('an action on a revealed dead letter leads back to its own address', () => {
    const page = drawDeadLetter(
      deadLetterOf({ ...REVEALED, state: 'failing' }),
      contextOf('/dead-letters/12-3?revealed=r'),
    );
    expect(page.toString()).toContain('name="next" value="/platform/event-bus/dead-letters/12-3"');
  });
});

test.each([
  ['x', true],
  ['because', true],
  ['x'.repeat(500), true],
  ['x'.repeat(501), false],
  ['', false],
  ['   ', false],
])('the form takes the reason %j exactly where the server does', (reason, isTaken) => {
  const field = reasonField('for example').toString();
  const [, pattern] = /pattern="([^"]+)"/.exec(field)!;
  const [, longest] = /maxlength="(\d+)"/.exec(field)!;
  const fits = new RegExp(`^(?:${pattern})$`, 'v').test(reason) && reason.length <= Number(longest);
  expect([fits, requiredReason.safeParse(reason).success]).toEqual([isTaken, isTaken]);
});

describe('a replay', () => {
  test('a replay’s form sends what was previewed', () => {
    const page = replaying.page(preview(), contextOf('/replay')).toString();
    for (const [name, value] of [
      ['topic', 'payment.captured'],
      ['since', '24h'],
      ['limit', '500'],
      ['deliveryIds', '1-2,1-3'],
      ['replayId', 'the-replay'],
      ['expectedCount', '1204'],
    ]) {
      expect(page).toContain(`<input type="hidden" name="${name}" value="${value}" />`);
    }
  });

  test('a replay of more than 100 is confirmed with its number', () => {
    expect(replaying.page(preview(), contextOf()).toString()).toMatch(
      /Type 1204 to confirm.*name="confirm"/s,
    );
    expect(replaying.page(preview({ matched: 100 }), contextOf()).toString()).not.toContain('name="confirm"');
  });

  test('a replay of nothing says so', () => {
    const text = textOf(replaying.page(preview({ matched: 0, subscriptions: [] }), contextOf()));
    expect(text).toContain('Nothing to replay No dead letters on payment.captured in the last 24 hours.');
  });

  test('a replay is followed each second for a minute, until nothing of it waits', () => {
    const done: ReplayProgress = {
      generatedAt: NOW,
      replayId: 'r',
      topic: null,
      requestedAt: EARLIER,
      requestedBy: 'kari',
      reason: null,
      request: {},
      matched: 9,
      replayed: 7,
      recipients: null,
      lastDeliveredAt: EARLIER,
      pace: null,
      progress: { ...NONE, delivered: 7, replayedAgain: 0 },
    };
    const drawn = (fields: Partial<ReplayProgress>) => replayPage({ ...done, ...fields }, contextOf());
    expect(drawn({}).toString()).toContain('data-refresh="15"');
    expect(textOf(drawn({}))).toContain(
      'Replayed: 7 of 7 delivered, the last at 13:31:40 UTC. 2 were no longer dead-lettered when the replay started.',
    );

    const progress = { ...NONE, delivered: 5, pending: 1, failing: 1, replayedAgain: 0 };
    expect(drawn({ progress }).toString()).toContain('data-refresh="1"');
    expect(textOf(drawn({ progress }))).toContain(
      'Replayed: 5 of 7 delivered, 1 failed again and will be retried, 1 waiting.',
    );

    const late = drawn({ progress, requestedAt: '2026-11-19T13:31:06.000Z' });
    expect(late.toString()).toContain('data-refresh="15"');
    expect(textOf(late)).toContain('After a minute, this page no longer asks every second.');
  });

  test('a filtered log says what it shows, and keeps its filters from page to page', () => {
    const log = { generatedAt: NOW, replays: [], actions: [], nextCursor: 'older' };
    const page = logPage(log, contextOf('/replays?subscriber=ledger&cursor=c'));
    expect(textOf(page)).toContain('Showing only: subscriber ledger. Show all No replays on this page.');
    expect(page.toString()).toContain('/replays?subscriber=ledger"');
    expect(page.toString()).toContain('/replays?subscriber=ledger&amp;cursor=older"');
  });

  test('a replay is named by who got something, not by who might have', () => {
    const request = { topic: 'payment.captured', since: '24h' };
    const recipient = (subscriber: string) => ({ topic: 'payment.captured', subscriber, count: 1 });
    const words = (...names: string[]) => scopeWords({ request, recipients: names.map(recipient) });
    expect(words('ledger')).toBe('to ledger, dead-lettered in the last 24 hours');
    expect(words('audit', 'ledger')).toBe('to audit and ledger, dead-lettered in the last 24 hours');
    expect(words('a', 'b', 'c', 'd')).toBe('to 4 subscribers, dead-lettered in the last 24 hours');
    expect(words()).toBe('dead-lettered in the last 24 hours');
    expect(scopeWords({ request, recipients: null })).toBe('dead-lettered in the last 24 hours');
    expect(scopeWords({ request: { since: '3650d' }, recipients: null })).toBe('all dead letters');
  });

  test('the log without a replay says what it is for', () => {
    const log = { generatedAt: NOW, replays: [], actions: [], nextCursor: null };
    expect(textOf(logPage(log, contextOf('/replays')))).toContain(
      'No replays yet Each replay of dead letters is listed here, with its operator, reason and outcome.',
    );
    expect(textOf(logPage({ ...log, nextCursor: 'older' }, contextOf('/replays')))).toContain(
      'No replays on this page.',
    );
    expect(textOf(logPage(log, contextOf('/replays?topic=payment.captured')))).toContain('No replays match.');
  });
});

describe('a problem', () => {
  const problemOf = (status: number, fields = {}) =>
    textOf(
      problemPage(
        { status, title: 'Bad Request', code: 'c', detail: 'since: write it so', requestId: 'r', ...fields },
        contextOf(),
      ),
    );

  test('a problem is shown once, with what to do now', () => {
    const issues = [{ path: 'since', message: 'write it so' }];
    const text = problemOf(400, { issues });
    expect(text).toContain('Bad request Please check: since: write it so');
    expect(text.split('write it so')).toHaveLength(2);
    expect(text).toContain('Go back, correct it and try again.');
    expect(problemOf(503)).toContain('Try again in a minute');
  });
});

describe('without the scope', () => {
  const viewed = pagesWith('plain', DEAD_LETTERED, ['event-bus:read']);

  test.each(['overview', 'topic', 'deadLetters', 'deadLetter', 'preview'])(
    'the page %s without the replay scope says so once',
    (name) => {
      const page = viewed[name]!;
      expect(textOf(page).split('Replay needs the scope event-bus:replay.')).toHaveLength(2);
      expect(page.toString()).not.toMatch(
        /Replay…|Retry now|Skip…|Pause…|>\s*Resume|name="deliveryIds"|class="btn primary"/,
      );
    },
  );

  test('a dead letter without the reveal scope has no form to reveal it', () => {
    const page = drawDeadLetter(deadLetterOf(), contextOf('', ['event-bus:read', 'event-bus:replay']));
    expect(textOf(page)).toContain('Reveal needs the scope event-bus:reveal.');
    expect(page.toString()).not.toContain('/reveal"');
    expect(drawDeadLetter(deadLetterOf(), contextOf()).toString()).toContain('/dead-letters/12-3/reveal"');
  });
});
