import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { payload } from '../dead-letters/payload.ts';
import { LOCK_ICON } from '../kit/icons.ts';
import { heading, layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { asyncApiPath, HOME, topicPath } from '../kit/links.ts';
import { card, emptyLine } from '../kit/sections.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { placeWords, uncommonOptions, waitingWords } from '../kit/subscription.ts';
import { table } from '../kit/table.ts';
import { NO_TOPIC_MATCHES, topicFilter } from '../kit/topic-filter.ts';
import { joinNames, quantity } from '../kit/words.ts';
import { searchWords } from '../overview/attention.ts';
import type { CatalogField, CatalogTopic, CatalogView } from './read.ts';

/** Draws every topic with its producer, its subscribers and the fields of its payload. */
export function catalogPage(view: CatalogView, context: PageContext): Html {
  const path = `${HOME}/catalog`;
  const words = context.url.searchParams.get('q') ?? '';
  const matching = view.topics.filter((topic) => searchWords(topic).includes(words.trim().toLowerCase()));
  const content = html`${heading({
      title: 'Catalog',
      lead: leadOf(view),
      actions: html`${topicFilter({ path, words })} <a class="btn" href="${asyncApiPath()}">AsyncAPI</a>`,
    })}
    ${matching.length === 0 && card(emptyLine(`No topic matches “${words}”.`))}
    <div id="topics">
      ${[...byProducer(matching)].map(([producer, topics]) => producerSection(producer, topics))}
    </div>
    ${NO_TOPIC_MATCHES}`;
  return layout({ title: 'Catalog', section: 'catalog', content }, context);
}

function leadOf({ topics }: CatalogView): string {
  const fixed = topics.filter(({ listed }) => listed).length;
  return `${quantity(topics.length, 'topic')}. ${fixed} “fixed” topics are defined by the platform owner; we define the rest.`;
}

/** Groups the topics, in the order of each producer's first topic. */
function byProducer(topics: readonly CatalogTopic[]): ReadonlyMap<string, readonly CatalogTopic[]> {
  const producers = new Map<string, CatalogTopic[]>();
  for (const topic of topics)
    producers.set(topic.producer, [...(producers.get(topic.producer) ?? []), topic]);
  return producers;
}

function producerSection(producer: string, topics: readonly CatalogTopic[]): Html {
  return html`<section aria-labelledby="h-${producer}" data-group>
    <div class="bar">
      <h2 id="h-${producer}">${producer}</h2>
      <span class="muted small">${quantity(topics.length, 'topic')}</span>
    </div>
    ${card(topics.map(topicDetails))}
  </section>`;
}

function topicDetails(topic: CatalogTopic): Html {
  const { description, listed, version, orderedBy } = topic;
  return html`<details class="contract" id="${topic.topic}" data-words="${searchWords(topic)}">
    <summary>
      <span class="t mono">${topic.topic}</span>
      ${listed && html`<span class="tag">fixed</span>`}
      <span class="muted small">${description}</span>
    </summary>
    <div class="in">
      <p class="muted small">
        Version ${version}. Delivered in order
        ${orderedBy === null ? 'over the whole topic' : html`per <span class="mono">${orderedBy}</span>`}.
        ${topic.person.length > 0 && html`Names a person by <span class="mono">${joinNames(topic.person)}</span>.`}
        <a href="${topicPath(topic.topic)}">Deliveries<span class="vh"> of ${topic.topic}</span></a>
        <a href="${asyncApiPath(topic.topic)}">AsyncAPI<span class="vh"> of ${topic.topic}</span></a>
      </p>
      ${subscriberTable(topic)} ${fieldTable(topic.topic, topic.fields)}
      <h3 class="gap">Example</h3>
      <pre class="code" tabindex="0" role="region" aria-label="Example of ${topic.topic}">
${payload(topic.example)}</pre>
    </div>
  </details>`;
}

function subscriberTable({ topic, subscribers }: CatalogTopic): Html {
  return html`<div class="framed options">
    ${table({
      name: `Subscribers of ${topic}`,
      caption: `Subscribers of ${topic}: where each runs, and the options that differ from the defaults`,
      columns: [
        { label: 'Subscriber', isRowHeader: true, cell: ({ subscriber }) => subscriberLink(subscriber) },
        {
          label: 'Runs',
          cell: ({ place }) =>
            place === 'unattached' ? html`<span class="tag">not attached</span>` : placeWords(place),
        },
        { label: 'Options', cell: optionWords },
      ],
      rows: subscribers,
      rowLook: '',
    })}
  </div>`;
}

function optionWords(one: CatalogTopic['subscribers'][number]): Child {
  const options = uncommonOptions(one).join(', ');
  return (
    options || html`<span class="muted">${one.place === 'unattached' ? waitingWords(one) : 'defaults'}</span>`
  );
}

function fieldTable(topic: string, fields: readonly CatalogField[]): Html {
  return html`<div class="framed">
    ${table({
      name: `Fields of ${topic}`,
      caption: `Fields of ${topic}`,
      columns: [
        { label: 'Field', isRowHeader: true, look: 'mono', cell: ({ path }) => path },
        { label: 'Type', cell: ({ type }) => type },
        {
          label: 'Required',
          cell: ({ isRequired }) => (isRequired ? 'yes' : html`<span class="muted">no</span>`),
        },
        {
          heading: html`<span class="vh">Personal data</span>`,
          cell: ({ isPersonal }) =>
            isPersonal && html`<span class="tag pii">${LOCK_ICON}personal data</span>`,
        },
      ],
      rows: fields,
      rowLook: '',
    })}
  </div>`;
}
