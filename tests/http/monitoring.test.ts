import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { describe, expect } from 'vitest';
import * as z from 'zod';

import { readMetrics } from '../../lib/console/metrics/read.ts';
import { test as busTest } from '../support/bus-test.ts';
import { programPath } from '../support/programs.ts';

const folder = fileURLToPath(new URL('../../docs/monitoring/', import.meta.url));
const RULES = join(folder, 'prometheus-rules.yml');

const dashboard = z.object({
  uid: z.string(),
  title: z.string(),
  schemaVersion: z.int(),
  templating: z.object({
    list: z.array(z.looseObject({ name: z.string(), definition: z.string().optional() })),
  }),
  panels: z
    .array(
      z.object({
        id: z.int(),
        type: z.enum(['stat', 'timeseries']),
        title: z.string().min(1),
        description: z.string().min(1),
        gridPos: z.object({ x: z.int(), y: z.int(), w: z.int().max(24), h: z.int() }),
        targets: z.array(z.object({ refId: z.string(), expr: z.string().min(1) })).min(1),
      }),
    )
    .min(1),
});

/** What each variable of the dashboard stands for when Grafana sends an expression. */
const filledIn = (expr: string) =>
  expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$(topic|subscriber)\b/g, '.*');

const test = busTest
  .extend('exposed', async ({ bus }) => {
    return new Set(namesIn(await readMetrics(bus.db, [])));
  })
  .extend('dashboard', async () =>
    dashboard.parse(JSON.parse(await readFile(join(folder, 'grafana-dashboard.json'), 'utf8'))),
  )
  .extend('expressions', ({ dashboard: { panels } }) =>
    panels.flatMap(({ targets }) => targets.map(({ expr }) => filledIn(expr))),
  )
  .extend('temporary', async ({}, { onCleanup }) => {
    const path = await mkdtemp(join(tmpdir(), 'postbud-monitoring-'));
    onCleanup(() => rm(path, { recursive: true }));
    return path;
  });

function namesIn(text: string): readonly string[] {
  return text.match(/\bpostbud_\w+/g) ?? [];
}

/** Runs promtool. @returns what it wrote. @throws for anything that it finds wrong, with its words. */
async function promtool(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(programPath('promtool')!, args);
  return stdout;
}

describe('the rules and the dashboard in docs/monitoring', () => {
  test('name only metrics that /platform/metrics exposes', async ({
    exposed,
    dashboard: board,
    expressions,
  }) => {
    const rules = namesIn(await readFile(RULES, 'utf8'));
    const variables = board.templating.list.flatMap(({ definition }) => namesIn(definition ?? ''));
    const used = new Set([...rules, ...variables, ...expressions.flatMap(namesIn)]);
    expect([...used].filter((name) => !exposed.has(name))).toEqual([]);
  });

  test('have panels that overlap nowhere', ({ dashboard: { panels } }) => {
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)} ${y + Math.floor(cell / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  });
});

describe.skipIf(programPath('promtool') === undefined)('by promtool, where it is installed,', () => {
  test('the rules load, and so does every expression of the dashboard', async ({
    expressions,
    temporary,
  }) => {
    expect(await promtool('check', 'rules', RULES)).toMatch(/SUCCESS: 17 rules found/);
    const path = join(temporary, 'dashboard.yml');
    const rules = expressions.map((expr, index) => ({ record: `panel:${index}`, expr }));
    // JSON is YAML.
    await writeFile(path, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
    expect(await promtool('check', 'rules', path)).toContain(`SUCCESS: ${rules.length} rules found`);
  });

  test.for([
    ['nothing', {}, []],
    ['no metrics', { postbud_relay_last_pass_age_seconds: '_x30' }, ['PostbudNoAnswer']],
    [
      'a relay that stands still',
      { postbud_relay_last_pass_age_seconds: '0+60x30' },
      ['PostbudRelayStandsStill'],
    ],
    [
      'a delivery that is late',
      { 'postbud_oldest_due_age_seconds{topic="t",subscriber="s"}': '0+60x30' },
      ['PostbudLate'],
    ],
    [
      'a dead letter',
      { 'postbud_deliveries_dead_lettered_total{topic="t",subscriber="s"}': '0x20 1x10' },
      ['PostbudDeadLetters'],
    ],
    [
      'a blocked lane',
      { 'postbud_lanes_blocked{topic="t",subscriber="s"}': '1x30' },
      ['PostbudSubscriberFails'],
    ],
    [
      'a lane that was blocked a moment ago',
      { 'postbud_lanes_blocked{topic="t",subscriber="s"}': '0x25 1x5' },
      [],
    ],
    ['a halted lane', { 'postbud_lanes_halted{topic="t",subscriber="s"}': '2x30' }, ['PostbudLaneHalted']],
    [
      'an outage',
      { 'postbud_subscriber_outage_seconds{subscriber="s"}': '0+60x30' },
      ['PostbudSubscriberSilent'],
    ],
    [
      'a topic held back',
      { 'postbud_topic_held_back_seconds{topic="t"}': '0+60x30' },
      ['PostbudTopicHeldBack'],
    ],
    ['an old snapshot', { postbud_oldest_snapshot_age_seconds: '0+60x30' }, ['PostbudOldSnapshot']],
    [
      'an old snapshot of unknown age',
      { postbud_oldest_snapshot_age_transactions: '2000000x30' },
      ['PostbudOldSnapshot'],
    ],
    [
      'refused webhooks',
      { 'postbud_webhooks_rejected_total{provider="p",reason="r"}': '0+5x30' },
      ['PostbudWebhooksRefused'],
    ],
    [
      'a provider that does not answer',
      { 'postbud_reconciliation_age_seconds{provider="p"}': '10000+60x30' },
      ['PostbudProviderNotAsked'],
    ],
    [
      'lost webhooks',
      { 'postbud_webhooks_reconciled_total{provider="p"}': '0+1x30' },
      ['PostbudWebhooksLost'],
    ],
    [
      'a payment that nobody claims',
      { 'postbud_webhooks_set_aside{provider="p",state="unclaimed"}': '0x20 1x10' },
      ['PostbudUnclaimedPayment'],
    ],
    [
      'a chat that fails more often than it answers',
      {
        'postbud_chat_calls_total{outcome="provider_timeout"}': '0+1x30',
        'postbud_chat_calls_total{outcome="answered"}': '0x25 1x5',
      },
      ['PostbudChatFails'],
    ],
    [
      'a chat that answers most calls',
      {
        'postbud_chat_calls_total{outcome="provider_timeout"}': '0+1x30',
        'postbud_chat_calls_total{outcome="answered"}': '0+3x30',
      },
      [],
    ],
    [
      'a mail that was not accepted',
      { 'postbud_inquiry_mails_total{outcome="email_failed"}': '0x20 1x10' },
      ['PostbudMailFails'],
    ],
    [
      'a budget at its end',
      { 'postbud_budget_reached{budget="chat",percent="100"}': '0x20 1x10' },
      ['PostbudBudgetUsed'],
    ],
    [
      'a forgotten subscriber',
      {
        'postbud_deliveries{topic="t",subscriber="s",state="pending"}': '2000x30',
        'postbud_subscription_unattached{topic="t",subscriber="s"}': '1x30',
      },
      ['PostbudSubscriberForgotten'],
    ],
  ] as const)('%s fires what is right, and nothing else', async ([, series, firing], { temporary }) => {
    const path = join(temporary, 'rules.test.yml');
    const all = { postbud_relay_last_pass_age_seconds: '1x30', ...series };
    const input = Object.entries(all).map(([name, values]) => ({ series: name, values }));
    const expected = firing.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 }));
    const asked = { expr: 'count by (alertname) (ALERTS{alertstate="firing"})', eval_time: '30m' };
    const tests = [
      { interval: '1m', input_series: input, promql_expr_test: [{ ...asked, exp_samples: expected }] },
    ];
    await writeFile(path, JSON.stringify({ rule_files: [RULES], evaluation_interval: '1m', tests }));
    expect(await promtool('test', 'rules', path)).toContain('SUCCESS');
  });
});
