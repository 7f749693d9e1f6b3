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
      columns: [['Count', 'num'], 'Error', 'Topic and subscriber', 'Dead-lettered', ACTIONS],
      rows: groups.map((group) => groupRow(group, generatedAt, since, context)),
    }),
  );
}

function groupRow(error: ErrorGroup, now: string, since: string | null, context: PageContext): Html {
  const { group, kind, topic, subscriber } = error;
  const message = failureWords(error);
  const filters = { topic, subscriber, group, since };
  return html`<tr class="r">
    <td class="c">${count(error.count)}</td>
    <td class="message"><span class="sig">${message}</span><span class="s">${failureTag(kind)}</span></td>
    <td><span class="mono">${topic}</span><span class="s">to ${subscriberLink(subscriber, topic)}</span></td>
    <td class="nowrap">
      ${span(error.firstAt, error.lastAt, now)}
      <span class="s">
        ${
          error.isStillFailing
            ? html`<span class="dead-t">still failing</span>`
            : `latest ${ago(error.lastAt, now)}`
        }
      </span>
    </td>
    <td class="end">
      <div class="acts">
        <a class="btn sm quiet" href="${deadLettersPath(filters)}">Show<span class="vh"> ${message}</span></a>
        ${mayReplay(context.operator) && replayLinkTo(error, message, { ...filters, since: since ?? ALL_TIME }, context)}
      </div>
    </td>
  </tr>`;
}
