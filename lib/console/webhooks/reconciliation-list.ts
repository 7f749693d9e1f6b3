import { webhookVariable } from '../../platform/config.ts';
import { html } from '../../platform/markup.ts';
import { inConsole, say } from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import { ago, until } from '../kit/instants.ts';
import { count } from '../kit/words.ts';
import type { Reconciliation, WebhookPage } from './fields.ts';
import { agoOr, countOrZero, fine, muted, troubled } from './words.ts';

interface Asked {
  readonly provider: string;
  readonly reconciliation: Reconciliation;
}

/** How far each provider has been asked for the webhooks that never came. */
export function reconciliationList({ providers, generatedAt: now }: WebhookPage): List<Asked> {
  return {
    name: 'Webhooks that never came',
    caption: 'How far each provider has been asked for webhooks that never came',
    columns: [
      { label: 'Provider', isRowHeader: true, look: 'mono', cell: ({ provider }) => provider },
      { label: 'Asked', cell: (asked) => settingPhrase(asked, now) },
      {
        label: 'Last checked',
        look: 'nowrap',
        cell: ({ reconciliation }) => agoOr('never', reconciliation.checkedAt, now),
      },
      { label: 'Found', tone: 'num', cell: ({ reconciliation }) => countOrZero(reconciliation.found) },
      {
        label: 'Last found',
        look: 'nowrap',
        only: 'console',
        cell: ({ reconciliation }) => agoOr('never', reconciliation.foundAt, now),
      },
      {
        label: 'Last error',
        look: 'message',
        terminal: { isFlexible: true, leftOut: 'early' },
        cell: ({ reconciliation }) => errorPhrase(reconciliation, now),
      },
    ],
    rows: providers.flatMap(({ provider, reconciliation }) =>
      reconciliation === null ? [] : [{ provider, reconciliation }],
    ),
  };
}

function errorPhrase({ lastError, failures }: Reconciliation, now: string): Phrase {
  if (lastError === null) return { ...muted('none'), text: '' };
  return {
    html: html`<span class="${failures > 0 ? 't' : 'muted'}">${lastError.message}</span
      ><span class="s">${ago(lastError.at, now)}</span>`,
    text: `${lastError.message} (${ago(lastError.at, now)})`,
  };
}

/** Whether it is asked, and in a browser what follows. */
function settingPhrase({ provider, reconciliation }: Asked, now: string): Phrase {
  const { setting, failures, nextAt } = reconciliation;
  const variable = webhookVariable(provider, 'RECONCILE_KEY');
  if (setting === 'off')
    return say`${muted('off')}${inConsole(
      html`<span class="s">A webhook that is lost stays lost. To ask, set <code>${variable}</code>.</span>`,
    )}`;
  if (setting === 'misconfigured')
    return troubled(setting, html`Correct <code>${variable}</code> or its <code>_URL</code>.`);
  if (failures === 0) return fine('on');
  return troubled(
    'failing',
    html`${failures === 1 ? 'once' : `${count(failures)} times`} in a
    row${nextAt !== null && html`; asked again ${until(nextAt, now)}`}`,
  );
}
