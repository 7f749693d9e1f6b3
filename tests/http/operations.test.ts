import { describe, expect } from 'vitest';

import { rows } from '../support/bus.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { test } from '../support/cli-test.ts';

const ID = '019a0000-0000-7000-8000-000000000001';

describe('npx postbud log --only', () => {
  test.for(['replays', 'backfills', 'erasures'])(
    'lists %s, of which there are none',
    async (kind, { postbud }) => {
      expect(await postbud(`log --only ${kind}`)).toMatchObject({
        code: 0,
        out: expect.stringContaining('No entries yet.'),
      });
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
    expect((await postbud('log --only replays')).out).toMatch(/Replay .*payment\.captured/);
    expect(asked).toEqual(['?only=replays&limit=20']);
    expect((await postbud('log --only replays --json')).json()).toMatchObject({
      items: [{ replayId: ID }],
      nextCursor: null,
    });
  });

  test('lists backfills and erasures alone, each with whether it goes on, who, why and its id', async ({
    bus,
    postbud,
  }) => {
    await storedWithoutLedger(bus.db, 1, 3);
    await postbud('backfill ledger --topic payment.captured --since 30d --per-minute 40 --reason new --yes');
    await postbud('pause ledger --topic payment.captured --reason moving');
    const [backfill] = await rows<{ id: string }>(bus.db, 'select id::text from backfills');
    const { out } = await postbud('log --only backfills');
    expect(out).toContain(
      `Backfill, under way  payment.captured to ledger  kari@solvik.example.no  new  ${backfill!.id}`,
    );
    expect(out).not.toContain('moving');
    expect((await postbud('log --only erasures')).out).toContain('No entries yet.');
  });

  test('names the kinds for one that is misspelt', async ({ postbud }) => {
    const { code, err } = await postbud('log --only replay');
    expect([code, err]).toEqual([2, expect.stringContaining('expected replays, backfills or erasures')]);
  });
});
