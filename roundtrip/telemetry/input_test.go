package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/telemetry"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

const sampledParent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"

// send calls a tool with any _meta, as a foreign client does.
func send(t testing.TB, srv *server.Server, tool, meta string) *protocol.Response {
	t.Helper()
	params := `{"name":` + quote(tool) + `,"arguments":{"where":"x"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}` + meta + `}}`
	id, err := protocol.ParseID([]byte(`1`))
	noError(t, err)
	response, err := srv.Handle(t.Context(), &protocol.Request{ID: id,
		Method: protocol.MethodCallTool, Params: json.RawMessage(params)}, nil)
	noError(t, err)
	return response
}

func quote(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

func TestAMalformedContextIsIgnored(t *testing.T) {
	for _, meta := range []string{
		``, `,"traceparent":1`, `,"traceparent":null`, `,"traceparent":""`,
		`,"traceparent":"` + sampledParent[:54] + `"`,
		`,"traceparent":"ff` + sampledParent[2:] + `"`,
		`,"traceparent":"` + strings.ToUpper(sampledParent) + `"`,
		`,"traceparent":"00-00000000000000000000000000000000-00f067aa0ba902b7-01"`,
		`,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"`,
		`,"traceparent":"` + strings.Repeat("0", 9000) + `"`,
		`,"tracestate":"a=b"`,
	} {
		b := newBook(t)
		if resp := send(t, b.serve(b.tel("server", trusting)), "deploy", meta); resp.Error != nil {
			t.Errorf("%s: %v", meta, resp.Error)
		}
		b.wants(b.tree(rootless), "server server tools/call deploy round 1\n")
		if spans := b.find("tools/call deploy"); len(spans) != 1 || spans[0].Parent.IsValid() {
			t.Errorf("%s: got %+v", meta, spans)
		}
	}
}

// TestCallersForceNothing: the host's sampler decides, unless the caller is trusted.
func TestCallersForceNothing(t *testing.T) {
	sampled := `,"traceparent":"` + sampledParent + `","tracestate":"a=b"`
	for _, test := range []struct {
		name          string
		trust         func(*server.Request) bool
		sampler       sdk.Sampler
		spans         int
		parent, links bool
	}{
		{"a stranger, where nothing is sampled", nil, sdk.ParentBased(sdk.NeverSample()), 0, false,
			false},
		{"a stranger, where all is", nil, sdk.ParentBased(sdk.AlwaysSample()), 20, false, true},
		{"a trusted one", everybody, sdk.ParentBased(sdk.NeverSample()), 20, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBook(t)
			b.sampler = test.sampler
			srv := b.serve(b.tel("server", telemetry.Options{TrustCaller: test.trust}))
			for range 20 {
				send(t, srv, "deploy", sampled)
			}
			spans := b.find("tools/call deploy")
			if len(spans) != test.spans {
				t.Fatalf("%d spans, want %d", len(spans), test.spans)
			}
			for _, s := range spans {
				state := s.SpanContext.TraceState().String()
				if s.Parent.IsValid() != test.parent || (len(s.Links) == 1) != test.links ||
					(state == "a=b") != test.parent {
					t.Errorf("parent %v, links %v, state %q", s.Parent, s.Links, state)
				}
				if test.links && s.Links[0].SpanContext.TraceState().Len() > 0 {
					t.Error("the link has the tracestate of a stranger")
				}
			}
		})
	}
}

func TestBaggageIsTakenFromWhomTheHostTrusts(t *testing.T) {
	fits, tooLong := "k="+strings.Repeat("v", 4000), "k="+strings.Repeat("v", 10<<10)
	for _, test := range []struct {
		name string
		opts telemetry.Options
		sent string
		want int // bytes of the member
	}{
		{"from a trusted caller", telemetry.Options{TrustCaller: everybody, Baggage: true}, fits,
			4000},
		{"of 10 KiB", telemetry.Options{TrustCaller: everybody, Baggage: true}, tooLong, 0},
		{"of 10 KiB in short members", telemetry.Options{TrustCaller: everybody, Baggage: true},
			strings.Repeat("k=v,", 2560) + "k=v", 0},
		{"from a stranger", telemetry.Options{Baggage: true}, fits, 0},
		{"where it is not wanted", trusting, fits, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBook(t)
			srv := b.serve(b.tel("server", test.opts))
			got := -1
			server.AddTool(srv, server.Tool{Name: "look"}, func(ctx context.Context,
				_ *server.ToolCall, _ target) (protocol.CallToolOutcome, error) {
				got = len(baggage.FromContext(ctx).Member("k").Value())
				return server.Text("done"), nil
			})
			send(t, srv, "look", `,"baggage":`+quote(test.sent))
			read := telemetry.BaggageOf(json.RawMessage(`{"baggage":` + quote(test.sent) + `}`))
			if len(test.sent) > 8<<10 && read != "" {
				t.Errorf("%d bytes of one that is too long are parsed", len(read))
			}
			if got != test.want {
				t.Errorf("%d bytes arrive, want %d", got, test.want)
			}
		})
	}
}

func TestBaggageIsSentWhereWanted(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		b, seen := newBook(t), ""
		peer := &scripted{handle: func(req *protocol.Request) { seen = string(req.Params) }}
		c := b.dial(b.tel("client", telemetry.Options{Baggage: wanted}), peer, 0)
		bag, err := baggage.Parse("k=v")
		noError(t, err)
		_, _ = c.CallTool(baggage.ContextWithBaggage(t.Context(), bag), "x", nil)
		if strings.Contains(seen, `"baggage":"k=v"`) != wanted ||
			!strings.Contains(seen, "traceparent") {
			t.Errorf("wanted %v: sent %s", wanted, seen)
		}
	}
}

// A scripted server follows a test's script, and may ask.
type scripted struct {
	handle func(*protocol.Request)
	refuse func() *protocol.Error // nil: serves all
	ask    string                 // params of a question pushed in a session
}

func (s *scripted) answer(req *protocol.Request, result string) *protocol.Response {
	return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}
}

func (s *scripted) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (
	*protocol.Response, error) {
	if s.handle != nil {
		s.handle(req)
	}
	if s.refuse != nil {
		return &protocol.Response{ID: req.ID, Error: s.refuse()}, nil
	}
	if caller, ok := back.(protocol.BackCaller); ok && s.ask != "" &&
		req.Method == protocol.MethodCallTool {
		id, _ := protocol.ParseID([]byte(`"q"`))
		// As on a stream, which does not identify the asking request.
		_, err := caller.Call(context.Background(), &protocol.Request{ID: id,
			Method: protocol.MethodElicit, Params: json.RawMessage(s.ask)})
		if err != nil {
			return nil, err
		}
	}
	return s.answer(req, `{"resultType":"complete","content":[]}`), nil
}

func (s *scripted) Notify(context.Context, *protocol.Notification) error { return nil }
func (s *scripted) Close() error                                         { return nil }

type scriptedSession struct{ *scripted }

func (s scriptedSession) Done() <-chan struct{} { return nil }
func (s scriptedSession) Err() error            { return nil }

func (s scriptedSession) Probe(context.Context, *protocol.Request) (*protocol.Response, bool,
	error) {
	return nil, true, errors.New("unknown")
}

func (s scriptedSession) OpenSession(_ context.Context, req *protocol.Request,
	_ protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	return s, s.answer(req, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},`+
		`"serverInfo":{"name":"s","version":"1"}}`), nil
}

// TestServersForceNothing: a pushed question neither enters other traces nor decides sampling.
func TestServersForceNothing(t *testing.T) {
	peer := scriptedSession{&scripted{ask: `{"message":"?","requestedSchema":{"type":"object",` +
		`"properties":{"where":{"type":"string"}}},"_meta":{"traceparent":"` + sampledParent + `"}}`}}
	for sampler, want := range map[sdk.Sampler]int{
		sdk.ParentBased(sdk.NeverSample()): 0, sdk.ParentBased(sdk.AlwaysSample()): 1} {
		b := newBook(t)
		b.sampler = sampler
		c := b.dial(b.tel("client", telemetry.Options{}), peer, protocol.Legacy)
		if _, err := c.CallTool(t.Context(), "x", nil); err != nil {
			t.Fatal(err)
		}
		spans := b.find("elicitation/create")
		if len(spans) != want {
			t.Fatalf("%d spans, want %d", len(spans), want)
		}
		for _, s := range spans {
			if s.Parent.IsValid() || len(s.Links) != 1 ||
				s.SpanContext.TraceID().String() == sampledParent[3:35] {
				t.Errorf("parent %v, links %v", s.Parent, s.Links)
			}
		}
	}
}

func TestAServerCannotHaveARequestSampledThatIsNot(t *testing.T) {
	b := newBook(t)
	b.sampler = sdk.ParentBased(sdk.NeverSample())
	script := &scripted{}
	script.handle = func(req *protocol.Request) {
		meta, _ := protocol.Meta(req.Params).Get("_meta")
		raw, _ := protocol.Meta(meta).Get("traceparent")
		script.ask = `{"message":"?","requestedSchema":{"type":"object","properties":{}},"_meta":` +
			`{"traceparent":` + strings.Replace(string(raw), `-00"`, `-01"`, 1) + `}}`
	}
	c := b.dial(b.tel("client", telemetry.Options{}), scriptedSession{script}, protocol.Legacy)
	if _, err := c.CallTool(t.Context(), "x", nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(script.ask, `-01"`) || len(b.exporter.GetSpans()) > 0 {
		t.Errorf("asked with %s, spans %v", script.ask, b.exporter.GetSpans())
	}
}

func TestWhatPeersMakeUpIsNoName(t *testing.T) {
	b := newBook(t)
	srv := b.serve(b.tel("server", telemetry.Options{}))
	server.AddTool(srv, server.Tool{Name: "fails"}, func(context.Context, *server.ToolCall,
		target) (protocol.CallToolOutcome, error) {
		return server.ErrorText("it failed with " + secretAnswer), nil
	})
	server.AddTool(srv, server.Tool{Name: "breaks"}, func(context.Context, *server.ToolCall,
		target) (protocol.CallToolOutcome, error) {
		return nil, errors.New("it broke with " + secretAnswer)
	})
	server.AddTool(srv, server.Tool{Name: "panics"}, func(context.Context, *server.ToolCall,
		target) (protocol.CallToolOutcome, error) {
		panic("with " + secretAnswer)
	})
	for _, tool := range []string{"no\x00such", "fails", "breaks", "panics"} {
		send(t, srv, tool, "")
	}
	id, _ := protocol.ParseID([]byte(`"` + strings.Repeat("i", 1000) + `"`))
	_, _ = srv.Handle(t.Context(), &protocol.Request{ID: id, Method: "made/up",
		Params: json.RawMessage(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}`)}, nil)
	b.wants(b.tree(rootless), `
server server tools/call failed -32602
server server tools/call fails failed tool_error
server server tools/call breaks failed tool_error
server server tools/call failed -32603
server server _OTHER failed -32601
`)
	b.holdsNoSecrets()
	if s := b.find("_OTHER"); len(attributeOf(s[0], "jsonrpc.request.id")) > 64 ||
		attributeOf(s[0], "mcp.method.name") != "_OTHER" {
		t.Errorf("got %v", s[0].Attributes)
	}
}

func TestTextsOfErrorsStayOut(t *testing.T) {
	b := newBook(t)
	tel, err := b.tel("server", telemetry.Options{}), errors.New("with "+secretAnswer)
	where := event.Where{Method: protocol.MethodCallTool, Target: "x", Flow: "f", Round: 1}
	ctx, span := b.provider("server", nil).Tracer("test").Start(t.Context(), "x")
	for _, e := range []event.Event{
		event.ServerBug{Where: where, Err: err}, event.StoreFailed{Where: where, Err: err},
		event.PushFailed{Where: where, Err: err},
		event.HandlerFailed{Where: where, Err: err, Text: err.Error()},
		event.HandlerPanicked{Where: where, Value: err, Text: err.Error(),
			Stack: []byte(secretAnswer)},
	} {
		tel.Observe(ctx, e)
	}
	span.End()
	if events := b.find("x")[0].Events; len(events) != 5 {
		t.Errorf("got %v", events)
	}
	b.holdsNoSecrets()
}

// TestARunOfATaskIsATraceOfItsOwn, linked to the call that began the task.
func TestARunOfATaskIsATraceOfItsOwn(t *testing.T) {
	b := newBook(t)
	srv := b.serve(b.tel("server", trusting))
	_, err := tasks.New(srv, nil)
	noError(t, err)
	server.AddTool(srv, server.Tool{Name: "rebuild", Task: server.TaskCan}, func(
		ctx context.Context, call *server.ToolCall, in target) (protocol.CallToolOutcome, error) {
		if err := roundtrip.BeginTask(ctx); err != nil {
			return nil, err
		}
		return deploy(ctx, call, in)
	})
	tel := b.tel("client", telemetry.Options{})
	c, err := client.New(tel.Peer(srv), tel.Questions(&client.Options{Tasks: true,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(target{secretAnswer})
		}}))
	noError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	b.call(c, "rebuild")
	b.holdsNoSecrets()
	began, runs := trace.SpanContext{}, 0
	for _, s := range b.find("tools/call rebuild") {
		if s.SpanKind == trace.SpanKindServer && s.Parent.IsValid() {
			began = s.SpanContext
		}
	}
	for _, s := range b.find("tools/call rebuild") {
		if s.SpanKind == trace.SpanKindServer && !s.Parent.IsValid() {
			runs++
			if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != began.SpanID() ||
				s.SpanContext.TraceID() == began.TraceID() {
				t.Errorf("a run is linked with %+v, want the call %v", s.Links, began)
			}
		}
	}
	if runs != 3 {
		t.Errorf("%d runs, want 3:\n%s", runs, b.tree(rootless))
	}
}

func TestTheWaitOfPeopleIsAnEvent(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		b := newBook(t)
		peer := b.overStream(b.serve(b.tel("server", trusting)))
		b.call(b.dial(b.tel("client", telemetry.Options{}), peer, era), "deploy")
		waited := 0
		for _, s := range b.find("tools/call deploy") {
			for _, e := range s.Events {
				for _, a := range e.Attributes {
					if e.Name == "mcp.answered" && a.Key == "rondo.waited_ms" &&
						a.Value.AsFloat64() >= 15 {
						waited++
					}
				}
			}
		}
		if waited != 2 {
			t.Errorf("%v: %d answers with the time that they took, want 2", era, waited)
		}
	}
}

// FuzzMeta: nothing panics, and forwarding changes only the trace context.
func FuzzMeta(f *testing.F) {
	f.Add(`{"_meta":{"traceparent":"` + sampledParent + `","a":[1.0]},"x":1e2}`)
	f.Add(`{"_meta":7,"x":{}}`)
	f.Add(`{"_meta":{"baggage":"a=b,c","tracestate":"x=y"}}`)
	f.Add(`[]`)
	f.Add(``)
	p := propagation.TraceContext{}
	parent := p.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": sampledParent, "tracestate": "k=v"})
	f.Fuzz(func(t *testing.T, params string) {
		out := telemetry.AddToParams(parent, json.RawMessage(params))
		var before, after map[string]json.RawMessage
		if json.Unmarshal([]byte(params), &before) != nil || before == nil ||
			string(out) == params { // as with a repeated member
			return
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s becomes %s", params, out)
		}
		var meta map[string]json.RawMessage
		if before["_meta"] == nil ||
			json.Unmarshal(before["_meta"], &meta) == nil && meta != nil {
			if got := telemetry.ParentOf(after["_meta"]); got != sampledParent {
				t.Errorf("%s becomes %s, with the parent %q", params, out, got)
			}
		}
		delete(before, "_meta")
		delete(after, "_meta")
		was, _ := json.Marshal(before)
		if is, _ := json.Marshal(after); string(is) != string(was) {
			t.Errorf("%s becomes %s", params, out)
		}
		telemetry.ParentOf(json.RawMessage(params))
	})
}

func rootless(s tracetest.SpanStub) bool { return !s.Parent.IsValid() }
