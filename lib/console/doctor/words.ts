import { count } from '../kit/words.ts';
import type { Examination } from './read.ts';

/** Each promise that was checked, with what contradicts it: nothing where it was kept. */
export function promisesOf({ checked, findings }: Examination) {
  return checked.map((promise) => ({
    promise,
    contradictions: findings.filter((finding) => finding.promise === promise).map(findingWords),
  }));
}

export function brokenIn({ findings }: Examination): number {
  return new Set(findings.map(({ promise }) => promise)).size;
}

function findingWords({ count: number, what, examples }: Examination['findings'][number]): string {
  return `${count(number)} ${what}: ${examples.join(', ')}${number > examples.length ? ', …' : ''}`;
}
