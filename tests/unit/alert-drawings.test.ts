import { readFileSync } from 'node:fs';

import { describe, expect, test } from 'vitest';

import { htmlOf, textOf } from '../../lib/components/alerts/mail-channel.ts';
import { pagerDutyEvents } from '../../lib/components/alerts/pagerduty-channel.ts';
import { slackMessage } from '../../lib/components/alerts/slack-channel.ts';
import { teamsBody } from '../../lib/components/alerts/teams-channel.ts';
import { jsonOf } from '../../lib/components/alerts/webhook-channel.ts';
import type { AlertedIncident } from '../../lib/components/alerts/claim-alerts.ts';
import { incidentMessage, testMessage } from '../../lib/components/alerts/message.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import * as strict from '../support/alert-channels.ts';
import { numbers } from '../support/bus.ts';

const AT = Date.parse('2026-02-21T23:31:00.000Z');
const ORIGIN = { environment: 'Production', publicUrl: 'https://bus.example.no' };

function incident(number: number, change: Partial<AlertedIncident> = {}): AlertedIncident {
  return {
    id: `019c7f3e-5d20-7a41-8c1e-${String(number).padStart(12, '0')}`,
    revision: 1,
    topic: 'payment.captured',
    subscriber: 'accounting',
    kind: 'http_500',
    group: '2cc2bb03cbfce8c4',
    message: `the subscriber answered 500: voucher series ${number} is closed`,
    state: 'happening',
    change: 'opened',
    openedAt: AT + number * MINUTE,
    changedAt: AT + number * MINUTE,
    closedAt: null,
    times: 1,
    next: null,
    blockedLanes: 2,
    haltedLanes: 0,
    nextProbeAt: null,
    waiting: 1204 - number,
    owed: 3,
    isAcknowledged: false,
    wasAcknowledged: false,
    ...change,
  };
}

/** Forty errors of one night: of most, lanes are blocked; the last three left dead letters. */
const forty = numbers(1, 40).map((number) =>
  incident(number, number > 37 ? { state: 'owed', blockedLanes: 0, waiting: 0, owed: 300 - number } : {}),
);
const digest = incidentMessage(forty, ORIGIN);
const single = incidentMessage([forty[0]!], ORIGIN);

const drawings = {
  mail: (message: typeof digest) => [textOf(message), htmlOf(message)],
  slack: (message: typeof digest) => [JSON.stringify(slackMessage(message))],
  teams: (message: typeof digest) => [teamsBody(message)],
  webhook: (message: typeof digest) => [JSON.stringify(jsonOf(message, AT))],
};

describe('a digest of forty incidents', () => {
  test.each(Object.entries(drawings))(
    'says in %s of each of the worst twenty its subscription, error, count and address, and how many more there are',
    (_, draw) => {
      for (const drawn of draw(digest)) {
        for (const number of numbers(1, 20)) {
          expect(drawn).toContain(`voucher series ${number} is closed`);
          expect(drawn).toContain(
            `${(1204 - number).toLocaleString('en-GB')} deliveries waiting, 3 dead letters`,
          );
          expect(drawn).toContain(
            `https://bus.example.no/platform/event-bus/incidents/${forty[number - 1]!.id}`,
          );
        }
        expect(drawn.split('payment.captured to accounting').length).toBeGreaterThan(20);
        expect(drawn).toContain('40 incidents: 37 blocked, 3 with dead letters.');
        expect(drawn).toContain('And 20 more');
        expect(drawn).not.toContain('voucher series 21 is closed');
      }
    },
  );

  test('is in PagerDuty an event for each of the forty, with its own key, error and count', () => {
    const events = forty.flatMap((one) => pagerDutyEvents(one, digest));
    expect(events).toHaveLength(40);
    expect(new Set(events.map(({ dedup_key }) => dedup_key)).size).toBe(40);
    expect(events[0]!.payload).toMatchObject({
      severity: 'critical',
      summary:
        'Blocked since 22 Feb 00:32 CET: payment.captured to accounting. accounting fails with http_500: the subscriber answered 500: voucher series 1 is closed. 2 lanes blocked, 1,203 deliveries waiting. 3 dead letters to replay or dismiss.',
    });
    expect(events[39]!.payload).toMatchObject({
      severity: 'error',
      summary: expect.stringContaining('260 dead letters'),
    });
  });

  test('reads in a mail as docs/operate.md shows it', () => {
    const [first, ...rest] = textOf(digest).split('\n\n');
    expect([first, ...rest.slice(-2)]).toEqual([
      '40 incidents: 37 blocked, 3 with dead letters.',
      'And 20 more: https://bus.example.no/platform/event-bus/incidents',
      'Postbud, Production',
    ]);
    expect(rest[0]).toBe(
      `Blocked since 22 Feb 00:32 CET: payment.captured to accounting
http_500: the subscriber answered 500: voucher series 1 is closed. 2 lanes blocked, 1,203 deliveries waiting, 3 dead letters.
https://bus.example.no/platform/event-bus/incidents/019c7f3e-5d20-7a41-8c1e-000000000001`,
    );
    const documented = readFileSync('docs/operate.md', 'utf8');
    for (const line of [first, ...rest.slice(-2)]) expect(documented).toContain(line);
  });
});

/** What a component says to break out of each drawing, at its longest. */
const HOSTILE = `<!channel> <@U1> [link](https://evil.example) *bold* _x_ \`y\` <script>x</script> ${'&"\\<'.repeat(500)}`;

const messages = {
  'of forty incidents': digest,
  'of one incident': single,
  'of a test': testMessage(ORIGIN),
  'of hostile errors': incidentMessage(
    forty.map((one) => ({
      ...one,
      kind: HOSTILE,
      message: HOSTILE,
      topic: 'x'.repeat(200),
      subscriber: 'y'.repeat(100),
    })),
    ORIGIN,
  ),
  'of errors in letters of four bytes': incidentMessage(
    forty.map((one) => ({ ...one, kind: '🦊'.repeat(900), message: '🦊'.repeat(901) })),
    ORIGIN,
  ),
  'without an address of the console': incidentMessage(forty, { environment: 'Local', publicUrl: undefined }),
};

describe.each(Object.entries(messages))('a message %s', (_, message) => {
  test('is within what Slack takes: blocks, lengths, links', () => {
    expect(strict.slackBody.parse(slackMessage(message))).toEqual(slackMessage(message));
  });

  test('is an Adaptive Card of at most 28 KB, also in two bytes a character', () => {
    const body = teamsBody(message);
    strict.teamsBody.parse(JSON.parse(body));
    expect(2 * body.length).toBeLessThanOrEqual(28_000);
  });

  test('is within what PagerDuty takes', () => {
    for (const one of message.incidents)
      for (const event of pagerDutyEvents(one, message))
        strict.pagerDutyEvent.parse({ routing_key: 'k'.repeat(32), ...event });
  });

  test('is a text of at most 40,000 characters for other chats', () => {
    expect(jsonOf(message, AT).text.length).toBeLessThanOrEqual(40_000);
  });

  test('has no half of a character', () => {
    for (const drawn of Object.values(drawings).flatMap((draw) => draw(message)))
      expect(drawn.isWellFormed()).toBe(true);
    expect(JSON.stringify(slackMessage(message))).not.toMatch(/\\ud[89a-f]/i);
  });
});

describe('an error with markup', () => {
  const { entries } = incidentMessage([incident(1, { message: HOSTILE })], ORIGIN);
  const message = incidentMessage([incident(1, { message: HOSTILE })], ORIGIN);

  test('stands in Slack as rich text, which is shown as it is, and escaped in the text of notifications', () => {
    const { text, blocks } = slackMessage(message);
    expect(text).toContain('&lt;!channel&gt;');
    expect(text).not.toContain('<!channel>');
    const shown = blocks.filter(({ type }) => type === 'rich_text');
    expect(JSON.stringify(shown)).toContain('<!channel> <@U1> [link](https://evil.example) *bold*');
    expect(JSON.stringify(blocks)).not.toContain('mrkdwn');
    const links = JSON.stringify(blocks).match(/"type":"link","url":"[^"]*"/g);
    expect(links).toEqual([`"type":"link","url":"${entries[0]!.url}"`]);
  });

  test('stands in Teams in runs of text, in which Markdown has no meaning', () => {
    const body = teamsBody(message);
    expect(body).toContain('[link](https://evil.example)');
    expect(body).not.toContain('"TextBlock"');
    expect(body.match(/"url":"[^"]*"/g)).toEqual([`"url":"${entries[0]!.url}"`]);
  });
});

describe('an incident of PagerDuty', () => {
  test.each([
    ['opened', {}, ['trigger']],
    ['changed', { state: 'owed' }, ['trigger']],
    ['changed', { isAcknowledged: true, wasAcknowledged: true }, ['acknowledge']],
    // Nobody is paged again by what was acknowledged.
    ['changed', { wasAcknowledged: true }, ['resolve', 'trigger']],
    ['changed', { wasAcknowledged: true, state: 'owed' }, ['trigger']],
    ['closed', { state: 'closed', closedAt: AT }, ['resolve']],
    ['closed', { state: 'closed', closedAt: AT, isAcknowledged: true, wasAcknowledged: true }, ['resolve']],
  ] as const)('that %s as %j is told by %j, always with the same key', (change, how, actions) => {
    const events = pagerDutyEvents(incident(1, { change, ...how }), single);
    expect(events.map(({ event_action }) => event_action)).toEqual(actions);
    for (const { dedup_key } of events) expect(dedup_key).toBe(`postbud-production-${incident(1).id}`);
  });

  test('has another key in a preview, whose database may have production’s incidents', () => {
    const [event] = pagerDutyEvents(
      incident(1),
      incidentMessage(forty, { ...ORIGIN, environment: 'Preview' }),
    );
    expect(event!.dedup_key).toBe(`postbud-preview-${incident(1).id}`);
  });
});
