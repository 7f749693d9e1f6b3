-- Where a relay holds a lane until. `due_at` stays null meanwhile, but for the lane of a key in trouble: it is in an index,
-- and a lane that is leased and let go for each event would leave a dead entry there each time.
alter table lanes add column leased_until timestamptz;--> statement-breakpoint
alter table lanes add column next_look_at timestamptz
  generated always as (coalesce(due_at, case when lease_token is not null then leased_until end)) stored;--> statement-breakpoint
alter table lanes drop constraint lanes_lease;--> statement-breakpoint
alter table lanes add constraint lanes_lease
  check (lease_token is null or due_at is not null or leased_until is not null);--> statement-breakpoint
-- Updates of a lane stay on its page.
alter table lanes set (fillfactor = 50);--> statement-breakpoint
-- Until when each process may hold lanes. When the time of a row is over, its lanes are looked for.
create table lease_holders (
  holder uuid primary key,
  until timestamptz not null
) with (fillfactor = 50);--> statement-breakpoint
-- Positions up to here may be drawn. It is written before they are, so that none is drawn twice after a crash that takes
-- back what was not on the disk. `server` is the life of the server that draws them.
create table reserved_positions (
  until bigint not null,
  server text not null
);--> statement-breakpoint
insert into reserved_positions values (0, '');--> statement-breakpoint
create index awaiting_fan_out_seq on awaiting_fan_out (seq);--> statement-breakpoint
-- From 64 on, a shard is of a few seconds: see postbud_count_2.
alter table backlog alter column shard type bigint;--> statement-breakpoint
alter table throughput alter column shard type bigint;--> statement-breakpoint
create index backlog_recent on backlog (shard) where shard >= 64;--> statement-breakpoint
create index throughput_recent on throughput (shard) where shard >= 64;
