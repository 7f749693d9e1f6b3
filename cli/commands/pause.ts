import { timeText } from '../../lib/console/kit/instants.ts';
import { count, quantity } from '../../lib/console/kit/words.ts';
import { writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { YES, confirm, requireConfirmable } from '../confirm.ts';
import { EXIT } from '../failure.ts';
import { writeOutcome } from '../outcome.ts';
import { REASON, requireReason } from '../reason.ts';
import { AHEAD, isAhead, namedIn, subscriptionsOf, UNKNOWN_YET } from '../subscriptions.ts';
import type { Subscription } from '../subscriptions.ts';
import { wrapTo } from '../text.ts';
import { inZone } from '../times.ts';

const EXAMPLE = 'pause ledger --topic payment.captured --reason "maintenance until 18:00"';
const NOTHING = 'Nothing was paused.';

export const command: Command = {
  name: 'pause',
  summary: 'make a subscriber’s deliveries wait',
  usage: ['pause <subscriber> --reason <text> [--topic <topic> [--ahead]] [--yes]'],
  notes: [
    'Its deliveries wait, in order, until someone resumes it; none fails meanwhile. Without --topic all its topics are paused, after confirmation.',
  ],
  options: { topic: { value: '<topic>', help: 'only this topic' }, ...AHEAD, ...REASON, ...YES },
  examples: [
    [EXAMPLE, 'one topic'],
    ['pause ledger --reason "maintenance until 18:00" --yes', 'all its topics, from a script'],
    [
      'pause ledger --topic payment.captured --ahead --reason "backfill first"',
      'before the release that lists it',
    ],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  const named = namedIn(given, EXAMPLE);
  const { subscriber, topic } = named;
  const reason = requireReason(given, `pause ${subscriber} --reason "maintenance until 18:00"`);
  const ahead = isAhead(given);
  if (topic === null) requireConfirmable(call, NOTHING, ', or --topic <topic>');
  const { own, now } = ahead ? UNKNOWN_YET : await subscriptionsOf(call, named);
  if (topic === null && !given.isSet('yes')) {
    const { err } = terminal;
    err.write(err.paint('bold', `Pause ${subscriber} for all its topics?`));
    err.write(wrapTo(err.columns, waitingWords(own)));
    await confirm(call, { action: 'Pause it', count: 1, nothing: NOTHING });
  }
  const { pauseSubscriber } = await import('../../lib/console/lanes/routes.ts');
  const { json } = await bus.ask(pauseSubscriber, {
    parameters: { subscriber },
    body: { topic, reason, ahead },
  });
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { out } = terminal;
  const of = topic === null ? '' : ` --topic ${topic}`;
  const before = own.find(({ pause }) => pause !== null && pause.topic === topic)?.pause;
  if (before) {
    const since = `since ${inZone(timeText(before.pausedAt, now))}`;
    out.write(
      wrapTo(
        out.columns,
        `${subscriber} was paused already, by ${before.pausedBy} ${since}: ${before.reason}`,
      ),
    );
  } else writeOutcome(call, true, `Paused ${subscriber} for ${topic ?? 'all its topics'}.`);
  const end = `To end it: npx postbud resume ${subscriber}${of}`;
  out.write(
    out.paint('dim', wrapTo(out.columns, ahead ? `${end} (--ahead before a release lists it)` : end)),
  );
  return EXIT.ok;
}

function waitingWords(own: readonly Subscription[]): string {
  const [pending, failing] = [sum(own, 'pending'), sum(own, 'failing')];
  const open =
    pending + failing === 0
      ? 'Nothing waits'
      : `${quantity(pending + failing, 'delivery')} wait${pending + failing === 1 ? 's' : ''}`;
  const retry = failing === 0 ? '' : `, ${count(failing)} of them for a retry`;
  return `It has ${quantity(own.length, 'topic')}. ${open} at the moment${retry}.`;
}

function sum(own: readonly Subscription[], name: 'pending' | 'failing'): number {
  return own.reduce((total, one) => total + one[name], 0);
}
