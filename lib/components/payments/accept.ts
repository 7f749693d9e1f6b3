import { v7 as uuidv7 } from 'uuid';

import { replay } from '../../bus/deliveries/operations/replay.ts';
import { NotActedOn } from '../../bus/deliveries/refusals.ts';
import type { Word } from '../../bus/deliveries/operations/asked.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

/** Whether an operator has accepted a webhook that is not plausible. */
export async function isAccepted(tx: Transaction, eventId: string): Promise<boolean> {
  const found = await run(tx, {
    text: `select from operator_actions where action = '${ACCEPT}' and event_id = $1::text::uuid limit 1`,
    values: [eventId],
  });
  return found.length > 0;
}

const ACCEPT = 'accept_webhook';

/**
 * Accepts a payment webhook that is not plausible, at an operator's word, and has it handled again. The operator and the
 * reason are recorded first: asked for again, it goes on from there.
 *
 * @param id of the webhook's event.
 * @throws NotActedOn `not_found` for no such webhook; `not_broken` for one that was not refused.
 */
export async function acceptWebhook(
  db: Database,
  { id, by, reason }: Word & { readonly id: string },
): Promise<void> {
  const [webhook] = await run<Found>(driverOf(db), { text: FIND, values: [id] });
  if (!webhook) throw new NotActedOn('not_found', 'No payment webhook was delivered with this event id.');
  if (!webhook.is_refused)
    throw new NotActedOn(
      'not_broken',
      'There is nothing to accept: the webhook was neither refused nor set aside.',
    );
  await run(driverOf(db), { text: RECORD, values: [uuidv7(), by, webhook.topic, reason, id] });
  await replay(db, { deliveryIds: [webhook.delivery_id], include: 'all', reason }, by);
}

interface Found {
  readonly delivery_id: string;
  readonly topic: string;
  readonly is_refused: boolean;
}

const FIND = `
  select event_id || '.' || subscriber as delivery_id, events.topic, deliveries.state = 'dead_lettered' or exists (
      select from webhooks_set_aside as aside where aside.event_id = events.id and aside.reason <> 'no_intent'
    ) as is_refused
  from events join deliveries on deliveries.event_id = events.id
  where events.id = $1::text::uuid
    and events.topic in ('webhook.cardpayments.received', 'webhook.walletpayments.received')`;

const RECORD = `
  insert into operator_actions (id, at, operator, action, topic, subscriber, reason, event_id)
  values ($1::text::uuid, clock_timestamp(), $2::text, '${ACCEPT}', $3::text, 'payments', $4::text, $5::text::uuid)`;
