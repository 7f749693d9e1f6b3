import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';

import { describe, expect } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { payloadOf, rows, emitAlone } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';
import { delayRetries } from '../support/scenes.ts';
import { BROWSER, test as operatorTest } from '../support/operator-test.ts';
import { openReceiver } from '../support/receiver.ts';

const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
const NAMED = { name: 'Sigrid Aasen', email: 'sigrid.aasen@example.no', organization: 'Nordvåg kommune' };

const test = operatorTest
  .extend('receiver', async ({}, { onCleanup }) => {
    const receiver = await openReceiver();
    onCleanup(() => receiver.close());
    return receiver;
  })
  /** Has inquiries refused by the receiver. @returns what is kept of the first delivery's first attempt. */
  .extend('refused', ({ bus, receiver }) => {
    return async (
      behave: (response: ServerResponse) => void,
      { isBatch = false, names = ['Sigrid Aasen'] } = {},
    ) => {
      receiver.behave = behave;
      for (const name of names)
        await emitAlone(bus.db, 'inquiry.submitted', payloadOf('inquiry.submitted', { ...NAMED, name }));
      const attached = remoteSubscriber({ name: 'intelligence', url: receiver.url, secret, isBatch });
      await relay({ db: bus.db, subscribers: [attached], until: Date.now() + 45 * SECOND });
      const [delivery] = await deliveriesOf(bus.db, 'intelligence');
      const [first] = delivery!.log as readonly Kept[];
      return { id: delivery!.id, ...first! };
    };
  });

interface Kept {
  readonly kind: string;
  readonly outcome: string;
  readonly answer?: string;
}

const says =
  (body: string | Buffer, type = 'text/plain', status = 500, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    response.writeHead(status, { ...(type && { 'content-type': type }), ...headers }).end(body);

describe('the answer of a component that refuses an event', () => {
  test.for([
    ['500', 500, {}, 'http_500', 'failed'],
    ['410', 410, {}, 'permanent', 'failed'],
    ['503 with Retry-After', 503, { 'retry-after': '60' }, 'retry_after', 'waited'],
  ] as const)(
    'an answer %s is kept with its attempt',
    async ([, status, headers, kind, outcome], { refused }) => {
      const said = '{"error":"licence expired",\n "until":"18:00"}';
      expect(await refused(says(said, 'application/json', status, headers))).toMatchObject({
        kind,
        outcome,
        answer: said,
      });
    },
  );

  test('an answer without a body leaves nothing to show', async ({ refused }) => {
    expect(await refused(says(''))).not.toHaveProperty('answer');
  });

  test('a long answer is kept for two kilobytes, cut between two characters', async ({ refused }) => {
    const { answer } = await refused(says(`x${'ø漢👩'.repeat(1000)}`));
    expect(Buffer.byteLength(answer!)).toBeLessThanOrEqual(2048);
    expect(Buffer.byteLength(answer!)).toBeGreaterThan(2030);
    expect(answer).toMatch(/^x(?:ø漢👩)+(?:ø|ø漢)?…$/u);
  });

  test('an answer is read in its own charset, and bytes that are no text are replaced', async ({
    refused,
  }) => {
    const latin = await refused(
      says(Buffer.from('ugyldig nøkkel', 'latin1'), 'text/plain; charset=ISO-8859-1'),
    );
    expect(latin.answer).toBe('ugyldig nøkkel');
  });

  test('an answer with invalid UTF-8 or U+0000 is stored', async ({ refused }) => {
    const { answer } = await refused(says(Buffer.from('the ledger is closed \xFF\0 today', 'latin1')));
    expect(answer).toBe('the ledger is closed \uFFFD\u2400 today');
  });

  test.for([
    [
      'image/png',
      Buffer.from('89504e470d0a1a0a0000000d', 'hex'),
      'a binary body of type image/png, 12 bytes',
    ],
    [
      'application/octet-stream',
      Buffer.from([0, 1, 2, 3, 255]),
      'a binary body of type application/octet-stream, 5 bytes',
    ],
    ['', gzipSync('a'.repeat(100)), 'a binary body, \\d+ bytes'],
  ] as const)('a binary body of type "%s" is named, not kept', async ([type, body, words], { refused }) => {
    expect((await refused(says(body, type))).answer).toMatch(new RegExp(`^\\[${words}\\]$`));
  });

  test('an answer of a hundred megabytes is read only as far as it is kept', async ({ refused }) => {
    let sent = 0;
    const piece = Buffer.alloc(64 * 1024, 'a');
    const { kind, answer } = await refused((response) => {
      response.writeHead(500, { 'content-length': String(1600 * piece.length) });
      const pour = () => {
        while (sent < 1600 && !response.destroyed) {
          sent += 1;
          if (!response.write(piece)) return void response.once('drain', pour);
        }
      };
      pour();
    });
    expect([kind, Buffer.byteLength(answer!)]).toEqual(['http_500', 2048]);
    expect(sent).toBeLessThan(1600);
  });

  test('a small body that decompresses to a hundred megabytes is cut like any other', async ({ refused }) => {
    const bomb = gzipSync(Buffer.alloc(100 * 1024 * 1024, 'a'));
    const { kind, answer } = await refused(says(bomb, 'text/plain', 500, { 'content-encoding': 'gzip' }));
    expect([kind, Buffer.byteLength(answer!)]).toEqual(['http_500', 2048]);
  });

  test('an answer without an end fails the attempt by its status, with what came', async ({ refused }) => {
    const { kind, answer } = await refused((response) => {
      response.writeHead(502).write('so far');
      const trickle = setInterval(() => response.write('.'), 100);
      response.once('close', () => clearInterval(trickle));
    });
    expect([kind, answer]).toEqual(['http_502', expect.stringMatching(/^so far\.*…$/)]);
  });

  test('an answer that breaks off, or is compressed wrongly, fails the attempt by its status', async ({
    refused,
  }) => {
    const broken = await refused((response) => {
      response.writeHead(500, { 'content-length': '100' });
      response.write('half', () => response.destroy());
    });
    expect(broken).toMatchObject({ kind: 'http_500' });
  });

  test('a body that claims to be compressed and is not fails the attempt by its status', async ({
    refused,
  }) => {
    expect(await refused(says('plain', 'text/plain', 500, { 'content-encoding': 'gzip' }))).toMatchObject({
      kind: 'http_500',
    });
  });
});

describe('the answers in the log of one delivery', () => {
  const answersOf = async (bus: Bus) => {
    const [delivery] = await deliveriesOf(bus.db, 'intelligence');
    return (delivery!.log as readonly Kept[]).map(({ answer }) => answer);
  };
  const again = async (bus: Bus, url: string, now: number) => {
    const attached = remoteSubscriber({ name: 'intelligence', url, secret });
    await relay({ db: bus.db, subscribers: [attached], until: Date.now() + 45 * SECOND, now });
  };

  test('a component that asks to wait again and again has its first answer kept', async ({
    bus,
    receiver,
    refused,
  }) => {
    await refused(says('closed until 18:00', 'text/plain', 503, { 'retry-after': '60' }));
    for (const minutes of [2, 4]) await again(bus, receiver.url, Date.now() + minutes * MINUTE);
    expect(await answersOf(bus)).toEqual(['closed until 18:00', undefined, undefined]);
  });

  test('replays keep the answers of the newest ten entries', async ({ bus, receiver, refused }) => {
    const { id } = await refused(says('gone', 'text/plain', 410));
    for (let round = 0; round < 8; round += 1) {
      await replay(bus.db, { deliveryIds: [id] }, 'kari');
      await again(bus, receiver.url, Date.now());
    }
    const answers = await answersOf(bus);
    expect(answers).toHaveLength(17);
    expect(answers.filter((answer) => answer === 'gone')).toHaveLength(6);
    expect(answers.slice(0, 5)).toEqual(Array.from({ length: 5 }, () => undefined));
  });
});

describe('personal data in the answer of a component', () => {
  test('an answer that repeats the event’s personal data is stored without it', async ({ refused }) => {
    const { answer } = await refused(
      says(
        `no account for SIGRID AASEN (sigrid.aasen@example.no, +47 400 00 456), ask kari@solvik.example.no`,
      ),
    );
    expect(answer).toMatch(/^no account for \[hidden\]/);
    expect(answer).not.toMatch(/sigrid|aasen|kari|400 00/i);
  });

  test('personal data at the cut of an answer is hidden as well', async ({ refused }) => {
    const { answer } = await refused(says(`${'x '.repeat(1018)}sigrid.aasen@example.no${' y'.repeat(2000)}`));
    expect(answer).not.toMatch(/sigr/i);
  });

  test('an answer to a batch hides the personal data of all its events', async ({ refused }) => {
    const { answer } = await refused(says('row 2: Torleif Haugsbakk is unknown'), {
      isBatch: true,
      names: ['Sigrid Aasen', 'Torleif Haugsbakk'],
    });
    expect(answer).toMatch(/^row 2: \[hidden\].* is unknown$/);
    expect(answer).not.toMatch(/torleif|haugsbakk/i);
  });
});

describe('what operators see of an answer', () => {
  const HOSTILE = '<script>alert(1)</script>\r\n\u001B[2J\u0007 \u202Eevil\u2066\tend\u200B';

  test('the page shows an answer as text, with signs for what controls or hides', async ({
    refused,
    operators,
  }) => {
    const { id } = await refused(says(HOSTILE, 'text/html', 410));
    const { text } = await operators.ask(`/dead-letters/${id}`, { accept: BROWSER });
    expect(text).toContain(
      '&lt;script&gt;alert(1)&lt;/script&gt;\n␛[2J␇ ⟨U+202E⟩evil⟨U+2066⟩\tend⟨U+200B⟩</pre>',
    );
  });

  test('JSON has an answer as it was sent', async ({ refused, operators }) => {
    const { id } = await refused(says(HOSTILE, 'text/html', 410));
    const { json } = await operators.ask(`/dead-letters/${id}`);
    expect(json).toMatchObject({ attempts: [{ error: { answer: HOSTILE } }] });
  });
});

describe('what a component says when it refuses events', () => {
  test('two causes behind one status are two groups of dead letters, and the incident says the last one', async ({
    bus,
    operators,
    receiver,
  }) => {
    const causes = ['account closed', 'unknown booking bkg_4821', 'unknown booking bkg_77'];
    receiver.behave = (response) => says(causes[receiver.got.length - 1]!, 'text/plain', 410)(response);
    for (const _ of causes)
      await emitAlone(bus.db, 'inquiry.submitted', payloadOf('inquiry.submitted', NAMED));
    const attached = remoteSubscriber({ name: 'intelligence', url: receiver.url, secret });
    await relay({ db: bus.db, subscribers: [attached], until: Date.now() + 45 * SECOND });
    const { json: letters } = await operators.ask('/dead-letters');
    expect(letters).toMatchObject({
      groups: [
        { message: 'the subscriber answered 410: unknown booking …', count: 2 },
        { message: 'the subscriber answered 410: account closed', count: 1 },
      ],
    });
    const { text } = await operators.ask('/incidents', { accept: BROWSER });
    expect(text).toContain('the subscriber answered 410: unknown booking …');
  });

  test('is in an outage’s incident, without personal data', async ({ bus, operators, receiver }) => {
    receiver.behave = says('down until 04:00, says Sigrid Aasen', 'text/plain', 503);
    for (const key of ['a', 'b', 'c'])
      await emitAlone(bus.db, 'inquiry.submitted', payloadOf('inquiry.submitted', NAMED), {
        orderingKey: key,
      });
    const attached = remoteSubscriber({ name: 'intelligence', url: receiver.url, secret, outage: 'wait' });
    await relay({ db: bus.db, subscribers: [attached], until: Date.now() + 45 * SECOND });
    await delayRetries(bus.db, '-1 hour');
    await relay({ db: bus.db, subscribers: [attached], until: Date.now() + 45 * SECOND });
    const { json } = await operators.ask('/incidents');
    expect(json).toMatchObject({
      items: [
        {
          topic: null,
          lastError: {
            kind: 'http_503',
            message: 'the subscriber answered 503: down until 04:00, says [hidden]',
          },
        },
      ],
    });
  });

  test('makes a hundred groups at most, and one of the rest, however often it changes its words', async ({
    bus,
  }) => {
    const words = (number: number) => number.toString(26).replaceAll(/\d/g, (digit) => 'qrstuvwxyz'[+digit]!);
    for (let number = 0; number < 130; number += 1)
      await emitAlone(bus.db, 'inquiry.submitted', payloadOf('inquiry.submitted', NAMED));
    let handled = 0;
    const refusing = subscriber('intelligence', {
      'inquiry.submitted': () => {
        throw new PermanentError(`no ${words((handled += 1))}`);
      },
    });
    await relay({ db: bus.db, subscribers: [refusing], until: Date.now() + 45 * SECOND });
    const groups = await rows<{ count: number; rest: boolean }>(
      bus.db,
      `select count(*)::int as count, message like 'other messages%' as rest
       from exceptions join error_groups on key = error_group group by key order by 1`,
    );
    expect(groups).toHaveLength(101);
    expect(groups.at(-1)).toEqual({ count: 30, rest: true });
  });
});
