import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { text as textOf } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { startNeonProxy } from '../../dev/serve-output/neon-proxy.ts';
import { serveOutput } from '../../dev/serve-output/serve-output.ts';
import { SMOKE_TEST } from '../../lib/bus/catalog/smoke-test.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { emitPayments, rows } from '../support/bus.ts';
import { countDeliveries } from '../support/records.ts';
import { operatorToken } from '../support/operator-token.ts';
import { createDatabase, freePort } from '../support/postgres.ts';
import { openReceiver } from '../support/receiver.ts';
import type { Receiver } from '../support/receiver.ts';
import { secretsOf } from '../support/webhook-senders.ts';

const operatorSecret = randomBytes(36).toString('base64url');
const secret = () => `whsec_${randomBytes(32).toString('base64')}`;

let connection: Connection;
let accounting: Receiver;
let url: string;
const closing: (() => Promise<unknown>)[] = [];

/** A deployment with two providers of three, a component elsewhere that answers, one that is down, and most unattached. */
beforeAll(async () => {
  const databaseUrl = await createDatabase(inject('postgresUrl'));
  connection = await connect(databaseUrl);
  accounting = await openReceiver();
  const neon = await startNeonProxy(databaseUrl);
  const port = await freePort();
  const address = new URL(databaseUrl);
  address.hostname = 'database.neon.tech';
  address.password = 'none';
  const served = await serveOutput({
    port,
    neon: neon.address,
    crons: true,
    write: () => undefined,
    variables: {
      DATABASE_URL: address.href,
      PUBLIC_URL: `http://localhost:${port}`,
      CRON_SECRET: randomBytes(18).toString('base64url'),
      OPERATOR_JWT_SECRET: operatorSecret,
      WEBHOOK_CARDPAYMENTS_SECRET: secretsOf.stripe[0],
      WEBHOOK_CARDPAYMENTS_SCHEME: 'stripe',
      WEBHOOK_WALLETPAYMENTS_SECRET: secretsOf.vipps[0],
      WEBHOOK_WALLETPAYMENTS_SCHEME: 'vipps',
      SUBSCRIBER_ACCOUNTING_URL: accounting.url,
      SUBSCRIBER_ACCOUNTING_SECRET: secret(),
      SUBSCRIBER_BOOKINGS_URL: `http://127.0.0.1:${await freePort()}/`,
      SUBSCRIBER_BOOKINGS_SECRET: secret(),
    },
  });
  url = served.url;
  closing.push(served.stop, accounting.close, neon.close, connection.close);
}, 120_000);
afterAll(async () => {
  for (const close of closing) await close();
});

/** Runs `npx postbud` as another machine does. */
async function postbud(...args: string[]) {
  const program = fileURLToPath(new URL('../../cli/postbud.mjs', import.meta.url));
  const scope = 'event-bus:read event-bus:replay';
  // The services that the deployment calls are in this process.
  const child = spawn(process.execPath, [program, ...args], {
    env: {
      PATH: process.env['PATH'] ?? '',
      POSTBUD_URL: url,
      POSTBUD_TOKEN: await operatorToken({ scope }, operatorSecret),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [[status], stdout, stderr] = await Promise.all([
    once(child, 'close'),
    textOf(child.stdout),
    textOf(child.stderr),
  ]);
  return { status: status as number | null, stdout, stderr };
}

describe('npx postbud smoke, against the build', () => {
  test('says what did not arrive, and why', async () => {
    await emitPayments(connection.db, 1, 3);
    const { status, stdout, stderr } = await postbud('smoke', '--timeout', '60');
    expect([status, stderr]).toEqual([1, '']);
    expect(stdout).toMatch(/^✗ Not delivered to bookings: .*(?:unreachable|cannot be reached)/);
    expect(stdout).not.toContain('accounting');
    expect(stdout).not.toContain('ledger');
  });

  test('ends with 0 where everything that was sent arrived, and tells programs in JSON', async () => {
    expect((await postbud('pause', 'bookings', '--reason', 'it is down', '--yes')).status).toBe(0);
    const { status, stdout } = await postbud('smoke', '--json', '--timeout', '60');
    expect(status).toBe(0);
    const { subscribers, event } = JSON.parse(stdout) as {
      subscribers: string[];
      event: { event: { state: string } };
    };
    expect(event.event.state).toBe('delivered');
    expect(subscribers).not.toContain('bookings');
    for (const hidden of [...secretsOf.stripe, ...secretsOf.vipps]) expect(stdout).not.toContain(hidden);
  });

  test('leaves no dead letter, no incident and no count', async () => {
    const ofTests = async (table: string) =>
      await rows(connection.db, `select from ${table} where topic = $1`, [SMOKE_TEST.topic]);
    // The one that is down does fail, with the payments. To read the incidents brings them up to date.
    const { items } = JSON.parse((await postbud('incidents', '--json')).stdout) as {
      items: { subscriber: string }[];
    };
    expect(items.map(({ subscriber }) => subscriber)).toEqual(['bookings']);
    for (const table of ['incidents', 'error_groups', 'subscription_counts', 'throughput_minutes'])
      expect([table, await ofTests(table)]).toEqual([table, []]);
    const dead = `topic = $1 and state = 'dead_lettered'`;
    expect(await countDeliveries(connection.db, dead, [SMOKE_TEST.topic])).toBe(0);
  });
});
