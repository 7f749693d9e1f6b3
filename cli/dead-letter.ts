import stringWidth from 'string-width';

import type { DeadLetter } from '../lib/console/dead-letters/delivery.ts';
import { deadLetterFacts } from '../lib/console/dead-letters/facts.ts';
import { answersOf, historyOf, SAME_ANSWER } from '../lib/console/dead-letters/history.ts';
import type { Answer, Moment } from '../lib/console/dead-letters/history.ts';
import { MARKS, phraseOf, statePhrase } from '../lib/console/kit/document.ts';
import { duration, timeText } from '../lib/console/kit/instants.ts';
import { quantity } from '../lib/console/kit/words.ts';
import { printableJson } from '../lib/platform/visible.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { requireDeliveryId } from './delivery-id.ts';
import { drawFacts } from './draw.ts';
import { EXIT } from './failure.ts';
import type { Pane } from './terminal.ts';
import { foldTo, hang, padTo, wrapTo } from './text.ts';
import { times } from './times.ts';

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
    write({ ...view, payload }, historyOf(view.attempts, { answers: answersOf(attempts) }), terminal.out);
  }
  if (reason !== undefined) terminal.err.write('The operator log has recorded your name and reason.');
  return EXIT.ok;
}

function write(view: DeadLetter, history: readonly Moment[], pane: Pane): void {
  const { paint } = pane;
  const heading = (text: string) => `\n${paint('bold', text)}`;
  const isDead = view.state === 'dead_lettered';
  const what = isDead ? (view.dismissedAt === null ? 'Dead letter' : 'Dismissed dead letter') : 'Delivery';
  pane.write(paint('bold', wrapTo(pane.columns, `${what} ${view.deliveryId}`)));
  pane.write(drawFacts(pane, deadLetterFacts(view)));
  pane.write(heading('Attempts'));
  pane.write(timeline(history, view.generatedAt, pane));
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
  pane.write(`\n${paint('dim', wrapTo(pane.columns, next + times()))}`);
}

function timeline(history: readonly Moment[], now: string, { paint, columns }: Pane): string {
  const rows = history.map(({ at, state, what, ...moment }) => {
    const [mark, style] = state === null ? (['', 'bold'] as const) : MARKS[state];
    return { ...moment, style, at: timeText(at, now), what: `${mark} ${phraseOf(what).text}`.trimStart() };
  });
  const timeWidth = Math.max(0, ...rows.map(({ at }) => at.length));
  const whatWidth = Math.max(
    0,
    ...rows.map(({ what, tookMs }) => (tookMs === undefined ? 0 : stringWidth(what))),
  );
  const indent = ' '.repeat(timeWidth + 4);
  return rows
    .flatMap(({ at, what, style, tookMs, notes, answer }) => {
      const took = tookMs === undefined ? '' : duration(tookMs);
      const details = notes.flatMap((note) => phraseOf(note).text || []).join('; ');
      return [
        hang(
          `  ${padTo(timeWidth, at)}  `,
          `${paint(style, padTo(whatWidth, what))}  ${took}`.trimEnd(),
          columns,
        ),
        ...(details === '' ? [] : [hang(indent, details, columns)]),
        ...(answer ? answerLines(answer, indent, columns) : []),
      ];
    })
    .join('\n');
}

/** Writes what a component elsewhere answered, behind a bar, so that it is not taken for words of ours. */
function answerLines(
  { text, isRepeated }: Answer,
  indent: string,
  columns: number | null,
): readonly string[] {
  if (isRepeated) return [indent + SAME_ANSWER];
  const bar = `${indent}│ `;
  const lines = text.replaceAll('\t', '  ').trimEnd().split('\n');
  const room = columns === null ? null : Math.max(LEAST_ROOM, columns - stringWidth(bar));
  return lines
    .flatMap((line) => (room === null ? [line] : foldTo(room, line).split('\n')))
    .map((line) => `${bar}${line}`.trimEnd());
}

/** An answer in a narrower column could not be read. */
const LEAST_ROOM = 20;

function hiddenWords({ hidden, isValid, isRevealed }: DeadLetter): string {
  if (isRevealed) return ', with personal data';
  if (!isValid) return ', which does not match its schema: all unknown fields are hidden';
  return hidden.length === 0 ? '' : `, ${quantity(hidden.length, 'value')} of personal data hidden`;
}
