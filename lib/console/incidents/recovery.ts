import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { actionForm, mayReplay, settleLink } from '../kit/actions.ts';
import { costWords, undeliverableWords } from '../kit/handling.ts';
import { timeToMinute, until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLetterPath, incidentPath, replayPath, replayedPath } from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { stateWord } from '../kit/states.ts';
import { count, quantity, quantityOfLanes } from '../kit/words.ts';
import type { IncidentReplay, IncidentView } from './detail.ts';
import { outageSteps } from './outage-recovery.ts';
import { step } from './step.ts';
import { causeWords } from './sentence.ts';
import { leftWords } from './words.ts';

/** How many lanes one click retries: enough to see whether the subscriber is back. */
export const RETRIED = 20;

/** Whether something is being delivered that someone waits for. */
export function isMoving({ replays, lanes, outage, generatedAt, paused, state }: IncidentView): boolean {
  if (paused || state === 'closed') return false;
  if (outage !== null) return outage.nextProbeAt <= generatedAt;
  const [last] = replays;
  return (
    (last?.pending ?? 0) + (last?.left ?? 0) > 0 ||
    lanes.some(({ nextAttemptAt }) => nextAttemptAt <= generatedAt)
  );
}

/** Draws the way out of an incident: retry what is blocked, replay what died, and see it confirmed. */
export function recoverySteps(view: IncidentView, context: PageContext): Html {
  return html`<ol class="card steps">
    ${
      view.topic === null
        ? outageSteps(view, context)
        : view.lastError.kind === NEWER_VERSION
          ? [installStep(view), confirmStep(view, context)]
          : [retryStep(view, context), replayStep(view, context), confirmStep(view, context)]
    }
  </ol>`;
}

/** A retry is of no use: what waits is tried again by itself, and uses up no attempt. */
function installStep({ state, lastError }: IncidentView): Html {
  if (state === 'closed') return step('done', 'Install', 'Its payloads can be read.');
  return step(
    'next',
    'Install',
    `${lastError.message}. What waits follows by itself, in order, and no attempt is used up.`,
  );
}

function retryStep(
  {
    incidentId,
    topic,
    subscriber,
    state,
    blockedLanes: all,
    haltedLanes,
    lanes,
    generatedAt,
    paused,
  }: IncidentView,
  context: PageContext,
): Html {
  const { operator, handling } = context;
  const blockedLanes = all - haltedLanes;
  if (blockedLanes === 0) {
    const none =
      haltedLanes > 0
        ? 'No lane waits for a retry.'
        : state === 'happening'
          ? 'No lane is blocked by this error now, but by another.'
          : 'No lane is blocked.';
    return step('done', 'Retry', none);
  }
  const handled = handling(topic ?? '', subscriber);
  if (typeof handled === 'string') {
    const isUnlisted = handled === 'not_in_catalog';
    return step(
      'next',
      isUnlisted ? 'Retire' : 'Attach',
      `${quantityOfLanes(blockedLanes)} blocked. ${undeliverableWords(topic ?? '', subscriber, handled)}`,
      isUnlisted && mayReplay(operator) && settleLink(topic ?? '', subscriber),
    );
  }
  const dueAt = lanes.map(({ nextAttemptAt }) => nextAttemptAt).toSorted()[0];
  const next = paused
    ? 'after the pause'
    : dueAt === undefined || dueAt <= generatedAt
      ? 'now'
      : until(dueAt, generatedAt);
  const first =
    blockedLanes > RETRIED
      ? `the first ${RETRIED} of ${quantityOfLanes(blockedLanes)}`
      : quantityOfLanes(blockedLanes);
  const spent = Math.max(0, ...lanes.slice(0, RETRIED).map(({ attempts }) => attempts));
  const which = lanes.length > 1 ? ' at most' : '';
  const cost = ` A retry is${which} ${costWords(spent, handled.maxAttempts)}.`;
  const [head] = lanes;
  const isTried = head !== undefined && !paused;
  const free = isTried ? ' To try one delivery once costs no attempt.' : '';
  return step(
    'next',
    'Retry',
    `${quantityOfLanes(blockedLanes)} blocked. The next attempt is ${next}.${cost}${free}`,
    mayReplay(operator) &&
      html`<div class="acts">
        <form method="post" action="${incidentPath(incidentId)}/retry">
          <button class="btn primary">Retry ${first} now</button>
        </form>
        ${isTried && actionForm('probe-delivery', { deliveryId: head.deliveryId }, { of: head.deliveryId, hidden: { incidentId } }, context)}
      </div>`,
  );
}

function replayStep(view: IncidentView, { operator }: PageContext): Html {
  const { owed, haltedLanes, incidentId, topic, subscriber, inCatalog, refusesReplays, replays } = view;
  const blockedLanes = view.blockedLanes - haltedLanes;
  if (owed === 0) {
    return step(replays.length > 0 ? 'done' : 'later', 'Replay', 'No dead letters are left.');
  }
  const what = quantity(owed, 'dead letter');
  const query = { topic, subscriber, since: ALL_TIME, incident: incidentId };
  if (!inCatalog)
    return step('later', 'Replay', `${what}. This release’s catalog does not list the subscription.`);
  if (refusesReplays) {
    return step(
      'next',
      'Settle without a replay',
      `${what}. ${subscriber} refuses replays, because it would act twice: it may have acted before it failed. Settle them another way, for example by telling the people concerned, then dismiss them.`,
    );
  }
  return step(
    blockedLanes === 0 ? 'next' : 'later',
    'Replay',
    haltedLanes > 0
      ? `${what}. ${quantityOfLanes(haltedLanes)} ${haltedLanes === 1 ? 'is' : 'are'} halted until ${owed === 1 ? 'it is' : 'they are'} replayed or dismissed.`
      : blockedLanes === 0
        ? `${what}, oldest first, after a preview.`
        : `${what}, once the lanes go on.`,
    mayReplay(operator) &&
      html`<a class="btn ${blockedLanes === 0 && 'primary'}" href="${replayPath(query)}">Replay ${what}…</a>`,
  );
}

function confirmStep(view: IncidentView, { names }: PageContext): Html {
  const { state, closedAt, generatedAt: now, replays, blockedLanes } = view;
  const [last] = replays;
  if (last !== undefined && last.replayed > 0) return replayOutcome(last, now, names);
  if (state === 'closed' && closedAt !== null) {
    const { next } = view;
    const words =
      next === null
        ? 'Every lane delivers again.'
        : html`No lane fails with this error any more, but
            <a href="${incidentPath(next.incidentId)}">with ${causeWords(next)}</a>.`;
    return step(next === null ? 'done' : 'failed', html`Confirmed ${timeToMinute(closedAt, now)}`, words);
  }
  return step(
    'later',
    'Confirm',
    blockedLanes > 0
      ? 'This page shows when the lanes deliver again.'
      : view.refusesReplays
        ? 'The incident closes when all of them are dismissed.'
        : 'This page shows when all of them are delivered.',
  );
}

function replayOutcome(replay: IncidentReplay, now: string, names: OperatorNames): Html {
  const { replayed, delivered, failing, deadLettered, confirmedAt, requestedAt, requestedBy } = replay;
  const share = `${count(delivered)} of ${count(replayed)}`;
  const details = html`<a href="${replayedPath(replay.replayId)}"
    >Replay by ${operatorText(requestedBy, names)}, ${timeToMinute(requestedAt, now)}</a
  >`;
  if (confirmedAt !== null) {
    return step(
      'done',
      html`Confirmed ${timeToMinute(confirmedAt, now)}, ${share}`,
      html`All are delivered. ${details}`,
    );
  }
  const failed = failing + deadLettered;
  return step(
    failed > 0 ? 'failed' : 'next',
    `${share} delivered`,
    html`${leftWords(replay)}. ${details}
    ${replay.failedAgain.map(
      ({ deliveryId, state }) =>
        html`<span class="s"
          ><a class="mono" href="${deadLetterPath(deliveryId)}">${deliveryId}</a> ${stateWord(state)}</span
        >`,
    )}`,
  );
}
