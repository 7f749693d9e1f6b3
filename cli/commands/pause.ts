import { timeText } from '../../lib/console/kit/instants.ts';
import { count, quantity } from '../../lib/console/kit/words.ts';
import { pause } from '../../lib/console/lanes/actions.ts';
import { actionCommand } from '../action.ts';
import { AHEAD, isAhead, subscriptionsActedOn } from '../subscriptions.ts';
import type { Subscription } from '../subscriptions.ts';
import { inZone } from '../times.ts';

const EXAMPLE = 'pause ledger --topic payment.captured --reason "maintenance until 18:00"';

export const command = actionCommand(pause, {
  summary: 'make a subscriber’s deliveries wait',
  usage: ['pause <subscriber> --reason <text> [--topic <topic> [--ahead]] [--yes]'],
  notes: [
    'Its deliveries wait, in order, until someone resumes it; none fails meanwhile. Without --topic all its topics are paused, after confirmation.',
  ],
  options: { topic: { value: '<topic>', help: 'only this topic' }, ...AHEAD },
  examples: [
    [EXAMPLE, 'one topic'],
    ['pause ledger --reason "maintenance until 18:00" --yes', 'all its topics, from a script'],
    [
      'pause ledger --topic payment.captured --ahead --reason "backfill first"',
      'before the release that lists it',
    ],
  ],
  body: (given) => ({ topic: given.text('topic') ?? null, ahead: isAhead(given) }),
  nothing: 'Nothing was paused.',
  narrowedBy: 'topic',
  readFirst: subscriptionsActedOn,
  plan({ given, terminal: { err } }, { parameters }, { own }) {
    const title = `Pause ${parameters['subscriber']!} for all its topics?`;
    const says = given.isSet('yes') ? null : `${err.paint('bold', title)}\n${waitingWords(own)}`;
    return Promise.resolve({ says, asks: { action: 'Pause it', count: 1 } });
  },
  done({ subscriber, topic }, { call: { given }, before: { own, now } }) {
    const of = topic === null ? '' : ` --topic ${topic}`;
    const later = given.isSet('ahead') ? ' (--ahead before a release lists it)' : '';
    const next = `To end it: npx postbud resume ${subscriber}${of}${later}`;
    const earlier = own.find(({ pause }) => pause !== null && pause.topic === topic)?.pause;
    if (!earlier) return [`Paused ${subscriber} for ${topic ?? 'all its topics'}.`, next];
    const { pausedAt, pausedBy, reason } = earlier;
    const since = inZone(timeText(pausedAt, now));
    return {
      isGood: true,
      next: `${subscriber} was paused already, by ${pausedBy} since ${since}: ${reason}\n${next}`,
    };
  },
});

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
