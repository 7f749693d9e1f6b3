import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { payloadJson } from '../kit/payload.ts';
import { listTable } from '../kit/document.ts';
import { heading, layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { asyncApiPath, HOME, topicPath } from '../kit/links.ts';
import { card, emptyLine } from '../kit/sections.ts';
import { NO_TOPIC_MATCHES, topicFilter } from '../kit/topic-filter.ts';
import { quantity } from '../kit/words.ts';
import { searchWords } from '../overview/attention.ts';
import { contractSentences, fieldList, subscriptionList } from './lists.ts';
import type { CatalogTopic, CatalogView } from './read.ts';

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
  const { description, listed } = topic;
  return html`<details class="contract" id="${topic.topic}" data-words="${searchWords(topic)}">
    <summary>
      <span class="t mono">${topic.topic}</span>
      ${listed && html`<span class="tag">fixed</span>`}
      <span class="muted small">${description}</span>
    </summary>
    <div class="in">
      <p class="muted small">
        ${contractSentences(topic).html}
        <a href="${topicPath(topic.topic)}">Deliveries<span class="vh"> of ${topic.topic}</span></a>
        <a href="${asyncApiPath(topic.topic)}">AsyncAPI<span class="vh"> of ${topic.topic}</span></a>
      </p>
      <div class="framed options">${listTable(subscriptionList(topic))}</div>
      <div class="framed">${listTable(fieldList(topic))}</div>
      <h3 class="gap">Example</h3>
      <pre class="code" tabindex="0" role="region" aria-label="Example of ${topic.topic}">
${payloadJson(topic.example)}</pre>
    </div>
  </details>`;
}
