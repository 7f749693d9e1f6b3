-- Makes the rights of the database those that `role_grants` lists. `migrate` calls it after the migrations, with the names of
-- all tables; a migration that drops and creates `postbud_emit` calls it too, with none, so that no producer is refused
-- between the two.
--
-- Postgres lets everybody call a new function. Nobody needs that of ours.
create or replace function postbud_apply_grants_1(tables text[]) returns void language plpgsql as $$
declare
  functions oid[] := array(
    select oid from pg_proc
    where pronamespace = 'public'::regnamespace and (proname like 'postbud\_%' or proname = 'refuse_change') order by 1);
  function regprocedure;
  relation text;
  granted record;
begin
  -- Two at once would change the same rows of Postgres's own tables. 7, 1 is the lock of `migrate`.
  perform pg_advisory_xact_lock(7, 2);
  for function in
    select oid from pg_proc where oid = any (functions)
      and (proacl is null or exists (select from aclexplode(proacl) where grantee = 0))
  loop
    execute format('revoke execute on function %s from public', function);
  end loop;

  -- The rows of a role that does not exist wait for it: a restored backup may come before its roles.
  for granted in select distinct rolname as role, may from role_grants join pg_roles on rolname = role loop
    if not has_schema_privilege(granted.role, 'public', 'usage') then
      execute format('grant usage on schema public to %I', granted.role);
    end if;
    if granted.may = 'emit' then
      execute format('grant execute on function postbud_emit, postbud_cancel_timer to %I', granted.role);
      continue;
    end if;
    foreach relation in array tables loop
      execute format('grant %s on public.%I to %I', case
        when granted.may = 'read' or relation in ('role_grants', 'catalog_topics') then 'select'
        when exists (select from pg_trigger join pg_proc on pg_proc.oid = tgfoid
          where tgrelid = format('public.%I', relation)::regclass and proname = 'refuse_change') then 'select, insert'
        else 'select, insert, update, delete' end, relation, granted.role);
    end loop;
    for function in
      -- Those that change something are volatile.
      select oid from pg_proc where oid = any (functions)
        and (provolatile <> 'v' or granted.may = 'relay' and proname not like '%\_grants\_%')
    loop
      execute format('grant execute on function %s to %I', function, granted.role);
    end loop;
    -- How far positions are drawn is shown with an event, and backfills and renames go by it.
    execute format('grant select on sequence delivery_positions to %I', granted.role);
    continue when granted.may = 'read';
    execute format('grant usage on sequence delivery_positions, awaiting_fan_out_number_seq to %I', granted.role);
    -- After a restart of the server, fan-out leaves some out.
    execute format('grant update on sequence delivery_positions to %I', granted.role);
  end loop;
end
$$;
--> statement-breakpoint
-- Writes the next deliveries of a backfill, in order of position, and moves its front behind them. Where nothing is left it
-- ends the backfill, and whoever calls it makes the lanes due in the same transaction: nobody looks at them afterwards.
--
-- It locks no lane, so fan-out and relays go on meanwhile: nobody claims what is behind the front, and all lanes that it
-- writes to are there from the start. What it has written is due once its caller has woken them, in a transaction of its own,
-- because this one locks events. The order of locks is that of lib/bus/deliveries/locks.ts.
create or replace function postbud_backfill_1(
  backfill uuid, most int, at timestamptz, out written int, out is_ended boolean
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
  asked record;
  own bigint[];
  sources bigint[];
  new_front bigint;
  positions bigint[];
  event_ids uuid[];
  bytes int[];
  keys text[];
  moved postbud_change_1[];
begin
  written := 0;
  is_ended := true;
  perform pg_advisory_xact_lock_shared(36953, 0);
  select * into asked from backfills where id = backfill and ended_at is null for update;
  if not found then
    return;
  end if;
  is_ended := asked.front >= asked.until;
  if is_ended then
    update backfills set ended_at = at where id = backfill;
    return;
  end if;
  sources := postbud_sources_1(asked.topic, asked.subscriber);
  own := array(
    select id from lanes where topic = asked.topic and subscriber = asked.subscriber and home_id is null
  );
  with next as materialized (
    select position, event_id, min(payload_bytes) as payload_bytes
    from unnest(sources) as source(id), lateral (
      select position, event_id, payload_bytes from deliveries
      where lane_id = source.id and position > asked.front and position <= asked.until order by position limit most
    ) as found
    group by position, event_id order by position limit most
  ),
  missing as (
    select next.*, ordering_key from next join events on events.id = next.event_id
    where created_at >= asked.since and not exists (
      select from deliveries where lane_id = any (own) and deliveries.position = next.position
    )
  )
  select (select case when count(*) < most then asked.until else max(position) end from next),
    array_agg(position order by position), array_agg(event_id order by position),
    array_agg(payload_bytes order by position), array_agg(ordering_key order by position)
  into new_front, positions, event_ids, bytes, keys from missing;
  if positions is not null then
    insert into deliveries (lane_id, position, event_id, payload_bytes, lane_key, backfilled, attempt_log)
    select lane.id, position, event_id, payload_bytes, case when lane.slot is not null then key end, true,
      jsonb_build_array(jsonb_build_object('attempt', 0, 'at', at, 'durationMs', 0, 'outcome', 'backfilled',
        'by', asked.requested_by, 'reason', asked.reason))
    from unnest(positions, event_ids, bytes, keys) as missing(position, event_id, payload_bytes, key), lateral (
      select id, slot from lanes
      where topic = asked.topic and subscriber = asked.subscriber and held_key = ''
        and (slot = case when key <> '' then postbud_slot(key) end or ordering_key = '' and key = '')
    ) as lane;
    get diagnostics written = row_count;
    with locked as materialized (
      select id, topic, state as was from events where id = any (event_ids) order by id for update
    ),
    changed as (
      update events set open = open + 1, subscribers = array_append(subscribers, asked.subscriber)
      from locked where events.id = locked.id
      returning postbud_event_moved(locked.topic, was, state) as moved
    )
    select array_agg(changed.moved) into moved from changed;
    perform postbud_count_2(
      moved || row(asked.topic, asked.subscriber, written, 0, 0, 0, 0, 0, null, null)::postbud_change_1, at);
  end if;
  update backfills set front = new_front, written = backfills.written + postbud_backfill_1.written,
    -- Where nothing was written, the others have their turns first.
    next_at = case when per_minute is null or postbud_backfill_1.written = 0 then at
      -- What it was late for is caught up, but not more than ten seconds of it.
      else greatest(next_at, at - interval '10 seconds')
        + postbud_backfill_1.written * interval '1 minute' / per_minute end
  where id = backfill;
end
$$;
--> statement-breakpoint
-- Claims lanes of subscribers that have a rate or a concurrency, as far as these allow, over all relays together. The row of
-- a subscriber's limits is locked for it. Nobody waits for that: while another claim has it, the lanes are left to that one.
--
-- The rate is kept by the time until which deliveries are taken at an even pace (GCRA). At most a twentieth of the rate comes
-- at once. What is charged is what was claimed, a few deliveries a lane, so what a run gives back unused is little.
--
-- The lanes take turns by the times when they became due: a lane that goes on is due anew, behind the others. So that keys
-- take turns too, a shared lane is not leased here: its keys get lanes of their own, as keys in trouble do.
--
-- While a subscriber does not answer, one delivery probes, when that is due and the limits allow it (postbud_find_due_1).
create or replace function postbud_claim_limited_1(
  token uuid, names text[], versions int[], leases_ms float8[], waits boolean[], max_lanes int, max_deliveries int,
  at timestamptz,
  -- In: what was claimed before it.
  inout claimed json,
  out has_found boolean,
  -- When a rate allows the next delivery; null where none waits for that.
  out next_in_ms float8
) language plpgsql set enable_seqscan = off as $$
declare
  most_lanes constant int := 64;
  -- Deliveries of a lane, so that the others' turn comes soon.
  most_of_lane constant int := 16;
  limited text;
  bound subscriber_limits;
  step interval;
  room int;
  tokens int;
  is_bounded boolean;
  may_wait boolean;
  may_probe boolean;
  is_silent boolean;
  due record;
  keys record;
  ids bigint[];
  asked int[];
  turns int[];
  has_spread boolean;
  has_shared boolean;
  locked record;
  leased json;
  used int;
begin
  has_found := false;
  for limited, may_wait in
    select split_part(name, ' ', 2), bool_and(is_waiting)
    from unnest(names, waits) as asked(name, is_waiting)
      join subscriber_limits on subscriber_limits.subscriber = split_part(name, ' ', 2), lateral (
      select from lanes
      where lanes.topic = split_part(name, ' ', 1) and lanes.subscriber = split_part(name, ' ', 2) and lanes.due_at <= at limit 1
    ) as first
    group by 1 order by 1
  loop
    select next_probe_at <= at into may_probe from outages
    where may_wait and outages.subscriber = limited and recovered_at is null;
    is_silent := found;
    continue when not may_probe;
    select * into bound from subscriber_limits where subscriber_limits.subscriber = limited for update skip locked;
    if not found then
      next_in_ms := least(next_in_ms, 25);
      continue;
    end if;
    if is_silent then
      perform from outages
      where outages.subscriber = limited and recovered_at is null and next_probe_at <= at for update skip locked;
      continue when not found;
    end if;
    room := least(max_lanes, case when is_silent then 1 else most_lanes end);
    if bound.concurrency is not null then
      bound.held := array(
        select id from lanes where id = any (bound.held) and lease_token is not null and leased_until > at
      );
      room := least(room, bound.concurrency - cardinality(bound.held));
    end if;
    tokens := max_deliveries;
    if bound.rate_count is not null then
      step := bound.rate_ms * interval '1 millisecond' / bound.rate_count;
      -- A later time is of a clock that was ahead.
      bound.taken_until := least(greatest(bound.taken_until, at), at + greatest(1, bound.rate_count / 20) * step);
      tokens := least(tokens, greatest(1, bound.rate_count / 20)
        - ceil(extract(epoch from bound.taken_until - at) / extract(epoch from step) - 1e-6)::int);
      room := least(room, tokens);
    end if;
    ids := null;
    used := 0;
    while room > 0 loop
      ids := null;
      asked := null;
      has_spread := false;
      has_shared := false;
      for due in
        select next.*, turn from unnest(names, versions) with ordinality as one(name, version, turn), lateral (
          select id, slot, home_id, lease_token, head, careful_to, lanes.due_at from lanes
          where lanes.topic = split_part(name, ' ', 1) and lanes.subscriber = limited and lanes.due_at <= at
            and coalesce(waits_for_version, 0) <= one.version
          order by lanes.due_at limit room for update skip locked
        ) as next
        where split_part(name, ' ', 2) = limited
          and not exists (select from pauses where pauses.subscriber = limited and pauses.topic in ('', split_part(name, ' ', 1)))
        order by next.due_at limit room
      loop
        -- Once the lane is locked: who begins a backfill locks it too. Older deliveries are still to come then, before those
        -- whose keys would get lanes.
        if due.slot is null or due.home_id is not null or due.lease_token is not null or is_silent
          or due.head < due.careful_to
          or exists (select from backfills where ended_at is null and backfills.subscriber = limited)
        then
          has_shared := has_shared or due.slot is not null and due.home_id is null;
          ids := ids || due.id;
          asked := asked || due.turn::int;
        else
          has_spread := true;
          with waiting as materialized (
            select deliveries.position, deliveries.lane_key
            from postbud_next_2(due.id, null, due.slot, null, due.head, most_lanes) as next
              join deliveries on deliveries.lane_id = due.id and deliveries.position = next.position
          ),
          spread as (
            insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, due_at)
            select topic, subscriber, slot, lane_key, id, careful_to, first - 1, first,
              least(due.due_at + interval '1 microsecond' * row_number() over (order by first), at)
            from (select lane_key, min(position) as first from waiting group by lane_key) as key, lanes as home
            where home.id = due.id
            on conflict (home_id, held_key) where home_id is not null
              do update set head = least(lanes.head, excluded.head)
          )
          select count(*) as deliveries, max(position) as last into keys from waiting;
          update lanes set head = case when keys.deliveries < most_lanes then tail else keys.last end,
            due_at = case when keys.deliveries < most_lanes then null else at end
          where id = due.id;
        end if;
      end loop;
      exit when ids is not null or not has_spread;
    end loop;
    if ids is not null then
      has_found := true;
      -- In a newer snapshot, now that they are locked.
      locked := postbud_lock_lanes_1(ids);
      turns := null;
      for place in 1..cardinality(locked.ids) loop
        turns[place] := asked[array_position(ids, locked.ids[place])];
      end loop;
      is_bounded := exists (select from halts) or exists (select from backfills where ended_at is null);
      leased := postbud_lease_1(token, versions, leases_ms, locked.addresses, locked.rows, turns, null, null,
        case when is_silent then ids end, is_bounded,
        -- A lane that keys share would be handed over to a handler for each of them.
        cardinality(ids) * case when has_shared and bound.concurrency is not null then 1
          else least(most_of_lane, tokens / cardinality(ids)) end, at, null, null);
      select sum(json_array_length(one -> 'positions')) into used from json_array_elements(leased -> 'lanes') as one;
      claimed := json_build_object(
        'lanes', coalesce((claimed -> 'lanes')::jsonb, '[]') || (leased -> 'lanes')::jsonb,
        -- Null where no lane has any.
        'events', coalesce(nullif((claimed -> 'events')::jsonb, 'null'), '[]')
          || coalesce(nullif((leased -> 'events')::jsonb, 'null'), '[]'));
      update subscriber_limits set held = case when concurrency is not null then bound.held || ids else '{}' end,
        taken_until = case when rate_count is not null then bound.taken_until + used * step else taken_until end
      where subscriber_limits.subscriber = limited;
      if is_silent then
        -- Puts the next probe off, until this one's lease has run out.
        update outages set probed_at = at, next_probe_at = at + leases_ms[asked[1]] * interval '1 millisecond'
        where outages.subscriber = limited;
      end if;
    end if;
    if bound.rate_count is not null and tokens <= used then
      next_in_ms := least(next_in_ms, greatest(25, extract(epoch from
        bound.taken_until + (used - greatest(1, bound.rate_count / 20) + 1) * step - at) * 1000));
    end if;
  end loop;
end
$$;
--> statement-breakpoint
-- Leases lanes and reads their next deliveries. The lanes are locked, and `turns` say which of the asked subscriptions each is
-- leased for; null for one that is only lengthened, and then made due if it was idle. `position` and `event_id`: the single
-- delivery that was just written to the lanes that are lengthened.
--
-- A lane at its front gives nothing. The settlement then makes it due no more, until the front moves.
create or replace function postbud_lease_1(
  token uuid, versions int[], leases_ms float8[], addresses tid[], lane_rows lanes[], turns int[], tails bigint[],
  firsts timestamptz[], probes bigint[], is_bounded boolean, max_deliveries int, at timestamptz,
  "position" bigint, event_id uuid
) returns json language plpgsql as $$
#variable_conflict use_column
declare
  -- Payloads of 16 MiB at most, but one for each lane: a claim of nothing but webhooks of the largest size would otherwise be
  -- more than a string can hold.
  most_bytes constant int := 16 * 1024 * 1024;
  lane lanes;
  place int;
  turn int;
  until timestamptz;
  changed lanes[] := '{}';
  leased int[] := '{}';
  homes bigint[] := '{}';
  home_untils timestamptz[] := '{}';
  asked int;
  is_plain boolean;
  batch record;
  found_lanes json[] := '{}';
  found_positions bigint[] := '{}';
  found_events uuid[] := '{}';
begin
  for place in 1..cardinality(lane_rows) loop
    lane := lane_rows[place];
    turn := turns[place];
    lane.tail := greatest(lane.tail, tails[place]);
    if turn is null then
      lane.due_at := coalesce(lane.due_at, case when lane.lease_token is null then least(firsts[place], at) end);
    else
      until := at + leases_ms[turn] * interval '1 millisecond';
      lane.lease_token := token;
      lane.leased_until := until;
      lane.held_version := versions[turn];
      lane.due_at := case when lane.home_id is not null then until end;
      leased := leased || place;
      if lane.home_id is null then
        homes := homes || lane.id;
        home_untils := home_untils || until;
      end if;
    end if;
    changed := changed || lane;
  end loop;
  update lanes set tail = changed.tail, lease_token = changed.lease_token, leased_until = changed.leased_until,
    held_version = changed.held_version, due_at = changed.due_at
  from unnest(addresses, changed) as changed(address)
  where lanes.ctid = changed.address;
  if cardinality(leased) = 0 then
    return null;
  end if;
  if cardinality(homes) = 1 then
    insert into leases values (home_untils[1], homes);
  elsif cardinality(homes) > 1 then
    insert into leases
    select until, array_agg(id) from unnest(home_untils, homes) as leased(until, id) group by until;
  end if;
  asked := greatest(1, max_deliveries / cardinality(leased));
  foreach place in array leased loop
    lane := lane_rows[place];
    is_plain := not is_bounded and lane.home_id is null and lane.head >= lane.careful_to
      and not coalesce(lane.id = any (probes), false);
    if is_plain and lane.slot is not null then
      is_plain := not exists (select from lanes as key where key.home_id = lane.id);
    end if;
    if is_plain and position is not null and tails[place] = position and lane.head = lane.tail then
      found_positions := found_positions || position;
      found_events := found_events || event_id;
      found_lanes := found_lanes || json_build_object('id', lane.id, 'home', lane.id, 'is_shared', lane.slot is not null,
        'topic', lane.topic, 'subscriber', lane.subscriber, 'head', lane.head, 'newest', position, 'is_probe', false,
        'lapsed_at', case when lane.lease_token is not null then extract(epoch from coalesce(lane.due_at, lane.leased_until)) * 1000 end,
        'lapsed_version', lane.held_version, 'is_whole', asked > 1, 'positions', array[position], 'begun', null);
    else
      batch := postbud_next_batch_1(lane, case when lane.head < lane.careful_to or lane.id = any (probes) then 1 else asked end,
        most_bytes / cardinality(leased), is_bounded);
      found_positions := found_positions || batch.positions;
      found_events := found_events || batch.event_ids;
      found_lanes := found_lanes || json_build_object('id', lane.id, 'home', coalesce(lane.home_id, lane.id),
        'is_shared', lane.slot is not null and lane.home_id is null, 'topic', lane.topic, 'subscriber', lane.subscriber,
        'head', lane.head + (batch.is_whole is null)::int, 'newest', coalesce(batch.front, greatest(lane.tail, tails[place])),
        'is_probe', coalesce(lane.id = any (probes), false),
        'lapsed_at', case when lane.lease_token is not null then extract(epoch from coalesce(lane.due_at, lane.leased_until)) * 1000 end,
        'lapsed_version', lane.held_version, 'is_whole', batch.is_whole, 'positions', batch.positions, 'begun', batch.begun);
    end if;
  end loop;
  return json_build_object('lanes', found_lanes, 'events', (
    select json_agg(json_build_array(position, id, topic, payload, version, producer,
      date_part('epoch', created_at) * 1000, seq, ordering_key, correlation_id, causation_id, traceparent,
      erased_at is not null))
    -- Each once, however many lanes carry it: it stands at the same position in all of them.
    from (
      select distinct on (position) position, event_id
      from unnest(found_positions, found_events) as found(position, event_id) order by position
    ) as found join events on id = event_id
  ));
end
$$;
--> statement-breakpoint
-- The next deliveries of a lane, in order, up to its front where there is one. Where the relay that held it died, those that
-- were put before others under its lease are left out, a hundred at most: it may have begun the others.
create or replace function postbud_next_batch_1(
  lane lanes, asked int, most_bytes int, is_bounded boolean,
  out positions bigint[], out event_ids uuid[],
  -- Those with an earlier attempt, replay or wait, and those of a backfill; of one that an operator probes, when its next
  -- attempt is due if this one fails, which then costs nothing.
  out begun json,
  -- Null where some are left out.
  out is_whole boolean,
  out front bigint
) language plpgsql as $$
begin
  if is_bounded then
    front := postbud_front_1(lane.topic, lane.subscriber, coalesce(lane.home_id, lane.id), nullif(lane.held_key, ''));
  end if;
  select coalesce(array_agg(next.position order by next.position) filter (where is_given), '{}'),
    coalesce(array_agg(next.event_id order by next.position) filter (where is_given), '{}'),
    json_agg(json_build_array(next.position, attempts, replays, extract(epoch from next_attempt_at) * 1000, backfilled,
      case when next_attempt_at is not null then (
        select extract(epoch from (attempt_log -> -1 ->> 'keeps')::timestamptz) * 1000 from deliveries
        where deliveries.lane_id = coalesce(lane.home_id, lane.id) and deliveries.position = next.position
          and attempt_log -> -1 ->> 'outcome' = 'probed'
      ) end))
      filter (where is_given and (attempts > 0 or replays > 0 or next_attempt_at is not null or backfilled)),
    case when not coalesce(bool_or(is_ahead), false) then count(*) < asked and coalesce(bool_and(is_given), true) end
  into positions, event_ids, begun, is_whole
  from (
    select *, not is_ahead and sum(payload_bytes) over in_order - payload_bytes < most_bytes as is_given,
      count(*) filter (where not is_ahead) over in_order as number
    from postbud_next_2(lane.id, lane.home_id, lane.slot, lane.held_key, lane.head,
        case when lane.lease_token is null then asked else asked + 100 end) as next,
      lateral (
        select case when lane.lease_token is null then false else exists (
          select from deliveries
          where deliveries.lane_id = coalesce(lane.home_id, lane.id) and deliveries.position = next.position
            and attempt_log -> -1 ->> 'heldBy' = lane.lease_token::text
        ) end as is_ahead
        -- Asked for each by itself: else the planner may read the whole lane, and Postgres 15 and 16 fail to count these.
        offset 0
      ) as put
    where front is null or next.position <= front
    window in_order as (order by next.position)
  ) as next
  where number <= asked;
end
$$;
--> statement-breakpoint
-- Checks values against a JSON Schema: the keywords that the catalog's schemas have (lib/platform/db/publish-catalog.ts).
--
-- It takes all values that one place of the schema describes at once, such as the `amountMinor` of 8,000 lines, so that a
-- list costs a few statements for each field of its items, and not a call for each item.
--
-- `given` is null where there is nothing to check. `parsed` are the values without the fields that their schema does not
-- name, as `emit` stores them; null if all stay as they are. `places`, `paths` and `problems` say which values (counted
-- from 1) do not fit, where in them (`lines.0.amountMinor`) and why. No problem repeats a value, which may be personal.
create or replace function postbud_parse_2(
  schema jsonb, given jsonb[], out parsed jsonb[], out places int[], out paths text[], out problems text[]
)
language plpgsql immutable as $$
#variable_conflict use_column
declare
  -- Null where any type will do.
  types text[] := case jsonb_typeof(schema -> 'type') when 'string' then array[schema ->> 'type']
    when 'array' then array(select jsonb_array_elements_text(schema -> 'type')) end;
  takes_integers boolean := coalesce('integer' = any (types), false);
  expected text := 'expected ' || (
    select string_agg(case when name = 'null' then name when name ~ '^[aeiou]' then 'an ' || name else 'a ' || name end, ' or ')
    from unnest(types) as names(name));
  words jsonb := schema -> 'enum';
  shortest int := (schema ->> 'minLength')::int;
  longest int := (schema ->> 'maxLength')::int;
  pattern text := schema ->> 'pattern';
  quick_pattern text := schema ->> 'quickPattern';
  least numeric := (schema ->> 'minimum')::numeric;
  most numeric := (schema ->> 'maximum')::numeric;
  above numeric := (schema ->> 'exclusiveMinimum')::numeric;
  fewest_items int := (schema ->> 'minItems')::int;
  most_items int := (schema ->> 'maxItems')::int;
  has_failed boolean[];
  remaining jsonb[] := given;
  is_first boolean := true;
  place int;
  part record;
  found record;
  inner_values jsonb[];
  owners int[];
  indexes int[];
  names text[];
  is_named boolean;
  objects int;
  filled int;
begin
  places := '{}';
  paths := '{}';
  problems := '{}';
  if schema ? 'anyOf' then
    for part in select option from jsonb_array_elements(schema -> 'anyOf') as options(option) loop
      select * into found from postbud_parse_2(part.option, remaining);
      has_failed := array_fill(false, array[cardinality(given)]);
      foreach place in array found.places loop
        has_failed[place] := true;
      end loop;
      if found.parsed is not null then
        parsed := array(
          select case when value is null or failed then so_far else now end
          from unnest(coalesce(parsed, given), remaining, has_failed, found.parsed) as options(so_far, value, failed, now));
      end if;
      -- Where no option fits, the first one's problems count: the others allow null.
      if is_first then
        select found.places, found.paths, found.problems into places, paths, problems;
        is_first := false;
      else
        select coalesce(array_agg(issue.place), '{}'), coalesce(array_agg(issue.path), '{}'), coalesce(array_agg(issue.problem), '{}')
        into places, paths, problems
        from unnest(places, paths, problems) as issue(place, path, problem) where has_failed[issue.place];
      end if;
      exit when places = '{}';
      remaining := array(select case when failed then value end from unnest(remaining, has_failed) as tried(value, failed));
    end loop;
    return;
  end if;

  select coalesce(array_agg(checked.place) filter (where problem is not null), '{}'),
    coalesce(array_agg(''::text) filter (where problem is not null), '{}'),
    coalesce(array_agg(problem) filter (where problem is not null), '{}'),
    count(*) filter (where is_of = 'object')
  into places, paths, problems, objects
  from (
    select typed.place, is_of, case
      when is_of = any (types) or is_of is null or types is null
          or (takes_integers and is_of = 'number' and value::numeric = trunc(value::numeric)) then case
        when words is not null and not words @> value then 'expected one of ' || (
          select string_agg(word::text, ', ') from jsonb_array_elements(words) as allowed(word))
        when is_of = 'string' then case
          when length(value #>> '{}') < shortest then format('expected at least %s characters', shortest)
          when length(value #>> '{}') > longest then format('expected at most %s characters', longest)
          when coalesce((value #>> '{}') !~ quick_pattern, true) and (value #>> '{}') !~ pattern then coalesce(schema ->> 'message', 'expected a text that matches ' || pattern)
        end
        when is_of = 'number' then case
          when abs(value::numeric) > 1.7976931348623158e308 then 'numbers beyond a double cannot be stored'
          when value::numeric < least then format('expected at least %s', least)
          when value::numeric > most then format('expected at most %s', most)
          when value::numeric <= above then format('expected more than %s', above)
        end
        when is_of = 'array' then case
          when jsonb_array_length(value) < fewest_items then format('expected at least %s items', fewest_items)
          when jsonb_array_length(value) > most_items then format('expected at most %s items', most_items)
        end
        -- What no schema names is kept as it is.
        when schema -> 'additionalProperties' <> 'false'
            and value @? '$.** ? (@ > 1.7976931348623158e308 || @ < -1.7976931348623158e308)'
          then 'numbers beyond a double cannot be stored'
      end
      else expected || ', not ' || case when is_of = 'null' then is_of when is_of ~ '^[aeiou]' then 'an ' || is_of else 'a ' || is_of end
    end as problem
    from (
      select value, jsonb_typeof(value) as is_of, numbered.place from unnest(given) with ordinality as numbered(value, place)
      -- Otherwise the planner writes the function in each place that names its result.
      offset 0
    ) as typed
  ) as checked;

  if schema ? 'items' then
    select array_agg(item), array_agg(listed.place), array_agg(nth - 1) into inner_values, owners, indexes
    from unnest(given) with ordinality as listed(value, place),
      jsonb_array_elements(case jsonb_typeof(value) when 'array' then value end) with ordinality as items(item, nth);
    if inner_values is not null then
      select * into found from postbud_parse_2(schema -> 'items', inner_values);
      if found.parsed is not null then
        parsed := array(
          select coalesce(jsonb_agg(value order by nth) filter (where nth is not null), (array_agg(value))[1])
          from (
            select value, listed.place, null::int as nth from unnest(given) with ordinality as listed(value, place)
            union all
            select value, owner, nth from unnest(found.parsed, owners, indexes) as items(value, owner, nth)
          ) as parts
          group by parts.place order by parts.place);
      end if;
      paths := paths || array(
        select concat_ws('.', indexes[issue.place], nullif(issue.path, ''))
        from unnest(found.places, found.paths) as issue(place, path));
      places := places || array(select owners[issue.place] from unnest(found.places) as issue(place));
      problems := problems || found.problems;
    end if;
  end if;

  if schema ? 'properties' and objects > 0 then
    if coalesce(schema -> 'additionalProperties' = 'false', true) then
      names := array(select jsonb_object_keys(schema -> 'properties'));
      select array_agg(case when is_named then value
          else value - array(select jsonb_object_keys(value - names)) end),
        bool_and(is_named)
      into inner_values, is_named
      from (
        select value, jsonb_typeof(value) is distinct from 'object' or value - names = '{}' as is_named
        from unnest(given) as stripped(value)
      ) as stripped;
      if not is_named then
        parsed := inner_values;
      end if;
    end if;
    for part in
      select name, rule, schema -> 'required' ? name as is_required
      from jsonb_each(schema -> 'properties') as fields(name, rule)
    loop
      select array_agg(value -> part.name), count(value -> part.name) into inner_values, filled from unnest(given) as fields(value);
      if filled > 0 then
        select * into found from postbud_parse_2(part.rule, inner_values);
        if found.parsed is not null then
          parsed := array(
            select case when field is null then value else value || jsonb_build_object(part.name, field) end
            from unnest(coalesce(parsed, given), found.parsed) as objects(value, field));
        end if;
        places := places || found.places;
        paths := paths || array(select concat_ws('.', part.name, nullif(path, '')) from unnest(found.paths) as issue(path));
        problems := problems || found.problems;
      end if;
      if part.is_required and filled < objects then
        select places || array_agg(lacking.place), paths || array_agg(part.name), problems || array_agg('is missing'::text)
        into places, paths, problems
        from unnest(given) with ordinality as lacking(value, place)
        where jsonb_typeof(value) = 'object' and not value ? part.name;
      end if;
    end loop;
  end if;
end
$$;
--> statement-breakpoint
-- Records outcomes and lets the lanes go, or keeps them. A lane whose token is no longer the relay's is passed over with
-- all its outcomes; doing it twice changes nothing the second time. The lanes and their homes must be locked.
--
-- Counters that a row changed by hand contradicts stay where they can be: the doctor finds them, and no lane stops for them.
--
-- `delivered_*`: deliveries of a lane with the same times, to the millisecond, and as many replays, are one row with all
-- their positions. `delivered_in_ms` has the durations of all rows, and then how often those of each had been replayed at
-- their claim, as `replays` of `unfinished` says. A delivery that has been replayed since then has another attempt before it:
-- an earlier call has settled this one. A release that does not say has that go unnoticed.
-- `lane_ids`, `addresses` and `lane_rows` are the locked lanes, and `held` those whose token is still the relay's. With
-- `keeps_more` a lane that has more to deliver is not made due: the caller leases it at once.
create or replace function postbud_settle_3(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb,
  -- Keys that leave their shared lane: one whose handler takes long, with the lease that it is under; or one that a newer
  -- release is needed for.
  leaving jsonb,
  lane_ids bigint[], addresses tid[], lane_rows lanes[], held bigint[],
  is_bounded boolean,
  keeps_more boolean,
  at timestamptz,
  -- The lanes of the keys that left and that the relay keeps, by the lane that they left and the key.
  out left_for jsonb,
  out delivered int,
  out failed int,
  out waited int,
  out dead_lettered int,
  out changes postbud_change_1[],
  -- The lanes that have more to deliver and are not due; and whether others are due by now.
  out more bigint[],
  out makes_due boolean
) language plpgsql as $$
declare
  is_all_held constant boolean := cardinality(held) = cardinality(outcomes);
  stretches constant int := cardinality(delivered_lanes);
  -- What this call has recorded, and no earlier one: the lanes that have delivered, and the attempts that say who is there.
  answering bigint[];
  presences jsonb;
  own lanes;
  -- An earlier call, whose answer was lost, may have settled lanes that are kept: all of them where this call does not record
  -- all that it carries, else those that keys leave. What was replayed since then may have moved a head from where that call
  -- left it to where it was before: it stays there, as where it moved elsewhere. A lane that it let go is not held any more.
  is_repeated boolean;
  unsure bigint[] := '{}';
  has_moved boolean;
  one postbud_outcome_2;
  is_of_key boolean := false;
  is_waiting boolean := false;
  is_kept boolean;
  is_through boolean;
  place int;
  due timestamptz;
  places tid[] := '{}';
  let_go lanes[] := '{}';
  kept bigint[] := '{}';
  keep_to timestamptz;
  kept_until timestamptz;
  -- A run goes by the clock of its claim, which may have stepped back since. No lease is longer; see LONGEST_TIME_LIMIT_MS.
  longest_lease constant timestamptz := at + interval '80 seconds';
begin
  delivered := 0;
  failed := 0;
  waited := 0;
  dead_lettered := 0;
  makes_due := unfinished is not null or leaving is not null;
  if stretches > 0 then
    with settled as (
      update deliveries set state = 'delivered', attempts = deliveries.attempts + 1, duration_ms = attempt.in_ms,
        attempted_at = to_timestamp(attempt.at_ms / 1000),
        delivered_at = to_timestamp((attempt.at_ms + attempt.in_ms) / 1000), next_attempt_at = null
      from unnest(delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms, delivered_in_ms[:stretches],
          delivered_in_ms[stretches + 1:])
        as attempt(lane, home, positions, at_ms, in_ms, replays)
      where deliveries.lane_id = attempt.home and deliveries.position = any (attempt.positions::bigint[])
        and coalesce(deliveries.state in ('pending', 'failing'), false)
        and deliveries.replays = coalesce(attempt.replays, deliveries.replays)
        and (is_all_held or attempt.lane = any (held))
      returning attempt.lane, deliveries.event_id, (deliveries.attempts > 1)::int as was_failing,
        (deliveries.attempts = 1 and deliveries.replays = 0)::int as first_attempt, deliveries.delivered_at
    ),
    changed_event as (
      update events set open = greatest(events.open - change.open, 0),
        failing = least(greatest(events.failing - change.failing, 0), greatest(events.open - change.open, 0))
      from (
        -- In the order of their ids: two relays that settle deliveries of the same events would otherwise wait for each
        -- other in a ring. Locking them first would cost a record in the log for each.
        select event_id, count(*)::int as open, sum(was_failing)::int as failing
        from settled group by event_id order by event_id
      ) as change
      where events.id = change.event_id
      returning events.topic, events.state as becomes, postbud_event_state(
        events.open + change.open, events.failing + change.failing, events.dead_lettered) as was
    ),
    lane_change as (
      select lane, count(*)::int as delivered, sum(was_failing)::int as failing, sum(first_attempt)::int as first_attempt,
        max(delivered_at) as last_at
      from settled group by lane
    )
    select coalesce(sum(lane_change.delivered), 0), array_agg(lane),
      array_agg(row(topic, subscriber, lane_change.failing - lane_change.delivered, -lane_change.failing, 0,
        lane_change.delivered, first_attempt, 0, last_at, null)::postbud_change_1)
        || (select array_agg(postbud_event_moved(topic, was, becomes)) from changed_event where was <> becomes)
    into delivered, answering, changes
    from lane_change join unnest(lane_rows) as lanes on lanes.id = lane;
  end if;
  if unfinished is not null then
    if unfinished @? '$[*].error_group.rest' then
      unfinished := postbud_bound_groups_1(unfinished);
    end if;
    with attempt as materialized (
      select attempt.*, lanes.topic, lanes.subscriber
      from jsonb_to_recordset(unfinished) as attempt(lane bigint, home bigint, position bigint,
          replays int, at timestamptz, duration_ms int, burnt int, next_attempt_at timestamptz, error_group jsonb,
          entry jsonb, halts boolean, presence text, is_probe boolean)
        join unnest(lane_rows) as lanes on lanes.id = attempt.lane
      where is_all_held or attempt.lane = any (held)
    ),
    settled as (
      update deliveries set attempts = deliveries.attempts + attempt.burnt, attempted_at = attempt.at,
        duration_ms = attempt.duration_ms, next_attempt_at = attempt.next_attempt_at,
        state = case when attempt.next_attempt_at is null then 'dead_lettered'
          when attempt.burnt = 1 then 'failing' else deliveries.state end,
        dead_lettered_at = case when attempt.next_attempt_at is null
          then attempt.at + attempt.duration_ms * interval '1 millisecond' end,
        error_group = attempt.error_group ->> 'key',
        attempt_log = coalesce(deliveries.attempt_log, '[]')
          || (attempt.entry || jsonb_build_object('attempt', deliveries.attempts + 1))
      from attempt
      where deliveries.lane_id = attempt.home and deliveries.position = attempt.position
        and coalesce(deliveries.state in ('pending', 'failing'), false)
        and deliveries.replays = coalesce(attempt.replays, deliveries.replays)
        -- Where the lane is kept, an earlier settlement of these outcomes may have recorded it, whose answer was lost. Its
        -- key has had a lane of its own since then, and perhaps later attempts.
        and not coalesce(deliveries.attempt_log @> jsonb_build_array(attempt.entry) and (
          (deliveries.attempt_log -> -1) - 'attempt' = attempt.entry
          or exists (select from lanes as left_to where left_to.home_id = attempt.lane and held_key = lane_key)
        ), false)
      returning attempt.*, deliveries.event_id, deliveries.lane_key, (attempt.next_attempt_at is null)::int as dead,
        (deliveries.state = 'failing')::int - (deliveries.attempts > attempt.burnt)::int as failing,
        case when attempt.burnt = 1 then attempt.at + attempt.duration_ms * interval '1 millisecond' end as failed_at
    ),
    changed_event as (
      update events set open = greatest(events.open - change.dead, 0),
        failing = least(greatest(events.failing + change.failing, 0), greatest(events.open - change.dead, 0)),
        dead_lettered = events.dead_lettered + change.dead
      from (
        select event_id, sum(dead)::int as dead, sum(failing)::int as failing from settled group by event_id order by event_id
      ) as change
      where events.id = change.event_id
      returning events.topic, events.state as becomes, postbud_event_state(
        events.open + change.dead, events.failing - change.failing, events.dead_lettered - change.dead) as was
    ),
    -- A key that waits leaves its shared lane to the others. Its deliveries stay where they are.
    in_trouble as (
      insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, due_at)
      -- What may have ended a relay goes on one by one there.
      select home.topic, home.subscriber, home.slot, settled.lane_key, home.id,
        greatest(home.careful_to, outcome.careful_to),
        -- Moved back since the claim: a replay may have put back what comes first of this key.
        case when home.head = outcome.head_was then settled.position - (not coalesce(halts, false))::int
          else least(settled.position - 1, home.head) end,
        settled.position, case when home.head <> outcome.head_was then postbud_settle_3.at
          when halts then 'infinity' else settled.next_attempt_at end
      from settled join unnest(outcomes) as outcome on outcome.id = settled.lane, lateral (
          select * from lanes where lanes.id >= settled.lane and lanes.id <= settled.lane order by lanes.id desc limit 1
        ) as home
      where home.slot is not null and home.home_id is null and (settled.next_attempt_at is not null or halts)
      order by settled.position
      on conflict (home_id, held_key) where home_id is not null
        do update set head = least(lanes.head, excluded.head), careful_to = greatest(lanes.careful_to, excluded.careful_to),
          -- Where another relay holds it, it is due at the end of that lease.
          due_at = case when lanes.lease_token is null then excluded.due_at else lanes.due_at end
    ),
    halted as (
      insert into halts (lane_id, position, lane_key, topic, subscriber, halted_at)
      select home, settled.position, lane_key, topic, subscriber, settled.at from settled where halts
      on conflict (lane_id, position) do update set halted_at = excluded.halted_at
    ),
    dead as (
      insert into error_groups as known (key, topic, subscriber, kind, message, dead_lettered)
      select error_group ->> 'key', topic, subscriber, min(error_group ->> 'kind'), min(error_group ->> 'message'), count(*)
      from settled
      -- After the events, in the order of their keys.
      where settled.dead = 1 and (select count(*) from changed_event) >= 0
      group by 1, 2, 3 order by 1
      on conflict (key) do update set dead_lettered = known.dead_lettered + excluded.dead_lettered
    )
    select changes
        || array_agg(row(topic, subscriber, -dead - failing, failing, dead, 0, 0, burnt, null, failed_at)::postbud_change_1)
        || (select array_agg(postbud_event_moved(topic, was, becomes)) from changed_event where was <> becomes),
      count(*) filter (where dead = 0 and burnt = 1), count(*) filter (where burnt = 0), count(*) filter (where dead = 1),
      jsonb_agg(to_jsonb(settled)) filter (where presence is not null)
    into changes, failed, waited, dead_lettered, presences
    from settled;
  end if;
  if leaving is not null then
    insert into lanes (topic, subscriber, slot, held_key, home_id, careful_to, head, tail, waits_for_version,
      held_version, lease_token, leased_until, due_at)
    select topic, subscriber, slot, key, home.id, greatest(home.careful_to, outcome.careful_to),
      case when home.head = outcome.head_was and outcome.keep_until is null then key_leaving.position - 1
        else least(key_leaving.position - 1, home.head) end,
      key_leaving.position,
      key_leaving.waits_for_version, home.held_version,
      case when key_leaving.keep_until is not null then home.lease_token end,
      case when key_leaving.keep_until is not null then least(to_timestamp(key_leaving.keep_until / 1000), longest_lease) end,
      least(coalesce(to_timestamp(key_leaving.keep_until / 1000), at), longest_lease)
    from jsonb_to_recordset(leaving) as key_leaving(lane bigint, key text, position bigint, keep_until float8,
        waits_for_version smallint)
      join unnest(outcomes) as outcome on outcome.id = key_leaving.lane, lateral (
        select * from lanes
        where lanes.id >= key_leaving.lane and lanes.id <= key_leaving.lane order by lanes.id desc limit 1
      ) as home
    where home.id = any (held)
    on conflict (home_id, held_key) where home_id is not null
      do update set head = least(lanes.head, excluded.head),
        careful_to = greatest(lanes.careful_to, excluded.careful_to);
    -- Also those of an earlier settlement of these outcomes, whose answer was lost: the lanes that they left are held no more.
    select json_agg(json_build_object('id', lanes.id, 'home_id', home_id, 'held_key', held_key)) into left_for
    from unnest(outcomes) as outcome join lanes on home_id = outcome.id and lease_token = outcome.token;
    -- That a key has left does not tell the first call from a later one.
    unsure := array(select lane from jsonb_to_recordset(leaving) as key_leaving(lane bigint));
  end if;
  is_bounded := is_bounded or unfinished is not null and exists (select from halts);
  if makes_due then
    -- As the statements above left them.
    select * into lane_ids, addresses, lane_rows from postbud_lock_lanes_1(lane_ids);
  end if;
  foreach one in array outcomes loop
    place := array_position(lane_ids, one.id);
    own := lane_rows[place];
    continue when one.token is distinct from own.lease_token;
    is_of_key := is_of_key or own.home_id is not null;
    is_waiting := is_waiting or one.waits;
    is_kept := one.keep_until is not null;
    if is_kept and is_repeated is null then
      is_repeated := delivered + failed + waited + dead_lettered < coalesce(jsonb_array_length(unfinished), 0)
        + cardinality(string_to_array(array_to_string(delivered_positions, ','), ','));
    end if;
    keep_to := least(to_timestamp(one.keep_until / 1000), longest_lease);
    -- Moved back since the claim: a replay put deliveries back, which come first.
    has_moved := own.head <> one.head_was or is_kept and (is_repeated or one.id = any (unsure));
    is_through := false;
    if own.home_id is not null and not is_kept and one.retry_at is null then
      is_through := not exists (
        select from deliveries
        -- The row is compared as the index of keys has it.
        where (lane_id, lane_key, position) > (own.home_id, own.held_key, one.head_is)
          and lane_id = own.home_id and lane_key = own.held_key
          and coalesce(state in ('pending', 'failing'), false)
      )
      -- A key that is halted further on waits there: the shared lane knows nothing of it.
      and not (is_bounded and exists (
        select from halts join deliveries using (lane_id, position)
        where halts.lane_id = own.home_id and halts.lane_key = own.held_key
          and deliveries.state = 'dead_lettered' and deliveries.dismissed_at is null
      ));
    end if;
    due := null;
    if is_kept then
      if own.home_id is not null then
        due := greatest(own.due_at, keep_to);
      elsif one.keep_until = 0 then
        due := own.due_at;
      else
        kept := kept || own.id;
        kept_until := greatest(kept_until, keep_to);
      end if;
    elsif has_moved then
      due := at;
    elsif is_through then
      due := null;
    elsif is_bounded and one.head_is >= postbud_front_1(
      own.topic, own.subscriber, coalesce(own.home_id, own.id), nullif(own.held_key, ''))
    then
      due := 'infinity';
    elsif one.retry_at is not null then
      due := to_timestamp(one.retry_at / 1000);
    elsif own.home_id is null then
      if own.tail > one.head_is and keeps_more then
        more := more || own.id;
      elsif own.tail > one.head_is then
        due := at;
      end if;
    else
      due := at;
    end if;
    makes_due := makes_due or not is_kept and coalesce(due <= at, false);
    own.head := case when has_moved then own.head else one.head_is end;
    own.tail := greatest(own.tail, one.head_is);
    own.careful_to := greatest(own.careful_to, one.careful_to);
    own.waits_for_version := case when not has_moved then one.waits_for_version end;
    own.lease_token := case when is_kept then own.lease_token end;
    own.leased_until := case when is_kept then greatest(own.leased_until, own.due_at, keep_to) end;
    own.due_at := due;
    places := places || addresses[place];
    let_go := let_go || own;
  end loop;
  update lanes set head = let_go.head, tail = let_go.tail, careful_to = let_go.careful_to,
    waits_for_version = let_go.waits_for_version, lease_token = let_go.lease_token,
    leased_until = let_go.leased_until, due_at = let_go.due_at
  from unnest(places, let_go) as let_go(address)
  where lanes.ctid = let_go.address;
  if cardinality(kept) > 0 then
    -- Where the settlement had to wait, all may have looked for relays that died up to then.
    insert into leases values (greatest(kept_until, clock_timestamp()), kept);
  end if;
  if is_waiting then
    perform postbud_record_presence_1(outcomes, held, answering, presences, at);
  end if;
  -- The key is through: what comes for it next goes to its shared lane again.
  if is_of_key then
    delete from lanes where id = any (held) and home_id is not null and due_at is null;
  end if;
end
$$;
--> statement-breakpoint
-- One turn of a relay in one round trip: fans out, settles what is done, and claims what is due. Each statement in here
-- sees what was committed before it began, and begins only if there is something for it to do: a turn costs as much as it
-- has statements, 10 to 15 microseconds for each before it does anything.
--
-- The order of locks is that of lib/bus/deliveries/locks.ts: the fan-out's, then all lanes that are changed, in the order of
-- their ids, then events, then counters. A claim passes over lanes that others have locked.
--
-- With `max_lanes` 0 it only settles: the relay's time is up. Lanes that it has lengthened or settled itself are leased without
-- being made due first, if they are few. With `is_looking` it looks at all that is due, and then nothing comes before what has
-- waited longer. `max_events`, `is_careful`, `awaited` and `memory` are for the fan-out. The subscriptions are texts of arrays, the
-- names with commas between them: an idle turn reads none of them, and reading hundreds would be a third of its work.
create or replace function postbud_turn_4(
  outcomes postbud_outcome_2[],
  delivered_lanes bigint[], delivered_homes bigint[], delivered_positions text[], delivered_at_ms float8[],
  delivered_in_ms int[],
  unfinished jsonb, leaving jsonb,
  memory jsonb,
  token uuid, names_text text, versions_text text, leases_text text, waits_text text,
  max_lanes int, max_deliveries int, is_looking boolean,
  max_events int, is_careful boolean, awaited int[],
  clock timestamptz
) returns json language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off as $$
declare
  few constant int := 16;
  -- Another one after each start and each recovery from a crash, and where the numbers of markers begin anew.
  server constant text := concat(pg_postmaster_start_time(), ' ', pg_last_wal_replay_lsn(), ' ',
    pg_relation_filenode('awaiting_fan_out_number_seq'));
  is_memory_new boolean := false;
  names text[];
  versions int[];
  leases_ms float8[];
  waits boolean[];
  now_at timestamptz := coalesce(clock, clock_timestamp());
  passed_at timestamptz;
  fanned record;
  fanned_out int := 0;
  is_awaited boolean := false;
  is_met boolean := false;
  is_clock_back boolean := false;
  is_durable boolean := outcomes is not null;
  lengthened bigint[];
  placed_at bigint;
  placed_event uuid;
  changes postbud_change_1[];
  wanted bigint[];
  outcome postbud_outcome_2;
  locked record;
  lane lanes;
  held bigint[] := '{}';
  lapsed bigint[] := '{}';
  is_down boolean;
  -- When the latest of the outages that are over ended; null where none is over, or this turn did not look.
  recovered_last timestamptz;
  is_paused boolean;
  is_bounded boolean;
  is_limited boolean := false;
  limited record;
  limited_in_ms float8;
  is_crowded boolean := false;
  is_direct boolean;
  settled record;
  settlement json;
  place int;
  turn int;
  turns int[];
  tails bigint[];
  firsts timestamptz[];
  due record;
  has_found_due boolean := false;
  claimed json;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform postbud_require_read_committed_1();
  end if;
  if memory ->> 'server' is distinct from server then
    -- What was pinned stays so: its transactions may be prepared ones.
    memory := jsonb_build_object('server', server, 'from', 0, 'movedAt', 0, 'wholeAt', 0, 'reserved', 0, 'pins', memory -> 'pins');
    is_memory_new := true;
  end if;
  if max_lanes > 0 then
    fanned := postbud_fan_out_3(memory, outcomes is null, max_events, is_careful, awaited);
    if fanned.memory is not null then
      memory := fanned.memory;
      is_memory_new := true;
    end if;
    fanned_out := fanned.events;
    is_awaited := fanned.is_awaited;
    is_met := fanned.is_met;
    is_clock_back := coalesce(fanned.is_ahead, false);
    is_durable := is_durable or fanned.is_durable;
    lengthened := fanned.lanes;
    placed_at := fanned.position;
    placed_event := fanned.event_id;
    changes := fanned.changes;
    wanted := lengthened;
  end if;
  if outcomes is not null then
    foreach outcome in array outcomes loop
      wanted := wanted || outcome.id;
      if outcome.home <> outcome.id then
        wanted := wanted || outcome.home;
      end if;
    end loop;
  end if;
  if wanted is not null then
    locked := postbud_lock_lanes_1(wanted);
  end if;
  if wanted is not null or is_looking then
    -- After the lanes are locked: who begins a backfill, or halts a lane, locks them too. Whether anything
    -- is due at all is asked first. Lanes of subscribers that are not attached here are due for long.
    select exists (select from outages where recovered_at is null), (select max(recovered_at) from outages),
      exists (select from pauses), exists (select from halts) or exists (select from backfills where ended_at is null),
      exists (select from subscriber_limits),
      case when is_looking then (select at from last_pass limit 1) end,
      is_looking and exists (select from lanes where due_at <= now_at order by due_at limit 1)
    into is_down, recovered_last, is_paused, is_bounded, is_limited, passed_at, is_crowded;
  end if;
  if max_lanes > 0 and is_looking then
    -- What operators go by to tell that a relay runs. Once a second is enough, and nobody waits to write it.
    if passed_at is null or passed_at < now_at - interval '1 second' then
      update last_pass set at = now_at where ctid = any (array(select ctid from last_pass for update skip locked));
    end if;
    -- A relay was here at a time that the clock has not come to. A clock that tests set goes where they want.
    is_clock_back := is_clock_back or clock is null and coalesce(passed_at > now_at + interval '10 seconds', false);
  end if;
  is_crowded := is_crowded and max_lanes > 0;
  if max_lanes > 0 and (wanted is not null or is_crowded) then
    names := string_to_array(names_text, ',');
    versions := versions_text;
    leases_ms := leases_text;
    waits := waits_text;
  end if;
  if is_crowded then
    is_crowded := exists (
      select from unnest(names) as name, lateral (
        select from lanes
        where topic = split_part(name, ' ', 1) and subscriber = split_part(name, ' ', 2) and due_at <= now_at limit 1
      ) as due
    );
  end if;
  is_direct := max_lanes > 0 and coalesce(cardinality(wanted), 0) <= least(few, max_lanes) and not is_crowded;
  if is_direct and is_limited and wanted is not null then
    is_direct := not exists (
      select from unnest(locked.rows) as lane join subscriber_limits using (subscriber)
    );
  end if;
  if outcomes is not null then
    foreach outcome in array outcomes loop
      if (locked.rows[array_position(locked.ids, outcome.id)]).lease_token = outcome.token then
        held := held || outcome.id;
        if (locked.rows[array_position(locked.ids, outcome.id)]).leased_until <= now_at then
          lapsed := lapsed || outcome.id;
        end if;
      end if;
    end loop;
    settled := postbud_settle_3(outcomes, delivered_lanes, delivered_homes, delivered_positions, delivered_at_ms,
      delivered_in_ms, unfinished, leaving, locked.ids, locked.addresses, locked.rows, held, is_bounded,
      is_direct, now_at);
    changes := changes || settled.changes;
    settlement := json_build_object('held', held, 'lapsed', lapsed, 'leftFor', settled.left_for, 'delivered', settled.delivered,
      'failed', settled.failed, 'waited', settled.waited, 'deadLettered', settled.dead_lettered);
    is_crowded := is_crowded or settled.makes_due;
    if unfinished is not null then
      -- The settlement may have opened an outage.
      is_down := exists (select from outages where recovered_at is null);
    end if;
    wanted := lengthened || settled.more;
    if is_direct and wanted is not null then
      -- As the settlement left them.
      locked := postbud_lock_lanes_1(wanted);
    end if;
  end if;
  if cardinality(changes) > 0 then
    perform postbud_count_2(changes, now_at);
  end if;
  now_at := coalesce(clock, clock_timestamp());
  if is_direct and wanted is not null then
    for place in 1..cardinality(locked.ids) loop
      lane := locked.rows[place];
      -- An idle lane is due now. Another one is when it was to be looked at.
      turn := case
        when coalesce(lane.due_at, case when lane.lease_token is not null then lane.leased_until end, now_at) <= now_at
        then array_position(names, lane.topic || ' ' || lane.subscriber)
      end;
      if lane.waits_for_version > versions[turn] then
        turn := null;
      elsif turn is not null and (is_paused or is_down) then
        -- Asked only here: an expression with a query in it costs a query, whatever else it says.
        turn := case when not exists (
            select from pauses where pauses.subscriber = lane.subscriber and pauses.topic in ('', lane.topic)
          ) and not (waits[turn] and exists (
            select from outages where outages.subscriber = lane.subscriber and recovered_at is null
          )) then turn end;
      end if;
      turns[place] := turn;
    end loop;
    -- From their first place on: an array that begins at another one would be read from there.
    tails := array_fill(null::bigint, array[cardinality(locked.ids)]);
    firsts := array_fill(null::timestamptz, array[cardinality(locked.ids)]);
    if lengthened is not null then
      for number in 1..cardinality(lengthened) loop
        place := array_position(locked.ids, lengthened[number]);
        tails[place] := greatest(tails[place], fanned.tails[number]);
        firsts[place] := least(firsts[place], fanned.firsts[number]);
      end loop;
    end if;
    claimed := postbud_lease_1(token, versions, leases_ms, locked.addresses, locked.rows, turns, tails, firsts, null,
      is_bounded, max_deliveries, now_at, placed_at, placed_event);
  elsif lengthened is not null then
    -- There may be thousands.
    update lanes set tail = greatest(lanes.tail, longer.tail),
      due_at = case when lanes.lease_token is null then coalesce(lanes.due_at, least(longer.first_at, now_at))
        else lanes.due_at end
    from (
      select id, max(tail) as tail, min(first_at) as first_at
      from unnest(lengthened, fanned.tails, fanned.firsts) as longer(id, tail, first_at) group by id
    ) as longer, lateral (
      select ctid as address from lanes where lanes.id >= longer.id and lanes.id <= longer.id order by lanes.id desc limit 1
    ) as newest
    where lanes.ctid = newest.address;
  end if;
  if max_lanes > 0 and claimed is null and (is_crowded or not is_direct) then
    due := postbud_find_due_1(case when is_limited then postbud_unlimited_1(names) else names end, versions, leases_ms, waits,
      is_down, max_lanes, now_at);
    if due.ids is not null then
      has_found_due := true;
      -- In a newer snapshot, now that they are locked, as all that follows.
      locked := postbud_lock_lanes_1(due.ids);
      turns := null;
      for place in 1..cardinality(locked.ids) loop
        turns[place] := due.turns[array_position(due.ids, locked.ids[place])];
      end loop;
      is_bounded := exists (select from halts) or exists (select from backfills where ended_at is null);
      claimed := postbud_lease_1(token, versions, leases_ms, locked.addresses, locked.rows, turns, null, null, due.probes,
        is_bounded, max_deliveries, now_at, null, null);
    end if;
  elsif is_crowded then
    -- What this turn has made due, it has not looked for: the next one does.
    has_found_due := true;
  end if;
  if is_limited and max_lanes > 0 and (is_crowded or not is_direct) then
    limited := postbud_claim_limited_1(token, names, versions, leases_ms, waits, max_lanes, max_deliveries, now_at, claimed);
    claimed := limited.claimed;
    limited_in_ms := limited.next_in_ms;
    has_found_due := has_found_due or limited.has_found;
    -- Other relays go by what it has used, which handlers use on after a crash.
    is_durable := is_durable or limited.has_found;
  end if;
  -- What a crash takes back is done again, under the same numbers: a lease, and the fan-out before it. A settlement waits for
  -- the disk, and what is before it in the log with it.
  if not is_durable and pg_current_xact_id_if_assigned() is not null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  -- The clock once more: whoever had a lane before has settled it before that, and not before `now`.
  return json_build_object('now', extract(epoch from now_at) * 1000,
    'clock', extract(epoch from coalesce(clock, clock_timestamp())) * 1000, 'fannedOut', fanned_out,
    'isAwaited', is_awaited, 'isMet', is_met, 'isClockBack', is_clock_back,
    -- An older release reads only the first of these two.
    'hasRecovered', recovered_last is not null, 'recoveredAtMs', extract(epoch from recovered_last) * 1000,
    'hasFoundDue', has_found_due, 'memory', case when is_memory_new then memory end, 'settled', settlement,
    'claimed', claimed, 'limitedInMs', limited_in_ms);
end
$$;
