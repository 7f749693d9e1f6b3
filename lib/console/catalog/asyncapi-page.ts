import { topics } from '../../bus/catalog/catalog.ts';
import { schemaNames } from '../../elsewhere/catalog-description/asyncapi.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { COPY_ICON } from '../kit/icons.ts';
import { heading, layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { asyncApiPath, withParameters } from '../kit/links.ts';
import { card, emptyLine, section } from '../kit/sections.ts';
import { NO_TOPIC_MATCHES, topicFilter } from '../kit/topic-filter.ts';
import { quantity } from '../kit/words.ts';

interface AsyncApi {
  readonly channels: Readonly<Record<string, unknown>>;
  readonly operations: Readonly<Record<string, unknown>>;
  readonly components: {
    readonly messages: Readonly<Record<string, unknown>>;
    readonly schemas: Readonly<Record<string, unknown>>;
  };
}

/**
 * Draws an index of the AsyncAPI document, and the part of it about one topic. The whole has 20,000 lines: it is for
 * tools, which download it.
 */
export function asyncApiPage(document: AsyncApi, context: PageContext): Html {
  const { channels, operations } = document;
  const { searchParams } = context.url;
  const topic = searchParams.get('topic');
  const content = html`${heading({
    title: 'AsyncAPI',
    lead: `All topics as AsyncAPI 3.0: ${quantity(Object.keys(channels).length, 'channel')}, ${quantity(Object.keys(operations).length, 'operation')}. Select a topic to read its part, or download the document for your tools.`,
    actions: html`${topicFilter({ path: asyncApiPath(), words: searchParams.get('q') ?? '' })}
      <a class="btn" href="${asyncApiPath()}.json" download="asyncapi.json">Download</a>`,
  })}
  ${topic === null ? shared(document) : excerpt(document, topic, context)}
  ${section({ id: 'index', title: 'Topics', hint: 'by producer', content: card(index(searchParams)) })}
  ${NO_TOPIC_MATCHES}`;
  return layout({ title: 'AsyncAPI', section: 'catalog', content }, context);
}

function excerpt(document: AsyncApi, topic: string, { url }: PageContext): Html {
  const part = partOf(document, topic);
  return section({
    id: 'excerpt',
    title: html`<span class="mono">${topic}</span>`,
    hint: html`<a href="${withParameters(url, { topic: null })}">What all topics share</a>`,
    content: part === null ? card(emptyLine('The catalog has no such topic.')) : code(part),
  });
}

function shared(document: AsyncApi): Html {
  const { channels: _, operations: __, components, ...rest } = document;
  const { messages: ___, schemas, ...others } = components;
  const { CloudEvent, DeliveryHeaders } = schemas;
  return section({
    id: 'excerpt',
    title: 'What all topics share',
    hint: 'servers, security, headers and the envelope of an event',
    content: card(
      html`<details class="contract">
        <summary>Show</summary>
        <div class="in">
          ${code({ ...rest, components: { ...others, schemas: { CloudEvent, DeliveryHeaders } } })}
        </div>
      </details>`,
    ),
  });
}

function code(part: object): Html {
  return html`<div class="hrow">
      <button class="btn sm quiet" type="button" data-js data-copy="#asyncapi">
        ${COPY_ICON}<span>Copy</span>
      </button>
    </div>
    <pre class="code" id="asyncapi" tabindex="0" role="region" aria-label="AsyncAPI, in part">
${JSON.stringify(part, null, 2)}</pre>`;
}

/** @returns the entries of the document that are about the topic; null if there are none. */
function partOf({ channels, operations, components }: AsyncApi, topic: string): object | null {
  if (!Object.hasOwn(channels, topic)) return null;
  const isAbout = (name: string) => name.endsWith(`.sends.${topic}`) || name.endsWith(`.receives.${topic}`);
  const names = schemaNames(topic);
  const schemas = Object.fromEntries(
    [names.event, names.payload].map((name) => [name, components.schemas[name]]),
  );
  return {
    channels: { [topic]: channels[topic] },
    operations: Object.fromEntries(Object.entries(operations).filter(([name]) => isAbout(name))),
    components: { messages: { [topic]: components.messages[topic] }, schemas },
  };
}

/** Lists the topics of each producer as links to their parts. */
function index(query: URLSearchParams): Html {
  const wanted = (query.get('q') ?? '').trim().toLowerCase();
  const listed = topics()
    .map(([topic, { producer, subscribers }]) => ({
      topic,
      producer,
      words: [topic, producer, ...subscribers].join(' '),
    }))
    .filter(({ words }) => words.includes(wanted));
  const producers = [...new Set(listed.map(({ producer }) => producer))];
  return html`<dl id="topics" class="index">
    ${listed.length === 0 && emptyLine(`No topic matches “${wanted}”.`)}
    ${producers.map(
      (producer) =>
        html`<div data-group>
          <dt>${producer}</dt>
          ${listed.filter((one) => one.producer === producer).map((one) => entry(one, query.get('topic')))}
        </div>`,
    )}
  </dl>`;
}

function entry(
  { topic, words }: { readonly topic: string; readonly words: string },
  shown: string | null,
): Html {
  return html`<dd data-words="${words}">
    <a class="mono" href="${asyncApiPath(topic)}" ${topic === shown && html`aria-current="true"`}>${topic}</a>
  </dd>`;
}
