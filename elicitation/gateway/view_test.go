package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// ownCredentials gives every caller but strangers its own credential.
func ownCredentials(
	_ context.Context, caller protocol.Principal,
) (gateway.Credential, error) {
	switch caller.Subject {
	case "stranger":
		return gateway.Credential{}, errors.New("log in first")
	case "":
		return gateway.Credential{Key: "gateway", Authorizer: asUser("gateway")}, nil
	}
	return gateway.Credential{Key: caller.Subject, Authorizer: asUser(caller.Subject)}, nil
}

// startByUser serves a gateway and an upstream; only the user in an entry's name sees the entry.
func startByUser(t *testing.T, era protocol.Era) (*server.Server, string) {
	t.Helper()
	srv := newServer(t, &server.Options{Visible: func(
		p protocol.Principal, _ server.Kind, name string,
	) bool {
		name = strings.TrimPrefix(name, "file:///")
		return strings.HasPrefix(name, "all") || strings.HasPrefix(name, p.Subject)
	}})
	for _, name := range []string{"all", "ann", "bob"} {
		addEcho(srv, name)
	}
	upstream := serveHTTPWith(t, srv, byUser)
	u := ops(upstream, era)
	u.Credential = ownCredentials
	url := frontByUser(t, u)
	return srv, url
}

func TestCallersSeeWhatTheirCredentialsShow(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		_, url := startByUser(t, upstreamEra)
		connectAs(t, url, clientEra, "stranger", "ops_all")
		for user, want := range map[string]string{
			"ann": "ops_all ops_ann", "bob": "ops_all ops_bob", "stranger": "ops_all",
		} {
			c := connectAs(t, url, clientEra, user)
			wantEqual(t, user+" sees", toolNames(t, c), want)
			if got := callText(t, c, "ops_ann"); got == "for ann" != (user == "ann") {
				t.Errorf("%s got %q", user, got)
			}
		}
	})
}

func TestACallFindsItsToolBeforeItsCallerListed(t *testing.T) {
	_, url := startByUser(t, 0)
	wantText(t, connectAs(t, url, 0, "ann"), "ops_ann", "for ann")
}

func TestChangesAreAnnouncedToThoseWhoSeeThem(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		srv, url := startByUser(t, upstreamEra)
		_, ann := listen(t, connectAs(t, url, clientEra, "ann", "ops_ann"), true, "ops+file:///ann")
		_, bob := listen(t, connectAs(t, url, clientEra, "bob", "ops_bob"), true, "ops+file:///ann")
		time.Sleep(2 * time.Second) // the gateway subscribes upstream
		drain(bob)
		addEcho(srv, "ann-too")
		srv.ResourceUpdated("file:///ann")
		seen := map[string]bool{}
		for deadline := time.After(5 * time.Second); !seen["lists"] || !seen["ops+file:///ann"]; {
			select {
			case what := <-ann:
				seen[what] = true
			case <-deadline:
				t.Fatalf("ann was told of %v", seen)
			}
		}
		time.Sleep(200 * time.Millisecond)
		if n := len(bob); n > 0 {
			t.Errorf("bob was told %d times: %s", n, <-bob)
		}
	})
}

// A shared credential's lists outlive its first caller.
func TestListsOutliveTheCallerWhoCameFirst(t *testing.T) {
	t.Parallel()
	srv := newServer(t, nil)
	addEcho(srv, "one")
	var left, down atomic.Bool
	var failed atomic.Int64
	team := gateway.Credential{Key: "team", Authorizer: authorizer(func(o clienthttp.Outgoing) (
		http.Header, error) {
		if down.Load() {
			failed.Add(1)
			return nil, errors.New("not now")
		}
		return asUser("team")(o)
	})}
	u := ops(serveHTTPWith(t, srv, byUser), 0)
	u.Credential = func(_ context.Context, p protocol.Principal) (gateway.Credential, error) {
		if p.Subject == "" || p.Subject == "ann" && left.Load() {
			return gateway.Credential{}, errors.New("no credentials")
		}
		return team, nil
	}
	url := frontByUser(t, u)
	connectAs(t, url, 0, "ann", "ops_one")
	bob := connectAs(t, url, 0, "bob", "ops_one")
	time.Sleep(time.Second) // the gateway listens upstream
	left.Store(true)
	down.Store(true)
	addEcho(srv, "two")
	eventually(func() bool { return failed.Load() > 0 })
	down.Store(false)
	awaitTool(t, bob, "ops_two")
}

// Lists are kept for as many credentials as there may be connections.
func TestListsOfTooManyCredentialsEnd(t *testing.T) {
	srv := newServer(t, nil)
	addEcho(srv, "one")
	var ofAnn atomic.Int64
	u := beforeConnect(ops(serveHTTPWith(t, srv, byUser), 0), func(c gateway.Credential) error {
		if c.Key == "ann" {
			ofAnn.Add(1)
		}
		return nil
	})
	u.Credential = ownCredentials
	_, url := serveGateway(t, &gateway.Options{MaxConnections: 1,
		Upstreams: []gateway.Upstream{u}}, byUser)
	for _, user := range []string{"ann", "ann", "bob", "ann"} {
		wantEqual(t, user+" sees", toolNames(t, connectAs(t, url, 0, user)), "ops_one")
	}
	wantEqual(t, "connections opened for ann", ofAnn.Load(), int64(2))
}

// The lists of a hundred users are not read in each call.
func TestListsOfManyPeopleStay(t *testing.T) {
	t.Parallel()
	const people = 100
	var read atomic.Int64
	srv := newServer(t, countLists(&read))
	addEcho(srv, "one")
	u := ops(serveHTTPWith(t, srv, byUser), 0)
	u.Credential = ownCredentials
	url := frontByUser(t, u)
	for range 4 {
		for i := range people {
			user := fmt.Sprint("person-", i)
			wantText(t, connectAs(t, url, protocol.Modern, user), "ops_one", "for "+user)
		}
	}
	// The gateway has its own lists. All lists are read again when it subscribes to changes.
	if n := read.Load(); n > 2*(people+1) {
		t.Errorf("lists were read %d times", n)
	}
}
