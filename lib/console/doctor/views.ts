import * as z from 'zod';

import { examine } from '../../bus/doctor/examine.ts';
import type { Examination as Found } from '../../bus/doctor/examine.ts';
import { SECOND, instantOf } from '../../platform/time.ts';
import { doubtfulDirectory } from '../access/directory.ts';
import type { Doc, Item } from '../kit/doc.ts';
import { strong } from '../kit/document.ts';
import { byLink } from '../kit/filters.ts';
import { doctorPath } from '../kit/links.ts';
import * as shape from '../kit/shapes.ts';
import { view } from '../kit/view.ts';
import { quantity } from '../kit/words.ts';
import { oldSnapshotWords } from '../overview/snapshot.ts';

const examination = z
  .object({
    checked: z.array(z.string()).describe('The promises that were checked.'),
    findings: z.array(
      z.object({
        promise: z.string(),
        what: z.string().describe('What breaks it: `event`, `lane`.'),
        count: shape.count,
        examples: z.array(z.string()).max(5).describe('Ids.'),
        advice: z.string().nullable(),
      }),
    ),
    events: shape.count.describe('How many of the newest events were checked.'),
    settings: z
      .array(z.string())
      .describe(
        'What surrounds the bus: settings of the database that weaken a promise, or that other programs there must allow for, who holds an old snapshot, and a directory that nobody can sign in with.',
      ),
  })
  .meta({ id: 'Examination', description: 'The result of checking that the bus kept its promises.' });

type Examination = z.output<typeof examination>;

/** Puts what an examination found in words. */
export function examinationOf({ oldestSnapshot, settings, ...found }: Found): Examination {
  const held = oldSnapshotWords(oldestSnapshot);
  return { ...found, settings: held === null ? settings : [...settings, held] };
}

/** Says of each promise whether the bus kept it, and what weakens one. */
export function examinationDoc({ checked, findings, events, settings }: Examination): Doc {
  const broken = new Set(findings.map(({ promise }) => promise)).size;
  return {
    title: 'Doctor',
    lead: `Checked the newest ${quantity(events, 'event')} and their deliveries.`,
    section: 'overview',
    at: instantOf(Date.now()),
    refreshSeconds: null,
    alerts: [
      broken === 0
        ? { tone: 'ok', words: strong('The bus kept all its promises.') }
        : { tone: 'dead', words: strong(`The bus broke ${quantity(broken, 'promise')}.`) },
    ],
    blocks: [
      { id: 'promises', title: 'Promises', items: checked.map((promise) => itemOf(promise, findings)) },
      {
        id: 'settings',
        title: 'What surrounds the bus',
        items: settings.map((words) => ({ tone: 'fail', words, details: [] })),
      },
    ],
  };
}

function itemOf(promise: string, findings: Examination['findings']): Item {
  const contradictions = findings.filter((finding) => finding.promise === promise);
  return {
    tone: contradictions.length === 0 ? 'ok' : 'dead',
    words: promise,
    details: contradictions.flatMap(({ count, what, examples, advice }) => [
      `${quantity(count, what)}: ${examples.join(', ')}${count > examples.length ? ', …' : ''}`,
      advice,
    ]),
  };
}

/** As many as a function has time to check; `npm run doctor` checks any number. */
const MOST_EXAMINED = 20_000;

/** For each check: a function has half a minute for all of them. */
const LONGEST_CHECK_MS = 10 * SECOND;

const examineBus = view({
  id: 'examine',
  path: doctorPath(),
  summary: 'Check that the bus kept its promises',
  query: z.object({
    events: shape.upTo(MOST_EXAMINED).default(5000).describe('How many of the newest events to check.'),
  }),
  answer: examination,
  problems: ['validation_failed'],
  handle: async ({ query, bus, settings }) => {
    const db = await bus.database();
    const [found, directory] = await Promise.all([
      examine(db, query.events, LONGEST_CHECK_MS),
      doubtfulDirectory(settings()),
    ]);
    const examined = examinationOf(found);
    return { ...examined, settings: [...examined.settings, ...directory] };
  },
  says: examinationDoc,
  command: {
    name: 'doctor',
    summary: 'check that the bus kept its promises',
    notes: [
      'Exits with 1 if a promise is broken. Changes nothing. npm run doctor checks more events, directly in the database of DATABASE_URL.',
    ],
    filters: {
      events: byLink(z.string().optional(), {
        value: '<number>',
        help: `how many of the newest events to check, at most ${MOST_EXAMINED} (default: 5000)`,
      }),
    },
    examples: [['doctor', 'the newest 5000 events and all counters']],
    isBad: ({ findings }: Examination) => findings.length > 0,
  },
});

export const doctorViews = [examineBus];
