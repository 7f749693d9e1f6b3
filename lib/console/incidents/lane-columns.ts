import { html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import type { Column } from '../kit/table.ts';
import { count } from '../kit/words.ts';

/** Deliveries that are counted in a lane. */
const COUNTED = 100;

export const LANE: Column<{ readonly orderingKey: string }> = {
  label: 'Lane',
  isRowHeader: true,
  look: ({ orderingKey }) => (orderingKey === '' ? 'wrap' : 'wrap mono'),
  cell: ({ orderingKey }) => visibleName(orderingKey) || 'whole topic',
};

export const WAITING: Column<{ readonly waiting: number }> = {
  label: 'Waiting',
  tone: 'num',
  cell: ({ waiting }) => (waiting >= COUNTED ? html`over ${COUNTED}` : count(waiting)),
};
