package interop_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
)

// TestRondo connects our client to our server. Transcripts have the HTTP messages.
func TestRondo(t *testing.T) {
	routes := rondoRoutes(client.Options{Timeout: patience})
	http := routes[0].open
	routes[0].open = func(t *testing.T, who *person, mute bool) (peer, said) {
		c, said := http(t, who, mute)
		return c, func() []wiretest.Message {
			messages := said()
			wiretest.Golden(t, "testdata/transcripts/"+strings.Split(t.Name(), "/")[1]+".txtar",
				messages)
			return messages
		}
	}
	matrix(t, modern, both, append(routes, route{"in process", openInProcess},
		route{"replicas", openReplicas}), nil)
}

// In TestRondoLegacy our client opens a session with our server.
func TestRondoLegacy(t *testing.T) {
	matrix(t, v20251125, both,
		rondoRoutes(client.Options{Timeout: patience, Era: protocol.Legacy}), nil)
}

// rondoRoutes returns routes over JSON, event streams and lines, with handlers in both styles.
func rondoRoutes(opts client.Options) []route {
	type open = func(t *testing.T, who *person, mute bool) (peer, said)
	overHTTP := func(s style, with server.Options) open {
		return func(t *testing.T, who *person, mute bool) (peer, said) {
			srv := newSubjectWith(t, s, with)
			endpoint, said := listen(t, servertest.NewHandler(t, srv, nil))
			own := opts
			c := newRondo(t, over(t, endpoint), who, mute, &own)
			if with.Middleware != nil {
				c = wantingProgress{c}
			}
			return c, said
		}
	}
	overStream := func(s style) open {
		return func(t *testing.T, who *person, mute bool) (peer, said) {
			ours, said := serveOnStream(t, newSubjectWith(t, s, server.Options{}))
			own := opts
			return newRondo(t, overLines(ours.r, ours.w), who, mute, &own), said
		}
	}
	reporting := server.Options{Middleware: []server.Middleware{reportProgress}}

	stored := server.Options{Roundtrip: roundtrip.Options{StateStore: store.NewMemoryStateStore(0),
		Limits: roundtrip.Limits{StateBytes: 300}}}
	return []route{
		{"http", overHTTP(guarded, server.Options{})},
		{"events", overHTTP(guarded, reporting)},
		{"stream", overStream(guarded)},
		{"straight-line", overHTTP(straight, server.Options{})},
		{"straight-line, events", overHTTP(straight, reporting)},
		{"straight-line, stream", overStream(straight)},
		{"straight-line, stored states", overHTTP(straight, stored)},
	}
}

// A wantingProgress requests progress with every request.
type wantingProgress struct{ peer }

func (w wantingProgress) do(ctx context.Context, r request) (string, error) {
	return w.peer.do(client.WithProgress(ctx, func(context.Context, *protocol.Progress) {}), r)
}

// reportProgress reports each request's begin and end, so that responses become event streams.
func reportProgress(next server.Handler) server.Handler {
	return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
		if request.Meta.ProgressToken.IsZero() {
			return next(ctx, request)
		}
		report := func(done float64) error {
			params, err := jsonx.Marshal(&protocol.Progress{Token: request.Meta.ProgressToken,
				Progress: done})
			if err != nil {
				return err
			}
			return request.Notify(ctx, &protocol.Notification{Method: protocol.NotifyProgress,
				Params: params})
		}
		if err := report(0.5); err != nil {
			return nil, err
		}
		result, err := next(ctx, request)
		if err := report(3); err != nil {
			return nil, err
		}
		return result, err
	}
}

// openInProcess calls the server without a transport.
func openInProcess(t *testing.T, who *person, mute bool) (peer, said) {
	over := &recordedPeer{Peer: newSubject(t), t: t}
	return connectRondo(t, over, who, mute), over.log.Messages
}

type recordedPeer struct {
	protocol.Peer
	t   testing.TB
	log wiretest.Log
}

func (p *recordedPeer) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	p.add(wiretest.Client, req)
	resp, err := p.Peer.Handle(ctx, req, back)
	if err == nil {
		p.add(wiretest.Server, resp)
	}
	return resp, err
}

func (p *recordedPeer) add(from wiretest.From, m protocol.Message) {
	text, err := protocol.AppendMessage(nil, m)
	if err != nil {
		p.t.Errorf("message of the %s: %v", from, err)
	}
	p.log.Add(from, text)
}

// openReplicas sends each request to another of three servers, which share only a key.
func openReplicas(t *testing.T, who *person, mute bool) (peer, said) {
	ring, err := keys.KeyringFromEnv(func(string) (string, bool) { return replicaKey, true }, "K")
	noError(t, err)
	var replicas []http.Handler
	for range 3 {
		srv := newSubjectWith(t, guarded,
			server.Options{Roundtrip: roundtrip.Options{Sealer: ring}})
		replicas = append(replicas, servertest.NewHandler(t, srv, nil))
	}
	var next atomic.Int64
	endpoint, said := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		replicas[next.Add(1)%3].ServeHTTP(w, r)
	}))
	return dialRondo(t, endpoint, who, mute), said
}

// A client learns the schema from the refusal of a call, for each leg of the flow.
func TestArgumentsTravelInHeaders(t *testing.T) {
	srv := newSubject(t)
	server.AddTool(srv, server.Tool{Name: "place", InputSchema: []byte(`{"type":"object",` +
		`"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		func(ctx context.Context, _ *server.ToolCall, in database) (protocol.CallToolOutcome,
			error) {
			if _, ok := confirm.AcceptedContent(ctx); !ok {
				return roundtrip.InputRequired(confirm.Elicit("Sure?")), nil
			}
			return server.Text(in.Region), nil
		})
	for _, region := range []string{"eu", "ñandú", " x ", "=?base64?"} {
		t.Run(region, func(t *testing.T) {
			endpoint, said := listen(t, servertest.NewHandler(t, srv, nil))
			who := newPerson(t, answers{"Sure?": `{"reason":"because"}`})
			got, err := dialRondo(t, endpoint, who, false).do(within(t, patience),
				tool("place", map[string]string{"region": region}))
			if err != nil || got != region {
				t.Errorf("got %q, %v, want %q", got, err, region)
			}
			messages := said()
			conform(t, modern, both, messages, "")
			header := "Mcp-Param-Region: " + rules.EncodeValue(region)
			carried := 0
			for _, m := range messages {
				if m.From == wiretest.Client && slices.Contains(m.Header, header) {
					carried++
				}
			}
			if carried != 2 {
				t.Errorf("%d requests carry %s, want 2", carried, header)
			}
		})
	}
}
