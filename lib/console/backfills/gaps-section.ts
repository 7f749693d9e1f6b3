import { KEEP_MS } from '../../bus/deliveries/prune.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { DAY } from '../../platform/time.ts';
import { span, timeToMinute } from '../kit/instants.ts';
import { backfilledPath, backfillPath, topicPath } from '../kit/links.ts';
import { card, section } from '../kit/sections.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { count } from '../kit/words.ts';
import type { Gap } from './gaps.ts';

interface Shown {
  readonly gaps: readonly Gap[];
  /** Whether the page is about one topic; else about one subscriber. */
  readonly isOfTopic: boolean;
  readonly now: string;
}

/** Draws which subscriptions lack older events, with the way to a backfill; null where none does. */
export function gapsSection({ gaps, isOfTopic, now }: Shown): Html | null {
  if (gaps.length === 0) return null;
  return section({
    id: 'older-events',
    title: 'Older events not delivered',
    hint: 'from before it subscribed',
    content: card(
      html`<ul class="gaps">
        ${gaps.map((gap) => item(gap, isOfTopic, now))}
      </ul>`,
    ),
  });
}

function item({ topic, subscriber, since, until, underWay }: Gap, isOfTopic: boolean, now: string): Html {
  const name = isOfTopic
    ? subscriberLink(subscriber, topic)
    : html`<a class="mono roomy" href="${topicPath(topic)}">${topic}</a>`;
  const of = html`<span class="vh"> ${topic} to ${subscriber}</span>`;
  if (underWay !== null) {
    const { backfillId, matched, written } = underWay;
    return html`<li>
      <p><b>${name}</b> A backfill is under way: ${count(written)} of ${count(matched)} written.</p>
      <a class="btn sm" href="${backfilledPath(backfillId)}">Progress${of}</a>
    </li>`;
  }
  return html`<li>
    <p><b>${name}</b> ${missingWords(since, until, now)}</p>
    <a class="btn sm" href="${backfillPath({ topic, subscriber, since: windowOf(since, now) })}"
      >Backfill…${of}</a
    >
  </li>`;
}

function missingWords(since: string | null, until: string | null, now: string): Child {
  if (since === null) return null;
  return until === null
    ? html`All events since ${timeToMinute(since, now)} are missing.`
    : html`Events of ${span(since, until, now)} are missing.`;
}

/** All that is retained: what is older than that is an event with a dead letter, which is kept longer. */
function windowOf(since: string | null, now: string): string {
  const isOlder = since !== null && Date.parse(now) - Date.parse(since) >= KEEP_MS;
  return isOlder ? since : `${KEEP_MS / DAY}d`;
}
