import { maskPersonalData } from '../lib/platform/masking/personal.ts';
import { goal, measured, ms, quantile, spreadOf } from './figures.ts';
import type { Figure, Section } from './figures.ts';

// What hiding personal data in an answer costs: the process does nothing else meanwhile.

const ROUNDS = 15;
const KNOWN_BYTES = 1_000_000;
const GOAL_MS = 50;

/** As long as an answer is kept. */
const ANSWER_BYTES = 2048;

/** Measures masking answers of a component, against an event with a megabyte of personal data. */
// oxlint-disable-next-line typescript/require-await -- as the other sections
export async function benchMasking(): Promise<Section> {
  const words = filled((number) => `${lettersOf(number)} `);
  const numbers = filled((number) => `${10_000_000 + number}; `);
  const sentence = 'no booking of this kind can be taken before the first of next month';
  const cases: readonly (readonly [what: string, answer: string, known: string, goalMs?: number])[] = [
    ['a sentence, against a megabyte of words', sentence, words, GOAL_MS],
    ['2 KB of cut words, against the same', 'abc...'.repeat(ANSWER_BYTES / 6), words, GOAL_MS],
    ['2 KB of numbers, against a megabyte of numbers', numbers.slice(0, ANSWER_BYTES), numbers],
    ['2 KB of zeros, against a megabyte of zeros', '0'.repeat(ANSWER_BYTES), '0'.repeat(KNOWN_BYTES)],
  ];
  return {
    title: 'Hiding personal data in the answer of a component',
    rows: cases.map((one) => masking(...one)),
    notes: [`${ROUNDS} rounds each: medians [and ranges].`],
  };
}

function masking(what: string, answer: string, known: string, goalMs?: number): Figure {
  const times = Array.from({ length: ROUNDS }, () => {
    const startedAt = performance.now();
    maskPersonalData(answer, [known]);
    return performance.now() - startedAt;
  });
  const figure = measured(what, spreadOf(times), ' ms');
  const half = quantile(times, 0.5);
  return goalMs === undefined ? figure : { ...figure, goal: goal(`under ${ms(goalMs)}`, half < goalMs) };
}

/** Distinct words of some six letters. */
function lettersOf(number: number): string {
  return `w${number.toString(36)}`.replaceAll(/\d/g, (digit) => 'ghijklmnop'[Number(digit)]!);
}

function filled(textOf: (number: number) => string): string {
  let text = '';
  for (let number = 30_000; text.length < KNOWN_BYTES; number += 1) text += textOf(number);
  return text;
}
