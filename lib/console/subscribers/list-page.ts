import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { actionForm, mayReplay, missingReplayScope } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { card } from '../kit/sections.ts';
import { numbers, quantity } from '../kit/words.ts';
import { STATE_WORDS, standingList, stateWord } from './standing-list.ts';
import type { SubscriberStanding, SubscriberStandings } from './standing.ts';

const REFRESH_SECONDS = 15;

/** Draws all subscribers: where each runs, how it is, what waits, and what ends what holds it. */
export function subscribersPage(view: SubscriberStandings, context: PageContext): Html {
  const { operator, url } = context;
  const content = html`${heading({
    title: 'Subscribers',
    lead: leadOf(view),
    live: liveness(view.generatedAt, REFRESH_SECONDS, url),
  })}
  ${missingReplayScope(operator)}
  ${card(
    listTable(standingList(view, context.names), {
      ...(mayReplay(operator) && { actions: (one: SubscriberStanding) => actionsOf(one, context) }),
    }),
  )}`;
  return layout(
    { title: 'Subscribers', section: 'subscribers', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function leadOf({ items }: SubscriberStandings): string {
  const states = STATE_WORDS.map(
    (word) =>
      [
        items.filter((one) => stateWord(one) === word).length,
        word === 'outage' ? 'in an outage' : word,
      ] as const,
  );
  return `${quantity(items.length, 'component')} that receive events: ${numbers(states).join(', ')}.`;
}

function actionsOf({ subscriber, pauses, outage }: SubscriberStanding, context: PageContext): Html {
  return html`${pauses.map(({ topic }) =>
    actionForm(
      'resume',
      { subscriber },
      { of: `${subscriber} for ${topic ?? 'all its topics'}`, hidden: { topic } },
      context,
    ),
  )}
  ${outage && actionForm('probe', { subscriber }, { of: subscriber }, context)}`;
}
