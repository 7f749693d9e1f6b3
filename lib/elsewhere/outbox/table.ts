/**
 * The statement that makes the outbox's table, for a migration of the service. Run again it changes nothing.
 *
 * `place` is the order of creation; `event` a CloudEvent; `id` its id, by which the bus knows it when it comes twice.
 */
export const OUTBOX_TABLE = `
  create table if not exists postbud_outbox (
    place bigint generated always as identity primary key,
    topic text not null,
    id text not null,
    event jsonb not null,
    recorded_at timestamptz not null default clock_timestamp(),
    unique (topic, id)
  )`;

/**
 * The class of the advisory lock that a transaction holds, shared, from its first event to its end. The key's second half
 * is a floor: the last place that was drawn before it, of which the lower 31 bits. Its own places are higher. Earlier
 * releases of the package take 0, the floor of a transaction whose places are not known.
 */
export const RECORDING = 0x9062;
