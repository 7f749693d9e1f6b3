-- Records the events of one request to POST /api/events, in their order, each once for its producer's source and id: they are
-- its dedupe key in its topic. One call is one transaction, so that it takes one round trip.
--
-- Returns what became of each, in the same order: its id, null where there was no timer to cancel, and whether it was
-- recorded earlier. Raises as postbud_emit does; PB006 for an event whose key another fact has, with the event's place
-- (counted from 0) and the attribute that differs as JSON in its detail; and 55P03 after four seconds of waiting for the same
-- event in another transaction.
create or replace function postbud_record_posted_2(posted jsonb, out taken jsonb) language plpgsql
set lock_timeout = '4s' as $$
declare
  event jsonb;
  recorded uuid;
  is_new boolean;
  cancelled json;
  differing text;
begin
  perform postbud_require_read_committed_1();
  taken := '[]';
  for event in select value from jsonb_array_elements(posted) with ordinality as given(value, place) order by place loop
    differing := postbud_differing_use_1(event);
    if differing is null and event ->> 'at' = 'never' then
      cancelled := postbud_cancel_timer_once_1(event ->> 'type', event ->> 'timerkey', event ->> 'dedupekey');
      recorded := cancelled ->> 'id';
      is_new := cancelled ->> 'isNew';
    elsif differing is null then
      recorded := postbud_emit(event ->> 'type', event -> 'data',
        ordering_key => event ->> 'orderingkey', dedupe_key => event ->> 'dedupekey',
        correlation_id => event ->> 'correlationid', causation_id => event ->> 'causationid',
        traceparent => event ->> 'traceparent', version => (event ->> 'schemaversion')::int,
        at => coalesce((event ->> 'at')::timestamptz,
          clock_timestamp() + (event ->> 'afterMs')::float8 * interval '1 millisecond'),
        timer_key => event ->> 'timerkey');
      -- Recorded by this transaction, and not by an earlier event of it with the same key.
      is_new := not taken @> jsonb_build_array(jsonb_build_object('eventId', recorded)) and exists (
          select from events where events.id = recorded and xmin = pg_current_xact_id()::xid
          union all
          select from timer_dedupe_keys
          where topic = event ->> 'type' and dedupe_key = event ->> 'dedupekey' and xmin = pg_current_xact_id()::xid
        );
      if not is_new then
        differing := postbud_differing_fact_1(recorded, event);
      end if;
    end if;
    if differing is not null then
      raise exception using errcode = 'PB006', message = 'the same source and id are those of another fact',
        detail = jsonb_build_object('place', jsonb_array_length(taken), 'differing', differing)::text;
    end if;
    taken := taken || jsonb_build_object('id', event ->> 'id', 'eventId', recorded, 'duplicate', not is_new);
  end loop;
end
$$;
