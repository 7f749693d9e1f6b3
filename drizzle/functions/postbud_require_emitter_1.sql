-- Requires that the catalog has a topic, and that the caller of a function with the owner's rights may emit it.
--
-- Returns the topic's row. Raises PB001 for an unknown topic and PB004 for one that the role may not emit.
create or replace function postbud_require_emitter_1(topic text) returns catalog_topics language plpgsql stable as $$
#variable_conflict use_column
declare
  known catalog_topics;
  -- Inside, `current_user` is the owner. The role is the one of `set role` where there is one, as for any right.
  caller name := case current_setting('role') when 'none' then session_user else current_setting('role') end;
begin
  select * into known from catalog_topics where catalog_topics.topic = postbud_require_emitter_1.topic;
  if not found then
    raise exception using errcode = 'PB001',
      message = format('unknown topic %s', coalesce(to_json(postbud_require_emitter_1.topic)::text, 'null')),
      hint = coalesce(
        (select 'did you mean ' || near.topic || '?'
          from (
            select catalog_topics.topic,
              postbud_edits_1(lower(postbud_require_emitter_1.topic), catalog_topics.topic) as edits
            from catalog_topics
            -- Longer names than any topic's cost time and are near to none.
            where length(postbud_require_emitter_1.topic) <= 100
            order by edits, catalog_topics.topic limit 1
          ) as near
          where edits <= greatest(1, length(postbud_require_emitter_1.topic) / 3)),
        case when exists (select from catalog_topics) then 'npx postbud catalog lists the topics'
          else 'the catalog is empty: run npm run migrate' end);
  end if;
  -- Who may write to the table needs no grant: the owner, the relays.
  if not has_table_privilege(caller, 'events', 'insert') and not exists (
    select from role_grants join pg_roles on rolname = role
    where may = 'emit' and producer = known.producer and pg_has_role(caller, pg_roles.oid, 'usage'))
  then
    raise exception using errcode = 'PB004',
      message = format('%s may not emit %s: it is granted %s', caller, known.topic, coalesce(
        (select 'the topics of ' || string_agg(distinct producer, ', ' order by producer)
          from role_grants join pg_roles on rolname = role
          where may = 'emit' and pg_has_role(caller, pg_roles.oid, 'usage')), 'no topics')),
      hint = format('npm run grant -- --role %s --producer %s', caller, known.producer);
  end if;
  return known;
end
$$;
