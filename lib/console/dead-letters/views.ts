import { showDeadLetter } from '../event/views.ts';
import { deliveryId } from '../kit/replay-request.ts';
import { knownIn } from '../kit/known-names.ts';
import { HOME } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { deadLettersDoc } from './doc.ts';
import { csvColumns, deadLetterFilters, deadLetterPage, deadLetterQuery } from './fields.ts';
import { readDeadLetters } from './read.ts';

const listDeadLetters = view({
  id: 'listDeadLetters',
  path: `${HOME}/dead-letters`,
  summary: 'List dead letters, newest first',
  query: deadLetterQuery,
  answer: deadLetterPage,
  csv: { words: 'Dead letters', columns: csvColumns },
  problems: ['validation_failed'],
  handle: async ({ query, bus }) => {
    const db = await knownIn(bus, query);
    return await readDeadLetters(db, query);
  },
  says: deadLettersDoc,
  command: {
    name: 'dead-letters',
    summary: 'list dead letters, or show one with its attempts',
    notes: [
      'A dead letter is a delivery that was given up. Personal data in payloads and errors is hidden: npx postbud why <deliveryId> --reveal <reason> shows it.',
    ],
    filters: deadLetterFilters,
    list: 'items',
    one: { view: showDeadLetter, argument: 'deliveryId', shape: deliveryId },
    examples: [
      ['dead-letters', 'the newest dead letters and their errors'],
      ['dead-letters --topic payment.captured --since 24h', 'those of one topic in the last 24 hours'],
      [
        'dead-letters 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting',
        'one delivery with its attempts and payload',
      ],
    ],
  },
});

export const deadLetterViews = [listDeadLetters, showDeadLetter];
