package natsbus_test

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestSendToOwnerOfTheKey reaches a replica by its name although the replica has claimed the
// key, too: names and claims do not depend on each other.
func TestSendToOwnerOfTheKey(t *testing.T) {
	s := newScene(t)
	got, err := s.b.SendTo(t.Context(), s.a.Name(), key, []byte("hello"))
	if err != nil || string(got) != "got hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A deafServer is a way to a server that gets no PING while unanswered is set, but later.
type deafServer struct{ unanswered atomic.Bool }

func (d *deafServer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &deafConn{Conn: c, server: d}, err
}

type deafConn struct {
	net.Conn
	server *deafServer
	late   []byte // used by Write alone, whose calls do not overlap
}

func (c *deafConn) Write(p []byte) (int, error) {
	ping, out := []byte("PING\r\n"), p
	if c.server.unanswered.Load() {
		c.late = append(c.late, bytes.Repeat(ping, bytes.Count(p, ping))...)
		out = bytes.ReplaceAll(p, ping, nil)
	} else {
		out, c.late = append(c.late, p...), nil
	}
	_, err := c.Conn.Write(out)
	return len(p), err
}

// A failedListen is a replica whose Listen has failed, and somebody else in the same account.
type failedListen struct {
	a         mortal
	stranger  *nats.Conn
	subject   string             // of requests to a
	responses *nats.Subscription // to what publish sends
}

// failListen has a replica receive what meanwhile publishes, and then a request, while its
// Listen is failing.
func failListen(t *testing.T, meanwhile func(*failedListen)) *failedListen {
	t.Helper()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	server := &deafServer{}
	l := &failedListen{
		a: open(t, natstest.Connect(t, url, nats.SetCustomDialer(server)),
			&natsbus.Options{Timeout: 3 * time.Second}), // in which meanwhile is over
		stranger: natstest.Connect(t, url).Conn(),
	}
	l.subject = natsbus.DefaultPrefix + ".q." + l.a.Name()
	var err error
	l.responses, err = l.stranger.SubscribeSync(replyTo + "*")
	if err != nil {
		t.Fatal(err)
	}
	server.unanswered.Store(true)
	listened := make(chan error, 1)
	go func() { listened <- l.a.Listen(echo) }()
	natstest.Eventually(t, "the server knows of the subscription", func() bool {
		l.publish(t, 0, nil)
		m, err := l.responses.NextMsg(natstest.Patience)
		return err == nil && m.Header.Get("Status") != "503" // but a refusal
	})
	meanwhile(l)
	l.publish(t, 1, natsbus.EncodeRequest(0, 1, 0, key, nil))
	if err := <-listened; err == nil {
		t.Fatal("Listen succeeds without an answer of the server")
	}
	// There is no router that could answer.
	l.wantResponse(t, natsbus.EncodeResponse(3, 0, 1, nil))
	server.unanswered.Store(false)
	return l
}

// replyTo begins the reply subjects of a stranger.
var replyTo = natsbus.DefaultPrefix + ".a." + token(1) + "."

// publish sends a frame to the replica. Frames with the same number are parts of one message.
func (l *failedListen) publish(t *testing.T, number int, frame []byte) {
	t.Helper()
	if err := l.stranger.PublishRequest(l.subject, replyTo+token(number), frame); err != nil {
		t.Fatal(err)
	}
}

// wantResponse wants the next response to be the frame given.
func (l *failedListen) wantResponse(t *testing.T, want []byte) {
	t.Helper()
	m, err := l.responses.NextMsg(natstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Data, want) {
		t.Errorf("answered %x, want %x", m.Data, want)
	}
}

// TestRequestDuringFailedListen is refused: there is no router that could answer it.
func TestRequestDuringFailedListen(t *testing.T) {
	t.Parallel()
	l := failListen(t, func(*failedListen) {})
	if err := l.a.Listen(echo); err != nil {
		t.Errorf("a second attempt: %v", err)
	}
}

// TestPartsDuringFailedListen do not stay: whoever listens next has room for as many messages
// in parts as ever.
func TestPartsDuringFailedListen(t *testing.T) {
	t.Parallel()
	l := failListen(t, func(l *failedListen) {
		first := natsbus.EncodeRequest(0, 2, 0, key, []byte("x"))
		for i := range natsbus.MaxPartials {
			l.publish(t, 100+i, first)
		}
	})
	if err := l.a.Listen(echo); err != nil {
		t.Fatal(err)
	}
	for part, text := range []string{"one, ", "two"} {
		l.publish(t, 2, natsbus.EncodeRequest(uint16(part), 2, 0, key, []byte(text)))
	}
	l.wantResponse(t, natsbus.EncodeResponse(1, 0, 1, []byte("one, two")))
}
