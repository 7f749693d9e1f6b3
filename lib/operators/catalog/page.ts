import type { CatalogField, CatalogTopic, CatalogView } from './read.ts';
import { searchWords } from '../overview/attention.ts';
import { LOCK_ICON } from '../page/icons.ts';
import { HOME, topicPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { heading, layout } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { payload } from '../dead-letters/payload.ts';
import { counted } from '../page/words.ts';

/** Every topic: who states it, who is handed it, and what an event of it carries. */
export function catalogPage(view: CatalogView, context: PageContext): Html {
  const words = context.url.searchParams.get('q') ?? '';
  const shown = view.topics.filter((topic) => searchWords(topic).includes(words.trim().toLowerCase()));
  const content = html`${heading({
      title: 'Catalog',
      lead: leadOf(view),
      actions: html`${filterForm(words)} <a class="btn" href="${HOME}/catalog/asyncapi">AsyncAPI</a>`,
    })}
    ${shown.length === 0 && html`<div class="card"><p class="none muted">No topic matches “${words}”.</p></div>`}
    <div id="topics">
      ${[...byProducer(shown)].map(([producer, topics]) => producerSection(producer, topics))}
    </div>
    <p class="muted note" data-none hidden>No topic matches.</p>`;
  return layout({ title: 'Catalog', section: 'catalog', content }, context);
}

function leadOf({ topics }: CatalogView): string {
  const fixed = topics.filter(({ listed }) => listed).length;
  return `${counted(topics.length, 'topic')}. ${fixed} marked “fixed” are the platform owner’s to the letter, the others are ours.`;
}

function filterForm(words: string): Html {
  return html`<form class="filters" method="get" action="${HOME}/catalog">
    <label
      ><span class="vh">Filter topics</span
      ><input
        type="search"
        name="q"
        value="${words}"
        placeholder="Filter by topic, producer or subscriber"
        size="36"
        data-filter="#topics"
    /></label>
    <button class="btn" data-nojs>Filter</button>
  </form>`;
}

/** In the order in which the producers come first. */
function byProducer(topics: readonly CatalogTopic[]): ReadonlyMap<string, readonly CatalogTopic[]> {
  const producers = new Map<string, CatalogTopic[]>();
  for (const topic of topics)
    producers.set(topic.producer, [...(producers.get(topic.producer) ?? []), topic]);
  return producers;
}

function producerSection(producer: string, topics: readonly CatalogTopic[]): Html {
  return html`<section class="producer" aria-labelledby="h-${producer}" data-group>
    <div class="bar">
      <h2 id="h-${producer}">${producer}</h2>
      <span class="muted small">${counted(topics.length, 'topic')}</span>
    </div>
    <div class="card">${topics.map(topicDetails)}</div>
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
        Version ${version}.
        ${orderedBy === null ? 'Delivered in the order of the whole topic.' : html`Delivered in order by <span class="mono">${orderedBy}</span>.`}
        <a href="${topicPath(topic.topic)}">Its deliveries now<span class="vh"> on ${topic.topic}</span></a>
      </p>
      <p class="subscribers">Subscribers: ${topic.subscribers.map(subscriberWords)}</p>
      ${fieldTable(topic.topic, topic.fields)}
      <h3 class="gap">Example</h3>
      <pre class="code" tabindex="0" role="region" aria-label="Example of ${topic.topic}">
${payload(topic.example)}</pre>
    </div>
  </details>`;
}

function subscriberWords({ subscriber, attached }: CatalogTopic['subscribers'][number]): Html {
  return html`<span class="subscriber"
    ><span class="mono">${subscriber}</span>${!attached && html` <span class="tag">unattached</span>`}</span
  > `;
}

function fieldTable(topic: string, fields: readonly CatalogField[]): Html {
  return html`<div class="scroll framed" tabindex="0" role="region" aria-label="Fields of ${topic}">
    <table class="narrow-table">
      <caption class="vh">
        Fields of ${topic}
      </caption>
      <thead>
        <tr>
          <th scope="col">Field</th>
          <th scope="col">Type</th>
          <th scope="col">Required</th>
          <th scope="col"><span class="vh">Personal data</span></th>
        </tr>
      </thead>
      <tbody>
        ${fields.map(fieldRow)}
      </tbody>
    </table>
  </div>`;
}

function fieldRow({ path, type, isRequired, isPersonal }: CatalogField): Html {
  return html`<tr>
    <th class="row mono" scope="row">${path}</th>
    <td>${type}</td>
    <td>${isRequired ? 'yes' : html`<span class="muted">no</span>`}</td>
    <td>${isPersonal && html`<span class="tag pii">${LOCK_ICON}personal data</span>`}</td>
  </tr>`;
}
