import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { time } from '../kit/instants.ts';
import { deadLettersPath, HOME } from '../kit/links.ts';
import { isInstant } from '../kit/replay-request.ts';
import { select, sinceOptions, topicField } from '../kit/select.ts';
import { count, lastPeriod } from '../kit/words.ts';
import type { DeadLetterFilters, DeadLetterPage } from './fields.ts';

/** The topics and subscribers to choose from. */
export type FilterTopics = readonly { readonly topic: string; readonly subscribers: readonly string[] }[];

/** Draws the filters as a plain form, so that the address holds them and can be shared. */
export function filterForm({ filters, groups, generatedAt }: DeadLetterPage, topics: FilterTopics): Html {
  const { topic, subscriber, since, until, group, q } = filters;
  const subscribers = [...new Set(topics.flatMap((one) => one.subscribers))].toSorted();
  const subscriberNames = subscribers.map((one) => [one, one] as const);
  return html`<form class="filters bar" method="get" action="${HOME}/dead-letters">
    ${topicField({ topic, names: topics.map((one) => one.topic) })}
    ${select('Subscriber', 'subscriber', subscriber, [['', 'All subscribers'], ...subscriberNames])}
    ${select('Dead-lettered', 'since', since, sinceOptions(since))}
    <label class="f grow">
      Error, event id or delivery id
      <input
        type="search"
        name="q"
        value="${q}"
        placeholder="for example: 503 or 019a9bd2-7f3e…"
        data-search
      />
    </label>
    ${group !== null && hiddenField('group', group)} ${until !== null && hiddenField('until', until)}
    <button class="btn">Apply</button>
    ${isFiltered(filters) && html`<a class="btn quiet" href="${deadLettersPath()}">Clear</a>`}
    ${
      until !== null &&
      html`<p class="only small">
        Showing those from before ${isInstant(until) ? time(until, generatedAt) : `the ${lastPeriod(until)}`}.
        <a href="${deadLettersPath({ topic, subscriber, since, group, q })}">Show later ones too</a>
      </p>`
    }
    ${
      group !== null &&
      html`<p class="only small">
        ${
          group.includes(',')
            ? `Showing ${count(group.split(',').length)} errors.`
            : html`Showing one error:
                <span class="sig">${groups.find((one) => one.group === group)?.message ?? group}</span>`
        }
        <a href="${deadLettersPath({ topic, subscriber, since, until, q })}">Show all errors</a>
      </p>`
    }
  </form>`;
}

function isFiltered({ topic, subscriber, since, until, group, q }: DeadLetterFilters): boolean {
  return [topic, subscriber, since, until, group, q].some((filter) => filter !== null && filter !== '');
}
