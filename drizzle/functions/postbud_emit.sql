-- Records an event in the outbox, in the caller's transaction: `emit` for producers in other languages, and what `emit` of
-- the package calls. It runs with the owner's rights, so that producers need none on any table.
--
-- `topic` must be one of the catalog that the last `migrate` wrote, and the caller's role be granted its producer;
-- `payload` must match its schema, of this version or, for producers that are older than the
-- catalog, of an earlier one; `version` says which to try first. Fields that the schema does not name are left out. By default `ordering_key` is the
-- topic's own. A `dedupe_key` makes the event unique in its topic: emitting it again returns the id of the first.
--
-- With `at` it sets a timer: the event is recorded when that time has come. The same `timer_key` again moves it.
--
-- Returns the event's id, a UUIDv7. Raises PB001 for an unknown topic or version, PB002 for a payload or a key that does not
-- fit, and PB004 for a topic that the role may not emit: the message names each wrong field by its path, and the detail has
-- the same as JSON. The transaction is aborted then, as by any error.
create or replace function postbud_emit(
  topic text, payload jsonb, ordering_key text default null, dedupe_key text default null,
  correlation_id text default null, causation_id text default null, traceparent text default null, version int default null,
  at timestamptz default null, timer_key text default null
)
returns uuid language plpgsql security definer
-- Temporary tables come last: unnamed they would come first, and a producer's `catalog_topics` with them.
set search_path = pg_catalog, public, pg_temp as $$
#variable_conflict use_column
declare
  known catalog_topics;
  as_version smallint;
  tried smallint;
  checked record;
  newest record;
  stored jsonb;
  given_keys record;
  new_id uuid;
  place record;
begin
  known := postbud_require_emitter_1(postbud_emit.topic);
  -- Subscribers elsewhere are told what they can't forget: it is on disk by then.
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  if postbud_emit.version > known.version then
    raise exception using errcode = 'PB001',
      message = format('unknown version %s of %s', postbud_emit.version, known.topic),
      hint = format('this database has version %s: run npm run migrate of the release that has version %s first',
        known.version, postbud_emit.version);
  end if;
  for tried in
    select published.version::smallint from jsonb_object_keys(known.schemas) as published(version)
    order by published.version::smallint <= postbud_emit.version desc nulls last, 1 desc
  loop
    checked := postbud_parse_2(known.schemas -> tried::text, array[coalesce(postbud_emit.payload, 'null')]);
    if newest is null then
      newest := checked;
    end if;
    if checked.places = '{}' then
      as_version := tried;
      exit;
    end if;
  end loop;
  if as_version is null then
    perform postbud_refuse_payload_1(known.topic, newest.paths, newest.problems);
  end if;
  stored := coalesce(checked.parsed[1], postbud_emit.payload);
  select array_agg(name) as names, array_agg(
    case value when '' then 'expected 1 to 255 characters' else 'expected at most 255 characters' end) as problems
  into given_keys
  from (values ('ordering_key', postbud_emit.ordering_key), ('dedupe_key', postbud_emit.dedupe_key),
    ('correlation_id', postbud_emit.correlation_id), ('causation_id', postbud_emit.causation_id),
    ('traceparent', postbud_emit.traceparent), ('timer_key', postbud_emit.timer_key)) as keys(name, value)
  where length(value) > 255 or value = '' and name in ('dedupe_key', 'timer_key');
  if given_keys.names is not null then
    perform postbud_refuse_payload_1(known.topic, given_keys.names, given_keys.problems);
  end if;
  if postbud_emit.at is null and postbud_emit.timer_key is not null then
    perform postbud_refuse_payload_1(known.topic, '{timer_key}', '{expected with at}');
  end if;
  -- UUIDv7: 48 bits of milliseconds before a random UUID's, whose version becomes 7. A timer's are those of its event.
  new_id := encode(set_bit(set_bit(
    overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from
      case when postbud_emit.at > clock_timestamp() then least(postbud_emit.at, clock_timestamp() + interval '366 days')
        else clock_timestamp() end
    ) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;
  if postbud_emit.at is not null then
    return postbud_set_timer_1(new_id, known.topic, postbud_emit.timer_key, postbud_emit.at, stored, as_version,
      known.producer, coalesce(postbud_emit.ordering_key, stored ->> known.ordered_by, ''), postbud_emit.dedupe_key,
      coalesce(postbud_emit.correlation_id, postbud_emit.causation_id, new_id::text), postbud_emit.causation_id,
      postbud_emit.traceparent);
  end if;

  -- The first half of the quiet fence (lib/bus/outbox/record.ts): the emitter lock first, then the timestamp.
  perform pg_advisory_xact_lock_shared(36951, hashtext(known.topic));
  insert into events (id, topic, payload, version, producer, subscribers, ordering_key, dedupe_key,
    correlation_id, causation_id, traceparent, created_at)
  values (new_id, known.topic, stored, as_version, known.producer, known.subscribers,
    coalesce(postbud_emit.ordering_key, stored ->> known.ordered_by, ''), postbud_emit.dedupe_key,
    -- An event without a cause starts a correlation of its own.
    coalesce(postbud_emit.correlation_id, postbud_emit.causation_id, new_id::text), postbud_emit.causation_id,
    postbud_emit.traceparent, greatest(clock_timestamp(), now()))
  on conflict (topic, dedupe_key) where dedupe_key is not null do nothing
  returning events.created_at, events.seq, events.ordering_key into place;
  if not found then
    return (select id from events where events.topic = known.topic and events.dedupe_key = postbud_emit.dedupe_key);
  end if;
  insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, bytes, subscribers)
  values (known.topic, place.created_at, place.seq, new_id, place.ordering_key, as_version, octet_length(stored::text),
    known.subscribers);
  return new_id;
end
$$;
