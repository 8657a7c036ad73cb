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

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// byUser authenticates whoever the header names.
var byUser = &serverhttp.Options{Authenticate: func(r *http.Request) (protocol.Principal, error) {
	return protocol.Principal{Subject: r.Header.Get("Authorization")}, nil
}}

// asUser is an authorizer that sends a name.
type asUser string

func (u asUser) Credentials(context.Context, clienthttp.Outgoing) (http.Header, error) {
	return http.Header{"Authorization": {string(u)}}, nil
}

func (asUser) Refused(context.Context, clienthttp.Refusal) (bool, error) { return false, nil }

// ownCredentials lets every caller but strangers be itself upstream.
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

func connectAs(t *testing.T, url string, era protocol.Era, user string) *client.Client {
	t.Helper()
	return connectUser(t, url, user, client.Options{ElicitForm: (&person{}).fill, Era: era})
}

func toolNames(t *testing.T, c *client.Client) string {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// addEcho registers a tool and a resource that say who reads them.
func addEcho(srv *server.Server, name string) {
	server.AddTool(srv, server.Tool{Name: name}, func(
		_ context.Context, call *server.ToolCall, _ struct{},
	) (protocol.CallToolOutcome, error) {
		return server.Text("for " + call.Principal.Subject), nil
	})
	server.AddResource(srv, server.Resource{URI: "file:///" + name, Name: name}, func(
		_ context.Context, call *server.ResourceCall,
	) (protocol.ReadResourceOutcome, error) {
		return &protocol.ReadResourceResult{}, nil
	})
}

// startByUser serves an upstream that shows what begins with the name of a user to that user
// alone, and a gateway before it.
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
	_, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
		Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: era, Credential: ownCredentials,
	}}}, byUser)
	return srv, url
}

func TestCallersSeeWhatTheirCredentialsShow(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		_, url := startByUser(t, upstreamEra)
		awaitTool(t, connectAs(t, url, clientEra, "stranger"), "ops_all")
		for user, want := range map[string]string{
			"ann": "ops_all ops_ann", "bob": "ops_all ops_bob", "stranger": "ops_all",
		} {
			c := connectAs(t, url, clientEra, user)
			if got := toolNames(t, c); got != want {
				t.Errorf("%s sees %q, want %q", user, got, want)
			}
			result, err := c.CallTool(t.Context(), "ops_ann", nil)
			if mine := user == "ann"; mine != (err == nil && textOf(result) == "for ann") {
				t.Errorf("%s got %q, %v", user, textOf(result), err)
			}
		}
	})
}

func TestACallFindsItsToolBeforeItsCallerListed(t *testing.T) {
	_, url := startByUser(t, 0)
	result, err := connectAs(t, url, 0, "ann").CallTool(t.Context(), "ops_ann", nil)
	if err != nil || textOf(result) != "for ann" {
		t.Errorf("got %q, %v", textOf(result), err)
	}
}

func TestChangesAreAnnouncedToThoseWhoSeeThem(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		srv, url := startByUser(t, upstreamEra)
		var lists, resources [2]atomic.Int64
		for i, user := range []string{"ann", "bob"} {
			c := connectAs(t, url, clientEra, user)
			awaitTool(t, c, "ops_"+user)
			ready := make(chan struct{})
			go func() {
				_ = c.Listen(t.Context(), protocol.SubscriptionFilter{ToolsListChanged: true,
					ResourceSubscriptions: []string{"ops+file:///ann"},
				}, func(_ context.Context, event client.ListenEvent) {
					switch event.(type) {
					case client.Acknowledged:
						close(ready)
					case client.ResourceUpdated:
						resources[i].Add(1)
					default:
						lists[i].Add(1)
					}
				})
			}()
			<-ready
		}
		time.Sleep(2 * time.Second) // the gateway subscribes upstream
		lists[1].Store(0)
		addEcho(srv, "ann-too")
		srv.ResourceUpdated("file:///ann")
		for range 500 {
			if lists[0].Load() > 0 && resources[0].Load() > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		if lists[0].Load() == 0 || resources[0].Load() == 0 {
			t.Errorf("ann was told of %d and %d", lists[0].Load(), resources[0].Load())
		}
		if lists[1].Load() > 0 || resources[1].Load() > 0 {
			t.Errorf("bob was told of %d and %d", lists[1].Load(), resources[1].Load())
		}
	})
}

// faltering is an authorizer that fails while it is armed.
type faltering struct {
	asUser
	armed  *atomic.Bool
	failed *atomic.Int64
}

func (f faltering) Credentials(ctx context.Context, o clienthttp.Outgoing) (http.Header, error) {
	if f.armed.Load() {
		f.failed.Add(1)
		return nil, errors.New("not now")
	}
	return f.asUser.Credentials(ctx, o)
}

// The lists of a credential that several callers share do not end with the first of them.
func TestListsOutliveTheCallerWhoCameFirst(t *testing.T) {
	t.Parallel()
	srv := newServer(t, nil)
	addEcho(srv, "one")
	var left, down atomic.Bool
	var failed atomic.Int64
	team := gateway.Credential{Key: "team", Authorizer: faltering{"team", &down, &failed}}
	_, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
		Name: "ops", Connect: gateway.HTTP(serveHTTPWith(t, srv, byUser), nil),
		Credential: func(_ context.Context, p protocol.Principal) (gateway.Credential, error) {
			if p.Subject == "" || p.Subject == "ann" && left.Load() {
				return gateway.Credential{}, errors.New("no credentials")
			}
			return team, nil
		},
	}}}, byUser)
	awaitTool(t, connectAs(t, url, 0, "ann"), "ops_one")
	bob := connectAs(t, url, 0, "bob")
	awaitTool(t, bob, "ops_one")
	time.Sleep(time.Second) // the gateway listens upstream
	left.Store(true)
	down.Store(true)
	addEcho(srv, "two")
	for range 500 {
		if failed.Load() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	down.Store(false)
	awaitTool(t, bob, "ops_two")
}

// As many credentials have lists as there may be connections.
func TestListsOfTooManyCredentialsEnd(t *testing.T) {
	srv := newServer(t, nil)
	addEcho(srv, "one")
	dial := gateway.HTTP(serveHTTPWith(t, srv, byUser), nil)
	var ofAnn atomic.Int64
	_, url := serveGateway(t, &gateway.Options{MaxConnections: 1,
		Upstreams: []gateway.Upstream{{Name: "ops", Credential: ownCredentials, Connect: func(
			ctx context.Context, c gateway.Credential,
		) (protocol.Peer, error) {
			if c.Key == "ann" {
				ofAnn.Add(1)
			}
			return dial(ctx, c)
		}}}}, byUser)
	for _, user := range []string{"ann", "ann", "bob", "ann"} {
		if got := toolNames(t, connectAs(t, url, 0, user)); got != "ops_one" {
			t.Errorf("%s sees %q", user, got)
		}
	}
	if n := ofAnn.Load(); n != 2 {
		t.Errorf("%d connections were opened for ann, want 2", n)
	}
}

// The lists of a hundred people are not read for each of their calls.
func TestListsOfManyPeopleStay(t *testing.T) {
	t.Parallel()
	const people = 100
	var read atomic.Int64
	srv := newServer(t, countLists(&read))
	addEcho(srv, "one")
	_, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
		Name: "ops", Credential: ownCredentials,
		Connect: gateway.HTTP(serveHTTPWith(t, srv, byUser), nil)}}}, byUser)
	for range 4 {
		for i := range people {
			user := fmt.Sprint("person-", i)
			result, err := connectAs(t, url, protocol.Modern, user).CallTool(
				t.Context(), "ops_one", nil)
			if err != nil || textOf(result) != "for "+user {
				t.Fatalf("%s got %q, %v", user, textOf(result), err)
			}
		}
	}
	// The gateway has lists of its own. All are read once more when changes are followed.
	if n := read.Load(); n > 2*(people+1) {
		t.Errorf("lists were read %d times", n)
	}
}
