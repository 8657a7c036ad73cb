package replicahttp_test

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/replica"
	"github.com/rondo-mcp/rondo/internal/replicahttp"
)

// openChannel opens a channel to the replica at ts, as another replica does.
func openChannel(t testing.TB, ts *httptest.Server, codec replica.Codec,
	owner replica.Owner) replica.ChannelID {
	t.Helper()
	challenge, err := codec.SealChallenge(replica.Challenge{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", ts.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Rondo-Replica-Challenge", challenge)
	response, err := ts.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	proof, ok := codec.OpenProof(response.Header.Get("Rondo-Replica-Proof"))
	if !ok {
		t.Fatalf("no proof, status %d", response.StatusCode)
	}
	return proof.Channel
}

func TestAWrappedHandlerTakesAHopForOneRequestOnce(t *testing.T) {
	codec := replica.Codec{Keys: newSealer()}
	a, other := newForwarder(t, "a"), newForwarder(t, "c")
	ts := serve(t, a.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr)
	}), replicahttp.WrapOptions{}))
	id, foreign := sealSession(t, a, "x"), sealSession(t, other, "y")
	owner, _, _ := a.FindOwner(id)
	channel := openChannel(t, ts, codec, owner)
	for _, test := range []struct {
		name   string
		id     string // of the request
		body   string // of the request
		hop    replica.Hop
		status int
	}{
		{"the first", id, ping, replica.Hop{Sequence: 1}, 200},
		{"replayed", id, ping, replica.Hop{Sequence: 1}, 421},
		{"another session", foreign, ping, replica.Hop{Sequence: 2}, 421},
		{"another method", id, ping, replica.Hop{Sequence: 3, Method: "DELETE"}, 421},
		{"another body", id, ping + " ", replica.Hop{Sequence: 4}, 400},
		{"another channel", id, ping, replica.Hop{Sequence: 5, Channel: replica.ChannelID{1}}, 421},
		{"a session of another replica", foreign, ping,
			replica.Hop{Sequence: 6, Session: sha256.Sum256([]byte(foreign))}, 508},
	} {
		t.Run(test.name, func(t *testing.T) {
			hop := test.hop
			hop.RemoteAddr, hop.Body = "192.0.2.1:9", sha256.Sum256([]byte(ping))
			if hop.Method == "" {
				hop.Method = "POST"
			}
			if hop.Channel == (replica.ChannelID{}) {
				hop.Channel = channel
			}
			if hop.Session == ([sha256.Size]byte{}) {
				hop.Session = sha256.Sum256([]byte(id))
			}
			token, err := codec.SealHop(&hop)
			if err != nil {
				t.Fatal(err)
			}
			status, body := send(t, ts,
				newRequest(t, "POST", ts.URL, test.id, test.body, "Rondo-Replica-Hop", token))
			if status != test.status || status == 200 && body != "192.0.2.1:9" {
				t.Errorf("got status %d, want %d: %s", status, test.status, body)
			}
		})
	}
}

func TestABodyThatIsTooLargeIsNotForwarded(t *testing.T) {
	a, o := newForwarder(t, "a"), &outcomes{}
	b := newForwarder(t, "b")
	ts := serve(t, b.Wrap(http.NotFoundHandler(),
		replicahttp.WrapOptions{MaxBody: 1 << 10, Observer: o}))
	r := newRequest(t, "POST", ts.URL, sealSession(t, a, "x"), strings.Repeat("x", 1<<10+1))
	if status, body := send(t, ts, r); status != 413 || len(o.seen) != 0 {
		t.Errorf("got status %d after %d hops: %s", status, len(o.seen), body)
	}
}
