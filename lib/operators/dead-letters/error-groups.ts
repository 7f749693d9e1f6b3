import type { ErrorGroup } from './read.ts';
import { mayReplay, replayLink } from '../page/acts.ts';
import { ago, span } from '../page/instants.ts';
import { deadLettersPath, EVER } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import type { PageContext } from '../page/layout.ts';
import { failureTag, failureWords } from '../page/states.ts';
import { count } from '../page/words.ts';

interface Groups {
  readonly groups: readonly ErrorGroup[];
  readonly generatedAt: string;
  /** How far back the page looks; null: to the first of them. */
  readonly since: string | null;
}

/** Dead letters by what they failed with: seldom more than a few errors, each replayed as one. */
export function errorGroupTable({ groups, generatedAt, since }: Groups, context: PageContext): Html {
  return html`<div class="card">
    <div class="scroll" tabindex="0" role="region" aria-label="Errors">
      <table class="wide-table">
        <caption class="vh">
          Dead letters grouped by error, the largest group first
        </caption>
        <thead>
          <tr>
            <th class="num" scope="col">Count</th>
            <th scope="col">Error</th>
            <th scope="col">Topic and subscriber</th>
            <th scope="col">Dead-lettered</th>
            <th class="last" scope="col"><span class="vh">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          ${groups.map((group) => groupRow(group, generatedAt, since, context))}
        </tbody>
      </table>
    </div>
  </div>`;
}

function groupRow(error: ErrorGroup, now: string, since: string | null, { operator }: PageContext): Html {
  const { group, kind, topic, subscriber } = error;
  const message = failureWords(error);
  const only = { topic, subscriber, group, since };
  return html`<tr class="r">
    <td class="c">${count(error.count)}</td>
    <td class="message"><span class="sig">${message}</span><span class="s">${failureTag(kind)}</span></td>
    <td><span class="mono">${topic}</span><span class="s">to ${subscriber}</span></td>
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
    <td class="last">
      <div class="acts">
        <a class="btn sm quiet" href="${deadLettersPath(only)}">Show<span class="vh"> ${message}</span></a>
        ${mayReplay(operator) && replayLink(message, { ...only, since: since ?? EVER })}
      </div>
    </td>
  </tr>`;
}
