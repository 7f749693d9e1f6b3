import { reconciliations } from '../../../drizzle/schema.ts';
import { reconciledAs } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import { writeCursor } from '../kit/cursor.ts';
import type { Bus } from '../kit/route.ts';
import { withEffects } from './effects.ts';
import type { WebhookPage, WebhookProvider } from './fields.ts';
import { findProviders } from './providers.ts';
import type { PagedList, Placed, WebhookQuery } from './query.ts';
import { meaningOf } from './reasons.ts';
import { findReceipt } from './receipt.ts';
import { findReceived } from './received.ts';
import { findRefused } from './refused.ts';
import { findSetAside } from './set-aside.ts';

/**
 * Lists what providers sent. A query for one id finds its receipts, and nothing else.
 *
 * @param now overrides the database's clock in tests, except for receipts.
 */
export async function readWebhooks(
  db: Database,
  endpoints: ReturnType<Bus['webhooks']>,
  query: WebhookQuery,
  now?: Date,
): Promise<WebhookPage> {
  const shown = endpoints.filter((one) => query.provider === undefined || one.provider === query.provider);
  const asked = shown.map(({ provider: name }) => name);
  const { id, limit } = query;
  const [sent, received, refused, aside, reconciled] = await Promise.all([
    findProviders(db, asked),
    id === undefined ? findReceived(db, asked, query) : findReceipt(db, asked, id),
    findRefused(db, query, now),
    id === undefined ? findSetAside(db, asked, query) : [],
    db.select().from(reconciliations),
  ]);
  const receipts = pageOf('receipts', received, limit);
  const refusals = pageOf('refusals', id === undefined ? refused.newest : [], limit);
  return {
    generatedAt: refused.generatedAt,
    filters: { provider: query.provider ?? null, id: id ?? null, limit },
    providers: shown.map((endpoint) => {
      const { provider: name } = endpoint;
      return {
        ...endpoint,
        ...sent.get(name)!,
        refusedToday: refused.byReason
          .filter((one) => one.provider === name)
          .reduce((sum, { today }) => sum + today, 0),
        reconciliation: reconciliationOf(
          endpoint.reconciliation,
          reconciled.find((one) => one.provider === reconciledAs(name)),
        ),
      };
    }),
    receipts: { items: await withEffects(db, receipts.items), nextCursor: receipts.nextCursor },
    refusals: {
      byReason: refused.byReason.map(withMeaning),
      items: refusals.items.map(withMeaning),
      nextCursor: refusals.nextCursor,
    },
    setAside: pageOf('setAside', aside, limit),
  };
}

function pageOf<Item>(list: PagedList, found: readonly Placed<Item>[], limit: number) {
  const last = found.length > limit ? found[limit - 1] : undefined;
  return {
    items: found.slice(0, limit).map(({ item }) => item),
    nextCursor: last?.place ? writeCursor({ list, ...last.place }) : null,
  };
}

function withMeaning<Refused extends { readonly reason: string }>(refused: Refused) {
  return { ...refused, meaning: meaningOf(refused.reason) };
}

function reconciliationOf(
  setting: ReturnType<Bus['webhooks']>[number]['reconciliation'],
  found: typeof reconciliations.$inferSelect | undefined,
): WebhookProvider['reconciliation'] {
  if (setting === null) return null;
  const { error = null, failedAt = null } = found ?? {};
  return {
    setting,
    checkedAt: instantOrNull(found?.succeededAt ?? null),
    nextAt: setting === 'on' ? instantOrNull(found?.nextAt ?? null) : null,
    found: found?.found ?? 0,
    foundAt: instantOrNull(found?.foundAt ?? null),
    failures: found?.failures ?? 0,
    lastError: error === null || failedAt === null ? null : { at: instantOf(failedAt), message: error },
  };
}
