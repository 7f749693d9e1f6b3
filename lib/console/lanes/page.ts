import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import { gapsSection } from '../backfills/gaps-section.ts';
import { errorGroupTable } from '../dead-letters/error-groups.ts';
import {
  actionForm,
  mayReplay,
  missingReplayScope,
  pauseForm,
  replayLinkTo,
  retireLink,
} from '../kit/actions.ts';
import { inBrowser, inConsole } from '../kit/document.ts';
import { timeAndAgo, timeToMinute } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import {
  ALL_TIME,
  backfillsPath,
  catalogPath,
  eventPath,
  eventsPath,
  eventsWithPath,
  HOME,
  incidentsPath,
} from '../kit/links.ts';
import { endsOf } from '../kit/prepared.ts';
import { card, emptyLine, section } from '../kit/sections.ts';
import { stateLabel } from '../kit/states.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count, quantity, shortId } from '../kit/words.ts';
import type { SubscriberOverview } from '../overview/read.ts';
import { countColumns, subscriberTags, whyLines } from '../overview/topic-table.ts';
import { haltedLanesSection } from './halted-lanes.ts';
import type { HeldLane } from '../held-lanes/held-lane.ts';
import { heldLanesSection } from '../held-lanes/section.ts';
import { laneName } from './lane-name.ts';
import type { RecentEvent, TopicView } from './read.ts';

const REFRESH_SECONDS = 15;

/** Draws one topic: its subscribers, held lanes, errors and newest events. */
export function topicPage(view: TopicView, context: PageContext): Html {
  const { topic, generatedAt } = view;
  const content = html`<p class="back"><a href="${HOME}">← Overview</a></p>
    ${heading({
      title: html`<span class="mono">${topic.topic}</span>`,
      lead: view.description,
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${topicFacts(view)} ${missingReplayScope(context.operator)} ${subscribersSection(view, context)}
    ${gapsSection({ gaps: view.gaps, isOfTopic: true, now: generatedAt })}
    ${haltedLanesSection(view, context)} ${heldSection(view, context)} ${errorsSection(view, context)}
    ${eventsSection(view)}`;
  return layout(
    { title: topic.topic, section: 'overview', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function topicFacts({ topic, version, orderedBy, generatedAt }: TopicView): Html {
  const { inCatalog, producer, pending, failing, deadLettered, awaitingPlace, heldBackSince, heldBackBy } =
    topic;
  return html`<dl class="facts">
    ${
      inCatalog &&
      html`${fact('Producer', html`<span class="mono">${producer}</span>`)}
      ${fact('Order', orderedBy === null ? 'whole topic' : html`by <span class="mono">${orderedBy}</span>`)}
      ${fact('Version', version)}`
    }
    ${fact('Events', `${count(pending)} pending, ${count(failing)} failing, ${count(deadLettered)} dead-lettered`)}
    ${awaitingPlace > 0 && fact('Waiting for their places', html`<span title="${PLACES}">${quantity(awaitingPlace, 'event')}</span>`)}
    ${
      heldBackSince !== null &&
      fact(
        'Held back',
        html`<span class="fail-t"
          >since ${timeToMinute(heldBackSince, generatedAt)}, by
          ${
            heldBackBy === null
              ? 'an open transaction of its producer'
              : html`the prepared transaction <span class="mono">${heldBackBy.gid}</span> of
                  <span class="mono">${heldBackBy.owner}</span>. End it: ${endsOf(heldBackBy).join(' or ')}`
          }</span
        >`,
      )
    }
    ${
      failing + deadLettered > 0 &&
      fact('Incidents', html`<a href="${incidentsPath({ topic: topic.topic })}">What goes wrong</a>`)
    }
    ${fact('Contract', inCatalog ? html`<a href="${catalogPath()}">In the catalog</a>` : 'Not in this release’s catalog')}
  </dl>`;
}

const PLACES = 'The relay has not yet given them their places in the order, in which they are delivered.';

function fact(name: string, value: Child): Html {
  return html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;
}

function subscribersSection({ topic, generatedAt: now }: TopicView, context: PageContext): Html {
  return section({
    id: 'subscribers',
    title: 'Subscribers',
    hint: html`deliveries of this topic by state ·
      <a href="${backfillsPath({ topic: topic.topic })}">backfills</a>`,
    content: card(
      table({
        name: 'Subscribers',
        caption: `Deliveries of ${topic.topic} by subscriber and state`,
        columns: [
          {
            label: 'Subscriber',
            isRowHeader: true,
            cell: ({ one }) =>
              html`<b>${subscriberLink(one.subscriber, topic.topic)}</b>
                ${subscriberTags(one, topic).html}${whyLines(one, now, context.names)}`,
          },
          ...countColumns(now).map(inBrowser),
          {
            label: 'Last delivered',
            look: 'nowrap',
            cell: ({ one }) => timeOrNever(one.lastDeliveredAt, now),
          },
          { label: 'Last failed', look: 'nowrap', cell: ({ one }) => timeOrNever(one.lastFailedAt, now) },
          {
            ...ACTIONS,
            cell: ({ one }) => mayReplay(context.operator) && subscriberActions(topic.topic, one, context),
          },
        ],
        rows: topic.subscribers.map((one) => ({
          one,
          counts: one,
          of: `of ${one.subscriber}`,
          deadLettersOf: { topic: topic.topic, subscriber: one.subscriber },
        })),
      }),
    ),
  });
}

function subscriberActions(topic: string, one: SubscriberOverview, context: PageContext): Html {
  const { subscriber, deadLettered, paused, pause } = one;
  return html`<div class="acts">
    ${deadLettered > 0 && one.inCatalog && replayLinkTo({ topic, subscriber }, `to ${subscriber}`, { topic, subscriber, since: ALL_TIME }, context)}
    ${one.outage && actionForm('probe', { subscriber }, { of: subscriber }, context)}
    ${paused ? actionForm('resume', { subscriber }, { of: subscriber, hidden: { topic: pause?.topic ?? null } }, context) : one.inCatalog && pauseForm(subscriber, topic, context)}
    ${!one.inCatalog && retireLink(subscriber, topic)}
  </div>`;
}

function timeOrNever(instant: string | null, now: string): Html {
  return instant === null ? html`<span class="muted">never</span>` : timeAndAgo(instant, now);
}

function heldSection(view: TopicView, context: PageContext): Html | null {
  const { heldLanes: lanes, topic, generatedAt: now } = view;
  const paused = topic.subscribers.filter((one) => one.paused);
  const silent = topic.subscribers.filter(({ outage }) => outage !== null);
  const isOf =
    ({ subscriber: name }: HeldLane) =>
    ({ subscriber }: SubscriberOverview) =>
      subscriber === name;
  const holds = (lane: HeldLane) =>
    paused.some(isOf(lane)) ? 'pause' : silent.some(isOf(lane)) ? 'outage' : null;
  const none = paused.some(({ failing }) => failing > 0)
    ? 'The failing deliveries are retried when their subscriber is resumed.'
    : 'Retrying. The result appears here in seconds.';
  const name = (lane: HeldLane) => inConsole(laneName(lane, view));
  return heldLanesSection({ lanes, now, name, holds }, topic.failing === 0 ? null : none, context);
}

function errorsSection({ errors, generatedAt }: TopicView, context: PageContext): Html | null {
  if (errors.length === 0) return null;
  return section({
    id: 'errors',
    title: 'Dead letters by error',
    content: errorGroupTable({ groups: errors, generatedAt, window: null }, context),
  });
}

function eventsSection({ events, topic, generatedAt }: TopicView): Html {
  return section({
    id: 'events',
    title: 'Recent events',
    hint: html`newest first · <a href="${eventsPath({ topic: topic.topic })}">all of them</a>`,
    content: card(
      events.length === 0 ? emptyLine('No events yet.') : eventTable(topic.topic, events, generatedAt),
    ),
  });
}

function eventTable(topic: string, events: readonly RecentEvent[], now: string): Html {
  return table({
    name: 'Recent events',
    caption: `The newest events of ${topic}`,
    columns: [
      {
        label: 'Event',
        look: 'nowrap',
        cell: ({ eventId }) =>
          html`<a class="mono" href="${eventPath(eventId)}" title="${eventId}">${shortId(eventId)}</a>`,
      },
      { label: 'About', look: 'nowrap', cell: ({ subject }) => subject ?? NONE },
      {
        label: 'Ordering key',
        look: 'mono wrap',
        cell: ({ orderingKey }) =>
          orderingKey === ''
            ? NONE
            : html`<a href="${eventsWithPath(orderingKey)}">${visibleName(orderingKey)}</a>`,
      },
      { label: 'Recorded', look: 'nowrap', cell: ({ createdAt }) => timeAndAgo(createdAt, now) },
      { label: 'State', tone: 'end', look: 'nowrap', cell: ({ state }) => stateLabel(state) },
    ],
    rows: events,
  });
}

const NONE = html`<span class="muted">–</span>`;
