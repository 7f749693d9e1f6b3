import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { phraseOf, say } from '../kit/document.ts';
import type { Part } from '../kit/document.ts';
import type { Following } from '../kit/following.ts';
import { timeAndAgo } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { renamedPath, renamesPath, subscribersPath, topicPath } from '../kit/links.ts';
import { endPhrase, listPage, operationPage, operationTable } from '../kit/operation-pages.ts';
import type { Kind, Listed } from '../kit/operation-pages.ts';
import { emptyCard } from '../kit/sections.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { count, quantity } from '../kit/words.ts';
import { COUNTED } from './read.ts';
import type { RenameList, RenameProgress, RenameRecord } from './read.ts';

export const RENAME: Kind = {
  one: 'rename',
  several: 'Renames and retirements',
  list: renamesPath(),
  pathOf: renamedPath,
  unstoppable:
    'It can’t be stopped: half of a lane under each name would be out of order. Both names wait for its end, and the cron continues it.',
};

/** Draws which names were renamed or retired, by whom, when and why. */
export function renamesPage(view: RenameList, context: PageContext): Html {
  const { searchParams } = context.url;
  const only = ['topic', 'subscriber'].flatMap((name) => searchParams.get(name) ?? []);
  return listPage({
    kind: RENAME,
    view,
    context,
    lead: html`Names that the catalog no longer lists, whose deliveries went to another name or were
      dismissed; one entry for each topic. Newest first. The page of
      <a href="${subscribersPath()}">a subscriber</a> that has something left offers both.`,
    only,
    content:
      view.items.length === 0
        ? emptyCard({
            title: only.length > 0 ? 'No renames or retirements match' : 'No renames or retirements yet',
            text: 'Each is listed here, with its operator, its reason and what it moved or dismissed.',
          })
        : operationTable(listedRenames(view), context),
  });
}

export function listedRenames({ items, generatedAt: now }: RenameList): Listed<RenameRecord> {
  return {
    kind: RENAME,
    rows: items,
    now,
    id: ({ renameId }) => renameId,
    one: ({ action }) => (action === 'retire' ? 'retirement' : 'rename'),
    label: 'Name',
    name: ({ subscriber }) => subscriber,
    scope: ({ action, renamedTo, topic }) =>
      say`${action === 'retire' ? 'retired' : `renamed to ${renamedTo}`} on ${topic}`,
    numbers: [
      ['Moved', ({ moved }) => moved ?? '–'],
      ['Dismissed', ({ dismissed }) => dismissedText(dismissed)],
    ],
    state: ({ endedAt }) => endPhrase('ended', endedAt, now),
  };
}

function dismissedText(dismissed: number): string {
  return dismissed > COUNTED ? `${count(COUNTED)}+` : count(dismissed);
}

/** Draws one rename or retirement, and how far it is. */
export function renamedPage(view: RenameProgress, context: PageContext): Html {
  const { subscriber, topic, renamedTo, matched, moved, dismissed, endedAt, generatedAt: now } = view;
  const name = html`<span class="mono">${subscriber}</span>`;
  return operationPage({
    kind: renamedTo === null ? { ...RENAME, one: 'retirement' } : RENAME,
    view,
    context,
    title: html`${renamedTo === null ? 'Retirement' : 'Rename'} of ${name}`,
    lead:
      renamedTo === null
        ? 'What waited and what died was dismissed, and can still be replayed until its event is pruned.'
        : html`To ${subscriberLink(renamedTo, topic)}, in order and before anything newer. What was delivered
          stays under ${name}.`,
    following: followingOf(view),
    id: view.renameId,
    facts: [
      ['Topic', html`<a class="mono" href="${topicPath(topic)}">${topic}</a>`],
      [renamedTo === null ? 'Name' : 'Former name', subscriberLink(subscriber, topic)],
      renamedTo !== null && ['New name', subscriberLink(renamedTo, topic)],
      matched !== null && ['Stood under it', count(matched)],
      moved !== null && ['Moved', count(moved)],
      ['Dismissed', dismissedText(dismissed)],
      ['Left under it', count(view.left)],
      endedAt !== null && ['Ended', timeAndAgo(endedAt, now)],
    ],
  });
}

function followingOf(view: RenameProgress): Following {
  const { endedAt, left, requestedAt, generatedAt } = view;
  return {
    tone: endedAt === null ? 'wait' : left > 0 ? 'fail' : 'ok',
    words: html`<b>${phraseOf(doneWords(view)).html}</b> ${endedAt !== null && restWords(view)}`,
    isSettled: endedAt !== null,
    // A rename takes its time, and is followed for as long as it does.
    since: endedAt === null ? generatedAt : requestedAt,
    now: generatedAt,
    isLong: true,
  };
}

function doneWords({ renamedTo, matched, moved, dismissed, endedAt }: RenameProgress): Part {
  if (renamedTo === null) return `Retired: ${dismissedText(dismissed)} dismissed.`;
  if (endedAt === null) return `Under way: ${count(moved ?? 0)} of ${count(matched ?? 0)} moved.`;
  const twins = dismissed > 0 && `, and ${dismissedText(dismissed)} dismissed that ${renamedTo} had already`;
  return say`Renamed: ${quantity(moved ?? 0, 'delivery')} moved${twins}.`;
}

function restWords({ subscriber, renamedTo, left }: RenameProgress): string {
  if (left === 0) return `Nothing is left under ${subscriber}.`;
  const again = renamedTo === null ? 'retire it again' : 'rename it again';
  return `${quantity(left, 'delivery')} ${left === 1 ? 'stands' : 'stand'} under ${subscriber} now: ${again}.`;
}
