import type { SubscriberOverview, TopicOverview } from '../overview/read.ts';
import type { RecentEvent, TopicView } from './read.ts';
import { lacking, mayReplay, pauseForm, replayLink, resumeForm } from '../page/acts.ts';
import { errorGroupTable } from '../dead-letters/error-groups.ts';
import { heldLanesSection } from './held-lanes.ts';
import { toTheMinute, whenAndAgo } from '../page/instants.ts';
import { catalogPath, deadLettersPath, EVER, HOME } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { heading, layout, liveness } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { stateLabel } from '../page/states.ts';
import { countCells, pauseWords, subscriberTags } from '../overview/topic-table.ts';
import { counted, shortId } from '../page/words.ts';

const REFRESH_SECONDS = 15;

/** One topic: its subscribers, what waits and for what, its errors and its newest events. */
export function topicPage(view: TopicView, context: PageContext): Html {
  const { topic, generatedAt } = view;
  const content = html`<p class="back"><a href="${HOME}">← Overview</a></p>
    ${heading({
      title: html`<span class="mono">${topic.topic}</span>`,
      lead: view.description,
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${facts(view)} ${mayReplay(context.operator) ? null : lacking('Replay', 'event-bus:replay')}
    ${subscribersSection(view, context)} ${heldLanesSection(view, context)} ${errorsSection(view, context)}
    ${eventsSection(view)}`;
  return layout(
    { title: topic.topic, section: 'overview', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function facts({ topic, version, orderedBy, generatedAt }: TopicView): Html {
  return html`<dl class="facts">
    ${topic.inCatalog && contractFacts(topic.producer, orderedBy, version)}
    ${fact('Events', `${counted(topic.pending, 'pending', 'pending')}, ${counted(topic.failing, 'failing', 'failing')}, ${counted(topic.deadLettered, 'dead-lettered', 'dead-lettered')}`)}
    ${topic.awaitingFanOut > 0 && fact('Not fanned out yet', counted(topic.awaitingFanOut, 'event'))}
    ${
      topic.heldBackSince !== null &&
      fact(
        'Held back',
        html`<span class="fail-t"
          >since ${toTheMinute(topic.heldBackSince, generatedAt)}, by an open transaction of its
          producer</span
        >`,
      )
    }
    ${fact('Contract', topic.inCatalog ? html`<a href="${catalogPath(topic.topic)}">In the catalog</a>` : 'Not in this release’s catalog')}
  </dl>`;
}

function contractFacts(producer: string, orderedBy: string | null, version: number | null): Html {
  return html`${fact('Producer', html`<span class="mono">${producer}</span>`)}
  ${fact('Order', orderedBy === null ? 'whole topic' : html`by <span class="mono">${orderedBy}</span>`)}
  ${fact('Version', version)}`;
}

function fact(name: string, value: Child): Html {
  return html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;
}

function subscribersSection({ topic, generatedAt }: TopicView, context: PageContext): Html {
  return html`<section aria-labelledby="h-subscribers">
    <div class="bar">
      <h2 id="h-subscribers">Subscribers</h2>
      <span class="muted small">deliveries of this topic</span>
    </div>
    <div class="card">
      <div class="scroll" tabindex="0" role="region" aria-label="Subscribers, table">
        <table class="wide-table">
          <caption class="vh">
            Deliveries of ${topic.topic} by subscriber and state
          </caption>
          <thead>
            <tr>
              <th class="first" scope="col">Subscriber</th>
              <th class="num" scope="col">Pending</th>
              <th class="num" scope="col">Oldest due</th>
              <th class="num" scope="col">Failing</th>
              <th class="num" scope="col">Next retry</th>
              <th class="num" scope="col">Dead letters</th>
              <th scope="col">Last delivered</th>
              <th scope="col">Last failed</th>
              <th class="last" scope="col"><span class="vh">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            ${topic.subscribers.map((one) => subscriberRow(topic, one, generatedAt, context))}
          </tbody>
        </table>
      </div>
    </div>
  </section>`;
}

function subscriberRow(row: TopicOverview, one: SubscriberOverview, now: string, context: PageContext): Html {
  const { topic } = row;
  const { subscriber } = one;
  return html`<tr class="r">
    <th class="first row" scope="row">
      <span class="mono t">${subscriber}</span> ${subscriberTags(one, row)}${pauseWords(one, now)}
    </th>
    ${countCells(one, now, { topic, subscriber, of: `of ${subscriber}` })}
    <td class="nowrap">${instantOr(one.lastDeliveredAt, now, 'never')}</td>
    <td class="nowrap">${instantOr(one.lastFailedAt, now, 'never')}</td>
    <td class="last">${mayReplay(context.operator) && subscriberActs(topic, one, context)}</td>
  </tr>`;
}

function subscriberActs(topic: string, one: SubscriberOverview, context: PageContext): Html {
  const { subscriber, deadLettered, paused, pause } = one;
  return html`<div class="acts">
    ${deadLettered > 0 && one.inCatalog && replayLink(`to ${subscriber}`, { topic, subscriber, since: EVER })}
    ${paused ? resumeForm(subscriber, pause?.topic ?? null, context) : one.inCatalog && pauseForm(subscriber, topic, context)}
  </div>`;
}

function instantOr(instant: string | null, now: string, absent: string): Html {
  return instant === null ? html`<span class="muted">${absent}</span>` : whenAndAgo(instant, now);
}

function errorsSection({ errors, generatedAt }: TopicView, context: PageContext): Html | null {
  if (errors.length === 0) return null;
  return html`<section aria-labelledby="h-errors">
    <div class="bar"><h2 id="h-errors">Dead letters by error</h2></div>
    ${errorGroupTable({ groups: errors, generatedAt, since: null }, context)}
  </section>`;
}

function eventsSection({ events, topic, generatedAt }: TopicView): Html {
  return html`<section aria-labelledby="h-events">
    <div class="bar">
      <h2 id="h-events">Recent events</h2>
      <span class="muted small">newest first</span>
    </div>
    <div class="card">
      ${
        events.length === 0
          ? html`<p class="none muted">No events yet.</p>`
          : eventTable(topic.topic, events, generatedAt)
      }
    </div>
  </section>`;
}

function eventTable(topic: string, events: readonly RecentEvent[], now: string): Html {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Recent events, table">
    <table class="narrow-table">
      <caption class="vh">
        The newest events of ${topic}
      </caption>
      <thead>
        <tr>
          <th class="first" scope="col">Event</th>
          <th scope="col">About</th>
          <th scope="col">Ordering key</th>
          <th scope="col">Recorded</th>
          <th class="last" scope="col">State</th>
        </tr>
      </thead>
      <tbody>
        ${events.map((event) => eventRow(topic, event, now))}
      </tbody>
    </table>
  </div>`;
}

function eventRow(topic: string, event: RecentEvent, now: string): Html {
  const { eventId, subject, orderingKey, state } = event;
  const label =
    state === 'dead_lettered'
      ? html`<a href="${deadLettersPath({ topic, q: eventId })}">${stateLabel(state)}</a>`
      : stateLabel(state);
  return html`<tr class="r">
    <td class="first mono nowrap" title="${eventId}">${shortId(eventId)}</td>
    <td class="nowrap">${subject ?? html`<span class="muted">–</span>`}</td>
    <td class="mono wrap">${orderingKey === '' ? html`<span class="muted">–</span>` : orderingKey}</td>
    <td class="nowrap">${whenAndAgo(event.createdAt, now)}</td>
    <td class="last nowrap">${label}</td>
  </tr>`;
}
