import { html } from '../../platform/markup.ts';
import { silenceWords } from '../incidents/outage.ts';
import { below, countColumn, muted, say, subscriberPhrase, toMinute, when } from '../kit/document.ts';
import type { List, Part, Phrase, Style } from '../kit/document.ts';
import { CHECK_ICON, CLOCK_ICON, PAUSE_ICON, RETRY_ICON, SILENT_ICON } from '../kit/icons.ts';
import { until } from '../kit/instants.ts';
import { deadLettersPath } from '../kit/links.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { pauseClause } from '../kit/pauses.ts';
import { count } from '../kit/words.ts';
import type { SubscriberStanding, SubscriberStandings } from './standing.ts';

/** All subscribers, those in trouble first. */
export function standingList(
  { items, generatedAt: now }: SubscriberStandings,
  names: OperatorNames,
): List<SubscriberStanding> {
  return {
    name: 'Subscribers',
    caption: 'Subscribers, those in trouble first',
    columns: [
      {
        label: 'Subscriber',
        isRowHeader: true,
        cell: (one) => say`${subscriberPhrase(one.subscriber)}${{ ...below(placeWords(one)), text: '' }}`,
      },
      { label: 'Runs', only: 'terminal', terminal: { isFlexible: true, leftOut: 'late' }, cell: placeWords },
      {
        label: 'State',
        look: 'message',
        cell: (one) => {
          const state = statePhrase(one);
          return { ...state, html: [state.html, whyOf(one, now, names).map((why) => below(why).html)] };
        },
      },
      countColumn('Pending', ({ pending }) => pending),
      countColumn('Failing', ({ failing }) => failing, { style: 'yellow' }),
      {
        ...countColumn('Dead letters', ({ deadLettered }) => deadLettered, { title: 'dead' }),
        cell: deadLetterPhrase,
      },
      {
        label: 'Last delivered',
        look: 'nowrap',
        terminal: { title: 'delivered' },
        cell: ({ lastDeliveredAt: at }) => orNever(at, now),
      },
      {
        label: 'Last failed',
        look: 'message',
        terminal: { title: 'failed' },
        cell: ({ lastFailedAt: at, lastAnswer }) => {
          const phrase = orNever(at, now);
          return { ...phrase, html: [phrase.html, below(lastAnswer).html] };
        },
      },
    ],
    rows: items,
  };
}

/** Where it runs: `here`, `at ledger.example.com`, `a stand-in`, `not attached`; and how many topics of it do not. */
export function placeWords({ place, host, topics, inCatalog }: SubscriberStanding): string {
  if (!inCatalog) return 'not in this release’s catalog';
  if (place === 'unattached') return 'not attached';
  const { listed, attached, standIns } = topics;
  if (standIns > 0 && standIns === attached) return 'a stand-in';
  const where = host === null ? 'here' : `at ${host}`;
  const own = attached - standIns;
  return [
    where,
    own < listed && `${count(own)} of ${count(listed)} topics`,
    standIns > 0 && `a stand-in has ${count(standIns)}`,
  ]
    .filter(Boolean)
    .join(', ');
}

type Look = readonly [tone: string, icon: Phrase['html'], style: Style, mark: string];

const LOOKS: Readonly<Record<StateWord, Look>> = {
  delivering: ['ok-t', CHECK_ICON, 'green', '✓'],
  ready: ['', CHECK_ICON, 'dim', '·'],
  failing: ['fail-t', RETRY_ICON, 'yellow', '!'],
  outage: ['dead-t', SILENT_ICON, 'red', '✗'],
  paused: ['fail-t', PAUSE_ICON, 'yellow', '!'],
  unattached: ['', CLOCK_ICON, 'dim', '·'],
};

/** The state by a shape, a word and a colour. */
export function statePhrase(one: Parameters<typeof stateWord>[0]): Phrase {
  const word = stateWord(one);
  const [tone, icon, style, mark] = LOOKS[word];
  return { html: html`<span class="state ${tone}">${icon}${word}</span>`, text: `${mark} ${word}`, style };
}

/** Its state in a word: who was never delivered anything is ready. */
export function stateWord({
  state,
  lastDeliveredAt,
}: Pick<SubscriberStanding, 'state' | 'lastDeliveredAt'>): StateWord {
  return state === 'delivering' && lastDeliveredAt === null ? 'ready' : state;
}

/** In the order of the list. */
export const STATE_WORDS = ['outage', 'failing', 'paused', 'delivering', 'ready', 'unattached'] as const;
type StateWord = (typeof STATE_WORDS)[number];

/** Until when its limit holds deliveries back, and how long that is. @returns null where it does not. */
export function limitPhrase({ limited }: SubscriberStanding, now: string): Phrase | null {
  if (limited === null) return null;
  const { limit, until: through } = limited;
  return through === null
    ? say`rate_limited: ${limit}, and so many are being delivered`
    : say`rate_limited until ${when(through, now)}: at ${limit} all that waits is through ${until(through, now)}`;
}

/** Whose pause holds its deliveries, since when it is silent, and which limit it is at. */
function whyOf(one: SubscriberStanding, now: string, names: OperatorNames): readonly Phrase[] {
  const { pauses, outage } = one;
  const limit = limitPhrase(one, now);
  return [
    ...pauses.map(
      (pause) => say`${pause.topic}${pause.topic !== null && ' '}${pauseClause(pause, now, names)}`,
    ),
    ...(outage
      ? [
          say`${silenceWords(outage.kind)} since ${toMinute(outage.since, now)}; next probe ${until(outage.nextProbeAt, now)}`,
        ]
      : []),
    ...(limit ? [limit] : []),
  ];
}

/** The number of dead letters, linked to their list. */
export function deadLetterPhrase({ subscriber, deadLettered: dead }: SubscriberStanding): Part {
  if (dead === 0) return muted('0');
  return {
    html: html`<a class="n dead" href="${deadLettersPath({ subscriber })}"
      >${count(dead)}<span class="vh"> dead letters of ${subscriber}</span></a
    >`,
    text: count(dead),
    style: 'red',
  };
}

export function orNever(at: string | null, now: string): Phrase {
  return at === null ? muted('never') : when(at, now);
}
