import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { commandLine } from '../../cli/main.ts';
import type { Pane } from '../../cli/terminal.ts';
import { catalog, topics } from '../../lib/bus/catalog/catalog.ts';
import { asyncApi, asyncApiOfSubscriber } from '../../lib/elsewhere/catalog-description/asyncapi.ts';

// Every other command refuses this address before it does anything.
beforeEach(() => void vi.stubEnv('POSTBUD_URL', 'nowhere'));
beforeEach(() => void vi.stubEnv('DATABASE_URL', 'nonsense'));
afterEach(() => void vi.unstubAllEnvs());

async function postbud(...args: string[]) {
  const [out, err] = [[] as string[], [] as string[]];
  const pane = (lines: string[]): Pane => ({
    write: (text) => lines.push(text),
    paint: (_, text) => text,
    columns: null,
  });
  const terminal = {
    out: pane(out),
    err: pane(err),
    isInteractive: false,
    ask: async () => '',
    progress: () => {},
  };
  const code = await commandLine(args, terminal);
  return { code, out: out.join('\n'), err: err.join('\n') };
}

test('the catalog command lists every topic without a server and without a database', async () => {
  expect((await postbud('topics')).code).toBe(2);
  const { code, out, err } = await postbud('catalog');
  expect([code, err]).toEqual([0, '']);
  const lines = out.split('\n').map((line) => line.split(/ {2,}/));
  expect(lines[0]).toEqual(['topic', 'version', 'producer', 'subscribers', 'ordered by', 'description']);
  expect(lines.slice(1, -1)).toEqual(
    topics().map(([topic, { version, producer, subscribers, orderedBy, description }]) => [
      topic,
      String(version),
      producer,
      subscribers.join(', '),
      orderedBy ?? 'whole topic',
      description,
    ]),
  );
  expect(lines.at(-1)).toEqual([`${topics().length} topics`]);
});

test('the catalog command shows the payload and an example of one topic', async () => {
  const { code, out } = await postbud('catalog', 'inquiry.submitted');
  expect(code).toBe(0);
  expect(out).toContain(catalog['inquiry.submitted'].description);
  const [, payload = '', example = ''] = out.split(/\n(?:Payload|Example)\n/);
  const schema = JSON.parse(payload) as { properties: object; required: string[] };
  expect(Object.keys(schema.properties)).toEqual(Object.keys(catalog['inquiry.submitted'].payload.shape));
  expect(schema.properties).toMatchObject({ email: { type: 'string', personal: true } });
  expect(schema.required).toContain('email');
  expect(JSON.parse(example)).toEqual(catalog['inquiry.submitted'].example);
});

test('the catalog command suggests the nearest topic for an unknown one', async () => {
  expect(await postbud('catalog', 'payment.capture')).toEqual({
    code: 2,
    out: '',
    err: "Unknown topic 'payment.capture'. Did you mean 'payment.captured'?",
  });
  const { code, err } = await postbud('catalog', 'wholly.else');
  expect(code).toBe(2);
  expect(err).toBe("Unknown topic 'wholly.else'.\nnpx postbud catalog lists the topics.");
});

test('the catalog command prints the topics as JSON', async () => {
  const { out } = await postbud('catalog', '--json');
  const all = z.object({ topics: z.array(z.looseObject({ topic: z.string() })) }).parse(JSON.parse(out));
  expect(all.topics.map(({ topic }) => topic)).toEqual(topics().map(([topic]) => topic));
  const one = JSON.parse((await postbud('catalog', 'payment.captured', '--json')).out) as object;
  const { producer, subscribers, description, version, listed, example } = catalog['payment.captured'];
  expect(one).toMatchObject({
    producer,
    subscribers,
    description,
    version,
    listed,
    example,
    orderedBy: null,
  });
  expect(all.topics).toContainEqual(one);
});

test('the catalog command prints the AsyncAPI document', async () => {
  const { code, out } = await postbud('catalog', '--asyncapi');
  expect(code).toBe(0);
  expect(JSON.parse(out)).toEqual(JSON.parse(JSON.stringify(asyncApi())));
});

test('the catalog command prints the AsyncAPI document of one component', async () => {
  const printed = async (...args: string[]) => JSON.parse((await postbud(...args)).out) as object;
  expect(await printed('catalog', '--asyncapi', '--subscriber', 'ledger')).toEqual(
    JSON.parse(JSON.stringify(asyncApiOfSubscriber('ledger'))),
  );
  expect(await printed('catalog', '--asyncapi', '--producer', 'bookings')).toMatchObject({
    servers: { bus: { pathname: '/api/events' } },
    components: { schemas: { CloudEvent: { required: ['specversion', 'id', 'source', 'type'] } } },
  });
});

test.each([
  [['--asyncapi', '--subscriber', 'legder'], "Unknown subscriber 'legder'. Did you mean 'ledger'?"],
  [['--asyncapi', '--producer', 'booking'], "Unknown producer 'booking'. Did you mean 'bookings'?"],
  [['--asyncapi', '--subscriber', 'ledger', '--producer', 'bookings'], '--subscriber and --producer were'],
  [['--subscriber', 'ledger'], '--subscriber goes with --asyncapi.'],
])('the catalog command refuses %j', async (args, message) => {
  expect(await postbud('catalog', ...args)).toEqual({
    code: 2,
    out: '',
    err: expect.stringContaining(message),
  });
});

test('the catalog command takes no option of a server', async () => {
  const { code, err } = await postbud('catalog', '--url', 'http://localhost:3000');
  expect([code, err]).toEqual([2, expect.stringContaining("Unknown option '--url'")]);
});
