import type { JWTPayload } from 'jose';
import { describe, expect } from 'vitest';

import { pause, resume } from '../../lib/bus/deliveries/operations/pause.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { erase } from '../../lib/components/erasures/erase.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { pruneAll } from '../../lib/components/prune.ts';
import { HOME } from '../../lib/console/kit/links.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';
import { dismissLetter } from '../support/dismiss-letter.ts';
import { rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { OLA, test as directoryTest } from '../support/directory-visitor.ts';
import type { Visitor } from '../support/directory-visitor.ts';
import { Operators } from '../support/operator-test.ts';
import { deliveriesOf } from '../support/records.ts';

const test = directoryTest.extend('operators', ({ bus }) => new Operators(bus));

/** The stand-in directory's id of Kari. */
const ID = 'b81e4c7a-2d96-4f53-a0c4-5e6f17d98b20';
const CALLED = 'Kari Nordmann (b81e4c7a-2d96…)';

const namesIn = async (bus: Bus) =>
  await rows<{ subject: string; name: string }>(
    bus.db,
    'select subject, name from operator_names order by 1',
  );

/** Signs people in one after the other, whom the directory tells of so. */
async function signIn(
  { visitor, directory }: { readonly visitor: Visitor; readonly directory: Employing },
  ...people: readonly JWTPayload[]
): Promise<void> {
  for (const claims of people) {
    directory.employ({ someone: { sub: ID, groups: ['/drift'], ...claims } });
    expect((await visitor.signIn('someone')).status).toBe(200);
  }
}

interface Employing {
  readonly employ: (people: Readonly<Record<string, JWTPayload>>) => void;
}

/** What the operators' log says of a pause by this id. */
async function paused({ visitor, bus }: { visitor: Visitor; bus: Bus }, by = ID): Promise<string> {
  await rows(bus.db, 'delete from pauses');
  await pause(bus.db, { subscriber: 'ledger', topic: null }, by, 'maintenance');
  const { text } = await visitor.open(`${HOME}/replays`);
  return text;
}

describe('the name of an operator', () => {
  test('stands beside their id on every page that says who acted', async ({ bus, visitor, operators }) => {
    await visitor.signIn();
    for (const path of await placesOfActs(bus, operators)) {
      const { status, text } = await visitor.open(HOME + path);
      expect([path, status]).toEqual([path, 200]);
      expect(text, path).toContain(CALLED);
      // The id alone is nowhere.
      expect(text, path).not.toContain(ID);
    }
  });

  test('is in no log and in no answer to a program, which have the id', async ({ bus, visitor }) => {
    await visitor.signIn();
    expect(await paused({ visitor, bus })).toContain(CALLED);
    expect(await rows(bus.db, 'select operator from operator_actions')).toEqual([{ operator: ID }]);
    const { text } = await visitor.open(`${HOME}/replays`, { headers: { accept: 'application/json' } });
    expect(text).toContain(ID);
    expect(text).not.toContain('Nordmann');
  });

  test('stands on the page that a refusal leads whoever comes second to', async ({
    bus,
    visitor,
    operators,
  }) => {
    await visitor.signIn();
    const [head] = await operators.held(2);
    await skip(bus.db, { deliveryId: head!, by: ID, reason: 'booked by hand' });
    const again = await operators.ask(`/deliveries/${head!}/skip`, { json: { reason: 'mine' } });
    const page = `${HOME}/dead-letters/${head!}`;
    expect(again.json).toMatchObject({ status: 409, detail: expect.stringContaining(page) });
    expect((await visitor.open(page)).text).toContain(CALLED);
  });

  test('stands in the sentences of an answer, whose fields have the id', async ({
    bus,
    visitor,
    operators,
  }) => {
    await visitor.signIn();
    await operators.held(1);
    await pause(bus.db, { subscriber: 'ledger', topic: null }, ID, 'maintenance');
    const [event] = await rows<{ id: string }>(bus.db, 'select id::text from events');
    const { json } = await operators.ask(`/events/${event!.id}`);
    expect(json['verdict']).toContain(`not delivered to ledger: paused by ${CALLED}`);
    expect(json['deliveries']).toContainEqual(
      expect.objectContaining({
        why: expect.objectContaining({ by: ID, text: expect.stringContaining(`Paused by ${CALLED}`) }),
      }),
    );
  });

  test('is not kept of somebody who may only read, nor beside an id that says who they are', async ({
    bus,
    visitor,
    directory,
  }) => {
    await visitor.signIn(OLA);
    const readable = ['kari', 'kari.nordmann@solvik.example.no'];
    await signIn({ visitor, directory }, ...readable.map((sub) => ({ sub, name: 'Kari Nordmann' })));
    expect(await namesIn(bus)).toEqual([]);
    expect(await paused({ visitor, bus }, 'kari')).toContain('>kari</td>');
  });

  test('is not kept beside an id that is longer than one may be', async ({ bus, visitor, directory }) => {
    await signIn({ visitor, directory }, { sub: 'k'.repeat(5000), name: 'Kari' });
    expect(await namesIn(bus)).toEqual([]);
  });

  test('is told apart from the same name of another by the id', async ({ bus, visitor, directory }) => {
    const other = 'b81f0000-2d96-4f53-a0c4-5e6f17d98b20';
    const alike = `${ID.slice(0, 10)}ff${ID.slice(12)}`;
    const name = 'Kari Nordmann';
    await signIn({ visitor, directory }, { name }, { sub: other, name });
    expect(await paused({ visitor, bus })).toContain(CALLED);
    expect(await paused({ visitor, bus }, other)).toContain('Kari Nordmann (b81f0000-2d96…)');
    await signIn({ visitor, directory }, { sub: alike, name });
    expect(await paused({ visitor, bus })).toContain('Kari Nordmann (b81e4c7a-2d96…)');
    expect(await paused({ visitor, bus }, alike)).toContain('Kari Nordmann (b81e4c7a-2ff6…)');
  });

  test('is the newest one, also beside what they did under another', async ({ bus, visitor, directory }) => {
    await signIn({ visitor, directory }, { name: 'Kari Nordmann' });
    expect(await paused({ visitor, bus })).toContain(CALLED);
    await signIn({ visitor, directory }, { name: 'Kari Hansen' });
    const { text } = await visitor.open(`${HOME}/replays`);
    expect(text).toContain('Kari Hansen (b81e4c7a-2d96…)');
    expect(text).not.toContain('Nordmann');
  });

  test.for<[what: string, claims: JWTPayload, kept: string | null]>([
    ['empty', { name: '' }, null],
    ['missing', {}, null],
    ['of blanks alone', { name: ' \u00a0 ' }, null],
    ['invisible', { name: '\u200b\u2060' }, null],
    ['no text', { name: 7 }, null],
    ['the id itself', { name: ID }, null],
    ['with a control character', { name: 'Kari\u0000\u001b[31m' }, null],
    ['on two lines, and there is another', { name: 'Ka\nri', preferred_username: 'kari' }, 'kari'],
    ['of half a character', { name: 'Kari \ud83d' }, 'Kari \ufffd'],
    ['between blanks', { name: '  Kari ' }, 'Kari'],
    ['10,000 characters long', { name: 'k'.repeat(10_000) }, `${'k'.repeat(59)}…`],
    ['10,000 characters of two halves', { name: '\u{1f600}'.repeat(5000) }, expect.any(String) as string],
  ])(
    'that is %s signs in, and is kept as it can be shown',
    async ([, claims, kept], { bus, visitor, directory }) => {
      await signIn({ visitor, directory }, claims);
      const names = await namesIn(bus);
      expect(names).toEqual(kept === null ? [] : [{ subject: ID, name: kept }]);
      for (const { name } of names) expect([name.isWellFormed(), name.length <= 60]).toEqual([true, true]);
      expect(await paused({ visitor, bus })).toContain(kept === null ? `>${ID}</td>` : '(b81e4c7a-2d96…)');
    },
  );

  test('is drawn as text, whatever it holds', async ({ bus, visitor, directory }) => {
    await signIn({ visitor, directory }, { name: '<img src=x onerror=alert(1)> \u202eirak' });
    const page = await paused({ visitor, bus });
    expect(page).toContain('&lt;img src=x onerror=alert(1)&gt; ⟨U+202E⟩irak (b81e4c7a-2d96…)');
    expect(page).not.toContain('<img');
    expect(page).not.toContain('\u202e');
  });

  test('stays when the directory sends none any more', async ({ bus, visitor, directory }) => {
    await signIn({ visitor, directory }, { name: 'Kari Nordmann' }, {});
    expect(await namesIn(bus)).toEqual([{ subject: ID, name: 'Kari Nordmann' }]);
  });

  test('is missing, and nothing else, where it can’t be read', async ({ bus, visitor, output }) => {
    await visitor.signIn();
    await rows(bus.db, 'alter table operator_names rename to operator_names_away');
    try {
      expect(await paused({ visitor, bus })).toContain(`>${ID}</td>`);
    } finally {
      await rows(bus.db, 'alter table operator_names_away rename to operator_names');
    }
    expect(output.text()).toContain('could not be counted');
  });
});

describe('the name of an operator goes', () => {
  test('with an erasure of its person, by their id or by a name that is an address', async ({
    bus,
    visitor,
    directory,
  }) => {
    const address = 'Kari.Nordmann@solvik.example.no';
    for (const [name, subject] of [
      ['Kari Nordmann', ID],
      [address, address.toLowerCase()],
    ] as const) {
      await signIn({ visitor, directory }, { name }, { sub: `${ID}-of-another`, name: 'Kari Hansen' });
      await erase(bus.db, { subjects: [subject], by: 'ingrid', reason: 'request 2026-114' });
      expect(await namesIn(bus)).toEqual([{ subject: `${ID}-of-another`, name: 'Kari Hansen' }]);
      expect(await paused({ visitor, bus })).toContain(`>${ID}</td>`);
    }
    expect(await rows(bus.db, 'select distinct texts::int from erasures')).toEqual([{ texts: 1 }]);
  });

  test('a year after their last sign-in, and not before', async ({ bus, visitor, directory }) => {
    await signIn({ visitor, directory }, { name: 'Kari Nordmann' });
    await rows(bus.db, `update operator_names set seen_at = now() - interval '364 days'`);
    const pruned = async (days: number) => {
      await pruneAll({ db: bus.db, until: Date.now() + MINUTE, now: new Date(Date.now() + days * DAY) });
      return await namesIn(bus);
    };
    expect(await pruned(0)).toHaveLength(1);
    await signIn({ visitor, directory }, { name: 'Kari Nordmann' });
    expect(await pruned(2)).toHaveLength(1);
    expect(await pruned(366)).toEqual([]);
  });
});

/** Does by the id what an operator can do, and some of it as if it were long ago. @returns the pages that tell of it. */
async function placesOfActs(bus: Bus, operators: Operators): Promise<string[]> {
  const how = { by: ID, reason: 'the period is closed' };
  const [letter, other] = await operators.died(2);
  const [first] = (await operators.held(3)).slice(0, 1);
  const eventOf = async (deliveryId: string) =>
    (await deliveriesOf(bus.db)).find(({ id }) => id === deliveryId)!.eventId;
  await retryNow(bus.db, { ...how, deliveryId: first! });
  await watchIncidents(bus.db);
  const incidents = await rows<{ id: string; state: string }>(
    bus.db,
    `update incidents set acknowledged_at = now(), acknowledged_by = $1, acknowledged_note = 'on it'
     returning id::text, state::text`,
    [ID],
  );
  const [incidentId, owedId] = ['happening', 'owed'].map(
    (wanted) => incidents.find(({ state }) => state === wanted)!.id,
  );
  await skip(bus.db, { ...how, deliveryId: first!, incidentId: incidentId! });
  await dismissLetter(bus.db, { ...how, deliveryId: letter! });
  await replay(
    bus.db,
    { topic: 'payment.captured', subscriber: 'ledger', since: '24h', incident: owedId!, reason: how.reason },
    ID,
  );
  const paced = { topic: 'payment.captured', since: '24h', reason: how.reason, perMinute: 60 } as const;
  const { replayId } = await replay(bus.db, paced, ID);
  await rows(
    bus.db,
    `insert into operator_actions (id, at, operator, action, replay_id, reason)
    values (gen_random_uuid(), now(), $1, 'stop_replay', $2::uuid, 'too fast')`,
    [ID, replayId],
  );
  await rows(bus.db, 'update paced_replays set ended_at = now()');
  // In their order: what was replayed holds the lane.
  for (const deliveryId of [other!, first!]) await skip(bus.db, { ...how, deliveryId });
  await pause(bus.db, { subscriber: 'ledger', topic: null }, ID, how.reason);
  await pause(bus.db, { subscriber: 'ledger', topic: 'payment.captured' }, ID, how.reason);
  await resume(bus.db, { subscriber: 'ledger', topic: 'payment.captured' }, ID, how.reason);
  const [backfill] = await rows<{ id: string }>(
    bus.db,
    `with stopped as (
       insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
       values (gen_random_uuid(), now(), $1, 'stop_backfill', 'payment.captured', 'ledger', 'slow')
     )
     insert into backfills (id, topic, subscriber, since, requested_at, requested_by, reason, matched, next_at, ended_at)
     values (gen_random_uuid(), 'payment.captured', 'ledger', now(), now(), $1, 'new', 5, now(), now())
     returning id::text`,
    [ID],
  );
  await rows(
    bus.db,
    `insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
     values (gen_random_uuid(), now(), $1, 'retire', 'payment.captured', 'former', 'gone')`,
    [ID],
  );
  const erasureId = await erase(bus.db, { subjects: ['usr_1'], ...how });
  return [
    '',
    '/incidents',
    `/incidents/${incidentId}`,
    `/incidents/${owedId!}`,
    `/dead-letters/${first!}`,
    `/events/${await eventOf(first!)}`,
    `/events/${await eventOf(letter!)}`,
    '/replays',
    `/replays/${replayId}`,
    '/topics/payment.captured',
    '/subscribers',
    '/subscribers/ledger',
    '/replays?only=backfills',
    `/backfills/${backfill!.id}`,
    `/erasures/${erasureId}`,
  ];
}
