import type { DeadLetterFilters, DeadLetterPage } from './read.ts';
import { hiddenField } from '../page/acts.ts';
import { deadLettersPath, HOME } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { lastWords } from '../page/words.ts';

/** What may be filtered by. */
export type FilterTopics = readonly { readonly topic: string; readonly subscribers: readonly string[] }[];

const SINCE = [
  ['', 'Any time'],
  ['1h', 'Last hour'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
] as const;

/** A plain form, so that what was looked for is in the address. */
export function filterForm({ filters, groups }: DeadLetterPage, topics: FilterTopics): Html {
  const { topic, subscriber, since, group, q } = filters;
  const topicNames = topics.map((one) => [one.topic, one.topic] as const);
  const subscribers = [...new Set(topics.flatMap((one) => one.subscribers))].toSorted();
  const subscriberNames = subscribers.map((one) => [one, one] as const);
  return html`<form class="filters bar" method="get" action="${HOME}/dead-letters">
    ${select('Topic', 'topic', topic, [['', 'All topics'], ...topicNames])}
    ${select('Subscriber', 'subscriber', subscriber, [['', 'All subscribers'], ...subscriberNames])}
    ${select('Dead since', 'since', since, sinceOptions(since))}
    <label class="f grow">
      Error, event id or delivery id
      <input
        type="search"
        name="q"
        value="${q}"
        placeholder="for example 503, or 019a9bd2-7f3e…"
        data-search
      />
    </label>
    ${group !== null && hiddenField('group', group)}
    <button class="btn">Apply</button>
    ${isFiltered(filters) && html`<a class="btn quiet" href="${deadLettersPath()}">Clear</a>`}
    ${
      group !== null &&
      html`<p class="only small">
        Only one error:
        <span class="sig">${groups.find((one) => one.group === group)?.message ?? group}</span>
        <a href="${deadLettersPath({ topic, subscriber, since, q })}">Show all errors</a>
      </p>`
    }
  </form>`;
}

function isFiltered({ topic, subscriber, since, group, q }: DeadLetterFilters): boolean {
  return [topic, subscriber, since, group, q].some((filter) => filter !== null && filter !== '');
}

type Options = readonly (readonly [value: string, words: string])[];

function sinceOptions(since: string | null): Options {
  if (since === null || SINCE.some(([value]) => value === since)) return SINCE;
  return [...SINCE, [since, lastWords(since).replace('l', 'L')]];
}

function select(label: string, name: string, chosen: string | null, options: Options): Html {
  const value = chosen ?? '';
  // Someone may have written another value into the address.
  const all = options.some(([one]) => one === value) ? options : [...options, [value, value] as const];
  return html`<label class="f">
    ${label}
    <select name="${name}">
      ${all.map(([one, words]) => option(one, words, one === value))}
    </select>
  </label>`;
}

function option(value: string, words: string, isChosen: boolean): Html {
  return isChosen
    ? html`<option value="${value}" selected>${words}</option>`
    : html`<option value="${value}">${words}</option>`;
}
