/** The incident that the lanes of one that is over are in now. */
export interface NextIncident {
  readonly incidentId: string;
  /** Null for an outage. */
  readonly topic: string | null;
  readonly kind: string;
  /** The last error, its personal data masked. */
  readonly message: string;
}

/**
 * Selects, of an incident without lanes, the worst one that happens now and began before it closed: its subscriber fails with
 * another error, or does not answer. Null where all lanes deliver.
 */
export const NEXT_INCIDENT = `(
      select json_build_object('incidentId', next.id, 'topic', nullif(next.topic, ''), 'kind', next.kind, 'message', next.message)
      from incidents as next
      where next.closed_at is null and next.state = 'happening' and next.blocked_lanes > 0
        and incidents.blocked_lanes = 0 and incidents.subscriber <> '' and next.subscriber = incidents.subscriber
        and (next.topic in (incidents.topic, '') or incidents.topic = '')
        and next.opened_at <= coalesce(incidents.closed_at, 'infinity')
      order by next.topic <> '', next.waiting desc, next.id limit 1
    )`;
