import { gapsSection } from '../backfills/gaps-section.ts';
import { heldLanesBlock } from '../held-lanes/block.ts';
import { incidentItems } from '../incidents/list.ts';
import { html } from '../../platform/markup.ts';
import { does } from '../kit/doc.ts';
import type { Block, Doc, Suggestion } from '../kit/doc.ts';
import { mono } from '../kit/document.ts';
import { byTopic } from '../kit/filters.ts';
import type { Filters } from '../kit/filters.ts';
import { PAUSE_ICON, SILENT_ICON } from '../kit/icons.ts';
import { backfillsPath, replaysPath, subscriberPath, subscribersPath } from '../kit/links.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { pauseSentence } from '../kit/pauses.ts';
import { topicField } from '../kit/select.ts';
import { numbers, quantity } from '../kit/words.ts';
import { chartsOf } from './charts.ts';
import { healthFacts, heldOf, outageSentence, standingFacts } from './facts.ts';
import { healthFilters, spanWords } from './figures.ts';
import { leavingSection } from './leaving.ts';
import { actionList, subscriptionList, valueList } from './lists.ts';
import type { SubscriberHealth } from './read.ts';
import { STATE_WORDS, standingList, stateWord } from './standing-list.ts';
import type { SubscriberStanding, SubscriberStandings } from './standing.ts';

/** Says of all subscribers where each runs, how it is, what waits, and what ends what holds it. */
export function subscribersDoc(view: SubscriberStandings, names: OperatorNames): Doc {
  const { items, generatedAt: at } = view;
  const states = STATE_WORDS.map((word) => {
    const number = items.filter((one) => stateWord(one) === word).length;
    return [number, word === 'outage' ? 'in an outage' : word] as const;
  });
  return {
    title: 'Subscribers',
    lead: `${quantity(items.length, 'component')} that receive events: ${numbers(states).join(', ')}.`,
    section: 'subscribers',
    at,
    blocks: [
      {
        id: 'list',
        list: standingList(view, names),
        acts: ({ subscriber, pauses, outage }: SubscriberStanding) => [
          ...pauses.map((pause) => resumes(subscriber, pause)),
          outage && probes(subscriber),
        ],
      },
    ],
    next: [['Whose pause it is, what it said last, and what to do', 'subscriber <name>']],
  };
}

/** Says how one subscriber is, what can be done, and how it did over time. */
export function subscriberDoc(view: SubscriberHealth, names: OperatorNames): Doc {
  const { subscriber, topics, generatedAt: at, topic, span } = view;
  const [one] = view.items;
  const silence = outageSentence(view);
  const isPaused = one.pauses.some((pause) => pause.topic === null);
  const isTested = one.place !== 'unattached' && !isPaused;
  return {
    title: mono(subscriber),
    lead: 'A component that receives events.',
    section: 'subscribers',
    at,
    refreshSeconds: 60,
    back: [subscribersPath(), 'Subscribers'],
    alerts: [
      ...one.pauses.map((pause) => ({
        tone: 'fail' as const,
        icon: PAUSE_ICON,
        words: pauseSentence({ subscriber, ...pause }, at, names),
        act: resumes(subscriber, pause),
      })),
      silence && { tone: 'dead', icon: SILENT_ICON, words: silence, act: probes(subscriber) },
    ],
    acts: [
      isTested &&
        does(
          'smoke-test',
          {},
          { of: html`to ${subscriber}`, hidden: { subscriber }, button: 'Send a test event' },
          ['To send it a test event', `smoke ${subscriber}`],
        ),
      one.inCatalog &&
        !isPaused &&
        does('pause', { subscriber }, { of: subscriber }, [
          'To pause it',
          `pause ${subscriber} --reason <text>`,
        ]),
    ],
    blocks: [
      { id: 'now', title: 'Now', facts: standingFacts(view) },
      { id: 'incidents', items: incidentItems(view.incidents, at, names) },
      heldLanesBlock(heldOf(view), null),
      { id: 'leaving', drawn: (context) => leavingSection(view, context) },
      ...healthBlocks(view),
      { id: 'older-events', drawn: () => gapsSection({ gaps: view.gaps, isOfTopic: false, now: at }) },
      view.subscriptions.length > 0 && {
        id: 'options',
        title: 'Subscriptions',
        hint: 'where each topic is handled, and the options that differ from the defaults',
        list: subscriptionList(view),
      },
      {
        id: 'actions',
        title: 'Operators’ actions',
        hint: 'newest first',
        list: actionList(view, names),
        empty: { title: 'No replays, pauses, resumes, retries, skips or dismissals in this time' },
        below: () =>
          html`<p class="muted small note">
            Actions on all subscribers: <a href="${replaysPath()}">the operator log</a>. Its
            <a href="${backfillsPath({ subscriber })}">backfills</a>.
          </p>`,
      },
    ],
    filters: {
      path: subscriberPath(subscriber),
      by: filtersAmong(topics),
      values: { topic, span: span === 'days' ? span : null },
    },
    next: nextSteps(view),
  };
}

/** How it did over time: is it keeping up? */
function healthBlocks(view: SubscriberHealth): readonly Block[] {
  const { topic, topics, span } = view;
  const of = topic ?? quantity(topics.length, 'topic');
  const zone = span === 'days' ? ' A day begins at midnight UTC.' : '';
  return [
    {
      id: 'health',
      title: `Health, ${spanWords(span)}`,
      hint: `${of}; counts are approximate and a few seconds late, and replays are counted apart.${zone}`,
      facts: healthFacts(view),
    },
    { id: 'over-time', drawn: () => chartsOf(view) },
    { id: 'values', list: valueList(view), folded: 'The values as a table' },
  ];
}

function resumes(subscriber: string, { topic }: SubscriberStanding['pauses'][number]) {
  const of = `${subscriber} for ${topic ?? 'all its topics'}`;
  const command: Suggestion = ['To resume it', `resume ${subscriber}${on(topic)}`];
  return does('resume', { subscriber }, { of, hidden: { topic } }, command);
}

function probes(subscriber: string) {
  return does('probe', { subscriber }, { of: subscriber }, ['To probe it now', `retry ${subscriber} --wait`]);
}

function on(topic: string | null): string {
  return topic === null ? '' : ` --topic ${topic}`;
}

/** The filters, with the subscriber's own topics to choose from. */
function filtersAmong(names: readonly string[]): Filters {
  return {
    ...healthFilters,
    topic: { ...byTopic, field: (_, topic) => topicField({ topic, names, all: 'All its topics' }) },
  };
}

/** Names the commands that end what goes wrong, beside those of the actions. */
function nextSteps({ subscriber, items: [one], incidents, heldLanes, unlisted, gaps }: SubscriberHealth) {
  const happening = incidents.find(({ state, topic }) => state === 'happening' && topic !== null);
  const owed = incidents.find(({ owed: letters }) => letters > 0);
  const [left] = unlisted;
  const [gap] = gaps;
  const steps: Doc['next'] = [
    heldLanes.length > 0 &&
      !one.outage && ['Is it well? To try one delivery, at no cost', `probe ${subscriber} --wait`],
    happening && ['When it is fixed', `retry ${happening.incidentId} --wait`],
    owed && [`To replay ${quantity(owed.owed, 'dead letter')}`, `replay --incident ${owed.incidentId}`],
    left && ['If nobody needs it any more', `retire ${subscriber}${on(left.topic)} --reason <text>`],
    gap && ['To deliver older events', `backfill ${subscriber}${on(gap.topic)} --since 30d`],
  ];
  return steps;
}
