-- What goes wrong, one row for each subscription and kind of error, from its first failure until it is settled.
create table incidents (
  id uuid primary key,
  topic text not null,
  subscriber text not null,
  kind text not null,
  message text not null,
  state text not null,
  revision integer not null default 1,
  change text not null,
  opened_at timestamp with time zone not null,
  changed_at timestamp with time zone not null,
  closed_at timestamp with time zone,
  blocked_lanes integer not null,
  waiting bigint not null,
  owed bigint not null,
  acknowledged_at timestamp with time zone,
  acknowledged_by text,
  acknowledged_note text,
  constraint incidents_state check (state in ('happening', 'owed', 'closed') and (state = 'closed') = (closed_at is not null)),
  constraint incidents_change check (change in ('opened', 'changed', 'closed')),
  constraint incidents_numbers check (revision > 0 and blocked_lanes >= 0 and waiting >= 0 and owed >= 0),
  constraint incidents_acknowledged check ((acknowledged_at is null) = (acknowledged_by is null))
);--> statement-breakpoint
create unique index incidents_open on incidents (topic, subscriber, kind) where closed_at is null;--> statement-breakpoint
create index incidents_closed on incidents (closed_at, id) where closed_at is not null;--> statement-breakpoint
create index incidents_subscription on incidents (topic, subscriber, kind, closed_at);--> statement-breakpoint
alter table operator_actions add column incident_id uuid;--> statement-breakpoint
create index operator_actions_incident on operator_actions (incident_id) where incident_id is not null;--> statement-breakpoint
-- A dismissed dead letter has neither an error group nor a time of death, so no release counts, lists or replays it by
-- them. It is replayed only by a release that knows the column: the check refuses any other state with it.
alter table deliveries add column dismissed_at timestamp with time zone;--> statement-breakpoint
-- Not valid: rows that fit the check it replaces fit this one too, and are not read again.
alter table deliveries drop constraint deliveries_state, add constraint deliveries_state check (case state
  when 'delivered' then delivered_at is not null and dead_lettered_at is null and error_group is null
    and dismissed_at is null
  when 'dead_lettered' then delivered_at is null and (dead_lettered_at is null) = (dismissed_at is not null)
    and (error_group is null) = (dismissed_at is not null)
  else delivered_at is null and dead_lettered_at is null and error_group is null and dismissed_at is null
    and (state = 'pending' or (attempts > 0 and next_attempt_at is not null))
end) not valid;--> statement-breakpoint
create index deliveries_dismissed on deliveries (dismissed_at) where dismissed_at is not null;
