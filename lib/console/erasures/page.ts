import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { followingRegion } from '../kit/following.ts';
import type { Following } from '../kit/following.ts';
import { timeAndAgo } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { erasuresPath } from '../kit/links.ts';
import { card, factList, section } from '../kit/sections.ts';
import { count, joinNames } from '../kit/words.ts';
import type { ErasureProgress } from './read.ts';
import { leftWords, outcomeWords, stateWords } from './words.ts';

const REFRESH_SECONDS = 15;

/** Draws one erasure, how far it is, and what it leaves. */
export function erasurePage(view: ErasureProgress, context: PageContext): Html {
  const following = followingOf(view);
  const content = html`<p class="back"><a href="${erasuresPath()}">← Erasures</a></p>
    ${heading({
      title: html`Erasure of <span class="mono">${joinNames(view.subjects)}</span>`,
      lead: 'Ids, order, counts and states of events stay; their personal data does not.',
      live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${followingRegion(following)} ${facts(view)}`;
  return layout(
    { title: 'Erasure', section: 'replays', refreshSeconds: REFRESH_SECONDS, following, content },
    context,
  );
}

function followingOf(view: ErasureProgress): Following {
  const { endedAt, generatedAt } = view;
  return {
    tone: endedAt === null ? 'wait' : 'ok',
    words: endedAt === null ? html`<b>${stateWords(view)}.</b>` : html`<b>${outcomeWords(view)}</b>`,
    isSettled: endedAt !== null,
    since: generatedAt,
    now: generatedAt,
    isLong: true,
  };
}

function facts(view: ErasureProgress): Html {
  const { generatedAt: now } = view;
  return section({
    id: 'request',
    title: 'Request',
    content: card(
      factList(
        [
          ['Who', view.requestedBy],
          ['When', timeAndAgo(view.requestedAt, now)],
          ['Why', view.reason],
          ['Names', html`<span class="mono">${joinNames(view.subjects)}</span>`],
          ['Looks for', view.exact ? 'these names alone' : 'these, and e-mail addresses found beside them'],
          ['Events found', count(view.found)],
          ['Payloads erased', count(view.events)],
          ['Deliveries', `${count(view.deliveries)} with erased attempts`],
          ['Addresses', `${count(view.notifications)} of notifications`],
          ['Other texts', `${count(view.texts)} of error groups, incidents and the like`],
          ['Left', leftWords(view).join(' ')],
          view.endedAt !== null && ['Ended', timeAndAgo(view.endedAt, now)],
          ['Erasure id', html`<span class="mono">${view.erasureId}</span>`],
        ],
        'roomy',
      ),
    ),
  });
}
