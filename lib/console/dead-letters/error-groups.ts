import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay, replayLinkTo } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLettersPath } from '../kit/links.ts';
import { card } from '../kit/sections.ts';
import { failureWords } from '../kit/states.ts';
import type { ErrorGroup } from './fields.ts';
import { errorList } from './lists.ts';

interface Groups {
  readonly groups: readonly ErrorGroup[];
  readonly generatedAt: string;
  /** The period that the page shows, such as `24h`; null: all. */
  readonly since: string | null;
}

/** Draws dead letters by error, with the replay of each group. */
export function errorGroupTable({ groups, generatedAt, since }: Groups, context: PageContext): Html {
  return card(
    listTable(errorList(groups, generatedAt), { actions: (error) => groupActions(error, since, context) }),
  );
}

function groupActions(error: ErrorGroup, since: string | null, context: PageContext): Html {
  const { topic, subscriber, group } = error;
  const filters = { topic, subscriber, group, since };
  const message = failureWords(error);
  return html`<a class="btn sm quiet" href="${deadLettersPath(filters)}"
      >Show<span class="vh"> ${message}</span></a
    >
    ${mayReplay(context.operator) && replayLinkTo(error, message, { ...filters, since: since ?? ALL_TIME }, context)}`;
}
