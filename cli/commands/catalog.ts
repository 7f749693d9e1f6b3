import { muted } from '../../lib/console/kit/document.ts';
import type { List } from '../../lib/console/kit/document.ts';
import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { printableJson } from '../../lib/platform/visible.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import type { Given } from '../arguments.ts';
import { drawList } from '../draw.ts';
import { EXIT, misused, unknownName } from '../arguments.ts';
import { wrapTo } from '../terminal.ts';

export const command: Command = {
  name: 'catalog',
  summary: 'show the topics of this release, without a server',
  usage: ['catalog [topic]', 'catalog --asyncapi [--subscriber <name> | --producer <name>]'],
  notes: [
    'Lists every topic with its version, the component that produces it, its subscribers and the field that orders its events. Events of a topic without such a field are delivered in the order of the whole topic.',
    'With a topic, shows the JSON Schema of its payload and an example. npx postbud subscriber <name> shows how a server handles its topics.',
  ],
  options: {
    asyncapi: { help: 'print the catalog as an AsyncAPI 3.0 document in JSON' },
    subscriber: { value: '<name>', help: 'with --asyncapi: only what this component receives' },
    producer: { value: '<name>', help: 'with --asyncapi: only what this component posts to /api/events' },
  },
  isOffline: true,
  examples: [
    ['catalog', 'every topic'],
    ['catalog payment.captured', 'the payload and an example of one topic'],
    ['catalog --asyncapi > asyncapi.json', 'a document for code generators'],
    ['catalog --asyncapi --subscriber ledger', 'only what ledger receives'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson } = call;
  atMost(given.isSet('asyncapi') ? 0 : 1, given);
  if (given.isSet('asyncapi')) {
    writeJson(call, await asyncApiFor(given));
    return EXIT.ok;
  }
  const side = ['subscriber', 'producer'].find((option) => given.isSet(option));
  if (side !== undefined) throw misused(`--${side} goes with --asyncapi.`, 'Add --asyncapi.');
  const topics = await describeTopics();
  const [name] = given.positionals;
  const { out } = terminal;
  if (name !== undefined) {
    const topic = topics.find((one) => one.topic === name);
    const names = topics.map((one) => one.topic);
    showTopic(call, topic ?? unknown('topic', name, names));
  } else if (isJson) writeJson(call, { topics });
  else {
    out.write(drawList(out, listOf(topics)));
    out.write(out.paint('dim', quantity(topics.length, 'topic')));
  }
  return EXIT.ok;
}

type Described = Awaited<ReturnType<typeof describeTopics>>[number];

/** Describes every topic. */
async function describeTopics() {
  const { toJSONSchema } = await import('zod');
  const { topics } = await import('../../lib/bus/catalog/catalog.ts');
  return topics().map(([topic, row]) => ({
    topic,
    producer: row.producer,
    subscribers: row.subscribers,
    description: row.description,
    version: row.version,
    listed: row.listed,
    orderedBy: row.orderedBy ?? null,
    person: [...(row.person ?? []), ...(row.otherPeople ?? [])],
    payload: toJSONSchema(row.payload, { io: 'input', unrepresentable: 'any' }),
    example: row.example,
  }));
}

function listOf(rows: readonly Described[]): List<Described> {
  return {
    name: 'Topics',
    columns: [
      { label: 'Topic', cell: ({ topic }) => topic },
      { label: 'Version', tone: 'num', cell: ({ version }) => version },
      { label: 'Producer', cell: ({ producer }) => producer },
      { label: 'Subscribers', cell: ({ subscribers }) => subscribers.join(', ') },
      { label: 'Ordered by', cell: ({ orderedBy }) => orderedBy ?? muted('whole topic') },
      { label: 'Description', cell: ({ description }) => description },
    ],
    rows,
  };
}

/** @throws Failure for an unknown component, with the nearest name. */
async function asyncApiFor(given: Given): Promise<object> {
  const [subscriber, producer] = [given.text('subscriber'), given.text('producer')];
  if (subscriber !== undefined && producer !== undefined)
    throw misused('--subscriber and --producer were both given.', 'Ask for one document at a time.');
  const { asyncApi, asyncApiOfProducer, asyncApiOfSubscriber } =
    await import('../../lib/elsewhere/catalog-description/asyncapi.ts');
  const { subscriberNames, topics } = await import('../../lib/bus/catalog/catalog.ts');
  const [producers, subscribers] = [topics().map(([, row]) => row.producer), subscriberNames()];
  if (subscriber !== undefined && !subscribers.includes(subscriber))
    unknown('subscriber', subscriber, subscribers);
  if (producer !== undefined && !producers.includes(producer)) unknown('producer', producer, producers);
  if (subscriber !== undefined) return asyncApiOfSubscriber(subscriber);
  if (producer === undefined) return asyncApi();
  const { cloudEvent } = await import('../../lib/edge/events/route.ts');
  return asyncApiOfProducer(producer, cloudEvent);
}

/** @throws Failure */
function unknown(kind: string, name: string, names: readonly string[]): never {
  throw unknownName(kind, name, names, `npx postbud catalog lists the ${kind}s.`);
}

function showTopic(call: Call, topic: Described): void {
  if (call.isJson) return writeJson(call, topic);
  const { version, orderedBy, person, subscribers } = topic;
  const { out } = call.terminal;
  const title = (text: string) => out.paint('bold', text);
  const order = orderedBy === null ? 'over the whole topic' : `per ${orderedBy}`;
  const named = person.length > 0 ? ` Names a person by ${joinNames(person)}.` : '';
  const sentences = [
    topic.description,
    `Produced by ${topic.producer}, for ${subscribers.join(', ')}.`,
    `Version ${version}. Delivered in order ${order}.${named}`,
  ];
  out.write([title(topic.topic), ...sentences.map((one) => wrapTo(out.columns, one))].join('\n'));
  out.write(`\n${title('Payload')}\n${printableJson(topic.payload, 2)}`);
  out.write(`\n${title('Example')}\n${printableJson(topic.example, 2)}`);
}
