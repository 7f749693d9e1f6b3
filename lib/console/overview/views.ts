import * as z from 'zod';

import { alertTargets, targetsOf } from '../alerts/read.ts';
import { readOpenIncidents } from '../incidents/read.ts';
import { byLink, shapesIn } from '../kit/filters.ts';
import {
  HOME,
  ALL_TIME,
  ALL_TOPICS,
  alertsPath,
  asyncApiPath,
  deadLettersPath,
  doctorPath,
  incidentsPath,
  subscriberPath,
  topicPath,
} from '../kit/links.ts';
import { view as viewOf } from '../kit/view.ts';
import { overview, readOverview, shownTopics } from './read.ts';
import { html } from '../../platform/markup.ts';
import { channelWords } from '../alerts/actions.ts';
import type { AlertTargets } from '../alerts/read.ts';
import { incidentItems, owedTitle } from '../incidents/doc.ts';
import { does, leads, replays } from '../kit/doc.ts';
import type { Alert, Block, Doc } from '../kit/doc.ts';
import {
  below,
  counted,
  inConsole,
  link,
  linked,
  pageLinks,
  say,
  strong,
  subscriberPhrase,
  when,
} from '../kit/document.ts';
import type { Facts, List, OperatorNames, Phrase } from '../kit/document.ts';
import { pauseSentence } from '../kit/pauses.ts';
import { age, ago, count, deliveriesWait, joinNames, quantity } from '../kit/words.ts';
import { hoursChart } from './hours-chart.ts';
import { isBusy, isLate, isTroubled, isUnknownToRelease, standingColumns, worstFirst } from './standing.ts';
import type { Stands } from './standing.ts';
import type { BusCounts, Overview, TopicOverview } from './read.ts';

const overviewFilters = {
  show: byLink(shownTopics.optional(), { value: '<all>', help: 'all: quiet topics too' }),
};

type Shown = Overview & { readonly alerts: AlertTargets };

/** Says how the bus is: the worst trouble, the totals, and the topics that need attention. */
export function overviewDoc(view: Shown, names: OperatorNames): Doc {
  const { topics, generatedAt: at, show } = view;
  const sorted = worstFirst(topics);
  const shown = show === 'all' ? sorted : sorted.filter(isBusy);
  const quiet = sorted.length - shown.length;
  const subscribers = new Set(topics.flatMap((one) => one.subscribers.map(({ subscriber }) => subscriber)));
  return {
    title: 'Overview',
    lead: `${quantity(topics.length, 'topic')}, ${quantity(subscribers.size, 'subscriber')}. A delivery is one event on its way to one subscriber.`,
    section: 'overview',
    at,
    alerts: troublesOf(view, names),
    acts: [does('smoke-test', {}, { of: null }, ['To send a test event through the bus', 'smoke'])],
    blocks: [
      incidentsBlock(view, 'happening', names),
      incidentsBlock(view, 'owed', names),
      { id: 'deliveries', title: 'Deliveries of all topics', facts: factsOf(view) },
      {
        id: 'topics',
        title: 'Topics',
        hint: say`worst first; topics count events, subscribers count deliveries${othersPhrase(show, quiet)}`,
        list: topicList(shown, at, names),
        acts: ({ topic, subscriber, deadLettered, inCatalog }: Row) => [
          subscriber !== undefined &&
            deadLettered > 0 &&
            inCatalog &&
            replays({ topic, subscriber }, `of ${subscriber} on ${topic}`, {
              topic,
              subscriber,
              since: ALL_TIME,
            }),
        ],
        empty: { title: 'No topic needs attention' },
      },
      { id: 'hours', drawn: () => hoursChart(view) },
    ],
    next: [
      quiet > 0 && ['To list the quiet topics too', 'topics --show all'],
      ['How one topic is', 'topic <topic>'],
    ],
  };
}

/** Says how many topics are left out, and leads to all of them, or back. */
function othersPhrase(show: Overview['show'], quiet: number): Phrase | false {
  if (show === 'all') return inConsole(html`; <a href="${HOME}#topics">only those that need attention</a>`);
  return (
    quiet > 0 &&
    say`; ${quantity(quiet, 'quiet topic')} not shown${inConsole(html`: <a href="${ALL_TOPICS}#topics">all topics</a>`)}`
  );
}

type Row = Stands & { readonly topic: string; readonly of: TopicOverview };

/** Topics with their events, and below each its subscribers that need attention. */
function topicList(topics: readonly TopicOverview[], now: string, names: OperatorNames): List<Row> {
  const { state, pending, oldestDue, failing, deadLetters } = standingColumns(now, names);
  return {
    name: 'Topics',
    columns: [
      { label: 'Topic', isRowHeader: true, cell: nameOf },
      pending,
      oldestDue,
      failing,
      deadLetters,
      state,
    ],
    rows: topics.flatMap((of) => {
      const { topic } = of;
      return [{ ...of, of }, ...of.subscribers.filter(isTroubled).map((one) => ({ ...one, topic, of }))];
    }),
    rowLook: ({ subscriber }) => (subscriber === undefined ? 'r' : 'r sub'),
  };
}

function nameOf({ topic, subscriber, of }: Row): Phrase {
  if (subscriber !== undefined) return { ...subscriberPhrase(subscriber), text: `  ${subscriber}` };
  const about = `${of.producer}${of.producer && ' → '}${quantity(of.subscribers.length, 'subscriber')}`;
  return { html: [link(topicPath(topic), topic, 't').html, below(about).html], text: topic };
}

function factsOf({ totals, hours, relay, generatedAt: now, alerts }: Shown): Facts {
  const { pending, failing, deadLettered } = totals.deliveries;
  const died = hours.deadLettered.reduce((sum, number) => sum + number, 0);
  const lag = relay.lagSeconds > 0 ? `${age(relay.lagSeconds)} behind` : 'nothing due';
  const ran = relay.lastPassAt === null ? 'never run' : `last run ${ago(relay.lastPassAt, now)}`;
  const channels = alerts.channels.map(({ channel, to }) => `${channelWords(channel)} to ${to}`);
  return [
    ['Pending', counted(pending)],
    ['Failing', counted(failing, 'yellow')],
    [
      'Dead letters',
      deadLettered === 0
        ? counted(0)
        : linked(deadLettersPath(), `${count(deadLettered)} of ${quantity(totals.deadLettered, 'event')}`),
    ],
    ['In 24 hours', `${count(totals.deliveredLast24h)} delivered, ${count(died)} dead-lettered`],
    ['Relay', `${ran}, ${relay.runsHere ? lag : 'not by this deployment'}`],
    ['Alerts', linked(alertsPath(), joinNames(channels) || 'nobody is notified')],
    ['See also', pageLinks([doctorPath(), 'Doctor'], [asyncApiPath(), 'AsyncAPI document of all topics'])],
  ];
}

/** Incidents of a state that the overview shows; the others are a click away. */
const SHOWN = { happening: 5, owed: 3 } as const;

function incidentsBlock(view: Shown, state: keyof typeof SHOWN, names: OperatorNames): Block | false {
  const found = view.incidents.filter((incident) => incident.state === state).slice(0, SHOWN[state]);
  const all = view.incidentCounts[state];
  const words = all > found.length ? `all ${count(all)} incidents` : quantity(all, 'incident');
  return (
    found.length > 0 && {
      id: state,
      title: state === 'owed' ? owedTitle(view.incidents) : 'Happening now',
      hint: linked(`${incidentsPath()}#${state}`, words),
      items: incidentItems(found, view.generatedAt, names),
    }
  );
}

/**
 * Says all that is wrong beside the incidents, the worst first: a relay that does not run; a topic that is held back or
 * late; pauses; deliveries that wait for another release; an old snapshot. None hides another.
 */
function troublesOf(view: Shown, names: OperatorNames): readonly Alert[] {
  const found = [
    relayTrouble(view),
    lateTrouble(view),
    ...pausedTroubles(view, names),
    releaseTrouble(view),
    snapshotTrouble(view),
  ];
  const alerts = found.filter((one) => one !== null);
  const { failing, deadLettered } = view.totals.deliveries;
  if (alerts.length + view.incidents.length + failing + deadLettered > 0) return alerts;
  const words = say`${strong('All quiet.')} Nothing is failing and nothing is dead-lettered.`;
  return [{ tone: 'ok', words }];
}

function relayTrouble({ relay, generatedAt: now }: BusCounts): Alert | null {
  const { state, lastPassAt, runsHere } = relay;
  // A deployment that does not relay, such as a preview, says so first: its waiting deliveries are no trouble.
  if (!runsHere) {
    const other =
      state === 'running'
        ? say`Another deployment delivers from this database; its relay ran last at ${when(lastPassAt ?? now, now)}.`
        : 'No other deployment delivers from this database either, so events wait.';
    const words = say`${strong('This deployment does not run the relay.')} ${other} To deliver from here, set ${code('RELAY=on')}.`;
    return { tone: 'fail', words };
  }
  if (state === 'running') return null;
  const title =
    lastPassAt === null
      ? 'The relay has never run.'
      : say`The relay has not run since ${when(lastPassAt, now)}.`;
  const words = say`${strong(title)} Events are saved but not delivered. Check the cron that calls ${code('/api/cron/relay')} every minute, and the response it gets.`;
  return { tone: 'dead', words };
}

function code(text: string): Phrase {
  return { html: html`<code>${text}</code>`, text };
}

function lateTrouble({ topics, generatedAt: now }: BusCounts): Alert | null {
  const held = topics.find(({ heldBackSince }) => heldBackSince !== null);
  const [late] = topics.toSorted(
    (one, other) => (other.oldestDueAgeSeconds ?? 0) - (one.oldestDueAgeSeconds ?? 0),
  );
  const topic = held ?? late;
  if (!held && !isLate(late?.oldestDueAgeSeconds)) return null;
  const words = held
    ? say`${strong(`${held.topic} is held back`)} since ${when(held.heldBackSince!, now)} by an open transaction of its producer.`
    : say`${strong(`${topic!.topic} is late.`)} Its oldest delivery has been due for ${age(topic!.oldestDueAgeSeconds!)}.`;
  return { tone: 'fail', words, act: opens(topic!.topic) };
}

/** Says each pause. A subscriber that is paused for all its topics is paused once. */
function pausedTroubles({ topics, generatedAt: now }: BusCounts, names: OperatorNames): readonly Alert[] {
  const all = topics.flatMap(({ subscribers }) => subscribers);
  const pauses = new Map(
    all.flatMap(({ subscriber, pause }) =>
      pause ? [[`${subscriber} ${pause.topic}`, { ...pause, subscriber }] as const] : [],
    ),
  );
  return Array.from(pauses.values(), (made) => {
    const { subscriber } = made;
    const command = ['To resume it', `subscriber ${subscriber}`] as const;
    const act = leads(subscriberPath(subscriber), 'Open subscriber', subscriber, command);
    return { tone: 'fail', words: pauseSentence(made, now, names), act };
  });
}

function releaseTrouble({ topics }: BusCounts): Alert | null {
  const waiting = topics.flatMap(({ topic, subscribers }) =>
    subscribers.filter(isUnknownToRelease).map(({ pending }) => ({ topic, pending })),
  );
  const number = waiting.reduce((sum, { pending }) => sum + pending, 0);
  if (number === 0) return null;
  const words = say`${strong(`${deliveriesWait(number)} for another release.`)} This release’s catalog lacks the subscription or the payload version.`;
  return { tone: 'fail', words, act: opens(waiting[0]!.topic) };
}

function snapshotTrouble({ oldestSnapshot: found }: BusCounts): Alert | null {
  return found === null ? null : { tone: 'fail', words: say`${strong('Dead rows pile up.')} ${found}` };
}

function opens(topic: string) {
  return leads(topicPath(topic), 'Open topic', topic, ['To see why', `topic ${topic}`]);
}

export const showOverview = viewOf({
  id: 'readOverview',
  path: HOME,
  summary: 'See how many events are in each state, and why deliveries wait',
  query: z.object(shapesIn(overviewFilters)),
  answer: overview
    .extend({ alerts: alertTargets })
    .meta({ id: 'Overview', description: 'The bus at one moment.' }),
  problems: ['validation_failed'],
  handle: async ({ bus, query: { show = 'attention' } }) => {
    const db = await bus.database();
    const [counts, open] = await Promise.all([
      readOverview(db, bus.subscribers(), undefined, bus.relays()),
      readOpenIncidents(db),
    ]);
    return { ...counts, ...open, show, alerts: targetsOf(bus.alerts()) };
  },
  says: overviewDoc,
  command: {
    name: 'topics',
    summary: 'show what goes wrong, and pending, failing and dead-lettered events by topic',
    notes: [
      'Shows what the console’s overview shows: incidents, the relay, and the topics that have pending events or need attention, the worst first.',
      'A topic counts events, each in the worst state of its deliveries. A subscriber counts its deliveries.',
    ],
    filters: overviewFilters,
    examples: [
      ['topics', 'the topics that need attention'],
      ['topics --show all', 'all topics'],
      ['topics --json | jq .totals', 'the totals, for a script'],
    ],
  },
});

export const overviewViews = [showOverview];
