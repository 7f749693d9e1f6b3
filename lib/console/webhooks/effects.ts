import { inArray } from 'drizzle-orm';
import pLimit from 'p-limit';

import { webhooksSetAside } from '../../../drizzle/schema.ts';
import { findEvents } from '../../components/identifiers/find-events.ts';
import { isStating } from '../../components/payments/provider-statements.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { FoundReceipt, WebhookReceipt } from './fields.ts';

/**
 * Says what became of webhooks: of each that was delivered, the events that it caused, or why there are none.
 *
 * Effects are found in the index of identifiers, by the id of their cause; the newest events, which are not in the index yet,
 * are looked at one by one.
 */
export async function withEffects(
  db: Database,
  receipts: readonly FoundReceipt[],
): Promise<WebhookReceipt[]> {
  const ids = receipts.flatMap(({ eventId, state }) =>
    eventId !== null && state === 'delivered' ? eventId : [],
  );
  const [effects, aside] =
    ids.length === 0 ? [[], []] : await Promise.all([effectsOf(db, ids), asideOf(db, ids)]);
  return receipts.map((receipt) => {
    const emitted = effects
      .filter((effect) => effect.causedBy === receipt.eventId)
      .map(({ eventId, topic }) => ({ eventId, topic }));
    const waits = aside.find(({ eventId }) => eventId === receipt.eventId);
    return {
      ...receipt,
      became: becameOf(receipt, emitted.length, waits !== undefined),
      why: waits?.detail ?? null,
      emitted,
    };
  });
}

function becameOf(
  { state, provider, eventType }: FoundReceipt,
  emitted: number,
  isAside: boolean,
): WebhookReceipt['became'] {
  if (state === null) return 'no_longer_kept';
  if (state !== 'delivered') return state;
  if (isAside) return 'set_aside';
  if (emitted > 0) return 'acted_on';
  return isStating(provider, eventType) ? 'nothing_new' : 'ignored';
}

interface Effect {
  readonly eventId: string;
  readonly topic: string;
  readonly causedBy: string;
}

async function effectsOf(db: Database, ids: readonly string[]): Promise<readonly Effect[]> {
  const limit = pLimit(LOOKUPS_AT_ONCE);
  const indexed = await Promise.all(
    ids.map((id) => limit(() => findEvents(db, id, { below: Number.MAX_SAFE_INTEGER, limit: MOST_OF_ONE }))),
  );
  const found = indexed.flat().flatMap(({ eventId }) => eventId ?? []);
  return await run<Effect>(driverOf(db), {
    text: EFFECTS,
    values: [`{${ids.join(',')}}`, `{${found.join(',')}}`, NEWEST],
  });
}

const LOOKUPS_AT_ONCE = 8;
const MOST_OF_ONE = 50;

/** More than the index leaves out while the cron runs. */
const NEWEST = 4096;

const EFFECTS = `
  with found as (
    select id, topic, causation_id, seq from (
      select id, topic, causation_id, seq from events order by id desc limit $3::int
    ) as newest
    union
    select id, topic, causation_id, seq from events where id = any ($2::text::uuid[])
  )
  select id::text as "eventId", topic, lower(causation_id) as "causedBy" from found
  where lower(causation_id) = any ($1::text::text[]) order by seq`;

async function asideOf(db: Database, ids: readonly string[]) {
  const { eventId, reason, detail } = webhooksSetAside;
  const rows = await db
    .select({ eventId, reason, detail })
    .from(webhooksSetAside)
    .where(inArray(eventId, [...ids]));
  return rows.map((row) => ({ ...row, detail: row.detail ?? 'its payment intent is not recorded' }));
}
