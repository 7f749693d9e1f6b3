import { silenceWords } from '../lib/console/incidents/outage.ts';
import { timeText, until } from '../lib/console/kit/instants.ts';
import type { SubscriberHealth } from '../lib/console/subscribers/read.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { EXIT } from './failure.ts';
import { follow, waitLimitMs } from './follow.ts';
import { writeOutcome } from './held-delivery.ts';

/** Whether a text may be the name of a subscriber, and no id. */
export const isSubscriberName = (written: string) => /^[a-z][\w.-]{0,99}$/i.test(written);

/** Probes a subscriber that does not answer; with `--wait`, until it has answered or not. @returns the exit code. */
export async function probeSubscriber(call: Call, subscriber: string): Promise<number> {
  const { given, bus, isJson } = call;
  const limitMs = waitLimitMs(given);
  const parameters = { subscriber };
  const { probeSubscriber: probe, showSubscriber } = await import('../lib/console/subscribers/routes.ts');
  const look = () => bus.ask(showSubscriber, { parameters });
  const before = given.isSet('wait') ? (await look()).view : null;
  const { json } = await bus.ask(probe, { parameters, body: { reason: given.text('reason') } });
  if (!isJson) writeOutcome(call, true, `The next probe of ${subscriber} is due now.`);
  if (before === null) {
    if (isJson) writeJson(call, json);
    return EXIT.ok;
  }
  const last = await follow(call, limitMs, look, {
    isSettled: ({ view }) => view.outage === null || view.outage.probes > (before.outage?.probes ?? 0),
    words: () => `Waiting for the answer of ${subscriber}…`,
  });
  const { outage } = last.view;
  if (isJson) writeJson(call, last.json);
  else writeOutcome(call, outage === null, outcomeWords(last.view));
  return outage === null ? EXIT.ok : EXIT.failed;
}

function outcomeWords({ subscriber, outage, generatedAt: now }: SubscriberHealth): string {
  if (outage === null) return `${subscriber} answers again. Its deliveries follow, in order.`;
  const { kind, since, nextProbeAt } = outage;
  return `No answer: ${subscriber} ${silenceWords(kind)} since ${timeText(since, now)}. Next probe ${until(nextProbeAt, now)}.`;
}
