import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import type { Topic } from '../../lib/bus/catalog/topic.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach, subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { personalTexts } from '../../lib/bus/catalog/personal-data.ts';
import { drainLive, openBus, payloadOf, rows, emitAlone } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { RECORDS, deliveriesOf } from '../support/records.ts';
import { BROWSER, Operators } from '../support/operator-test.ts';
import type { Sent } from '../support/operator-test.ts';
import { CANARY, PERSONAL_TOPICS, TOPICS, canariesOf } from '../support/personal-data.ts';

let bus: Bus;
let operators: Operators;
/** What the functions wrote to the log. */
let lines = '';
const listen = () => {
  vi.spyOn(process.stdout, 'write').mockImplementation((line) => {
    lines += String(line);
    return true;
  });
};
beforeAll(async () => {
  bus = await openBus(inject('postgresUrl'));
  operators = new Operators(bus);
  listen();
});
beforeEach(listen);
afterAll(() => bus.close());

/** Asks as an operator who may only read, unless another scope is given. */
const ask = (path: string, sent: Sent = {}) => operators.ask(path, { scope: 'event-bus:read', ...sent });

/** Asks as a program and as a browser. @returns both answers, in which no canary may be. */
async function bothOf(path: string): Promise<string> {
  const answers = [await ask(path), await ask(path, { accept: BROWSER })];
  expect([path, ...answers.map(({ status }) => status)]).toEqual([path, 200, 200]);
  return answers.map(({ text }) => text).join('\n');
}

/** Asks for several pages side by side. @returns for each what should not be in it; none is as it should be. */
async function seenAt(paths: readonly string[]): Promise<string[]> {
  const seen: string[] = [];
  // The pool has ten connections, and a page takes up to four at once.
  for (let start = 0; start < paths.length; start += 4) {
    const texts = await Promise.all(paths.slice(start, start + 4).map(bothOf));
    seen.push(
      ...texts.flatMap((text, index) => seenIn(text).map((found) => `${paths[start + index]}: ${found}`)),
    );
  }
  return seen;
}

/** Where a canary stands, with what is around it; none is as it should be. */
function seenIn(text: string): string[] {
  return text.match(/.{0,60}kanarifugl.{0,20}/gi) ?? [];
}

const rowOf = (topic: TopicName): Topic => catalog[topic];

const isPersonal = (topic: string) => PERSONAL_TOPICS.some((one) => one === topic);

/** The first subscriber of every topic gives up, the last one tries again: both repeat what they were handed. */
function indiscreet(): AttachedSubscriber[] {
  const repeat = ({ topic, payload, version }: BusEvent) =>
    `no: ${personalTexts(topic, payload, version).join(' and ')}!`;
  const names = new Set(TOPICS.flatMap((topic) => [...rowOf(topic).subscribers]));
  return [...names].map((name) => {
    const handled = TOPICS.filter((topic) => rowOf(topic).subscribers.includes(name));
    const handlers = handled.map((topic) => [
      topic,
      (event: BusEvent) => {
        if (rowOf(topic).subscribers[0] === name) throw new PermanentError(repeat(event));
        if (rowOf(topic).subscribers.at(-1) === name) throw new Error(repeat(event));
      },
    ]);
    return attach(name, Object.fromEntries(handlers));
  });
}

interface Letter {
  readonly id: string;
  readonly topic: string;
}

/** The path of the event of a delivery. */
const eventOf = (deliveryId: string) => `/events/${deliveryId.split('.')[0]}`;

const lettersIn = async (state: string): Promise<Letter[]> =>
  (await deliveriesOf(bus.db)).filter((delivery) => delivery.state === state);

describe('personal data in dead letters and in their errors', () => {
  let letters: Letter[];
  beforeAll(async () => {
    operators.attached = indiscreet();
    for (const topic of TOPICS) await emitAlone(bus.db, topic, canariesOf(topic) as never);
    await drainLive(bus.db, operators.attached);
    letters = await lettersIn('dead_lettered');
  });

  test('a canary is in the payloads and the errors of the database, to be found', async () => {
    expect(letters.map(({ topic }) => topic)).toEqual(TOPICS.toSorted());
    expect((await lettersIn('failing')).length).toBeGreaterThan(50);
    const [found] = await rows<{ payloads: number; logs: number }>(
      bus.db,
      `select (select count(*)::int from events where payload::text ~* 'kanarifugl') as payloads,
         (select count(*)::int from ${RECORDS} where attempt_log::text ~* 'kanarifugl') as logs`,
    );
    expect(found!.payloads).toBeGreaterThan(60);
    expect(found!.logs).toBeGreaterThan(100);
  });

  test('personal data is not in the error groups that the database keeps', async () => {
    expect(await rows(bus.db, `select message from error_groups where message ~* 'kanarifugl'`)).toEqual([]);
  });

  test('personal data is not in the overview, the description of the catalog or the operator log', async () => {
    expect(await seenAt(['', '/catalog/asyncapi', '/replays'])).toEqual([]);
  });

  test('personal data is not in the lists of dead letters and their groups', async () => {
    expect(seenIn(await bothOf('/dead-letters?limit=100'))).toEqual([]);
    const { nextCursor } = JSON.parse((await ask('/dead-letters?limit=100')).text) as { nextCursor: string };
    const second = await bothOf(`/dead-letters?limit=100&cursor=${nextCursor}`);
    expect(seenIn(second)).toEqual([]);
    expect(second).toContain('[hidden]');
    expect(seenIn(await bothOf('/dead-letters?q=hidden&limit=100'))).toEqual([]);
  });

  test('a search does not find hidden personal data, so that nobody can guess it', async () => {
    const { total } = JSON.parse((await ask('/dead-letters?q=kanarifugl')).text) as { total: number };
    expect(total).toBe(0);
  });

  test('personal data is on no topic’s page', async () => {
    expect(await seenAt(PERSONAL_TOPICS.map((topic) => `/topics/${topic}`))).toEqual([]);
  });

  test('personal data is on no page of a dead letter or of a failing delivery', async () => {
    const all = [...letters, ...(await lettersIn('failing'))].filter(({ topic }) => isPersonal(topic));
    expect(await seenAt(all.map(({ id }) => `/dead-letters/${id}`))).toEqual([]);
  });

  test('personal data is in no replay preview', async () => {
    expect(await seenAt(PERSONAL_TOPICS.map((topic) => `/replay?topic=${topic}&since=1h`))).toEqual([]);
  });

  test('personal data is not revealed to a token without the reveal scope, and nothing is logged as revealed', async () => {
    for (const { id } of letters.slice(0, 5)) {
      for (const accept of ['*/*', BROWSER]) {
        const scope = 'event-bus:read event-bus:replay';
        const answer = await ask(`${eventOf(id)}/reveal`, {
          accept,
          scope,
          form: { reason: 'curious' },
        });
        expect(answer.status).toBe(403);
        expect(seenIn(answer.text)).toEqual([]);
        expect(answer.text).not.toContain('payload');
      }
    }
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
  });

  test('personal data is revealed with the scope and a reason, which is logged with who and when', async () => {
    const revealed = letters.filter(({ topic }) => isPersonal(topic));
    expect(revealed.length).toBeGreaterThan(60);
    const [before] = await rows<{ at: string }>(bus.db, 'select clock_timestamp()::text as at');
    for (const { id, topic } of revealed) {
      const answer = await ask(`${eventOf(id)}/reveal`, {
        scope: 'event-bus:reveal',
        form: { reason: `who is it in ${topic}` },
      });
      const { event, deliveries } = JSON.parse(answer.text) as {
        event: { payload: unknown; isRevealed: boolean };
        deliveries: unknown;
      };
      expect([topic, answer.status, event.isRevealed]).toEqual([topic, 200, true]);
      expect(event.payload).toEqual(canariesOf(topic as TopicName));
      expect(JSON.stringify(deliveries)).toMatch(CANARY);
    }
    const logged = await rows<{
      operator: string;
      action: string;
      path: string;
      topic: string;
      reason: string;
      isOfThese: boolean;
    }>(
      bus.db,
      `select operator, action, '/events/' || event_id as path, topic, reason,
         at between $1::timestamptz and clock_timestamp() as "isOfThese" from operator_actions order by topic`,
      [before!.at],
    );
    expect(logged).toMatchObject(
      revealed.map(({ id, topic }) => ({
        operator: 'kari@solvik.example.no',
        action: 'reveal',
        path: eventOf(id),
        topic,
        reason: `who is it in ${topic}`,
      })),
    );
    expect(logged.every(({ isOfThese }) => isOfThese)).toBe(true);
    // Looking again without the scope shows nothing still.
    expect(seenIn(await bothOf(`/dead-letters/${revealed[0]!.id}`))).toEqual([]);
  });

  test('the revealed event of a dead letter is a page with its personal data', async () => {
    const letter = letters.find(({ topic }) => topic === 'booking.assigned')!;
    const scope = 'event-bus:read event-bus:reveal';
    const revealed = await ask(`${eventOf(letter.id)}/reveal`, {
      scope,
      json: { reason: 'the tenant asks' },
    });
    const { event } = JSON.parse(revealed.text) as { event: { reveal: { revealId: string } } };
    const page = await ask(`${eventOf(letter.id)}?revealed=${event.reveal.revealId}`, {
      accept: BROWSER,
      scope,
    });
    expect([page.status, seenIn(page.text).length > 0]).toEqual([200, true]);
    // The errors shown beside the payload repeat it.
    expect(page.text).not.toContain('class="red"');
  });

  test('personal data is in no line of the log', () => {
    expect(seenIn(lines)).toEqual([]);
  });
});

describe('a payload that does not fit, and an error about somebody else', () => {
  /** Has accounting refuse a payment for a reason. @returns the dead letter's id. */
  async function diedOf(reason: string, payload: object | null = null): Promise<string> {
    await bus.reset();
    await emitAlone(bus.db, 'payment.captured', payloadOf('payment.captured'));
    if (payload) await rows(bus.db, 'update events set payload = $1::text::jsonb', [JSON.stringify(payload)]);
    operators.attached = [
      subscriber('accounting', {
        'payment.captured': () => {
          throw new PermanentError(reason);
        },
      }),
    ];
    await drainLive(bus.db, operators.attached);
    return (await lettersIn('dead_lettered'))[0]!.id;
  }

  const everywhere = async (id: string) =>
    (
      await Promise.all(
        [
          '',
          '/topics/payment.captured',
          '/dead-letters',
          `/dead-letters/${id}`,
          '/replay?topic=payment.captured&since=1h',
        ].map(bothOf),
      )
    ).join('\n');

  test('a payload that does not fit shows only the unmarked fields of its schema, in errors too', async () => {
    const id = await diedOf('cannot book for KANARIFUGL ÆSDAL', {
      intentId: 'pi_3QxSolvik48213',
      bookingId: 'Kanarifugl Æsdal',
      provider: 'kanarifugl',
      payer: { name: 'Kanarifugl Æsdal', city: 'Kanarifuglvik', payerId: 'kanarifugl' },
      notes: ['Kanarifugl'],
      'kanarifugl@bærum.kommune.no': true,
    });
    expect(seenIn(await everywhere(id))).toEqual([]);
    const { payload, isValid } = JSON.parse((await ask(`/dead-letters/${id}`)).text) as {
      payload: unknown;
      isValid: boolean;
    };
    expect(isValid).toBe(false);
    expect(payload).toEqual({
      intentId: 'pi_3QxSolvik48213',
      bookingId: '[hidden]',
      provider: '[hidden]',
      '[hidden]': '[hidden]',
    });
  });

  test('a payload of an unknown version is hidden as a whole, in lists and errors too', async () => {
    const id = await diedOf('no such payer: kanarifugl', {
      ...payloadOf('payment.captured'),
      payerId: 'Kanarifugl',
    });
    await rows(bus.db, 'update events set version = 2');
    const seen = await everywhere(id);
    expect(seenIn(seen)).toEqual([]);
    expect(seen).not.toContain('bkg_48213');
    const { payload, subject, hidden } = JSON.parse((await ask(`/dead-letters/${id}`)).text) as {
      payload: unknown;
      subject: unknown;
      hidden: unknown;
    };
    expect({ payload, subject, hidden }).toEqual({
      payload: '[hidden]',
      subject: null,
      hidden: [{ pointer: '', kind: null }],
    });
    const page = (await ask(`/dead-letters/${id}`, { accept: BROWSER })).text;
    expect(page).toContain('The payload does not match this release’s schema.');
    const revealed = await ask(`${eventOf(id)}/reveal`, {
      scope: 'event-bus:reveal',
      form: { reason: 'the payer asks' },
    });
    expect(JSON.parse(revealed.text)).toMatchObject({ event: { payload: { payerId: 'Kanarifugl' } } });
  });

  test('an address of somebody else in an error is masked', async () => {
    const address = 'kanarifugl@bærum.kommune.no';
    const seen = await everywhere(await diedOf(`no account for ${address} (closed)`));
    expect(seen).not.toContain(address);
    expect(seen).toContain('[hidden]');
  });

  test('an operator’s reason for skipping, as older releases took it, is masked too', async () => {
    const id = await diedOf('refused');
    await rows(bus.db, 'truncate operator_actions');
    operators.attached = [
      subscriber('accounting', {
        'payment.captured': () => {
          throw new Error('down');
        },
      }),
    ];
    await emitAlone(bus.db, 'payment.captured', payloadOf('payment.captured'));
    await drainLive(bus.db, operators.attached);
    const [waiting] = await lettersIn('failing');
    const reason = 'kanarifugl@example.no asked for it';
    await skip(bus.db, { deliveryId: waiting!.id, by: 'kari', reason });
    expect(seenIn(await everywhere(id))).toEqual([]);
  });
});

describe('a long text of a person’s own', () => {
  test('a long personal text is masked in an error that was cut in the middle of it', async () => {
    await bus.reset();
    const purpose = 'Kanarifugl '.repeat(400).trim();
    await emitAlone(bus.db, 'booking.created', payloadOf('booking.created', { purpose }));
    operators.attached = [
      subscriber('audit', {
        'booking.created': (event) => {
          throw new PermanentError(`cannot write ${JSON.stringify(event.payload)}`);
        },
      }),
    ];
    await drainLive(bus.db, operators.attached);
    const [letter] = await lettersIn('dead_lettered');
    for (const path of ['', '/topics/booking.created', '/dead-letters', `/dead-letters/${letter!.id}`]) {
      expect([path, seenIn(await bothOf(path)).length]).toEqual([path, 0]);
    }
  });

  test('an e-mail address is masked in an error that was cut within it', async () => {
    await bus.reset();
    const email = 'kanarifugl@bærum.kommune.no';
    await emitAlone(bus.db, 'booking.created', payloadOf('booking.created', { email }));
    operators.attached = [
      subscriber('audit', {
        'booking.created': () => {
          // An error's message is kept up to 2000 characters.
          throw new PermanentError(`${'x'.repeat(1984)} ${email}`);
        },
      }),
    ];
    await drainLive(bus.db, operators.attached);
    const [letter] = await lettersIn('dead_lettered');
    expect(seenIn((await ask(`/dead-letters/${letter!.id}`)).text)).toEqual([]);
  });
});

describe('the kind of an error', () => {
  test.each([1, 5])(
    'the kind of an error is masked like its message, after the first of %i attempts',
    async (maxAttempts) => {
      await bus.reset();
      await emitAlone(bus.db, 'payment.captured', payloadOf('payment.captured'));
      const code = 'no user kanarifugl@example.no';
      operators.attached = [
        subscriber(
          'accounting',
          {
            'payment.captured': () => {
              throw Object.assign(new Error('refused'), { code });
            },
          },
          { maxAttempts },
        ),
      ];
      await drainLive(bus.db, operators.attached);
      const letters = await lettersIn('dead_lettered');
      expect(letters).toHaveLength(maxAttempts === 1 ? 1 : 0);
      const pages = [
        '',
        '/topics/payment.captured',
        '/dead-letters',
        '/replay?topic=payment.captured&since=1h',
      ];
      expect(await seenAt([...pages, ...letters.map(({ id }) => `/dead-letters/${id}`)])).toEqual([]);
      expect(await bothOf('/topics/payment.captured')).toContain(maxAttempts === 1 ? '' : 'no user [hidden]');
    },
  );
});
