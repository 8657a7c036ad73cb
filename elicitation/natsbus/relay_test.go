package natsbus_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natstest"
)

// A relay is a way to JetStream, under an API prefix of its own, on which
// answers are late, lost or wrong as those of a cluster in trouble are. Its
// fields are set before it is used.
type relay struct {
	nc *nats.Conn

	// Reads of keys that begin with hidden, for as long as behind is not 0, are
	// answered as by a server that leads no more, does not know it, and has seen
	// nothing of them. Each answer counts behind down. Writes go to the leader.
	hidden string
	behind atomic.Int32
	// leaderless is how many requests of the API are refused for want of a leader.
	leaderless atomic.Int32
	// unacknowledged is how many writes of claims are stored and not acknowledged.
	unacknowledged atomic.Int32
	lost           func() // called when an acknowledgement gets lost, unless nil
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
	switch {
	case takeOne(&r.leaderless):
		return `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
	case r.hidden == "" || !strings.Contains(string(m.Data), r.hidden) || !takeOne(&r.behind):
		_ = r.nc.PublishMsg(m)
		return ""
	case strings.Contains(m.Subject, ".MSG.GET."):
		return `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`
	}
	return r.formerState(m)
}

func (r *relay) write(m *nats.Msg) (answer string) {
	if r.unacknowledged.Load() == 0 || !strings.Contains(m.Subject, ".c.") {
		_ = r.nc.PublishMsg(m)
		return ""
	}
	ack, err := r.nc.RequestMsg(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}, natstest.Patience)
	switch {
	case err != nil:
		return ""
	case strings.Contains(string(ack.Data), `"error"`) || !takeOne(&r.unacknowledged):
		return string(ack.Data)
	}
	if r.lost != nil {
		r.lost()
	}
	return ""
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
