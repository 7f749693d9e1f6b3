import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { CHECK_ICON, WARNING_ICON } from '../kit/icons.ts';
import { ago, timeAndAgo, until } from '../kit/instants.ts';
import { card, section } from '../kit/sections.ts';
import { table } from '../kit/table.ts';
import { count } from '../kit/words.ts';
import type { Reconciliation, WebhookPage } from './read.ts';

/** Draws how far each provider has been asked for the webhooks that never came. */
export function reconciliationSection({ providers, generatedAt: now }: WebhookPage): Html | null {
  const askable = providers.flatMap(({ provider, reconciliation }) =>
    reconciliation === null ? [] : [{ provider, reconciliation }],
  );
  if (askable.length === 0) return null;
  return section({
    id: 'reconciliation',
    title: 'Webhooks that never came',
    hint: 'providers are asked every five minutes for events whose webhook was lost',
    content: card(
      table({
        name: 'Webhooks that never came',
        caption: 'How far each provider has been asked for webhooks that never came',
        columns: [
          { label: 'Provider', isRowHeader: true, look: 'mono', cell: ({ provider }) => provider },
          {
            label: 'Asked',
            cell: ({ provider, reconciliation }) => settingWords(provider, reconciliation, now),
          },
          {
            label: 'Last checked',
            look: 'nowrap',
            cell: ({ reconciliation }) => instantOrNever(reconciliation.checkedAt, now),
          },
          {
            label: 'Found',
            tone: 'num',
            cell: ({ reconciliation: { found } }) =>
              found === 0 ? html`<span class="muted">0</span>` : count(found),
          },
          {
            label: 'Last found',
            look: 'nowrap',
            cell: ({ reconciliation }) => instantOrNever(reconciliation.foundAt, now),
          },
          {
            label: 'Last error',
            look: 'message',
            cell: ({ reconciliation }) => lastErrorOf(reconciliation, now),
          },
        ],
        rows: askable,
      }),
    ),
  });
}

function lastErrorOf({ lastError, failures }: Reconciliation, now: string): Html {
  if (lastError === null) return html`<span class="muted">none</span>`;
  return html`<span class="${failures > 0 ? 't' : 'muted'}">${lastError.message}</span
    ><span class="s">${ago(lastError.at, now)}</span>`;
}

function instantOrNever(instant: string | null, now: string): Html {
  return instant === null ? html`<span class="muted">never</span>` : timeAndAgo(instant, now);
}

function settingWords(provider: string, { setting, failures, nextAt }: Reconciliation, now: string): Html {
  const variable = `WEBHOOK_${provider.toUpperCase()}_RECONCILE_KEY`;
  if (setting === 'off')
    return html`<span class="muted">off</span
      ><span class="s">A webhook that is lost stays lost. To ask, set <code>${variable}</code>.</span>`;
  if (setting === 'misconfigured')
    return html`<span class="state fail-t">${WARNING_ICON}misconfigured</span
      ><span class="s">Correct <code>${variable}</code> or its <code>_URL</code>.</span>`;
  if (failures === 0) return html`<span class="state ok-t">${CHECK_ICON}on</span>`;
  return html`<span class="state fail-t">${WARNING_ICON}failing</span
    ><span class="s">
      ${failures === 1 ? 'once' : `${count(failures)} times`} in a
      row${nextAt !== null && html`; asked again ${until(nextAt, now)}`}
    </span>`;
}
