import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay, missingReplayScope, reasonField } from '../kit/actions.ts';
import { earlierPhrase } from '../kit/earlier-words.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { span } from '../kit/instants.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLettersPath, HOME } from '../kit/links.ts';
import { confirmation, previewed, topicCounts } from '../kit/operation-pages.ts';
import { confirmField } from '../kit/preview.ts';
import { emptyCard } from '../kit/sections.ts';
import { count, groupWords, quantity } from '../kit/words.ts';
import type { DismissPreview } from './preview.ts';
import { haltingWarning, untouchedWords } from './words.ts';

/** Draws what a dismissal would do, and the form that does it. */
export function dismissPage(view: DismissPreview, context: PageContext): Html {
  const content = view.matched === 0 ? nothingToDismiss(view) : preview(view, context);
  return layout({ title: 'Dismiss', section: 'dead-letters', content }, context);
}

function preview(view: DismissPreview, context: PageContext): Html {
  const { operator, entered } = context;
  const { matched, request, subscriptions, generatedAt: now } = view;
  const { q, group } = request;
  const what = quantity(matched, 'dead letter');
  const isAllowed = mayReplay(operator);
  const first = subscriptions.map(({ firstAt }) => firstAt).toSorted()[0]!;
  const last = subscriptions
    .map(({ lastAt }) => lastAt)
    .toSorted()
    .at(-1)!;
  return html`<form class="panel" method="post" action="${HOME}/dismiss">
    ${previewed(
      `Dismiss ${what}?`,
      'Nothing has been dismissed yet. This is what the dismissal would do.',
      [haltingWarning(view)],
      [
        [
          'Dismissed',
          topicCounts(
            subscriptions,
            ({ skipped }) =>
              skipped > 0 && html` <span class="muted small">(${count(skipped)} skipped)</span>`,
          ),
        ],
        q !== undefined && ['Error contains', html`<span class="mono">${q}</span>`],
        group !== undefined && ['Only', groupWords(group)],
        ['Dead-lettered', span(first, last, now)],
        ['Not touched', untouchedWords(view)],
        ['How', 'They leave all counts, and can still be replayed until their events are pruned'],
      ],
    )}
    ${missingReplayScope(operator)}
    ${confirmation({
      isAllowed,
      request,
      fields: html`${reasonField('for example: booked by hand', undefined, entered)}
      ${confirmField(matched, 'dismiss', context)}`,
      button: `Dismiss ${what}`,
      cancel: cancelPath(view),
      context,
    })}
  </form>`;
}

function nothingToDismiss(view: DismissPreview): Html {
  const { earlier, generatedAt } = view;
  return emptyCard({
    icon: CHECK_ICON,
    title: 'Nothing to dismiss',
    text: html`No dead letter matches any more.
    ${earlier !== null && earlierPhrase(earlier, generatedAt).html}`,
    action: html`<a class="btn" href="${cancelPath(view)}">Dead letters</a>`,
  });
}

function cancelPath({ request: { topic, subscriber, group, since, q } }: DismissPreview): string {
  return deadLettersPath({ topic, subscriber, group, q, since: since === ALL_TIME ? null : since });
}
