import type { DismissPreview } from '../lib/console/dismissals/preview.ts';
import { haltingWarning, untouchedWords } from '../lib/console/dismissals/words.ts';
import { earlierPhrase } from '../lib/console/kit/earlier-words.ts';
import { ago } from '../lib/console/kit/instants.ts';
import { ALL_TIME } from '../lib/console/kit/links.ts';
import { hasFilter } from '../lib/console/kit/filter.ts';
import { count, quantity } from '../lib/console/kit/words.ts';
import { atMost } from './command.ts';
import type { Call } from './command.ts';
import { requireDeliveryId } from './delivery-id.ts';
import { misused } from './failure.ts';
import { carryOut, confirmNumber, lostWords, titleOf, writeWarnings } from './operation.ts';
import { writeOutcome } from './outcome.ts';
import { requireReason } from './reason.ts';
import { dismissedBy, inSteps } from './steps.ts';
import { table } from './table.ts';
import type { Pane } from './terminal.ts';
import { wrapTo } from './text.ts';

/** The options that select dead letters, and those of a preview. */
export const MATCHING_OPTIONS = {
  topic: { value: '<topic>', help: 'all dead letters of this topic' },
  subscriber: { value: '<name>', help: 'only this subscriber' },
  group: {
    value: '<group>',
    isList: true,
    help: 'only one group of equal errors, by its id in dead-letters --json; can be repeated',
  },
  search: { value: '<words>', help: 'only errors that contain these words' },
  since: { value: '<24h>', help: 'dead-lettered within this time, such as 90m, 24h or 7d; by default all' },
  until: {
    value: '<1h>',
    help: 'dead-lettered before this time ago, or before an instant such as 2026-11-22T08:00:00Z',
  },
  delivery: { value: '<deliveryId>', isList: true, help: 'this delivery; can be repeated' },
  expected: { value: '<number>', help: 'dismiss only if exactly this many match' },
  'dry-run': { help: 'show the preview and stop' },
} as const;

const NAMED = { q: '--search', deliveryIds: '--delivery', expectedCount: '--expected' };
const NOTHING = 'Nothing was dismissed.';

/** Dismisses all dead letters that match, after a preview. @returns the exit code. @throws Failure as `carryOut` */
export async function dismissMatching(call: Call): Promise<number> {
  const { given, bus } = call;
  const fields = requestOf(call);
  const reason = given.isSet('dry-run')
    ? ''
    : requireReason(given, 'dismiss --topic payment.captured --since 24h --reason "test data"');
  const { dismissAllThatMatch, showDismissal } = await import('../lib/console/dismissals/routes.ts');
  let dismissed = 0;
  let isLost = false;
  return await carryOut(call, {
    nothing: NOTHING,
    preview: () => bus.ask(showDismissal, { query: fields, named: NAMED }),
    draw: (view, pane) => draw(view, call, pane),
    matched: ({ matched }) => [
      matched,
      `${quantity(matched, 'dead letter')} ${matched === 1 ? 'matches' : 'match'}`,
    ],
    isEmpty: ({ matched }) => matched === 0,
    confirm: ({ matched }) => confirmNumber(call, 'Dismiss', matched, NOTHING),
    begin: async ({ request: { expectedCount, ...which } }, isAgain) => {
      isLost = isAgain;
      return await inSteps(
        call,
        async (before) => {
          const isFirst = before === null && !isAgain;
          const body = { ...which, ...(isFirst && { expectedCount }), reason };
          const done = await bus.ask(dismissAllThatMatch, { body, named: NAMED });
          dismissed += dismissedBy(done.view).done;
          return done;
        },
        dismissedBy,
      );
    },
    tell(view) {
      const { left } = dismissedBy(view);
      if (dismissed === 0 && left === 0 && !isLost) return;
      const rest = left === 0 ? '' : ` ${quantity(left, 'dead letter')} left: run it again.`;
      const what = `Dismissed ${quantity(dismissed, 'dead letter')}.${lostWords(isLost)}${rest}`;
      writeOutcome(call, left === 0, what);
    },
  });
}

/** @throws Failure for a request without a filter, or for an id that is none. */
function requestOf({ given }: Call) {
  atMost(0, given);
  const ids = given.texts('delivery').flatMap((written) => written.split(','));
  for (const id of ids) requireDeliveryId(id);
  const filters = {
    topic: given.text('topic'),
    subscriber: given.text('subscriber'),
    group: given.texts('group').join(',') || undefined,
    q: given.text('search'),
  };
  const until = given.text('until');
  if (ids.length > 0) return { ...filters, since: given.text('since'), until, deliveryIds: ids.join(',') };
  if (!hasFilter({ ...filters, until }))
    throw misused(
      'What to dismiss is missing: add --topic, --subscriber, --group, --search, --until or --delivery.',
      'For example: npx postbud dismiss --topic payment.captured --since 24h --reason "test data"',
    );
  return { ...filters, since: given.text('since') ?? ALL_TIME, until };
}

function draw(view: DismissPreview, { given }: Call, pane: Pane): void {
  const { matched, subscriptions, earlier, generatedAt: now } = view;
  if (matched === 0) {
    const first = earlier === null ? '' : `\n${earlierPhrase(earlier, now).text}`;
    pane.write(wrapTo(pane.columns, `No dead letter matches: nothing to dismiss.${first}`));
    return;
  }
  pane.write(pane.paint('bold', titleOf(given, 'dismiss', quantity(matched, 'dead letter'))));
  pane.write(
    table(
      pane,
      [
        { title: '', align: 'right' },
        { title: 'topic', isCut: true },
        { title: 'subscriber' },
        { title: 'oldest' },
        { title: 'newest', leftOut: 'late' },
      ],
      subscriptions.map(({ topic, subscriber, count: number, skipped, firstAt, lastAt }) => [
        count(number),
        topic,
        skipped > 0 ? `${subscriber} (${count(skipped)} skipped)` : subscriber,
        ago(firstAt, now),
        ago(lastAt, now),
      ]),
    ),
  );
  pane.write(wrapTo(pane.columns, `\nNot touched: ${untouchedWords(view)}.`));
  writeWarnings(pane, [haltingWarning(view)]);
}
