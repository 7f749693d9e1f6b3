import type { VisitorLimit } from './visitors.ts';
import { DAY } from '../time.ts';

/**
 * What one network of IPv6 may use of a day's budget. A household has a /56 or less, a company a /48 or less: neither
 * can use up everybody's day, and it takes four companies that mean ill to do so. Smaller parts would lock out people
 * who share a network without knowing each other: a mobile carrier puts thousands of telephones into one /48.
 */
const PART_OF_56 = 1 / 5;
const PART_OF_48 = 1 / 4;

/**
 * Limits how much of a day's budget the visitors of one network use together.
 *
 * @param perVisitor what one visitor may use in a day: a network may use that at least, since the owner has said so.
 */
export function networkDays(name: string, perVisitor: number, budget: number): readonly VisitorLimit[] {
  const atLeast = (part: number) => Math.max(perVisitor, Math.floor(budget * part));
  return [
    { name: `${name}-56`, limit: atLeast(PART_OF_56), windowMs: DAY, network: 56, partOfBudget: true },
    { name: `${name}-48`, limit: atLeast(PART_OF_48), windowMs: DAY, network: 48, partOfBudget: true },
  ];
}
