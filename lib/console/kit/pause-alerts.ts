import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { actionForm, mayReplay } from './actions.ts';
import { PAUSE_ICON } from './icons.ts';
import type { PageContext } from './layout.ts';
import { pauseSentence } from './pauses.ts';
import { alert } from './sections.ts';

/**
 * Says on a page that what it is about is paused, with the button that ends it.
 *
 * @param of a subscriber on one topic, or on all.
 */
export function pauseAlerts(
  of: { readonly subscriber: string; readonly topic: string | null },
  now: string,
  context: PageContext,
): Html {
  const found = (context.badges?.pauses ?? []).filter(
    ({ subscriber, topic }) =>
      subscriber === of.subscriber && (topic === null || of.topic === null || topic === of.topic),
  );
  return html`${found.map((one) =>
    alert(
      'fail',
      PAUSE_ICON,
      pauseSentence(one, now, context.names).html,
      mayReplay(context.operator) &&
        actionForm(
          'resume',
          { subscriber: one.subscriber },
          { of: `${one.subscriber} for ${one.topic ?? 'all its topics'}`, hidden: { topic: one.topic } },
          context,
        ),
    ),
  )}`;
}
