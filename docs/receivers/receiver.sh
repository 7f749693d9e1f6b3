#!/usr/bin/env bash
# The component ledger in Bash, with openssl, jq and flock: each event has its effect once. It answers one request on
# standard input and output, so that socat can serve it:
#
#   socat TCP-LISTEN:8080,bind=127.0.0.1,reuseaddr,fork EXEC:./receiver.sh
#
# SUBSCRIBER_LEDGER_SECRET (two, separated by a space, during a rotation) and JOURNAL (a file) are its settings. Its effects
# and the ids of the events that had them are lines of one file, so that both are written or neither.
set -euo pipefail

tolerance_seconds=300
max_bytes=$((4 * 1024 * 1024))

mac() { # <secret>, of standard input. The key is seen by others of this machine in the list of processes.
  local key
  key=$(printf %s "${1#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
  openssl dgst -sha256 -mac hmac -macopt "hexkey:$key" -binary | base64 -w 0
}

# Checks the signature over the bytes as they came: is_signed <id> <timestamp> <signatures> <file> <now>
is_signed() {
  local id=$1 timestamp=$2 signatures=$3 file=$4 now=$5 secret expected signature found=no blind
  [[ $id != '' && $timestamp =~ ^[0-9]{1,12}$ ]] || return 1
  ((10#$timestamp <= now + tolerance_seconds && 10#$timestamp >= now - tolerance_seconds)) || return 1
  # Both sides are hashed with a key of the moment: how long a comparison of two hashes takes tells nothing.
  blind=$(openssl rand -base64 32)
  for secret in $SUBSCRIBER_LEDGER_SECRET; do
    expected=v1,$({ printf %s "$id.$timestamp." && cat "$file"; } | mac "$secret")
    for signature in $signatures; do
      if [[ $(printf %s "$signature" | mac "$blind") == "$(printf %s "$expected" | mac "$blind")" ]]; then found=yes; fi
    done
  done
  [[ $found == yes ]]
}

answer() { # <status> <JSON> [<header>]
  printf 'HTTP/1.1 %s -\r\nconnection: close\r\ncontent-type: application/json\r\n%s' "$1" "${3:+$3$'\r\n'}"
  if [[ $1 == 204 ]]; then printf '\r\n'; else printf 'content-length: %s\r\n\r\n%s' "${#2}" "$2"; fi
  exit
}

# Writes the effect of an event and its id as one line. Returns 1 where it failed, 10 for a dead letter at once, 11 where
# the payload is newer than this program, 12 where nothing handles the topic.
take() {
  local event=$1 id topic version effect='' previous
  id=$(jq -r .id <<<"$event") topic=$(jq -r .type <<<"$event") version=$(jq -r .schemaversion <<<"$event")
  # The bus may have sent this event twice at once.
  if grep -q "^$id " "$JOURNAL"; then return 0; fi
  case $topic in
    payment.captured)
      ((version <= 1)) || return 11
      [[ $(jq -r .data.currency <<<"$event") == NOK ]] || return 10
      effect=$(jq -er '"\(.data.intentId) \(.data.amountMinor)"' <<<"$event") || return 1
      ;;
    system.smoke_test.started) ;; # The event of `npx postbud smoke` is answered, and nothing is done.
    *) return 12 ;;
  esac
  previous=$(jq -r 'select(.previousskipped) | .previousid' <<<"$event")
  if [[ $previous != '' ]] && ! grep -q "^$previous " "$JOURNAL"; then
    echo "$id came without $previous, which the bus gave up" >&2
  fi
  printf '%s %s\n' "$id" "$effect" >>"$JOURNAL" && sync "$JOURNAL"
}

take_all() { # <file>
  local event index=0 status
  exec 9>"$JOURNAL.lock"
  flock 9
  touch "$JOURNAL"
  # A line that a crash cut off goes: its event comes again.
  [[ $(tail -c 1 "$JOURNAL") == '' ]] || sed -i '$d' "$JOURNAL"
  while IFS= read -r event; do
    status=0
    take "$event" || status=$?
    if ((status != 0)); then
      # Those before it are written. The bus sends this one again, first, and is told why.
      if ((index > 0)); then answer 200 "{ \"delivered\": $index }"; fi
      case $status in
        10) answer 410 '{ "detail": "no account in this currency" }' ;;
        11) answer 503 '{ "code": "newer_version" }' 'retry-after: 60' ;;
        12) answer 501 '{ "detail": "no handler of this topic" }' ;;
        *) answer 500 '{ "detail": "the handler failed" }' ;;
      esac
    fi
    index=$((index + 1))
  done < <(jq -c 'if type == "array" then .[] else . end' "$1")
}

receive() {
  local method line name value length=0 id='' timestamp='' signatures='' kind=''
  read -r method _
  while IFS= read -r line && line=${line%$'\r'} && [[ $line != '' ]]; do
    name=${line%%:*} value=${line#*:} value=${value# }
    case ${name,,} in
      content-length) length=$value ;;
      content-type) kind=${value%%;*} ;;
      webhook-id) id=$value ;;
      webhook-timestamp) timestamp=$value ;;
      webhook-signature) signatures=$value ;;
    esac
  done
  [[ $method == POST ]] || answer 405 '{ "detail": "events come by POST" }' 'allow: POST'
  [[ ${kind,,} =~ ^application/cloudevents(-batch)?\+json$ ]] || answer 415 '{ "detail": "expected CloudEvents" }'
  [[ $length =~ ^[0-9]{1,9}$ ]] && ((10#$length <= max_bytes)) || answer 413 '{ "detail": "too large" }'
  body=$(mktemp)
  trap 'rm -f "$body"' EXIT
  head -c "$length" >"$body"
  is_signed "$id" "$timestamp" "$signatures" "$body" "$(date +%s)" ||
    answer 401 '{ "detail": "the signature is missing, wrong or older than 5 minutes" }'
  jq -e . "$body" >/dev/null 2>&1 || answer 400 '{ "detail": "the body is not JSON" }'
  take_all "$body"
  answer 204 ''
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  JOURNAL=${JOURNAL:-ledger.journal}
  receive
fi
