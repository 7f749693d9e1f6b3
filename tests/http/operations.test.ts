import { describe, expect } from 'vitest';

import { rows } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';

const ID = '019a0000-0000-7000-8000-000000000001';

describe('npx postbud operations', () => {
  test.for(['replays', 'backfills', 'erasures'])(
    'lists %s, of which there are none',
    async (kind, { postbud }) => {
      expect(await postbud(`operations ${kind}`)).toMatchObject({ code: 0, out: 'None so far.' });
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
    expect((await postbud('operations replays')).out).toMatch(/payment\.captured.*: 5 matched, 4 replayed/);
    expect(asked).toEqual(['?only=replays&limit=20']);
    expect((await postbud('operations replays --json')).json()).toMatchObject({
      replays: [{ replayId: ID }],
      actions: [],
      nextCursor: null,
    });
  });

  test('names the kinds for a missing and for a misspelt one', async ({ postbud }) => {
    expect((await postbud('operations')).err).toContain('replays, backfills, erasures');
    expect((await postbud('operations replay')).err).toContain("Did you mean 'replays'?");
  });
});
