package natstest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Relay is a way to JetStream on which answers are late, lost or wrong, as
// those of a cluster in trouble are. Set its plain fields before [Relay.Connect];
// the counters may change at any time. The zero value changes nothing.
type Relay struct {
	// Behind is how many reads of a key a deposed leader answers, which has not
	// seen anything that was stored. Writes reach the true leader.
	Behind atomic.Int32
	// Hidden limits Behind to keys that contain it, in the JSON of the request.
	Hidden string
	// Marker is the revision of a marker that the deposed leader has at every
	// key. 0: it has nothing.
	Marker uint64

	// Aged is by how much longer ago the entries that are read were stored.
	Aged atomic.Int64

	// Refused is how many writes to keys that exist are refused, as by a server
	// that has not seen what they succeed.
	Refused atomic.Int32
	// StoreRefused has the leader store the writes that are refused.
	StoreRefused bool

	// Unacknowledged is how many writes are stored and not acknowledged.
	Unacknowledged atomic.Int32
	// Unheard limits Unacknowledged to keys that contain it.
	Unheard string
	// OnUnacknowledged, if not nil, is called for each of these writes, after it
	// was stored.
	OnUnacknowledged func()

	// Leaderless is how many requests of the JetStream API are refused because
	// no server leads.
	Leaderless atomic.Int32
	// Peerless is how many streams are not created because the cluster has too few servers
	// yet.
	Peerless atomic.Int32

	nc *nats.Conn // on which the relay passes messages on
}

// Connect returns JetStream through the relay, on a connection of its own. Call
// it once.
func (r *Relay) Connect(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	r.nc = Connect(t, url).Conn()
	// unlike that of any other relay
	prefix := strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix)
	_, err := r.nc.Subscribe(prefix+".>", func(m *nats.Msg) {
		m.Subject = strings.TrimPrefix(m.Subject, prefix+".")
		if answer := r.passMessage(m); answer != "" {
			_ = r.nc.Publish(m.Reply, []byte(answer))
		}
	})
	if err == nil {
		err = r.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.NewWithAPIPrefix(Connect(t, url).Conn(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// countDown reports whether n was positive, and makes it one less. It is called
// by the callback of the relay alone.
func countDown(n *atomic.Int32) bool {
	if n.Load() <= 0 {
		return false
	}
	n.Add(-1)
	return true
}

// passMessage passes a message on, or returns what is answered instead.
func (r *Relay) passMessage(m *nats.Msg) (answer string) {
	if strings.HasPrefix(m.Subject, "$KV.") {
		return r.passWrite(m)
	}
	m.Subject = jetstream.DefaultAPIPrefix + m.Subject
	request := string(m.Data)
	aboutKey := strings.Contains(request, "$KV.") && strings.Contains(request, r.Hidden)
	switch {
	case countDown(&r.Leaderless):
		return `{"error":{"code":503,"err_code":10008,` +
			`"description":"JetStream system temporarily unavailable"}}`
	case strings.Contains(m.Subject, ".CREATE.") && countDown(&r.Peerless):
		return `{"error":{"code":400,"err_code":10005,` +
			`"description":"no suitable peers for placement"}}`
	case strings.Contains(m.Subject, ".MSG.GET.") && r.Aged.Load() > 0:
		return r.agedEntry(m)
	case strings.Contains(m.Subject, ".CREATE.") || !aboutKey || !countDown(&r.Behind):
		_ = r.nc.PublishMsg(m)
		return ""
	case strings.Contains(m.Subject, ".MSG.GET."):
		return r.formerEntry(request)
	}
	return r.formerState(m)
}

// passWrite is passMessage for writes to keys.
func (r *Relay) passWrite(m *nats.Msg) (answer string) {
	expected := m.Header.Get(jetstream.ExpectedLastSubjSeqHeader)
	update := expected != "" && expected != "0"
	switch {
	case update && countDown(&r.Refused):
		if r.StoreRefused {
			if r.storeWrite(m) == "" {
				return ""
			}
		}
		return `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 0"}}`
	case r.Unacknowledged.Load() > 0 && strings.Contains(m.Subject, r.Unheard):
		ack := r.storeWrite(m)
		if ack == "" || strings.Contains(ack, `"error"`) || !countDown(&r.Unacknowledged) {
			return ack
		}
		if r.OnUnacknowledged != nil {
			r.OnUnacknowledged()
		}
		return ""
	}
	_ = r.nc.PublishMsg(m)
	return ""
}

// storeWrite has the leader store a write and returns its acknowledgement, ""
// for none.
func (r *Relay) storeWrite(m *nats.Msg) (ack string) {
	write := &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
	reply, err := r.nc.RequestMsg(write, Patience)
	if err != nil {
		return ""
	}
	return string(reply.Data)
}

// formerEntry is what the deposed leader has at a key.
func (r *Relay) formerEntry(request string) string {
	if r.Marker == 0 {
		return `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`
	}
	_, subject, _ := strings.Cut(request, ":")
	header := base64.StdEncoding.EncodeToString([]byte("NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n"))
	return fmt.Sprintf(`{"message":{"subject":%s,"seq":%d,"hdrs":%q}}`,
		strings.Trim(subject, " }"), r.Marker, header)
}

// agedEntry is what the leader has at a key, stored longer ago.
func (r *Relay) agedEntry(m *nats.Msg) string {
	reply, err := r.nc.Request(m.Subject, m.Data, Patience)
	if err != nil {
		return ""
	}
	var read struct {
		Message map[string]any `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &read); err != nil || read.Message == nil {
		return string(reply.Data)
	}
	text, _ := read.Message["time"].(string)
	stored, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return ""
	}
	read.Message["time"] = stored.Add(-time.Duration(r.Aged.Load()))
	answer, _ := json.Marshal(read)
	return string(answer)
}

// formerState is the state of the stream before anything was written.
func (r *Relay) formerState(m *nats.Msg) string {
	reply, err := r.nc.Request(m.Subject, m.Data, Patience)
	if err != nil {
		return ""
	}
	var info map[string]any
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		return ""
	}
	info["state"] = map[string]any{"messages": 0, "first_seq": 0, "last_seq": 0}
	info["total"] = 0 // subjects; nats.go asks again until it has as many
	answer, _ := json.Marshal(info)
	return string(answer)
}
