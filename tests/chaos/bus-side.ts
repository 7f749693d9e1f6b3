// What the run itself needs of the bus, from the same build as its relays.
export { connect } from '../../lib/db/connect.ts';
export { replay } from '../../lib/operators/replay.ts';
export { emit } from '../../lib/outbox/emit.ts';
