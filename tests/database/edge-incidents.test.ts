import { describe, expect, vi } from 'vitest';

import { startMessagesApi } from '../../dev/stand-ins/messages-api.ts';
import { claimAlerts } from '../../lib/components/alerts/claim-alerts.ts';
import { incidentMessage } from '../../lib/components/alerts/message.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { DAY, HOUR, instantOf, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { BROWSER, test } from '../support/operator-test.ts';

/** Half past eleven in the evening, UTC. */
const NOW = Date.UTC(2031, 4, 4, 23, 30);

/** Records what functions have counted. */
async function counted(
  bus: Bus,
  source: string,
  outcomes: readonly (readonly [string, secondsAgo: number])[],
) {
  for (const [outcome, secondsAgo] of outcomes) {
    const at = instantOf(NOW - secondsAgo * SECOND);
    await rows(
      bus.db,
      `insert into edge_counts as known (source, outcome, day, count, last_at, recent_at)
        values ($1, $2, ($3::timestamptz at time zone 'utc')::date, 1, $3::timestamptz, array[$3::timestamptz])
        on conflict (source, outcome, day) do update set recent_at = known.recent_at || excluded.recent_at`,
      [source, outcome, at],
    );
  }
}

async function watched(bus: Bus, afterMs = 0) {
  await watchIncidents(bus.db, new Date(NOW + afterMs));
  return await rows<{ kind: string; state: string; message: string; opened_at: Date; revision: number }>(
    bus.db,
    'select kind, state, message, opened_at, revision from incidents order by kind',
  );
}

const calls = (
  outcome: string,
  count: number,
  { everySeconds = 10, since = 0 } = {},
): readonly (readonly [string, number])[] =>
  Array.from({ length: count }, (_, index) => [outcome, since + index * everySeconds] as const);

describe('a chat that fails', () => {
  test.for<readonly [string, ReturnType<typeof calls>, boolean]>([
    ['four times in a row', calls('provider_timeout', 4), false],
    [
      'five times in a row, in any way',
      [...calls('provider_timeout', 3), ...calls('provider_unavailable', 2, { since: 60 })],
      true,
    ],
    ['five times in a row on a quiet day', calls('provider_unreachable', 5, { everySeconds: 3600 }), true],
    [
      'five times, with a visitor who hung up between',
      [...calls('provider_timeout', 5), ['aborted', 15]],
      true,
    ],
    ['five times, with a refusal between', [...calls('provider_timeout', 5), ['refused', 15]], false],
    ['five times a day and an hour ago', calls('provider_timeout', 5, { since: 90_000 }), false],
    ['because the key is refused, once', calls('provider_rejected', 1), true],
    [
      'because the key was refused before an answer',
      [
        ['provider_rejected', 9],
        ['answered', 5],
      ],
      false,
    ],
    [
      'in every other of 20 calls within minutes',
      [...calls('provider_timeout', 10), ...calls('answered', 10, { since: 5 })],
      true,
    ],
    [
      'in every third of 20 calls within minutes',
      [...calls('provider_timeout', 7, { everySeconds: 30 }), ...calls('answered', 14, { since: 5 })],
      false,
    ],
    [
      'in every other of 20 calls within an hour',
      [
        ...calls('provider_timeout', 10, { everySeconds: 300 }),
        ...calls('answered', 10, { everySeconds: 300, since: 5 }),
      ],
      false,
    ],
  ])('%s is an incident or none', async ([, outcomes, isIncident], { bus }) => {
    await counted(bus, 'chat', outcomes);
    expect((await watched(bus)).map(({ kind, state }) => [kind, state])).toEqual(
      isIncident ? [['chat_failing', 'happening']] : [],
    );
  });

  test('is told once, from the first failure on, and over with the next answer', async ({ bus }) => {
    await counted(bus, 'chat', [['answered', 900], ...calls('provider_timeout', 5)]);
    const [opened] = await watched(bus);
    expect(opened).toMatchObject({
      opened_at: new Date(NOW - 40 * SECOND),
      message: 'the language model does not answer in time',
      revision: 1,
    });
    expect(await told(bus)).toMatchObject({
      subject: 'Since 5 May 01:29 CEST: chat fails',
      entries: [{ text: 'Chat fails: the language model does not answer in time.' }],
    });
    await counted(bus, 'chat', [['provider_unavailable', -30]]);
    expect(await watched(bus, MINUTE)).toMatchObject([{ state: 'happening', revision: 1 }]);
    await counted(bus, 'chat', [['answered', -90]]);
    expect(await watched(bus, 2 * MINUTE)).toMatchObject([{ state: 'closed' }]);
    expect(await told(bus, 2 * MINUTE)).toMatchObject({ subject: 'Over: chat fails' });
  });

  async function told(bus: Bus, afterMs = 0) {
    const claimed = await claimAlerts(bus.db, 'webhook', new Date(NOW + afterMs));
    return incidentMessage(claimed!.incidents, { environment: 'Production', publicUrl: undefined });
  }

  test('has no subscriber, no lane and nothing to repair in the console', async ({ bus, operators }) => {
    await rows(
      bus.db,
      `insert into edge_counts (source, outcome, day, count, last_at, recent_at)
        values ('chat', 'provider_rejected', (now() at time zone 'utc')::date, 1, now(), array[now()])`,
    );
    const { json } = await operators.ask('/incidents');
    const [incident] = json['items'] as readonly Record<string, unknown>[];
    const sentence =
      'Chat fails: the language model refuses the requests; check ANTHROPIC_API_KEY, CHAT_MODEL and the spending limit.';
    expect(incident).toMatchObject({
      state: 'happening',
      topic: null,
      subscriber: '',
      sentence,
      blockedLanes: 0,
    });
    for (const path of ['', '/incidents', `/incidents/${String(incident!['incidentId'])}`]) {
      const { status, text } = await operators.ask(path, { accept: BROWSER });
      expect(status).toBe(200);
      expect(text).toContain(sentence);
      expect(text).not.toContain('To repair');
    }
  });
});

describe('a budget that comes to its end', () => {
  test.for(['chat', 'inquiry'])(
    'the budget of %s is told once a day at four fifths and at its end',
    async (source, { bus }) => {
      await counted(bus, source, [
        ['budget_80', DAY / SECOND],
        ['answered', 1],
      ]);
      expect(await watched(bus)).toEqual([]);
      await counted(bus, source, calls('budget_80', 3));
      expect(await watched(bus)).toMatchObject([{ kind: `${source}_budget_80`, state: 'happening' }]);
      await counted(bus, source, calls('budget_100', 3));
      const kinds = [`${source}_budget_100`, `${source}_budget_80`];
      for (const state of ['happening', 'closed'])
        expect(
          (await watched(bus, state === 'closed' ? HOUR : MINUTE)).map((one) => [one.kind, one.state]),
        ).toEqual(kinds.map((kind) => [kind, state]));
    },
  );
});

test('the deployed function counts its failures after its answer, and a refused key is an incident', async ({
  bus,
  database,
  operators,
}) => {
  const provider = await startMessagesApi();
  for (const [name, value] of Object.entries({
    DATABASE_URL: database.url,
    ANTHROPIC_API_KEY: 'sk-ant-x',
    ANTHROPIC_BASE_URL: provider.url,
    CHAT_DAILY_BUDGET: '1',
    RELAY: 'off',
  }))
    vi.stubEnv(name, value);
  vi.resetModules();
  const { default: chat } = await import('../../api/chat.ts');
  const ask = async () => {
    const body = JSON.stringify({
      system: 'Om lokalene.',
      messages: [{ role: 'user', content: 'Hei, jeg er Kari' }],
    });
    const headers = { 'content-type': 'application/json' };
    return (
      await chat.fetch(new Request('https://postbud.example/api/chat', { method: 'POST', headers, body }))
    ).status;
  };
  provider.behave('401', 1);
  expect(await ask()).toBe(502);
  expect(await rows(bus.db, 'select from edge_counts')).toEqual([]);
  const kinds = async () =>
    (
      (await operators.ask('/incidents')).json['items'] as readonly {
        lastError: { kind: string };
        state: string;
      }[]
    )
      .filter(({ state }) => state === 'happening')
      .map(({ lastError }) => lastError.kind);
  await expect.poll(kinds, { timeout: 10_000 }).toEqual(['chat_failing']);
  expect([await ask(), await ask()]).toEqual([200, 429]);
  await expect.poll(kinds, { timeout: 10_000 }).toEqual(['chat_budget_100']);
  expect(JSON.stringify(await rows(bus.db, 'select * from edge_counts'))).not.toContain('Kari');
  await provider.close();
});
