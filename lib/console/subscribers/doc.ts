import { heldLanesBlock } from '../held-lanes/held-lanes.ts';
import { incidentItems } from '../incidents/doc.ts';
import { retireLink } from '../kit/actions.ts';
import { byReplay, does, leads } from '../kit/doc.ts';
import type { Doc, Suggestion } from '../kit/doc.ts';
import {
  below,
  countColumn,
  counted,
  link,
  mono,
  pageLinks,
  say,
  strong,
  statePhrase,
  styled,
  subscriberPhrase,
  when,
} from '../kit/document.ts';
import type { Facts, List, OperatorNames, Phrase } from '../kit/document.ts';
import { backfillPath, replaysPath, subscribersPath, topicPath } from '../kit/links.ts';
import { silenceWords, pauseSentence } from '../kit/pauses.ts';
import { PLACE_WORDS, uncommonOptions, waitingWords } from '../kit/subscription.ts';
import { age, deliveriesWait, numbers, quantity, until } from '../kit/words.ts';
import type { ShownSubscriber, ShownSubscription } from './read.ts';
import type { SubscriberStanding, SubscriberStandings } from './standing.ts';
import { deadLetterPhrase, limitPhrase, orNever, standingColumns, stateWord } from '../overview/standing.ts';

/** Says of all subscribers where each runs, how it is, what waits, and what ends what holds it. */
export function subscribersDoc(view: SubscriberStandings, names: OperatorNames): Doc {
  const { items, generatedAt: at } = view;
  const words = [...new Set(items.map(stateWord))];
  const states = words.map((word) => [items.filter((one) => stateWord(one) === word).length, word] as const);
  const { state, pending, failing, deadLetters, lastDelivered, lastFailed } = standingColumns(at, names);
  return {
    title: 'Subscribers',
    lead: `${quantity(items.length, 'component')} that receive events: ${numbers(states).join(', ')}.`,
    section: 'subscribers',
    at,
    blocks: [
      {
        id: 'list',
        list: {
          name: 'Subscribers',
          columns: [
            {
              label: 'Subscriber',
              isRowHeader: true,
              cell: (one: SubscriberStanding) =>
                say`${subscriberPhrase(one.subscriber)}${below(placeWords(one), ', ')}`,
            },
            state,
            pending,
            failing,
            deadLetters,
            lastDelivered,
            lastFailed,
          ],
          rows: items,
        },
        acts: ({ subscriber, pauses, outage }: SubscriberStanding) => [
          ...pauses.map((pause) => resumes(subscriber, pause)),
          outage && probes(subscriber),
        ],
      },
    ],
    next: [['Whose pause it is, what it said last, and what to do', 'subscriber <name>']],
  };
}

/** Says how one subscriber is, and what can be done. */
export function subscriberDoc(view: ShownSubscriber, names: OperatorNames): Doc {
  const { subscriber, generatedAt: at, subscriptions } = view;
  const {
    items: [one],
    incidents: [incident],
  } = view;
  const left = subscriptions.find(({ inCatalog }) => !inCatalog);
  const isPaused = one.pauses.some((pause) => pause.topic === null);
  return {
    title: mono(subscriber),
    lead: 'A component that receives events.',
    section: 'subscribers',
    at,
    back: [subscribersPath(), 'Subscribers'],
    alerts: [
      ...one.pauses.map((pause) => ({
        tone: 'fail' as const,
        words: pauseSentence({ subscriber, ...pause }, at, names),
        act: resumes(subscriber, pause),
      })),
      one.outage && {
        tone: 'dead',
        words: outageSentence(one, one.outage, at),
        act: probes(subscriber),
      },
    ],
    acts: [
      one.place !== 'unattached' &&
        !isPaused &&
        does(
          'smoke-test',
          {},
          { of: `to ${subscriber}`, hidden: { subscriber }, button: 'Send a test event' },
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
      heldLanesBlock(view.heldLanes, at),
      {
        id: 'options',
        title: 'Subscriptions',
        hint: `where each topic is handled, and the options that differ from the defaults${left ? '. No relay of this release delivers what its catalog does not list: retire it, or backfill the name that it has now' : ''}`,
        list: subscriptionList(view),
        acts: ({ topic: of, inCatalog }: ShownSubscription) => [
          inCatalog
            ? leads(
                backfillPath({ topic: of, subscriber, since: '30d' }),
                'Backfill…',
                `${of} to ${subscriber}`,
              )
            : byReplay(() => retireLink(subscriber, of)),
          inCatalog &&
            !one.pauses.some(({ topic: paused }) => paused === null || paused === of) &&
            does(
              'pause',
              { subscriber },
              {
                of: `${of} to ${subscriber}`,
                hidden: { topic: of },
                submit: 'Pause this topic',
              },
            ),
        ],
      },
    ],
    next: [
      incident && ['The way out of what goes wrong', `incidents ${incident.incidentId}`],
      left && ['If nobody needs it any more', `retire ${subscriber}${on(left.topic)} --reason <text>`],
    ],
  };
}

/** Where it runs: `here`, `at ledger.example.com`, `a stand-in`, `not attached`. */
function placeWords({ place, host, standIn, inCatalog }: SubscriberStanding): string {
  if (!inCatalog) return 'not in this release’s catalog';
  if (place === 'unattached') return 'not attached';
  return standIn ? 'a stand-in' : host === null ? 'here' : `at ${host}`;
}

/** How the subscriber is now, and where what was done to it is listed. */
function standingFacts({
  items: [one],
  subscriber,
  waitsForSeconds,
  generatedAt: now,
}: ShownSubscriber): Facts {
  const { pending, failing, limited, lastAnswer } = one;
  const failed = orNever(one.lastFailedAt, now);
  return [
    ['State', statePhrase(stateWord(one))],
    ['Runs', placeWords(one)],
    limited && ['Limit', limitPhrase(limited, now)],
    ['Pending', counted(pending)],
    ['Failing', counted(failing, 'yellow')],
    ['Waits longest', ageWords(waitsForSeconds)],
    ['Dead letters', deadLetterPhrase(one)],
    ['Last delivered', orNever(one.lastDeliveredAt, now)],
    ['Last failed', lastAnswer === null ? failed : say`${failed}${below(lastAnswer, ': ')}`],
    ['Operators’ actions', pageLinks([replaysPath({ subscriber }), 'the operator log'])],
  ];
}

/** Says since when it does not answer, what waits, and when it is probed. */
export function outageSentence(
  { subscriber, pending, failing }: SubscriberStanding,
  { kind, since, probes: tried, nextProbeAt }: NonNullable<SubscriberStanding['outage']>,
  now: string,
): Phrase {
  const silent = strong(say`${subscriber} ${silenceWords(kind)} since ${when(since, now)}.`);
  const probed = tried > 0 && `, ${quantity(tried, 'probe')} without an answer`;
  return say`${silent} ${deliveriesWait(pending + failing)}, without using up attempts. Next probe ${until(nextProbeAt, now)}${probed}.`;
}

/** Where and how it receives each topic. */
function subscriptionList({ subscriptions }: ShownSubscriber): List<ShownSubscription> {
  return {
    name: 'Subscriptions',
    columns: [
      { label: 'Topic', isRowHeader: true, cell: ({ topic }) => link(topicPath(topic), topic) },
      countColumn('Waiting', ({ waiting }) => waiting),
      countColumn('Dead letters', ({ deadLettered }) => deadLettered),
      {
        label: 'Runs',
        cell: ({ place, inCatalog }) =>
          inCatalog ? PLACE_WORDS[place] : styled('yellow', 'not in this release’s catalog'),
      },
      {
        label: 'Options',
        look: 'wrap',
        cell: (one) =>
          !one.inCatalog
            ? null
            : one.options === null
              ? waitingWords(one)
              : uncommonOptions(one).join(', ') || 'defaults',
      },
    ],
    rows: subscriptions,
  };
}

function resumes(subscriber: string, { topic }: SubscriberStanding['pauses'][number]) {
  const of = `${subscriber} for ${topic ?? 'all its topics'}`;
  const command: Suggestion = ['To resume it', `resume ${subscriber}${on(topic)}`];
  return does('resume', { subscriber }, { of, hidden: { topic } }, command);
}

function probes(subscriber: string) {
  return does('probe', { subscriber }, { of: subscriber }, ['To probe it now', `probe ${subscriber} --wait`]);
}

function on(topic: string | null): string {
  return topic === null ? '' : ` --topic ${topic}`;
}

function ageWords(seconds: number | null): string {
  return seconds === null ? 'none' : age(seconds);
}
