import { describe, expect, onTestFinished, test } from 'vitest';
import * as z from 'zod';

import { forms } from '../../lib/console/actions.ts';
import { bouncePage, signInPage } from '../../lib/console/access/page.ts';
import type { Attempt } from '../../lib/console/deliveries/attempts.ts';
import { deadLettersDoc } from '../../lib/console/dead-letters/doc.ts';
import { deadLetterPage } from '../../lib/console/dead-letters/fields.ts';
import type { DeadLetterPage } from '../../lib/console/dead-letters/fields.ts';
import { deliveryDoc, eventDoc } from '../../lib/console/event/doc.ts';
import { eventView } from '../../lib/console/event/view.ts';
import type { EventDelivery, EventView } from '../../lib/console/event/view.ts';
import { eventList } from '../../lib/console/events/fields.ts';
import { eventsDoc } from '../../lib/console/events/views.ts';
import { dismissal, dismissPreview } from '../../lib/console/dismissals/operations.ts';
import { incidentDoc, incidentsDoc } from '../../lib/console/incidents/doc.ts';
import type { Incident } from '../../lib/console/incidents/incident.ts';
import { incidentList, incidentView } from '../../lib/console/incidents/read.ts';
import { reasonField } from '../../lib/console/kit/actions.ts';
import { drawPage } from '../../lib/console/kit/doc.ts';
import { ago, duration, showTimesIn, time, until } from '../../lib/console/kit/words.ts';
import type { Html, PageContext } from '../../lib/console/kit/layout.ts';
import { countColumn, inConsole, listTable, NO_NAMES, spanPhrase } from '../../lib/console/kit/document.ts';
import { payloadJson } from '../../lib/console/kit/payload.ts';
import { Problem } from '../../lib/platform/http/problem.ts';
import { problemPage } from '../../lib/console/kit/problem-page.ts';
import { requiredReason } from '../../lib/console/kit/shapes.ts';
import { failureTag } from '../../lib/console/kit/states.ts';
import { topicDoc, topicView } from '../../lib/console/lanes/views.ts';
import { overviewDoc, showOverview } from '../../lib/console/overview/views.ts';
import type { SubscriberOverview, TopicOverview } from '../../lib/console/overview/read.ts';
import { logDoc } from '../../lib/console/replays/views.ts';
import { operatorLog } from '../../lib/console/replays/log.ts';
import { replaying } from '../../lib/console/replays/operations.ts';
import { replayPreview } from '../../lib/console/replays/preview.ts';
import type { ReplayPreview } from '../../lib/console/replays/preview.ts';
import { replayProgress } from '../../lib/console/replays/progress.ts';
import type { ReplayProgress } from '../../lib/console/replays/progress.ts';
import { scopeWords } from '../../lib/console/replays/scope.ts';
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
    actions: forms,
    handling: () => ({ maxAttempts: 5 }),
  };
  const view = <View>(schema: z.ZodType<View>) => filled(schema, text, variant);
  const request = { topic: text, subscriber: text, since: text, group: text, deliveryIds: [text] };
  const replay = { ...view(replayProgress), request };
  return {
    overview: drawPage(overviewDoc(view(showOverview.route.answer), context.names), context),
    topic: drawPage(topicDoc(view(topicView), context.names), context),
    deadLetters: drawPage(deadLettersDoc(view(deadLetterPage)), context),
    deadLetter: drawPage(deliveryDoc(view(eventView), context.names), context),
    event: drawPage(eventDoc(view(eventView), context.names), context),
    incidents: drawPage(incidentsDoc(view(incidentList), NO_NAMES), context),
    incident: drawPage(incidentDoc(view(incidentView), NO_NAMES), context),
    dismissal: dismissal.page({ ...view(dismissPreview), request }, context),
    preview: replaying.page({ ...view(replayPreview), request }, context),
    events: drawPage(eventsDoc(view(eventList)), context),
    log: drawPage(logDoc(view(operatorLog), context.names), context),
    replay: replayPage(replay, context),
    signIn: signInPage({ next: text, directory: text, problem: text }),
    problem: problemPage(
      new Problem('validation_failed', {
        detail: text,
        issues: [{ path: text, pointer: text, code: text, message: text }],
      }),
      { requestId: text, isRead: true, context },
    ),
    bounce: bouncePage(new URL(`http://localhost/platform/event-bus?q=${text}`)),
  };
}

function replayPage(view: ReplayProgress, context: PageContext): Html {
  return drawPage(replaying.followed!.view.says(view, context.names), context);
}

function contextOf(path = '', scopes: readonly Scope[] = ALL): PageContext {
  return {
    operator: { subject: 'kari', name: 'Kari Nordmann', scopes: new Set(scopes), via: 'cookie' },
    environment: 'Local',
    url: new URL(`http://localhost/platform/event-bus${path}`),
    badges: null,
    names: NO_NAMES,
    actions: forms,
    handling: (_, subscriber) => ({ maxAttempts: 5, refusesReplays: subscriber === 'notifications' }),
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
    state: 'delivering',
    haltedLanes: 0,
    oldestDueAgeSeconds: null,
    nextRetryAt: null,
    lastDeliveredAt: null,
    lastFailedAt: null,
    ...fields,
  };
}

function quietOverview(topics: TopicOverview[] = [topicOf('payment.captured')]) {
  const view: Parameters<typeof overviewDoc>[0] = {
    generatedAt: NOW,
    relay: { state: 'running', lastPassAt: '2026-11-19T13:32:04.000Z', runsHere: true, lagSeconds: 0 },
    totals: {
      ...NONE,
      deliveries: NONE,
      deliveredLast24h: 1012,
    },
    hours: HOURS,
    incidents: [],
    incidentCounts: { happening: 0, owed: 0 },
    oldestSnapshot: null,
    topics,
    show: 'attention',
    alerts: { channels: [], heartbeat: false, problems: [] },
  };
  return view;
}

const overviewText = (view: ReturnType<typeof quietOverview>) =>
  textOf(drawPage(overviewDoc(view, NO_NAMES), contextOf()));

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
    closedAt: null,
    times: 1,
    next: null,
    blockedLanes: 1,
    haltedLanes: 0,
    outage: null,
    waiting: 3,
    owed: 0,
    acknowledged: null,
    paused: false,
    inCatalog: true,
    ...fields,
  };
}

function noDeadLetters(): DeadLetterPage {
  return {
    generatedAt: NOW,
    filters: {},
    items: [],
    total: 0,
    totalInAll: 0,
    groups: [],
    nextCursor: null,
  };
}

function deadLetterOf(
  delivery: Partial<EventDelivery> = {},
  event: Partial<EventView['event']> = {},
): EventView {
  return {
    generatedAt: NOW,
    verdict: 'Dead-lettered for ledger.',
    causes: [],
    effects: [],
    event: {
      eventId: '019a',
      topic: 'payment.captured',
      subject: 'payment pay_1',
      state: 'dead_lettered',
      createdAt: EARLIER,
      orderingKey: '',
      dedupeKey: null,
      producer: 'payments',
      version: 1,
      correlationId: null,
      causationId: null,
      traceparent: null,
      payload: { name: '[hidden: name]' },
      hidden: [{ pointer: '/name', kind: 'name' }],
      isValid: true,
      isRevealed: false,
      erasedAt: null,
      reveal: null,
      ...event,
    },
    deliveries: [
      {
        deliveryId: '12-3',
        subscriber: 'ledger',
        state: 'dead_lettered',
        attempts: [],
        failures: 5,
        maxAttempts: 5,
        replays: 0,
        deadLetteredAt: EARLIER,
        dismissedAt: null,
        deliveredAt: null,
        nextAttemptAt: null,
        isHalting: false,
        lastError: null,
        why: null,
        ...delivery,
      },
    ],
  };
}

const REQUEST = { topic: 'payment.captured', since: '24h' };

function preview(fields: Partial<ReplayPreview> = {}): ReplayPreview {
  return {
    generatedAt: NOW,
    replayId: 'the-replay',
    ...REQUEST,
    replayed: 0,
    request: {
      ...REQUEST,
      limit: 500,
      deliveryIds: ['1-2', '1-3'],
      replayId: 'the-replay',
      expectedCount: 1204,
    },
    matched: 1204,
    unmatched: [],
    error: null,
    firstAt: null,
    lastAt: null,
    subscriptions: [
      {
        topic: 'payment.captured',
        subscriber: 'ledger',
        count: 1204,
        skipped: 0,
        dismissed: 0,
        halting: 0,
        attached: true,
        paused: false,
        isStillFailing: false,
      },
    ],
    leftOut: [],
    isBesidePaced: false,
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

describe('a table', () => {
  test('each cell names its column, so that a row can be drawn as a card', () => {
    const drawn = listTable(
      {
        name: 'Lanes',
        columns: [
          { label: 'Lane', isRowHeader: true, cell: ({ lane }) => lane },
          countColumn<{ waiting: number }>('Waiting', ({ waiting }) => waiting),
          { label: 'Held by', cell: ({ by }) => by ?? 'nobody' },
          { label: 'Last day', heading: html`Last <i>day</i>`, cell: () => '…' },
        ],
        rows: [
          { lane: 'a < b', waiting: 0, by: null },
          { lane: 'c', waiting: 1204, by: '1-2' },
        ],
      },
      { actions: () => 'Retry' },
    );
    const cells = String(drawn).matchAll(/<(th|td)( [^>]*role="(?:cell|rowheader)"[^>]*)>([^<]*)/g);
    expect(Array.from(cells, ([, name, attributes, text]) => `${name}${attributes}: ${text}`)).toEqual([
      'th class="row" scope="row" role="rowheader" data-label="Lane": a &lt; b',
      'td class="num zero" role="cell" data-label="Waiting": 0',
      'td role="cell" data-label="Held by": nobody',
      'td role="cell" data-label="Last day": …',
      'td class="end" role="cell": ',
      'th class="row" scope="row" role="rowheader" data-label="Lane": c',
      'td class="num" role="cell" data-label="Waiting": 1,204',
      'td role="cell" data-label="Held by": 1-2',
      'td role="cell" data-label="Last day": …',
      'td class="end" role="cell": ',
    ]);
  });

  test('a cell that holds markup of a table does not disturb the others', () => {
    const cell = () =>
      inConsole(
        html`<table>
          <tr>
            <td>inner</td>
          </tr>
        </table>`,
      );
    const drawn = String(listTable({ name: 'Lanes', columns: [{ label: 'Lane', cell }], rows: [null] }));
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

  test('a span of one instant is that instant', () => {
    expect(spanPhrase('2026-11-18T17:41:00Z', EARLIER, NOW).text).toBe('Wed 17:41 UTC – 13:31:40 UTC');
    expect(spanPhrase(EARLIER, EARLIER, NOW).text).toBe('13:31:40 UTC');
  });
});

describe('the overview', () => {
  test('the overview says that all is quiet', () => {
    expect(overviewText(quietOverview())).toContain(
      'All quiet. Nothing is failing and nothing is dead-lettered.',
    );
  });

  test('the overview says that this deployment does not relay', () => {
    const view = { ...quietOverview(), relay: { ...quietOverview().relay, runsHere: false } };
    expect(overviewText(view)).toContain(
      'This deployment does not run the relay. Another deployment delivers from this database; its relay ran last at 13:32:04 UTC. To deliver from here, set RELAY=on.',
    );
  });

  test('the overview says what waits for another release', () => {
    const forgotten = subscriberOf('calendar', {
      inCatalog: false,
      attached: false,
      state: 'unattached',
      pending: 2,
    });
    const newer = subscriberOf('ledger', { neededVersion: 2, pending: 1 });
    const view = quietOverview([
      topicOf('payment.captured', { pending: 3, subscribers: [forgotten, newer] }),
    ]);
    const text = overviewText(view);
    expect(text).toContain('3 deliveries wait for another release.');
    expect(text).toContain('unattachednot in this release’s catalog');
    expect(text).toContain('readywaits for a release that reads version 2');
    expect(text).not.toContain('All quiet');
  });

  test('the overview says that the relay has stopped', () => {
    const relay = {
      state: 'stalled',
      lastPassAt: '2026-11-19T13:05:00Z',
      runsHere: true,
      lagSeconds: 1627,
    } as const;
    expect(overviewText({ ...quietOverview(), relay })).toContain(
      'The relay has not run since 13:05:00 UTC. Events are saved but not delivered. Check the cron that calls /api/cron/relay',
    );
  });

  test('the overview says what waits for the end of a pause', () => {
    const pause = { topic: null, pausedAt: EARLIER, pausedBy: 'kari', reason: 'it moves to another host' };
    const notifications = subscriberOf('notifications', { paused: true, pause, pending: 4 });
    const view = quietOverview(
      ['booking.created', 'payment.captured'].map((topic) =>
        topicOf(topic, { subscribers: [notifications] }),
      ),
    );
    const page = drawPage(overviewDoc(view, NO_NAMES), contextOf());
    const words =
      'notifications is paused for all its topics by kari since 13:31:40 UTC: it moves to another host Open subscriber';
    expect(textOf(page).split(words)).toHaveLength(2);
    expect(textOf(page)).not.toContain('All quiet');
  });

  test('the overview says who holds an old snapshot, and is not quiet then', () => {
    const text = 'pg_dump of the role backup (process 4711, active) has held a snapshot for 14 min.';
    const shown = overviewText({ ...quietOverview(), oldestSnapshot: text });
    expect(shown).toContain(`Dead rows pile up. ${text}`);
    expect(shown).not.toContain('All quiet');
  });

  test('the overview lists what happens now before what is owed, and hides neither behind the other nor a pause', () => {
    const pause = { topic: null, pausedAt: EARLIER, pausedBy: 'kari', reason: 'it moves to another host' };
    const paused = subscriberOf('notifications', { paused: true, pause });
    const view = {
      ...quietOverview([topicOf('booking.created', { subscribers: [paused] })]),
      incidents: [
        incidentOf({ incidentId: 'now', sentence: 'ledger answers 500 on payment.captured.' }),
        incidentOf({ incidentId: 'then', state: 'owed', sentence: 'audit answered 410 on invoice.issued.' }),
      ],
      incidentCounts: { happening: 12, owed: 1 },
    };
    const page = drawPage(overviewDoc(view, NO_NAMES), contextOf());
    const text = textOf(page);
    const order = [
      'notifications is paused',
      'Happening now',
      'all 12 incidents',
      'ledger answers 500',
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

  test('the overview says that no topic needs attention, and how many are quiet', () => {
    const text = overviewText(quietOverview([topicOf('booking.created'), topicOf('payment.captured')]));
    expect(text).toContain('2 quiet topics not shown');
    expect(text).toContain('No topic needs attention.');
    expect(text).not.toContain('booking.created');
  });

  test('deliveries to an unattached subscriber wait, which is no alert', () => {
    const accounting = subscriberOf('accounting', { attached: false, state: 'unattached', pending: 3 });
    const text = overviewText(
      quietOverview([topicOf('payment.captured', { pending: 3, subscribers: [accounting] })]),
    );
    expect(text).toContain('All quiet.');
    expect(text).toMatch(/accounting3[^a-z]+none due.*unattached/);
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
    expect(overviewText(view)).toContain('1 quiet topic not shown');
  });

  test('topics are sorted by what is blocked now', () => {
    const blocked = subscriberOf('ledger', { failing: 1, pending: 4 });
    const view = quietOverview([
      topicOf('booking.created', { deadLettered: 9000 }),
      topicOf('payment.captured', { failing: 1, deadLettered: 2, subscribers: [blocked] }),
    ]);
    const page = drawPage(overviewDoc(view, NO_NAMES), contextOf());
    const order = [...page.matchAll(/class="t mono"[^>]*>([^<]+)/g)].map(([, topic]) => topic);
    expect(order).toEqual(['payment.captured', 'booking.created']);
  });

  test('all topics are a link away, also the quiet ones, and those that need attention are one from there', () => {
    const view = quietOverview([topicOf('booking.created'), topicOf('payment.captured')]);
    const page = (shown: typeof view) => String(drawPage(overviewDoc(shown, NO_NAMES), contextOf()));
    expect(page(view)).toContain('<a href="/platform/event-bus?show=all#topics">all topics</a>');
    const all = page({ ...view, show: 'all' });
    expect(all).toContain('booking.created');
    expect(all).toContain('<a href="/platform/event-bus#topics">only those that need attention</a>');
  });
});

describe('dead letters', () => {
  test('the list of dead letters says that there are none, and what is failing', () => {
    expect(textOf(drawPage(deadLettersDoc(noDeadLetters()), contextOf('/dead-letters')))).toContain(
      'No dead letters. Every delivery has succeeded, was dismissed or is still being retried. See failing events',
    );
  });

  test('the list of dead letters names any window like its own', () => {
    const filtersOf = (since: string) => ({ ...noDeadLetters().filters, since });
    const view = { ...noDeadLetters(), totalInAll: 1 };
    const page = (since: string) =>
      textOf(drawPage(deadLettersDoc({ ...view, filters: filtersOf(since) }), contextOf('/dead-letters')));
    expect(page('36h')).toContain('Last 36h');
    expect(page('1w')).toContain('Last 1w');
    expect(page('24h').split('Last 24 hours')).toHaveLength(2);
  });

  test('the list of dead letters says that none match the filters', () => {
    const view = { ...noDeadLetters(), totalInAll: 1268 };
    expect(textOf(drawPage(deadLettersDoc(view), contextOf('/dead-letters?q=x')))).toContain(
      'No dead letters match these filters. 1,268 dead letters without filters. Clear filters',
    );
  });
});

describe('one dead letter', () => {
  test('a payload shows a chip for each hidden value', () => {
    const payload = { 'a/b': ['[hidden: e-mail]', 'say "c": [hidden]'], c: '[hidden]', d: {} };
    expect(textOf(html`${payloadJson(payload, false)}`)).toBe(
      '{ &quot;a/b&quot;: [ hidden: e-mail, &quot;say \\&quot;c\\&quot;: [hidden]&quot; ], &quot;c&quot;: hidden, &quot;d&quot;: {} }',
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
    const text = textOf(drawPage(deliveryDoc(deadLetterOf({ attempts }), NO_NAMES), contextOf()));
    expect(text).toContain('Attempt 1: HTTP 503 Service Unavailable · 212 msnext attempt after 1 min');
    expect(String(failureTag('http_503'))).toBe('<span class="tag http">HTTP 503</span>');
    expect(text).toContain('closed until ⟨U+202E⟩␛[31m18:00');
    expect(text).toContain('198 msdead-letteredthe same answer as before');
    expect(text).toContain('Replayed by Olait is back');
    expect(text).toContain('Attempt 1: delivered');
  });

  test('a revealed dead letter shows its personal data, and a link to hide it', () => {
    const payload = { name: 'Kari Lunde' };
    const page = drawPage(deliveryDoc(deadLetterOf({}, { ...REVEALED, payload }), NO_NAMES), contextOf());
    expect(textOf(page)).toContain('Kari Lunde');
    expect(textOf(page)).toContain('personal data shown until 13:32:48 UTC');
    expect(textOf(page)).not.toContain('1 value hidden');
    expect(page.toString()).toContain('href="/platform/event-bus/events/019a">Hide personal data');
  });

  test('an action on a revealed event leads back to its own address', () => {
    const why = {
      code: 'paused',
      text: 'ledger is paused.',
      behind: null,
      since: EARLIER,
      until: null,
      by: 'kari',
      reason: 'moving',
      pausedTopic: null,
    } as const;
    const page = drawPage(
      eventDoc(deadLetterOf({ state: 'failing', deadLetteredAt: null, why }, REVEALED), NO_NAMES),
      contextOf('/events/019a?revealed=r'),
    );
    expect(page.toString()).toContain('name="next" value="/platform/event-bus/events/019a"');
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
    const text = textOf(
      replaying.page(preview({ matched: 0, subscriptions: [], request: REQUEST }), contextOf()),
    );
    expect(text).toContain('Nothing to replay Nothing matches: payment.captured, ');
  });

  test('a replay is read each second for a minute, while something of it waits', () => {
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
      perMinute: null,
      endedAt: EARLIER,
      stopped: null,
      left: 0,
      progress: { ...NONE, delivered: 7, replayedAgain: 0 },
    };
    const drawn = (fields: Partial<ReplayProgress>) => replayPage({ ...done, ...fields }, contextOf());
    expect(drawn({}).toString()).toContain('data-refresh="15"');
    expect(textOf(drawn({}))).toContain('Replayed: 7 of 7 delivered, 2 passed over');

    const progress = { ...NONE, delivered: 5, pending: 1, failing: 1, replayedAgain: 0 };
    expect(drawn({ progress }).toString()).toContain('data-refresh="1"');
    expect(textOf(drawn({ progress }))).toContain(
      'Replayed: 5 of 7 delivered, 1 failed and will be retried, 1 waiting, 2 passed over',
    );
    const late = drawn({ progress, requestedAt: '2026-11-19T13:31:06.000Z' });
    expect(late.toString()).toContain('data-refresh="15"');
  });

  test('a replay is named by who got something, not by who might have', () => {
    const request = { topic: 'payment.captured', since: '24h' };
    const recipient = (subscriber: string) => ({ topic: 'payment.captured', subscriber, count: 1 });
    const words = (...names: string[]) => scopeWords({ request, recipients: names.map(recipient) });
    expect(words('ledger')).toBe('to ledger, dead-lettered in the last 24h');
    expect(words('audit', 'ledger')).toBe('to audit and ledger, dead-lettered in the last 24h');
    expect(words('a', 'b', 'c', 'd')).toBe('to 4 subscribers, dead-lettered in the last 24h');
    expect(words()).toBe('dead-lettered in the last 24h');
    expect(scopeWords({ request, recipients: null })).toBe('dead-lettered in the last 24h');
    expect(scopeWords({ request: { since: '3650d' }, recipients: null })).toBe('all dead letters');
  });

  test.each([
    [{}, 'No entries yet. Each action is listed here'],
    [{ only: 'backfills' } as const, 'No entries yet'],
    [{ topic: 'payment.captured' }, 'No entries match'],
  ])('the log without entries says so, filtered by %j', (filters, words) => {
    const log = { generatedAt: NOW, filters, items: [], nextCursor: null };
    expect(textOf(drawPage(logDoc(log, NO_NAMES), contextOf('/replays')))).toContain(words);
  });
});

describe('a problem', () => {
  const problemOf = (problem: Problem) =>
    textOf(problemPage(problem, { requestId: 'r', isRead: true, context: contextOf() }));

  test('a problem is shown once, with what to do now', () => {
    const issues = [{ path: 'since', pointer: '/since', code: 'custom', message: 'write it so' }];
    const text = problemOf(new Problem('validation_failed', { detail: 'since: write it so', issues }));
    expect(text).toContain('Bad request Please check: since: write it so');
    expect(text.split('write it so')).toHaveLength(2);
    expect(text).toContain('Go back, correct it and try again.');
    expect(problemOf(new Problem('key_server_unavailable'))).toContain('Try again in a minute');
  });

  test('a problem with the form to correct does not ask to go back', () => {
    const context = { ...contextOf(), unsent: html`<form>Correct it</form>` };
    const problem = new Problem('validation_failed', { detail: 'reason: expected a reason' });
    const text = textOf(problemPage(problem, { requestId: 'r', isRead: false, context }));
    expect(text).toContain('Correct it');
    expect(text).not.toContain('Go back');
  });
});

describe('without the scope', () => {
  const viewed = pagesWith('plain', DEAD_LETTERED, ['event-bus:read']);

  test.each(['overview', 'topic', 'deadLetters', 'deadLetter', 'preview'])(
    'the page %s without the replay scope says so once',
    (name) => {
      const page = viewed[name]!;
      expect(textOf(page).split('Acting needs the scope event-bus:replay.')).toHaveLength(2);
      expect(page.toString()).not.toMatch(
        /Replay…|Retry now|Skip…|Pause…|>\s*Resume|name="deliveryIds"|class="btn primary"/,
      );
    },
  );

  test('a dead letter without the reveal scope has no form to reveal it', () => {
    const page = drawPage(
      deliveryDoc(deadLetterOf(), NO_NAMES),
      contextOf('', ['event-bus:read', 'event-bus:replay']),
    );
    expect(textOf(page)).toContain('Reveal needs the scope event-bus:reveal.');
    expect(page.toString()).not.toContain('/reveal"');
    expect(drawPage(deliveryDoc(deadLetterOf(), NO_NAMES), contextOf()).toString()).toContain(
      '/events/019a/reveal"',
    );
  });
});
