import { DAY } from '../time.ts';
import type { VisitorLimit } from './visitors.ts';

/**
 * The share of a day's budget for one IPv6 network. A household has a /56 or less, a company a /48 or less: neither can
 * use up the whole day, and only four hostile companies together could. Smaller shares would lock out strangers who
 * share a network: a mobile carrier puts thousands of telephones into one /48.
 */
const PART_OF_56 = 1 / 5;
const PART_OF_48 = 1 / 4;

/**
 * Limits the share of a day's budget for all visitors of one network.
 *
 * @param perVisitor calls of one visitor a day; a network gets at least as many.
 */
export function networkDays(name: string, perVisitor: number, budget: number): readonly VisitorLimit[] {
  const atLeast = (part: number) => Math.max(perVisitor, Math.floor(budget * part));
  return [
    { name: `${name}-56`, limit: atLeast(PART_OF_56), windowMs: DAY, network: 56, partOfBudget: true },
    { name: `${name}-48`, limit: atLeast(PART_OF_48), windowMs: DAY, network: 48, partOfBudget: true },
  ];
}
