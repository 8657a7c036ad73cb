package natsguard_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natstest"
)

// A relay is a way to JetStream, under an API prefix of its own, on which a
// server that leads no more, does not know it, and has seen nothing yet answers
// first. Its fields are set before it is used.
type relay struct {
	nc *nats.Conn

	// behind is how many reads of keys that contain hidden that server answers.
	hidden string
	behind atomic.Int32
	marker uint64 // the revision of what it knows to be gone, 0: it knows nothing
	// refused is how many writes it refuses, because the key does not have the
	// revision expected. They reach the leader all the same if stored is set.
	refused atomic.Int32
	stored  bool
	// leaderless is how many requests of the API are refused for want of a leader.
	leaderless atomic.Int32
}

// relayed returns JetStream by way of the relay, on a connection of its own.
func relayed(t testing.TB, url string, r *relay) jetstream.JetStream {
	t.Helper()
	r.nc = natstest.Connect(t, url).Conn()
	prefix := strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix) + "." // unlike that of any other relay
	_, err := r.nc.Subscribe(prefix+">", func(m *nats.Msg) {
		m.Subject = strings.TrimPrefix(m.Subject, prefix)
		if answer := r.pass(m); answer != "" {
			_ = r.nc.Publish(m.Reply, []byte(answer))
		}
	})
	if err == nil {
		err = r.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.NewWithAPIPrefix(natstest.Connect(t, url).Conn(), strings.TrimSuffix(prefix, "."))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// takeOne counts down to 0.
func takeOne(n *atomic.Int32) bool {
	if n.Load() <= 0 {
		return false
	}
	n.Add(-1)
	return true
}

// pass sends a message on its way, or returns what is answered instead.
func (r *relay) pass(m *nats.Msg) (answer string) {
	if strings.HasPrefix(m.Subject, "$KV.") {
		return r.write(m)
	}
	m.Subject = "$JS.API." + m.Subject
	aboutKey := strings.Contains(string(m.Data), "$KV.") && strings.Contains(string(m.Data), r.hidden)
	switch {
	case takeOne(&r.leaderless):
		return `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
	case strings.Contains(m.Subject, ".CREATE.") || !aboutKey || !takeOne(&r.behind):
		_ = r.nc.PublishMsg(m)
		return ""
	case strings.Contains(m.Subject, ".MSG.GET.") && r.marker != 0:
		_, subject, _ := strings.Cut(string(m.Data), ":")
		header := base64.StdEncoding.EncodeToString([]byte("NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n"))
		return fmt.Sprintf(`{"message":{"subject":%s,"seq":%d,"hdrs":%q}}`, strings.Trim(subject, " }"), r.marker, header)
	case strings.Contains(m.Subject, ".MSG.GET."):
		return `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`
	}
	return r.formerState(m)
}

func (r *relay) write(m *nats.Msg) (answer string) {
	expected := m.Header.Get(jetstream.ExpectedLastSubjSeqHeader)
	if expected == "" || expected == "0" || !takeOne(&r.refused) {
		_ = r.nc.PublishMsg(m)
		return ""
	}
	if r.stored {
		if _, err := r.nc.RequestMsg(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}, natstest.Patience); err != nil {
			return ""
		}
	}
	return `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 0"}}`
}

// formerState is the state of the stream before anything was written.
func (r *relay) formerState(m *nats.Msg) string {
	reply, err := r.nc.Request(m.Subject, m.Data, natstest.Patience)
	if err != nil {
		return ""
	}
	var info map[string]any
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		return ""
	}
	info["state"] = map[string]any{"messages": 0, "first_seq": 0, "last_seq": 0}
	answer, _ := json.Marshal(info)
	return string(answer)
}
