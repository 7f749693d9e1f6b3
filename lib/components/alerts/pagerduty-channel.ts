import { randomUUID } from 'node:crypto';

import pLimit from 'p-limit';

import type { AlertSettings } from '../../platform/config.ts';
import { instantOf, SECOND } from '../../platform/time.ts';
import { AlertNotSent } from './channel.ts';
import type { Channel } from './channel.ts';
import type { AlertedIncident } from './claim-alerts.ts';
import { clipped, footerOf, incidentMessage, isLink } from './message.ts';
import type { Message } from './message.ts';
import { post } from './post.ts';
import { dataOf } from './webhook-channel.ts';

type Settings = NonNullable<AlertSettings['pagerDuty']>;

/** Each incident of a message is one of PagerDuty's, which pages people, repeats and escalates: there is no digest. */
export function pagerDutyChannel(settings: Settings): Channel {
  return {
    name: 'pagerduty',
    to: new URL(settings.url).host,
    async send(message) {
      if (message.incidents.length === 0) return await enqueueAll(settings, testEvents(message));
      return await sendEach(message, (events) => enqueueAll(settings, events));
    },
  };
}

/** PagerDuty takes an event in some 200 ms, and some 120 a minute. */
const AT_ONCE = 4;

/** Nothing is begun later: what was must end while the cron's duty lasts. */
const ENOUGH_MS = 8 * SECOND;

/**
 * Sends what each incident needs, the worst first. An event that PagerDuty calls invalid stops no other; any other failure
 * ends it, and what is left is sent a minute later.
 */
async function sendEach(
  message: Message,
  send: (events: readonly PagerDutyEvent[]) => Promise<string>,
): Promise<string> {
  const accepted: string[] = [];
  const until = Date.now() + ENOUGH_MS;
  let failure: AlertNotSent | null = null;
  let answer = '';
  const sendOne = async (incident: AlertedIncident) => {
    if ((failure !== null && failure.status !== 400) || Date.now() > until) return;
    try {
      answer = await send(pagerDutyEvents(incident, message));
      accepted.push(incident.id);
    } catch (error) {
      if (!(error instanceof AlertNotSent)) throw error;
      failure = failure === null || failure.status === 400 ? error : failure;
    }
  };
  const limit = pLimit(AT_ONCE);
  await Promise.all(message.incidents.map((incident) => limit(sendOne, incident)));
  if (accepted.length === message.incidents.length) return answer;
  throw notSent(failure, accepted);
}

function notSent(failure: AlertNotSent | null, accepted: readonly string[]): AlertNotSent {
  if (failure === null) return new AlertNotSent('took too long', { accepted });
  const { message, status, words, cause } = failure;
  return new AlertNotSent(message, { status, words, accepted, cause });
}

/** Sends events one after the other: PagerDuty applies them in the order in which they arrive. */
async function enqueueAll({ url, routingKey }: Settings, events: readonly PagerDutyEvent[]): Promise<string> {
  const answers: string[] = [];
  for (const event of events) {
    const body = JSON.stringify({ routing_key: routingKey, ...event });
    const answer = await post({ url: `${url.replace(/\/+$/, '')}/v2/enqueue`, body, secrets: [routingKey] });
    answers.push(events.length === 1 ? answer : `${event.event_action} ${answer}`);
  }
  return answers.join('; ');
}

/** An event, without the key that says whose it is. @see https://developer.pagerduty.com/docs/send-alert-event */
export interface PagerDutyEvent {
  readonly event_action: 'trigger' | 'acknowledge' | 'resolve';
  readonly dedup_key: string;
  /** Of a trigger. */
  readonly payload?: Readonly<Record<string, unknown>> & {
    readonly severity: 'critical' | 'error' | 'info';
  };
  readonly links?: readonly { readonly href: string; readonly text: string }[];
  readonly client?: string;
  readonly client_url?: string;
}

/** Draws what PagerDuty has to learn of one incident of a message: usually one event. */
export function pagerDutyEvents(incident: AlertedIncident, { origin }: Message): readonly PagerDutyEvent[] {
  const message = incidentMessage([incident], origin);
  const { topic, subscriber, kind, state, changedAt } = incident;
  const dedup_key = keyOf(incident.id, message);
  const trigger = triggerOf(message, dedup_key, {
    severity: state === 'happening' ? 'critical' : 'error',
    timestamp: instantOf(changedAt),
    class: kind,
    ...(subscriber !== '' && { component: subscriber }),
    ...(topic !== '' && { group: topic }),
    custom_details: dataOf(incident, message.entries[0]!.url),
  });
  return actionsOf(incident).map((action) =>
    action === 'trigger' ? trigger : { event_action: action, dedup_key },
  );
}

function actionsOf({
  state,
  isAcknowledged,
  wasAcknowledged,
}: AlertedIncident): readonly PagerDutyEvent['event_action'][] {
  if (state === 'closed') return ['resolve'];
  if (isAcknowledged) return ['acknowledge'];
  // What somebody took up there pages nobody again until it is resolved.
  return wasAcknowledged && state === 'happening' ? ['resolve', 'trigger'] : ['trigger'];
}

/** Shows that alerts arrive, with the lowest urgency, and ends at once. */
function testEvents(message: Message): readonly PagerDutyEvent[] {
  const dedup_key = keyOf(randomUUID(), message);
  return [triggerOf(message, dedup_key, { severity: 'info' }), { event_action: 'resolve', dedup_key }];
}

/** A preview's database may be a branch of production's, with the same incidents. */
function keyOf(id: string, { origin }: Message): string {
  return `postbud-${origin.environment.toLowerCase()}-${id}`;
}

/** PagerDuty refuses a longer summary. */
const LONGEST_SUMMARY = 1024;

/** @param message of a single incident, or a test. */
function triggerOf(
  message: Message,
  dedup_key: string,
  details: NonNullable<PagerDutyEvent['payload']>,
): PagerDutyEvent {
  const { subject, entries, origin } = message;
  const { text, url } = entries[0]!;
  return {
    event_action: 'trigger',
    dedup_key,
    client: footerOf(message),
    ...(isLink(url) && { client_url: url, links: [{ href: url, text: 'Open in Postbud' }] }),
    payload: {
      summary: clipped(`${subject}. ${text}`, LONGEST_SUMMARY),
      source: origin.publicUrl === undefined ? 'postbud' : new URL(origin.publicUrl).host,
      ...details,
    },
  };
}
