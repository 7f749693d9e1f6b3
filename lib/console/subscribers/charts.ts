import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { SECOND } from '../../platform/time.ts';
import { dayAndMonth, weekdayAndTime } from '../kit/instants.ts';
import { count, quantity } from '../kit/words.ts';
import { marksOf, placesOf } from './acted.ts';
import { chart, markStrip } from './chart.ts';
import type { Interval, Shape, TimeAxis } from './chart.ts';
import { ageWords, intervalWords, spanWords, timeWords, timesWords } from './figures.ts';
import type { HealthInterval, SubscriberHealth, Times } from './read.ts';
import { countScale, timeScale } from './scales.ts';

/** Draws five charts over the same time, so that a rise in one can be compared with the others and with the actions. */
export function chartsOf(view: SubscriberHealth): Html {
  const axis = axisOf(view);
  const draws = [deliveries, failures, backlogAge, deliveredIn, handler];
  return html`<div class="charts">
    ${axis.marks.length > 0 && markStrip(marksOf(view), `${quantity(axis.marks.length, 'action')} of operators, listed below`)}
    ${draws.map((draw) => draw(view, axis))}
  </div>`;
}

function deliveries(view: SubscriberHealth, axis: TimeAxis): Html {
  const totals = view.intervals.map((one) => one.delivered + one.replays.delivered);
  return chart(
    {
      title: 'Deliveries',
      keys: [
        { tone: 'done', words: 'delivered' },
        { tone: 'again', words: 'delivered after a replay' },
      ],
      summary: summaryOf(
        'Deliveries',
        view,
        `${count(view.whole.delivered)} delivered, ${count(view.whole.replays.delivered)} more after a replay`,
      ),
      scale: countScale(totals),
      tick: count,
      shapes: view.intervals.map(({ delivered, replays }) =>
        stacked(['done', delivered], ['again', replays.delivered]),
      ),
      words: wordsOf(
        view,
        ({ delivered, replays }) =>
          `${count(delivered)} delivered${replays.delivered > 0 ? `, ${count(replays.delivered)} after a replay` : ''}`,
      ),
      empty: 'Nothing was delivered.',
    },
    axis,
  );
}

function failures(view: SubscriberHealth, axis: TimeAxis): Html {
  const deadOf = ({ deadLettered, replays }: Pick<HealthInterval, 'deadLettered' | 'replays'>) =>
    deadLettered + replays.deadLettered;
  return chart(
    {
      title: 'Failures',
      keys: [
        { tone: 'fail', words: 'failed attempts' },
        { tone: 'dead', words: 'dead letters' },
      ],
      summary: summaryOf(
        'Failures',
        view,
        `${quantity(view.whole.failedAttempts, 'failed attempt')}, ${quantity(deadOf(view.whole), 'dead letter')}`,
      ),
      scale: countScale(view.intervals.flatMap((one) => [one.failedAttempts, deadOf(one)])),
      tick: count,
      shapes: view.intervals.map((one) => [
        ...barOf('fail', one.failedAttempts, [0, 0.5]),
        ...barOf('dead', deadOf(one), [0.5, 1]),
      ]),
      words: wordsOf(
        view,
        (one) => `${quantity(one.failedAttempts, 'failed attempt')}, ${quantity(deadOf(one), 'dead letter')}`,
      ),
      empty: 'Nothing failed.',
    },
    axis,
  );
}

function backlogAge(view: SubscriberHealth, axis: TimeAxis): Html {
  const agesMs = view.intervals.map(({ backlogAgeSeconds: seconds }) => seconds !== null && seconds * SECOND);
  const scale = timeScale([SECOND, ...agesMs.filter((ms) => ms !== false)]);
  return chart(
    {
      title: 'Age of the backlog',
      keys: [{ tone: 'age', words: 'oldest unfinished delivery, of samples each minute' }],
      summary: summaryOf('Age of the backlog', view, `at most ${ageWords(view.whole.backlogAgeSeconds)}`),
      scale,
      tick: timeWords,
      shapes: agesMs.map((ms) => (ms === false ? [] : [{ tone: 'age', from: scale.ticks[0]!, to: ms }])),
      words: wordsOf(view, ({ backlogAgeSeconds }) => `oldest: ${ageWords(backlogAgeSeconds)}`),
      empty: 'There was no backlog at any sample.',
    },
    axis,
  );
}

function deliveredIn(view: SubscriberHealth, axis: TimeAxis): Html {
  return timesChart(
    view,
    {
      title: 'From commit to delivered',
      of: ({ deliveredInMs }) => deliveredInMs,
      empty: 'Nothing was delivered for the first time.',
    },
    axis,
  );
}

function handler(view: SubscriberHealth, axis: TimeAxis): Html {
  return timesChart(
    view,
    { title: 'Time of the handler', of: ({ handlerMs }) => handlerMs, empty: 'No handler ran.' },
    axis,
  );
}

interface TimesChart {
  readonly title: string;
  readonly of: (measured: Omit<HealthInterval, 'startsAt'>) => Times;
  readonly empty: string;
}

/** A bar from p50 to p95, with p50 as its foot. */
function timesChart(view: SubscriberHealth, { title, of, empty }: TimesChart, axis: TimeAxis): Html {
  const times = view.intervals.map(of);
  return chart(
    {
      title,
      keys: [
        { tone: 'half', words: 'p50, half are faster' },
        { tone: 'most', words: 'up to p95, 1 in 20 is slower' },
      ],
      summary: summaryOf(title, view, `p50 and p95 ${timesWords(of(view.whole))}`),
      scale: timeScale(times.flatMap((one) => (one === null ? [] : [one.p50, one.p95]))),
      tick: timeWords,
      shapes: times.map((one) =>
        one === null
          ? []
          : [
              { tone: 'most', from: one.p50, to: one.p95 },
              { tone: 'half', from: one.p50, to: one.p50 },
            ],
      ),
      words: wordsOf(view, (one) => {
        const measured = of(one);
        return measured === null
          ? 'nothing'
          : `p50 ${timeWords(measured.p50)}, p95 ${timeWords(measured.p95)}`;
      }),
      empty,
    },
    axis,
  );
}

function stacked(...parts: readonly (readonly [tone: Shape['tone'], number: number])[]): Shape[] {
  let from = 0;
  return parts.flatMap(([tone, number]) => {
    const shape = { tone, from, to: from + number };
    from += number;
    return number > 0 ? [shape] : [];
  });
}

function barOf(tone: Shape['tone'], number: number, across: readonly [number, number]): Shape[] {
  return number > 0 ? [{ tone, from: 0, to: number, across }] : [];
}

function summaryOf(title: string, { span }: SubscriberHealth, words: string): string {
  return `${title} in ${spanWords(span)}: ${words}. The table below has the values.`;
}

function wordsOf(
  { intervals, span }: SubscriberHealth,
  of: (interval: HealthInterval) => string,
): Interval[] {
  return intervals.map((interval) => ({
    at: span === 'hours' ? interval.startsAt : null,
    words: `${intervalWords(interval.startsAt, span)}: ${of(interval)}`,
  }));
}

/** Hours are labelled every six hours, and midnight with its day; days every fifth. */
function axisOf(view: SubscriberHealth): TimeAxis {
  const { intervals, span } = view;
  const labels = intervals.flatMap(({ startsAt }, index): TimeAxis['labels'] => {
    if (span === 'days')
      return (intervals.length - 1 - index) % 5 === 0
        ? [
            {
              index,
              at: null,
              words: dayAndMonth(startsAt),
              isMinor: (intervals.length - 1 - index) % 10 !== 0,
            },
          ]
        : [];
    const [weekday = '', clock = ''] = weekdayAndTime(startsAt).split(' ');
    const hour = Number(clock.slice(0, 2));
    if (hour % 6 !== 0) return [];
    return [{ index, at: startsAt, words: hour === 0 ? weekday : clock, isMinor: hour % 12 !== 0 }];
  });
  return { number: intervals.length, labels, marks: placesOf(view) };
}
