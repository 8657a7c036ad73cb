package hophttp_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// getTicket challenges the owner behind h and returns the ticket.
func getTicket(t testing.TB, h http.Handler, owner hophttp.Owner) string {
	t.Helper()
	codec := newCodec("k1")
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Rondo-Replica-Challenge",
		codec.Seal(hophttp.KindChallenge, owner.Name, owner.Start, "nonce"))
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, r)
	proof, ok := codec.Open(hophttp.KindProof, recorder.Header().Get("Rondo-Replica-Proof"))
	if !ok || proof[0] != "nonce" {
		t.Fatalf("no proof, status %d", recorder.Code)
	}
	return proof[1]
}

func TestAHopFitsOneRequestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen string // RemoteAddr of the request that was served
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = r.RemoteAddr
		})
		a, other := newForwarder(t, "a"), newForwarder(t, "c")
		owned := route(a, next)
		others := route(other, next)
		id, foreign := a.SealSession("x"), other.SealSession("y")
		owner, stranger := a.Self(), other.Self()
		const client, sender = "192.0.2.9:9", "192.0.2.1:1234" // the second is httptest's
		change := func(field int, to string) func([]string) {
			return func(hop []string) { hop[field] = to }
		}
		time.Sleep(time.Hour) // tickets are issued any time after the owner's start
		for _, test := range []struct {
			name   string
			id     string         // of the session that the request is for
			body   string         // of the request
			change func([]string) // of the hop; nil for no change
			waits  time.Duration  // after the owner gave the ticket
			spoil  func(token string) string
			status int
			served string // the address that the handler sees; empty if it does not run
		}{
			{"as it should be", id, ping, nil, 0, nil, 200, client},
			{"before the end of its ticket", id, ping, nil, 30*time.Second - 1, nil, 200, client},
			{"after the end of its ticket", id, ping, nil, 30 * time.Second, nil, 421, ""},
			{"long after", id, ping, nil, time.Hour, nil, 421, ""},
			{"the ticket of another owner", id, ping, change(0, getTicket(t, others, stranger)), 0,
				nil, 421, ""},
			{"no ticket", id, ping, change(0, ""), 0, nil, 421, ""},
			{"a ticket without a time", id, ping, change(0, owner.Start), 0, nil, 421, ""},
			{"a ticket of tomorrow", id, ping,
				change(0, owner.Start+"\x00\x01\x00\x00\x00\x00\x00\x00"), 0, nil, 421, ""},
			{"another session", foreign, ping, nil, 0, nil, 421, ""},
			{"another method", id, ping, change(3, "DELETE"), 0, nil, 421, ""},
			{"another body", id, ping + " ", nil, 0, nil, 400, ""},
			{"a session of another replica", foreign, ping, change(1, digest(foreign)), 0, nil, 508,
				""},
			// An unreadable hop is ignored: the request is a client's.
			{"cut", id, ping, nil, 0, func(s string) string { return s[:len(s)-1] }, 200, sender},
			{"of a replica with another key", id, ping, nil, 0, func(string) string {
				return newCodec("k2").Seal(hophttp.KindHop, getTicket(t, owned, owner),
					digest(id), digest(ping), "POST", client)
			}, 200, sender},
			{"of a client", id, ping, nil, 0, func(string) string { return id }, 200, sender},
		} {
			hop := []string{getTicket(t, owned, owner), digest(id), digest(ping), "POST", client}
			if test.change != nil {
				test.change(hop)
			}
			token := newCodec("k1").Seal(hophttp.KindHop, hop...)
			if test.spoil != nil {
				token = test.spoil(token)
			}
			time.Sleep(test.waits)
			status, served, taken := test.status, test.served, false
			for _, which := range []string{"first", "replayed"} {
				if which == "replayed" && served != sender { // whatever became of the first request
					status, served = 421, ""
				}
				r := httptest.NewRequest("POST", "/", strings.NewReader(test.body))
				r.Header.Set("Mcp-Session-Id", test.id)
				r.Header.Set("Rondo-Replica-Hop", token)
				seen = ""
				recorder := httptest.NewRecorder()
				owned.ServeHTTP(recorder, r)
				if recorder.Code != status || seen != served {
					t.Errorf("%s, %s: got status %d, served %q", test.name, which, recorder.Code,
						seen)
				}
				reply := recorder.Header().Get("Rondo-Replica-Reply")
				if verdict, ok := newCodec("k1").Open(hophttp.KindReply, reply); ok {
					taken = verdict[1] == hophttp.VerdictTaken
				}
				if (reply == "") != (seen == sender || which == "replayed" && taken) {
					t.Errorf("%s, %s: got the reply %q", test.name, which, reply)
				}
			}
		}
	})
}

// Above the limit tickets end earlier.
func TestHopsAreServedOnceHoweverMany(t *testing.T) {
	const limit = hophttp.MaxSpent
	var spent hophttp.SpentHops
	want := func(want string, n int, issued, age time.Duration) {
		t.Helper()
		got := hophttp.TakeHop(&spent, fmt.Sprint(n), issued*time.Second, age*time.Second)
		if got != want {
			t.Fatalf("hop %d of %d s at %d s is %s, want %s", n, issued, age, got, want)
		}
	}
	for n := range 2 * limit { // the first half at 1 s, the second at 2 s
		want(hophttp.VerdictTaken, n, time.Duration(n/limit), time.Duration(1+n/limit))
	}
	want(hophttp.VerdictTaken, 2*limit, 2, 3) // the first half is forgotten
	want(hophttp.VerdictStale, 0, 0, 3)
	want(hophttp.VerdictStale, limit-1, 0, 3)
	want(hophttp.VerdictStale, -1, 1, 3) // a new hop with an early ticket
	for _, n := range []int{limit, 2*limit - 1, 2 * limit} {
		want("", n, 2, 3)
	}
	want(hophttp.VerdictTaken, -1, 3, 3)
	want("", -1, 3, 32) // as long as its ticket is good
	want(hophttp.VerdictTaken, -2, 33, 33)
	want("", -1, 3, 33)
}
