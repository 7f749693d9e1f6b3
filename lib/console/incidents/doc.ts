import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import { edgeWords } from '../../components/incidents/edge-failures.ts';
import { timeWords } from '../../components/incidents/times.ts';
import { html } from '../../platform/markup.ts';
import { alertsBlock } from '../alerts/actions.ts';
import { heldLanesBlock } from '../held-lanes/held-lanes.ts';
import { retireLink, pauseAlerts } from '../kit/actions.ts';
import { byReplay, does, leads } from '../kit/doc.ts';
import type { Act, Block, Doc, History, Item } from '../kit/doc.ts';
import {
  errorPhrase,
  inConsole,
  inTerminal,
  mono,
  operatorText,
  say,
  strong,
  styled,
  when,
  pageLinks,
} from '../kit/document.ts';
import type { OperatorNames, Part, Phrase } from '../kit/document.ts';
import { costWords, undeliverableWords } from '../kit/handling.ts';
import {
  ALL_TIME,
  deadLettersPath,
  incidentPath,
  incidentsPath,
  replayPath,
  subscriberPath,
  topicPath,
} from '../kit/links.ts';
import { CLOCK_ICON, emptyCard } from '../kit/sections.ts';
import { ago, until, capitalize, count, countUpTo, quantity, quantityOfLanes } from '../kit/words.ts';
import { entryList } from '../replays/views.ts';
import { setAsideBlock } from './set-aside.ts';
import { shortCause } from './incident.ts';
import type { Incident } from './incident.ts';
import { failingLanes } from './read.ts';
import type { IncidentList, IncidentView } from './read.ts';

/** Says the incidents: those that happen now, those that are over, and closed ones; and where alerts of them go. */
export function incidentsDoc(view: IncidentList, names: OperatorNames): Doc {
  const { items, happening, owed, generatedAt: at, nextCursor, alerts } = view;
  const definition = 'An incident is one error of one subscriber on one topic, or an outage of a subscriber.';
  const of = (state: 'happening' | 'owed' | 'closed') =>
    incidentItems(
      items.filter((one) => one.state === state),
      at,
      names,
    );
  return {
    title: 'Incidents',
    lead: `${count(happening)} happening now, ${count(owed)} ${owedTitle(items).toLowerCase().replace(',', '')}. ${definition}`,
    section: 'incidents',
    at,
    blocks: [
      items.length === 0 && NONE,
      {
        id: 'happening',
        title: 'Happening now',
        hint: 'lanes are blocked and their deliveries wait, or chat fails',
        items: of('happening'),
      },
      { id: 'owed', title: owedTitle(items), hint: 'replay, dismiss or repair', items: of('owed') },
      {
        id: 'closed',
        title: 'Closed',
        hint: 'newest first',
        items: of('closed'),
      },
      alertsBlock(alerts, at),
    ],
    nextCursor,
  };
}

const NONE: Block = {
  id: 'none',
  drawn({ url }) {
    const isFiltered = [...url.searchParams.keys()].length > 0;
    return emptyCard(
      isFiltered ? 'No incidents match these filters' : 'No incidents',
      'Nothing is failing, and no dead letters are left.',
      isFiltered && html`<a class="btn" href="${incidentsPath()}">All incidents</a>`,
    );
  },
  lines: ['No incidents.'],
};

const TONES = { happening: 'dead', owed: 'fail', closed: 'ok' } as const;

/** Says incidents: each with its sentence, its error, which alone tells those of one status apart, and since when it lasts. */
export function incidentItems(incidents: readonly Incident[], now: string, names: OperatorNames): Item[] {
  return incidents.map((incident) => {
    const { incidentId, state, sentence, lastError, acknowledged, paused, inCatalog, outage } = incident;
    const label = `${sentence} ${shortCause(lastError)}`;
    return {
      tone: TONES[state],
      words: {
        html: html`<a class="t" href="${incidentPath(incidentId)}" aria-label="${label}">${sentence}</a>`,
        text: sentence,
      },
      details: [
        errorPhrase(lastError),
        whenPhrase(incident, now),
        outage !== null && !paused && `next probe ${until(outage.nextProbeAt, now)}`,
        acknowledged &&
          say`acknowledged by ${operatorText(acknowledged.by, names)} ${when(acknowledged.at, now)}: ${acknowledged.note}`,
        paused && { html: html`<span class="tag late">${CLOCK_ICON}paused</span>`, text: 'paused' },
        !inCatalog && inConsole(html`<span class="tag">not in this release’s catalog</span>`),
        styled('dim', inTerminal(incidentId)),
      ],
    };
  });
}

/** The title above incidents that block no lane. What the bus set aside is no dead letter. */
export function owedTitle(incidents: readonly Incident[]): string {
  const isOfBus = incidents.some(({ state, subscriber }) => state === 'owed' && subscriber === '');
  return isOfBus ? 'Over, with something left to settle' : 'Over, with dead letters left';
}

/** Says since when an incident lasts, or how long it lasted. */
function whenPhrase(incident: Incident, now: string): Phrase {
  const { openedAt, closedAt, times } = incident;
  const opened = when(openedAt, now);
  if (closedAt !== null) {
    const often = times > 1 ? `, ${times} times` : '';
    return say`from ${opened} until ${when(closedAt, now)}${often}`;
  }
  return say`${times > 1 && `${timeWords(times)} `}since ${opened}, ${ago(openedAt, now)}`;
}

/** Someone watches what moves; the rest changes within minutes. */
const WATCHED_SECONDS = 1;

/** How many lanes one click retries: enough to see whether the subscriber is back. */
export const RETRIED = 20;

/** Says one incident: what is wrong, the way out of it, what it blocks, what it owes, and what was done. */
export function incidentDoc(view: IncidentView, names: OperatorNames): Doc {
  const { incidentId, subscriber, topic, generatedAt: at, state, lanes, blockedLanes, setAside, owed } = view;
  const steps = state === 'closed' ? [] : [firstStep(view), letterStep(view)];
  return {
    title: titleOf(view),
    lead: leadOf(view),
    section: 'incidents',
    at,
    back: [incidentsPath(), 'Incidents'],
    ...(isMoving(view) && { refreshSeconds: WATCHED_SECONDS }),
    alerts: [
      sentenceAlert(view, names),
      (context) => state !== 'closed' && subscriber !== '' && pauseAlerts({ subscriber, topic }, at, context),
    ],
    acts: state === 'closed' ? [] : choices(view),
    blocks: [
      {
        id: 'recovery',
        title: 'When it is fixed',
        histories: subscriber === '' ? [] : steps.filter((one) => one !== null),
      },
      heldLanesBlock(lanes, at, {
        title:
          lanes.length < blockedLanes
            ? `${lanes.length} of ${countUpTo(blockedLanes)} blocked lanes`
            : 'Blocked lanes',
        incidentId,
      }),
      setAside.length > 0 && setAsideBlock(setAside, owed, at),
      {
        id: 'actions',
        title: 'What operators did',
        hint: 'newest first',
        list: entryList(view.actions, at, names),
      },
    ],
    next: setAside.slice(0, 1).map(({ id }) => [`To repair ${id}`, `repair ${id} --reason <text>`]),
  };
}

function leadOf(view: IncidentView): Part {
  const { subscriber, topic, lastError, group, generatedAt: at } = view;
  if (subscriber === '') return whenPhrase(view, at);
  const pages = pageLinks(
    [subscriberPath(subscriber), subscriber],
    ...(topic === null ? [] : ([[topicPath(topic), topic]] as const)),
    [deadLettersPath({ topic, subscriber, group }), 'its dead letters'],
    [incidentsPath({ subscriber }), `all incidents of ${subscriber}`],
  );
  return say`${errorPhrase(lastError)}${inTerminal(',')} ${whenPhrase(view, at)}. ${pages}`;
}

function titleOf({ subscriber, topic, lastError, state }: IncidentView): Doc['title'] {
  const edge = edgeWords(lastError.kind);
  if (edge) return capitalize(edge.title);
  if (subscriber === '')
    return topic === null ? 'The database’s clock was ahead' : `Rows of ${topic} set aside`;
  return topic === null
    ? say`${mono(subscriber)} ${state === 'closed' ? 'did' : 'does'} not answer`
    : say`${mono(subscriber)} on ${mono(topic)}: ${shortCause(lastError)}`;
}

/** Whether something is being delivered that someone waits for. */
function isMoving(view: IncidentView): boolean {
  const { outage, owed, generatedAt: now, paused, state } = view;
  if (paused || state === 'closed') return false;
  if (outage !== null) return outage.nextProbeAt <= now;
  return (
    (state === 'owed' && owed === 0) || failingLanes(view).some(({ nextAttemptAt }) => nextAttemptAt <= now)
  );
}

function sentenceAlert(view: IncidentView, names: OperatorNames) {
  const { state, sentence, acknowledged, generatedAt: now, next } = view;
  const by =
    acknowledged &&
    say` Acknowledged by ${operatorText(acknowledged.by, names)} at ${when(acknowledged.at, now)}: ${acknowledged.note}`;
  const act =
    next !== null &&
    state !== 'owed' &&
    leads(incidentPath(next.incidentId), 'That incident', shortCause(next), [
      'It goes on as another',
      `incidents ${next.incidentId}`,
    ]);
  return { tone: TONES[state], words: say`${strong(sentence)}${by}`, act };
}

/** What can be done with the incident as a whole. */
function choices(view: IncidentView): NonNullable<Doc['acts']> {
  const { incidentId, owed, generatedAt, subscriber, blockedLanes, haltedLanes } = view;
  const what = quantity(owed, 'dead letter');
  const held = blockedLanes - haltedLanes;
  return [
    does('acknowledge-incident', { incidentId }, { of: null }),
    failingLanes(view).length > 1 &&
      does('skip-incident', { incidentId }, { of: null, hidden: { expectedCount: `${held}` } }, [
        `To skip the ${count(held)} deliveries that hold its lanes`,
        `skip ${incidentId} --reason <text>`,
      ]),
    subscriber !== '' &&
      owed > 0 &&
      does(
        'dismiss-incident',
        { incidentId },
        {
          of: null,
          // What dies after the page was drawn is not dismissed.
          hidden: { until: generatedAt, expectedCount: `${owed}` },
          submit: `Dismiss ${what}`,
        },
      ),
  ];
}

function step(title: string, words: string, ...acts: History['acts']): History {
  return { id: `step-${title.toLowerCase().split(' ')[0]}`, title, words: [words], moments: [], acts };
}

/** What lets the blocked lanes go on. */
function firstStep(view: IncidentView): History | null {
  const { incidentId, topic, subscriber, generatedAt: now, paused, inCatalog } = view;
  if (topic === null) return probeStep(view);
  if (!inCatalog)
    return step(
      'Retire',
      undeliverableWords(topic, subscriber, 'not_in_catalog'),
      byReplay(
        () => retireLink(subscriber, topic),
        ['To retire it', `retire ${subscriber} --topic ${topic} --reason <text>`],
      ),
    );
  // A retry is of no use: what waits is tried again by itself, and uses up no attempt.
  if (view.lastError.kind === NEWER_VERSION)
    return step(
      'Install',
      `${view.lastError.message}. What waits follows by itself, in order, and no attempt is used up.`,
    );
  const waiting = view.blockedLanes - view.haltedLanes;
  const lanes = failingLanes(view);
  const [head] = lanes;
  if (waiting === 0 || !head) return null;
  const blocked = `${quantityOfLanes(waiting)} blocked.`;
  const { maxAttempts, deliveryId } = head;
  if (maxAttempts === null)
    return step('Attach', `${blocked} ${undeliverableWords(topic, subscriber, 'unattached')}`);
  const first = quantityOfLanes(waiting);
  const spent = Math.max(...lanes.slice(0, RETRIED).map(({ attempts }) => attempts));
  const cost = `A retry is${lanes.length > 1 ? ' at most' : ''} ${costWords(spent, maxAttempts)}.`;
  const next = paused ? 'after the pause' : until(head.nextAttemptAt, now);
  return step(
    'Retry',
    `${blocked} The next attempt is ${next}. ${cost}${paused ? '' : ' To try one delivery once costs no attempt.'}`,
    does(
      'retry-incident',
      { incidentId },
      {
        of: null,
        look: 'primary',
        button: `Retry ${waiting > RETRIED ? `the first ${RETRIED} of ${first}` : first} now`,
      },
      ['When it is fixed', `retry ${incidentId} --wait`],
    ),
    !paused &&
      does('probe-delivery', { deliveryId }, { of: deliveryId, hidden: { incidentId } }, [
        'Is it fixed? To try one delivery, at no cost',
        `probe ${incidentId} --wait`,
      ]),
  );
}

/** An outage ends when a probe gets through: everything follows in order. */
function probeStep({ outage, subscriber, paused, waiting, generatedAt: now }: IncidentView): History | null {
  if (outage === null) return null;
  const { probes, nextProbeAt } = outage;
  const next = paused ? 'after the pause' : until(nextProbeAt, now);
  return step(
    'Probe',
    `One delivery at a time probes, without using up an attempt. The next probe is ${next}; ${quantity(probes, 'probe')} without an answer so far. When one gets through, ${quantity(waiting, 'delivery')} follow in order.`,
    does('probe', { subscriber }, { of: subscriber, look: 'primary' }, [
      'To probe it now',
      `probe ${subscriber} --wait`,
    ]),
  );
}

/** What settles the dead letters. */
function letterStep(view: IncidentView): History | null {
  const { incidentId, topic, subscriber, owed, blockedLanes, haltedLanes, lanes, inCatalog } = view;
  if (owed === 0 || !inCatalog) return null;
  const what = quantity(owed, 'dead letter');
  if (view.refusesReplays)
    return step(
      'Settle without a replay',
      `${what}. ${subscriber} refuses replays, because it would act twice: it may have acted before it failed. Settle them another way, for example by telling the people concerned, then dismiss them.`,
      { button: () => null, command: ['Then', `dismiss ${incidentId} --reason <text>`] },
    );
  const isNext = blockedLanes === haltedLanes;
  const halted =
    haltedLanes > 0 &&
    `${quantityOfLanes(haltedLanes)} ${haltedLanes === 1 ? 'is' : 'are'} halted until ${owed === 1 ? 'it is' : 'they are'} replayed or dismissed.`;
  const query = { topic, subscriber, since: ALL_TIME, incident: incidentId };
  const replay: Act = byReplay(
    () => html`<a class="btn ${isNext && 'primary'}" href="${replayPath(query)}">Replay ${what}…</a>`,
    [`To replay ${what}`, `replay --incident ${incidentId}`],
  );
  const halt = lanes.find(({ deadLetteredAt }) => deadLetteredAt !== null);
  return step(
    'Replay',
    `${what}. ${halted || (isNext ? 'Oldest first, after a preview.' : 'Once the lanes go on.')}`,
    replay,
    halt !== undefined && {
      button: () => null,
      command: ['To let a lane go on without its dead letter', `dismiss ${halt.deliveryId} --reason <text>`],
    },
  );
}
