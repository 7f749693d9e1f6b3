import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField, mayReplay, replayLinkTo } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLettersPath } from '../kit/links.ts';
import { failureWords } from '../kit/states.ts';
import { bulkCheck, bulkForm } from './bulk.ts';
import type { DeadLetterFilters, ErrorGroup } from './fields.ts';
import { errorList } from './lists.ts';

interface Groups {
  readonly groups: readonly ErrorGroup[];
  readonly generatedAt: string;
  /** The period that the page shows; null: all. */
  readonly window: Window | null;
}

type Window = Pick<DeadLetterFilters, 'since' | 'until'>;

/** Draws dead letters by error, with the replay of each group, and of those that are checked. */
export function errorGroupTable({ groups, generatedAt, window }: Groups, context: PageContext): Html {
  const isBulk = mayReplay(context.operator) && groups.length > 1;
  const list = listTable(errorList(groups, generatedAt), {
    before:
      isBulk &&
      bulkCheck(
        'group',
        ({ group }) => group,
        (error) => `${failureWords(error)}, ${error.topic} to ${error.subscriber}`,
      ),
    actions: (error) => groupActions(error, window, context),
  });
  const { since = null, until = null } = window ?? {};
  const hidden = html`${hiddenField('since', since ?? ALL_TIME)}
  ${until !== null && hiddenField('until', until)}`;
  const isReplayable = groups.some((error) => mayBeReplayed(error, context));
  return bulkForm(html`${hidden} ${list}`, { isBulk, isReplayable, one: 'error' });
}

/** Whether a replay would take dead letters of a subscription. */
export function mayBeReplayed(
  { topic, subscriber }: Pick<ErrorGroup, 'topic' | 'subscriber'>,
  { refusesReplay, handling }: PageContext,
): boolean {
  return handling(topic, subscriber) !== 'not_in_catalog' && !refusesReplay(topic, subscriber);
}

function groupActions(error: ErrorGroup, window: Window | null, context: PageContext): Html {
  const { topic, subscriber, group } = error;
  const { since = null, until = null } = window ?? {};
  const filters = { topic, subscriber, group, since, until };
  const message = failureWords(error);
  return html`<a class="btn sm quiet" href="${deadLettersPath(filters)}"
      >Show<span class="vh"> ${message}</span></a
    >
    ${mayReplay(context.operator) && replayLinkTo(error, message, { ...filters, since: since ?? ALL_TIME }, context)}`;
}
