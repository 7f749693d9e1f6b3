import { failureText } from '../../lib/console/kit/states.ts';
import { count, quantity } from '../../lib/console/kit/words.ts';
import type { SkipPreview } from '../../lib/console/incidents/skip-preview.ts';
import { behindWords, haltedWarning } from '../../lib/console/incidents/words.ts';
import { skip } from '../../lib/console/lanes/actions.ts';
import { actionCommand } from '../action.ts';
import { atMost } from '../command.ts';
import type { Call, OnlineCommand } from '../command.ts';
import { YES } from '../confirm.ts';
import { misused } from '../failure.ts';
import { requireIncidentId } from '../incident-id.ts';
import { carryOut, confirmNumber, lostWords, titleOf, writeWarnings } from '../operation.ts';
import { writeOutcome } from '../outcome.ts';
import { requireReason } from '../reason.ts';
import { inSteps } from '../steps.ts';
import type { Step } from '../steps.ts';
import { table } from '../table.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';

const ofDelivery = actionCommand(skip, {
  summary: 'dead-letter the delivery that holds a lane, so that the lane continues; or all of an incident',
  usage: ['skip <deliveryId> --reason <text>', 'skip --incident <incidentId> --reason <text> [options]'],
  notes: [
    'The delivery becomes a dead letter, which can be replayed like any other. Those behind it are delivered before it.',
    'With --incident, skips the deliveries that hold its blocked lanes, which fail with one error, after a preview. Without a terminal it needs --yes.',
  ],
  examples: [
    [
      'skip 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --reason "answered by phone"',
      'the lane goes on with the next delivery',
    ],
    [
      'skip --incident 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "the period is closed"',
      'all that one error holds up, after confirmation',
    ],
  ],
  done: (view, { subjects: { deliveryId } }) => [
    `Skipped ${deliveryId!} (${view.topic} to ${view.subscriber}). Its lane continues.`,
    `To deliver it later: npx postbud replay --delivery ${deliveryId!}`,
  ],
});

const OF_INCIDENT = {
  incident: { value: '<incidentId>', help: 'all deliveries that hold the blocked lanes of an incident' },
  expected: { value: '<number>', help: 'with --incident: skip only if exactly this many hold lanes' },
  'dry-run': { help: 'with --incident: show the preview and stop' },
  ...YES,
} as const;

export const command: OnlineCommand = {
  ...ofDelivery,
  options: { ...ofDelivery.options, ...OF_INCIDENT },
  async run(call) {
    const { given } = call;
    if (given.isSet('incident')) return await skipIncident(call);
    const alone = Object.keys(OF_INCIDENT).find((name) => given.isSet(name));
    if (alone !== undefined) throw misused(`--${alone} belongs to --incident <incidentId>.`);
    return await ofDelivery.run(call);
  },
};

const NOTHING = 'Nothing was skipped.';

/** Skips what holds the blocked lanes of an incident, after a preview. @returns the exit code. @throws Failure as `carryOut` */
async function skipIncident(call: Call): Promise<number> {
  const { given, bus } = call;
  const incidentId = given.text('incident')!;
  atMost(0, given);
  requireIncidentId(incidentId);
  const isDry = given.isSet('dry-run');
  const reason = isDry
    ? ''
    : requireReason(given, `skip --incident ${incidentId} --reason "the period is closed"`);
  const { showSkip, skipIncident: route } = await import('../../lib/console/incidents/skip.ts');
  const parameters = { incidentId };
  let skipped = 0;
  let isLost = false;
  return await carryOut(call, {
    nothing: NOTHING,
    preview: () => bus.ask(showSkip, { parameters }),
    draw: (view, pane) => draw(view, call, pane),
    matched: ({ lanes }) => [
      lanes.length,
      `${quantity(lanes.length, 'delivery')} ${lanes.length === 1 ? 'holds its lane' : 'hold their lanes'}`,
    ],
    isEmpty: ({ lanes }) => lanes.length === 0,
    confirm: ({ lanes }) => confirmNumber(call, 'Skip', lanes.length, NOTHING),
    async begin({ lanes }, isAgain) {
      isLost = isAgain;
      const body = { deliveryIds: lanes.map(({ deliveryId }) => deliveryId), reason };
      const done = await inSteps(call, () => bus.ask(route.route, { parameters, body }), skippedBy);
      skipped = done.sum;
      return done;
    },
    tell(view) {
      const { left } = skippedBy(view);
      const rest = left === 0 ? '' : ` ${quantity(left, 'delivery')} left: run it again.`;
      const what = `Skipped ${quantity(skipped, 'delivery')}. What waited behind follows.`;
      writeOutcome(call, left === 0, `${what}${lostWords(isLost)}${rest}`);
    },
  });
}

/** What a request skipped. A dry run, which this command does not ask for, does nothing. */
function skippedBy(view: { readonly skipped: number; readonly left: number } | object): Step {
  return 'skipped' in view ? { done: view.skipped, left: view.left } : { done: 0, left: 0 };
}

function draw(view: SkipPreview, { given }: Call, pane: Pane): void {
  const { lanes, subscriber, topic, lastError } = view;
  if (lanes.length === 0) {
    pane.write('Nothing to skip: no delivery holds a lane of this incident.');
    return;
  }
  pane.write(pane.paint('bold', titleOf(given, 'skip', quantity(lanes.length, 'delivery'))));
  pane.write(wrapTo(pane.columns, `${topic ?? ''} to ${subscriber}: ${failureText(lastError)}.`));
  pane.write(
    table(
      pane,
      [
        { title: 'delivery' },
        { title: 'ordering key', isCut: true },
        { title: 'about', isFlexible: true, leftOut: 'early' },
        { title: 'waiting', align: 'right' },
      ],
      lanes.map(({ deliveryId, orderingKey, subject, waiting }) => [
        deliveryId,
        orderingKey,
        subject ?? '',
        count(waiting),
      ]),
    ),
  );
  pane.write(wrapTo(pane.columns, `\n${behindWords(view)}.`));
  writeWarnings(pane, [haltedWarning(view)]);
}
