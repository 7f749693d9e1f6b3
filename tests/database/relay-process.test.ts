import { expect, inject, onTestFinished, test } from 'vitest';

import { connect } from '../../lib/platform/db/connect.ts';
import { drain, payment, rows } from '../support/bus.ts';
import { deliveriesOf, leasedLanes } from '../support/records.ts';
import { runProgram, startRelay } from '../support/local-server.ts';
import { createDatabase, createEmptyDatabase, freePort } from '../support/postgres.ts';
import { answer, openReceiver } from '../support/receiver.ts';

const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;

/** A database, and a ledger elsewhere that keeps its answers back. */
async function opened() {
  const url = await createDatabase(inject('postgresUrl'));
  const { db, close } = await connect(url);
  const receiver = await openReceiver();
  onTestFinished(async () => void (await Promise.all([close(), receiver.close()])));
  const held: (() => void)[] = [];
  receiver.behave = (response) => void held.push(() => answer(204)(response));
  const variables = {
    DATABASE_URL: url,
    SUBSCRIBER_LEDGER_URL: receiver.url,
    SUBSCRIBER_LEDGER_SECRET: SECRET,
  };
  const emitBySql = (number: number) =>
    rows(db, `select postbud_emit('payment.captured', $1::text::jsonb)`, [JSON.stringify(payment(number))]);
  return { db, receiver, held, variables, emitBySql };
}

const paymentsOf = ({ got }: { readonly got: readonly { readonly body: string }[] }) =>
  got.map(({ body }) => (JSON.parse(body) as { data: { amountMinor: number } }).data.amountMinor);

test('a relay process delivers what SQL has emitted without a kick, and SIGTERM in the middle of a handler lets it end, begins no other and uses up no attempt', async () => {
  const { db, receiver, held, variables, emitBySql } = await opened();
  const relay = await startRelay(variables);
  await emitBySql(1);
  await emitBySql(2);
  await expect.poll(() => held).toHaveLength(1);
  expect(await (await fetch(`${relay.url}/healthz`)).json()).toEqual({
    status: 'ok',
    lastTurnAt: expect.any(String),
  });
  const ended = relay.stop();
  await expect.poll(() => relay.output()).toContain('the relay process ends');
  expect(await (await fetch(`${relay.url}/healthz`)).json()).toMatchObject({ status: 'ending' });
  held[0]!();
  expect(await ended).toMatchObject({
    code: 0,
    output: expect.stringContaining('the relay process has ended'),
  });
  expect(paymentsOf(receiver)).toEqual([1]);
  expect(await deliveriesOf(db, 'ledger')).toMatchObject([
    { state: 'delivered', attempts: 1 },
    { state: 'pending', attempts: 0 },
  ]);
  expect(await leasedLanes(db)).toEqual([]);

  receiver.behave = answer(204);
  const next = await startRelay(variables);
  await expect.poll(() => paymentsOf(receiver)).toEqual([1, 2]);
  await next.stop('SIGINT');
  expect(await deliveriesOf(db, 'ledger')).toMatchObject([
    { attempts: 1 },
    { state: 'delivered', attempts: 1 },
  ]);
  // Nothing is left to do, for a relay of the cron either.
  expect(await drain(db, [])).toMatchObject({ placed: 0, delivered: 0 });
});

test('a relay process counts what it does, writes lines, and performs the duties of the cron', async () => {
  const { db, receiver, variables, emitBySql } = await opened();
  receiver.behave = answer(204);
  // Of a release before, whose ledger had a limit.
  await rows(
    db,
    `insert into subscriber_limits (subscriber, rate_count, rate_ms) values ('ledger', 6000, 60000)`,
  );
  const relay = await startRelay(variables);
  await emitBySql(1);
  await expect
    .poll(async () => await (await fetch(`${relay.url}/metrics`)).text())
    .toMatch(/^postbud_relay_process_events_placed_total [1-9]/m);
  await expect.poll(async () => await rows(db, 'select from subscriber_limits')).toEqual([]);
  expect((await fetch(`${relay.url}/elsewhere`)).status).toBe(404);
  const { output } = await relay.stop();
  const messages = output
    .split('\n')
    .flatMap((line) => (line ? [(JSON.parse(line) as { message: string }).message] : []));
  expect(messages).toEqual(expect.arrayContaining(['the relay process runs', 'delivery', 'relay']));
});

test.for([
  ['once a minute', [], ['GET']],
  ['only while the database answers its turns', ['alter function postbud_turn_5 rename to lost'], []],
] as const)('a relay process calls the watcher outside %s', async ([, statements, beats]) => {
  const { db, receiver, variables } = await opened();
  receiver.behave = answer(204);
  await rows(
    db,
    `insert into subscriber_limits (subscriber, rate_count, rate_ms) values ('ledger', 6000, 60000)`,
  );
  for (const statement of statements) await rows(db, statement);
  const relay = await startRelay({ ...variables, HEARTBEAT_URL: receiver.url });
  await expect.poll(async () => await rows(db, 'select from subscriber_limits')).toEqual([]);
  // It comes after the duties, which the end waits for.
  await relay.stop();
  expect(receiver.got.map(({ method }) => method)).toEqual(beats);
});

test('a relay process that cannot work says why, and ends', async () => {
  const url = await createDatabase(inject('postgresUrl'));
  const port = String(await freePort());
  const running = await startRelay({ DATABASE_URL: url, PORT: port });
  onTestFinished(async () => void (await running.stop()));
  const said = async (variables: Record<string, string>) => {
    const { code, output } = await runProgram('dev/relay.ts', variables);
    expect(code).not.toBe(0);
    return output.split('\n').slice(0, 2).join(' ');
  };
  expect(await said({})).toContain('DATABASE_URL is not set. Write the database’s URL');
  expect(await said({ DATABASE_URL: url, PORT: port })).toBe(
    `Port ${port} is in use. Set PORT to another one, or to 0 for any.`,
  );
  expect(await said({ DATABASE_URL: url, RELAY: 'off' })).toContain('RELAY is off.');
  expect(await said({ DATABASE_URL: url, SUBSCRIBER_LEDGER_URL: 'ledger' })).toContain(
    'SUBSCRIBER_LEDGER_URL must be',
  );
  expect(await said({ DATABASE_URL: await createEmptyDatabase(inject('postgresUrl')) })).toContain(
    'a table of the bus is missing. npm run migrate creates or updates them.',
  );
}, 180_000);
