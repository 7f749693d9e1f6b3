import { topicsByProducer } from '../../lib/console/catalog/doc.ts';
import { contractSentences, fieldList } from '../../lib/console/catalog/lists.ts';
import type { CatalogTopic } from '../../lib/console/catalog/read.ts';
import { uncommonOptions } from '../../lib/console/kit/subscription.ts';
import { quantity } from '../../lib/console/kit/words.ts';
import { printableJson } from '../../lib/platform/visible.ts';
import { atMost, writeJson } from '../command.ts';
import type { OfflineCall, OfflineCommand } from '../command.ts';
import type { Given } from '../arguments.ts';
import { drawList } from '../draw.ts';
import { EXIT, misused } from '../failure.ts';
import { unknownName } from '../nearest.ts';
import { wrapTo } from '../text.ts';

export const command: OfflineCommand = {
  name: 'catalog',
  summary: 'show the topics of this release, without a server',
  usage: ['catalog [topic]', 'catalog --asyncapi [--subscriber <name> | --producer <name>]'],
  notes: [
    'Lists every topic with its version, the component that produces it, its subscribers and the field that orders its events. Events of a topic without such a field are delivered in the order of the whole topic.',
    'With a topic, shows the fields of its payload, an example, and the options of the handlers in this release. npx postbud topics shows the options of a server’s subscriptions.',
  ],
  options: {
    asyncapi: { help: 'print the catalog as an AsyncAPI 3.0 document in JSON' },
    subscriber: { value: '<name>', help: 'with --asyncapi: only what this component receives' },
    producer: { value: '<name>', help: 'with --asyncapi: only what this component posts to /api/events' },
  },
  isOffline: true,
  examples: [
    ['catalog', 'every topic'],
    ['catalog payment.captured', 'the fields and an example of one topic'],
    ['catalog --asyncapi > asyncapi.json', 'a document for code generators'],
    ['catalog --asyncapi --subscriber ledger', 'only what ledger receives'],
  ],
  run,
};

async function run(call: OfflineCall): Promise<number> {
  const { given, terminal, isJson } = call;
  atMost(given.isSet('asyncapi') ? 0 : 1, given);
  if (given.isSet('asyncapi')) {
    writeJson(call, await asyncApiFor(given));
    return EXIT.ok;
  }
  for (const side of ['subscriber', 'producer']) {
    if (given.isSet(side)) throw misused(`--${side} goes with --asyncapi.`, 'Add --asyncapi.');
  }
  const { describeCatalog } = await import('../../lib/console/catalog/read.ts');
  const { subscribersOf } = await import('../../lib/components/registry.ts');
  const inRelease = subscribersOf({ remoteSubscribers: [], database: { kind: 'none' } });
  const described = describeCatalog({ subscribers: () => inRelease, refusals: () => [] }).topics;
  const topics = described.map(({ subscribers, ...topic }) => ({
    ...topic,
    subscribers: subscribers.map(({ subscriber }) => subscriber),
    handlers: subscribers
      .filter(({ attached }) => attached)
      .map(({ subscriber, place, options }) => ({ subscriber, place, options })),
  }));
  const [name] = given.positionals;
  if (name !== undefined) showTopic(call, topicNamed(name, topics));
  else if (isJson) writeJson(call, { topics });
  else {
    const { write, paint } = terminal.out;
    write(
      `${drawList(terminal.out, topicsByProducer(described))}\n${paint('dim', quantity(topics.length, 'topic'))}`,
    );
  }
  return EXIT.ok;
}

/** @throws Failure for an unknown component, with the nearest name. */
async function asyncApiFor(given: Given): Promise<object> {
  const [subscriber, producer] = [given.text('subscriber'), given.text('producer')];
  if (subscriber !== undefined && producer !== undefined) {
    throw misused('--subscriber and --producer were both given.', 'Ask for one document at a time.');
  }
  const { asyncApi, asyncApiOfProducer, asyncApiOfSubscriber } =
    await import('../../lib/elsewhere/catalog-description/asyncapi.ts');
  const { subscriberNames, topics } = await import('../../lib/bus/catalog/catalog.ts');
  const advice = 'npx postbud catalog lists the producers and subscribers.';
  if (subscriber !== undefined) {
    const names = subscriberNames();
    if (!names.includes(subscriber)) throw unknownName('subscriber', subscriber, names, advice);
    return asyncApiOfSubscriber(subscriber);
  }
  if (producer === undefined) return asyncApi();
  const names = [...new Set(topics().map(([, row]) => row.producer))];
  if (!names.includes(producer)) throw unknownName('producer', producer, names, advice);
  const { cloudEvent } = await import('../../lib/edge/events/route.ts');
  return asyncApiOfProducer(producer, cloudEvent);
}

/** A topic of this release: who subscribes, and the handlers in the code. Who is attached depends on the server. */
type Topic = Omit<CatalogTopic, 'subscribers'> & {
  readonly subscribers: readonly string[];
  readonly handlers: readonly Omit<CatalogTopic['subscribers'][number], 'attached' | 'invalidVariable'>[];
};

function topicNamed(name: string, topics: readonly Topic[]): Topic {
  const found = topics.find(({ topic }) => topic === name);
  if (found) return found;
  const names = topics.map(({ topic }) => topic);
  throw unknownName('topic', name, names, 'npx postbud catalog lists the topics.');
}

function showTopic(call: OfflineCall, topic: Topic): void {
  if (call.isJson) return writeJson(call, topic);
  const { write, paint, columns } = call.terminal.out;
  write(paint('bold', topic.topic));
  write(wrapTo(columns, topic.description));
  write(wrapTo(columns, `Produced by ${topic.producer}, for ${topic.subscribers.join(', ')}.`));
  write(wrapTo(columns, contractSentences(topic)));
  for (const handler of topic.handlers) write(wrapTo(columns, handlerWords(handler)));
  write(`\n${drawList(call.terminal.out, fieldList(topic))}`);
  write(`\n${paint('bold', 'Example')}\n${printableJson(topic.example, 2)}`);
}

function handlerWords(handler: Topic['handlers'][number]): string {
  const options = uncommonOptions(handler).join(', ') || 'default options';
  return `In this release ${handler.subscriber} has a handler: ${options}.`;
}
