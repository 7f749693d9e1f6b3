import { ago, duration, until } from '../lib/operators/page/instants.ts';
import { counted } from '../lib/operators/page/words.ts';
import type { Attempt } from '../lib/operators/dead-letters/delivery.ts';
import { deadLetter, payloadOf } from './answers.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { EXIT, misused } from './failure.ts';
import { when } from './instants.ts';
import { failureText, stateCell } from './states.ts';
import type { Paint, Pane } from './terminal.ts';
import { padTo, printableJson, widthOf, wrapTo } from './text.ts';

type View = (typeof deadLetter)['_output'];

/** Shows one delivery with all that happened to it. */
export async function showDeadLetter(call: Call, deliveryId: string): Promise<number> {
  const { given, bus, terminal, isJson } = call;
  requireDeliveryId(deliveryId);
  const path = `/platform/event-bus/dead-letters/${deliveryId}`;
  const reason = given.text('reveal');
  const { json, view } =
    reason === undefined
      ? await bus.ask({ path, answer: deadLetter })
      : await bus.ask({
          path: `${path}/reveal`,
          answer: deadLetter,
          body: { reason },
          named: { reason: '--reveal' },
          scope: 'event-bus:reveal',
        });
  if (isJson) writeJson(call, json);
  else write(view, payloadOf.parse(json).payload, terminal.out);
  if (reason !== undefined) terminal.err.write('That you looked, and your reason, is in the operators’ log.');
  return EXIT.ok;
}

/** @throws Failure for what can't be the id of a delivery. */
export function requireDeliveryId(written: string): void {
  if (/^\d{1,18}-\d{1,18}$/.test(written)) return;
  throw misused(`“${written}” is not a delivery id.`, 'Write one as the list shows it, for example 12-345');
}

function write(view: View, payload: unknown, pane: Pane): void {
  const { paint } = pane;
  const heading = (text: string) => `\n${paint('bold', text)}`;
  const what = view.state === 'dead_lettered' ? 'Dead letter' : 'Delivery';
  pane.write(paint('bold', `${what} ${view.deliveryId}`));
  pane.write(facts(view, pane));
  pane.write(heading('What happened'));
  pane.write(timeline(view, pane));
  if (view.siblings.length > 0) {
    pane.write(heading('The event’s other subscribers'));
    const width = Math.max(...view.siblings.map(({ subscriber }) => subscriber.length));
    for (const { subscriber, state } of view.siblings) {
      const { text, style } = stateCell(state);
      pane.write(`  ${padTo(width, subscriber)}  ${paint(style, text)}`);
    }
  }
  pane.write(heading(`Payload${hiddenWords(view)}`));
  pane.write(printableJson(payload, 2).replaceAll(/^/gm, '  '));
  if (view.state === 'dead_lettered') {
    pane.write(
      `\n${paint('dim', `To have it delivered again: npx postbud replay --delivery ${view.deliveryId}`)}`,
    );
  }
}

function facts(view: View, { paint, columns }: Pane): string {
  const { generatedAt: now, event } = view;
  const { text, style } = stateCell(view.state);
  const since = view.deadLetteredAt ?? view.deliveredAt;
  const sinceWords = since === null ? '' : `, ${when(since, now)} (${ago(since, now)})`;
  const next = view.nextAttemptAt === null ? '' : `, next try ${until(view.nextAttemptAt, now)}`;
  const rows: readonly (readonly [name: string, value: string | null])[] = [
    ['state', `${text}${sinceWords}${next}`],
    ['error', view.lastError && failureText(view.lastError)],
    ['topic', view.topic],
    ['subscriber', view.subscriber],
    ['about', view.subject],
    ['lane', view.orderingKey || null],
    ['event', view.eventId],
    ['recorded', `${when(view.createdAt, now)} by ${event.producer}, payload version ${event.version}`],
    ['correlation', event.correlationId],
    ['caused by', event.causationId],
    ['trace', event.traceparent],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.flatMap(([name, value]) =>
    value === null ? [] : hanging(`  ${padTo(width, name)}  `, value, columns),
  );
  return lines.join('\n').replace(text, paint(style, text));
}

/** Breaks a text into lines below each other, to the right of what stands before the first. */
function hanging(before: string, text: string, columns: number | null): string {
  const room = columns === null ? null : columns - before.length;
  return before + wrapTo(room, text).replaceAll('\n', `\n${' '.repeat(before.length)}`);
}

function timeline({ attempts, generatedAt: now }: View, { paint, columns }: Pane): string {
  const rows = attempts.map((attempt) => ({ at: when(attempt.at, now), ...happened(attempt) }));
  const timeWidth = Math.max(...rows.map(({ at }) => at.length));
  const whatWidth = Math.max(...rows.map(({ what }) => widthOf(what)));
  return rows
    .map(({ at, what, took, style, details }) => {
      const first = `  ${padTo(timeWidth, at)}  ${paint(style, padTo(whatWidth, what))}  ${took}`.trimEnd();
      const below = details === '' ? [] : [hanging(' '.repeat(timeWidth + 4), details, columns)];
      return [first, ...below].join('\n');
    })
    .join('\n');
}

interface Happened {
  readonly what: string;
  readonly style: Parameters<Paint>[0];
  readonly took: string;
  /** Why. */
  readonly details: string;
}

const ACTS = { replayed: 'replayed', hurried: 'told to try again', skipped: 'skipped' } as const;

function happened(attempt: Attempt): Happened {
  if ('by' in attempt) {
    const { outcome, by, reason } = attempt;
    return { what: `${ACTS[outcome]} by ${by}`, style: 'bold', took: '', details: reason ?? '' };
  }
  const took = duration(attempt.durationMs);
  const then = attempt.waitedMs === null ? [] : [`then waited ${duration(attempt.waitedMs)}`];
  const details = [...(attempt.error ? [failureText(attempt.error)] : []), ...then].join('; ');
  switch (attempt.outcome) {
    case 'delivered':
      return { what: `✓ attempt ${attempt.attempt} delivered`, style: 'green', took, details: '' };
    case 'waited':
      return { what: '· asked for time', style: 'dim', took, details };
    case 'failed':
      return attempt.waitedMs === null
        ? { what: `✗ attempt ${attempt.attempt} failed`, style: 'red', took, details }
        : { what: `! attempt ${attempt.attempt} failed`, style: 'yellow', took, details };
  }
}

function hiddenWords({ hidden, isValid, isRevealed }: View): string {
  if (isRevealed) return ', personal data shown';
  if (!isValid) return ', which does not fit its schema: all hidden that the schema does not name';
  return hidden.length === 0 ? '' : `, ${counted(hidden.length, 'value')} of personal data hidden`;
}
