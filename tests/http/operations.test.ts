import { describe, expect } from 'vitest';

import { SMOKE_TEST } from '../../lib/bus/catalog/smoke-test.ts';
import { rows } from '../support/bus.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { test } from '../support/cli-test.ts';
import { BROWSER } from '../support/operator-test.ts';

const ID = '019a0000-0000-7000-8000-000000000001';

/** A page without its markup and with single spaces. */
const wordsOf = (text: string) =>
  text
    .replace(/^[^]*<main[^>]*>/, '')
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ (?=[.,:])/g, '');

describe('smoke tests', () => {
  test('are listed with what arrived, also once what did not was dismissed', async ({ bus, operators }) => {
    const failed = {
      provider: 'walletpayments',
      status: 500,
      durationMs: 3,
      receiptId: null,
      problem: 'answered 500',
    };
    const sent = { provider: 'cardpayments', status: 204, durationMs: 3, receiptId: 'evt_1', problem: null };
    await rows(
      bus.db,
      `with test as (
         insert into smoke_tests (id, started_at, started_by, origin, subscribers, webhooks, ended_at) values
           ('${ID}', now() - interval '1 hour', 'kari', 'https://bus.example.no', '{audit,ledger}',
             '${JSON.stringify([sent, failed])}', now()),
           ('${ID.replace(/1$/, '2')}', now(), 'kari', null, '{audit}', '[]', null)
       ), event as (
         insert into events (id, topic, payload, version, created_at, producer, subscribers, ordering_key, correlation_id)
         values ('${ID}', '${SMOKE_TEST.topic}', '{}', 1, now(), 'system', '{audit,ledger}', '', '')
       ), stream as (
         insert into streams (topic, slot) values ('${SMOKE_TEST.topic}', 0) returning id
       ), audience as (
         insert into audiences select id, 1, '{audit,ledger}' from stream
       ), place as (
         insert into log (stream, position, event_id, bytes, version, ordering_key)
         select id, 1, '${ID}', 2, 1, '' from stream
       ), lane as (
         insert into lanes (stream, topic, slot, subscriber)
         select id, '${SMOKE_TEST.topic}', 0, unnest('{audit,ledger}'::text[]) from stream returning id, subscriber
       ), passed as (
         insert into journal (lane, number, head, at) select id, 0, 1, now() from lane
       )
       insert into exceptions (lane, position, event_id, ordering_key, state, is_open, dismissed_at)
       select id, 1, '${ID}', '', 'dead_lettered', false, now() from lane where subscriber = 'ledger'`,
    );
    expect((await operators.ask('/smoke-tests')).json['items']).toMatchObject([
      { origin: null, subscribers: 1, arrived: 0, webhooks: 0, accepted: 0, endedAt: null },
      { smokeTestId: ID, subscribers: 2, arrived: 1, webhooks: 2, accepted: 1, endedAt: expect.any(String) },
    ]);
    const { text } = await operators.ask('/smoke-tests', { accept: BROWSER });
    expect(wordsOf(text)).toMatch(/Test event only kari 0 of 0 0 of 1 1 missing so far/);
    expect(wordsOf(text)).toMatch(/https:\/\/bus.example.no kari 1 of 2 1 of 2 2 did not arrive/);
    expect(wordsOf((await operators.ask(`/smoke/${ID}`, { accept: BROWSER })).text)).toContain(
      '← Smoke tests',
    );
  });
});

describe('npx postbud log --only', () => {
  test.for(['replays', 'backfills', 'erasures'])(
    'lists %s, of which there are none',
    async (kind, { postbud }) => {
      expect(await postbud(`log --only ${kind}`)).toMatchObject({ code: 0, out: 'No entries match.' });
    },
  );

  test('lists replays with one request, however many other actions there are', async ({
    bus,
    server,
    postbud,
  }) => {
    await rows(
      bus.db,
      `with act as (
         insert into operator_actions (id, at, operator, action)
         select gen_random_uuid(), now(), 'ola', 'reveal' from generate_series(1, 150)
       )
       insert into replays (id, topic, requested_at, requested_by, request, matched, replayed)
       values ('${ID}', 'payment.captured', now() - interval '1 hour', 'kari', '{}', 5, 4)`,
    );
    const asked: string[] = [];
    server.answerInstead = async ({ url }) => {
      asked.push(new URL(url).search);
    };
    expect((await postbud('log --only replays')).out).toMatch(/payment\.captured.*: 4 of 5 replayed/);
    expect(asked).toEqual(['?only=replays&limit=20']);
    expect((await postbud('log --only replays --json')).json()).toMatchObject({
      replays: [{ replayId: ID }],
      actions: [],
      nextCursor: null,
    });
  });

  test('lists backfills and erasures alone, each with how far it is, who, why and its id', async ({
    bus,
    postbud,
  }) => {
    await storedWithoutLedger(bus.db, 1, 3);
    await postbud('backfill ledger --topic payment.captured --since 30d --per-minute 40 --reason new --yes');
    await postbud('pause ledger --topic payment.captured --reason moving');
    const [backfill] = await rows<{ id: string }>(bus.db, 'select id::text from backfills');
    const { out } = await postbud('log --only backfills');
    expect(out).toContain(
      `backfill  payment.captured to ledger: under way, 2 of 3 written  by kari@solvik.example.no: new  ${backfill!.id}`,
    );
    expect(out).not.toContain('moving');
    expect((await postbud('log --only erasures')).out).toBe('No entries match.');
  });

  test('names the kinds for one that is misspelt', async ({ postbud }) => {
    const { code, err } = await postbud('log --only replay');
    expect([code, err]).toEqual([2, expect.stringContaining('expected replays, backfills or erasures')]);
  });
});
