-- What each subscription has to deliver, and has delivered: the numbers that every page shows.
create or replace view subscription_counts as
  select lane.topic, lane.subscriber, sum(lane.pending)::bigint as pending, sum(lane.failing)::bigint as failing,
    sum(lane.halted)::bigint as halted, sum(lane.dead_lettered)::bigint as dead_lettered, sum(outcomes.delivered)::bigint as delivered_total,
    sum(outcomes.failed)::bigint as failed_total, sum(outcomes.dead_lettered)::bigint as dead_lettered_total,
    max(outcomes.last_delivered_at) as last_delivered_at, max(outcomes.last_failed_at) as last_failed_at
  from states_of_lanes as lane join lane_outcomes as outcomes using (lane)
  group by lane.topic, lane.subscriber;
