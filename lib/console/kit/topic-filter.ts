import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField } from './actions.ts';

interface TopicFilter {
  /** Of the page that lists the topics. */
  readonly path: string;
  readonly words: string;
  /** Parameters of the page that stay as they are. */
  readonly kept?: Readonly<Record<string, string | null>>;
}

/** Draws the search field over a list of topics, the element `#topics`. The script filters while someone types. */
export function topicFilter({ path, words, kept = {} }: TopicFilter): Html {
  return html`<form class="filters" method="get" action="${path}">
    ${Object.entries(kept).map(([name, value]) => value !== null && hiddenField(name, value))}
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

/** Says that the script's filter leaves no topic. */
export const NO_TOPIC_MATCHES = html`<p class="muted small note" data-none hidden>No topic matches.</p>`;
