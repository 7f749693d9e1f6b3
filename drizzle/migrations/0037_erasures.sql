-- Erasures of a person's data: one row for each. While it is under way, `subjects`, `names` and `erased_events` hold what it
-- looks for; at its end they are masked or deleted.
create table erasures (
  id uuid primary key,
  requested_at timestamptz not null,
  requested_by text not null,
  reason text not null,
  subjects text[] not null,
  is_exact boolean not null,
  names jsonb,
  names_before jsonb,
  state text not null default 'waiting',
  producers text[] not null,
  leases uuid[] not null default '{}',
  last_id uuid,
  reached_id uuid not null default '00000000-0000-0000-0000-000000000000',
  searched bigint not null default 0,
  found bigint not null default 0,
  events bigint not null default 0,
  deliveries bigint not null default 0,
  notifications bigint not null default 0,
  texts bigint not null default 0,
  keys_kept bigint not null default 0,
  next_at timestamptz not null,
  ended_at timestamptz,
  constraint erasures_state check (
    state in ('waiting', 'gathering', 'finding', 'erasing', 'settling', 'checking', 'ended')
    and (state = 'ended') = (ended_at is not null) and (ended_at is null or names is null and names_before is null)
  )
);--> statement-breakpoint
create index erasures_requested on erasures (requested_at, id);--> statement-breakpoint
create index erasures_open on erasures (next_at) where ended_at is null;--> statement-breakpoint
-- The events that an erasure under way has found. `texts`: the personal data that they had.
create table erased_events (
  erasure_id uuid not null,
  event_id uuid not null,
  texts text[] not null default '{}',
  constraint erased_events_erasure_id_event_id_pk primary key (erasure_id, event_id)
);--> statement-breakpoint
-- The log has the erasure's id and not its subject, because nothing in the log can be changed.
alter table operator_actions add column erasure_id uuid;
