import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import type { Part } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { smokePath, smokeTestPath, smokeTestsPath } from '../kit/links.ts';
import { listPage, operationTable } from '../kit/operation-pages.ts';
import type { Kind, Listed } from '../kit/operation-pages.ts';
import { emptyCard, section } from '../kit/sections.ts';
import { count } from '../kit/words.ts';
import type { SmokeTestList, SmokeTestRecord } from './list.ts';

export const SMOKE: Kind = {
  one: 'smoke test',
  several: 'Smoke tests',
  list: smokeTestsPath(),
  pathOf: smokeTestPath,
  unstoppable: 'It can’t be stopped: everything is sent. What has not arrived in ten minutes is dismissed.',
};

/** Draws who tested this deployment, when, and what arrived. */
export function smokeTestsPage(view: SmokeTestList, context: PageContext): Html {
  return listPage({
    kind: SMOKE,
    view,
    context,
    lead: 'Tests of each endpoint and each attached subscriber, kept for a month. Newest first.',
    content:
      view.items.length === 0
        ? emptyCard({
            title: 'No smoke tests yet',
            text: 'Each test is listed here, with its operator and what arrived.',
          })
        : operationTable(listedSmokeTests(view), context),
    form: section({
      id: 'new',
      title: 'New smoke test',
      hint: 'shown before anything is sent',
      content: html`<p>
        <a class="btn" href="${smokePath()}">Endpoints and subscribers…</a>
      </p>`,
    }),
  });
}

function listedSmokeTests({
  items,
  generatedAt: now,
}: SmokeTestList): Listed<SmokeTestRecord & { readonly requestedAt: string; readonly requestedBy: string }> {
  return {
    kind: SMOKE,
    rows: items.map((test) => ({ ...test, requestedAt: test.startedAt, requestedBy: test.startedBy })),
    now,
    id: ({ smokeTestId }) => smokeTestId,
    label: 'Sent to',
    name: ({ origin }) => origin ?? 'Test event only',
    isName: ({ origin }) => origin !== null,
    numbers: [
      ['Webhooks', ({ accepted, webhooks }) => `${count(accepted)} of ${count(webhooks)}`],
      ['Subscribers', ({ arrived, subscribers }) => `${count(arrived)} of ${count(subscribers)}`],
    ],
    state: stateOf,
  };
}

function stateOf({ accepted, webhooks, arrived, subscribers, endedAt }: SmokeTestRecord): Part {
  const missing = webhooks - accepted + (subscribers - arrived);
  if (missing === 0) return 'arrived';
  return `${count(missing)} ${endedAt === null ? 'missing so far' : 'did not arrive'}`;
}
