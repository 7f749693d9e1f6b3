/**
 * The statements that make the outbox's tables, for a migration of the service. Run again they change nothing.
 *
 * `postbud_outbox` has what is to be forwarded: `place` is the order of creation; `event` a CloudEvent; `id` its id, by which
 * the bus knows it when it comes twice. `postbud_outbox_refused` has what the bus refused for good. Such an event is set
 * aside while it is in both and nothing was decided; `event` is kept of one that was discarded.
 */
export const OUTBOX_TABLE = `
  create table if not exists postbud_outbox (
    place bigint generated always as identity primary key,
    topic text not null,
    id text not null,
    event jsonb not null,
    recorded_at timestamptz not null default clock_timestamp(),
    unique (topic, id)
  );
  create table if not exists postbud_outbox_refused (
    place bigint not null,
    recorded_at timestamptz not null,
    topic text not null,
    id text not null,
    code text not null,
    reason text not null,
    refused_at timestamptz not null default clock_timestamp(),
    decision text check (decision in ('retry', 'discard')),
    decided_because text,
    decided_at timestamptz,
    event jsonb,
    primary key (place, recorded_at)
  );`;

/**
 * The class of the advisory lock that a transaction holds, shared, from its first event to its end. The key's second half
 * is a floor: the last place that was drawn before it, of which the lower 31 bits. Its own places are higher. Earlier
 * releases of the package take 0, the floor of a transaction whose places are not known.
 */
export const RECORDING = 0x9062;
