import { haltWords } from '../../lib/console/dead-letters/halts.ts';
import { eventFacts } from '../../lib/console/event/facts.ts';
import type { EventDelivery, EventView } from '../../lib/console/event/view.ts';
import type { EventItem } from '../../lib/console/events/fields.ts';
import { namedItems } from '../../lib/console/events/lists.ts';
import { statePhrase } from '../../lib/console/kit/document.ts';
import { timeText } from '../../lib/console/kit/instants.ts';
import { failureText } from '../../lib/console/kit/states.ts';
import { attemptsWords, quantity } from '../../lib/console/kit/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawFacts } from '../draw.ts';
import { EXIT, Failure, misused } from '../failure.ts';
import { table } from '../table.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { times } from '../times.ts';

export const command: Command = {
  name: 'why',
  summary: 'say in one sentence why an event is not delivered, and show its deliveries',
  usage: ['why <id>'],
  notes: [
    'The id is that of an event or of a delivery, or anything else that a search finds: a correlation or webhook id, a key, or an id in a payload. If several events have it and one of them is not delivered, the answer is for that one. Otherwise they are listed with their states, and the answer is for the newest.',
    'Ends with 1 if no event has the id. --json writes the one event as an object, and several as a list.',
  ],
  options: {},
  examples: [
    ['why 019a9bd2-7f3e-7a41-8c1e-2f6b0d9e4a77', 'one event'],
    ['why 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting', 'the event of a delivery'],
    ['why pi_3QxSolvik48213', 'the events of one payment intent'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal } = call;
  atMost(1, given);
  const [id] = given.positionals;
  if (id === undefined) {
    throw misused(
      'Which event? Give its id, or another id in it.',
      'For example: npx postbud why 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting',
    );
  }
  const { items: found, isMore } = await find(call, id);
  const [newest] = found;
  if (newest === undefined) {
    throw new Failure(
      EXIT.failed,
      `No event found by '${id}'.`,
      'Ids are compared whole, with their case. Delivered events are pruned after 30 days.',
    );
  }
  const undelivered = isMore
    ? await findUndelivered(call, id)
    : found.filter(({ state }) => state !== 'delivered');
  const one = undelivered.length === 1 ? undelivered[0]! : newest;
  const isSingle = found.length === 1 || undelivered.length === 1;
  if (!isSingle && call.isJson) {
    writeJson(call, found);
    return EXIT.ok;
  }
  const { out } = terminal;
  const all = `${found.length}${isMore ? ' or more' : ''} events found by '${id}'`;
  if (!isSingle) out.write(listOf(all, found, out));
  if (found.length > 1 && !call.isJson) {
    const which = isSingle ? `${all}. The one that is not delivered` : '\nThe newest';
    out.write(`${wrapTo(out.columns, `${which} is ${one.eventId}:`)}\n`);
  }
  const { showEvent } = await import('../../lib/console/event/routes.ts');
  const { json, view } = await call.bus.ask(showEvent, { parameters: { eventId: one.eventId } });
  if (call.isJson) writeJson(call, json);
  else write(view, out);
  return EXIT.ok;
}

/** More are not listed: who has so many looks for something else. */
const MOST_LISTED = 20;

interface Found {
  /** Newest first. */
  readonly items: readonly EventItem[];
  readonly isMore: boolean;
}

async function find({ bus }: Call, q: string): Promise<Found> {
  const { listEvents } = await import('../../lib/console/events/routes.ts');
  const { view } = await bus.ask(listEvents, { query: { q, limit: MOST_LISTED }, named: { q: 'the id' } });
  const named = namedItems(view.items);
  // The id of an event is also its correlation id and the causation id of others.
  return named.length === 1
    ? { items: named, isMore: false }
    : { items: view.items, isMore: view.nextCursor !== null };
}

/** Finds the undelivered events among more than are listed. @returns two at most of each state; none if there may be more. */
async function findUndelivered({ bus }: Call, q: string): Promise<readonly EventItem[]> {
  const { listEvents } = await import('../../lib/console/events/routes.ts');
  const states = ['pending', 'failing', 'dead_lettered'] as const;
  const found = await Promise.all(
    states.map((state) => bus.ask(listEvents, { query: { q, state, limit: 2 } })),
  );
  const isWhole = found.every(({ view }) => view.items.length > 1 || view.nextCursor === null);
  return isWhole ? found.flatMap(({ view }) => view.items) : [];
}

function listOf(all: string, found: readonly EventItem[], pane: Pane): string {
  const columns = [
    { title: 'event' },
    { title: 'topic', isCut: true },
    { title: 'state' },
    { title: 'about', isFlexible: true, leftOut: 'early' },
  ] as const;
  const rows = found.map(({ eventId, topic, state, subject }) => [
    eventId,
    topic,
    statePhrase(state),
    subject ?? '',
  ]);
  return `${all}, newest first.\n\n${table(pane, columns, rows)}`;
}

function write(view: EventView, pane: Pane): void {
  const { deliveries } = view;
  pane.write(pane.paint('bold', wrapTo(pane.columns, view.verdict)));
  pane.write(`\n${drawFacts(pane, eventFacts(view))}`);
  if (deliveries.length > 0) pane.write(`\n${deliveryTable(deliveries, view.generatedAt, pane)}`);
  const next = nextStep(view);
  pane.write(`\n${pane.paint('dim', wrapTo(pane.columns, `${next}${times()}`))}`);
}

/** A line for each delivery: to whom, in which state, since when or why. */
function deliveryTable(deliveries: readonly EventDelivery[], now: string, pane: Pane): string {
  const columns = [
    { title: 'subscriber' },
    { title: 'state' },
    { title: 'delivery', isBelow: true },
    { title: '', isFlexible: true },
  ] as const;
  return table(
    pane,
    columns,
    deliveries.map((delivery) => [
      delivery.subscriber,
      statePhrase(delivery.state),
      delivery.deliveryId ?? '',
      outcomeOf(delivery, now),
    ]),
  );
}

function outcomeOf(delivery: EventDelivery, now: string): string {
  const { why, attempts, deliveredAt, deadLetteredAt, dismissedAt, lastError } = delivery;
  if (dismissedAt !== null) return `dismissed ${timeText(dismissedAt, now)}`;
  if (why !== null)
    return [
      why.text,
      delivery.state === 'failing' && `${attemptsWords(delivery.failures, delivery.maxAttempts)}.`,
      ...why.also.map(({ text }) => `Also: ${text}`),
    ]
      .filter(Boolean)
      .join(' ');
  const tries = attempts.filter((attempt) => 'attempt' in attempt && attempt.outcome !== 'waited').length;
  const at = deliveredAt ?? deadLetteredAt;
  const error = deadLetteredAt === null || lastError === null ? '' : `: ${failureText(lastError)}`;
  const halt = delivery.halts === null ? '' : `; ${haltWords(delivery.halts)}`;
  return `${at === null ? '' : `${timeText(at, now)}, `}${quantity(tries, 'attempt')}${error}${halt}`;
}

/** What an operator would ask next. */
function nextStep({ deliveries }: EventView): string {
  for (const { why, deliveryId, subscriber } of deliveries) {
    // The delivery that holds the lane: this one, or the one in front of it.
    const held =
      why?.code === 'backoff' ? deliveryId : why?.behind?.code === 'backoff' && why.behind.deliveryId;
    if (held) return `When it is fixed: npx postbud retry ${held} --wait. `;
    if (why?.behind?.code === 'halted') {
      const dead = why.behind.deliveryId;
      return `To let it go on: npx postbud replay --delivery ${dead}, or npx postbud dismiss ${dead} --reason <text>. `;
    }
    if (why?.code === 'outage') return `To probe now: npx postbud retry ${subscriber} --wait. `;
    if (why?.behind) return `The first in line: npx postbud why ${why.behind.eventId}. `;
  }
  const troubled = deliveries.find(({ state }) => state === 'dead_lettered' || state === 'failing');
  return troubled?.deliveryId ? `Its attempts: npx postbud dead-letters ${troubled.deliveryId}. ` : '';
}
