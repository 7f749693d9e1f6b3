import type { Producer, State } from './state.ts';
import type { Step } from './steps.ts';
import { keepDisk, mayHappen, spend, tick } from './world.ts';
import type { World } from './world.ts';

/** What producers may do next: `lib/bus/outbox/record.ts`, whose one statement locks, reads the clock and inserts. */
export function* producerSteps(state: State, { scope }: World): Generator<Step> {
  for (const [who, { phase, left }] of state.producers.entries()) {
    const step = (name: Step['name']) => ({ name, who, what: 0 });
    const before = state.producers[who - 1];
    switch (phase) {
      case 'idle': {
        // Those with as many transactions are interchangeable: who begins first is the first.
        const isSecond = before?.phase === 'idle' && before.left >= left;
        if (left > 0 && !(isSecond && scope.producers[who - 1] === scope.producers[who])) yield step('begin');
        break;
      }
      case 'begun':
        yield step('lock');
        break;
      case 'locked':
        yield step('stamp');
        break;
      case 'stamped':
        yield step('insert');
        break;
      case 'inserted':
        yield step('commit');
        if (mayHappen(state, 'rollback')) yield step('rollback');
        if (mayHappen(state, 'prepare')) yield step('prepare');
        break;
      case 'prepared':
        yield step('commit prepared');
    }
  }
}

export function takeProducerStep(state: State, { name, who }: Step): void {
  const producer = state.producers[who]!;
  const event = state.events[producer.event]!;
  switch (name) {
    case 'begin':
      Object.assign(producer, { phase: 'begun', began: tick(state) });
      event.fate = 'open';
      break;
    case 'lock':
      producer.phase = 'locked';
      break;
    case 'stamp': {
      const read = tick(state);
      // Never before its transaction began. Where the clock has stepped back since, its time is of neither era.
      const isOfBefore = read < producer.began;
      Object.assign(event, {
        created: isOfBefore ? producer.began : read,
        era: isOfBefore ? -1 - producer.event : state.era,
      });
      producer.phase = 'stamped';
      break;
    }
    case 'insert':
      keepDisk(state);
      state.db.lastNumber += 1;
      Object.assign(producer, { phase: 'inserted', number: state.db.lastNumber });
      break;
    case 'prepare':
      spend(state, 'prepare');
      state.disk = null;
      producer.phase = 'prepared';
      break;
    case 'rollback':
      spend(state, 'rollback');
      end(state, producer, 'gone');
      break;
    default:
      state.db.markers.push({ event: producer.event, number: producer.number });
      end(state, producer, 'committed');
      // It waits for the disk, and with it all that was written before.
      state.disk = null;
  }
}

/** Ends a transaction: its lock goes, and the next one begins anew. */
export function end(state: State, producer: Producer, fate: 'committed' | 'gone'): void {
  const event = state.events[producer.event]!;
  event.fate = fate;
  if (fate === 'gone') event.created = 0;
  producer.left -= 1;
  Object.assign(producer, {
    phase: 'idle',
    began: 0,
    number: 0,
    event: producer.event + (producer.left > 0 ? 1 : 0),
  });
}

/** When the transactions that hold the topic's lock began; 0 of a prepared one, of which nobody knows. */
export function holdersOf({ producers }: State, { mistake }: World): number[] {
  if (mistake === 'sql-emit-without-lock') return [];
  return producers.flatMap(({ phase, began }) =>
    phase === 'idle' || phase === 'begun' ? [] : [phase === 'prepared' ? 0 : began],
  );
}
