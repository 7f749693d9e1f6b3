import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import type { Following } from '../kit/following.ts';
import { timeAndAgo } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { erasurePath, erasuresPath } from '../kit/links.ts';
import { operationPage } from '../kit/operation-pages.ts';
import type { Kind } from '../kit/operation-pages.ts';
import { count, joinNames } from '../kit/words.ts';
import type { ErasureProgress } from './read.ts';
import { leftWords, outcomeWords, stateWords } from './words.ts';

export const ERASURE: Kind = {
  one: 'erasure',
  several: 'Erasures',
  list: erasuresPath(),
  pathOf: erasurePath,
  unstoppable:
    'It can’t be stopped: what is overwritten is gone, and the person asked for the rest to go too. The cron continues it.',
};

/** Draws one erasure, how far it is, and what it leaves. */
export function erasurePage(view: ErasureProgress, context: PageContext): Html {
  const names = html`<span class="mono">${joinNames(view.subjects)}</span>`;
  return operationPage({
    kind: ERASURE,
    view,
    context,
    title: html`Erasure of ${names}`,
    lead: 'Ids, order, counts and states of events stay; their personal data does not.',
    following: followingOf(view),
    id: view.erasureId,
    facts: [
      ['Names', names],
      ['Looks for', view.exact ? 'these names alone' : 'these, and e-mail addresses found beside them'],
      ['Events found', count(view.found)],
      ['Payloads erased', count(view.events)],
      ['Deliveries', `${count(view.deliveries)} with erased attempts`],
      ['Addresses', `${count(view.notifications)} of notifications`],
      ['Other texts', `${count(view.texts)} of error groups, incidents and the like`],
      ['Left', leftWords(view).join(' ')],
      view.endedAt !== null && ['Ended', timeAndAgo(view.endedAt, view.generatedAt)],
    ],
  });
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
