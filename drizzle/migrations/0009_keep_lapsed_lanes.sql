-- Those that nobody has looked at since.
insert into leases select clock_timestamp(), array_agg(id) from lanes
where lease_token is not null and due_at is null and leased_until < clock_timestamp() - interval '1 minute' group by leased_until;
