import type { IncidentView } from '../lib/console/incidents/detail.ts';
import { until } from '../lib/console/kit/instants.ts';
import { quantity, quantityOfLanes } from '../lib/console/kit/words.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { EXIT } from './failure.ts';
import { follow, waitLimitMs } from './follow.ts';
import { writeOutcome } from './held-delivery.ts';
import { probeSubscriber } from './probe-subscriber.ts';
import { failureText } from './states.ts';

/** Retries the first blocked lanes of an incident; with `--wait`, until each has been attempted. @returns the exit code. */
export async function retryIncident(call: Call, incidentId: string): Promise<number> {
  const { given, bus, isJson } = call;
  waitLimitMs(given);
  const outageOf = await subscriberOfOutage(call, incidentId);
  if (outageOf !== null) return await probeSubscriber(call, outageOf);
  const limitMs = waitLimitMs(given);
  const parameters = { incidentId };
  const { retryIncident: retry, showIncident } = await import('../lib/console/incidents/routes.ts');
  const { json, view } = await bus.ask(retry, { parameters, body: { reason: given.text('reason') } });
  const { retried } = view;
  if (!isJson) {
    const due = retried === 0 ? 'No lane waits for a retry.' : `${quantity(retried, 'lane')} due now.`;
    writeOutcome(call, true, due);
  }
  if (!given.isSet('wait') || retried === 0) {
    if (isJson) writeJson(call, json);
    return EXIT.ok;
  }
  const last = await follow(call, limitMs, () => bus.ask(showIncident, { parameters }), {
    isSettled: (look) => isAttempted(look.view),
    words: (look) => `${quantityOfLanes(look.view.blockedLanes)} blocked`,
  });
  const isElse = last.view.others.some(({ state }) => state === 'happening');
  const isOver = last.view.state !== 'happening' && !isElse;
  if (isJson) writeJson(call, last.json);
  else writeOutcome(call, isOver, outcomeWords(last.view));
  return isOver ? EXIT.ok : EXIT.failed;
}

/** @returns null for an incident that is no outage. */
async function subscriberOfOutage({ bus }: Call, incidentId: string): Promise<string | null> {
  const { showIncident } = await import('../lib/console/incidents/routes.ts');
  const { view } = await bus.ask(showIncident, { parameters: { incidentId } });
  return view.topic === null ? view.subscriber : null;
}

/** Whether no lane is due: each delivers again, or has failed again and waits. */
function isAttempted({ state, lanes, generatedAt }: IncidentView): boolean {
  return state !== 'happening' || lanes.every(({ nextAttemptAt }) => nextAttemptAt > generatedAt);
}

function outcomeWords(view: IncidentView): string {
  if (view.state !== 'happening')
    return [view, ...view.others.filter(({ state }) => state === 'happening')]
      .map(({ sentence }) => sentence)
      .join(' ');
  const [first] = view.lanes;
  const next = first ? `, the next attempt ${until(first.nextAttemptAt, view.generatedAt)}` : '';
  return `${quantityOfLanes(view.blockedLanes)} blocked, last error ${failureText(view.lastError)}${next}.`;
}
