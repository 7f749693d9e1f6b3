import stringWidth from 'string-width';

import { isProbe } from '../lib/console/dead-letters/delivery.ts';
import type { Attempt, DeadLetter } from '../lib/console/dead-letters/delivery.ts';
import { deadLetterFacts } from '../lib/console/dead-letters/facts.ts';
import { statePhrase } from '../lib/console/kit/document.ts';
import { duration, timeText } from '../lib/console/kit/instants.ts';
import { failureText } from '../lib/console/kit/states.ts';
import { quantity } from '../lib/console/kit/words.ts';
import { printableJson, visible } from '../lib/platform/visible.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { requireDeliveryId } from './delivery-id.ts';
import { drawFacts } from './draw.ts';
import { EXIT } from './failure.ts';

import type { Paint, Pane } from './terminal.ts';
import { foldTo, hang, padTo, wrapTo } from './text.ts';
import { TIMES } from './times.ts';

/** Shows one delivery with all its attempts. */
export async function showDeadLetter(call: Call, deliveryId: string): Promise<number> {
  const { given, bus, terminal, isJson } = call;
  requireDeliveryId(deliveryId);
  const { reveal, showDeadLetter: show } = await import('../lib/console/dead-letters/routes.ts');
  const parameters = { deliveryId };
  const reason = given.text('reveal');
  const { json, view } =
    reason === undefined
      ? await bus.ask(show, { parameters })
      : await bus.ask(reveal, { parameters, body: { reason }, named: { reason: '--reveal' } });
  if (isJson) writeJson(call, json);
  // The payload is shown as JSON, and answers with their line breaks: both tell more than the replacements of the view.
  else {
    const { payload, attempts } = show.answer.parse(json);
    write({ ...view, payload }, attempts.map(answerOf), terminal.out);
  }
  if (reason !== undefined) terminal.err.write('The operator log has recorded your name and reason.');
  return EXIT.ok;
}

const answerOf = (attempt: Attempt) => ('error' in attempt ? (attempt.error?.answer ?? null) : null);

function write(view: DeadLetter, answers: readonly (string | null)[], pane: Pane): void {
  const { paint } = pane;
  const heading = (text: string) => `\n${paint('bold', text)}`;
  const isDead = view.state === 'dead_lettered';
  const what = isDead ? (view.dismissedAt === null ? 'Dead letter' : 'Dismissed dead letter') : 'Delivery';
  pane.write(paint('bold', `${what} ${view.deliveryId}`));
  pane.write(drawFacts(pane, deadLetterFacts(view)));
  pane.write(heading('Attempts'));
  pane.write(timeline(view, answers, pane));
  if (view.siblings.length > 0) {
    pane.write(heading('The event’s other subscribers'));
    const width = Math.max(...view.siblings.map(({ subscriber }) => subscriber.length));
    for (const { subscriber, state } of view.siblings) {
      const { text, style } = statePhrase(state);
      pane.write(`  ${padTo(width, subscriber)}  ${paint(style, text)}`);
    }
  }
  pane.write(heading(wrapTo(pane.columns, `Payload${hiddenWords(view)}`)));
  pane.write(printableJson(view.payload, 2).replaceAll(/^/gm, '  '));
  const dismissal =
    view.halts === null
      ? ''
      : `To let its lane go on without it: npx postbud dismiss ${view.deliveryId} --reason <text>. `;
  const next = isDead
    ? `To deliver it again: npx postbud replay --delivery ${view.deliveryId}. ${dismissal}`
    : '';
  pane.write(`\n${paint('dim', wrapTo(pane.columns, next + TIMES))}`);
}

function timeline(
  { attempts, generatedAt: now }: DeadLetter,
  answers: readonly (string | null)[],
  { paint, columns }: Pane,
): string {
  const rows = attempts.map((attempt, index) => ({
    at: timeText(attempt.at, now),
    ...happened(attempt, attempts[index + 1]),
  }));
  const timeWidth = Math.max(...rows.map(({ at }) => at.length));
  const whatWidth = Math.max(0, ...rows.map(({ what, took }) => (took === '' ? 0 : stringWidth(what))));
  return rows
    .map(({ at, what, took, style, details }, index) => {
      const indent = ' '.repeat(timeWidth + 4);
      const first = hang(
        `  ${padTo(timeWidth, at)}  `,
        `${paint(style, padTo(whatWidth, what))}  ${took}`.trimEnd(),
        columns,
      );
      const below = details === '' ? [] : [hang(indent, details, columns)];
      const answer = answers[index] ?? null;
      const said = answer === null ? [] : answerLines(answer, answers[index - 1], indent, columns);
      return [first, ...below, ...said].join('\n');
    })
    .join('\n');
}

/** Writes what a component elsewhere answered, behind a bar, so that it is not taken for words of ours. */
function answerLines(
  answer: string,
  before: string | null | undefined,
  indent: string,
  columns: number | null,
): readonly string[] {
  if (answer === before) return [`${indent}the same answer as before`];
  const bar = `${indent}│ `;
  const lines = visible(answer).replaceAll('\t', '  ').trimEnd().split('\n');
  const room = columns === null ? null : Math.max(LEAST_ROOM, columns - stringWidth(bar));
  return lines
    .flatMap((line) => (room === null ? [line] : foldTo(room, line).split('\n')))
    .map((line) => `${bar}${line}`.trimEnd());
}

/** An answer in a narrower column could not be read. */
const LEAST_ROOM = 20;

interface Happened {
  readonly what: string;
  readonly style: Parameters<Paint>[0];
  readonly took: string;
  /** An error or an operator's reason. */
  readonly details: string;
}

const ACTS = {
  replayed: 'replayed',
  retried_early: 'retried now',
  skipped: 'skipped',
  dismissed: 'dismissed',
  backfilled: 'backfilled',
  renamed: 'taken over from another name',
  returned: 'attempts given back',
} as const;

/** @param next the entry after it: a failure right before a replay was the last of its round. */
function happened(attempt: Attempt, next: Attempt | undefined): Happened {
  if ('by' in attempt) {
    const { outcome, by, reason } = attempt;
    return { what: `${ACTS[outcome]} by ${by}`, style: 'bold', took: '', details: reason ?? '' };
  }
  const took = duration(attempt.durationMs);
  const isLast = attempt.waitedMs === null || next?.outcome === 'replayed';
  const then = isLast ? [] : [`then waited ${duration(attempt.waitedMs!)}`];
  const details = [...(attempt.error ? [failureText(attempt.error)] : []), ...then].join('; ');
  switch (attempt.outcome) {
    case 'delivered':
      return { what: `✓ attempt ${attempt.attempt} delivered`, style: 'green', took, details: '' };
    case 'waited':
      if (isProbe(attempt)) return { what: '· probed, no answer', style: 'dim', took, details };
      return { what: '· postponed', style: 'dim', took, details };
    case 'failed':
      return isLast
        ? { what: `✗ attempt ${attempt.attempt} failed`, style: 'red', took, details }
        : { what: `! attempt ${attempt.attempt} failed`, style: 'yellow', took, details };
  }
}

function hiddenWords({ hidden, isValid, isRevealed }: DeadLetter): string {
  if (isRevealed) return ', with personal data';
  if (!isValid) return ', which does not match its schema: all unknown fields are hidden';
  return hidden.length === 0 ? '' : `, ${quantity(hidden.length, 'value')} of personal data hidden`;
}
