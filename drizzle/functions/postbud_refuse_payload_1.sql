-- Raises PB002 with the first 20 problems of a payload.
create or replace function postbud_refuse_payload_1(topic text, paths text[], problems text[]) returns void language plpgsql as $$
declare
  -- As many as lib/bus/outbox/errors.ts lists.
  listed constant int := 20;
  more int := cardinality(paths) - listed;
begin
  raise exception using errcode = 'PB002',
    message = format('the payload does not match %s: %s', topic, (
      select string_agg(concat_ws(': ', nullif(path, ''), problem), '; ')
      from unnest(paths[1:listed], problems[1:listed]) as issues(path, problem)))
      || case when more > 0 then format('; … and %s more', to_char(more, 'FM999,999,999')) else '' end,
    detail = (
      select jsonb_agg(jsonb_build_object('path', path, 'message', problem))
      from unnest(paths[1:listed], problems[1:listed]) as issues(path, problem))::text;
end
$$;
