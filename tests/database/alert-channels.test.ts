import { describe, expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { sendAlerts } from '../../lib/components/alerts/send-alerts.ts';
import { acknowledge } from '../../lib/components/incidents/acknowledge.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { targetsOf } from '../../lib/console/alerts/read.ts';
import { readConfig } from '../../lib/platform/config.ts';
import type { AlertSettings } from '../../lib/platform/config.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import {
  openPagerDuty,
  openSlack,
  openTeams,
  pagerDutyEvent,
  slackBody,
  teamsBody,
} from '../support/alert-channels.ts';
import { test as busTest } from '../support/bus-test.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { answer } from '../support/receiver.ts';
import { endLimit } from '../support/waits.ts';

const T0 = Date.parse('2026-02-21T23:31:00.000Z');
const at = (ms: number) => new Date(T0 + ms);
const ROUTING_KEY = 'r3FPuDvNOTEDyQYCc7trBkymIFcy2NkE';

/** Slack, Teams and PagerDuty, and the settings that lead to all three. */
const test = busTest
  .extend('slack', async ({ output }, { onCleanup }) => {
    output.text();
    const slack = await openSlack();
    onCleanup(() => slack.close());
    return slack;
  })
  .extend('teams', async ({ output }, { onCleanup }) => {
    output.text();
    const teams = await openTeams();
    onCleanup(() => teams.close());
    return teams;
  })
  .extend('pagerDuty', async ({ output }, { onCleanup }) => {
    output.text();
    const pagerDuty = await openPagerDuty();
    onCleanup(() => pagerDuty.close());
    return pagerDuty;
  })
  .extend(
    'settings',
    async ({ slack, teams, pagerDuty }): Promise<AlertSettings> =>
      readConfig({
        ALERT_SLACK_URL: slack.url,
        ALERT_TEAMS_URL: teams.url,
        PAGERDUTY_ROUTING_KEY: ROUTING_KEY,
        PAGERDUTY_BASE_URL: pagerDuty.baseUrl,
        PUBLIC_URL: 'https://bus.example.no',
      }).alerts,
  );

test('Forty errors of a minute are one message in Slack, one card in Teams and forty incidents of PagerDuty, the worst first.', async ({
  bus,
  settings,
  slack,
  teams,
  pagerDuty,
}) => {
  await open(bus, 40);
  await sendAlerts(bus.db, settings, at(0));
  await sendAlerts(bus.db, settings, at(MINUTE));
  expect([slack, teams, pagerDuty].map(({ got }) => got.length)).toEqual([1, 1, 40]);
  const inSlack = slackBody.parse(JSON.parse(slack.got[0]!.body));
  expect(inSlack.blocks[0]).toMatchObject({
    type: 'header',
    text: {
      text: '[Local] Blocked since 22 Feb 00:31 CET: payment.captured to accounting, and 39 more incidents',
    },
  });
  const cards = teamsBody.parse(JSON.parse(teams.got[0]!.body)).attachments;
  for (const told of [inSlack, cards].map((drawn) => JSON.stringify(drawn))) {
    const named = Array.from(told.matchAll(/error (\d+) of the night\. 1 lane blocked, (\d+) deliveries/g));
    // In Slack also the text of notifications has them.
    const worst = named.slice(-20).map(([, error, waiting]) => [Number(error), Number(waiting)]);
    expect(worst).toEqual(Array.from({ length: 20 }, (_, index) => [40 - index, 140 - index]));
  }
  const events = pagerDuty.got.map(({ body }) => pagerDutyEvent.parse(JSON.parse(body)));
  expect(new Set(events.map(({ dedup_key }) => dedup_key)).size).toBe(40);
  expect(events[0]).toMatchObject({ payload: { summary: expect.stringContaining('error 40 of the night') } });
  expect(await unsent(bus)).toEqual([]);
});

/** Forty errors, none of which differs from another by a number alone. */
const ERRORS = ['voucher series', 'period', 'account', 'customer', 'cost centre'].flatMap((what) =>
  [
    'is closed',
    'is locked',
    'is unknown',
    'is inactive',
    'has no currency',
    'has no owner',
    'was merged',
    'was deleted',
  ].map((how) => `the ${what} ${how}`),
);

test('Dead letters of forty errors of one subscription are forty incidents, each told with its own words and count.', async ({
  bus,
  ledger,
  settings,
  slack,
  teams,
  pagerDuty,
}) => {
  // The first error leaves 21 dead letters, each other one.
  await emitPayments(bus.db, 1, 60);
  const refuse = (number: number) => {
    throw new PermanentError(ERRORS[Math.max(0, number - 21)]!);
  };
  await drainLive(bus.db, [ledger(refuse)]);
  await watchIncidents(bus.db);
  await sendAlerts(bus.db, settings);
  expect([slack, teams, pagerDuty].map(({ got }) => got.length)).toEqual([1, 1, 40]);
  const summaries = pagerDuty.got.map(
    ({ body }) => (JSON.parse(body) as { payload: { summary: string } }).payload.summary,
  );
  for (const error of ERRORS)
    expect(
      summaries.filter((summary) => summary.includes(`: ${error}.`)),
      error,
    ).toHaveLength(1);
  expect(summaries[0]).toMatch(/21 dead letters .*the voucher series is closed/);
  const { blocks } = slackBody.parse(JSON.parse(slack.got[0]!.body));
  expect(JSON.stringify(blocks[1])).toContain('40 incidents: 40 with dead letters.');
  expect(JSON.stringify(blocks[2])).toMatch(
    /payment\.captured to ledger.*permanent: the voucher series is closed\. 21 dead letters\./,
  );
  for (const block of blocks.slice(3, 22)) expect(JSON.stringify(block)).toContain('. 1 dead letter.');
});

describe('an incident of PagerDuty', () => {
  test('is triggered, acknowledged and resolved with the incident here, and triggered again by one that comes back', async ({
    bus,
    settings,
    pagerDuty,
  }) => {
    const [id] = await open(bus, 1);
    const key = `postbud-local-${id}`;
    await sendAlerts(bus.db, settings, at(0));
    expect(pagerDuty.incidents()).toEqual([{ key, state: 'triggered', pages: 1 }]);
    await acknowledge(bus.db, id!, 'kari', 'The supplier is notified.');
    await sendAlerts(bus.db, settings, at(MINUTE));
    expect(pagerDuty.incidents()).toEqual([{ key, state: 'acknowledged', pages: 1 }]);
    await change(bus, 'closed', 2 * MINUTE);
    await sendAlerts(bus.db, settings, at(2 * MINUTE));
    expect(pagerDuty.incidents()).toEqual([{ key, state: 'resolved', pages: 1 }]);
    // As the watch opens an incident again within a quarter of an hour.
    await rows(
      bus.db,
      `update incidents set state = 'happening', change = 'opened', revision = revision + 1, closed_at = null,
         acknowledged_at = null, acknowledged_by = null, acknowledged_note = null, blocked_lanes = 1, changed_at = $1`,
      [at(9 * MINUTE)],
    );
    await sendAlerts(bus.db, settings, at(9 * MINUTE));
    expect(pagerDuty.incidents()).toEqual([{ key, state: 'triggered', pages: 2 }]);
  });

  test('that was acknowledged pages again when its lanes are blocked again', async ({
    bus,
    settings,
    pagerDuty,
  }) => {
    const [id] = await open(bus, 1);
    await sendAlerts(bus.db, settings, at(0));
    await change(bus, 'owed', MINUTE);
    await acknowledge(bus.db, id!, 'kari', 'I replay them in the morning.');
    await sendAlerts(bus.db, settings, at(MINUTE));
    await rows(
      bus.db,
      `update incidents set state = 'happening', change = 'changed', revision = revision + 1, blocked_lanes = 1,
         acknowledged_at = null, acknowledged_by = null, acknowledged_note = null`,
    );
    await sendAlerts(bus.db, settings, at(2 * MINUTE));
    expect(pagerDuty.actions()).toEqual(['trigger', 'acknowledge', 'resolve', 'trigger']);
    expect(pagerDuty.incidents()).toMatchObject([{ state: 'triggered', pages: 2 }]);
  });

  test('that opened and closed within a minute pages nobody', async ({ bus, settings, pagerDuty }) => {
    await open(bus, 1);
    await change(bus, 'closed', 30_000);
    await sendAlerts(bus.db, settings, at(MINUTE));
    expect(pagerDuty.actions()).toEqual(['resolve']);
    expect(pagerDuty.incidents()).toEqual([]);
  });

  test('that was accepted is settled, and the others are sent a minute later, where PagerDuty limits the rate', async ({
    bus,
    settings,
    pagerDuty,
    output,
  }) => {
    await open(bus, 10);
    const taken = pagerDuty.behave;
    pagerDuty.behave = (response, request) => {
      if (pagerDuty.got.length === 4) pagerDuty.misbehave([429]);
      taken(response, request);
    };
    await sendAlerts(bus.db, settings, at(0));
    const accepted = pagerDuty.incidents().length;
    expect(accepted).toBeLessThan(10);
    // What is sent at once with the refused one may still be accepted; nothing is begun after it.
    expect(pagerDuty.got.length).toBeLessThan(8);
    const owed = (await unsent(bus)).filter(({ channel }) => channel === 'pagerduty');
    expect(owed).toHaveLength(10 - accepted);
    expect(new Set(owed.map(({ last_error }) => last_error))).toEqual(new Set(['answered 429']));
    pagerDuty.behave = taken;
    await sendAlerts(bus.db, settings, at(MINUTE));
    expect(pagerDuty.incidents()).toHaveLength(10);
    expect(pagerDuty.incidents().every(({ pages }) => pages === 1)).toBe(true);
    expect(await unsent(bus)).toEqual([]);
    expect(output.linesOf('an alert was not sent')).toMatchObject([
      { channel: 'pagerduty', incidents: 10 - accepted, detail: 'answered 429' },
    ]);
  });

  test('that PagerDuty calls invalid stops no other', async ({ bus, settings, pagerDuty }) => {
    await open(bus, 10);
    pagerDuty.misbehave([400]);
    await sendAlerts(bus.db, settings, at(0));
    expect(pagerDuty.incidents()).toHaveLength(9);
    expect(await unsent(bus)).toMatchObject([{ channel: 'pagerduty', last_error: 'answered 400' }]);
  });

  test('that PagerDuty answered with 500 is triggered later once more, and pages once', async ({
    bus,
    settings,
    pagerDuty,
  }) => {
    await open(bus, 1);
    pagerDuty.misbehave([500]);
    await sendAlerts(bus.db, settings, at(0));
    expect(pagerDuty.incidents()).toEqual([]);
    await sendAlerts(bus.db, settings, at(MINUTE));
    expect(pagerDuty.incidents()).toMatchObject([{ state: 'triggered', pages: 1 }]);
  });
});

describe('a channel that fails', () => {
  test('holds up none of the others, and says in the log no more than the status', async ({
    bus,
    settings,
    slack,
    teams,
    pagerDuty,
    output,
  }) => {
    await open(bus, 2);
    slack.behave = answer(410);
    await sendAlerts(bus.db, settings, at(0));
    expect([teams.got.length, pagerDuty.incidents().length]).toEqual([1, 2]);
    expect(await unsent(bus)).toEqual(
      Array.from({ length: 2 }, () => ({ channel: 'slack', last_error: 'answered 410' })),
    );
    for (const secret of [ROUTING_KEY, slack.url, teams.url, 'tenant=solvik', 'said'])
      expect(output.text()).not.toContain(secret);
    slack.behave = answer(200);
    await sendAlerts(bus.db, settings, at(MINUTE));
    expect(await unsent(bus)).toEqual([]);
  });

  test('by hanging is left in time, and tried again', async ({ bus, pagerDuty }) => {
    const { alerts } = readConfig({
      PAGERDUTY_ROUTING_KEY: ROUTING_KEY,
      PAGERDUTY_BASE_URL: pagerDuty.baseUrl,
    });
    await open(bus, 1);
    pagerDuty.misbehave(['hang']);
    endLimit(10 * SECOND, () => pagerDuty.got.length === 1);
    await sendAlerts(bus.db, alerts, at(0));
    expect(await unsent(bus)).toEqual([{ channel: 'pagerduty', last_error: 'did not answer in time' }]);
    await sendAlerts(bus.db, alerts, at(MINUTE));
    expect(pagerDuty.incidents()).toMatchObject([{ state: 'triggered', pages: 1 }]);
  });

  test('by one wrong variable is left out and named, without its value, and the others tell', async ({
    bus,
    teams,
  }) => {
    await open(bus, 1);
    const { alerts } = readConfig({
      ALERT_SLACK_URL: 'https://solvik.webhook.office.com/webhookb2/secret-of-a-connector',
      ALERT_TEAMS_URL: teams.url,
      PAGERDUTY_ROUTING_KEY: 'secret-but-short',
    });
    await sendAlerts(bus.db, alerts, at(0));
    expect(teams.got).toHaveLength(1);
    const { channels, problems } = targetsOf(alerts);
    expect(channels).toEqual([{ channel: 'teams', to: new URL(teams.url).host }]);
    expect(problems).toEqual([
      expect.stringContaining('ALERT_SLACK_URL must not be the address of an Office 365 connector'),
      expect.stringContaining('PAGERDUTY_ROUTING_KEY must be the integration key'),
    ]);
    expect(problems.join('')).not.toContain('secret');
  });
});

/** Opens incidents of one subscription, each of an error of its own and worse than the one before. @returns their ids. */
async function open(bus: Bus, count: number): Promise<string[]> {
  const opened = await rows<{ id: string }>(
    bus.db,
    `insert into incidents (id, topic, subscriber, kind, message, state, change, opened_at, changed_at, blocked_lanes,
       waiting, owed)
     select gen_random_uuid(), 'payment.captured', 'accounting', 'http_5' || number, 'error ' || number || ' of the night',
       'happening', 'opened', $2::timestamptz, $2::timestamptz, 1, 100 + number, 0
     from generate_series(1, $1::int) as number returning id::text`,
    [count, at(0).toISOString()],
  );
  return opened.map(({ id }) => id);
}

/** Changes every open incident, as the watch does. */
async function change(bus: Bus, state: 'owed' | 'closed', afterMs: number): Promise<void> {
  await rows(
    bus.db,
    `update incidents set state = $1, revision = revision + 1, blocked_lanes = 0, waiting = 0,
       change = case when $1 = 'closed' then 'closed' else 'changed' end, changed_at = $2::timestamptz,
       closed_at = case when $1 = 'closed' then $2::timestamptz end
     where closed_at is null`,
    [state, at(afterMs).toISOString()],
  );
}

async function unsent(bus: Bus): Promise<{ channel: string; last_error: string | null }[]> {
  return await rows(
    bus.db,
    'select channel, last_error from alerts where sent_at is null order by channel, incident_id',
  );
}
