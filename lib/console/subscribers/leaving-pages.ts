import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay, missingReplayScope, reasonField } from '../kit/actions.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { HOME, subscriberPath } from '../kit/links.ts';
import { confirmation, previewed } from '../kit/operation-pages.ts';
import { confirmField } from '../kit/preview.ts';
import { emptyCard } from '../kit/sections.ts';
import { quantity } from '../kit/words.ts';
import type { Retirement } from './leaving-views.ts';
import { standingWords } from './leaving-words.ts';

/** Draws what a retirement would delete, and the form that does it. */
export function retirePage({ subscriber, topic, topics, matched }: Retirement, context: PageContext): Html {
  const { operator, entered } = context;
  const content =
    topics.length === 0
      ? emptyCard({
          icon: CHECK_ICON,
          title: `Nothing is left of ${subscriber}`,
          text: 'There is nothing to retire.',
          action: html`<a class="btn" href="${HOME}">Overview</a>`,
        })
      : html`<form class="panel" method="post" action="${subscriberPath(subscriber)}/retire">
          ${previewed(
            `Retire ${subscriber}?`,
            'Nothing has been dismissed yet. This is what the retirement would do.',
            [],
            [
              [
                'Dismisses',
                html`<ul class="goes">
                  ${topics.map((one) => html`<li><span class="mono">${one.topic}</span>: ${standingWords(one)}</li>`)}
                </ul>`,
              ],
              ['Deletes', 'What is recorded of its deliveries on these topics. Their events stay'],
              ['Ends', 'Its pauses, backfills and outage on these topics'],
              ['Then', html`Nothing shows ${subscriber} on these topics any more; the operator log keeps it`],
            ],
          )}
          ${missingReplayScope(operator)}
          ${confirmation({
            isAllowed: mayReplay(operator),
            request: { topic, expectedCount: matched },
            fields: html`${reasonField('for example: replaced by accounting in March', undefined, entered)}
            ${confirmField(matched, 'retire', context)}`,
            button: matched === 0 ? 'Retire' : `Retire, and dismiss ${quantity(matched, 'delivery')}`,
            cancel: subscriberPath(subscriber),
            context,
          })}
        </form>`;
  return layout({ title: 'Retire', section: 'subscribers', content }, context);
}
