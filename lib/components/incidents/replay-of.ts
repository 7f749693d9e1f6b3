/**
 * A condition on rows of `replays` and `deliveries`: the replay is of this incident, or it names neither an incident nor a
 * single error, and the delivery that it put back was a dead letter of this one's error. What an older release put back says no error,
 * and may be of any.
 *
 * @param incident the alias of the row of `incidents`, and that of `replays`.
 */
export const isReplayOf = (incident: string, replay = 'replays') => `case
        when request ? 'incident' then request ->> 'incident' = ${incident}.id::text
        when request ->> 'group' = ${incident}.error_group then true
        when not ${incident}.error_group = any (string_to_array(request ->> 'group', ',')) then false
        else jsonb_path_exists(attempt_log,
          '$[*] ? (@.replayId == $replay && (@.group == $group || !exists (@.group)))',
          jsonb_build_object('replay', ${replay}.id, 'group', ${incident}.error_group))
      end`;
