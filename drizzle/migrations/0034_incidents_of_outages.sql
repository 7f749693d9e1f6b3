-- How many of an incident's blocked lanes a dead letter halts. An incident without a topic is an outage: all topics of a
-- subscriber that does not answer.
alter table "incidents" add column "halted_lanes" integer default 0 not null;
