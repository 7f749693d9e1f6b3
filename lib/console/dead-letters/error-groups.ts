import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay, replayLinkTo } from '../kit/actions.ts';
import { ago, span } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLettersPath } from '../kit/links.ts';
import { card } from '../kit/sections.ts';
import { failureTag, failureWords } from '../kit/states.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count } from '../kit/words.ts';
import type { ErrorGroup } from './read.ts';

interface Groups {
  readonly groups: readonly ErrorGroup[];
  readonly generatedAt: string;
  /** The period that the page shows, such as `24h`; null: all. */
  readonly since: string | null;
}

/** Draws dead letters by error: there are seldom more than a few, and each group can be replayed as a whole. */
export function errorGroupTable({ groups, generatedAt, since }: Groups, context: PageContext): Html {
  return card(
    table({
      name: 'Errors',
      caption: 'Dead letters grouped by error, the largest group first',
      columns: [
        { label: 'Count', tone: 'num', look: 'c', cell: (error) => count(error.count) },
        {
          label: 'Error',
          look: 'message',
          cell: (error) =>
            html`<span class="sig">${failureWords(error)}</span
              ><span class="s">${failureTag(error.kind)}</span>`,
        },
        {
          label: 'Topic and subscriber',
          cell: ({ topic, subscriber }) =>
            html`<span class="mono">${topic}</span
              ><span class="s">to ${subscriberLink(subscriber, topic)}</span>`,
        },
        { label: 'Dead-lettered', look: 'nowrap', cell: (error) => timesOf(error, generatedAt) },
        { ...ACTIONS, cell: (error) => groupActions(error, since, context) },
      ],
      rows: groups,
    }),
  );
}

function timesOf({ firstAt, lastAt, isStillFailing }: ErrorGroup, now: string): Html {
  return html`${span(firstAt, lastAt, now)}
    <span class="s">
      ${isStillFailing ? html`<span class="dead-t">still failing</span>` : `latest ${ago(lastAt, now)}`}
    </span>`;
}

function groupActions(error: ErrorGroup, since: string | null, context: PageContext): Html {
  const { topic, subscriber, group } = error;
  const filters = { topic, subscriber, group, since };
  const message = failureWords(error);
  return html`<div class="acts">
    <a class="btn sm quiet" href="${deadLettersPath(filters)}">Show<span class="vh"> ${message}</span></a>
    ${mayReplay(context.operator) && replayLinkTo(error, message, { ...filters, since: since ?? ALL_TIME }, context)}
  </div>`;
}
