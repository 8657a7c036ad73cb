package natsbus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/protocol"
)

// attemptTime is how long one of several attempts to send a message may take. Core NATS
// delivers a message at most once: a request or a response that is sent while routes
// break or form may be lost although both replicas live, and would be waited for in vain.
const attemptTime = 3 * time.Second

// A replica is a router on a bus of its own, on a connection of its own that
// prefers one server of the cluster.
type replica struct {
	*elicitation.Router
	bus     mortal
	session *elicitation.Session
}

// connectInOrder connects to the first server, and to the next ones when it is gone.
func connectInOrder(
	t testing.TB, servers []*natsserver.Server, first int,
) jetstream.JetStream {
	t.Helper()
	var urls []string
	for i := range servers {
		urls = append(urls, servers[(first+i)%len(servers)].ClientURL())
	}
	return natstest.Connect(t, strings.Join(urls, ","), nats.DontRandomize(),
		nats.ReconnectJitter(0, 0))
}

func newReplica(
	t testing.TB, name string, servers []*natsserver.Server, first int, opts *natsbus.Options,
) *replica {
	t.Helper()
	r := &replica{bus: open(t, connectInOrder(t, servers, first), opts)}
	var err error
	r.Router, err = elicitation.New(&elicitation.Options{
		Bus: r.bus, Keys: exampleKeys(), Timeout: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.session, err = r.Attach(elicitation.SessionInfo{
		ID:        "session-" + name,
		Principal: protocol.Principal{Issuer: "https://id.example", Subject: name},
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
		defer cancel()
		r.session.Detach()
		if err := r.Shutdown(ctx); err != nil {
			t.Errorf("%s: shutdown: %v", name, err)
		}
	})
	return r
}

// A question is one that a replica has put to its client.
type question struct {
	id      protocol.ID
	from    elicitation.Sender
	outcome chan elicitation.Outcome
}

const ask = `{"message":"Deploy?",
	"requestedSchema":{"type":"object","properties":{"reason":{"type":"string"}}}}`

// try puts a question, for a call that the caller ends.
func (r *replica) try() (*question, *elicitation.Call, error) {
	origin := elicitation.Origin{Session: r.session}
	call, err := r.Begin(context.Background(), origin, elicitation.Via{}, "")
	if err != nil {
		return nil, nil, err
	}
	q := &question{from: r.session.Sender(), outcome: make(chan elicitation.Outcome, 1)}
	done := func(o elicitation.Outcome) { q.outcome <- o }
	offered, err := call.Offer(context.Background(), json.RawMessage(ask), nil, done)
	if err != nil {
		call.End()
		return nil, nil, err
	}
	offered.ConfirmDelivery()
	q.id = offered.Request().ID
	return q, call, nil
}

func (r *replica) ask(t testing.TB) *question {
	t.Helper()
	q, call, err := r.try()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(call.End)
	return q
}

// answer hands the client's answer in at this replica, whoever asked.
func (r *replica) answer(q *question, reason string) (elicitation.Disposition, error) {
	return r.answerWithin(natstest.Patience, q, reason)
}

func (r *replica) answerWithin(limit time.Duration, q *question, reason string) (
	elicitation.Disposition, error,
) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	result := fmt.Sprintf(`{"action":"accept","content":{"reason":%q}}`, reason)
	return r.HandleReply(ctx, q.from, &protocol.Response{ID: q.id, Result: json.RawMessage(result)})
}

// accepted wants the answer to reach whoever asked.
func (r *replica) accepted(t testing.TB, q *question, reason string) {
	t.Helper()
	if d, err := r.answer(q, reason); d != elicitation.Accepted || err != nil {
		t.Fatalf("the reply was %v, %v; want it accepted", d, err)
	}
	q.got(t, reason)
}

// acceptedAtLast wants the answer to reach whoever asked, after a disturbance: within
// several attempts, of which any one may be lost on the way there or back. The attempt
// after one whose response was lost finds the question answered already.
func (r *replica) acceptedAtLast(t testing.TB, what string, q *question, reason string) {
	t.Helper()
	natstest.Eventually(t, what, func() bool {
		d, err := r.answerWithin(attemptTime, q, reason)
		if err != nil && !errors.Is(err, elicitation.ErrOwnerDead) {
			t.Logf("meanwhile: %v", err)
		}
		return err == nil && (d == elicitation.Accepted || !q.pending())
	})
	q.got(t, reason)
}

func (q *question) got(t testing.TB, reason string) {
	t.Helper()
	select {
	case o := <-q.outcome:
		if o.Err != nil {
			t.Fatalf("the question ended with %v", o.Err)
		}
		if data, _ := o.Result.MarshalJSON(); !strings.Contains(string(data), reason) {
			t.Fatalf("the answer is %s, want %s", data, reason)
		}
	case <-time.After(natstest.Patience):
		t.Fatal("the answer did not arrive")
	}
}

// pending says whether the question still waits.
func (q *question) pending() bool { return len(q.outcome) == 0 }

func threeReplicas(t testing.TB, servers []*natsserver.Server, opts *natsbus.Options) []*replica {
	t.Helper()
	var rs []*replica
	for i, name := range []string{"ada", "bob", "eve"} {
		rs = append(rs, newReplica(t, name, servers, i, opts))
	}
	return rs
}

// TestThreeRouters lets every reply arrive at every replica, on a cluster of
// three servers.
func TestThreeRouters(t *testing.T) {
	rs := threeReplicas(t, natstest.StartCluster(t, 3), nil)
	for i, asks := range rs {
		for j, answers := range rs {
			answers.accepted(t, asks.ask(t), fmt.Sprintf("of %d via %d", i, j))
		}
	}

	// What is said about strangers' replies is said by the owner.
	q := rs[0].ask(t)
	forged := &question{id: q.id, from: rs[1].session.Sender()}
	d, err := rs[1].answer(forged, "mine")
	if d != elicitation.WrongSession || err != nil || !q.pending() {
		t.Errorf("a reply from another session is %v, %v", d, err)
	}
	other := q.from
	other.Principal.Subject = "mallory"
	d, err = rs[2].answer(&question{id: q.id, from: other}, "mine")
	if d != elicitation.WrongPrincipal || err != nil || !q.pending() {
		t.Errorf("a reply from another principal is %v, %v", d, err)
	}
	rs[2].accepted(t, q, "first")
	if d, err := rs[1].answer(q, "second"); d != elicitation.Duplicate || err != nil {
		t.Errorf("a second reply is %v, %v", d, err)
	}
	unknown := &question{id: protocol.StringID(strings.Repeat("0", 32)), from: q.from}
	if d, err := rs[1].answer(unknown, "x"); d != elicitation.Unknown || err != nil {
		t.Errorf("a reply to nothing is %v, %v", d, err)
	}
}

// TestServerAndReplicaDie takes away first the server that a replica is connected
// to, then the replica itself.
func TestServerAndReplicaDie(t *testing.T) {
	t.Parallel()
	servers := natstest.StartCluster(t, 3)
	opts := &natsbus.Options{Lease: natsbus.MinLease, Timeout: natstest.Patience}
	rs := threeReplicas(t, servers, opts)
	survives, orphan := rs[0].ask(t), rs[0].ask(t)
	natstest.Stop(servers[0])
	// The bus works on two servers, and finds the replica on another one.
	rs[1].acceptedAtLast(t, "the replica is found again", survives, "after the server died")
	rs[2].accepted(t, rs[1].ask(t), "on two servers")

	// Until then it counts as connected to the server that died, and nobody could tell whether
	// both died together.
	natstest.Eventually(t, "the directory names the replica's new server", func() bool {
		return rs[0].bus.NamesItsServer(t.Context())
	})
	rs[0].bus.Kill()
	began := time.Now()
	d, err := rs[1].answer(orphan, "too late")
	if err != nil && !errors.Is(err, elicitation.ErrOwnerDead) &&
		time.Since(began) < 2*natsbus.MinLease {
		// The servers had not told each other yet that its connection is closed, and
		// one passed the reply on: it may have been handled, until the lease ends.
		t.Logf("at the same moment: %v", err)
		began = time.Now()
		d, err = rs[1].answer(orphan, "much too late")
	}
	if !errors.Is(err, elicitation.ErrOwnerDead) || d != elicitation.Unknown {
		t.Errorf("a reply to a dead replica is %v, %v", d, err)
	}
	// At once where the stream has a leader; one may have to be elected, on a machine of any speed.
	t.Logf("it took %v to find out that the replica is gone", time.Since(began))
	rs[2].accepted(t, rs[1].ask(t), "without the dead")
}

// A screen takes what a session is notified of.
type screen chan protocol.Message

func (s screen) Deliver(_ context.Context, m protocol.Message) error {
	s <- m
	return nil
}

// TestURLVisitCompletedAtAnotherReplica reaches the one session that got the URL, also after
// the directory was lost.
func TestURLVisitCompletedAtAnotherReplica(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, t.TempDir(), 0)
	servers := []*natsserver.Server{srv, srv, srv}
	opts := &natsbus.Options{Lease: natsbus.MinLease, Timeout: time.Second}
	rs := threeReplicas(t, servers, opts)
	notified := make(screen, 10)
	session, err := rs[0].Attach(elicitation.SessionInfo{
		ID: "visitor", Notify: notified, Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{URL: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	visit := func(id string) {
		origin := elicitation.Origin{Session: session}
		call, err := rs[0].Begin(t.Context(), origin, elicitation.Via{}, "up")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(call.End)
		params := fmt.Sprintf(
			`{"mode":"url","message":"m","url":"https://id.example/","elicitationId":%q}`, id)
		offered, err := call.Offer(t.Context(), json.RawMessage(params), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		offered.ConfirmDelivery()
		d, err := rs[1].HandleReply(t.Context(), session.Sender(), &protocol.Response{
			ID: offered.Request().ID, Result: json.RawMessage(`{"action":"accept"}`)})
		if d != elicitation.Accepted || err != nil {
			t.Fatalf("the reply is %v, %v", d, err)
		}
	}
	complete := func(id string) {
		t.Helper()
		natstest.Eventually(t, "the visit is completed", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
			defer cancel()
			d, err := rs[2].HandleURLCompletion(ctx, "up", id)
			return d == elicitation.Accepted && err == nil
		})
		if n := len(notified); n != 1 {
			t.Errorf("%d notifications, want 1", n)
		}
		<-notified
	}
	visit("1")
	visit("2")
	complete("1")
	question := rs[0].ask(t)

	port := srv.Addr().(*net.TCPAddr).Port
	natstest.Stop(srv)
	natstest.Start(t, t.TempDir(), port) // on an empty disk
	rs[1].accepted(t, question, "the server is back")
	complete("2")
}
