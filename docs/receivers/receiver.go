// The component ledger in Go 1.18 or newer, with nothing to install: each event has its effect once.
//
// SUBSCRIBER_LEDGER_SECRET (two, separated by a space, during a rotation), JOURNAL (a file) and PORT are its settings. Its
// effects and the ids of the events that had them are lines of one file, so that both are written or neither. With a
// database, write both in one transaction.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const toleranceSeconds = 5 * 60
const maxBytes = 4 * 1024 * 1024

type event struct {
	ID              string          `json:"id"`
	Type            string          `json:"type"`
	SchemaVersion   int             `json:"schemaversion"`
	PreviousID      string          `json:"previousid"`
	PreviousSkipped bool            `json:"previousskipped"`
	Data            json.RawMessage `json:"data"`
}

// refused answers with a status: 410 for a dead letter at once, 503 with waitSeconds to get the event later.
type refused struct {
	status      int
	detail      string
	waitSeconds int
	code        string
}

func (r refused) Error() string { return r.detail }

// A handler returns the effect of an event: here a line of the journal.
type handler struct {
	newest int
	handle func(data json.RawMessage) (string, error)
}

// By topic: the newest version of the payload that this program reads, and what handles it.
var handlers = map[string]handler{
	"payment.captured": {1, paymentCaptured},
	// The event of `npx postbud smoke` is answered, and nothing is done.
	"system.smoke_test.started": {1, func(json.RawMessage) (string, error) { return "", nil }},
}

func paymentCaptured(data json.RawMessage) (string, error) {
	var payment struct {
		IntentID    string `json:"intentId"`
		AmountMinor int64  `json:"amountMinor"`
		Currency    string `json:"currency"`
	}
	if err := json.Unmarshal(data, &payment); err != nil {
		return "", err
	}
	if payment.Currency != "NOK" {
		return "", refused{status: 410, detail: "no account in this currency"}
	}
	return fmt.Sprintf("%s %d", payment.IntentID, payment.AmountMinor), nil
}

func keysOf(secrets string) ([][]byte, error) {
	var keys [][]byte
	for _, secret := range strings.Fields(secrets) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) < 24 {
			return nil, errors.New("SUBSCRIBER_LEDGER_SECRET must be whsec_ and base64, as at the bus")
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("SUBSCRIBER_LEDGER_SECRET is not set")
	}
	return keys, nil
}

// isSigned checks the signature over the bytes as they came, in constant time.
func isSigned(keys [][]byte, headers http.Header, body []byte, now time.Time) bool {
	id, timestamp := headers.Get("webhook-id"), headers.Get("webhook-timestamp")
	seconds, err := strconv.ParseUint(timestamp, 10, 62)
	if id == "" || err != nil {
		return false
	}
	if off := now.Unix() - int64(seconds); off > toleranceSeconds || off < -toleranceSeconds {
		return false
	}
	found := false
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		for _, signature := range strings.Fields(headers.Get("webhook-signature")) {
			found = hmac.Equal(expected, []byte(signature)) || found
		}
	}
	return found
}

type journal struct {
	mutex    sync.Mutex
	file     *os.File
	received map[string]bool
}

// openJournal reads the ids of a journal. A line that a crash cut off is removed: its event comes again.
func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	received := map[string]bool{}
	for _, line := range strings.Split(string(text[:whole]), "\n") {
		received[strings.SplitN(line, " ", 2)[0]] = true
	}
	if err := file.Truncate(int64(whole)); err != nil {
		return nil, err
	}
	_, err = file.Seek(int64(whole), io.SeekStart)
	return &journal{file: file, received: received}, err
}

// take handles an event and remembers its id in the line of its effect, so that a repetition changes nothing.
func (j *journal) take(e event) error {
	h, found := handlers[e.Type]
	if !found {
		return refused{status: 501, detail: "no handler of " + e.Type}
	}
	if e.SchemaVersion > h.newest {
		return refused{503, e.Type + " has a newer version", 60, "newer_version"}
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.received[e.ID] {
		return nil
	}
	if e.PreviousSkipped && !j.received[e.PreviousID] {
		log.Printf("%s came without %s, which the bus gave up", e.ID, e.PreviousID)
	}
	effect, err := h.handle(e.Data)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(j.file, "%s %s\n", e.ID, effect)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		// Half a line may be written: the next start removes it.
		log.Fatal(err)
	}
	j.received[e.ID] = true
	return nil
}

func (j *journal) takeAll(body []byte) (any, error) {
	var events []event
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		if err := json.Unmarshal(body, &events); err != nil {
			return nil, refused{status: 400, detail: "the body is not JSON"}
		}
	} else {
		events = make([]event, 1)
		if err := json.Unmarshal(body, &events[0]); err != nil {
			return nil, refused{status: 400, detail: "the body is not JSON"}
		}
	}
	for index, e := range events {
		if err := j.take(e); err != nil {
			if index == 0 {
				return nil, err
			}
			// Those before it are written. The bus sends this one again, first, and is told why.
			return map[string]int{"delivered": index}, nil
		}
	}
	return nil, nil
}

func receiver(keys [][]byte, j *journal) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		content, err := receive(keys, j, w, request)
		var refusal refused
		if err != nil && !errors.As(err, &refusal) {
			// Without its words, which may repeat personal data.
			log.Printf("an event failed: %T", err)
			refusal = refused{status: 500, detail: "the handler failed"}
		}
		w.Header().Set("content-type", "application/json")
		switch {
		case err != nil:
			if refusal.waitSeconds > 0 {
				w.Header().Set("retry-after", strconv.Itoa(refusal.waitSeconds))
			}
			w.WriteHeader(refusal.status)
			json.NewEncoder(w).Encode(map[string]string{"detail": refusal.detail, "code": refusal.code})
		case content != nil:
			json.NewEncoder(w).Encode(content)
		default:
			w.WriteHeader(204)
		}
	}
}

func receive(keys [][]byte, j *journal, w http.ResponseWriter, request *http.Request) (any, error) {
	if request.Method != "POST" {
		return nil, refused{status: 405, detail: "events come by POST"}
	}
	kind := strings.TrimSpace(strings.Split(strings.ToLower(request.Header.Get("content-type")), ";")[0])
	if kind != "application/cloudevents+json" && kind != "application/cloudevents-batch+json" {
		return nil, refused{status: 415, detail: "expected CloudEvents in JSON"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBytes))
	if err != nil {
		return nil, refused{status: 413, detail: fmt.Sprintf("expected at most %d bytes", maxBytes)}
	}
	if !isSigned(keys, request.Header, body, time.Now()) {
		return nil, refused{status: 401, detail: "the signature is missing, wrong or older than 5 minutes"}
	}
	return j.takeAll(body)
}

func setting(name, byDefault string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return byDefault
}

func main() {
	keys, err := keysOf(os.Getenv("SUBSCRIBER_LEDGER_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	j, err := openJournal(setting("JOURNAL", "ledger.journal"))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+setting("PORT", "8080"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listens on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, receiver(keys, j)))
}
